//! Reports of rate limits on the socket, and of dials that came too often.

use std::time::Duration;

use buzz_proto::publish::Verdict;
use buzz_proto::relay::{CloseCause, Command, ConnectCause};
use buzz_proto::time::MonoTime;
use buzz_sim::bench::Dial;
use buzz_sim::script::ms;
use buzz_sim::toy::{self, channel};

use crate::outcomes::{Leaving, expect_stored, gaps, ids_stay, is_stored, leaving_of, verdicts};
use crate::player::Case;
use crate::transcript::{Frame, closes, dials, frames, waits, waits_grow};
use crate::whole::{SLOTS, Whole, Word, live, settings};

const A: u8 = 1;
const B: u8 = 2;
const C: u8 = 3;
const D: u8 = 4;
const SECOND: Duration = Duration::from_secs(1);

fn subscribe(whole: &mut Whole, place: u8) {
    whole.command(Command::Subscribe {
        channel: channel(place),
        interest: None,
        floor: None,
    });
}

fn unsubscribe(whole: &mut Whole, place: u8) {
    let channel = channel(place);
    whole.command(Command::Unsubscribe { channel });
}

/// The requests for a channel's live subscription.
pub(crate) fn asked(whole: &Whole, place: u8) -> Vec<Frame> {
    let name = format!("ch-{}-", channel(place));
    let mut all = frames(whole);
    all.retain(|frame| frame.verb == "REQ" && frame.name.starts_with(&name));
    all
}

/// The frames that a relay counts, from an instant on.
fn counted_since(whole: &Whole, since: MonoTime) -> Vec<Frame> {
    let mut all = frames(whole);
    all.retain(|frame| frame.is_counted() && frame.at >= since);
    all
}

fn limit(whole: &mut Whole, seconds: u64) {
    let text = format!("rate-limited: too many requests; retry in {seconds}s");
    whole.say(toy::notice(&text));
}

fn refuse(whole: &mut Whole, place: u8, seconds: u64) {
    let text = format!("rate-limited: too many requests; retry in {seconds}s");
    whole.say_of(place, |name| toy::closed(name, &text));
}

fn come_back(whole: &mut Whole) {
    whole.dial = Dial::Succeeds;
    whole.is_silent = false;
}

// Waits that outlive sockets

/// Twenty channels, a burst of whose requests is under way.
fn replay() -> Whole {
    let channels: Vec<u8> = (1..=20).collect();
    let mut whole = Whole::new(settings(&channels, SLOTS));
    whole.begin();
    whole
}

/// The channel whose request goes last of all.
const Y: u8 = 20;
const X: u8 = 100;
const P: u64 = 1;
const Q: u64 = 2;
const T: u64 = 3;

/// Also 3053, 3432 and 7002.
#[test]
fn block_buzz_2199_a_wait_outlives_the_connection_and_keeps_what_is_wanted() {
    Case::new(replay)
        .must(500, |whole| {
            assert!(asked(whole, 3).len() == 1 && asked(whole, Y).is_empty());
        })
        .at(750, |whole| limit(whole, 4))
        .at(800, |whole| subscribe(whole, X))
        .at(800, |whole| unsubscribe(whole, Y))
        .at(900, |whole| whole.send(P))
        .at(900, |whole| whole.type_in(T, A, 5))
        .at(950, |whole| whole.send(Q))
        .at(1000, |whole| refuse(whole, 3, 9))
        .at(2000, Whole::disconnect)
        .must(3000, |whole| {
            assert!(whole.is_live());
            assert!(counted_since(whole, ms(1000)).is_empty());
        })
        .must(10_500, |whole| {
            assert!(counted_since(whole, ms(1000)).is_empty());
        })
        .must(16_000, |whole| {
            let frames = counted_since(whole, ms(1000));
            // A refused EVENT with a short wait may be about either quota, so that both are shut.
            assert!(frames[0].at <= ms(11_801), "{frames:?}");
            expect_stored(whole, [P, Q]);
            let [p, q] = [P, Q].map(|job| leaving_of(whole, job));
            assert!(p.len() == 1 && q.len() == 1 && p[0].at <= q[0].at);
            for place in (1..=19).chain([X]) {
                assert!(asked(whole, place).last().expect("asked").at >= frames[0].at);
            }
        })
        .at(17_000, |whole| limit(whole, 1))
        .must(16_000, |whole| {
            assert!(leaving_of(whole, T).is_empty());
            assert_eq!(verdicts(whole, T)[0].1, Verdict::Expired);
        })
        .never(|whole| {
            let is_late = |it: &Leaving| it.at > ms(5900);
            assert!(!leaving_of(whole, T).iter().any(is_late));
        })
        .never(|whole| {
            let dropped_at = ms(801);
            assert!(asked(whole, Y).iter().all(|it| it.at < dropped_at));
        })
        .never(ids_stay)
        .finally(|whole| {
            expect_stored(whole, [P, Q]);
            for place in (1..=19).chain([X]) {
                assert_eq!(asked(whole, place).last().map(|it| it.conn), whole.socket());
            }
        })
        .play();
}

