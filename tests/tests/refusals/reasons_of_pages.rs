//! What each reason does that ends a read of stored events: what it was for stays owed, and the
//! subscription and the others are not touched.

use buzz_proto::config::Consumer;
use buzz_proto::relay::{Action, CloseCause, SubState};
use buzz_proto::time::MonoTime;
use buzz_sim::bench::{Answer, Bench, Dial};
use buzz_sim::relay::{given, unaudited};
use buzz_sim::toy;

use crate::reasons::Wait::{self, Gate, Now, Redial, Seconds};
use crate::support::SECOND;

const A: u8 = 1;
const B: u8 = 2;
const C: u8 = 3;
const SLOTS: u32 = 4;
/// Of these the last finds no room.
const EVENTS: u64 = 5;

/// A channel owes an event, and the read of it was just ended with this reason.
fn refused(reason: &'static str) -> (Bench, MonoTime) {
    let consumer = Consumer::External { slots: SLOTS };
    let mut bench = Bench::new(unaudited(given(&[A, B])), &consumer);
    bench.attend(Dial::Succeeds);
    bench.run_for(70 * SECOND);
    for n in 1..=EVENTS {
        let present = bench.present();
        bench.publish(n, A, present);
    }
    bench.page = Answer::Closed(reason);
    bench.take_all();
    let start = bench.script.now();
    bench.page = Answer::Whole;
    (bench, start)
}

/// When pages were asked for, or the live subscription to a channel, since an instant.
fn asked(bench: &Bench, is_page: bool, place: u8, since: MonoTime) -> Vec<MonoTime> {
    let all = bench.requests.iter().filter(|request| {
        request.is_page() == is_page && request.channel() == place && request.at >= since
    });
    all.map(|request| request.at).collect()
}

#[test]
fn each_reason_of_a_refused_read_leaves_the_debt_and_touches_no_subscription() {
    // Reason; when the read is repeated; when a request for another channel goes; how often each
    // live subscription is asked for anew.
    #[rustfmt::skip]
    let rows: [(&str, Wait, Wait, usize); 14] = [
        ("rate-limited: quota exceeded; retry in 40s",  Gate(40),   Gate(40), 0),
        ("rate-limited: too many concurrent requests",  Gate(5),    Gate(5),  0),
        ("auth-required: not authenticated",            Redial,     Redial,   1),
        ("",                                            Seconds(5), Now,      0),
        ("error: database error",                       Seconds(5), Now,      0),
        ("error: too many subscriptions",               Seconds(5), Now,      0),
        ("restricted: not a channel member",            Seconds(5), Now,      0),
        ("restricted: channel access revoked",          Seconds(5), Now,      0),
        ("restricted: insufficient scope",              Seconds(5), Now,      0),
        ("blocked: you are banned from this community", Seconds(5), Now,      0),
        ("invalid: bad filter",                         Seconds(5), Now,      0),
        ("pow: 20 bits needed",                         Seconds(5), Now,      0),
        ("unsupported: ids",                            Seconds(5), Now,      0),
        ("something else",                              Seconds(5), Now,      0),
    ];
    for (reason, again, others, anew) in rows {
        let (mut bench, start) = refused(reason);
        let first = asked(&bench, true, A, start);
        assert_eq!(first, [start], "{reason}");
        bench.subscribe(C);
        for _ in 0..120 {
            bench.run_for(SECOND);
            bench.take_all();
        }
        let after =
            |times: &[MonoTime], n: usize| times.get(n).map(|at| at.saturating_since(start));
        let reads = asked(&bench, true, A, start);
        assert!(again.fits(after(&reads, 1)), "{reason}: {reads:?}");
        let asked_anew = asked(&bench, false, C, start);
        assert!(
            others.fits(after(&asked_anew, 0)),
            "{reason}: {asked_anew:?}"
        );
        for place in [A, B] {
            assert_eq!(asked(&bench, false, place, start).len(), anew, "{reason}");
        }
        bench.expect_delivered((1..=EVENTS).map(toy::id));
        expect_no_other_effect(&bench, anew, reason);
    }
}

/// No subscription was refused or waits, and this many sockets were given up for want of AUTH.
fn expect_no_other_effect(bench: &Bench, sockets: usize, reason: &str) {
    let mut ends = Vec::new();
    for (_, _, actions) in bench.script.calls() {
        for action in actions {
            if let Action::Close { cause, .. } = action {
                ends.push(cause);
            } else if let Action::Report { state, .. } = action {
                assert_eq!(state, SubState::Live, "{reason}");
            }
        }
    }
    assert_eq!(ends, vec![CloseCause::AuthLimit; sockets], "{reason}");
}
