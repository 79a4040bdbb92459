//! Reports of rate limits over HTTP: waits that were not kept, not shared, or not read.

use std::ops::RangeInclusive;
use std::time::Duration;

use buzz_proto::note::Note;
use buzz_proto::publish::Verdict;
use buzz_proto::relay::{Action, Config};
use buzz_proto::retry_hint::HintSource;
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_sim::relay::{URL, unaudited};
use buzz_sim::toy::START;

use crate::jobs::is_of_traffic;
use crate::outcomes::{
    expect_stored, gaps, ids_stay, is_stored, leaving_of, notes, posts, verdicts,
};
use crate::player::Case;
use crate::transcript::when;
use crate::whole::{LATENCY, SLOTS, Said, Whole, live, settings};

const A: u8 = 1;
const SECOND: Duration = Duration::from_secs(1);
const HOUR: u64 = 3_600_000;

/// When a gate opens that a failure shuts for this wait.
fn opening(seconds: u64) -> RangeInclusive<Duration> {
    let wait = Duration::from_secs(seconds);
    let spread = (wait / 5).max(SECOND * 3 / 2);
    wait + SECOND / 2..=wait + spread + SECOND / 1000
}

/// From one post, which fails at once, to the next.
fn until_next(seconds: u64) -> RangeInclusive<Duration> {
    let opening = opening(seconds);
    *opening.start() + LATENCY..=*opening.end() + LATENCY
}

fn relay_says(said: Said) -> impl Fn(&mut Whole) {
    move |whole| whole.http = Some(said.clone())
}

fn accept(whole: &mut Whole) {
    whole.heal();
}

/// What was told of the limit.
fn reports(whole: &Whole) -> Vec<(MonoTime, Note)> {
    let mut all = notes(whole);
    all.retain(|(_, note)| is_report(note));
    all
}

fn is_report(note: &Note) -> bool {
    if let Note::Repeated { last, .. } = note {
        return is_report(last);
    }
    matches!(note, Note::Throttled { .. })
}

// One gate for all callers

/// Also 5724, 5620 and 3618.
#[test]
fn block_buzz_5557_callers_wait_together_and_go_on_one_by_one() {
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            whole.http = Some(Said::limited_for(4));
            whole.http_of.insert(4, None);
        })
        .at(1, |whole| {
            for job in 1..=5 {
                whole.post(job);
            }
        })
        .must(1, |whole| assert_eq!(posts(whole).len(), 4))
        .must(4500, |whole| assert_eq!(posts(whole).len(), 4))
        .at(4500, |whole| {
            whole.http = Some(Said::limited().retry_after("30"));
        })
        .must(5700, |whole| assert_eq!(posts(whole).len(), 5))
        .at(5700, |whole| whole.post(6))
        .at(14_000, |whole| {
            whole.answer(4, &Said::limited().retry_after("5"));
        })
        .must(35_000, |whole| assert_eq!(posts(whole).len(), 5))
        .at(35_000, accept)
        .must(42_000, |whole| {
            assert_eq!(posts(whole).len(), 11);
            expect_stored(whole, 1..=6);
            let probe = posts(whole)[5].at;
            let next = posts(whole)[6].at;
            assert!(next >= probe.after(LATENCY), "{probe} {next}");
        })
        .never(ids_stay)
        .finally(|whole| expect_stored(whole, 1..=6))
        .play();
}

#[test]
fn block_buzz_5557_without_a_stated_wait_each_failure_is_waited_for_longer() {
    Case::new(|| live(&[A]))
        .at(0, relay_says(Said::limited()))
        .at(1, |whole| {
            for job in 1..=3 {
                whole.post(job);
            }
        })
        .must(200_000, |whole| {
            let gaps = gaps(&posts(whole)[2..]);
            let rungs = [5, 5, 5, 8, 16, 32, 60];
            for (gap, rung) in gaps.iter().zip(rungs) {
                assert!(until_next(rung).contains(gap), "{gaps:?}");
            }
            assert_eq!(gaps.len(), rungs.len());
        })
        .at(HOUR, |_| {})
        .must(HOUR, |whole| {
            let reports = reports(whole).len();
            assert!(reports <= 20, "{reports} reports in an hour");
            assert!(posts(whole).len() <= 70, "{}", posts(whole).len());
        })
        .at(HOUR, accept)
        .never(|whole| {
            let reports = reports(whole);
            for pair in reports.windows(2) {
                assert!(
                    pair[1].0.saturating_since(pair[0].0) >= SECOND * 30,
                    "{reports:?}"
                );
            }
        })
        .never(ids_stay)
        .finally(|whole| expect_stored(whole, 1..=3))
        .play();
}

