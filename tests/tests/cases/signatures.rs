//! Reports of signatures that were too old, refused, or used twice, and of authentication.

use std::time::Duration;

use buzz_proto::ids::ConnId;
use buzz_proto::relay;
use buzz_proto::time::MonoTime;
use buzz_sim::bench::Dial;
use buzz_sim::toy;

use crate::outcomes::{
    Leaving, age, expect_stored, ids_stay, is_stored, leaving, leaving_of, rejection, verdicts,
};
use crate::player::Case;
use crate::transcript::{Transcript, frames};
use crate::whole::{Said, Whole, Word, live};

const A: u8 = 1;
const SECOND: Duration = Duration::from_secs(1);
const TOO_FAR: &str = "invalid: event timestamp too far from server time";

fn sent(whole: &Whole, job: u64) -> usize {
    leaving_of(whole, job).len()
}

fn heal(whole: &mut Whole) {
    whole.heal();
}

// Dates

#[test]
fn block_buzz_4967_what_waited_for_long_is_signed_anew_before_it_goes() {
    Case::new(|| live(&[A]))
        .at(0, |whole| whole.http = Some(Said::limited()))
        .at(1, |whole| {
            whole.post(1);
            whole.post(2);
        })
        .must(1, |whole| {
            assert!(sent(whole, 1) == 1 && sent(whole, 2) == 1)
        })
        .at(1_000_000, heal)
        .must(1_100_000, |whole| {
            expect_stored(whole, [1, 2]);
            for job in [1, 2] {
                let all = leaving_of(whole, job);
                assert_ne!(all[0].event.id(), all[all.len() - 1].event.id());
            }
        })
        .never(|whole| {
            let is_too_old = |it| age(it) > SECOND * 601;
            assert!(!leaving(whole).iter().any(is_too_old));
        })
        .never(ids_stay)
        .finally(|whole| expect_stored(whole, [1, 2]))
        .play();
}

#[test]
fn block_buzz_4967_what_waited_for_a_connection_is_signed_when_it_goes() {
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            whole.dial = Dial::IsLost;
            whole.disconnect();
            whole.send(1);
        })
        .at(1_000_000, heal)
        .must(1_100_000, |whole| {
            expect_stored(whole, [1]);
            assert_eq!(sent(whole, 1), 1);
        })
        .never(|whole| {
            let is_old = |it| age(it) > SECOND;
            assert!(!leaving_of(whole, 1).iter().any(is_old));
        })
        .play();
}

#[test]
fn block_buzz_4967_a_refused_date_is_signed_anew_once() {
    Case::new(|| live(&[A]))
        .at(0, |whole| whole.socket_of.extend([(1, Word::Nothing)]))
        .at(0, |whole| whole.send(1))
        .at(2000, |whole| whole.ok(1, false, TOO_FAR))
        .must(3000, |whole| assert_eq!(sent(whole, 1), 2))
        .at(4000, |whole| whole.ok(1, false, TOO_FAR))
        .must(4000, |whole| {
            let all = leaving_of(whole, 1);
            assert_ne!(all[0].event.raw(), all[1].event.raw());
            assert_eq!(rejection(whole, 1).as_deref(), Some(TOO_FAR));
        })
        .must(60_000, |whole| assert_eq!(sent(whole, 1), 2))
        .never(|whole| refused_bytes_do_not_leave_again(whole, 1))
        .play();
}

/// What was refused for its date never leaves again as it is.
fn refused_bytes_do_not_leave_again(whole: &Whole, job: u64) {
    for (at, input, _) in whole.relay_calls() {
        for it in leaving_of(whole, job) {
            let refusal = toy::ok(it.event.id(), false, TOO_FAR);
            if matches!(&input, relay::Input::Frame { text, .. } if *text == refusal) {
                let all = leaving_of(whole, job);
                let again = all.iter().filter(|other| other.at > at);
                assert_eq!(again.filter(|other| other.event == it.event).count(), 0);
            }
        }
    }
}

#[test]
fn block_buzz_4967_an_event_that_the_application_signed_is_not_repeated_when_its_date_is_refused() {
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            whole.http_of.insert(1, Some(Said::error(400, TOO_FAR)));
            whole.post_signed(1);
        })
        .must(60_000, |whole| {
            assert_eq!(sent(whole, 1), 1);
            assert_eq!(rejection(whole, 1).as_deref(), Some(TOO_FAR));
        })
        .never(|whole| assert_eq!(sent(whole, 1), 1))
        .play();
}

// Memberships and headers

const NOT_YET: &str = "restricted: not a relay member";

#[test]
fn block_buzz_3888_a_membership_that_lands_a_second_later_is_waited_for() {
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            whole.http_of.insert(1, Some(Said::error(403, NOT_YET)));
            whole.post(1);
        })
        .at(1000, heal)
        .must(1049, |whole| assert_eq!(sent(whole, 1), 1))
        .must(2000, |whole| {
            assert_eq!(sent(whole, 1), 2);
            expect_stored(whole, [1]);
        })
        .never(ids_stay)
        .finally(|whole| expect_stored(whole, [1]))
        .play();
}

#[test]
fn block_buzz_3888_a_membership_that_does_not_land_is_told() {
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            whole.http_of.insert(1, Some(Said::error(403, NOT_YET)));
            whole.post(1);
        })
        .must(2000, |whole| {
            assert_eq!(rejection(whole, 1).as_deref(), Some(NOT_YET));
        })
        .at(60_000, |_| {})
        .never(|whole| {
            let posts = leaving_of(whole, 1);
            assert_eq!(posts.len(), 2);
            assert!(posts[1].at >= posts[0].at.after(SECOND));
        })
        .never(|whole| assert!(!is_stored(whole, 1)))
        .never(ids_stay)
        .play();
}

