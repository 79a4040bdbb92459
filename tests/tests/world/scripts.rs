//! What a world is like, and what the machine makes of plain trouble in it.

use buzz_dev_relay::faults::{CannedReply, Fault, Target};
use buzz_proto::note::{LinkNote, Note, SubPhase};
use buzz_proto::trace::Replay;
use buzz_sim::world::{Pace, Person, Way, WorldError, channel, config};

use crate::support::*;

#[test]
fn two_runs_with_one_seed_are_the_same_to_the_last_fact() {
    let run = |seed| {
        let mut world = live(config(8), seed);
        publish(&mut world, 20);
        world.cut_connection();
        world.set_pace(Pace::Eager);
        world.run_for(MINUTE);
        (world.digest(), world.delivered().len(), world.notes().len())
    };

    let first = run(7);

    assert_eq!(first, run(7));
    assert_ne!(first.0, run(8).0);
}

#[test]
fn the_consumer_is_given_as_much_as_it_has_room_for_and_takes_the_oldest_first() {
    let mut world = live(config(8), 7);
    let published = publish(&mut world, 10);

    assert_eq!(delivered(&world), published[..8]);
    assert_eq!(world.waiting(), 8);
    world.consumer_takes(3);
    let later = publish(&mut world, 5);

    assert_eq!(world.waiting(), 8);
    let given = delivered(&world);
    assert!(later[..3].iter().all(|id| given.contains(id)), "{given:?}");
    assert_eq!(world.duplicates(), 0);
}

#[test]
fn the_relay_meters_people_with_its_real_quota() {
    let mut world = live(config(512), 7);
    let mut post = |number: u32| world.publish(Person(1), channel(1), &number.to_string(), None);
    for number in 0..300 {
        post(number).expect("it is within the quota");
    }

    let refused = post(300);

    let WorldError::Refused(text) = refused.expect_err("the quota is used up") else {
        panic!("it was not the relay");
    };
    assert!(text.contains("rate-limited: quota exceeded"), "{text}");
    assert_eq!(world.owed().len(), 300);
}

#[test]
fn the_send_buffer_holds_a_thousand_frames_and_drops_what_comes_then() {
    let mut world = live(config(2048), 7);
    world.stall_relay(true);

    publish(&mut world, 1005);
    assert_eq!(world.relay_stats().frames_dropped, 5);
    assert_eq!(world.delivered().len(), 0);
    world.stall_relay(false);
    world.run_for(SOON);

    assert_eq!(world.delivered().len(), 1000);
    assert_eq!(world.undelivered().count(), 5);
}

#[test]
fn after_a_cut_the_agent_is_back_in_two_seconds_and_asks_for_each_channel_once() {
    let mut world = live(config(8), 7);
    let before = world.requests().len();
    world.cut_connection();
    let missed = publish(&mut world, 2);
    world.run_for(SOON);

    assert_eq!(delivered(&world), missed);
    assert_eq!(world.subscriptions(), 3);
    let histories = world.requests()[before..]
        .iter()
        .filter(|it| it.is_history());
    assert_eq!(histories.count(), 2);
}

#[test]
fn without_a_network_every_dial_fails_and_what_was_missed_comes_afterwards() {
    let mut world = live(config(256), 7);
    world.set_online(false);
    let missed = publish(&mut world, 150);
    world.run_for(5 * MINUTE);
    let failed = |(_, note): &&_| matches!(note, Note::Link(LinkNote::Failed { .. }));

    assert!(world.notes().iter().filter(failed).count() > 0);
    assert_eq!(world.delivered().len(), 0);
    world.set_online(true);
    world.run_for(2 * MINUTE);

    let mut given = delivered(&world);
    given.sort();
    let mut missed = missed;
    missed.sort();
    assert_eq!(given, missed);
}