#[test]
fn block_buzz_5557_a_limit_that_never_ends_ends_with_the_time_of_the_job() {
    Case::new(|| live(&[A]))
        .at(0, relay_says(Said::limited_for(4)))
        .at(1, |whole| {
            for job in 1..=3 {
                whole.post_within(job, 300);
            }
        })
        .must(300_000, |whole| {
            assert!((1..=3).all(|job| verdicts(whole, job).is_empty()));
        })
        .must(300_001, |whole| {
            for job in 1..=3 {
                assert_eq!(verdicts(whole, job), [(whole.now(), Verdict::Expired)]);
            }
        })
        .never(|whole| {
            let told = notes(whole).into_iter().filter(
                |(_, note)| matches!(note, Note::Unpublished { job, .. } if !is_of_traffic(job.0)),
            );
            assert_eq!(told.count(), 3);
        })
        .play();
}

#[test]
fn block_buzz_5620_a_shorter_wait_does_not_shorten_a_longer_one() {
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            whole.http = None;
            whole.post(1);
            whole.post(2);
        })
        .at(100, |whole| {
            whole.answer(1, &Said::limited().retry_after("30"));
        })
        .at(200, |whole| {
            whole.answer(2, &Said::limited().retry_after("5"));
        })
        .at(1000, |whole| {
            accept(whole);
            whole.post(3);
        })
        .must(30_000, |whole| assert_eq!(posts(whole).len(), 2))
        .must(37_000, |whole| {
            let posts = posts(whole);
            assert_eq!(posts.len(), 5);
            let wait = posts[2].at.saturating_since(posts[0].at);
            assert!(opening(30).contains(&(wait - LATENCY * 2)), "{wait:?}");
            assert!(posts[3].at >= posts[2].at.after(LATENCY));
        })
        .never(ids_stay)
        .finally(|whole| expect_stored(whole, 1..=3))
        .play();
}

/// When the roster was read.
fn roster_reads(whole: &Whole) -> Vec<MonoTime> {
    when(whole, |action| matches!(action, Action::Query { .. }))
}

#[test]
fn block_buzz_5620_a_caller_of_another_sort_waits_behind_the_same_gate() {
    let begin = || {
        let mut config = settings(&[], SLOTS);
        config.relay = unaudited(Config::new(URL));
        let mut whole = Whole::new(config);
        whole.has_query = true;
        whole.begin();
        whole.run_for(SECOND * 200);
        whole
    };
    let before = roster_reads(&begin()).len();
    assert!(before >= 2);
    Case::new(begin)
        .at(0, |whole| {
            whole.http = None;
            whole.post(1);
        })
        .at(100, |whole| {
            whole.answer(1, &Said::limited_for(200));
        })
        .at(101, accept)
        .must(200_599, move |whole| {
            assert_eq!(roster_reads(whole).len(), before);
            assert_eq!(posts(whole).len(), 1);
        })
        .must(245_000, move |whole| {
            assert!(roster_reads(whole).len() > before);
            expect_stored(whole, [1]);
        })
        .never(ids_stay)
        .finally(|whole| expect_stored(whole, [1]))
        .play();
}

// How a wait is stated

/// The first post is refused so, the next one is accepted.
fn refused_once_with(said: &Said, seconds: u64) -> Case<Whole> {
    let least = *opening(seconds).start();
    let most = u64::try_from(opening(seconds).end().as_millis()).expect("small");
    let said = said.clone();
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            whole.http = None;
            whole.post(1);
        })
        .at(1, move |whole| whole.answer(1, &said))
        .at(2, accept)
        .must(most + 100, move |whole| {
            let gaps = gaps(&posts(whole));
            assert_eq!(gaps.len(), 1);
            let found = gaps[0] - SECOND / 1000;
            assert!(opening(seconds).contains(&found), "{found:?}");
            expect_stored(whole, [1]);
        })
        .never(move |whole| {
            for gap in gaps(&leaving_of(whole, 1)) {
                assert!(gap >= least, "{gap:?}");
            }
        })
        .never(ids_stay)
        .finally(|whole| expect_stored(whole, [1]))
}

/// A date as HTTP writes it; `START` is 08:00:00 of a Friday.
fn http_date(seconds_after_start: u64) -> String {
    let (hours, rest) = (seconds_after_start / 3600, seconds_after_start % 3600);
    let (minutes, seconds) = (rest / 60, rest % 60);
    assert_eq!(START, UnixTime(1_800_000_000));
    format!(
        "Fri, 15 Jan 2027 {:02}:{minutes:02}:{seconds:02} GMT",
        8 + hours
    )
}

