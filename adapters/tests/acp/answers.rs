//! What the answers of an agent say about a turn.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use buzz_adapters::acp::AcpSettings;
use buzz_proto::schedule::{FailureClass, Session, StopReason, TurnEnd};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Excerpt;

use super::bench::{Bench, SESSION, fake, opened};
use super::turns::{refused, unknown};

#[test]
fn the_end_of_a_prompt_is_read_from_its_answer() {
    let stopped = |stop| TurnEnd::Answered {
        reply: String::new(),
        stop,
    };
    let failed = |class, text: &str| TurnEnd::Failed {
        class,
        text: Excerpt::new(text),
    };
    let none = "the answer to session/prompt has no stop reason";
    let usage = FailureClass::UsageLimit { until: None };
    for (answer, end) in [
        (
            r#""result":{"stopReason":"End_Turn"}"#,
            stopped(StopReason::EndTurn),
        ),
        (
            r#""result":{"stopReason":"max_tokens"}"#,
            stopped(StopReason::MaxTokens),
        ),
        (
            r#""result":{"stopReason":"max_turn_requests"}"#,
            stopped(StopReason::MaxTurnRequests),
        ),
        (
            r#""result":{"stopReason":"refusal"}"#,
            stopped(StopReason::Refusal),
        ),
        (r#""result":{"stopReason":"cancelled"}"#, TurnEnd::Cancelled),
        (r#""result":{}"#, failed(FailureClass::Protocol, none)),
        (r#""result":null"#, failed(FailureClass::Protocol, none)),
        (
            r#""result":{"stopReason":"tired"}"#,
            failed(FailureClass::Protocol, "unknown stop reason \"tired\""),
        ),
        (
            r#""error":{"code":-32000,"message":"log in"}"#,
            failed(FailureClass::NeedsHuman, "log in (-32000)"),
        ),
        (
            r#""error":{"code":-32603,"message":"x","data":{"codex_error_info":"usage_limit_exceeded"}}"#,
            failed(
                usage,
                r#"x (-32603): {"codex_error_info":"usage_limit_exceeded"}"#,
            ),
        ),
        (
            r#""error":{"code":-32603,"message":"about the usage_limit of an ACP session"}"#,
            failed(
                FailureClass::Transient,
                "about the usage_limit of an ACP session (-32603)",
            ),
        ),
        (
            r#""error":"broken""#,
            failed(FailureClass::Transient, "\"broken\" (0)"),
        ),
    ] {
        let mut bench = Bench::up(fake(&format!("answer:{answer}")));
        assert_eq!(bench.turn("hello"), end, "{answer}");
    }
}

#[test]
fn a_used_up_allowance_is_reported_with_its_end() {
    let hour = Duration::from_secs(3600);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let end = since.as_secs() + 2 * hour.as_secs();
    let given = error(&format!(
        r#"{{"type":"usage_limit_reached","resets_at":{end}}}"#
    ));
    let mut bench = Bench::up(given);
    assert_eq!(until(&bench.turn("hello")), Some(UnixTime(end)));

    let mut bench = Bench::up(error(r#"{"error":"rate_limit_error","retryAfter":3600}"#));
    let before = UnixTime(since.as_secs());
    let until = until(&bench.turn("hello")).unwrap();
    assert!(
        until >= before.after(hour),
        "{until:?} is an hour after {before:?}"
    );
    assert!(
        until <= before.after(2 * hour),
        "{until:?} is an hour after {before:?}"
    );
    bench.ends_quietly();
}

#[test]
fn what_no_session_can_mend_ends_a_turn_whose_session_is_refused() {
    for (error, class) in [
        (
            r#"{"code":-32000,"message":"Authentication required"}"#,
            FailureClass::NeedsHuman,
        ),
        (
            r#"{"code":429,"message":"Too many requests"}"#,
            FailureClass::UsageLimit { until: None },
        ),
    ] {
        let mut bench = Bench::up(fake(&format!("locked:{error}")));

        bench.start(1, Session::Fresh(SESSION), &["hello"]);

        let end = bench.end();
        assert!(
            matches!(&end, TurnEnd::Failed { class: is, .. } if *is == class),
            "{end:?}"
        );
        bench.ends_quietly();
    }
}

#[test]
fn a_session_cannot_be_gone_before_it_is_there() {
    let mut bench = Bench::up(fake(
        r#"locked:{"code":-32002,"message":"Session not found"}"#,
    ));

    bench.start(1, Session::Fresh(SESSION), &["hello"]);

    assert_eq!(bench.fact(), refused(1, "Session not found (-32002)"));
    bench.ends_quietly();
}

#[test]
fn a_session_that_is_gone_in_the_middle_of_a_turn_is_forgotten() {
    for answer in [
        r#""error":{"code":-32603,"message":"Internal error","data":{"details":"Session not found"}}"#,
        r#""error":{"code":-32002,"message":"Resource not found"}"#,
        r#""error":{"code":-32603,"message":"session s-1 has ended"}"#,
    ] {
        let mut bench = Bench::up(fake(&format!("answer:{answer}")));

        let end = bench.turn("hello");

        let TurnEnd::Failed { class, .. } = end else {
            panic!("{end:?}");
        };
        assert_eq!(class, FailureClass::SessionGone, "{answer}");
        bench.start(2, Session::Resume(SESSION), &["again"]);
        assert_eq!(bench.fact(), unknown(2));
        bench.ends_quietly();
    }
}

#[test]
fn an_error_about_something_else_leaves_the_session() {
    let answer = r#""error":{"code":-32603,"message":"cannot say: session not found"}"#;
    let mut bench = Bench::up(fake(&format!("answer:{answer}")));
    let end = bench.turn("hello");
    assert!(
        matches!(
            end,
            TurnEnd::Failed {
                class: FailureClass::Transient,
                ..
            }
        ),
        "{end:?}"
    );

    bench.start(2, Session::Resume(SESSION), &["again"]);

    assert_eq!(bench.fact(), opened(2));
    bench.end();
    bench.ends_quietly();
}

/// An agent that answers a prompt with an internal error and this data.
fn error(data: &str) -> AcpSettings {
    fake(&format!(
        r#"answer:"error":{{"code":-32603,"message":"Internal error","data":{data}}}"#
    ))
}

fn until(end: &TurnEnd) -> Option<UnixTime> {
    let TurnEnd::Failed {
        class: FailureClass::UsageLimit { until },
        ..
    } = end
    else {
        panic!("expected a limit, got {end:?}");
    };
    *until
}
