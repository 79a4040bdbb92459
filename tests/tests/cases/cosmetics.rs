//! Reports of what is only good to see: typing, presence, and bursts of either.

use std::collections::BTreeSet;
use std::time::Duration;

use buzz_proto::config::Consumer;
use buzz_proto::relay::ConnectCause;
use buzz_proto::schedule;
use buzz_proto::time::MonoTime;
use buzz_sim::bench::Dial;
use buzz_sim::script::ms;
use buzz_sim::toy::{self, channel};

use crate::jobs::job_of;
use crate::outcomes::{
    Leaving, Way, age, events, events_of_kind, expect_stored, gaps, leaving, leaving_of,
};
use crate::player::{Case, ELSEWHERE};
use crate::transcript::frames;
use crate::whole::{OWNER, SLOTS, Said, Whole, Word, live_with, settings};

const A: u8 = 1;
const B: u8 = 2;
const C: u8 = 3;
const SECOND: Duration = Duration::from_secs(1);
const MESSAGE: u32 = 9;
const PRESENCE: u32 = 20_001;
const TYPING: u32 = 20_002;

/// An agent with two workers.
fn workers() -> Consumer {
    let mut config = schedule::Config::new(2);
    config.owner = Some(toy::key(OWNER));
    Consumer::Workers(Box::new(config))
}

// A burst at the start

/// The burst, told apart from other jobs.
const SHOWN: std::ops::Range<u64> = 1000..1073;
const P: u64 = 1;
const Q: u64 = 2;

/// A machine without a connection, with much to show when there is one.
fn burdened() -> Whole {
    let mut whole = Whole::new(settings(&[A, B, C], SLOTS));
    whole.dial = Dial::Fails(ConnectCause::Transport);
    whole.begin();
    for (place, job) in (100..).zip(SHOWN) {
        whole.type_in(job, place, 60);
    }
    whole.send(P);
    whole
}

fn is_shown(it: &Leaving) -> bool {
    it.event.kind() == TYPING
}

#[test]
fn block_buzz_2217_what_is_only_good_to_see_delays_neither_requests_nor_messages() {
    Case::new(burdened)
        .at(0, |whole| whole.dial = Dial::Succeeds)
        .must(1000, |whole| {
            assert!(whole.is_live());
            let first = frames(whole).into_iter().filter(|it| it.is_counted());
            let first: Vec<_> = first.take(5).collect();
            let requests = first.iter().filter(|it| it.verb == "REQ");
            assert_eq!(requests.count(), 4, "{first:?}");
            let p = leaving_of(whole, P);
            assert!(p.len() == 1 && p[0].at == first[0].at);
        })
        .must(2000, |whole| expect_stored(whole, [P]))
        .at(20_000, |_| {})
        .never(|whole| {
            let shown = events(whole).into_iter().filter(is_shown);
            let shown: Vec<_> = shown.map(|it| it.at).collect();
            for six in shown.windows(11) {
                assert!(six[10].saturating_since(six[0]) > SECOND, "{shown:?}");
            }
            for minute in shown.windows(91) {
                let span = minute[90].saturating_since(minute[0]);
                assert!(span > SECOND * 60, "{shown:?}");
            }
        })
        .finally(|whole| {
            expect_stored(whole, [P]);
            let present = |place: u8| {
                let name = format!("ch-{}-", channel(place));
                frames(whole)
                    .iter()
                    .any(|it| Some(it.conn) == whole.socket() && it.name.starts_with(&name))
            };
            assert!([A, B, C, ELSEWHERE].into_iter().all(present));
        })
        .play();
}

#[test]
fn block_buzz_2217_a_message_goes_before_what_was_only_good_to_see_earlier() {
    Case::new(burdened)
        .at(0, |whole| whole.dial = Dial::Succeeds)
        .at(20_000, |whole| whole.send(Q))
        .must(23_000, |whole| {
            expect_stored(whole, [P, Q]);
        })
        .must(60_000, |whole| {
            let q = leaving_of(whole, Q)[0].at;
            let later = events(whole).into_iter().filter(|it| it.at > q);
            assert!(later.filter(is_shown).count() > 10);
        })
        .finally(|whole| expect_stored(whole, [P, Q]))
        .play();
}

// Typing

/// When a worker's answer is begun and its typing is refused.
const REFUSED: u64 = 6_000;

