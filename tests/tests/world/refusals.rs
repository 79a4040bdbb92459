//! What is told while a relay refuses for long.

use std::collections::BTreeMap;
use std::time::Duration;

use buzz_dev_relay::client::tag;
use buzz_dev_relay::faults::{CannedReply, Fault, Target};
use buzz_proto::ids::JobId;
use buzz_proto::input::Input;
use buzz_proto::note::Note;
use buzz_proto::publish::{self, Body, Class, Route};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Draft;
use buzz_sim::world::{World, channel, config};

use crate::support::*;

/// How long the relay refuses.
const STORM: Duration = Duration::from_secs(600);
/// As much as an operator reads in a minute.
const NOTES_MAX: usize = 25;
/// How long the relay asks to be left alone, next to nothing and longer than any window.
const HINTS: [&str; 9] = [
    "",
    "; retry in 0s",
    "; retry in 1s",
    "; retry in 4s",
    "; retry in 20s",
    "; retry in 29s",
    "; retry in 35s",
    "; retry in 60s",
    "; retry in 100s",
];
/// What waits while it does.
const JOBS: u64 = 50;
/// A kind that is told at once twice was not heard of for so long in between.
const QUIET: Duration = Duration::from_secs(300);

#[test]
fn ten_minutes_of_refused_posts_are_told_in_a_page() {
    for hint in HINTS {
        let mut world = live(config(256), 7);
        refuse_calls(&mut world, &CannedReply::error(429, &quota(hint)));

        let told = ten_minutes(&mut world, Route::Post);

        assert_told_in_a_page(&told, "throttled: http");
    }
}

#[test]
fn ten_minutes_of_pages_of_a_front_are_told_in_a_page() {
    for status in [429, 502, 503] {
        let mut world = live(config(256), 7);
        refuse_calls(&mut world, &CannedReply::html(status));

        let told = ten_minutes(&mut world, Route::Post);

        assert_told_in_a_page(&told, "throttled: http");
    }
}

#[test]
fn ten_minutes_of_refused_events_on_the_socket_are_told_in_a_page() {
    for hint in HINTS {
        let mut world = live(config(256), 7);
        refuse_frames(&mut world, &quota(hint));

        let told = ten_minutes(&mut world, Route::Socket);

        assert_told_in_a_page(&told, "throttled: messages");
    }
}

#[test]
fn ten_minutes_of_refusing_everything_are_told_in_a_page_to_an_agent_that_starts() {
    for hint in HINTS {
        let mut world = world(config(256), 7);
        refuse_calls(&mut world, &CannedReply::error(429, &quota(hint)));
        refuse_frames(&mut world, &quota(hint));

        let told = ten_minutes(&mut world, Route::Post);

        assert_told_in_a_page(&told, "throttled: http");
        assert_told_in_a_page(&told, "throttled: operations");
    }
}

#[test]
fn ten_minutes_of_refusing_everything_are_told_in_a_page_to_an_agent_that_comes_back() {
    for hint in HINTS {
        let mut world = live(config(256), 7);
        refuse_calls(&mut world, &CannedReply::error(429, &quota(hint)));
        refuse_frames(&mut world, &quota(hint));
        world.restart_relay();

        let told = ten_minutes(&mut world, Route::Post);

        assert_told_in_a_page(&told, "throttled: http");
        assert_told_in_a_page(&told, "throttled: operations");
    }
}

fn quota(hint: &str) -> String {
    format!("rate-limited: quota exceeded{hint}")
}

fn refuse_calls(world: &mut World, reply: &CannedReply) {
    arm(world, Fault::FailEvents(reply.clone()));
    arm(world, Fault::FailQuery(reply.clone()));
}

fn refuse_frames(world: &mut World, text: &str) {
    arm(world, Fault::RefuseReq(text.to_owned()));
    arm(world, Fault::RefuseEvent(text.to_owned()));
}

fn arm(world: &mut World, fault: Fault) {
    let agent = Target::Key(world.agent_key().to_owned());
    world.faults_mut().arm(fault, agent, u64::MAX);
}

/// Jobs are submitted and wait for ten minutes; what is told meanwhile, counted from their start.
fn ten_minutes(world: &mut World, route: Route) -> Vec<(Duration, Note)> {
    let begun = world.now();
    let before = world.notes().len();
    for number in 1..=JOBS {
        submit(world, number, route);
    }
    world.run_for(STORM);
    assert_eq!(u64::from(world.machine().publisher().durable), JOBS);
    let told = world.notes()[before..].iter();
    told.map(|(at, note)| (at.saturating_since(begun), note.clone()))
        .collect()
}

/// Little is told; the first of a kind soon, and the later ones in summaries while it goes on.
#[track_caller]
fn assert_told_in_a_page(told: &[(Duration, Note)], kind: &str) {
    assert!(told.len() <= NOTES_MAX, "{} notes: {told:#?}", told.len());
    let mut last = BTreeMap::new();
    for (at, note) in told {
        if let Some(before) = last.insert(note.kind(), *at)
            && !matches!(note, Note::Repeated { .. })
        {
            assert!(*at >= before + QUIET, "too soon: {note:?} at {at:?}");
        }
    }
    let first = told.iter().find(|(_, note)| note.kind() == kind);
    assert!(first.is_some_and(|(at, _)| *at < QUIET), "{told:#?}");
    let is_summary = |(_, note): &_| matches!(note, Note::Repeated { kind: it, count, .. } if it == kind && *count > 0);
    assert!(told.iter().any(is_summary), "no summary: {told:#?}");
}

fn submit(world: &mut World, number: u64, route: Route) {
    let draft = Draft {
        kind: 9,
        created_at: UnixTime(0),
        tags: vec![tag("h", &channel(1).to_string())],
        content: format!("answer {number}"),
    };
    let submit = publish::Command::Submit {
        job: JobId(number),
        class: Class::Durable,
        route,
        body: Body::SignWhenSent(draft),
        ttl: None,
    };
    world.feed(Input::Publish(publish::Input::Command(submit)));
}
