//! How workers end: by themselves, by their faults, and by order.

use std::time::Duration;

use buzz_adapters::acp::AcpSettings;
use buzz_proto::schedule::{Action, DownCause, Session};
use buzz_proto::wire::Excerpt;

use super::bench::{
    Bench, SESSION, WORKER, answered, await_gone, deaf_to_sigterm, exists, fake, opened,
};
use super::turns::{exited, pids, refused};

#[test]
fn a_worker_that_ends_by_itself_is_reported_with_its_last_words() {
    let mut bench = Bench::up(fake("crash"));
    bench.start(1, Session::Fresh(SESSION), &["hello"]);
    assert_eq!(bench.fact(), opened(1));
    assert_eq!(bench.down(), exited(3, "loading / out of memory"));

    bench.start(2, Session::Resume(SESSION), &["again"]);
    assert_eq!(bench.fact(), refused(2, "the worker has ended"));
}

#[test]
fn an_answer_counts_though_its_worker_stopped_listening() {
    for stay in ["", "sleep 0.2"] {
        let mut settings = AcpSettings::new("sh");
        settings.args = vec!["-c".into(), format!("{LAST_WORDS}{stay}")];
        let mut bench = Bench::up(settings);

        assert_eq!(bench.turn("hello"), answered("done"));

        assert_eq!(bench.down(), exited(0, ""));
    }
}

/// Answers its first prompt, asks for something whose answer it cannot hear, and ends.
const LAST_WORDS: &str = r#"
say() { printf '{"jsonrpc":"2.0",%s}\n' "$1"; }
read -r line; say '"id":0,"result":{"protocolVersion":1}'
read -r line; say '"id":1,"result":{"sessionId":"s-1"}'
read -r line; exec 0<&-
update='"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"done"}'
say '"method":"session/update","params":{"sessionId":"s-1","update":{'"$update"'}}'
say '"id":7,"method":"fs/read_text_file","params":{}'
say '"id":2,"result":{"stopReason":"end_turn"}'
"#;

#[test]
fn a_program_that_is_no_agent_is_ended_at_once() {
    let mut settings = AcpSettings::new("yes");
    settings.limits.start = Duration::from_secs(600);
    let mut bench = Bench::new(settings);

    bench.order(Action::Spawn { worker: WORKER });

    let text = Excerpt::new("it does not speak ACP: it writes lines like \"y\"");
    assert_eq!(bench.down(), DownCause::NoHandshake { text });
}

#[test]
fn a_worker_that_is_down_is_not_down_again() {
    let mut bench = Bench::up(fake("echo"));
    bench.order(Action::Kill { worker: WORKER });
    assert_eq!(bench.down(), DownCause::Killed);

    bench.order(Action::Kill { worker: WORKER });

    assert!(bench.is_quiet());
}

#[test]
fn a_worker_that_does_not_get_ready_is_reported_as_down() {
    let mut mute = fake("mute");
    mute.limits.start = Duration::from_millis(50);
    mute.limits.exit_step = Duration::from_millis(500);
    let missing = AcpSettings::new("/nowhere/agent");
    let handshake = |text: &str| DownCause::NoHandshake {
        text: Excerpt::new(text),
    };
    let nothing = DownCause::CannotStart {
        text: Excerpt::new("cannot run \"/nowhere/agent\": No such file or directory (os error 2)"),
    };
    for (settings, cause) in [
        (mute, handshake("no answer to initialize within 50ms")),
        (
            fake("later"),
            handshake("it speaks version 2 of ACP, not 1"),
        ),
        (fake("exits"), exited(7, "no configuration")),
        (missing, nothing),
    ] {
        let mut bench = Bench::new(settings);
        bench.order(Action::Spawn { worker: WORKER });
        assert_eq!(bench.down(), cause);
    }
}

#[test]
fn a_line_without_end_takes_the_worker_down() {
    let mut settings = fake("huge:1000000");
    settings.limits.line_bytes_max = 100_000;
    let mut bench = Bench::up(settings);
    bench.start(1, Session::Fresh(SESSION), &["hello"]);
    assert_eq!(bench.fact(), opened(1));

    let text = Excerpt::new("a line is longer than 100000 bytes");
    assert_eq!(bench.down(), DownCause::Protocol { text });
}

#[test]
fn a_worker_that_does_not_read_is_taken_down() {
    let mut settings = fake("deaf");
    settings.limits.write = Duration::from_millis(100);
    settings.limits.exit_step = Duration::from_millis(50);
    let mut bench = Bench::up(settings);

    let long = "x".repeat(60_000);
    bench.start(1, Session::Fresh(SESSION), &[long.as_str(); 10]);

    // The prompt was not written, so the session is not reported as opened.
    let text = Excerpt::new("it does not read its input: a line waits for 100ms");
    assert_eq!(bench.down(), DownCause::Protocol { text });
}

#[test]
fn a_worker_that_ignores_everything_is_killed() {
    let mut settings = deaf_to_sigterm(fake("stubborn"));
    settings.limits.exit_step = Duration::from_millis(50);

    Bench::up(settings).ends_quietly();
}

#[test]
fn no_process_outlives_its_worker() {
    let mut bench = Bench::up(fake("pids"));
    let (agent, tool) = pids(&bench.turn("who"));
    bench.ends_quietly();
    assert!(!exists(&agent));
    await_gone(&tool);
}

#[test]
fn no_process_outlives_the_pool() {
    let mut bench = Bench::up(fake("pids"));
    let (agent, tool) = pids(&bench.turn("who"));

    bench.drop_pool();

    await_gone(&agent);
    await_gone(&tool);
}