fn at_most_once_capped(whole: &Whole, is_capped: bool) {
    let told = notes(whole)
        .into_iter()
        .filter(|(_, note)| matches!(note, Note::Throttled { capped: true, .. }));
    assert_eq!(told.count(), usize::from(is_capped));
}

#[test]
fn block_buzz_5724_a_wait_that_stands_in_the_body_is_kept() {
    refused_once_with(&Said::limited_for(4), 4).play();
}

#[test]
fn block_buzz_5724_the_longer_of_two_stated_waits_counts() {
    for (header, body) in [("2", 9), ("9", 2)] {
        refused_once_with(&Said::limited_for(body).retry_after(header), 9).play();
    }
}

#[test]
fn supabase_supabase_js_2634_a_wait_stated_as_a_date_is_counted_from_the_date_of_the_answer() {
    // The first post leaves a hundred seconds after the start.
    let said = Said::limited().retry_after(&http_date(220));
    refused_once_with(&said, 120).play();
    let dated = START.after(SECOND * 30);
    refused_once_with(&said.dated(dated), 190).play();
}

#[test]
fn supabase_supabase_js_2634_a_day_is_capped_and_the_cap_is_told() {
    refused_once_with(&Said::limited().retry_after("86400"), 300)
        .finally(|whole| at_most_once_capped(whole, true))
        .play();
}

#[test]
fn supabase_supabase_js_2634_what_states_no_wait_is_waited_for_all_the_same() {
    for header in ["soon", "", "-5", "1.5"] {
        refused_once_with(&Said::limited().retry_after(header), 5).play();
    }
    refused_once_with(&Said::limited(), 5).play();
    refused_once_with(&Said::limited().retry_after("0"), 1).play();
}

#[test]
fn earendil_works_pi_9724_a_broken_date_counts_as_none() {
    for date in [
        "Xyz, 99 Foo 2026",
        "Fri, 32 Jan 2027 08:02:00 GMT",
        "Fri, 15 Jan 2027 08:02:00 CET",
    ] {
        refused_once_with(&Said::limited().retry_after(date), 5).play();
    }
}

#[test]
fn canalplus_rx_player_1864_a_clock_that_is_wrong_changes_no_stated_wait() {
    for theirs in [10, 100, 3700, 9000] {
        let said = Said::limited()
            .retry_after(&http_date(theirs + 30))
            .dated(START.after(Duration::from_secs(theirs)));
        refused_once_with(&said, 30)
            .must(0, |_| {})
            .finally(|whole| {
                let sources: Vec<_> = reports(whole)
                    .into_iter()
                    .filter_map(|(_, note)| {
                        let Note::Throttled { source, .. } = note else {
                            return None;
                        };
                        source
                    })
                    .collect();
                assert_eq!(sources, [HintSource::Date]);
            })
            .play();
    }
}

#[test]
fn canalplus_rx_player_1864_without_their_clock_a_date_is_never_a_wait_of_nothing_or_of_hours() {
    let over = Said::limited().retry_after(&http_date(10));
    refused_once_with(&over, 5).play();
    let hours = Said::limited().retry_after(&http_date(9000));
    refused_once_with(&hours, 300).play();
}

#[test]
fn urllib3_urllib3_3743_a_number_beyond_all_time_is_capped() {
    for header in ["9999999999", "18446744073709551616", &"9".repeat(400)] {
        refused_once_with(&Said::limited().retry_after(header), 300)
            .finally(|whole| at_most_once_capped(whole, true))
            .play();
    }
    refused_once_with(&Said::limited_for(u64::MAX), 300).play();
}

#[test]
fn openclaw_openclaw_90702_a_wait_of_days_is_tested_every_five_minutes() {
    Case::new(|| live(&[A]))
        .at(0, relay_says(Said::limited_for(6 * 86_400)))
        .at(1, |whole| {
            for job in 1..=3 {
                whole.post(job);
            }
        })
        .at(HOUR, accept)
        .must(HOUR, |whole| {
            let gaps = gaps(&posts(whole)[2..]);
            assert!(gaps.len() >= 9, "{gaps:?}");
            let is_kept = |gap| until_next(300).contains(gap);
            assert!(gaps.iter().all(is_kept), "{gaps:?}");
        })
        .must(HOUR + 361_000, |whole| {
            assert!((1..=3).all(|job| is_stored(whole, job)));
        })
        .never(ids_stay)
        .finally(|whole| expect_stored(whole, 1..=3))
        .play();
}
