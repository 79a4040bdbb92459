//! What an agent keeps for its next life.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use buzz_dev_relay::keys::Keys;
use tempfile::TempDir;

use crate::support::{PROGRAM, Running, agent, assert_ends, assert_hides, end_of, stderr, stdout};

/// Where nobody answers.
const RELAY: &str = "ws://127.0.0.1:9";
/// Looked at after the state was: a start that fails here has opened it.
const UNUSABLE: [&str; 2] = ["--trace", "/no/such/folder/file"];

fn run(keys: &Keys, args: &[&str]) -> Command {
    let base = ["run", "--relay", RELAY, "--respond-to", "anyone", "--json"];
    let args: Vec<_> = base
        .iter()
        .chain(args)
        .copied()
        .chain(["--", PROGRAM, "echo-worker"])
        .collect();
    let mut command = agent(&args);
    command.env("BUZZ_PRIVATE_KEY", keys.secret_hex());
    command
}

/// Starts an agent as far as its state is read.
fn look_into(keys: &Keys, folder: &Path) -> Output {
    let mut command = run(keys, &UNUSABLE);
    let output = end_of(command.env("BUZZ_STATE_DIR", folder));
    assert_ends(&output, 2, "--trace /no/such/folder/file");
    output
}

/// The paths in a folder whose names end like this.
fn paths(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect()
}

/// A key, a folder, and the path of the file of its state.
fn kept() -> (Keys, TempDir, PathBuf) {
    let (keys, folder) = (Keys::generate(), tempfile::tempdir().unwrap());
    look_into(&keys, folder.path());
    let path = paths(folder.path(), ".lock")[0].with_extension("json");
    (keys, folder, path)
}