#[test]
fn a_history_without_its_end_is_asked_for_again() {
    let mut world = world(config(8), 7);
    let cut = Fault::CutHistory(0);
    world.faults_mut().arm(cut, Target::Everyone, 1);
    world.run_for(30 * SOON);
    let unconfirmed = world.subscriptions();
    world.run_for(2 * MINUTE);
    let given_up = |(_, note): &&_| {
        let phase = SubPhase::Unconfirmed;
        matches!(note, Note::Subscription { phase: it, .. } if *it == phase)
    };

    assert_eq!(unconfirmed, 2);
    assert_eq!(world.subscriptions(), 3);
    assert_eq!(world.notes().iter().filter(given_up).count(), 1);
}

#[test]
fn a_relay_that_answers_no_queries_is_asked_for_the_roster_over_the_socket() {
    let mut world = world(config(8), 7);
    let agent = Target::Key(world.agent_key().to_owned());
    let absent = CannedReply::error(404, "not found");
    world
        .faults_mut()
        .arm(Fault::FailQuery(absent), agent, u64::MAX);
    world.run_for(10 * SOON);
    let failed = |(_, note): &&_| matches!(note, Note::RosterFailed { .. });

    assert_eq!(world.notes().iter().filter(failed).count(), 0);
    let queries = world.requests().iter().filter(|it| it.way == Way::Query);
    assert_eq!(queries.count(), 1);
    assert_eq!(world.subscriptions(), 3);
}

#[test]
fn a_channel_that_is_opened_later_is_followed_at_once() {
    let mut world = live(config(8), 7);
    world.open_channel(channel(3)).expect("it is new");
    world.run_for(SOON);
    let id = world.publish(Person(1), channel(3), "welcome", None);
    world.run_for(SOON);

    assert_eq!(world.subscriptions(), 4);
    assert_eq!(delivered(&world), [id.expect("the relay takes it")]);
}

#[test]
fn a_killed_agent_starts_anew_and_what_it_held_goes_with_it() {
    let mut world = live(config(8), 7);
    publish(&mut world, 3);
    world.restart().expect("its settings work");
    assert_eq!(world.waiting(), 0);
    world.run_for(MINUTE);
    let fresh = publish(&mut world, 1);

    let last = world.delivered().last().expect("something was delivered");
    assert_eq!((last.event.id(), last.life), (fresh[0], 1));
    assert_eq!(world.relay_stats().connections_open, 1);
}

#[test]
fn the_trace_of_each_life_replays_to_the_same_orders() {
    let mut world = world(config(8), 7);
    world.record();
    world.run_for(MINUTE);
    publish(&mut world, 10);
    let first = world.trace().to_vec();
    world.restart().expect("its settings work");
    world.run_for(MINUTE);

    for trace in [first.as_slice(), world.trace()] {
        let (head, calls) = trace.split_first().expect("it has a head");
        let mut replay = Replay::new(head).expect("the head is that of a trace");
        for call in calls {
            let step = replay.step(call).expect("the line is a call");
            assert_eq!(step.difference(), None, "{call}");
        }
        assert!(calls.len() > 20);
        assert!(calls[0].starts_with("{\"t\":0,"), "its clock began at zero");
    }
}

#[test]
fn heartbeats_keep_a_quiet_connection_for_hours() {
    let mut world = live(config(8), 7);
    world.run_for(120 * MINUTE);
    let lost = |(_, note): &&_| matches!(note, Note::Link(LinkNote::Lost { .. }));

    assert_eq!(world.notes().iter().filter(lost).count(), 0);
    assert!(world.relay_stats().pongs > 200);
    assert_eq!(world.relay_stats().connections, 1);
    assert_eq!(publish(&mut world, 1), delivered(&world));
}

#[test]
fn what_an_author_dates_back_is_delivered_live() {
    let mut world = live(config(8), 7);
    let dated = world.wall().before(10 * MINUTE);
    let id = world
        .publish(Person(1), channel(2), "late", Some(dated))
        .expect("the relay takes fifteen minutes");
    world.run_for(SOON);

    assert_eq!(delivered(&world), [id]);
    assert_eq!(world.delivered()[0].event.created_at(), dated);
}
