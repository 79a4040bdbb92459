//! What each reason does, by the frame that bears it, and that it does nothing else.
//!
//! Every row is one word of a relay to an agent that has authenticated, follows two channels and
//! has been live for a minute. Right after it the agent wants another channel and another message.

use std::time::Duration;

use buzz_proto::publish::Verdict;
use buzz_proto::relay::{Action, CloseCause, Sub, SubState};
use buzz_proto::time::MonoTime;
use buzz_sim::toy::{self, channel};

use crate::desk::{Desk, ok};
use crate::support::{SECOND, extra_max, ms};

use End::{AsUnauthenticated, Stays};
use Standing::{Refused, Unchanged, Waiting};
use Wait::{Gate, Never, Now, Redial, Seconds};

/// When something goes, counted from the word.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// At once.
    Now,
    /// After so many seconds and the part that is drawn by seed.
    Gate(u64),
    /// After exactly so many seconds.
    Seconds(u64),
    /// Over the next connection, after five seconds in which no challenge came.
    Redial,
    /// Not within ten minutes.
    Never,
}

/// What is reported of the subscription that is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Unchanged,
    Waiting,
    Refused,
}

/// What becomes of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stays,
    /// No challenge came for five seconds.
    AsUnauthenticated,
}

const A: u8 = 1;
const B: u8 = 2;
const C: u8 = 3;
const TEN_MINUTES: Duration = Duration::from_secs(600);
const FIRST: u64 = 1;
const SECOND_JOB: u64 = 2;

impl Wait {
    pub(crate) fn fits(self, found: Option<Duration>) -> bool {
        let (least, most) = match self {
            Self::Now => (ms(0), ms(0)),
            Self::Gate(seconds) => {
                let wait = Duration::from_secs(seconds);
                (wait + ms(500), wait + extra_max(wait) + ms(1))
            }
            Self::Seconds(seconds) => (Duration::from_secs(seconds), Duration::from_secs(seconds)),
            Self::Redial => (ms(5500), ms(6001)),
            Self::Never => return found.is_none(),
        };
        found.is_some_and(|found| least <= found && found <= most)
    }
}

/// An agent that follows two channels, and the present.
fn live() -> (Desk, MonoTime) {
    let mut desk = Desk::live_with_auth();
    desk.on_event = |number| Some(ok(number, true, ""));
    desk.subscribe(A);
    desk.subscribe(B);
    desk.run_for(70 * SECOND);
    let now = desk.now();
    (desk, now)
}

/// The requests for a channel since an instant.
fn asked(desk: &Desk, place: u8, since: MonoTime) -> Vec<Duration> {
    let name = format!("ch-{}-", channel(place));
    let all = desk.requests.iter();
    let those = all.filter(|(at, found)| *at >= since && found.starts_with(&name));
    those.map(|(at, _)| at.saturating_since(since)).collect()
}

/// The frames with an EVENT since an instant.
fn sent(desk: &Desk, job: u64, since: MonoTime) -> Vec<Duration> {
    let all = desk.events.iter();
    let those = all.filter(|(at, number)| *at >= since && *number == job);
    those.map(|(at, _)| at.saturating_since(since)).collect()
}

/// How sockets were given up since an instant, and when.
fn ends(desk: &Desk, since: MonoTime) -> Vec<(Duration, CloseCause)> {
    let mut ends = Vec::new();
    for (at, order) in desk.relay_orders(since) {
        if let Action::Close { cause, .. } = order {
            ends.push((at.saturating_since(since), cause));
        }
    }
    ends
}

/// Dials since an instant.
fn dials(desk: &Desk, since: MonoTime) -> Vec<Duration> {
    let mut dials = desk.relay_orders(since);
    dials.retain(|(_, order)| matches!(order, Action::Connect { .. }));
    let dials = dials.into_iter();
    dials.map(|(at, _)| at.saturating_since(since)).collect()
}

