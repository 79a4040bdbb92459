//! The house rules that no compiler checks, as tests over the files of the workspace.
//!
//! Each rule is a function from a file to its findings and has fixtures beside it that make it
//! fire, so that a rule which finds nothing is known to be able to find something.

mod core_rules;
mod files;
mod finding;
mod leftovers;
mod rust_file;
mod size;
mod wording;

use finding::Finding;
use rust_file::RustFile;

/// Applies one rule to every Rust file of the workspace and fails with all that it found.
fn every_rust_file_passes(rule: impl Fn(&RustFile) -> Vec<Finding>) {
    let findings = rust_files().iter().flat_map(rule).collect();
    finding::fail_on(findings);
}

fn rust_files() -> Vec<RustFile> {
    let mut read = Vec::new();
    let mut unreadable = Vec::new();
    for file in files::tracked()
        .into_iter()
        .filter(|file| file.path.ends_with(".rs"))
    {
        match RustFile::parse(&file.path, &file.text) {
            Ok(file) => read.push(file),
            Err(finding) => unreadable.push(finding),
        }
    }
    finding::fail_on(unreadable);
    read
}

#[test]
fn the_walk_sees_the_core_the_documents_and_this_file() {
    let paths: Vec<String> = files::tracked().into_iter().map(|file| file.path).collect();

    for expected in [
        "buzz-proto/src/lib.rs",
        "Cargo.toml",
        "tests/tests/tidy/main.rs",
        "README.md",
    ] {
        assert!(
            paths.iter().any(|path| path == expected),
            "{expected} is not in {paths:?}"
        );
    }
}

#[test]
fn the_bot_that_the_readme_shows_is_the_example_that_is_compiled() {
    let text = |wanted: &str| {
        let file = files::tracked()
            .into_iter()
            .find(|file| file.path == wanted);
        file.expect("the file is there").text
    };
    let example = text("adapters/examples/echo_agent.rs");
    let from = example.find("#[tokio::main]").expect("it has a beginning");

    assert!(text("README.md").contains(example[from..].trim_end()));
}

#[test]
fn no_rust_file_is_longer_than_one_idea_needs() {
    every_rust_file_passes(size::long_file);
}

#[test]
fn no_function_is_longer_than_a_screen() {
    every_rust_file_passes(size::long_functions);
}

#[test]
fn no_line_is_wider_than_a_review_shows() {
    every_rust_file_passes(size::wide_lines);
}

#[test]
fn names_say_what_a_thing_is() {
    every_rust_file_passes(size::vague_names);
}

#[test]
fn nothing_is_left_unfinished_or_excused_without_a_reason() {
    every_rust_file_passes(leftovers::leftovers);
}

#[test]
fn the_core_compares_the_present_with_a_time_in_one_place_only() {
    every_rust_file_passes(core_rules::bare_time_comparisons);
}

#[test]
fn the_words_of_peers_are_matched_in_one_folder_only() {
    every_rust_file_passes(core_rules::peer_words_outside_wire);
}

#[test]
fn every_text_speaks_of_the_project_as_it_is() {
    let findings = files::tracked().iter().flat_map(wording::check).collect();
    finding::fail_on(findings);
}
