//! Delivery: verification, order, room, and what is said of events that are not delivered.

use std::time::Duration;

use buzz_proto::config::Consumer;
use buzz_proto::ids::Ticket;
use buzz_proto::note::{GapWhy, Note, RefusedWhy, StaleWhat};
use buzz_proto::relay::{Action, Command, Disposal, Input, Interest, Relay, Sub};
use buzz_proto::schedule;
use buzz_proto::seed::Seed;
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_sim::relay::{channel_sub, given, script, with_consumer, with_slots};
use buzz_sim::script::Script;
use buzz_sim::toy::{self, ME, START, Toy, channel};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn verdicts_in_any_order_keep_the_order_of_each_subscription() {
    let mut relay = live(&[1, 2], 256);
    let [a, b, c] = [1, 2, 3].map(|n| Toy::mention(n, channel(1)));
    let other = Toy::mention(4, channel(2));
    let [first, second, third] = [&a, &b, &c].map(|event| arrive(&mut relay, 1, event));
    let fourth = arrive(&mut relay, 2, &other);
    relay.verified(third, true).expect([]);
    relay.verified(fourth, true).expect([deliver(2, &other)]);
    relay.verified(second, true).expect([]);
    relay.verified(first, true);
    relay.expect([deliver(1, &a), deliver(1, &b), deliver(1, &c)]);
}

#[test]
fn a_forged_copy_is_not_delivered_and_does_not_block_the_genuine() {
    let mut relay = live(&[1], 256);
    let genuine = Toy::mention(1, channel(1));
    let forged = genuine.clone().content("not what was signed");
    let copy = arrive(&mut relay, 1, &forged);
    let original = arrive(&mut relay, 1, &genuine);
    relay.notes();
    relay.verified(copy, false).expect([]);
    let (event, why) = (toy::id(1), RefusedWhy::NotGenuine);
    relay.expect_notes([Note::Refused { event, why }]);
    relay
        .verified(original, true)
        .expect([deliver(1, &genuine)]);
}

#[test]
fn a_forged_copy_that_comes_after_the_genuine_is_not_even_verified() {
    let mut relay = live(&[1], 256);
    let genuine = Toy::mention(1, channel(1));
    relay.event(&channel_sub(1, 1), &genuine);
    relay.expect([deliver(1, &genuine)]);
    let forged = genuine.content("not what was signed");
    relay.frame(toy::event_frame(&channel_sub(1, 1), &forged));
    relay.expect([]);
}

#[test]
fn an_event_whose_verdict_does_not_come_is_owed_and_blocks_no_longer() {
    let mut relay = live(&[1], 256);
    let [lost, next] = [1, 2].map(|n| Toy::mention(n, channel(1)));
    let late = arrive(&mut relay, 1, &lost);
    let second = arrive(&mut relay, 1, &next);
    relay.verified(second, true).expect([]).notes();
    relay.quiet_for(10 * SECOND).tick();
    relay.expect([deliver(1, &next)]);
    relay.expect_notes([behind(1)]);
    relay.verified(late, true).expect([]);
    let what = StaleWhat::Verification;
    relay.expect_notes([Note::Stale { what }]);
    relay.quiet_for(5 * SECOND).tick();
    assert_eq!(relay.requested(), ["page-2"]);
    relay.page("page-2", &[&lost]).expect([deliver(1, &lost)]);
    relay.expect_notes([caught_up(1, 1)]);
}

#[test]
fn an_owed_event_that_comes_by_itself_is_not_read_again() {
    let mut relay = live(&[1], 256);
    let event = Toy::mention(1, channel(1));
    arrive(&mut relay, 1, &event);
    relay.quiet_for(10 * SECOND).tick().expect([]);
    relay.notes();
    relay.event(&channel_sub(1, 1), &event);
    relay.expect([deliver(1, &event)]);
    relay.expect_notes([caught_up(1, 1)]);
    relay.alive_for(60 * SECOND);
}

#[test]
fn what_found_the_table_of_pending_verdicts_full_is_read_again() {
    let mut config = given(&[1]);
    config.limits.verify_max = 2;
    let mut relay = script(config);
    relay.live();
    relay.confirmed(&[channel_sub(1, 1)]);
    let first = arrive(&mut relay, 1, &Toy::mention(1, channel(1)));
    let next = Toy::mention(2, channel(1));
    let second = arrive(&mut relay, 1, &next);
    let third = Toy::mention(3, channel(1));
    relay.frame(toy::event_frame(&channel_sub(1, 1), &third));
    assert_eq!(relay.requested(), ["page-2"]);
    relay.page("page-2", &[&third]).expect([]);
    relay.verified(first, true);
    let orders = relay.timed_orders();
    let (Action::Deliver { .. }, Action::Verify { ticket, .. }) = (&orders[0].1, &orders[1].1)
    else {
        relay.fail("no room for what was read");
    };
    relay.verified(*ticket, true).expect([]);
    relay.verified(second, true);
    relay.expect([deliver(1, &next), deliver(1, &third)]);
}

