//! Against a relay on loopback, with real workers.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use buzz_dev_relay::client::{Client, tag, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::Settings;
use buzz_dev_relay::{DevRelay, Options};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::room::{CHANNEL, Room, blocking, is_joined, is_live, next_event, run};
use crate::support::{
    PATIENCE, PROGRAM, Running, agent, assert_ends, assert_hides, end_of, stderr, stdout,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mention_is_answered_in_its_thread_and_the_trace_replays() {
    answers_on("tokio").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_async_std_a_mention_is_answered_and_the_trace_replays_too() {
    answers_on("async-std").await;
}

/// An echo whose environment, and what it sees of the agent's, is left in a file.
fn worker_that_tells_its_environment(file: &Path) -> String {
    // Other processes of the same user cannot look into the agent; the superuser always can.
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let peek = if is_root {
        ""
    } else {
        "cat /proc/$PPID/environ;"
    };
    format!(
        "(env; {peek}) > {}; exec {PROGRAM} echo-worker",
        file.display()
    )
}

async fn answers_on(runtime: &'static str) {
    let room = Room::open(Settings::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let (trace, seen) = (
        folder.path().join("trace"),
        folder.path().join("environment"),
    );
    let script = worker_that_tells_its_environment(&seen);
    let args = [
        "--runtime",
        runtime,
        "--give-up-after",
        "0",
        "--workers",
        "1",
        "--trace",
        trace.to_str().unwrap(),
    ];
    let mut command = room.run(&args, &["sh", "-c", &script]);
    let mut running = blocking(move || {
        let mut running = Running::start(&mut command);
        running.wait_for("channel", is_joined);
        running
    })
    .await;

    let mut client = Client::connect(&room.relay.url(), &room.owner)
        .await
        .unwrap();
    let filter = json!({"kinds": [9], "authors": [room.agent.public()], "#h": [CHANNEL]});
    client.subscribe("answers", filter).await.unwrap();
    let tags = vec![tag("h", CHANNEL), tag("p", room.agent.public())];
    let mention = room.owner.sign_event(9, tags, "are you there?", unix_now());
    assert!(client.publish(&mention).await.unwrap().accepted);
    let answer = timeout(PATIENCE, next_event(&mut client)).await.unwrap();

    assert_eq!(answer.content, "are you there?");
    assert!(
        answer
            .tags
            .iter()
            .any(|tag| tag[0] == "e" && tag[1] == mention.id)
    );
    let (status, said) = blocking(move || {
        running.wait_for("answered turn", |fact| {
            fact["TurnEnded"]["outcome"] == "Answered"
        });
        running.terminate()
    })
    .await;
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("the agent has ended"), "{said}");
    let secret = room.agent.secret_hex();
    assert!(!said.contains(&secret));
    let environment = String::from_utf8_lossy(&std::fs::read(&seen).unwrap()).into_owned();
    assert!(!environment.contains(&secret) && !environment.contains("BUZZ_PRIVATE_KEY"));
    assert!(
        !std::fs::read_to_string(&trace)
            .unwrap()
            .contains("are you there?")
    );
    let replayed = end_of(&mut agent(&["replay", "--quiet", trace.to_str().unwrap()]));
    assert_ends(&replayed, 0, "are the same as recorded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_goes_away_does_not_end_an_agent_that_was_live() {
    let Room {
        relay,
        owner,
        agent: keys,
    } = Room::open(Settings::default()).await;
    let (url, addr) = (relay.url(), relay.addr());
    let args = ["--give-up-after", "60"];
    let mut command = run(
        &url,
        &keys,
        owner.public(),
        &args,
        &[PROGRAM, "echo-worker"],
    );
    let mut running = blocking(move || {
        let mut running = Running::start(&mut command);
        running.wait_for("live link", is_live);
        running
    })
    .await;

    relay.kill().await;
    let running = blocking(move || {
        running.wait_for("wait", |fact| fact["Link"].get("Waiting").is_some());
        running
    })
    .await;
    let options = Options {
        addr,
        ..Options::default()
    };
    let relay = DevRelay::start(options).await.unwrap();
    let is_back = async {
        while relay.stats_of(keys.public()).auths == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, is_back).await.unwrap();

    let (status, said) = blocking(move || running.terminate()).await;
    assert_eq!(status.code(), Some(0), "{said}");
}

/// Speaks ACP until it is prompted, and then says nothing; leaves its process id in a file.
const SILENT_WORKER: &str = r#"
echo $$ > "$1"
while read -r line; do
    id=${line#*\"id\":}
    id=${id%%[,\}]*}
    case "$line" in
        *initialize*) result='{"protocolVersion":1}' ;;
        *session/new*) result='{"sessionId":"s"}' ;;
        *) continue ;;
    esac
    echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}"
done"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_a_turn_at_once_and_leaves_no_worker() {
    ends_at_once_on("tokio").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_async_std_a_second_signal_ends_a_turn_at_once_and_leaves_no_worker() {
    ends_at_once_on("async-std").await;
}

