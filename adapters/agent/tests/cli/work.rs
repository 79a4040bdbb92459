//! How work is handed to workers, as flags say.

use std::process::Command;

use buzz_dev_relay::keys::Keys;
use serde_json::{Value, json};

use crate::support::{agent, assert_ends, end_of, stderr};

/// `run` with these arguments, at a relay that does not answer, for a second.
fn run(args: &[&str]) -> Command {
    let owner = Keys::generate();
    let base = ["run", "--no-state", "--relay", "ws://127.0.0.1:9"];
    let until = ["--give-up-after", "1", "--owner", owner.public()];
    let args: Vec<_> = base.iter().chain(&until).chain(args).copied().collect();
    let mut command = agent(&args);
    command.args(["--", "sleep", "9"]);
    command.env("BUZZ_PRIVATE_KEY", Keys::generate().secret_hex());
    command
}

#[track_caller]
fn refused(args: &[&str], text: &str) {
    assert_ends(&end_of(&mut run(args)), 2, text);
}

/// What the machine is given, as its trace begins.
fn given(args: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace");
    let trace = path.to_str().unwrap();
    let args: Vec<_> = args.iter().copied().chain(["--trace", trace]).collect();
    assert_ends(&end_of(&mut run(&args)), 3, "");
    let lines = std::fs::read_to_string(path).unwrap();
    let head: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    head["config"]["consumer"]["Workers"].clone()
}

#[test]
fn every_setting_of_work_reaches_the_machine() {
    let seconds = |seconds: u64| seconds * 1_000_000_000;
    let usual = given(&[]);
    let limits = &usual["limits"];
    assert_eq!(usual["workers"], 2);
    assert_eq!(limits["hold"], seconds(10));
    assert_eq!(limits["turn_idle"], seconds(900));
    assert_eq!(limits["turn_hard"], seconds(7200));
    // The worker's own side gives up after 60 s, and says why.
    assert_eq!(limits["start"], seconds(70));
    assert_eq!(limits["session_open"], seconds(70));
    assert_eq!(
        (&limits["channel_max"], &limits["total_max"]),
        (&json!(500), &json!(5000))
    );
    for shown in ["notices", "cosmetics", "marks"] {
        assert_eq!(usual[shown], true, "{shown}");
    }

    let args = [
        "--workers 32 --policy channel --hold 0 --turn-idle 60 --turn-limit 600",
        "--cancel-grace 9 --attempts 3 --sessions 4 --session-idle 90 --batch 1",
        "--queue 20 --queue-total 30 --context 0",
        "--no-marks --no-presence --no-notices",
    ];
    let args: Vec<_> = args.iter().flat_map(|line| line.split(' ')).collect();
    let other = given(&args);
    assert_eq!(
        (&other["workers"], &other["policy"]),
        (&json!(32), &json!("Channel"))
    );
    for (limit, value) in [
        ("hold", 0),
        ("turn_idle", seconds(60)),
        ("turn_hard", seconds(600)),
        ("cancel_grace", seconds(9)),
        ("attempts_max", 3),
        ("sessions_max", 4),
        ("session_idle", seconds(90)),
        ("batch_max", 1),
        ("channel_max", 20),
        ("total_max", 30),
        ("context_max", 0),
    ] {
        assert_eq!(other["limits"][limit], value, "{limit}");
    }
    for shown in ["notices", "cosmetics", "marks"] {
        assert_eq!(other[shown], false, "{shown}");
    }
}

#[test]
fn a_setting_of_work_outside_its_bounds_is_named_with_them() {
    for (flag, wrong, bounds) in [
        ("--workers", "33", "1..=32"),
        ("--hold", "3601", "0..=3600"),
        ("--turn-idle", "0", "1..=86400"),
        ("--turn-limit", "604801", "1..=604800"),
        ("--cancel-grace", "301", "1..=300"),
        ("--attempts", "0", "1..=100"),
        ("--sessions", "101", "1..=100"),
        ("--session-idle", "0", "1..=86400"),
        ("--batch", "501", "1..=500"),
        ("--queue", "0", "1..=5000"),
        ("--queue-total", "50001", "1..=50000"),
        ("--context", "101", "0..=100"),
    ] {
        refused(&[flag, wrong], &format!("{wrong} is not in {bounds}"));
    }
    refused(
        &["--permissions", "always"],
        "[possible values: allow-once, reject-once]",
    );
    refused(
        &["--during-turn", "drop"],
        "[possible values: queue, steer, interrupt]",
    );
}

#[test]
fn settings_of_work_that_contradict_each_other_are_named() {
    refused(
        &["--turn-idle", "60", "--turn-limit", "59"],
        "--turn-idle is 60, above --turn-limit, which is 59: lower the one or raise the other",
    );
    refused(
        &["--queue", "600", "--queue-total", "599"],
        "--queue is 600, above --queue-total, which is 599",
    );
}

#[test]
fn what_means_queue_for_now_is_said_at_the_start() {
    for during in ["steer", "interrupt"] {
        let output = end_of(&mut run(&["--during-turn", during]));
        let said = format!("--during-turn {during} means queue for now");
        assert!(stderr(&output).contains(&said), "{}", stderr(&output));
    }
    let output = end_of(&mut run(&[]));
    assert!(!stderr(&output).contains("means queue"));
}
