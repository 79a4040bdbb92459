//! What the doctor says of a relay, a key and a worker.

use std::net::TcpListener;
use std::process::Output;

use buzz_dev_relay::faults::{CannedReply, Fault};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::Settings;
use serde_json::Value;

use crate::room::{CHANNEL, Room, blocking};
use crate::support::{PROGRAM, agent, assert_hides, end_of, stderr, stdout};

const ALL: [&str; 12] = [
    "settings",
    "dns",
    "connection",
    "tls",
    "upgrade",
    "document",
    "clock",
    "login",
    "membership",
    "subscription",
    "publishing",
    "worker",
];

fn examine(url: &str, keys: &Keys, args: &[&str], worker: &[&str]) -> Output {
    let owner = Keys::generate();
    let base = [
        "doctor",
        "--json",
        "--relay",
        url,
        "--owner",
        owner.public(),
    ];
    let args = base.iter().chain(args).copied();
    let args: Vec<_> = args.chain(["--"]).chain(worker.iter().copied()).collect();
    let mut command = agent(&args);
    command.env("BUZZ_PRIVATE_KEY", keys.secret_hex());
    let output = end_of(&mut command);
    assert_hides(&output, &keys.secret_hex());
    output
}

/// Each check with its outcome, in order; what was found with it must be one line for people, too.
fn outcomes(output: &Output) -> Vec<(String, String)> {
    let text = stdout(output);
    let lines = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let found: Vec<_> = lines
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
            assert!(stderr(output).contains(&text("found")), "{line}");
            (text("check"), text("outcome"))
        })
        .collect();
    let checks: Vec<_> = found.iter().map(|(check, _)| check.as_str()).collect();
    assert_eq!(checks.len(), ALL.len(), "{checks:?}");
    assert!(ALL.iter().all(|check| checks.contains(check)), "{checks:?}");
    found
}

fn outcome_of(output: &Output, check: &str) -> String {
    let found = outcomes(output).into_iter().find(|(of, _)| of == check);
    found.unwrap().1
}

fn echo() -> [&'static str; 2] {
    [PROGRAM, "echo-worker"]
}

/// Of this room, with its agent.
async fn of_room(room: &Room, args: &[&'static str], worker: &'static [&'static str]) -> Output {
    let (url, secret) = (room.relay.url(), room.agent.secret_hex());
    let args = args.to_vec();
    blocking(move || examine(&url, &Keys::from_secret(&secret).unwrap(), &args, worker)).await
}

static ECHO: [&str; 2] = [PROGRAM, "echo-worker"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_all_is_well_each_check_says_so_in_order() {
    let room = Room::open(Settings::default()).await;

    let output = of_room(&room, &[], &ECHO).await;

    let well: Vec<_> = ALL.map(|check| (check.to_owned(), "ok".to_owned())).into();
    assert_eq!(outcomes(&output), well, "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("channels: 1, by /query"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_without_queries_is_asked_over_the_socket() {
    let room = Room::open(Settings::default()).await;
    let absent = Fault::FailQuery(CannedReply::error(404, "not found"));
    room.relay.faults().arm(absent, u64::MAX);

    let output = of_room(&room, &[], &ECHO).await;

    assert_eq!(
        outcome_of(&output, "membership"),
        "ok",
        "{}",
        stderr(&output)
    );
    assert!(stderr(&output).contains("channels: 1, by the socket"));
    assert_eq!(output.status.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_in_no_channel_is_told_what_to_do() {
    let room = Room::open(Settings::default()).await;
    let url = room.relay.url();

    let output = blocking(move || examine(&url, &Keys::generate(), &[], &echo())).await;

    assert_eq!(outcome_of(&output, "membership"), "fail");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("add this key to a channel"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_the_key_is_not_in_is_refused_and_said() {
    let room = Room::open(Settings::default()).await;
    let url = room.relay.url();
    let args = ["--channel", CHANNEL];

    let output = blocking(move || examine(&url, &Keys::generate(), &args, &echo())).await;

    assert_eq!(
        outcome_of(&output, "subscription"),
        "fail",
        "{}",
        stderr(&output)
    );
    assert_eq!(output.status.code(), Some(4));
    assert!(stderr(&output).contains(&format!("{CHANNEL}: restricted: ")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_the_relay_does_not_know_fails_at_the_login_and_the_worker_is_still_tried() {
    let settings = Settings {
        membership_required: true,
        ..Settings::default()
    };
    let room = Room::open(settings).await;
    let url = room.relay.url();

    let output = blocking(move || examine(&url, &Keys::generate(), &[], &echo())).await;

    for (check, outcome) in [
        ("clock", "ok"),
        ("login", "fail"),
        ("membership", "skip"),
        ("publishing", "skip"),
        ("worker", "ok"),
    ] {
        assert_eq!(outcome_of(&output, check), outcome, "{check}");
    }
    assert_eq!(output.status.code(), Some(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_does_not_speak_acp_is_said_with_what_it_did() {
    static MISSING: [&str; 1] = ["/no/such/program"];
    static ENDS: [&str; 1] = ["false"];
    let room = Room::open(Settings::default()).await;
    for (worker, text) in [
        (&MISSING[..], "/no/such/program cannot be started"),
        (&ENDS[..], "false ended with 1 before it spoke ACP"),
    ] {
        let output = of_room(&room, &[], worker).await;
        assert_eq!(outcome_of(&output, "worker"), "fail");
        assert_eq!(output.status.code(), Some(5));
        assert!(stderr(&output).contains(text), "{}", stderr(&output));
    }
}

#[test]
fn a_relay_that_is_not_there_fails_where_it_does() {
    // A port that nobody listens on, since it was just given back.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    for (url, failing) in [
        (format!("ws://127.0.0.1:{port}"), "connection"),
        (format!("ws://no-such-host.invalid:{port}"), "dns"),
    ] {
        let output = examine(&url, &Keys::generate(), &[], &echo());
        assert_eq!(outcome_of(&output, failing), "fail", "{}", stderr(&output));
        assert_eq!(outcome_of(&output, "login"), "skip");
        assert_eq!(output.status.code(), Some(3));
    }
}

#[test]
fn what_answers_without_being_a_relay_fails_at_the_upgrade() {
    use std::io::{Read as _, Write as _};
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let _read = stream.read(&mut request).unwrap();
        let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
        stream.write_all(answer).unwrap();
    });

    let output = examine(&url, &Keys::generate(), &[], &echo());

    server.join().unwrap();
    assert_eq!(
        outcome_of(&output, "connection"),
        "ok",
        "{}",
        stderr(&output)
    );
    assert_eq!(outcome_of(&output, "upgrade"), "fail");
    assert!(stderr(&output).contains("HTTP status 404"));
    assert_eq!(output.status.code(), Some(3));
}

#[test]
fn a_setting_that_cannot_be_used_is_named_before_anything_is_checked() {
    let keys = Keys::generate();
    let mut command = agent(&["doctor", "--relay", "ftp://x", "--", "true"]);
    let output = end_of(command.env("BUZZ_PRIVATE_KEY", keys.secret_hex()));
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("--relay: the relay URL"),
        "{}",
        stderr(&output)
    );
}