fn state_of(keys: &Keys, records: &str) -> String {
    let key = keys.public();
    format!(r#"{{"version":1,"relay":"{RELAY}","key":"{key}","records":[{records}]}}"#)
}

#[test]
fn the_help_names_what_is_kept_and_where() {
    let help = stdout(&end_of(&mut agent(&["run", "--help"])));
    for text in [
        "--state-dir",
        "--no-state",
        "BUZZ_STATE_DIR",
        "  8  another agent",
    ] {
        assert!(help.contains(text), "{text}");
    }
    assert!(stdout(&end_of(&mut agent(&["--help"]))).contains("\n  8  another agent"));
}

#[test]
fn a_second_agent_with_the_same_key_is_refused_at_its_start() {
    let (keys, folder, _path) = kept();
    let flags = [
        "--state-dir",
        folder.path().to_str().unwrap(),
        "--give-up-after",
        "0",
    ];
    let mut first = Running::start(&mut run(&keys, &flags));
    first.wait_for("dial", |fact| fact["Link"] == "Dialing");

    let second = end_of(&mut run(&keys, &flags));

    assert_ends(
        &second,
        8,
        "another agent with this key runs on ws://127.0.0.1:9",
    );
    assert!(stdout(&second).contains("\"exit\":8"));
    assert_hides(&second, &keys.secret_hex());
    let other = Keys::generate();
    look_into(&other, folder.path());
    let (status, said) = first.terminate();
    assert_eq!(status.code(), Some(0), "{said}");
    assert!(said.contains("state in "), "{said}");
    look_into(&keys, folder.path());
}

#[test]
fn the_state_of_a_killed_agent_can_be_taken_at_once() {
    let (keys, folder, _path) = kept();
    let flags = [
        "--state-dir",
        folder.path().to_str().unwrap(),
        "--give-up-after",
        "0",
    ];
    let mut first = Running::start(&mut run(&keys, &flags));
    first.wait_for("dial", |fact| fact["Link"] == "Dialing");

    // Without a signal that it could react to.
    drop(first);

    look_into(&keys, folder.path());
}

#[test]
fn a_state_that_was_written_before_is_taken_as_it_is() {
    let (keys, folder, path) = kept();
    let record = r#"{"sub":"Membership","settled":7,"done":[],"started":[]}"#;
    for records in ["", record] {
        let text = state_of(&keys, records);
        fs::write(&path, &text).unwrap();

        let output = look_into(&keys, folder.path());

        assert!(!stderr(&output).contains("warning"), "{}", stderr(&output));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn a_state_that_cannot_be_used_is_put_aside_and_told_and_the_start_goes_on() {
    for (change, why) in [
        (["}", ""], "it is not as this program writes it"),
        (["\"version\":1", "\"version\":0"], "it has version 0"),
        (
            ["\"version\":1", "\"version\":2,\"more\":[]"],
            "a later program wrote it",
        ),
        (
            ["\"records\"", "\"notes\":[],\"records\""],
            "unknown field `notes`",
        ),
        (
            ["127.0.0.1", "127.0.0.2"],
            "it belongs to another relay or key",
        ),
    ] {
        let (keys, folder, path) = kept();
        let text = state_of(&keys, "").replace(change[0], change[1]);
        fs::write(&path, &text).unwrap();

        let words = stderr(&look_into(&keys, folder.path()));

        assert!(words.contains(why), "{why:?} is not in {words:?}");
        assert!(
            words.contains("the agent starts as for the first time"),
            "{words}"
        );
        assert!(!path.exists());
        let aside = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let aside: Vec<_> = aside
            .filter(|path| path.to_string_lossy().contains(".json.corrupt-"))
            .collect();
        assert_eq!(aside.len(), 1);
        assert_eq!(fs::read_to_string(&aside[0]).unwrap(), text);
    }
}

#[test]
fn the_state_lies_in_the_usual_place_unless_another_is_named() {
    let (keys, home) = (Keys::generate(), tempfile::tempdir().unwrap());
    let home = home.path();
    let start = |variables: &[(&str, &Path)], args: &[&str]| {
        let args: Vec<_> = UNUSABLE.iter().chain(args).copied().collect();
        let output = end_of(run(&keys, &args).envs(variables.iter().copied()));
        assert_ends(&output, 2, "--trace /no/such/folder/file");
    };
    let (flag, variable, xdg) = (home.join("flag"), home.join("variable"), home.join("xdg"));

    start(
        &[("HOME", home), ("XDG_STATE_HOME", Path::new("relative"))],
        &[],
    );
    start(&[("HOME", home), ("XDG_STATE_HOME", &xdg)], &[]);
    start(&[("HOME", home), ("BUZZ_STATE_DIR", &variable)], &[]);
    let given = ["--state-dir", flag.to_str().unwrap()];
    start(
        &[("HOME", home), ("BUZZ_STATE_DIR", &home.join("unused"))],
        &given,
    );
    start(&[("BUZZ_STATE_DIR", &home.join("unused"))], &["--no-state"]);

    let usual = home.join(".local/state/buzz-agent");
    for folder in [usual, xdg.join("buzz-agent"), variable, flag] {
        assert_eq!(paths(&folder, ".lock").len(), 1, "{}", folder.display());
        let mode = fs::metadata(&folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "{}", folder.display());
    }
    assert!(!home.join("unused").exists());
}

#[test]
fn an_agent_that_has_no_place_for_its_state_says_what_to_do() {
    let (keys, folder) = (Keys::generate(), tempfile::tempdir().unwrap());
    let homeless = end_of(&mut run(&keys, &[]));
    assert_ends(&homeless, 2, "give --state-dir DIR, or --no-state");
    let both = end_of(&mut run(&keys, &["--state-dir", "x", "--no-state"]));
    assert_ends(&both, 2, "--state-dir and --no-state contradict each other");
    let file = folder.path().join("file");
    fs::write(&file, "mine").unwrap();
    let file = file.to_str().unwrap();
    let no_folder = end_of(&mut run(&keys, &["--state-dir", file]));
    assert_ends(&no_folder, 2, &format!("nothing can be kept in {file}: "));
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
}

#[test]
fn a_folder_that_others_may_write_into_is_warned_of() {
    let (keys, folder, _path) = kept();
    let mut permissions = fs::metadata(folder.path()).unwrap().permissions();
    permissions.set_mode(0o770);
    fs::set_permissions(folder.path(), permissions).unwrap();

    let output = look_into(&keys, folder.path());

    assert!(stderr(&output).contains("warning: others may write into "));
}
