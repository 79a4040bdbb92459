//! Turns and sessions, as agents that behave have them.

use std::time::Duration;

use crate::bench::{Bench, SESSION, WORKER, answered, exists, fake, opened};
use buzz_adapters::acp::{AcpSettingsHandle, Permissions};
use buzz_proto::ids::TurnId;
use buzz_proto::schedule::{Action, DownCause, Input, OpenCause, Session, SessionRef, TurnEnd};
use buzz_proto::wire::Excerpt;

#[test]
fn a_turn_is_reported_from_its_session_to_its_answer() {
    let mut bench = Bench::up(fake("echo"));

    bench.start(1, Session::Fresh(SESSION), &["first", "say\n\nhällo wörld"]);

    assert_eq!(bench.any_fact(), opened(1));
    assert_eq!(bench.any_fact(), Input::Progressed { turn: TurnId(1) });
    assert_eq!(bench.end(), answered("say\n\nhällo wörld"));
    bench.ends_quietly();
}

#[test]
fn a_session_is_resumed_until_it_is_closed() {
    let mut bench = Bench::up(fake("echo"));
    bench.turn("one");

    bench.start(2, Session::Resume(SESSION), &["two"]);
    assert_eq!(bench.fact(), opened(2));
    assert_eq!(bench.end(), answered("two"));

    bench.order(Action::CloseSession { session: SESSION });
    bench.start(3, Session::Resume(SESSION), &["three"]);
    assert_eq!(bench.fact(), unknown(3));
    bench.ends_quietly();
}

#[test]
fn an_answer_that_is_too_long_is_cut_and_says_so() {
    let mut settings = fake("echo");
    settings.limits.reply_bytes_max = 10;
    let mut bench = Bench::up(settings);

    let end = bench.turn("123456789äbc");

    assert_eq!(end, answered("123456789\n\n[cut: the answer is longer]"));
}

#[test]
fn lines_that_mean_nothing_are_passed_over() {
    let mut bench = Bench::up(fake("garbage"));

    // Its request for a method that is not offered was refused.
    assert_eq!(bench.turn("hello"), answered("null-32601"));
    bench.ends_quietly();
}

#[test]
fn a_flood_on_standard_error_holds_nothing_up() {
    let mut bench = Bench::up(fake("flood"));
    assert!(matches!(bench.turn("hello"), TurnEnd::Answered { .. }));
}

