//! The demonstration, small: the same program, relay, workers and crowd as the large one.

use serde_json::Value;

use crate::support::{agent, assert_ends, end_of, stderr, stdout};

#[test]
fn every_mention_of_the_demo_is_answered_once_and_its_trace_replays() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("demo.trace.jsonl");
    let trace = trace.to_str().unwrap();
    let args = ["demo", "--json", "--users", "3", "--mentions", "3"];

    let output = end_of(agent(&args).args(["--trace", trace]));

    assert_ends(&output, 0, "answered     9");
    let figures: Value = serde_json::from_str(stdout(&output).trim_end()).unwrap();
    for (name, count) in [("owed", 9), ("answered", 9), ("accounted", 0), ("lost", 0)] {
        assert_eq!(figures[name], count, "{figures}");
    }
    assert_eq!(figures["duplicates"], 0);
    assert!(figures["seconds"].is_number());
    let recorded = std::fs::read_to_string(trace).unwrap();
    assert!(recorded.contains("\"Start\""), "the trace holds turns");
    assert!(
        !recorded.contains("please repeat"),
        "the trace holds no words"
    );
    let replayed = end_of(&mut agent(&["replay", "--quiet", trace]));
    assert_ends(&replayed, 0, "are the same as recorded");
    assert_eq!(stderr(&replayed).lines().count(), 1);
}