#[test]
fn block_buzz_3432_waits_that_overlap_are_never_shortened() {
    Case::new(|| live(&[A, B, C]))
        .at(0, |whole| refuse(whole, A, 40))
        .at(1000, |whole| refuse(whole, B, 5))
        .at(2000, |whole| refuse(whole, C, 1))
        .at(2000, |whole| whole.send(P))
        .at(10_000, Whole::disconnect)
        .must(11_000, |whole| assert!(whole.is_live()))
        .must(40_499, |whole| {
            for place in [A, B, C] {
                assert_eq!(asked(whole, place).len(), 1);
            }
            assert!(leaving_of(whole, P).is_empty());
        })
        .must(50_000, |whole| {
            for place in [A, B, C] {
                assert_eq!(asked(whole, place).len(), 2);
            }
            expect_stored(whole, [P]);
        })
        .finally(|whole| expect_stored(whole, [P]))
        .play();
}

#[test]
fn block_buzz_3432_a_wait_of_nothing_is_one_of_a_second() {
    Case::new(|| live(&[A]))
        .at(0, |whole| refuse(whole, A, 0))
        .must(1499, |whole| assert_eq!(asked(whole, A).len(), 1))
        .must(2501, |whole| assert_eq!(asked(whole, A).len(), 2))
        .play();
}

#[test]
fn block_buzz_3432_a_socket_that_says_nothing_of_a_wait_is_left_alone_for_five_seconds() {
    Case::new(|| live(&[A, B]))
        .at(0, |whole| {
            whole.say_of(A, |name| toy::closed(name, "rate-limited"))
        })
        .at(100, |whole| whole.send(P))
        .at(3000, Whole::disconnect)
        .must(5499, |whole| {
            assert_eq!(asked(whole, B).len(), 1);
            assert!(leaving_of(whole, P).is_empty());
        })
        .must(8000, |whole| {
            assert_eq!(asked(whole, B).len(), 2);
            expect_stored(whole, [P]);
        })
        .finally(|whole| expect_stored(whole, [P]))
        .play();
}

// Waits and silence

/// Also 3974, and 98097 of another agent.
#[test]
fn block_buzz_3969_what_waits_behind_a_limit_outlives_a_peer_that_falls_silent() {
    Case::new(|| live(&[A, B]))
        .at(0, |whole| limit(whole, 5))
        .at(1000, |whole| limit(whole, 5))
        .at(1500, |whole| {
            subscribe(whole, D);
            whole.send(P);
        })
        .at(2000, |whole| limit(whole, 5))
        .at(2000, |whole| {
            whole.is_silent = true;
            whole.dial = Dial::Fails(ConnectCause::Transport);
        })
        .must(7499, |whole| {
            assert!(asked(whole, D).is_empty());
            assert!(leaving_of(whole, P).is_empty());
        })
        .must(10_000, |whole| {
            assert_eq!(asked(whole, D).len(), 1);
            assert_eq!(leaving_of(whole, P).len(), 1);
        })
        .must(45_000, |whole| {
            assert_eq!(closes(whole, CloseCause::Silent).len(), 1);
            assert!(!whole.is_live());
        })
        .must(120_000, |whole| {
            assert!(dials(whole).len() >= 4);
            assert!(verdicts(whole, P).is_empty());
        })
        .at(120_000, come_back)
        .must(185_000, |whole| {
            expect_stored(whole, [P]);
            for place in [A, B, D] {
                assert_eq!(asked(whole, place).last().map(|it| it.conn), whole.socket());
            }
        })
        .never(ids_stay)
        .never(waits_grow)
        .finally(|whole| expect_stored(whole, [P]))
        .play();
}

