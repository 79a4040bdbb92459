//! Every reason that a relay gives, each with its effect and only that.

use std::time::Duration;

use buzz_proto::ids::Ticket;
use buzz_proto::relay::{Action, Command, Input, Receipt, Sub, SubState};
use buzz_proto::time::MonoTime;
use buzz_sim::relay::given;
use buzz_sim::toy::{self, Toy, channel};

use crate::house::House;
use crate::player::Stage as _;
use crate::transcript::{dials, frames};

const A: u8 = 1;
const B: u8 = 2;
const C: u8 = 3;
const SECOND: Duration = Duration::from_secs(1);
/// Longer than every wait here but that of an hour.
const WATCHED: Duration = Duration::from_secs(120);

/// What a subscription is after a CLOSED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It is asked for again within these milliseconds.
    Again(u64, u64),
    /// As `Again`, and so is everything else: the relay's quota is spent.
    AllAgain(u64, u64),
    /// Refused, and asked for once more after ninety seconds.
    OnceMore,
    /// Asked for on a new connection, because no challenge comes.
    OverAgain,
}
use Standing::{Again, AllAgain, OnceMore, OverAgain};

/// Live in two channels for a minute and a half.
fn settled() -> House {
    let mut house = House::with(given(&[A, B])).begin();
    house.pass(90 * SECOND);
    house
}

/// How long until the next REQ for a channel, in milliseconds.
fn asked_after(house: &House, place: u8, begin: MonoTime) -> Option<u64> {
    let mut asked = house.asked_for(place).into_iter();
    let next = asked.find(|asked| asked.at >= begin)?;
    let wait = next.at.saturating_since(begin).as_millis();
    Some(u64::try_from(wait).expect("a short wait"))
}

#[test]
fn a_closed_subscription_is_what_its_reason_says_and_touches_no_other() {
    let rows = [
        ("", Again(1000, 2000)),
        ("shutting down", Again(1000, 2000)),
        ("mystery: who knows", Again(1000, 2000)),
        ("error: database", Again(1000, 2000)),
        ("error: could not check membership", Again(1000, 2000)),
        (
            "rate-limited: quota exceeded; retry in 7s",
            AllAgain(7500, 9000),
        ),
        ("rate-limited", AllAgain(5500, 7000)),
        ("rate-limited: retry in 0s", AllAgain(1500, 3000)),
        ("auth-required: not authenticated", OverAgain),
        ("restricted: not a channel member", OnceMore),
        ("restricted: channel access revoked", OnceMore),
        ("restricted: insufficient scope", OnceMore),
        ("blocked: banned", OnceMore),
        ("invalid: filter", OnceMore),
        ("unsupported: search", OnceMore),
    ];
    for (reason, standing) in rows {
        let mut house = settled();
        let begin = house.instant();
        if matches!(standing, OnceMore) {
            house.refuses.insert(A, reason);
        }

        house.close(A, reason);
        // A channel that is joined meanwhile shows whether requests are held up.
        let (channel, interest, floor) = (channel(C), None, None);
        let subscribe = Command::Subscribe {
            channel,
            interest,
            floor,
        };
        house.give(Input::Command(subscribe));
        house.pass(WATCHED);

        check_standing(&house, reason, standing, begin);
        let (asked, connections) = (house.asked_for(B).len(), dials(&house).len());
        assert_eq!(
            asked, connections,
            "{reason}: the other channel is as it was"
        );
        assert!(house.is_live(B) && house.is_live(C), "{reason}");
    }
}

/// That a channel's subscription and all beside it went on as a row says.
fn check_standing(house: &House, reason: &str, standing: Standing, begin: MonoTime) {
    let (own, other) = (asked_after(house, A, begin), asked_after(house, C, begin));
    let (own, other) = (own.expect(reason), other.expect(reason));
    let connections = dials(house).len();
    let is_told = |wanted: fn(&SubState) -> bool| {
        let of = Sub::Channel(channel(A));
        let mut standings = house.standings.iter();
        standings.any(|(at, sub, state)| *at >= begin && *sub == of && wanted(state))
    };
    match standing {
        Again(least, most) => {
            assert!((least..=most).contains(&own), "{reason}: {own} ms");
            assert_eq!((other, connections), (0, 1), "{reason}");
            assert!(house.is_live(A), "{reason}");
        }
        AllAgain(least, most) => {
            assert!((least..=most).contains(&own), "{reason}: {own} ms");
            assert!((least..=most).contains(&other), "{reason}: {other} ms");
            assert_eq!(connections, 1, "{reason}");
            assert!(house.is_live(A), "{reason}");
        }
        OnceMore => {
            assert_eq!((own, other, connections), (90_000, 0, 1), "{reason}");
            assert!(
                is_told(|state| matches!(state, SubState::Refused { .. })),
                "{reason}"
            );
        }
        OverAgain => {
            assert_eq!(connections, 2, "{reason}");
            assert!((5000..=7000).contains(&own), "{reason}: {own} ms");
            assert!(house.is_live(A), "{reason}");
        }
    }
}

