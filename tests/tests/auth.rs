//! Who we are: challenges, their answers, and relays that do not ask.

use std::time::Duration;

use buzz_proto::ids::{ConnId, Ticket};
use buzz_proto::note::{LinkNote, Note};
use buzz_proto::relay::{Action, BrokeCause, CloseCause, Input, Relay, Sub, SubState};
use buzz_proto::time::UnixTime;
use buzz_sim::relay::{channel_sub, close, connect, given, script};
use buzz_sim::script::{Script, ms, secs};
use buzz_sim::toy::{self, START, Toy, channel};

const SECOND: Duration = Duration::from_secs(1);
const SLOW: Duration = Duration::from_secs(300);
const SLOWEST: Duration = Duration::from_secs(360);
const UP: Action = Action::Link { live: true };
const DOWN: Action = Action::Link { live: false };

#[test]
fn a_challenge_is_answered_once_and_its_ok_makes_the_link_live() {
    let mut relay = script(given(&[1]));
    relay.open().expect([]).notes();
    relay.at(ms(400)).frame(toy::challenge("first"));
    relay.expect([sign_auth(1, "first", START)]);
    let event = Toy::new(7).kind(22_242).bytes();
    let ticket = Ticket(1);
    relay.input(Input::Signed { ticket, event });
    assert_eq!(relay.sent().len(), 1);
    relay.written();
    relay.frame(toy::ok(toy::id(8), true, "")).expect([]);
    assert!(!relay.part().view().is_authenticated);
    relay.notes();
    relay.frame(toy::ok(toy::id(7), true, ""));
    let live = LinkNote::Live {
        authenticated: true,
    };
    assert_eq!(relay.notes()[0], Note::Link(live));
    assert!(relay.part().view().is_authenticated);
    let orders = relay.orders();
    let ticket = Ticket(2);
    assert_eq!(orders[..2], [Action::Inform { ticket }, UP]);
    assert!(matches!(orders[2..], [Action::Send { .. }]));
}

#[test]
fn the_newest_challenge_replaces_the_one_that_waits_and_one_auth_is_in_flight() {
    let mut relay = script(given(&[]));
    relay.open().frame(toy::challenge("first"));
    relay.expect([sign_auth(1, "first", START)]);
    relay.frame(toy::challenge("second")).expect([]);
    relay.frame(toy::challenge("third")).expect([]);
    let (ticket, event) = (Ticket(1), Toy::new(7).bytes());
    relay.input(Input::Signed { ticket, event });
    assert_eq!(relay.sent().len(), 1);
    relay.written().frame(toy::ok(toy::id(7), true, ""));
    relay.expect([sign_auth(2, "third", START)]);
    let (ticket, event) = (Ticket(2), Toy::new(8).bytes());
    relay.input(Input::Signed { ticket, event });
    assert_eq!(relay.sent().len(), 1);
    relay.written().frame(toy::ok(toy::id(8), true, ""));
    relay.expect_live().expect([]);
}

#[test]
fn a_refusal_of_an_outdated_answer_is_followed_by_the_newer_challenge() {
    let mut relay = script(given(&[]));
    relay.open().frame(toy::challenge("first"));
    let event = relay.sign(7);
    relay.written().frame(toy::challenge("second")).expect([]);
    relay.frame(toy::ok(event, false, "auth-required: verification failed"));
    relay.expect([sign_auth(2, "second", START)]);
}

#[test]
fn already_authenticated_counts_as_success() {
    let mut relay = script(given(&[]));
    relay.open().frame(toy::challenge("first"));
    let event = relay.sign(7);
    let text = "auth-required: already authenticated";
    relay.written().frame(toy::ok(event, false, text));
    relay.expect_live().expect([]);
}

#[test]
fn a_refused_auth_closes_the_socket_and_its_class_says_how_soon_to_return() {
    for (reason, least, most) in [
        ("blocked: banned", SLOW, SLOWEST),
        ("restricted: not a relay member", SLOW, SLOWEST),
        ("auth-required: verification failed", SECOND / 2, SECOND),
        ("error: database", SECOND / 2, SECOND),
        (
            "invalid: event creation timestamp is too far off",
            SECOND / 2,
            SECOND,
        ),
        ("rate-limited: slow down", SECOND / 2, SECOND),
        ("no", SECOND / 2, SECOND),
        ("", SECOND / 2, SECOND),
    ] {
        let mut relay = script(given(&[]));
        relay.open().frame(toy::challenge("first"));
        let event = relay.sign(7);
        relay.written().notes();
        relay.frame(toy::ok(event, false, reason));
        relay.expect([close(1, CloseCause::AuthRefused)]);
        let notes = relay.notes();
        let told = |note: &Note| {
            matches!(note, Note::Link(LinkNote::AuthRefused { reason: found })
                if found.text.as_str() == reason)
        };
        assert!(told(&notes[0]), "{notes:?}");
        let Some(&Note::Link(LinkNote::Waiting { wait })) = notes.last() else {
            panic!("no wait: {notes:?}");
        };
        assert!(least <= wait && wait <= most, "{reason}: {wait:?}");
    }
}

