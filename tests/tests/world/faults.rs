//! A relay that drops frames, breaks off and fails.

use buzz_dev_relay::faults::{CannedReply, Fault, Target};
use buzz_dev_relay::rules::Settings;
use buzz_proto::note::{Note, ReadFailure};
use buzz_sim::world::{Pace, World, config};

use crate::support::*;

/// Room for so many frames towards the agent.
const QUEUE: u32 = 150;
/// Live mentions that the relay drops.
const DROPPED: u32 = 5;

#[test]
fn live_events_that_the_relay_dropped_come_after_its_signal_on_the_same_connection() {
    let mut world = with_drops();
    world.inject(r#"["BUZZ_SYNC_REQUIRED","backpressure"]"#);
    world.run_for(10 * SOON);

    assert_whole(&world);
    assert_within_quotas(&world);
    assert_eq!(world.relay_stats().connections, 1);
}

#[test]
fn live_events_that_the_relay_dropped_come_with_the_next_connection() {
    let mut world = with_drops();
    world.cut_connection();
    world.run_for(10 * SOON);

    assert_whole(&world);
    assert_within_quotas(&world);
}

#[test]
fn signals_in_quick_succession_are_no_reason_to_ask_in_quick_succession() {
    let mut world = eager(32, 7);
    let begun = world.now();
    for _ in 0..600 {
        mention(&mut world, 1, None);
        world.inject(r#"["BUZZ_SYNC_REQUIRED","backpressure"]"#);
        world.run_for(SOON);
    }

    assert_whole(&world);
    assert_within_quotas(&world);
    let requests = histories(&world, begun);
    assert!(requests <= 60, "{requests} requests");
}

#[test]
fn histories_that_break_off_and_ends_that_are_missing_lose_nothing() {
    for (fault, times) in [
        (Fault::CutHistory(0), 3),
        (Fault::CutHistory(30), 5),
        (Fault::CutHistory(120), 5),
        (Fault::SwallowEose, 4),
    ] {
        let mut world = after_outage(400);
        arm(&mut world, fault.clone(), times);
        world.run_for(15 * MINUTE);

        assert_whole(&world);
        assert_within_quotas(&world);
    }
}

#[test]
fn calls_that_fail_within_a_full_second_are_made_again() {
    let mut world = eager(256, 7);
    world.set_online(false);
    publish_in(&mut world, 1, 450, ms(0));
    world.set_online(true);
    let busy = CannedReply::error(503, "relay: database unavailable");
    arm(&mut world, Fault::FailQuery(busy), 2);
    world.run_for(5 * MINUTE);

    assert_whole(&world);
}

#[test]
fn an_empty_history_where_there_should_be_events_is_not_believed() {
    let mut world = eager(256, 7);
    publish(&mut world, 3);
    world.set_online(false);
    publish_in(&mut world, 1, 80, ms(20));
    arm(&mut world, Fault::EmptyHistory, 3);
    world.set_online(true);
    world.run_for(SOON);
    assert_eq!(world.undelivered().count(), 80);
    world.run_for(MINUTE);

    assert_whole(&world);
    assert_within_quotas(&world);
}

#[test]
fn a_page_that_comes_empty_after_an_error_is_asked_for_again() {
    let mut world = live(config(4), 7);
    publish(&mut world, 20);
    arm(&mut world, Fault::EmptyHistory, 2);
    world.set_pace(Pace::Eager);
    world.run_for(SOON);
    assert_eq!(world.delivered().len(), 4);
    world.run_for(2 * MINUTE);

    let is_doubt = |(_, note): &(_, Note)| {
        let why = ReadFailure::Empty;
        matches!(note, Note::ReadFailed { why: it, .. } if *it == why)
    };
    assert!(world.notes().iter().any(is_doubt));
    assert_whole(&world);
}

#[test]
fn refusals_of_requests_lose_nothing() {
    let mut world = after_outage(400);
    let text = "rate-limited: quota exceeded; retry in 4s";
    arm(&mut world, Fault::RefuseReq(text.to_owned()), 4);
    world.run_for(SOON);
    let text = "error: database error";
    arm(&mut world, Fault::RefuseReq(text.to_owned()), 4);
    world.run_for(10 * MINUTE);

    assert_whole(&world);
}

/// A world in which the relay had no room for the last live mentions, and said nothing.
fn with_drops() -> World {
    let settings = Settings {
        queue_frames: QUEUE as usize,
        ..Settings::default()
    };
    let mut world = stand(world_of(2, config(256), settings, 7), 2);
    world.set_pace(Pace::Eager);
    world.stall_relay(true);
    publish(&mut world, QUEUE + DROPPED);
    world.stall_relay(false);
    world.run_for(SOON);
    assert_eq!(world.relay_stats().frames_dropped, u64::from(DROPPED));
    assert_eq!(world.undelivered().count(), DROPPED as usize);
    world
}

/// A world whose agent missed so many mentions and dials at this moment.
fn after_outage(count: u32) -> World {
    let mut world = eager(256, 7);
    publish(&mut world, 3);
    world.set_online(false);
    publish_in(&mut world, 1, count, ms(20));
    world.set_online(true);
    world
}

fn arm(world: &mut World, fault: Fault, times: u64) {
    let agent = Target::Key(world.agent_key().to_owned());
    world.faults_mut().arm(fault, agent, times);
}
