//! Scenarios in virtual time, as a user plays them.

use std::process::Command;

use serde_json::Value;

use crate::support::{agent, assert_ends, end_of, stderr, stdout};

#[test]
fn without_a_scenario_the_scenarios_are_listed() {
    let output = end_of(&mut agent(&["sim"]));

    assert_ends(&output, 0, "overload  more mentions");
    assert_eq!(stdout(&output), "");
}

#[test]
fn where_all_is_delivered_the_exit_code_is_zero_and_the_last_line_holds_the_figures() {
    let output = end_of(small("8").arg("--json"));

    assert_ends(&output, 0, "delivered     10");
    let figures = figures(&stdout(&output));
    for (name, count) in [
        ("seed", 1),
        ("subscriptions", 3),
        ("slots", 8),
        ("rounds", 1),
        ("lost", 0),
        ("history_requests", 0),
        ("requests_elsewhere", 0),
        ("audits", 0),
        ("owed", 10),
        ("delivered", 10),
        ("duplicates", 0),
        ("gaps", 0),
    ] {
        assert_eq!(figures[name], count, "{name} of {figures}");
    }
    assert!(figures["virtual_seconds"].is_u64());
}

#[test]
fn what_finds_no_room_is_fetched_again_and_the_exit_code_is_zero() {
    let output = end_of(small("4").arg("--json"));

    assert_ends(&output, 0, "lost      4");
    let figures = figures(&stdout(&output));
    for (name, count) in [
        ("lost", 4),
        ("history_requests", 1),
        ("requests_elsewhere", 0),
        ("owed", 10),
        ("delivered", 10),
        ("duplicates", 0),
        ("gaps", 0),
    ] {
        assert_eq!(figures[name], count, "{name} of {figures}");
    }
}

#[test]
fn the_same_seed_prints_the_same_bytes() {
    let play = |seed| end_of(small("8").args(["--json", "--seed", seed]));

    let first = play("7");

    assert_eq!(first.stdout, play("7").stdout);
    assert_ne!(first.stdout, play("8").stdout);
}

#[test]
fn without_json_there_is_only_the_table() {
    let output = end_of(&mut small("8"));

    assert_ends(&output, 0, "owed     10  mentions that the relay stored");
    assert_eq!(stdout(&output), "");
    assert_eq!(stderr(&output).lines().count(), 10);
}

#[test]
fn a_setting_outside_its_bounds_is_refused() {
    let output = end_of(&mut agent(&["sim", "overload", "--subscriptions", "1"]));

    assert_ends(&output, 2, "1 is not in 2..=200");
}

/// One round of eight mentions in one of two channels.
fn small(slots: &str) -> Command {
    let settings = ["--subscriptions", "3", "--rounds", "1", "--events", "8"];
    let mut command = agent(&["sim", "overload", "--slots", slots]);
    command.args(settings);
    command
}

fn figures(stdout: &str) -> Value {
    let last = stdout.lines().last().unwrap();
    serde_json::from_str(last).unwrap()
}