#[test]
fn permission_is_given_once_or_not_at_all() {
    for (permissions, choice) in [
        (Permissions::AllowOnce, "yes"),
        (Permissions::RejectOnce, "no"),
    ] {
        let mut settings = fake("permission");
        settings.permissions = permissions;
        let mut bench = Bench::up(settings);

        let TurnEnd::Answered { reply, .. } = bench.turn("do it") else {
            panic!("the turn is answered");
        };

        let outcome = format!(r#"{{"optionId":"{choice}","outcome":"selected"}}null"#);
        let sorted = format!(r#"{{"outcome":"selected","optionId":"{choice}"}}null"#);
        assert!(reply == outcome || reply == sorted, "{reply}");
    }
}

#[test]
fn a_cancelled_turn_ends_with_the_answer_to_its_prompt() {
    let mut bench = Bench::up(fake("endless"));
    bench.start(1, Session::Fresh(SESSION), &["go on"]);
    assert_eq!(bench.fact(), opened(1));

    bench.order(Action::CancelTurn { turn: TurnId(1) });
    bench.order(Action::CancelTurn { turn: TurnId(1) });

    assert_eq!(bench.end(), TurnEnd::Cancelled);
    bench.ends_quietly();
}

#[test]
fn a_turn_cancelled_while_its_session_opens_is_never_prompted() {
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("open");
    let mut bench = Bench::up(fake(&format!("gated:{}", gate.display())));
    bench.start(1, Session::Fresh(SESSION), &["go on"]);

    bench.order(Action::CancelTurn { turn: TurnId(1) });
    std::fs::write(&gate, "").unwrap();

    assert_eq!(bench.end(), TurnEnd::Cancelled);
    bench.start(2, Session::Resume(SESSION), &["again"]);
    assert_eq!(bench.fact(), unknown(2));
    bench.ends_quietly();
}

#[test]
fn a_session_that_the_agent_forgot_is_reported_as_unknown() {
    let mut settings = fake("forgets");
    settings.limits.resume_settle = Duration::from_secs(600);
    let mut bench = Bench::up(settings);
    bench.turn("one");

    bench.start(2, Session::Resume(SESSION), &["two"]);

    assert_eq!(bench.fact(), unknown(2));
    bench.ends_quietly();
}

#[test]
fn a_resumed_session_that_stays_silent_counts_as_known() {
    let mut settings = fake("thinks");
    settings.limits.resume_settle = Duration::from_millis(20);
    let mut bench = Bench::up(settings);
    bench.turn("one");

    bench.start(2, Session::Resume(SESSION), &["two"]);

    assert_eq!(bench.fact(), opened(2));
    bench.ends_quietly();
}

#[test]
fn a_session_that_does_not_open_is_reported_with_the_reason() {
    let mut bench = Bench::up(fake(r#"locked:{"code":-32603,"message":"no model"}"#));
    bench.start(1, Session::Fresh(SESSION), &["hello"]);
    assert_eq!(bench.fact(), refused(1, "no model (-32603)"));

    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("open");
    let mut settings = fake(&format!("gated:{}", gate.display()));
    settings.limits.session_open = Duration::from_millis(50);
    let mut bench = Bench::up(settings);
    bench.start(1, Session::Fresh(SESSION), &["hello"]);
    assert_eq!(
        bench.fact(),
        refused(1, "no answer to session/new within 50ms")
    );

    // The late answer is no session of the next turn.
    std::fs::write(&gate, "").unwrap();
    bench.start(2, Session::Resume(SESSION), &["hello"]);
    assert_eq!(bench.fact(), unknown(2));
    bench.ends_quietly();
}

#[test]
fn a_worker_that_is_not_free_refuses_a_turn() {
    let mut bench = Bench::up(fake("endless"));
    bench.start(1, Session::Fresh(SESSION), &["go on"]);
    assert_eq!(bench.fact(), opened(1));

    let other = SessionRef {
        epoch: 2,
        ..SESSION
    };
    bench.start(2, Session::Fresh(other), &["me too"]);

    assert_eq!(bench.fact(), refused(2, "the worker is not free"));
}

#[test]
fn a_worker_is_given_no_keys() {
    let mut settings = fake("variables");
    settings.env.extend(
        [
            ("BUZZ_PRIVATE_KEY", "11"),
            ("MY_NSEC", "22"),
            ("HINT", "use nsec1abc"),
            ("PLAIN", "44"),
        ]
        .map(|(name, value)| (name.into(), value.into())),
    );
    let mut bench = Bench::up(settings);

    let end = bench.turn("tell");

    assert_eq!(end, answered("BUZZ_PRIVATE_KEY= MY_NSEC= HINT= PLAIN=44 "));
}

#[test]
fn a_worker_keeps_the_settings_that_it_was_started_with() {
    let settings = AcpSettingsHandle::new(fake("variables"));
    let mut bench = Bench::up(settings.clone());

    settings.set(fake("echo"));

    assert_ne!(bench.turn("hello"), answered("hello"));
    bench.order(Action::Kill { worker: WORKER });
    assert_eq!(bench.down(), DownCause::Killed);
    bench.order(Action::Spawn { worker: WORKER });
    assert_eq!(bench.fact(), Input::WorkerUp { worker: WORKER });
    assert_eq!(bench.turn("hello"), answered("hello"));
}

#[test]
fn settings_are_shown_without_values() {
    let mut settings = fake("echo");
    settings.args = vec!["--token=hidden".to_owned()];
    settings.env = vec![("TOKEN".into(), "hidden".into())];

    let handle = AcpSettingsHandle::new(settings.clone());

    for shown in [format!("{settings:?}"), format!("{handle:?}")] {
        assert!(shown.contains("TOKEN"));
        assert!(!shown.contains("hidden"));
    }
}

pub(crate) fn unknown(turn: u64) -> Input {
    Input::SessionFailed {
        turn: TurnId(turn),
        cause: OpenCause::Unknown,
    }
}

pub(crate) fn refused(turn: u64, text: &str) -> Input {
    Input::SessionFailed {
        turn: TurnId(turn),
        cause: OpenCause::Refused {
            text: Excerpt::new(text),
        },
    }
}

pub(crate) fn exited(code: i32, text: &str) -> DownCause {
    DownCause::Exited {
        code: Some(code),
        text: Excerpt::new(text),
    }
}

pub(crate) fn pids(end: &TurnEnd) -> (String, String) {
    let TurnEnd::Answered { reply, .. } = end else {
        panic!("the turn is answered");
    };
    let (agent, tool) = reply.split_once(' ').unwrap();
    assert!(exists(agent) && exists(tool));
    (agent.to_owned(), tool.to_owned())
}