/// What becomes of an EVENT that is refused, and of what follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Its receipt says so, and nothing else follows.
    Told,
    /// As `Told`, and further EVENTs wait for so many milliseconds.
    MessagesWait(u64, u64),
    /// As `MessagesWait`, and so do REQs.
    AllWait(u64, u64),
}

#[test]
fn a_refused_event_has_its_receipt_and_only_a_rate_limit_holds_up_others() {
    use Fate::{AllWait, MessagesWait, Told};
    let rows = [
        ("invalid: kind", Told),
        ("restricted: not a channel member", Told),
        ("blocked: banned", Told),
        ("pow: 20 bits", Told),
        ("error: database", Told),
        ("unsupported: kind", Told),
        ("mystery: who knows", Told),
        ("", Told),
        (
            "rate-limited: message quota; retry in 30s",
            MessagesWait(30_500, 36_500),
        ),
        ("rate-limited: retry in 3s", AllWait(3500, 5000)),
        ("rate-limited", AllWait(5500, 7000)),
    ];
    for (reason, fate) in rows {
        let mut house = settled();
        let begin = house.instant();
        house.is_answering_events = false;
        send(&mut house, 1);
        house.say(toy::ok(toy::id(1), false, reason));
        house.is_answering_events = true;

        send(&mut house, 2);
        let (channel, interest, floor) = (channel(C), None, None);
        house.give(Input::Command(Command::Subscribe {
            channel,
            interest,
            floor,
        }));
        house.pass(WATCHED);

        let refused = receipt(&house, 1);
        let is_so = matches!(&refused, Some(Receipt::Answered { accepted: false, reason: found })
            if found.text.as_str() == reason);
        assert!(is_so, "{reason}: {refused:?}");
        let event = event_after(&house, 2, begin).expect(reason);
        let request = asked_after(&house, C, begin).expect(reason);
        match fate {
            Told => assert_eq!((event, request), (0, 0), "{reason}"),
            MessagesWait(least, most) => {
                assert!((least..=most).contains(&event), "{reason}: {event} ms");
                assert_eq!(request, 0, "{reason}");
            }
            AllWait(least, most) => {
                assert!((least..=most).contains(&event), "{reason}: {event} ms");
                assert!((least..=most).contains(&request), "{reason}: {request} ms");
            }
        }
        assert_eq!(dials(&house).len(), 1, "{reason}");
        assert_eq!(house.auths.len(), 1, "{reason}");
        assert!(house.is_live(A) && house.is_live(B), "{reason}");
    }
}

#[test]
fn a_duplicate_is_a_success() {
    let mut house = settled();
    house.is_answering_events = false;
    send(&mut house, 1);
    house.say(toy::ok(toy::id(1), false, "duplicate: have it"));

    let receipt = receipt(&house, 1);
    assert!(
        matches!(receipt, Some(Receipt::Answered { .. })),
        "{receipt:?}"
    );
    assert_eq!(dials(&house).len(), 1);
}

#[test]
fn an_event_that_is_refused_for_want_of_a_login_has_one() {
    let mut house = settled();
    house.is_answering_events = false;
    send(&mut house, 1);
    house.say(toy::ok(
        toy::id(1),
        false,
        "auth-required: not authenticated",
    ));
    house.say(toy::challenge("again"));

    assert_eq!(house.auths.len(), 2);
    house.pass(WATCHED);
    assert_eq!(dials(&house).len(), 1);
}

#[test]
fn a_notice_names_no_frame_and_has_no_effect_but_for_a_rate_limit() {
    for reason in [
        "auth-required: not authenticated",
        "restricted: not a channel member",
        "blocked: banned",
        "error: database",
        "invalid: frame",
        "hello",
        "",
    ] {
        let mut house = settled();
        let sent = frames(&house).len();
        for _ in 0..10 {
            house.say(toy::notice(reason));
        }
        house.pass(20 * SECOND);
        assert_eq!(dials(&house).len(), 1, "{reason}");
        assert_eq!(frames(&house).len(), sent, "{reason}");
        assert!(house.is_live(A) && house.is_live(B), "{reason}");
    }
}

fn send(house: &mut House, number: u64) {
    let (ticket, durable) = (Ticket(number), true);
    let event = Toy::new(number).bytes();
    house.give(Input::Command(Command::Send {
        ticket,
        durable,
        event,
    }));
}

fn receipt(house: &House, number: u64) -> Option<Receipt> {
    house.script.history().find_map(|action| {
        if let Action::Receipt { ticket, receipt } = action
            && *ticket == Ticket(number)
        {
            return Some(receipt.clone());
        }
        None
    })
}

/// How long until an EVENT left, in milliseconds.
fn event_after(house: &House, number: u64, begin: MonoTime) -> Option<u64> {
    let (at, _) = house.events.iter().find(|(_, id)| *id == toy::id(number))?;
    let wait = at.saturating_since(begin).as_millis();
    Some(u64::try_from(wait).expect("a short wait"))
}
