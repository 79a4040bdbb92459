//! Whose word counts: what only the relay may sign needs its key where it names one.

use buzz_proto::ids::Ticket;
use buzz_proto::note::{Note, RefusedWhy};
use buzz_proto::relay::{Action, ChannelKind, Config, HttpAnswer, Input, Relay};
use buzz_sim::relay::{URL, script};
use buzz_sim::script::Script;
use buzz_sim::toy::{self, Toy, channel};

use crate::support::{SECOND, answer, channels, joined, next_query, query};

const ADDED: u32 = 44_100;

fn document(key: u8) -> String {
    format!(r#"{{"self":"{}"}}"#, toy::key(key))
}

/// A relay that signs with this key, and a roster that names no channel.
fn of_key(key: u8) -> Script<Relay> {
    let mut relay = script(Config::new(URL));
    relay.open();
    let end = relay.now().after(3 * SECOND);
    relay.quiet_until(end).tick();
    relay.expect_live_told(&document(key), None);
    let ticket = query(&mut relay);
    answer(&mut relay, ticket, &[], &[]);
    relay.written();
    relay.frame(toy::eose("membership-1")).orders();
    relay.notes();
    relay
}

fn signed(toy: Toy, key: u8) -> Toy {
    toy.author(toy::key(key))
}

/// What was refused since the last look.
fn refused(relay: &mut Script<Relay>) -> Vec<RefusedWhy> {
    let notes = relay.notes().into_iter();
    let whys = notes.filter_map(|note| {
        let Note::Refused { why, .. } = note else {
            return None;
        };
        Some(why)
    });
    whys.collect()
}

/// The tickets of the questions what relay it is, since the last look.
fn informs(relay: &mut Script<Relay>) -> Vec<Ticket> {
    let orders = relay.orders().into_iter();
    let tickets = orders.filter_map(|order| {
        let Action::Inform { ticket } = order else {
            return None;
        };
        Some(ticket)
    });
    tickets.collect()
}

fn told(relay: &mut Script<Relay>, ticket: Ticket, key: u8) {
    let answer = HttpAnswer {
        status: 200,
        retry_after: None,
        date: None,
        body: document(key).into(),
    };
    relay.input(Input::Answered { ticket, answer });
}

#[test]
fn a_notice_by_another_key_changes_nothing() {
    let mut relay = of_key(1);
    let forged = signed(Toy::notice(9, ADDED, channel(1)), 2);
    relay.event("membership-1", &forged);
    assert_eq!(refused(&mut relay), [RefusedWhy::NotTheRelay]);
    assert!(
        !relay
            .orders()
            .iter()
            .any(|it| matches!(it, Action::Query { .. }))
    );
    relay.event(
        "membership-1",
        &signed(Toy::notice(10, ADDED, channel(1)), 1),
    );
    query(&mut relay);
}

#[test]
fn a_read_with_a_row_by_another_key_is_no_information() {
    let mut relay = of_key(1);
    relay.event(
        "membership-1",
        &signed(Toy::notice(9, ADDED, channel(1)), 1),
    );
    let ticket = query(&mut relay);
    let rows = [
        signed(Toy::members(1, channel(1)), 1),
        signed(Toy::members(2, channel(2)), 2),
    ];
    relay.found(ticket, &rows);
    assert_eq!(refused(&mut relay), [RefusedWhy::NotTheRelay]);
    // The notice is believed where the roster tells nothing.
    assert_eq!(channels(&mut relay), [joined(1, ChannelKind::Direct)]);
}

#[test]
fn a_read_with_a_forged_row_is_no_information() {
    let mut relay = of_key(1);
    let ticket = next_query(&mut relay);
    relay.orders();
    let rows = [Toy::members(1, channel(1)), Toy::members(2, channel(2))];
    let rows = rows.map(|row| signed(row, 1));
    relay.answered(ticket, 200, toy::events(&rows)).notes();
    let asked = relay.asked_to_verify();
    relay.verified(asked[1].0, false);
    relay.expect([]);
    relay.expect_notes([Note::RosterFailed { status: None }]);
    relay.verified(asked[0].0, true);
    assert_eq!(channels(&mut relay), []);
}

#[test]
fn verdicts_that_never_come_fail_the_read() {
    let mut relay = of_key(1);
    let ticket = next_query(&mut relay);
    relay.orders();
    let rows = [signed(Toy::members(1, channel(1)), 1)];
    relay.answered(ticket, 200, toy::events(&rows)).notes();
    let asked = relay.asked_to_verify();
    relay.alive_for(10 * SECOND).tick();
    relay.expect_notes([Note::RosterFailed { status: None }]);
    relay.verified(asked[0].0, true);
    assert_eq!(channels(&mut relay), []);
    relay.alive_for(5 * SECOND).tick();
    query(&mut relay);
}

#[test]
fn a_relay_that_has_a_new_key_is_asked_for_it_once_a_minute_at_most() {
    let mut relay = of_key(1);
    for n in 9..12 {
        let notice = signed(Toy::notice(n, ADDED, channel(1)), 2);
        relay.event("membership-1", &notice);
    }
    assert_eq!(informs(&mut relay), []);
    relay.alive_for(60 * SECOND).tick();
    let asked = informs(&mut relay);
    assert_eq!(asked.len(), 1);
    told(&mut relay, asked[0], 2);
    relay.orders();
    relay.event(
        "membership-1",
        &signed(Toy::notice(13, ADDED, channel(1)), 2),
    );
    query(&mut relay);
    relay.event(
        "membership-1",
        &signed(Toy::notice(14, ADDED, channel(2)), 1),
    );
    assert_eq!(informs(&mut relay), []);
}

#[test]
fn nothing_is_asked_of_membership_before_it_is_known_whose_word_counts() {
    let mut relay = script(Config::new(URL));
    relay.open();
    relay.run_for(3 * SECOND);
    let asked = |relay: &mut Script<Relay>| {
        let orders = relay.orders().into_iter();
        let is_question =
            |order: &Action| matches!(order, Action::Query { .. } | Action::Send { .. });
        orders.filter(is_question).count()
    };
    relay.run_for(4 * SECOND);
    assert_eq!(asked(&mut relay), 0);
    relay.run_for(SECOND);
    assert_eq!(
        asked(&mut relay),
        2,
        "nobody waits for that longer than 5 s"
    );
}