/// What was reported first of a channel's subscription since an instant.
fn standing(desk: &Desk, place: u8, since: MonoTime) -> Standing {
    let own = Sub::Channel(channel(place));
    for (at, order) in desk.relay_orders(since) {
        if let Action::Report { sub, state } = order
            && sub == own
            && at == since
        {
            return match state {
                SubState::Live => continue,
                SubState::Waiting => Waiting,
                SubState::Refused { .. } => Refused,
            };
        }
    }
    Unchanged
}

fn expect_end(desk: &Desk, since: MonoTime, end: End, reason: &str) {
    let found = ends(desk, since);
    match end {
        Stays => assert!(
            found.is_empty() && dials(desk, since).is_empty(),
            "{reason}: {found:?}"
        ),
        AsUnauthenticated => {
            assert_eq!(found, [(5 * SECOND, CloseCause::AuthLimit)], "{reason}");
        }
    }
}

#[test]
fn each_reason_of_a_closed_subscription_has_its_effect_and_no_other() {
    // Reason; what is reported of the subscription; when it is asked for again; when a request
    // for another channel and a message go; what becomes of the connection.
    #[rustfmt::skip]
    let rows = [
        // Quotas shut the gate for everybody, and the subscription waits for nothing else.
        ("rate-limited: quota exceeded; retry in 4s",         Unchanged, Gate(4),     Gate(4), Stays),
        ("rate-limited: quota exceeded; retry in 40s",        Unchanged, Gate(40),    Gate(40), Stays),
        ("rate-limited: shared admission unavailable; retry in 1s", Unchanged, Gate(1), Gate(1), Stays),
        ("rate-limited: shared admission unavailable",        Unchanged, Gate(5),     Gate(5), Stays),
        ("rate-limited: too many concurrent requests",        Unchanged, Gate(5),     Gate(5), Stays),
        ("rate-limited",                                      Unchanged, Gate(5),     Gate(5), Stays),
        // What may pass is asked for again, after a wait of its own.
        ("",                                                  Waiting,   Seconds(1),  Now,     Stays),
        ("error: database error",                             Waiting,   Seconds(1),  Now,     Stays),
        ("error: shutting down",                              Waiting,   Seconds(1),  Now,     Stays),
        ("error: too many subscriptions",                     Waiting,   Seconds(1),  Now,     Stays),
        ("error: mixed search and non-search filters not supported", Waiting, Seconds(1), Now, Stays),
        ("relay: not found",                                  Waiting,   Seconds(1),  Now,     Stays),
        ("duplicate: again",                                  Waiting,   Seconds(1),  Now,     Stays),
        ("we had to rate-limited: retry in 9s",               Waiting,   Seconds(1),  Now,     Stays),
        // Everything waits for authentication, in place or over the next connection.
        ("auth-required: not authenticated",                  Waiting,   Redial,      Redial,  AsUnauthenticated),
        // What stays as it is costs one more request, and touches nothing else.
        ("restricted: not a channel member",                  Refused,   Seconds(90), Now,     Stays),
        ("restricted: channel access revoked",                Refused,   Seconds(90), Now,     Stays),
        ("restricted: insufficient scope",                    Refused,   Seconds(90), Now,     Stays),
        ("restricted: too many explicit channels",            Refused,   Seconds(90), Now,     Stays),
        ("restricted: author-only kinds require authors=[self]", Refused, Seconds(90), Now,    Stays),
        ("restricted: not a relay member",                    Refused,   Seconds(90), Now,     Stays),
        ("blocked: you are banned from this community",       Refused,   Seconds(90), Now,     Stays),
        ("invalid: bad filter",                               Refused,   Seconds(90), Now,     Stays),
        ("pow: 20 bits needed",                               Refused,   Seconds(90), Now,     Stays),
        ("unsupported: search",                               Refused,   Seconds(90), Now,     Stays),
    ];
    for (reason, reported, again, others, end) in rows {
        let (mut desk, start) = live();
        let name = desk.requests[0].1.clone();
        desk.frame(toy::closed(&name, reason));
        desk.subscribe(C);
        desk.submit(FIRST, TEN_MINUTES);
        desk.run_for(TEN_MINUTES);
        assert_eq!(standing(&desk, A, start), reported, "{reason}");
        let asked_again = asked(&desk, A, start);
        assert!(
            again.fits(asked_again.first().copied()),
            "{reason}: {asked_again:?}"
        );
        assert_eq!(asked_again.len(), 1, "{reason}");
        let asked_anew = asked(&desk, C, start);
        assert!(
            others.fits(asked_anew.first().copied()),
            "{reason}: {asked_anew:?}"
        );
        let sent = sent(&desk, FIRST, start);
        assert!(
            sent.len() == 1 && others.fits(Some(sent[0])),
            "{reason}: {sent:?}"
        );
        assert_eq!(desk.verdict(FIRST), Some(&Verdict::Stored), "{reason}");
        assert_eq!(standing(&desk, B, start), Unchanged, "{reason}");
        let untouched = usize::from(end == AsUnauthenticated);
        assert_eq!(asked(&desk, B, start).len(), untouched, "{reason}");
        expect_end(&desk, start, end, reason);
    }
}