#[test]
fn a_relay_that_sends_no_challenge_is_used_without() {
    let mut relay = script(given(&[1]));
    relay.open().notes();
    relay.quiet_until(secs(3)).tick();
    let ticket = Ticket(1);
    relay.expect([Action::Inform { ticket }, UP]);
    let live = LinkNote::Live {
        authenticated: false,
    };
    assert_eq!(relay.notes()[0], Note::Link(live));
    let cause = BrokeCause::Connection;
    relay.input(Input::Broke { ticket, cause });
    assert_eq!(relay.requested(), [channel_sub(1, 1)]);
}

#[test]
fn a_challenge_that_comes_later_is_answered_in_place() {
    let mut relay = script(given(&[1]));
    relay.live();
    assert_eq!(relay.requested(), [channel_sub(1, 1)]);
    relay.written();
    relay.at(secs(5)).frame(toy::challenge("late"));
    relay.expect([sign_auth(2, "late", START.after(5 * SECOND))]);
    relay.subscribe(channel(2)).expect([]);
    let event = Toy::new(7).kind(22_242);
    let ticket = Ticket(2);
    relay.input(Input::Signed {
        ticket,
        event: event.bytes(),
    });
    assert_eq!(relay.sent().len(), 1);
    let event = toy::id(7);
    relay.written().frame(toy::ok(event, true, ""));
    assert_eq!(relay.requested(), [channel_sub(2, 2)]);
}

#[test]
fn a_subscription_refused_for_want_of_auth_is_asked_again_after_it() {
    let mut relay = refused_for_want_of_auth();
    relay.quiet_for(4 * SECOND).frame(toy::challenge("late"));
    let event = relay.sign(7);
    relay.written().frame(toy::ok(event, true, ""));
    assert_eq!(relay.requested(), [channel_sub(1, 2)]);
}

#[test]
fn a_relay_that_wants_auth_and_sends_no_challenge_is_dialed_anew() {
    let mut relay = refused_for_want_of_auth();
    relay.quiet_for(5 * SECOND).tick();
    relay.expect([close(1, CloseCause::AuthLimit), DOWN]);
}

#[test]
fn a_notice_that_speaks_of_authentication_holds_nothing_up_and_ends_nothing() {
    let mut relay = script(given(&[1]));
    relay.live();
    relay.confirmed(&[channel_sub(1, 1)]);
    let text = "auth-required: who are you";
    relay.frame(toy::notice(text)).expect([]);
    relay.subscribe(channel(2));
    relay.confirmed(&[channel_sub(2, 2)]);
    relay.alive_for(60 * SECOND);
}

#[test]
fn what_a_notice_left_unanswered_is_asked_for_again_when_its_own_limit_has_passed() {
    let mut relay = script(given(&[1]));
    relay.live();
    assert_eq!(relay.requested(), [channel_sub(1, 1)]);
    relay.written();
    relay.frame(toy::notice("auth-required: who are you"));
    relay.alive_for(60 * SECOND).tick();
    assert_eq!(relay.requested(), [channel_sub(1, 2)]);
}

#[test]
fn ten_challenges_a_minute_are_answered() {
    let mut relay = script(given(&[]));
    relay.live_with_auth();
    for n in 1..10 {
        relay.frame(toy::challenge(&n.to_string()));
        let event = relay.sign(n);
        relay.written().frame(toy::ok(event, true, "")).orders();
    }
    relay.frame(toy::challenge("one too many")).expect([]);
    relay.quiet_for(6 * SECOND).tick();
    let dated = START.after(6 * SECOND);
    relay.expect([sign_auth(12, "one too many", dated)]);
}

#[test]
fn a_signature_has_its_limit() {
    let mut relay = script(given(&[]));
    relay.live();
    relay.at(secs(10)).frame(toy::challenge("late"));
    relay.expect([sign_auth(2, "late", START.after(10 * SECOND))]);
    relay.alive_for(20 * SECOND);
    relay.tick().expect([close(1, CloseCause::AuthLimit), DOWN]);
    let (ticket, event) = (Ticket(2), Toy::new(7).bytes());
    relay.input(Input::Signed { ticket, event }).expect([]);
}

#[test]
fn a_signer_that_refuses_or_signs_nonsense_ends_the_socket() {
    let ticket = Ticket(1);
    for failed in [
        Input::SignFailed { ticket },
        Input::Signed {
            ticket,
            event: "no event".into(),
        },
    ] {
        let mut relay = script(given(&[]));
        relay.open().frame(toy::challenge("first")).orders();
        relay.input(failed);
        relay.expect([close(1, CloseCause::AuthRefused)]);
    }
}

