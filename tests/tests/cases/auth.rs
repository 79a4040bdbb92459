//! Logins that are refused, late, or wanted in the middle of everything.

use std::time::Duration;

use buzz_proto::note::{LinkNote, Note};
use buzz_proto::relay::{Action, CloseCause, Command, ConnectCause, Input};
use buzz_proto::wire::Excerpt;
use buzz_sim::relay::given;
use buzz_sim::toy::{self, Toy};

use crate::house::{Dial, House, Login};
use crate::player::{Case, Stage as _};
use crate::transcript::{closes, dials, waits, waits_grow, when};

const A: u8 = 1;
const WANTED: &str = "auth-required: who are you";
const SECOND: Duration = Duration::from_secs(1);

/// An agent of one given channel, not started.
fn member() -> House {
    House::with(given(&[A]))
}

fn never_stopped(house: &House) {
    let is_stop = |note: &Note| matches!(note, Note::Link(LinkNote::Stopped));
    assert!(!house.notes.iter().any(|(_, note)| is_stop(note)));
}

fn challenged(house: &mut House, text: &str) {
    house.say(toy::challenge(text));
}

#[test]
fn block_buzz_5030_an_upgrade_without_a_page_and_an_error_in_a_login_pass() {
    Case::new(|| {
        let mut house = member();
        let absent = || {
            let (status, text) = (404, Excerpt::new("not found"));
            Dial::Fails(ConnectCause::Status { status, text })
        };
        house.dials = [absent(), absent(), Dial::Opens].into();
        let error = "error: internal error: database";
        house.logins = [Login::Refused(error), Login::Accepted].into();
        house.begin()
    })
    .at(20_000, |_| {})
    .never(never_stopped)
    .never(waits_grow)
    .never(|house| {
        let slow = Duration::from_secs(60);
        assert!(waits(house).iter().all(|wait| *wait <= slow));
    })
    .finally(|house| assert!(house.is_live(A)))
    .play();
}

#[test]
fn block_buzz_3745_a_clock_that_is_off_is_named_and_the_retries_stay_slow() {
    Case::new(|| {
        let mut house = member();
        let off = "invalid: event creation timestamp is too far off: outside ±60s (delta 109s)";
        house.logins = [Login::Refused(off)].into();
        house.begin()
    })
    .at(600_000, |_| {})
    .never(|house| {
        let refused = |note: &Note| matches!(note, Note::Link(LinkNote::AuthRefused { .. }));
        assert!(house.notes.iter().any(|(_, note)| refused(note)));
    })
    .never(|house| {
        // Ten minutes of the ladder, and one loss that is no one's fault.
        assert!(dials(house).len() < 50, "{}", dials(house).len());
    })
    .never(never_stopped)
    .play();
}

#[test]
fn nostr_dev_kit_ndk_171_what_was_refused_for_want_of_a_login_is_asked_for_after_it() {
    Case::new(|| member().begin())
        .at(5000, |house| {
            house.close(A, WANTED);
            challenged(house, "again");
        })
        .must(5000, |house| assert_eq!(house.auths.len(), 2))
        .must(7000, |house| {
            assert!(house.is_live(A));
            assert_eq!(dials(house).len(), 1);
        })
        .finally(|house| assert!(house.is_live(A)))
        .play();
}

#[test]
fn nostrability_nostrability_163_an_event_refused_for_want_of_a_login_has_one_in_place() {
    Case::new(|| {
        let mut house = member();
        house.challenges = false;
        house.begin()
    })
    .at(1000, |house| challenged(house, "kept"))
    .at(10_000, |house| {
        let event = Toy::new(77).bytes();
        let (ticket, durable) = (buzz_proto::ids::Ticket(7), true);
        house.give(Input::Command(Command::Send {
            ticket,
            durable,
            event,
        }));
        house.say(toy::ok(toy::id(77), false, WANTED));
        challenged(house, "newer");
    })
    .must(10_000, |house| {
        assert!(!house.auths.is_empty());
        assert_eq!(dials(house).len(), 1);
    })
    .finally(|house| assert!(house.is_live(A)))
    .play();
}

#[test]
fn nbd_wtf_nostr_tools_537_the_login_says_when_to_ask_again_and_no_guess_does() {
    Case::new(|| member().begin())
        .at(60_000, |house| {
            house.logins = [Login::ByHand].into();
            house.close(A, WANTED);
            challenged(house, "again");
        })
        .must(61_900, |house| assert_eq!(house.asked_for(A).len(), 1))
        .at(62_000, |house| {
            let (_, event) = *house.auths.last().expect("a login is under way");
            house.logins = [Login::Accepted].into();
            house.say(toy::ok(event, true, ""));
        })
        .must(65_000, |house| assert_eq!(house.asked_for(A).len(), 2))
        .finally(|house| assert!(house.is_live(A)))
        .play();
}

#[test]
fn block_buzz_7083_a_login_over_a_slow_link_has_the_time_that_it_needs() {
    Case::new(|| {
        let mut house = member();
        house.challenges = false;
        house.logins = [Login::ByHand].into();
        house.begin()
    })
    .at(6000, |house| challenged(house, "late"))
    .at(10_000, |house| {
        let login = house.auths.last().map(|(_, event)| *event);
        house.logins = [Login::Accepted].into();
        if let Some(event) = login {
            house.say(toy::ok(event, true, ""));
        }
    })
    .must(10_000, |house| {
        assert!(house.script.part().view().is_authenticated);
        assert_eq!(dials(house).len(), 1);
    })
    .never(|house| assert!(closes(house, CloseCause::AuthLimit).is_empty()))
    .finally(|house| assert!(house.is_live(A)))
    .play();
}

#[test]
fn vitorpamplona_amethyst_3905_a_refused_login_is_told_at_once() {
    Case::new(|| member().begin())
        .at(60_000, |house| {
            house.logins = [Login::ByHand].into();
            house.close(A, WANTED);
            challenged(house, "again");
        })
        .at(61_000, |house| {
            if let Some((at, event)) = house.auths.last().copied()
                && house.instant().saturating_since(at) <= SECOND
            {
                house.say(toy::ok(event, false, "restricted: not a relay member"));
            }
            house.logins = [Login::Accepted].into();
        })
        // The login decides for the whole connection: it is left at once, and slowly come back to.
        .must(61_000, |house| {
            let closed = when(house, |action| {
                let cause = CloseCause::AuthRefused;
                matches!(action, Action::Close { cause: found, .. } if *found == cause)
            });
            assert_eq!(closed, [house.instant()]);
            let refused = |note: &Note| matches!(note, Note::Link(LinkNote::AuthRefused { .. }));
            let told = house.notes.iter().find(|(_, note)| refused(note));
            assert_eq!(told.map(|(at, _)| *at), Some(house.instant()));
        })
        .finally(|house| assert!(house.is_live(A)))
        .play();
}

#[test]
fn block_buzz_3019_a_name_that_was_closed_is_not_used_again() {
    Case::new(|| member().begin())
        .at(5000, |house| {
            house.close(A, WANTED);
            challenged(house, "again");
        })
        .at(30_000, |house| {
            house.close(A, "error: restart of the database")
        })
        .never(|house| {
            let mut names: Vec<_> = house.asked.iter().map(|asked| &asked.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), house.asked.len());
        })
        .finally(|house| assert!(house.is_live(A)))
        .play();
}