#[test]
fn each_reason_of_a_refused_event_has_its_effect_and_no_other() {
    // Reason; when the event goes again; what becomes of it, if it is rejected; when another
    // message goes, and a request; what becomes of the connection.
    #[rustfmt::skip]
    let rows = [
        // Quotas shut the gate of messages; a short wait or none may be about either.
        ("rate-limited: quota exceeded; retry in 40s",  Gate(40), None,   Gate(40), Now,     Stays),
        ("rate-limited: quota exceeded; retry in 4s",   Gate(4),  None,   Gate(4),  Gate(4), Stays),
        ("rate-limited: observer frames",               Gate(5),  None,   Gate(5),  Gate(5), Stays),
        // It is stored.
        ("duplicate: already have this event",          Never,    None,   Now,      Now,     Stays),
        // It waits for authentication.
        ("auth-required: not authenticated",            Redial,   None,   Redial,   Redial,  AsUnauthenticated),
        // It is refused for good, and nothing else is.
        ("invalid: bad tag",                            Never,    Some(()), Now,    Now,     Stays),
        ("invalid: event timestamp too far",            Never,    Some(()), Now,    Now,     Stays),
        ("blocked: word on the list",                   Never,    Some(()), Now,    Now,     Stays),
        ("restricted: you are timed out until tomorrow", Never,   Some(()), Now,    Now,     Stays),
        ("restricted: not a relay member",              Never,    Some(()), Now,    Now,     Stays),
        ("pow: 20 bits needed",                         Never,    Some(()), Now,    Now,     Stays),
        ("unsupported: kind",                           Never,    Some(()), Now,    Now,     Stays),
        ("something else",                              Never,    Some(()), Now,    Now,     Stays),
        ("",                                            Never,    Some(()), Now,    Now,     Stays),
    ];
    for (reason, again, rejected, messages, requests, end) in rows {
        let (mut desk, start) = live();
        desk.on_event = |_| None;
        desk.submit(FIRST, TEN_MINUTES);
        desk.on_event = |number| Some(ok(number, true, ""));
        desk.frame(ok(FIRST, false, reason));
        desk.subscribe(C);
        desk.submit(SECOND_JOB, TEN_MINUTES);
        desk.run_for(TEN_MINUTES);
        let sent_again = sent(&desk, FIRST, start);
        assert!(
            again.fits(sent_again.get(1).copied()),
            "{reason}: {sent_again:?}"
        );
        let verdict = desk.verdict(FIRST);
        match rejected {
            None => assert_eq!(verdict, Some(&Verdict::Stored), "{reason}"),
            Some(()) => assert!(
                matches!(verdict, Some(Verdict::Rejected { reason: told }) if told.text.as_str() == reason),
                "{reason}: {verdict:?}"
            ),
        }
        let others = sent(&desk, SECOND_JOB, start);
        assert!(
            messages.fits(others.first().copied()),
            "{reason}: {others:?}"
        );
        let asked_anew = asked(&desk, C, start);
        assert!(
            requests.fits(asked_anew.first().copied()),
            "{reason}: {asked_anew:?}"
        );
        for place in [A, B] {
            assert_eq!(standing(&desk, place, start), Unchanged, "{reason}");
            let again = usize::from(end == AsUnauthenticated);
            assert_eq!(asked(&desk, place, start).len(), again, "{reason}");
        }
        expect_end(&desk, start, end, reason);
    }
}

