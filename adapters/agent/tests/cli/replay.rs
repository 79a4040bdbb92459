//! Traces, good and bad.

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use buzz_proto::config::{Config, Consumer};
use buzz_proto::ids::PubKey;
use buzz_proto::input::Input;
use buzz_proto::machine::Machine;
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_proto::trace::{Privacy, Recorder};
use buzz_proto::{publish, relay};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{agent, assert_ends, end_of, stderr, stdout};

const TOKEN: &str = "seventeen";

struct Trace {
    _folder: TempDir,
    path: PathBuf,
}

impl Trace {
    fn of(content: impl AsRef<[u8]>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.jsonl");
        fs::write(&path, content).unwrap();
        Self {
            _folder: folder,
            path,
        }
    }

    fn replay(&self, args: &[&str]) -> Output {
        let path = self.path.to_str().unwrap();
        let args: Vec<_> = ["replay", path].iter().chain(args).copied().collect();
        end_of(&mut agent(&args))
    }
}

/// A trace of a machine that dials and is told the time.
fn recorded() -> String {
    let config = Config {
        seed: 7,
        me: PubKey([1; 32]),
        relay: relay::Config::new("ws://relay.example"),
        publish: publish::Config::default(),
        consumer: Consumer::External { slots: 8 },
    };
    let recorder = Recorder::new(Privacy::Redacted);
    let mut machine = Machine::new(config.clone(), MonoTime::ZERO).unwrap();
    let mut trace = recorder.head(&config) + "\n";
    for (seconds, input) in [
        (0, Input::WallClock(UnixTime(1_700_000_000))),
        (10, Input::WallClock(UnixTime(1_700_000_010))),
        (31, Input::Tick),
    ] {
        let now = MonoTime::from_nanos(seconds * 1_000_000_000);
        let actions = machine.handle_input(input.clone(), now);
        trace += &recorder.call(now, &input, &actions);
        trace += "\n";
    }
    trace
}

#[test]
fn a_trace_that_replays_as_recorded_ends_well() {
    let trace = Trace::of(recorded());

    let output = trace.replay(&[]);

    assert_ends(
        &output,
        0,
        "3 calls over 31.000s: the orders of 3 are the same as recorded",
    );
    assert!(stderr(&output).contains("WallClock → Note, Relay.Connect, WakeAt"));
    assert_eq!(stdout(&output), "");
    let quiet = trace.replay(&["--quiet"]);
    assert_eq!(stderr(&quiet).lines().count(), 1);
}

#[test]
fn programs_get_each_call_and_the_verdict() {
    let output = Trace::of(recorded()).replay(&["--json"]);
    let text = stdout(&output);
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0]["in"], "WallClock");
    assert_eq!(lines[0]["line"], 2);
    assert_eq!(lines[3]["equal"], true);
    assert_eq!(lines[3]["calls"], 3);
}

#[test]
fn the_first_order_that_differs_is_shown_from_both_sides() {
    let different = recorded().replacen("\"Dialing\"", "\"Stopped\"", 1);
    let output = Trace::of(different).replay(&["--quiet", "--json"]);

    assert_ends(&output, 6, "line 2 replays differently, at order 1");
    assert!(stderr(&output).contains("recorded  {\"Note\":{\"Link\":\"Stopped\"}}"));
    assert!(stderr(&output).contains("replayed  {\"Note\":{\"Link\":\"Dialing\"}}"));
    assert!(stdout(&output).contains("\"equal\":false"));
}

#[test]
fn a_missing_order_differs_too() {
    let mut lines: Vec<_> = recorded().lines().map(str::to_owned).collect();
    let cut = lines[1].find("\"out\":[").unwrap();
    lines[1].replace_range(cut.., "\"out\":[]}");
    let output = Trace::of(lines.join("\n") + "\n").replay(&["--quiet"]);
    assert_ends(&output, 6, "line 2 replays differently, at order 1");
    assert!(stderr(&output).contains("recorded  nothing"));
}

#[test]
fn a_trace_without_orders_says_that_nothing_was_compared() {
    let mut lines: Vec<_> = recorded().lines().map(str::to_owned).collect();
    for line in &mut lines[1..] {
        let cut = line.find(",\"out\":[").unwrap();
        line.replace_range(cut.., "}");
    }
    let output = Trace::of(lines.join("\n")).replay(&["--quiet"]);
    assert_ends(&output, 0, "the trace holds no orders to compare");
}

#[test]
fn a_last_line_that_is_cut_off_is_told_apart_from_a_difference() {
    let whole = recorded();
    let output = Trace::of(&whole[..whole.len() - 9]).replay(&["--quiet"]);
    assert_ends(&output, 6, "line 4 is cut off");
    assert!(stderr(&output).contains("the 2 calls before it replay as recorded"));
}

#[test]
fn what_is_no_trace_gets_one_sentence() {
    let head = recorded().lines().next().unwrap().to_owned();
    for (content, text) in [
        (String::new(), "it is empty, so it is no trace"),
        (
            format!("{TOKEN}\n"),
            "it is no trace: line 1: not a line of a trace",
        ),
        (
            head.replacen("\"v\":1", "\"v\":2", 1),
            "the trace has version 2; this program reads",
        ),
        (
            head.replacen("ws://", "ftp://", 1),
            "line 1: the settings cannot work: relay.url",
        ),
        (format!("{head}\n{{}}\n"), "line 2: not a line of a trace"),
    ] {
        let output = Trace::of(content).replay(&[]);
        assert_ends(&output, 6, text);
        assert_eq!(stderr(&output).lines().count(), 1, "{}", stderr(&output));
    }
    let binary = Trace::of([0xff, 0xfe, b'\n']).replay(&[]);
    assert_ends(&binary, 6, "line 1 is no text, so it is no trace");
}

#[test]
fn what_cannot_be_read_gets_one_sentence() {
    let missing = end_of(&mut agent(&["replay", "/no/such/file"]));
    assert_ends(
        &missing,
        6,
        "error: /no/such/file: it cannot be read: No such file",
    );
    let folder = end_of(&mut agent(&["replay", "/"]));
    assert_ends(&folder, 6, "error: /: it cannot be read: is a directory");
    let endless = end_of(&mut agent(&["replay", "/dev/zero"]));
    assert_ends(&endless, 6, "line 1 is too long, so it is no trace");
}