#[test]
fn authentication_as_a_whole_has_its_limit() {
    let mut relay = script(given(&[]));
    relay.open();
    relay.at(secs(2)).frame(toy::challenge("first"));
    relay.expect([sign_auth(1, "first", START.after(2 * SECOND))]);
    relay.quiet_until(secs(20)).tick();
    relay.expect([close(1, CloseCause::AuthLimit)]);
}

#[test]
fn a_relay_that_says_nothing_to_an_auth_is_used_all_the_same() {
    let mut relay = script(given(&[]));
    relay.open().frame(toy::challenge("first"));
    let event = relay.sign(7);
    relay.written().quiet_until(secs(5)).tick();
    relay.expect_live().expect([]);
    assert!(!relay.part().view().is_authenticated);
    relay.frame(toy::ok(event, true, "")).expect([]);
    assert!(relay.part().view().is_authenticated);
}

#[test]
fn a_relay_that_says_nothing_to_an_auth_and_then_asks_for_one_is_left() {
    let mut relay = refused_before_the_ok();
    relay.quiet_until(secs(20)).tick();
    relay.expect([close(1, CloseCause::AuthLimit), DOWN]);
}

#[test]
fn an_ok_that_comes_after_a_refusal_for_want_of_auth_is_believed() {
    let mut relay = refused_before_the_ok();
    relay.quiet_until(secs(12));
    relay.frame(toy::ok(toy::id(7), true, ""));
    assert_eq!(relay.requested(), [channel_sub(1, 2)]);
    relay.written().frame(toy::eose(&channel_sub(1, 2)));
    relay.orders();
    relay.alive_for(45 * SECOND);
}

#[test]
fn a_challenge_that_comes_after_a_refusal_for_want_of_auth_is_answered() {
    let mut relay = refused_before_the_ok();
    relay.quiet_until(secs(6)).frame(toy::challenge("second"));
    let event = relay.sign(8);
    relay.written().frame(toy::ok(event, true, ""));
    assert_eq!(relay.requested(), [channel_sub(1, 2)]);
}

#[test]
fn without_a_wall_clock_nothing_is_signed() {
    let mut relay = script(given(&[]));
    relay.tick().expect([connect(1)]);
    relay.connected().frame(toy::challenge("first")).expect([]);
    relay.quiet_until(secs(1)).wall_clock();
    relay.expect([sign_auth(1, "first", START.after(SECOND))]);
}

#[test]
fn an_auth_frame_of_which_nothing_left_is_sent_again() {
    let mut relay = script(given(&[]));
    relay.open().frame(toy::challenge("first"));
    let event = relay.sign(7);
    let write = relay.unanswered_writes()[0];
    relay.input(Input::WriteFailed { write, sent: false });
    assert_eq!(relay.sent().len(), 1);
    relay.written().frame(toy::ok(event, true, ""));
    relay.expect_live().expect([]);
}

#[test]
fn a_clock_that_differs_by_more_than_the_relay_allows_is_named() {
    for (date, seconds) in [
        (START.after(60 * SECOND), None),
        (START.after(61 * SECOND), Some(-61)),
        (START.before(61 * SECOND), Some(61)),
        (UnixTime(0), Some(1_800_000_000)),
    ] {
        let mut relay = script(given(&[]));
        relay.wall_clock().expect([connect(1)]).notes();
        let (conn, date) = (ConnId(1), Some(date));
        relay.input(Input::Connected { conn, date });
        let expected: Vec<_> = seconds
            .map(|seconds| Note::ClockSkew { seconds })
            .into_iter()
            .collect();
        assert_eq!(relay.notes(), expected);
    }
}

/// A link without AUTH whose relay refuses a channel until it has one.
fn refused_for_want_of_auth() -> Script<Relay> {
    let mut relay = script(given(&[1]));
    relay.live().requested();
    relay.written();
    relay.frame(toy::closed(
        &channel_sub(1, 1),
        "auth-required: who are you",
    ));
    relay.expect([waiting(1)]);
    relay
}

/// A link whose AUTH had no OK, and whose relay then refuses a channel.
fn refused_before_the_ok() -> Script<Relay> {
    let mut relay = script(given(&[1]));
    relay.open().orders();
    relay.frame(toy::challenge("first"));
    relay.sign(7);
    relay.written().run_until(secs(5)).expect_live();
    assert_eq!(relay.requested(), [channel_sub(1, 1)]);
    relay.written();
    let text = "auth-required: not authenticated";
    relay.frame(toy::closed(&channel_sub(1, 1), text));
    relay.expect([waiting(1)]);
    relay
}

fn sign_auth(ticket: u64, challenge: &str, created_at: UnixTime) -> Action {
    Action::SignAuth {
        ticket: Ticket(ticket),
        challenge: challenge.into(),
        created_at,
    }
}

fn waiting(n: u8) -> Action {
    Action::Report {
        sub: Sub::Channel(channel(n)),
        state: SubState::Waiting,
    }
}
