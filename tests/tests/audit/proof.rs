//! What the answer to a read proves, and what it leaves open.

use std::time::Duration;

use buzz_proto::note::Note;
use buzz_proto::relay::{Action, Sub};
use buzz_proto::time::MonoTime;
use buzz_sim::relay::{channel_sub, given, with_slots};
use buzz_sim::toy::{self, START, channel};
use serde_json::Value;

use crate::support::*;

#[test]
fn a_complete_audit_moves_the_cursor() {
    let mut relay = live(&[1]);
    let read = next_read(&mut relay);
    let begun = START.after(read.at.saturating_since(MonoTime::ZERO));
    relay.answered(read.ticket, 200, toy::events(&[]));
    assert_eq!(reconnect(&mut relay), begun.before(DRIFT));
}

#[test]
fn an_audit_that_fails_moves_nothing_and_is_repeated_three_times() {
    let mut relay = live(&[1]);
    let since = START.before(DRIFT + SECOND);
    let first = next_read(&mut relay);
    relay.answered(first.ticket, 500, "");
    let second = next_read(&mut relay);
    assert_eq!(second.at.saturating_since(first.at), MINUTE);
    relay.alive_for(Duration::from_secs(15)).tick();
    let ticket = second.ticket;
    relay.expect([Action::Abort { ticket }]);
    let third = next_read(&mut relay);
    relay.notes();
    relay.answered(third.ticket, 200, "no answer");
    let sub = Sub::Channel(channel(1));
    let before = START.after(first.at.saturating_since(MonoTime::ZERO));
    relay.expect_notes([Note::Unaudited { sub, before }]);
    relay.expect([]);
    assert_eq!(reconnect(&mut relay), since);
}

#[test]
fn an_event_that_finds_no_room_for_its_verification_is_left_to_the_next_audit() {
    let mut config = given(&[1]);
    config.limits.verify_max = 1;
    let mut relay = with_slots(config, 256);
    confirm(&mut relay, 1);
    let events = [mention(1, 100), mention(2, 101)];
    assert_eq!(audit(&mut relay, &events), [deliver(1, &events[0])]);
    for event in &events {
        relay.event(&channel_sub(1, 1), event).orders();
    }
    assert_eq!(reconnect(&mut relay), START.before(DRIFT + SECOND));
}

#[test]
fn a_history_is_read_on_to_its_fifth_page_and_what_is_older_is_noted() {
    let mut relay = live_with_pages_of_two();
    let events = brought(&mut relay, |n| n);
    let mut until = None;
    for page in 0..5 {
        let read = next_read(&mut relay);
        assert_eq!(read.filters[0]["until"].as_u64(), until);
        assert_eq!(read.filters[0]["before_id"], Value::Null);
        let newest = [events[11 - page].clone(), events[10 - page].clone()];
        relay.notes();
        relay.answered(read.ticket, 200, toy::events(&newest));
        until = Some(START.0 + 10 - u64::try_from(page).unwrap());
    }
    let sub = Sub::Channel(channel(1));
    let before = START.after(Duration::from_secs(6));
    relay.expect_notes([Note::Unaudited { sub, before }]);
    assert_eq!(reconnect(&mut relay), START.before(DRIFT + SECOND));
}

#[test]
fn within_one_second_a_history_is_read_on_by_the_last_id() {
    let mut relay = live_with_pages_of_two();
    let events = brought(&mut relay, |_| 0);
    for page in 0..3 {
        let read = next_read(&mut relay);
        let after = &read.filters[0]["before_id"];
        if page == 2 {
            assert_eq!(after, &serde_json::json!(events[1].event().id()));
            relay.answered(read.ticket, 200, toy::events(&[]));
            let begun = START.after(read.at.saturating_since(MonoTime::ZERO) - 2 * PACE);
            assert_eq!(reconnect(&mut relay), begun.before(DRIFT));
        } else {
            assert_eq!(after, &Value::Null);
            relay.answered(read.ticket, 200, toy::events(&events[..2]));
        }
    }
}

#[test]
fn after_ids_were_forgotten_nothing_that_is_as_old_is_delivered() {
    let mut config = given(&[1]);
    config.limits.seen_max = 2;
    let mut relay = with_slots(config, 256);
    confirm(&mut relay, 1);
    for n in 1..=3 {
        relay.event(&channel_sub(1, 1), &mention(n, n)).orders();
    }
    relay.notes();
    let newer = mention(9, 2);
    let read = next_read(&mut relay);
    let events = [
        newer.clone(),
        mention(3, 3),
        mention(2, 2),
        mention(8, 1),
        mention(1, 1),
    ];
    relay.answered(read.ticket, 200, toy::events(&events));
    let asked = relay.asked_to_verify();
    assert_eq!(asked.len(), 1);
    relay
        .verified(asked[0].0, true)
        .expect([deliver(1, &newer)]);
    let sub = Sub::Channel(channel(1));
    let before = START.after(SECOND);
    assert_eq!(relay.notes()[0], Note::Unaudited { sub, before });
}
