//! The key of the relay, as it tells of itself (NIP-11).

use buzz_proto::ids::PubKey;
use buzz_proto::relay::{Action, BrokeCause, Input, Relay};
use buzz_sim::relay::{given, script};
use buzz_sim::script::Script;
use buzz_sim::toy;

const DOWN: Action = Action::Link { live: false };

#[test]
fn the_key_is_told_when_it_differs_from_what_was_told_before() {
    let mut relay = script(given(&[]));
    assert_eq!(told(&mut relay, r#"{"name":"a relay"}"#), []);
    assert_eq!(told(&mut relay, &naming(1)), [is(Some(1))]);
    assert_eq!(told(&mut relay, &naming(1)), []);
    assert_eq!(told(&mut relay, &naming(2)), [is(Some(2))]);
    assert_eq!(told(&mut relay, r#"{"name":"a relay"}"#), [is(None)]);
    assert_eq!(told(&mut relay, "{}"), []);
}

#[test]
fn what_is_no_key_is_none() {
    let short = "c".repeat(63);
    for value in [
        format!(r#""{short}""#),
        format!(r#""{short}cc""#),
        format!(r#""{short}g""#),
        r#""""#.to_owned(),
        "7".to_owned(),
        "null".to_owned(),
        format!(r#"["{short}c"]"#),
    ] {
        let mut relay = script(given(&[]));
        assert_eq!(told(&mut relay, &naming(1)), [is(Some(1))]);
        let document = format!(r#"{{"self":{value}}}"#);
        assert_eq!(told(&mut relay, &document), [is(None)], "{value}");
    }
}

#[test]
fn hex_digits_of_either_case_are_the_same_key() {
    let mut relay = script(given(&[]));
    assert_eq!(told(&mut relay, &naming(0xab)), [is(Some(0xab))]);
    let document = format!(r#"{{"self":"{}"}}"#, "AB".repeat(32));
    assert_eq!(told(&mut relay, &document), []);
}

#[test]
fn other_members_do_not_spoil_it() {
    for members in [r#""limitation":5"#, r#""limitation":{"max_limit":"x"}"#] {
        let mut relay = script(given(&[]));
        let key = toy::key(1);
        let document = format!(r#" {{{members},"self":"{key}"}}"#);
        assert_eq!(told(&mut relay, &document), [is(Some(1))], "{members}");
    }
}

#[test]
fn what_is_no_document_leaves_the_key_as_it_was() {
    let key = toy::key(2);
    for body in [
        "<html>".to_owned(),
        String::new(),
        "[]".to_owned(),
        format!(r#"[null,"{key}"]"#),
        format!(r#"{{"self":"{key}""#),
    ] {
        let mut relay = script(given(&[]));
        assert_eq!(told(&mut relay, &naming(1)), [is(Some(1))]);
        assert_eq!(told(&mut relay, &body), [], "{body}");
        assert_eq!(told(&mut relay, &naming(1)), [], "{body}");
    }
}

#[test]
fn an_answer_that_is_none_leaves_the_key_as_it_was() {
    let mut relay = script(given(&[]));
    assert_eq!(told(&mut relay, &naming(1)), [is(Some(1))]);

    let ticket = connect(&mut relay);
    relay.answered(ticket, 404, naming(2));
    assert_eq!(keys(&mut relay), []);

    let ticket = connect(&mut relay);
    let cause = BrokeCause::Connection;
    relay.input(Input::Broke { ticket, cause });
    assert_eq!(keys(&mut relay), []);

    assert_eq!(told(&mut relay, &naming(1)), []);
}

const fn is(key: Option<u8>) -> Action {
    let key = match key {
        Some(n) => Some(toy::key(n)),
        None => None,
    };
    Action::RelayKey { key }
}

fn naming(n: u8) -> String {
    let key: PubKey = toy::key(n);
    format!(r#"{{"name":"a relay","self":"{key}"}}"#)
}

/// What is told of the key when a new connection brings this document.
fn told(relay: &mut Script<Relay>, document: &str) -> Vec<Action> {
    let ticket = connect(relay);
    relay.answered(ticket, 200, document.to_owned());
    keys(relay)
}

/// Connects anew; the question what relay it is.
fn connect(relay: &mut Script<Relay>) -> buzz_proto::ids::Ticket {
    if relay.part().view().is_live {
        relay.closed(None).expect([DOWN]);
        let mut orders = Vec::new();
        while orders.is_empty() {
            let (due, _) = relay.part().next_deadline().expect("it dials again");
            orders = relay.run_until(due).timed_orders();
        }
        relay.put_back(orders);
    }
    relay.open();
    relay.run_for(std::time::Duration::from_secs(3));
    let asked = relay.orders().into_iter().find_map(|order| {
        let Action::Inform { ticket } = order else {
            return None;
        };
        Some(ticket)
    });
    asked.expect("it is asked what relay it is")
}

fn keys(relay: &mut Script<Relay>) -> Vec<Action> {
    let mut orders = relay.orders();
    orders.retain(|order| matches!(order, Action::RelayKey { .. }));
    orders
}