#[test]
fn block_buzz_3969_a_shut_gate_delays_neither_a_dial_nor_authentication() {
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            limit(whole, 60);
            refuse(whole, A, 60);
            whole.send(P);
        })
        .at(3000, Whole::disconnect)
        .must(4001, |whole| {
            assert!(whole.is_live());
            let auths = frames(whole).into_iter().filter(|it| it.verb == "AUTH");
            assert_eq!(auths.count(), 2);
        })
        .must(60_499, |whole| assert!(leaving_of(whole, P).is_empty()))
        .must(75_000, |whole| expect_stored(whole, [P]))
        .finally(|whole| expect_stored(whole, [P]))
        .play();
}

// Notices

#[test]
fn mostrop2p_mobile_720_a_notice_ends_no_connection() {
    Case::new(|| live(&[A]))
        .at(0, |whole| whole.say(toy::notice("hello")))
        .at(1000, |whole| {
            for n in 0..10 {
                whole.run_for(SECOND / 10);
                whole.say(toy::notice(&format!("invalid: message {n} of ten")));
            }
        })
        .at(3000, |whole| limit(whole, 2))
        .at(4000, wants_to_know_us)
        .at(4000, |whole| {
            subscribe(whole, B);
            whole.send(P);
        })
        .must(10_000, |whole| {
            assert_eq!(asked(whole, B).len(), 1);
            expect_stored(whole, [P]);
        })
        .must(120_000, |whole| {
            assert_eq!(dials(whole).len(), 1);
            assert_eq!(asked(whole, A).len(), 1);
            assert!(whole.is_live());
        })
        .never(no_socket_is_given_up)
        .play();
}

#[test]
fn mostrop2p_mobile_720_a_challenge_after_a_notice_is_answered_in_place() {
    Case::new(|| live(&[A]))
        .at(0, wants_to_know_us)
        .at(20_000, |whole| whole.say(toy::challenge("again")))
        .must(20_050, |whole| {
            let auths = frames(whole).into_iter().filter(|it| it.verb == "AUTH");
            assert_eq!(auths.count(), 2);
            assert_eq!(dials(whole).len(), 1);
        })
        .never(no_socket_is_given_up)
        .play();
}

#[test]
fn mostrop2p_mobile_720_notices_without_end_cost_no_dial() {
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            for _ in 0..1200 {
                whole.run_for(SECOND / 10);
                wants_to_know_us(whole);
            }
        })
        .must(0, |whole| assert_eq!(dials(whole).len(), 1))
        .never(no_socket_is_given_up)
        .finally(|whole| assert!(whole.is_live()))
        .play();
}

fn wants_to_know_us(whole: &mut Whole) {
    whole.say(toy::notice("auth-required: we want to know who you are"));
}

fn no_socket_is_given_up(whole: &Whole) {
    for cause in [
        CloseCause::AuthLimit,
        CloseCause::AuthRefused,
        CloseCause::Requested,
        CloseCause::Silent,
        CloseCause::Unconfirmed,
        CloseCause::Lossy,
    ] {
        assert!(closes(whole, cause).is_empty(), "{cause:?}");
    }
}

// Ladders

#[test]
fn graphprotocol_graph_node_4420_forty_failed_dials_wait_no_longer_than_the_last_rung() {
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            whole.dial = Dial::Fails(ConnectCause::Transport);
            whole.disconnect();
            whole.send(P);
            while dials(whole).len() < 41 {
                whole.run_for(SECOND);
            }
        })
        .must(0, |whole| {
            let waits = waits(whole);
            assert_eq!(waits.len(), 40);
            let top = SECOND * 30..=SECOND * 60;
            assert!(
                waits[6..].iter().all(|wait| top.contains(wait)),
                "{waits:?}"
            );
            assert!(verdicts(whole, P).is_empty());
        })
        .at(3_600_000, come_back)
        .never(waits_grow)
        .never(|whole| {
            let too_long = |wait: &Duration| *wait > SECOND * 60;
            assert!(!waits(whole).iter().any(too_long));
        })
        .never(ids_stay)
        .finally(|whole| assert!(is_stored(whole, P)))
        .play();
}

#[test]
fn graphprotocol_graph_node_4420_forty_refusals_in_a_row_wait_no_longer_than_the_last_rung() {
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            whole
                .socket_of
                .insert(P, Word::No("rate-limited: slow down"));
            whole.send(P);
        })
        .must(3_600_000, |whole| {
            let all = leaving_of(whole, P);
            assert!(all.len() > 40, "{}", all.len());
            let gaps = gaps(&all[8..]);
            let top = SECOND * 60..=SECOND * 73;
            assert!(gaps.iter().all(|gap| top.contains(gap)), "{gaps:?}");
        })
        .at(3_600_000, Whole::heal)
        .never(ids_stay)
        .finally(|whole| expect_stored(whole, [P]))
        .play();
}