#[test]
fn a_frame_that_is_repeated_takes_no_more_room_and_another_copy_without_room_is_read_again() {
    let mut config = given(&[1]);
    config.limits.verify_max = 2;
    let mut relay = script(config);
    relay.live();
    relay.confirmed(&[channel_sub(1, 1)]);
    let event = Toy::mention(1, channel(1));
    arrive(&mut relay, 1, &event);
    for _ in 0..2000 {
        relay.frame(toy::event_frame(&channel_sub(1, 1), &event));
    }
    relay.expect([]).expect_notes([]);
    arrive(&mut relay, 1, &Toy::mention(2, channel(1)));
    // Nobody knows yet which of the two is genuine.
    let copy = event.content("not what was signed");
    relay.frame(toy::event_frame(&channel_sub(1, 1), &copy));
    assert_eq!(relay.requested(), ["page-2"]);
    relay.expect_notes([]);
}

#[test]
fn what_is_not_owed_is_no_gap() {
    let mut config = given(&[1]);
    config.limits.verify_max = 1;
    let mut relay = script(config);
    relay.live().requested();
    relay.written().notes();
    arrive(&mut relay, 1, &Toy::mention(1, channel(1)));
    let second = Toy::mention(2, channel(1));
    relay.frame(toy::event_frame(&channel_sub(1, 1), &second));
    relay.expect([]).expect_notes([]);
    relay.quiet_for(10 * SECOND).tick();
    relay.expect([]).expect_notes([]);
}

#[test]
fn a_command_passes_a_full_queue_and_is_counted_until_it_has_left() {
    let mut schedule = schedule::Config::new(1);
    schedule.limits.channel_max = 1;
    let consumer = Consumer::Workers(Box::new(schedule));
    let mut relay = with_consumer(given(&[1]), &consumer);
    relay.live();
    relay.confirmed(&[channel_sub(1, 1)]);
    let waits = Toy::mention(1, channel(1));
    relay.event(&channel_sub(1, 1), &waits);
    relay.expect([deliver(1, &waits)]);
    relay.event(&channel_sub(1, 1), &Toy::mention(2, channel(1)));
    relay.expect([]).expect_notes([behind(1)]);
    for (n, text) in (3..).zip(["!cancel", " !rotate\n", "!shutdown"]) {
        let command = Toy::mention(n, channel(1)).content(text);
        relay.event(&channel_sub(1, 1), &command);
        relay.expect([deliver(1, &command)]);
    }
    let sub = Sub::Channel(channel(1));
    relay.input(Input::Left { sub, count: 3 });
    relay.event(&channel_sub(1, 1), &Toy::mention(6, channel(1)));
    relay.expect([]).notes();
    relay.input(Input::Left { sub, count: 9 });
    assert_eq!(relay.requested(), ["page-2"]);
    let next = Toy::mention(7, channel(1));
    relay.event(&channel_sub(1, 1), &next);
    relay.expect([deliver(1, &next)]);
}

#[test]
fn a_subscription_holds_at_most_a_quarter_of_the_bytes() {
    let mut config = given(&[1, 2]);
    config.limits.bytes_max = 4 << 20;
    let mut relay = with_slots(config, 256);
    relay.live();
    relay.confirmed(&[channel_sub(1, 1), channel_sub(2, 2)]);
    let large = "x".repeat(600_000);
    let [first, second, third] = [1, 2, 3].map(|n| Toy::mention(n, channel(1)).content(&large));
    relay.event(&channel_sub(1, 1), &first);
    relay.expect([deliver(1, &first)]);
    relay.event(&channel_sub(1, 1), &second);
    relay.expect([]).expect_notes([behind(1)]);
    let other = Toy::mention(4, channel(2)).content(&large);
    relay.event(&channel_sub(2, 2), &other);
    relay.expect([deliver(2, &other)]);
    relay.input(Input::Capacity { taken: 1 });
    assert_eq!(relay.requested(), ["page-3"]);
    relay.event(&channel_sub(1, 1), &third);
    relay.expect([deliver(1, &third)]);
}

