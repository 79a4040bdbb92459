//! The state machine stays free of a runtime, a clock, sockets and threads: it names none of them,
//! and nothing it depends on can bring one in unseen.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bytes, small vectors, hash sets and JSON, with what those need; every one builds without std.
const ALLOWED: [&str; 14] = [
    "bytes",
    "smallvec",
    "hashbrown",
    "serde",
    "serde_core",
    "serde_json",
    "itoa",
    "memchr",
    "zmij",
    "serde_derive",
    "proc-macro2",
    "quote",
    "syn",
    "unicode-ident",
];

#[test]
fn the_core_depends_on_nothing_that_could_do_io() {
    let tree = tree_of(&["-p", "buzz-proto", "-e", "normal"]);

    assert!(
        tree.lines().any(|line| line.starts_with("buzz-proto ")),
        "not a tree: {tree}"
    );
    assert_eq!(
        strangers(&tree),
        BTreeSet::new(),
        "the core depends on more than it may:\n{tree}"
    );
}

#[test]
fn a_stranger_in_the_tree_is_found() {
    let tree = "buzz-proto v0.1.0 (/somewhere)\nbytes v1.0.0\ntokio v1.0.0\nbytes v1.0.0 (*)\n";

    assert_eq!(strangers(tree), BTreeSet::from(["tokio"]));
}

#[test]
fn the_core_is_built_without_the_standard_library() {
    let library = read("buzz-proto/src/lib.rs");

    assert!(
        is_no_std(&library),
        "buzz-proto/src/lib.rs lacks an unconditional no_std attribute"
    );
}

#[test]
fn a_conditional_or_missing_attribute_does_not_count() {
    assert!(is_no_std("//! Docs.\n#![no_std]\n"));
    assert!(!is_no_std("// #![no_std]\n"));
    assert!(!is_no_std("#![cfg_attr(not(test), no_std)]\n"));
}

#[test]
fn the_standard_library_enters_the_core_for_tests_only() {
    let mut breaches = Vec::new();
    for path in rust_files(&root().join("buzz-proto/src")) {
        let text = fs::read_to_string(&path).expect("a source file is readable");
        breaches.extend(std_lines(&text).map(|line| format!("{}:{line}", path.display())));
    }

    assert_eq!(
        breaches,
        Vec::<String>::new(),
        "std is linked outside of cfg(test)"
    );
}

#[test]
fn linking_std_is_found_unless_it_is_for_tests() {
    let linked = "#![no_std]\nextern crate alloc;\nextern crate std;\n";
    let for_tests = "#![no_std]\n#[cfg(test)]\nextern crate std;\n";
    let on_one_line = "#[cfg(test)] extern crate std;\n";

    assert_eq!(std_lines(linked).collect::<Vec<_>>(), [3]);
    assert_eq!(std_lines(for_tests).count(), 0);
    assert_eq!(std_lines(on_one_line).count(), 0);
}

#[test]
fn unsafe_code_is_forbidden_for_every_crate() {
    let workspace = read("Cargo.toml");
    assert!(
        has_line(&workspace, "unsafe_code = \"forbid\""),
        "the workspace allows unsafe code"
    );

    for manifest in [
        "buzz-proto",
        "adapters",
        "adapters/agent",
        "tests",
        "tests/sim",
    ] {
        let text = read(&format!("{manifest}/Cargo.toml"));
        let inherits = text
            .split("[lints]")
            .nth(1)
            .is_some_and(|l| has_line(l, "workspace = true"));
        assert!(inherits, "{manifest}/Cargo.toml does not inherit the lints");
    }
}

/// What features of tokio the adapters bring with them, when built with these of their own.
fn features_of_tokio(features: &str) -> BTreeSet<String> {
    let edges = "features,normal";
    let package = ["-p", "buzz-adapters", "--no-default-features"];
    let tree = tree_of(&[&package[..], &["-F", features, "-e", edges]].concat());
    let lines = tree.lines();
    let features = lines.filter_map(|line| line.strip_prefix("tokio feature \""));
    let names = features.filter_map(|rest| rest.split('"').next());
    names.map(str::to_owned).collect()
}

#[test]
fn without_its_feature_there_is_no_tokio_runtime_in_the_adapters() {
    let alone = features_of_tokio("async-std");
    let both = features_of_tokio("async-std,tokio");

    // The channels of hyper, which need no runtime.
    let harmless = ["default", "sync"].map(str::to_owned);
    assert!(alone.is_subset(&harmless.into()), "{alone:?}");
    assert!(both.contains("rt"), "{both:?}");
}

/// Cargo's own listing, from the lock file alone.
fn tree_of(args: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--prefix", "none"])
        .args(args)
        .current_dir(root())
        .output()
        .expect("cargo can be started");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo tree failed: {complaint}");
    String::from_utf8(output.stdout).expect("package names are UTF-8")
}

fn strangers(tree: &str) -> BTreeSet<&str> {
    let names = tree
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "buzz-proto" && !ALLOWED.contains(name))
        .collect()
}

fn is_no_std(library: &str) -> bool {
    has_line(library, "#![no_std]")
}

/// Lines, counted from 1, that link std without a `#[cfg(test)]` on the line or just above.
fn std_lines(text: &str) -> impl Iterator<Item = usize> {
    let mut above = "";
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let line = line.trim();
        let for_tests = line.starts_with("#[cfg(test)]") || above == "#[cfg(test)]";
        above = line;
        (line.contains("extern crate std") && !line.starts_with("//") && !for_tests)
            .then_some(number)
    })
}

fn has_line(text: &str, wanted: &str) -> bool {
    text.lines().any(|line| line.trim() == wanted)
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)
        .expect("the folder is readable")
        .flatten()
    {
        let path = entry.path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect("the workspace is complete")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}