#[test]
fn each_reason_of_a_refused_authentication_says_how_soon_to_come_back() {
    let soon = (ms(500), SECOND);
    let slow = (300 * SECOND, 360 * SECOND);
    for (reason, (least, most)) in [
        ("auth-required: verification failed", soon),
        ("auth-required: authentication already failed", soon),
        ("error: internal error checking restriction state", soon),
        ("invalid: event creation date is too far off", soon),
        ("rate-limited: slow down; retry in 40s", soon),
        ("something else", soon),
        ("", soon),
        ("restricted: not a relay member", slow),
        ("blocked: you are banned from this community", slow),
    ] {
        let (mut desk, start) = live();
        desk.no_auth = Some(reason);
        desk.frame(toy::challenge("again"));
        desk.no_auth = None;
        desk.run_for(TEN_MINUTES);
        let ended = (ms(0), CloseCause::AuthRefused);
        assert_eq!(ends(&desk, start), [ended], "{reason}");
        let dials = dials(&desk, start);
        assert!(
            dials.len() == 1 && least <= dials[0] && dials[0] <= most,
            "{reason}: {dials:?}"
        );
        for place in [A, B] {
            assert_eq!(asked(&desk, place, start).len(), 1, "{reason}");
            assert_eq!(standing(&desk, place, start), Unchanged, "{reason}");
        }
    }
    let (mut desk, start) = live();
    desk.no_auth = Some("auth-required: already authenticated");
    desk.frame(toy::challenge("again"));
    desk.run_for(TEN_MINUTES);
    expect_end(&desk, start, Stays, "already authenticated");
}

#[test]
fn a_notice_touches_the_gate_of_messages_when_it_speaks_of_a_limit_and_nothing_else() {
    // Text; when an event without an answer goes again, which is its own limit of fifteen seconds
    // and the first wait where the text changes nothing; when another message goes, and a request.
    #[rustfmt::skip]
    let rows = [
        ("rate-limited: quota exceeded; retry in 40s",  Gate(40),    Gate(40), Now),
        ("rate-limited: quota exceeded; retry in 4s",   Gate(4),     Gate(4),  Gate(4)),
        ("rate-limited",                                Gate(5),     Gate(5),  Gate(5)),
        ("auth-required: not authenticated",            Seconds(16), Now,      Now),
        ("restricted: insufficient scope",              Seconds(16), Now,      Now),
        ("blocked: you are banned from this community", Seconds(16), Now,      Now),
        ("invalid: could not read that",                Seconds(16), Now,      Now),
        ("error: database error",                       Seconds(16), Now,      Now),
        ("duplicate: again",                            Seconds(16), Now,      Now),
        ("you have been rate-limited: retry in 40s",    Seconds(16), Now,      Now),
        ("",                                            Seconds(16), Now,      Now),
    ];
    for (text, again, messages, requests) in rows {
        let (mut desk, start) = live();
        desk.on_event = |_| None;
        desk.submit(FIRST, TEN_MINUTES);
        desk.on_event = |number| Some(ok(number, true, ""));
        desk.frame(toy::notice(text));
        desk.subscribe(C);
        desk.submit(SECOND_JOB, TEN_MINUTES);
        desk.run_for(TEN_MINUTES);
        let sent_again = sent(&desk, FIRST, start);
        assert!(
            again.fits(sent_again.get(1).copied()),
            "{text}: {sent_again:?}"
        );
        let others = sent(&desk, SECOND_JOB, start);
        assert!(messages.fits(others.first().copied()), "{text}: {others:?}");
        let asked_anew = asked(&desk, C, start);
        assert!(
            requests.fits(asked_anew.first().copied()),
            "{text}: {asked_anew:?}"
        );
        for job in [FIRST, SECOND_JOB] {
            assert_eq!(desk.verdict(job), Some(&Verdict::Stored), "{text}");
        }
        for place in [A, B] {
            assert!(asked(&desk, place, start).is_empty(), "{text}");
        }
        expect_end(&desk, start, Stays, text);
    }
}