#[test]
fn the_table_of_pending_verdicts_has_a_largest_size() {
    let mut config = given(&[1]);
    for (verify_max, fits) in [(8192, true), (8193, false)] {
        config.limits.verify_max = verify_max;
        let consumer = Consumer::External { slots: 1 };
        let relay = Relay::new(config.clone(), ME, &consumer, Seed(7), MonoTime::ZERO);
        assert_eq!(relay.is_ok(), fits);
    }
}

#[test]
fn events_beyond_the_consumers_room_are_read_again_when_it_has_taken_half() {
    let mut relay = live(&[1], 2);
    for n in 1..3 {
        relay.event(&channel_sub(1, 1), &Toy::mention(n, channel(1)));
        assert_eq!(relay.orders().len(), 1);
    }
    let third = Toy::mention(3, channel(1));
    relay.event(&channel_sub(1, 1), &third);
    relay.expect([]).expect_notes([behind(1)]);
    relay.quiet_for(SECOND).input(Input::Capacity { taken: 1 });
    assert_eq!(relay.requested(), ["page-2"]);
    relay.page("page-2", &[&third]).expect([deliver(1, &third)]);
    relay.expect_notes([caught_up(1, 1)]);
    relay.event(&channel_sub(1, 1), &Toy::mention(4, channel(1)));
    relay.expect([]).expect_notes([behind(1)]);
}

#[test]
fn an_event_that_no_relay_stores_and_that_finds_no_room_is_a_gap_at_once() {
    let mut relay = script(given(&[]));
    relay.live();
    relay.command(Command::Subscribe {
        channel: channel(1),
        interest: Some(Interest::default()),
        floor: None,
    });
    relay.confirmed(&[channel_sub(1, 1)]);
    relay.input(Input::ConsumerGone);
    let ephemeral = Toy::mention(1, channel(1)).kind(20_001);
    relay.event(&channel_sub(1, 1), &ephemeral).expect([]);
    relay.expect_notes([gap(1, GapWhy::NoRoom)]);
}

#[test]
fn a_count_of_taken_events_that_falls_or_runs_ahead_is_corrected() {
    let mut relay = live(&[1], 1);
    relay.input(Input::Capacity { taken: u64::MAX });
    relay.event(&channel_sub(1, 1), &Toy::mention(1, channel(1)));
    assert_eq!(relay.orders().len(), 1);
    relay.input(Input::Capacity { taken: u64::MAX });
    relay.input(Input::Capacity { taken: 0 });
    relay.event(&channel_sub(1, 1), &Toy::mention(2, channel(1)));
    assert_eq!(relay.orders().len(), 1);
    relay.event(&channel_sub(1, 1), &Toy::mention(3, channel(1)));
    relay.expect([]);
}

#[test]
fn after_the_consumer_is_gone_every_event_is_owed_and_a_gap_at_the_end() {
    let mut relay = live(&[1], 256);
    relay.input(Input::ConsumerGone);
    relay.event(&channel_sub(1, 1), &Toy::mention(1, channel(1)));
    relay.expect([]).expect_notes([behind(1)]);
    relay.alive_for(120 * SECOND).notes();
    let grace = SECOND;
    relay.command(Command::Shutdown { grace }).orders();
    assert_eq!(relay.notes()[0], gap(1, GapWhy::ConsumerGone));
}

#[test]
fn what_is_owed_at_the_end_is_a_gap() {
    let mut relay = live(&[1], 1);
    for n in 1..3 {
        relay.event(&channel_sub(1, 1), &Toy::mention(n, channel(1)));
        relay.orders();
    }
    relay.notes();
    let grace = SECOND;
    relay.command(Command::Shutdown { grace }).orders();
    assert_eq!(relay.notes()[0], gap(1, GapWhy::Ended));
}

#[test]
fn what_the_relay_does_not_have_is_told_though_more_is_owed_at_the_end() {
    let mut relay = live(&[1], 2);
    let events = [1, 2, 3, 4, 5, 6].map(|n| Toy::mention(n, channel(1)));
    for event in &events[..4] {
        relay.event(&channel_sub(1, 1), event).orders();
    }
    relay.input(Input::Capacity { taken: 2 });
    assert_eq!(relay.requested(), ["page-2"]);
    for event in &events[4..] {
        relay.event(&channel_sub(1, 1), event);
        relay.expect([deliver(1, event)]);
    }
    relay.page("page-2", &[&events[3]]).expect([]).notes();
    let grace = SECOND;
    relay.command(Command::Shutdown { grace }).orders();
    let gaps = [gap(1, GapWhy::NotStored), gap(1, GapWhy::Ended)];
    assert_eq!(relay.notes()[..2], gaps);
}