fn typing_of(whole: &Whole, place: u8) -> Vec<Leaving> {
    let mut all = events_of_kind(whole, TYPING);
    all.retain(|it| it.event.channel() == Some(channel(place)));
    all
}

/// The texts of the answers, by either way.
fn said(whole: &Whole) -> BTreeSet<String> {
    let mut all = leaving(whole);
    all.retain(|it| it.event.kind() == MESSAGE && job_of(&it.event).is_none());
    all.iter()
        .map(|it| it.event.content().into_owned())
        .collect()
}

#[test]
fn openclaw_openclaw_53188_typing_is_not_shown_late_and_an_answer_goes_before_it() {
    let zero = 100_000;
    Case::new(|| {
        let mut whole = live_with(settings(&[A, B], workers()));
        whole.http = Some(Said::error(404, "no such route"));
        whole
    })
    .at(0, |whole| whole.mention(1, A))
    .at(0, |whole| whole.mention(2, B))
    .must(5500, |whole| {
        for place in [A, B] {
            assert!(typing_of(whole, place).len() >= 2);
        }
    })
    .at(REFUSED - 100, |whole| {
        whole.ephemeral = Word::No("rate-limited: too many messages; retry in 20s");
    })
    .at(REFUSED + 900, |whole| whole.ephemeral = Word::Yes)
    .at(7000, |whole| whole.reply(A, "here it is"))
    .must(26_000, move |whole| {
        let is_late = |it: &Leaving| it.at > ms(zero + REFUSED + 100);
        assert!(!events(whole).iter().any(is_late));
    })
    .must(31_000, move |whole| {
        let later: Vec<_> = events(whole)
            .into_iter()
            .filter(|it| it.at > ms(zero + REFUSED + 100))
            .collect();
        assert_eq!(later[0].event.content(), "here it is");
        let typing = later.iter().filter(|it| is_shown(it));
        assert!(typing.count() <= 2);
    })
    .at(60_000, |whole| whole.reply(B, "and this"))
    .never(|whole| {
        for place in [A, B] {
            let all = typing_of(whole, place);
            assert!(all.iter().all(|it| age(it) <= SECOND * 6));
        }
    })
    .never(move |whole| {
        let is_over = |it: &Leaving| it.at > ms(zero + 7000);
        assert!(!typing_of(whole, A).iter().any(is_over));
        let is_over = |it: &Leaving| it.at > ms(zero + 60_000);
        assert!(!typing_of(whole, B).iter().any(is_over));
    })
    .finally(|whole| {
        let both = ["and this", "here it is"].map(str::to_owned);
        assert_eq!(said(whole), BTreeSet::from(both));
    })
    .play();
}

// Presence

fn present_at(whole: &Whole) -> Vec<MonoTime> {
    let all = events_of_kind(whole, PRESENCE);
    all.into_iter().map(|it| it.at).collect()
}

#[test]
fn block_buzz_3795_presence_is_shown_once_when_a_wait_ends_and_then_as_always() {
    Case::new(|| {
        let mut whole = Whole::new(settings(&[A], workers()));
        whole.begin();
        whole
    })
    .must(1000, |whole| assert_eq!(present_at(whole).len(), 1))
    .at(59_000, |whole| {
        let text = "rate-limited: too many messages; retry in 71s";
        whole.say(toy::notice(text));
    })
    .must(130_499, |whole| assert_eq!(present_at(whole).len(), 1))
    .must(144_300, |whole| {
        let all = present_at(whole);
        assert_eq!(all.len(), 2);
        assert!(all[1] >= ms(130_500));
    })
    .must(179_000, |whole| assert_eq!(present_at(whole).len(), 2))
    .must(181_000, |whole| assert_eq!(present_at(whole).len(), 3))
    .at(200_000, Whole::disconnect)
    .must(202_000, |whole| assert_eq!(present_at(whole).len(), 4))
    .must(263_000, |whole| assert_eq!(present_at(whole).len(), 5))
    .never(|whole| {
        let all = events_of_kind(whole, PRESENCE);
        for (pair, gap) in all.windows(2).zip(gaps(&all)) {
            assert!(pair[0].way != pair[1].way || gap > SECOND * 30, "{pair:?}");
        }
    })
    .never(|whole| {
        let all = events_of_kind(whole, PRESENCE);
        assert!(all.iter().all(|it| matches!(it.way, Way::Socket(_))));
    })
    .play();
}
