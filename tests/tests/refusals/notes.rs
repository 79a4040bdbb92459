//! What a refusal that goes on for long says of itself: the first word at once, then summaries.

use std::time::Duration;

use buzz_proto::note::{Note, Quota};
use buzz_proto::retry_hint::HintSource;
use buzz_proto::time::MonoTime;

use crate::desk::{Desk, last, ok};
use crate::support::{SECOND, limited, status, with_header};

const TEN_MINUTES: Duration = Duration::from_secs(600);
/// The longest period of summaries, twice.
const LATER: Duration = Duration::from_secs(600);

#[test]
fn ten_minutes_of_refused_posts_are_told_in_a_handful_of_notes_that_sum_up() {
    let mut desk = Desk::live();
    let start = desk.now();
    desk.on_post = || limited(5);
    for job in 1..=6 {
        desk.submit_post(job);
    }
    desk.run_for(TEN_MINUTES);
    desk.on_post = || status(200, r#"{"accepted":true,"message":""}"#);
    let refused = desk.posts.len();
    desk.run_for(LATER);

    let told = desk.throttles();
    assert!(told.len() <= 6, "{told:?}");
    assert_eq!(told[0].0, start, "the first at once");
    let refusals = u64::try_from(refused).expect("a small number");
    assert!(refusals > 9, "{refusals}");
    assert_eq!(sum(&told), refusals);
    for (at, note) in &told {
        let Note::Throttled {
            quota,
            source,
            in_flight,
            waiting,
            attempt,
            ..
        } = last(note)
        else {
            panic!("{at}: {note:?}");
        };
        assert_eq!((*quota, *source), (Quota::Http, Some(HintSource::Text)));
        // The first refusal met the first job, which was alone.
        let jobs = if *at == start { 1 } else { 6 };
        assert_eq!(in_flight + waiting, jobs, "{at}: {note:?}");
        assert!(*attempt > 0);
    }
}

#[test]
fn the_last_refusal_stands_in_its_summary_with_its_own_facts() {
    let mut desk = Desk::live();
    desk.on_post = || with_header(status(429, ""), "9");
    desk.submit_post(1);
    desk.run_for(TEN_MINUTES);

    let told = desk.throttles();
    let attempts: Vec<_> = told.iter().map(|(_, note)| attempt(note)).collect();
    assert!(attempts.is_sorted() && attempts[0] == 1, "{attempts:?}");
    assert!(
        told[1..]
            .iter()
            .all(|(_, note)| matches!(note, Note::Repeated { .. }))
    );
    let Note::Throttled { source, capped, .. } = last(&told[1].1) else {
        panic!("{told:?}");
    };
    assert_eq!((*source, *capped), (Some(HintSource::Header), false));
}

#[test]
fn ten_minutes_of_refused_events_are_told_in_a_handful_of_notes_that_sum_up() {
    let mut desk = Desk::live();
    let start = desk.now();
    desk.on_event = |number| Some(ok(number, false, "rate-limited: slow down"));
    desk.submit(1, 2 * TEN_MINUTES);
    desk.run_for(TEN_MINUTES);
    desk.on_event = |number| Some(ok(number, true, ""));
    let refused = desk.events.len();
    desk.run_for(LATER);

    let told = desk.throttles();
    assert!(told.len() <= 6, "{told:?}");
    assert_eq!(told[0].0, start);
    assert_eq!(sum(&told), u64::try_from(refused).expect("a small number"));
    for (_, note) in &told {
        let Note::Throttled { quota, source, .. } = last(note) else {
            panic!("{note:?}");
        };
        assert_eq!((*quota, *source), (Quota::Messages, None));
    }
}

#[test]
fn a_refusal_after_a_long_calm_is_told_at_once_again() {
    let mut desk = Desk::live();
    for job in 1..=3 {
        desk.on_post = || limited(1);
        desk.submit_post(job);
        let refused = desk.now();
        desk.on_post = || status(200, r#"{"accepted":true,"message":""}"#);
        desk.run_for(301 * SECOND);
        let told = desk.throttles();
        assert_eq!(told.len() as u64, job);
        let (at, note) = &told[told.len() - 1];
        assert_eq!((*at, attempt(note)), (refused, 1));
    }
}

#[test]
fn a_refusal_of_each_minute_is_told_in_a_handful_of_notes_too() {
    let mut desk = Desk::live();
    desk.on_post = || limited(60);
    desk.submit_post(1);
    desk.run_for(TEN_MINUTES);
    let told = desk.throttles();
    assert!(told.len() <= 6, "{told:?}");
}

#[test]
fn a_hint_beyond_five_minutes_is_said_to_be_cut() {
    let mut desk = Desk::live();
    desk.on_post = || limited(86_400);
    desk.submit_post(1);
    let told = desk.throttles();
    let Note::Throttled { capped, wait, .. } = last(&told[0].1) else {
        panic!("{told:?}");
    };
    assert!(*capped && *wait <= 360 * SECOND, "{wait:?}");
}

#[test]
fn verdicts_are_told_one_by_one_while_refusals_are_summed_up() {
    let mut desk = Desk::live();
    desk.on_event = |number| {
        Some(ok(
            number,
            false,
            "rate-limited: quota exceeded; retry in 30s",
        ))
    };
    for job in 1..=20 {
        desk.submit(job, 10 * SECOND);
    }
    desk.run_for(20 * SECOND);
    assert_eq!(desk.verdicts.len(), 20);
    assert_eq!(desk.unpublished(), (1..=20).collect::<Vec<_>>());
}

fn attempt(note: &Note) -> u32 {
    let Note::Throttled { attempt, .. } = last(note) else {
        panic!("{note:?}");
    };
    *attempt
}

/// How many refusals the notes tell of.
fn sum(told: &[(MonoTime, Note)]) -> u64 {
    let mut sum = 0;
    for (_, note) in told {
        sum += if let Note::Repeated { count, .. } = note {
            *count
        } else {
            1
        };
    }
    sum
}