#[test]
fn an_event_that_the_consumer_hands_back_can_be_delivered_again() {
    let mut relay = live(&[1], 256);
    let event = Toy::mention(1, channel(1));
    for how in [Disposal::RefusedForNow, Disposal::Accepted] {
        relay.event(&channel_sub(1, 1), &event);
        relay.expect([deliver(1, &event)]);
        let event = toy::id(1);
        relay.input(Input::Disposed { event, how });
    }
    relay.frame(toy::event_frame(&channel_sub(1, 1), &event));
    relay.expect([]);
}

#[test]
fn an_event_of_a_channel_that_was_let_go_meanwhile_is_dropped() {
    let mut relay = live(&[1], 256);
    let ticket = arrive(&mut relay, 1, &Toy::mention(1, channel(1)));
    let channel = channel(1);
    relay.command(Command::Unsubscribe { channel }).orders();
    relay.verified(ticket, true).expect([]);
}

#[test]
fn a_verdict_outlives_the_socket_that_brought_its_event() {
    let mut relay = live(&[1], 256);
    let event = Toy::mention(1, channel(1));
    let ticket = arrive(&mut relay, 1, &event);
    relay.closed(None);
    relay.expect([Action::Link { live: false }]);
    relay.verified(ticket, true).expect([deliver(1, &event)]);
}

#[test]
fn an_event_dated_far_ahead_is_delivered() {
    let mut relay = live(&[1], 256);
    let ahead = START.after(Duration::from_secs(900));
    let event = Toy::mention(1, channel(1)).dated(ahead);
    relay.event(&channel_sub(1, 1), &event);
    relay.expect([deliver(1, &event)]);
}

#[test]
fn an_event_that_is_forgotten_although_it_may_come_again_is_noted() {
    let mut config = given(&[1]);
    config.limits.seen_max = 3;
    // What lies before all that is ever read again can only be handed back. The request looked
    // back a second further than the next read will.
    let old = START.before(1081 * SECOND);
    for (how, forgets) in [(Some(Disposal::Accepted), None), (None, Some(old))] {
        let mut relay = script(config.clone());
        relay.live_with_auth().requested();
        let stored = Toy::mention(9, channel(1));
        relay.written().event(&channel_sub(1, 1), &stored);
        relay.expect([deliver(1, &stored)]);
        relay.frame(toy::eose(&channel_sub(1, 1))).orders();
        relay.notes();
        is_delivered(&mut relay, &Toy::mention(0, channel(1)).dated(old), None);
        if let Some(how) = how {
            let event = toy::id(0);
            relay.input(Input::Disposed { event, how });
        }
        for (n, forgets) in [(1, None), (2, forgets), (3, Some(START))] {
            is_delivered(&mut relay, &Toy::mention(n, channel(1)), forgets);
        }
    }
}

/// An event comes and is delivered; one of this date is forgotten for it.
fn is_delivered(relay: &mut Script<Relay>, event: &Toy, forgets: Option<UnixTime>) {
    relay.event(&channel_sub(1, 1), event);
    relay.expect([deliver(1, event)]);
    let notes: Vec<_> = forgets
        .map(|dated| Note::DedupShort { dated })
        .into_iter()
        .collect();
    assert_eq!(relay.notes(), notes);
}

fn live(channels: &[u8], slots: u32) -> Script<Relay> {
    let mut relay = with_slots(given(channels), slots);
    let names: Vec<_> = (1..)
        .zip(channels)
        .map(|(n, channel)| channel_sub(*channel, n))
        .collect();
    relay.live();
    relay.confirmed(&names);
    relay
}

/// An event of channel `n`; the ticket of its verification.
fn arrive(relay: &mut Script<Relay>, n: u8, event: &Toy) -> Ticket {
    let sub = channel_sub(n, u64::from(n));
    relay.frame(toy::event_frame(&sub, event));
    let asked = relay.asked_to_verify();
    assert_eq!(asked[0].1, event.event());
    asked[0].0
}

fn deliver(n: u8, event: &Toy) -> Action {
    let (sub, event) = (Sub::Channel(channel(n)), event.event());
    Action::Deliver {
        sub,
        event,
        lives: 0,
    }
}

fn behind(n: u8) -> Note {
    Note::Behind {
        sub: Sub::Channel(channel(n)),
        dated: START,
    }
}

fn caught_up(n: u8, count: u64) -> Note {
    let sub = Sub::Channel(channel(n));
    Note::CaughtUp { sub, count }
}

fn gap(n: u8, why: GapWhy) -> Note {
    Note::Gap {
        sub: Sub::Channel(channel(n)),
        count: Some(1),
        from: START,
        to: START,
        why,
    }
}
