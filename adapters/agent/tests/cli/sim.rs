//! Scenarios in virtual time, as a user plays them.

use std::process::Command;

use serde_json::Value;

use crate::support::{agent, assert_ends, end_of, stderr, stdout};

#[test]
fn without_a_scenario_the_scenarios_are_listed() {
    let output = end_of(&mut agent(&["sim"]));

    assert_ends(&output, 0, "overload  more mentions");
    assert_ends(&output, 0, "storm  a thousand posts");
    assert_ends(&output, 0, "fleet  a thousand agents");
    assert_ends(&output, 0, "hold  more conversations than workers");
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

#[test]
fn a_storm_ends_with_zero_where_every_bound_is_kept_and_its_last_line_holds_the_figures() {
    let output = end_of(&mut agent(&["sim", "storm", "--jobs", "30", "--json"]));

    assert_ends(&output, 0, "refused      4  of them refused by the quota");
    let figures = figures(&stdout(&output));
    for (name, count) in [
        ("seed", 1),
        ("jobs", 30),
        ("settled", 30),
        ("stored", 30),
        ("duplicates", 0),
        ("refused", 4),
        ("in_flight_max", 4),
        ("sent_before_hint", 0),
    ] {
        assert_eq!(figures[name], count, "{name} of {figures}");
    }
    assert_eq!(figures["scenario"], "storm");
    assert!(figures["requests"].as_u64() >= Some(34), "{figures}");
    assert_within(&figures, "drain_ratio", 1.0, 1.25);
}

#[test]
fn a_fleet_ends_with_zero_where_every_bound_is_kept_and_tells_of_both_runs() {
    let output = end_of(&mut agent(&["sim", "fleet", "--agents", "30", "--json"]));

    assert_ends(&output, 0, "jobs    3000     150  posts");
    let figures = figures(&stdout(&output));
    assert_eq!(figures["scenario"], "fleet");
    for (run, quota, jobs) in [(&figures, 900, 3000), (&figures["tight"], 9, 150)] {
        for (name, count) in [
            ("quota", quota),
            ("window_s", 60),
            ("agents", 30),
            ("jobs", jobs),
            ("settled", jobs),
            ("stored", jobs),
            ("duplicates", 0),
        ] {
            assert_eq!(run[name], count, "{name} of {run}");
        }
        assert_within(run, "refused_per_agent_window", 0.1, 1.5);
        assert_within(run, "refused_max", 1.0, 5.0);
        assert_within(run, "drain_ratio", 0.5, 1.25);
        assert_within(run, "fairness", 1.0, 5.0);
    }
    assert_within(&figures, "refused_share", 0.001, 0.05);
    assert_within(&figures["tight"], "refused_share", 0.05, 0.9);
}

#[test]
fn a_hold_ends_with_zero_where_every_bound_is_kept_and_its_last_line_holds_the_figures() {
    let output = end_of(&mut agent(&["sim", "hold", "--json"]));

    assert_ends(&output, 0, "lost      0  of them without an end");
    let figures = figures(&stdout(&output));
    assert_eq!(figures["scenario"], "hold");
    for (name, count) in [
        ("seed", 1),
        ("workers", 6),
        ("lost", 0),
        ("duplicates", 0),
        ("stale_resumes", 0),
        ("conversation_wait_ms_max", 0),
        ("ready_wait_ms_max", 0),
        ("deviations", 0),
    ] {
        assert_eq!(figures[name], count, "{name} of {figures}");
    }
    assert_eq!(figures["thread_wait_ms_max"], 10_000);
    assert_within(&figures, "forks", 5.0, 100.0);
    assert_within(&figures, "accepted", 200.0, 400.0);
    let count = |name: &str| figures[name].as_u64().unwrap();
    assert_eq!(count("answered") + count("reported"), count("accepted"));
}

#[test]
fn numbers_of_posts_of_agents_and_of_workers_outside_their_bounds_are_refused() {
    for (arguments, words) in [
        (
            ["sim", "storm", "--jobs", "2001"],
            "2001 is not in 1..=2000",
        ),
        (["sim", "fleet", "--agents", "0"], "0 is not in 1..=20000"),
        (["sim", "hold", "--workers", "1"], "1 is not in 2..=12"),
        (
            ["sim", "fleet", "--agents", "20001"],
            "20001 is not in 1..=20000",
        ),
    ] {
        assert_ends(&end_of(&mut agent(&arguments)), 2, words);
    }
}

#[track_caller]
fn assert_within(figures: &Value, name: &str, least: f64, most: f64) {
    let figure = figures[name].as_f64();
    let is_within = figure.is_some_and(|figure| (least..=most).contains(&figure));
    assert!(is_within, "{name} of {figures} is not in {least}..={most}");
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