async fn ends_at_once_on(runtime: &'static str) {
    let room = Room::open(Settings::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let args = [
        "--runtime",
        runtime,
        "--give-up-after",
        "0",
        "--workers",
        "1",
        "--grace",
        "3600",
    ];
    let worker = ["sh", "-c", SILENT_WORKER, "sh", pid.to_str().unwrap()];
    let mut command = room.run(&args, &worker);
    let mut running = blocking(move || {
        let mut running = Running::start(&mut command);
        running.wait_for("channel", is_joined);
        running
    })
    .await;
    let mut client = Client::connect(&room.relay.url(), &room.owner)
        .await
        .unwrap();
    let tags = vec![tag("h", CHANNEL), tag("p", room.agent.public())];
    let mention = room.owner.sign_event(9, tags, "hello?", unix_now());
    assert!(client.publish(&mention).await.unwrap().accepted);

    let (status, said) = blocking(move || {
        running.wait_for("turn", |fact| fact.get("TurnStarted").is_some());
        running.insist()
    })
    .await;

    assert_eq!(status.code(), Some(1), "{said}");
    assert!(said.contains("ended at once, as asked"), "{said}");
    let pid = std::fs::read_to_string(&pid).unwrap();
    let is_gone = async {
        while is_running(pid.trim()) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, is_gone).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_words_nobody_reads_ends_when_told_to() {
    let room = Room::open(Settings::default()).await;
    let (unread, mut full) = std::io::pipe().unwrap();
    let mut command = room.run(&["--give-up-after", "0"], &[PROGRAM, "echo-worker"]);
    command.stdout(full.try_clone().unwrap());
    command.stderr(full.try_clone().unwrap());
    // Keeps the pipe full until its other end is closed.
    let filler = thread::spawn(move || full.write_all(&vec![b'-'; 1 << 24]));
    let mut running = Running::start_unread(&mut command);
    drop(command);
    let is_authenticated = async {
        while room.relay.stats_of(room.agent.public()).auths == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, is_authenticated).await.unwrap();

    running.signal();
    let status = timeout(PATIENCE, blocking(move || running.wait())).await;

    drop(unread);
    assert!(filler.join().unwrap().is_err(), "the pipe was full");
    assert_eq!(status.unwrap().code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_the_relay_does_not_know_is_refused() {
    let settings = Settings {
        membership_required: true,
        ..Settings::default()
    };
    let room = Room::open(settings).await;
    let mut command = room.run(&["--give-up-after", "0"], &[PROGRAM, "echo-worker"]);

    let output = blocking(move || end_of(&mut command)).await;

    assert_ends(
        &output,
        4,
        "refuses this key: restricted: not a relay member",
    );
    assert_hides(&output, &room.agent.secret_hex());
    let last: Value = serde_json::from_str(stdout(&output).lines().last().unwrap()).unwrap();
    assert_eq!(last["exit"], 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_never_speaks_acp_ends_the_start() {
    let room = Room::open(Settings::default()).await;
    for (worker, text) in [
        (
            &["/no/such/program"][..],
            "the worker command /no/such/program cannot be started",
        ),
        (&["false"][..], "the worker command false"),
        (
            &["cat", "/dev/zero"][..],
            "the worker command cat does not speak ACP",
        ),
    ] {
        let mut command = room.run(&["--give-up-after", "0"], worker);
        let output = blocking(move || end_of(&mut command)).await;
        assert_ends(&output, 5, text);
        assert!(stderr(&output).contains("check what stands after --"));
    }
}

#[test]
fn a_relay_that_is_not_there_ends_the_start_after_the_time_given() {
    // A port that nobody listens on, since it was just given back.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("ws://127.0.0.1:{port}");
    let (keys, owner) = (Keys::generate(), Keys::generate());
    let worker = [PROGRAM, "echo-worker"];

    let output = end_of(&mut run(
        &url,
        &keys,
        owner.public(),
        &["--give-up-after", "1"],
        &worker,
    ));

    let text = format!("{url} was not reached within 1 s: no connection to the relay: ");
    assert_ends(&output, 3, &text);
    assert_hides(&output, &keys.secret_hex());
}

#[test]
fn a_proxy_of_the_environment_that_cannot_be_reached_is_named() {
    let (keys, owner) = (Keys::generate(), Keys::generate());
    let worker = [PROGRAM, "echo-worker"];
    let args = ["--give-up-after", "1"];
    let url = "ws://relay.test:1";
    let mut command = run(url, &keys, owner.public(), &args, &worker);
    command.env("all_proxy", "http://me:hush@127.0.0.1:9");
    for name in ["http_proxy", "no_proxy", "NO_PROXY"] {
        command.env_remove(name);
    }

    let output = end_of(&mut command);

    let text = format!("{url} was not reached within 1 s: the proxy cannot be reached: ");
    assert_ends(&output, 3, &text);
    assert_hides(&output, "hush");
}

#[test]
fn the_echo_worker_speaks_acp() {
    let mut child = agent(&["echo-worker"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#;
    writeln!(child.stdin.take().unwrap(), "{hello}").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_ends(&output, 0, "");
    let answer: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(answer["result"]["protocolVersion"], 1);
}

/// Whether a process exists; one that has ended and was not collected does not.
fn is_running(pid: &str) -> bool {
    // Where there is no such file system, nothing is looked at.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().unwrap_or_default().trim();
    !state.is_empty() && !state.starts_with('Z')
}
