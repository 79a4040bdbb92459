//! The inputs that fuzzing found worth keeping, played without a fuzzer.

use std::fs;
use std::path::PathBuf;

use buzz_sim::fuzz::TARGETS;

#[test]
fn every_kept_input_of_wire_holds() {
    plays("wire");
}

#[test]
fn every_kept_input_of_machine_holds() {
    plays("machine");
}

#[test]
fn every_kept_input_of_retry_hint_holds() {
    plays("retry_hint");
}

#[test]
fn every_kept_input_of_trace_holds() {
    plays("trace");
}

#[test]
fn each_target_is_built_for_the_fuzzer_and_has_a_corpus() {
    for (name, _) in TARGETS {
        let target = folder("fuzz_targets").join(format!("{name}.rs"));
        let text = fs::read_to_string(&target).expect("its file");
        assert!(text.contains(&format!("buzz_sim::fuzz::{name}(")), "{name}");
    }
    let corpora = fs::read_dir(folder("corpus")).expect("the corpora");
    assert_eq!(corpora.count(), TARGETS.len());
}

fn plays(target: &str) {
    let (_, body) = TARGETS
        .into_iter()
        .find(|(name, _)| *name == target)
        .expect("a target");
    let mut count = 0_u32;
    for entry in fs::read_dir(folder("corpus").join(target)).expect("its corpus") {
        let path = entry.expect("an entry").path();
        let bytes = fs::read(&path).expect("an input");
        let played = std::panic::catch_unwind(|| body(&bytes));
        assert!(played.is_ok(), "the input {} fails", path.display());
        count += 1;
    }
    assert!(count > 10, "only {count} inputs of {target}");
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz")
        .join(name)
}
