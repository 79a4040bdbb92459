//! Events that were not asked for: outside of the filter of the request that they come under.

use std::time::Duration;

use buzz_proto::note::{Note, RefusedWhy};
use buzz_proto::relay::Relay;
use buzz_proto::time::UnixTime;
use buzz_sim::relay::{channel_sub, given, script, with_slots};
use buzz_sim::script::Script;
use buzz_sim::toy::{self, ME, START, Toy, channel};

use crate::support::{comes, deliver, live, sub, toy};

const SECOND: Duration = Duration::from_secs(1);
/// How far a request looks back at least, and the second before.
const SINCE: UnixTime = UnixTime(START.0 - 1081);
const EARLIER: UnixTime = UnixTime(START.0 - 1082);

/// Of another kind, of another channel, of none, and for nobody and somebody else.
fn foreign() -> [Toy; 5] {
    let here = channel(1).to_string();
    let me = ME.to_string();
    [
        toy(1).kind(1),
        Toy::mention(2, channel(2)),
        Toy::new(3)
            .kind(9)
            .tag(&["h", "not a channel"])
            .tag(&["p", &me]),
        Toy::new(4).tag(&["h", &here]),
        Toy::new(5)
            .tag(&["h", &here])
            .tag(&["p", &toy::key(9).to_string()]),
    ]
}

fn is_refused(relay: &mut Script<Relay>, event: &Toy) {
    relay.expect([]);
    let (event, why) = (event.event().id(), RefusedWhy::NoMatch);
    let refused = Note::Refused { event, why };
    let mut notes = relay.notes();
    notes.retain(|note| *note == refused);
    assert_eq!(notes, [refused]);
    assert_eq!(relay.part().view().verifying, 0);
}

/// A connection whose request is not answered yet.
fn requested() -> Script<Relay> {
    let mut relay = script(given(&[1]));
    relay.live_with_auth();
    assert_eq!(relay.requested(), [sub()]);
    relay.written();
    relay
}

/// A connection on which `lost` is owed, and the page that asks for it.
fn owing(lost: &Toy) -> (Script<Relay>, String) {
    let mut relay = with_slots(given(&[1]), 1);
    relay.live_with_auth();
    relay.confirmed(&[sub()]);
    let other = toy(100);
    relay.event(&sub(), &other).expect([deliver(&other)]);
    relay.event(&sub(), lost).expect([]);
    relay.input(buzz_proto::relay::Input::Capacity { taken: 1 });
    let page = relay.requested();
    assert_eq!(page.len(), 1);
    relay.written();
    (relay, page[0].clone())
}

#[test]
fn what_was_not_asked_for_is_refused_on_a_live_subscription_and_in_its_history() {
    for event in foreign() {
        for mut relay in [requested(), live()] {
            comes(&mut relay, &event);
            is_refused(&mut relay, &event);
        }
    }
}

#[test]
fn what_is_older_than_a_request_looks_back_is_refused_in_its_history() {
    let mut relay = requested();
    let early = toy(1).dated(EARLIER);
    comes(&mut relay, &early);
    is_refused(&mut relay, &early);
}

#[test]
fn what_is_older_than_a_request_looks_back_is_refused_when_it_comes_live() {
    let mut relay = live();
    let early = toy(1).dated(EARLIER);
    comes(&mut relay, &early);
    is_refused(&mut relay, &early);
    let late = toy(2).dated(SINCE);
    relay.event(&sub(), &late).expect([deliver(&late)]);
}

#[test]
fn what_is_older_than_the_request_of_a_new_connection_looks_back_is_refused_there() {
    let mut relay = live();
    relay.closed(None).orders();
    relay.run_for(SECOND);
    relay.orders();
    relay.connected();
    relay.frame(toy::challenge("second"));
    let auth = relay.sign(1_000_001);
    relay.written().frame(toy::ok(auth, true, ""));
    relay.expect_live();
    let name = channel_sub(1, 2);
    relay.confirmed(std::slice::from_ref(&name));
    let early = toy(1).dated(EARLIER);
    relay.frame(toy::event_frame(&name, &early));
    is_refused(&mut relay, &early);
}

#[test]
fn a_page_takes_only_the_ids_it_asked_for() {
    let lost = toy(1);
    for event in foreign().into_iter().chain([toy(50)]) {
        let (mut relay, page) = owing(&lost);
        relay.frame(toy::event_frame(&page, &event));
        is_refused(&mut relay, &event);
        relay.page(&page, &[&lost]).expect([deliver(&lost)]);
    }
}

#[test]
fn a_page_of_a_window_takes_nothing_from_outside_of_it() {
    let mut config = given(&[1]);
    config.limits.verify_max = 1;
    let mut relay = script(config);
    relay.live_with_auth();
    relay.confirmed(&[sub()]);
    comes(&mut relay, &toy(98));
    let asked = crate::support::tickets(&mut relay);
    comes(&mut relay, &toy(99));
    let sent = relay.sent();
    let page = sent
        .iter()
        .find_map(|text| buzz_sim::relay::request_name(text));
    let page = page.expect("a page is asked for");
    assert!(
        sent[0].contains(&format!(r#""since":{}"#, SINCE.0 + 1)),
        "{sent:?}"
    );
    relay.written();
    relay.verified(asked[0].0, true).expect([deliver(&toy(98))]);
    for event in foreign().into_iter().chain([toy(51).dated(EARLIER)]) {
        relay.frame(toy::event_frame(&page, &event));
        relay.expect([]);
        assert_eq!(relay.part().view().verifying, 0);
    }
    relay.page(&page, &[&toy(99)]).expect([deliver(&toy(99))]);
}

#[test]
fn an_event_under_a_name_of_nobody_has_no_effect() {
    let mut relay = live();
    let names = [
        channel_sub(1, 7),
        channel_sub(2, 1),
        "page-1".to_owned(),
        "page-99".to_owned(),
    ];
    for name in names
        .iter()
        .map(String::as_str)
        .chain(["membership-1", "", "x"])
    {
        relay.frame(toy::event_frame(name, &toy(1)));
        relay.take_sent();
        relay.expect([]);
        assert_eq!(relay.part().view().verifying, 0);
    }
    relay.event(&sub(), &toy(1)).expect([deliver(&toy(1))]);
}