const REPLAY: &str = "NIP-98: replay detected";

#[test]
fn block_buzz_3489_a_header_that_was_taken_for_a_repeated_one_is_signed_once_more() {
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            whole.http = None;
            whole.post(1);
            whole.post(2);
        })
        .at(50, |whole| whole.answer(1, &Said::error(401, REPLAY)))
        .at(60, |whole| whole.answer(2, &Said::error(401, REPLAY)))
        .must(1100, |whole| {
            assert!(sent(whole, 1) == 2 && sent(whole, 2) == 2)
        })
        .at(1100, |whole| {
            whole.answer(1, &Said::accepted());
            whole.answer(2, &Said::error(401, REPLAY));
        })
        .must(1100, |whole| {
            expect_stored(whole, [1]);
            assert_eq!(rejection(whole, 2).as_deref(), Some(REPLAY));
        })
        .at(60_000, |_| {})
        .never(|whole| assert!(sent(whole, 2) <= 2))
        .never(ids_stay)
        .finally(|whole| expect_stored(whole, [1]))
        .play();
}

#[test]
fn block_buzz_3489_a_header_that_is_refused_each_time_is_not_signed_for_ever() {
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            whole.http_of.insert(1, Some(Said::error(401, REPLAY)));
            let other = Said::error(401, "NIP-98: wrong url");
            whole.http_of.insert(2, Some(other));
        })
        .at(1, |whole| {
            whole.post(1);
            whole.post(2);
        })
        .must(60_000, |whole| {
            assert_eq!(rejection(whole, 1).as_deref(), Some(REPLAY));
            assert!(rejection(whole, 2).is_some());
        })
        .never(|whole| {
            assert!(sent(whole, 1) <= 3 && sent(whole, 2) <= 3);
            assert!(![1, 2].iter().any(|job| is_stored(whole, *job)));
        })
        .never(ids_stay)
        .play();
}

// Authentication

#[test]
fn nostrdevkit_nostr_509_what_authentication_is_wanted_for_goes_once_after_it() {
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            whole.socket = Word::Nothing;
            whole.auth = Word::Nothing;
            whole.send(1);
        })
        .at(1000, |whole| {
            whole.ok(1, false, "auth-required: not authenticated")
        })
        .at(2000, |whole| whole.say(toy::challenge("again")))
        .must(2999, |whole| {
            let auths = frames(whole).into_iter().filter(|it| it.verb == "AUTH");
            assert_eq!(auths.count(), 2);
            assert_eq!(sent(whole, 1), 1);
        })
        .at(3000, |whole| whole.ok_auth(true, ""))
        .must(5000, |whole| assert_eq!(sent(whole, 1), 2))
        .at(5000, |whole| whole.ok(1, true, ""))
        .must(60_000, |whole| {
            assert_eq!(sent(whole, 1), 2);
            expect_stored(whole, [1]);
        })
        .never(nothing_leaves_before_authentication)
        .never(ids_stay)
        .finally(|whole| expect_stored(whole, [1]))
        .play();
}

#[test]
fn divinevideo_divine_mobile_6583_a_job_that_authentication_was_wanted_for_ends_with_that_reason() {
    Case::new(|| live(&[A]))
        .at(0, |whole| {
            whole.socket = Word::Nothing;
            whole.send_within(1, 120);
        })
        .at(1000, |whole| {
            whole.auth = Word::No("auth-required: verification failed");
            whole.ok(1, false, "auth-required: not authenticated");
        })
        .at(2000, |whole| whole.say(toy::challenge("again")))
        .must(119_999, |whole| assert!(verdicts(whole, 1).is_empty()))
        .must(120_000, |whole| {
            let reason = rejection(whole, 1).unwrap_or_default();
            assert!(reason.starts_with("auth-required: "), "{reason}");
        })
        .never(|whole| {
            let refusal =
                |it: &Leaving| toy::ok(it.event.id(), false, "auth-required: not authenticated");
            let refusals: Vec<_> = leaving_of(whole, 1).iter().map(refusal).collect();
            let is_refused = whole.relay_calls().iter().any(|(_, input, _)| {
                matches!(input, relay::Input::Frame { text, .. } if refusals.contains(text))
            });
            assert!(!is_refused || rejection(whole, 1).is_some());
        })
        .play();
}

/// How long the OK of an AUTH is awaited.
const AUTH_SILENCE: Duration = Duration::from_secs(5);

/// No EVENT or REQ follows an AUTH whose OK is awaited.
pub(crate) fn nothing_leaves_before_authentication(whole: &Whole) {
    let mut awaited: Option<(ConnId, MonoTime, String)> = None;
    for (at, input, actions) in whole.relay_calls() {
        if let relay::Input::Frame { text, .. } = &input
            && let Some((_, _, id)) = &awaited
            && String::from_utf8_lossy(text).starts_with(&format!("[\"OK\",\"{id}\""))
        {
            awaited = None;
        }
        for action in &actions {
            let relay::Action::Send { conn, text, .. } = action else {
                continue;
            };
            let frame: Vec<serde_json::Value> = serde_json::from_slice(text).expect("a frame");
            if frame[0] == "AUTH" {
                let id = frame[1]["id"].as_str().unwrap_or_default();
                awaited = Some((*conn, at, id.to_owned()));
            } else if (frame[0] == "EVENT" || frame[0] == "REQ")
                && let Some((of, since, _)) = &awaited
            {
                let is_early = of == conn && at < since.after(AUTH_SILENCE);
                assert!(!is_early, "{at}: a frame before the OK of AUTH");
            }
        }
    }
}
