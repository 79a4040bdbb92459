//! What cannot be used, and what the program says about it.

use std::process::{Command, Output};

use buzz_adapters::keys::{SecretKey, npub};
use buzz_dev_relay::keys::Keys;

use crate::support::{agent, assert_ends, assert_hides, end_of, stderr, stdout};

/// Where nobody answers; never dialed in these tests.
const RELAY: &str = "ws://127.0.0.1:9";

/// `run` with a relay, a key, an owner and a worker, and these arguments besides.
fn run(keys: &Keys, args: &[&str]) -> Command {
    let owner = Keys::generate();
    let owner = ["--owner", owner.public()];
    let base = ["run", "--no-state", "--relay", RELAY];
    let args: Vec<_> = base
        .iter()
        .chain(&owner)
        .chain(args)
        .copied()
        .chain(["--", "true"])
        .collect();
    let mut command = agent(&args);
    command.env("BUZZ_PRIVATE_KEY", keys.secret_hex());
    command
}

#[track_caller]
fn refused(keys: &Keys, args: &[&str], text: &str) {
    let output = end_of(&mut run(keys, args));
    assert_ends(&output, 2, text);
    assert_hides(&output, &keys.secret_hex());
}

fn without_owner(args: &[&str]) -> Output {
    let keys = Keys::generate();
    let base = ["run", "--no-state", "--relay", RELAY];
    let args: Vec<_> = base
        .iter()
        .chain(args)
        .copied()
        .chain(["--", "true"])
        .collect();
    end_of(agent(&args).env("BUZZ_PRIVATE_KEY", keys.secret_hex()))
}

#[test]
fn the_help_names_every_command_exit_code_and_variable() {
    let help = end_of(&mut agent(&["--help"]));
    assert_ends(&help, 0, "");
    for text in [
        "demo",
        "run",
        "keygen",
        "replay",
        "Exit codes:",
        "7  the demo lost",
    ] {
        assert!(stdout(&help).contains(text), "{text}");
    }
    assert!(!stdout(&help).contains("echo-worker"));
    let help = end_of(agent(&["run", "--help"]).env("BUZZ_RELAY_URL", "ws://token@host"));
    assert_ends(&help, 0, "");
    for text in [
        "BUZZ_RELAY_URL",
        "BUZZ_PRIVATE_KEY",
        "BUZZ_AUTH_TAG",
        "BUZZ_ACP_AGENT_COMMAND",
    ] {
        assert!(stdout(&help).contains(text), "{text}");
    }
    assert_hides(&help, "token");
}

#[test]
fn a_command_line_that_makes_no_sense_is_a_usage_error() {
    assert_ends(&end_of(&mut agent(&[])), 2, "Usage: buzz-agent <COMMAND>");
    assert_ends(
        &end_of(&mut agent(&["dance"])),
        2,
        "unrecognized subcommand 'dance'",
    );
    let keys = Keys::generate();
    refused(&keys, &["--nonsense"], "unexpected argument '--nonsense'");
    refused(&keys, &["--workers", "0"], "0 is not in 1..=32");
    refused(
        &keys,
        &["--kinds", "nine"],
        "invalid value 'nine' for '--kinds <KINDS>'",
    );
    refused(
        &keys,
        &["--respond-to", "cats"],
        "possible values: owner-only, allowlist",
    );
    refused(
        &keys,
        &["--give-up-after", "soon"],
        "invalid value 'soon' for '--give-up-after <SECONDS>'",
    );
    refused(&keys, &["--trace-whole"], "--trace <FILE>");
    assert_ends(
        &end_of(&mut agent(&["run", "--", "true"])),
        2,
        "--relay <URL>",
    );
}

#[test]
fn a_private_key_on_the_command_line_is_refused_and_not_repeated() {
    let key = SecretKey::generate().unwrap();
    let nsec = key.nsec().to_string();
    let hex = Keys::generate().secret_hex();
    for args in [
        ["run", "--private-key", &hex],
        ["run", "--owner", &nsec],
        ["run", "--", &nsec],
        ["keygen", "--out", &nsec],
    ] {
        let output = end_of(&mut agent(&args));
        assert_ends(
            &output,
            2,
            "use --key-file FILE or the variable BUZZ_PRIVATE_KEY",
        );
        assert_hides(&output, &nsec);
        assert_hides(&output, &hex);
    }
    for args in [
        ["run", "--relay", RELAY, &hex],
        ["run", "--relay", RELAY, &format!("--workers={hex}")],
        ["keygen", "--json", "--stdout", &hex],
    ] {
        let output = end_of(&mut agent(&args));
        assert_ends(&output, 2, "(a key)");
        assert_hides(&output, &hex);
    }
}

#[test]
fn a_private_key_in_place_of_a_file_is_not_repeated() {
    let (keys, stray) = (Keys::generate(), Keys::generate().secret_hex());
    let below = format!("{stray}/x");
    for args in [
        ["--json", "--key-file", &stray],
        ["--json", "--trace", &below],
        ["--json", "--ca", &stray],
    ] {
        let output = end_of(&mut run(&keys, &args));
        assert_ends(&output, 2, "(a key)");
        assert_hides(&output, &stray);
    }
}

#[test]
fn a_relay_url_that_cannot_be_used_is_not_repeated() {
    for (url, text) in [
        (
            "relay.example",
            "BUZZ_RELAY_URL: the relay URL must begin with ws:// or wss://",
        ),
        (
            "ftp://relay.example",
            "BUZZ_RELAY_URL: the relay URL must begin with ws:// or wss://",
        ),
        ("ws://", "BUZZ_RELAY_URL: the relay URL"),
        (
            "ws://me:hunter2@relay.example",
            "must not hold a user name or password",
        ),
        (
            "ws://relay.example:70000",
            "BUZZ_RELAY_URL: the port of the relay URL",
        ),
    ] {
        let output = end_of(agent(&["run", "--", "true"]).env("BUZZ_RELAY_URL", url));
        assert_ends(&output, 2, text);
        assert_hides(&output, "hunter2");
    }
}

#[test]
fn a_key_that_is_missing_or_malformed_is_a_usage_error() {
    let folder = tempfile::tempdir().unwrap();
    let with_file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let path = path.to_str().unwrap();
        end_of(&mut agent(&[
            "run",
            "--relay",
            RELAY,
            "--key-file",
            path,
            "--",
            "true",
        ]))
    };
    let nothing = end_of(&mut agent(&["run", "--relay", RELAY, "--", "true"]));
    assert_ends(&nothing, 2, "give --key-file FILE or set BUZZ_PRIVATE_KEY");

    assert_ends(&with_file("empty", ""), 2, "a key is 64 hex digits");
    let near = Keys::generate().secret_hex().replace(['0', '1'], "x");
    let malformed = with_file("malformed", &near);
    assert_ends(&malformed, 2, "a key is 64 hex digits");
    assert_hides(&malformed, &near);
    let public = npub(&SecretKey::generate().unwrap().public_key());
    assert_ends(&with_file("public", &public), 2, "this is a public key");
    let zero = with_file("zero", &"0".repeat(64));
    assert_ends(&zero, 2, "not a key of secp256k1");

    let absent = folder.path().join("absent");
    let absent = absent.to_str().unwrap();
    let absent = end_of(&mut agent(&[
        "run",
        "--relay",
        RELAY,
        "--key-file",
        absent,
        "--",
        "true",
    ]));
    assert_ends(&absent, 2, "the key file cannot be read: entity not found");

    let args = ["run", "--relay", RELAY, "--", "true"];
    let variable = end_of(agent(&args).env("BUZZ_PRIVATE_KEY", &near));
    assert_ends(&variable, 2, "BUZZ_PRIVATE_KEY: a key is 64 hex digits");
    assert_hides(&variable, &near);
}

#[test]
fn an_agent_that_would_answer_nobody_by_mistake_is_refused() {
    let output = without_owner(&[]);
    assert_ends(&output, 2, "give --owner KEY, or --respond-to anyone");
    let output = without_owner(&["--respond-to", "allowlist"]);
    assert_ends(&output, 2, "needs at least one --allow KEY");
    let other = Keys::generate();
    let output = without_owner(&["--respond-to", "anyone", "--allow", other.public()]);
    assert_ends(
        &output,
        2,
        "--allow has a meaning under --respond-to allowlist alone",
    );
    let output = without_owner(&["--respond-to", "allowlist", "--allow", "bob"]);
    assert_ends(&output, 2, "--allow: a key is 64 hex digits");
    let output = without_owner(&["--owner", "bob"]);
    assert_ends(&output, 2, "--owner: a key is 64 hex digits");

    let keys = Keys::generate();
    let args = [
        "run",
        "--relay",
        RELAY,
        "--owner",
        keys.public(),
        "--",
        "true",
    ];
    let output = end_of(agent(&args).env("BUZZ_PRIVATE_KEY", keys.secret_hex()));
    assert_ends(&output, 2, "--owner is the agent's own key");
}

#[test]
fn an_attestation_must_be_for_this_key_and_agree_with_the_owner() {
    let (owner, agent_keys) = (Keys::generate(), Keys::generate());
    let refused = |tag: &str, text: &str| {
        let output = end_of(run(&agent_keys, &[]).env("BUZZ_AUTH_TAG", tag));
        assert_ends(&output, 2, text);
    };
    refused("owner", "BUZZ_AUTH_TAG: expected a JSON array");
    let json = |tag: Vec<String>| serde_json::to_string(&tag).unwrap();
    let for_another = json(owner.attest(Keys::generate().public(), ""));
    refused(
        &for_another,
        "BUZZ_AUTH_TAG was not signed by its owner for this key",
    );
    let genuine = json(owner.attest(agent_keys.public(), ""));
    refused(&genuine, "give one owner");
}

#[test]
fn every_other_setting_that_cannot_be_used_is_named() {
    let keys = Keys::generate();
    refused(
        &keys,
        &["--channel", "general"],
        "--channel: a channel is a UUID with hyphens",
    );
    refused(
        &keys,
        &["--cwd", "/no/such/folder"],
        "--cwd /no/such/folder: there is no such",
    );
    refused(
        &keys,
        &["--ca", "/no/such/file"],
        "--ca /no/such/file: No such file",
    );
    refused(
        &keys,
        &["--trace", "/no/such/folder/file"],
        "--trace /no/such/folder/file: No such",
    );
    let args = ["run", "--relay", RELAY, "--respond-to", "anyone"];
    let output = end_of(agent(&args).env("BUZZ_PRIVATE_KEY", keys.secret_hex()));
    assert_ends(&output, 2, "there is no worker: give its command after --");
}

#[test]
fn an_empty_variable_is_none_and_a_wrong_one_is_named() {
    let keys = Keys::generate();
    let with = |name: &str, value: &str| {
        // Refused after all variables but those of the relay were read.
        let mut command = run(&keys, &["--cwd", "/no/such/folder"]);
        end_of(command.env(name, value))
    };
    for name in [
        "BUZZ_ACP_AGENTS",
        "BUZZ_ACP_CHANNELS",
        "BUZZ_ACP_KINDS",
        "BUZZ_ACP_NO_MENTION_FILTER",
        "BUZZ_ACP_RESPOND_TO",
        "BUZZ_ACP_SESSION_POLICY",
        "BUZZ_ACP_AGENT_OWNER",
        "BUZZ_ACP_RESPOND_TO_ALLOWLIST",
        "BUZZ_ACP_IDLE_TIMEOUT",
        "BUZZ_ACP_MAX_TURN_DURATION",
        "BUZZ_ACP_CONTEXT_MESSAGE_LIMIT",
        "BUZZ_ACP_MULTIPLE_EVENT_HANDLING",
        "BUZZ_ACP_NO_PRESENCE",
    ] {
        assert_ends(&with(name, ""), 2, "--cwd /no/such/folder");
    }
    for (name, value) in [
        ("BUZZ_ACP_AGENTS", "many"),
        ("BUZZ_ACP_KINDS", "nine"),
        ("BUZZ_ACP_NO_MENTION_FILTER", "perhaps"),
        ("BUZZ_ACP_RESPOND_TO_ALLOWLIST", "bob"),
        ("BUZZ_ACP_IDLE_TIMEOUT", "0"),
        ("BUZZ_ACP_MAX_TURN_DURATION", "100"),
        ("BUZZ_ACP_CONTEXT_MESSAGE_LIMIT", "101"),
        ("BUZZ_ACP_MULTIPLE_EVENT_HANDLING", "drop"),
        ("BUZZ_ACP_NO_PRESENCE", "perhaps"),
    ] {
        assert_ends(&with(name, value), 2, name);
    }
    let mut bare = agent(&["run", "--", "true"]);
    let output = end_of(bare.env("BUZZ_RELAY_URL", ""));
    assert_ends(&output, 2, "--relay <URL>");
    let output = end_of(bare.env("BUZZ_RELAY_URL", "ftp://x"));
    assert_ends(&output, 2, "BUZZ_RELAY_URL: the relay URL");
}

#[test]
fn a_trace_is_not_written_over_what_else_is_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("key");
    let keys = Keys::generate();
    std::fs::write(&path, keys.secret_hex()).unwrap();
    let path = path.to_str().unwrap();
    let args = ["--key-file", path, "--trace", path];
    refused(&keys, &args, "--trace and --key-file name the same file");
}

#[test]
fn a_failure_is_one_sentence_and_one_object_for_programs() {
    let keys = Keys::generate();
    let output = end_of(&mut run(&keys, &["--json", "--channel", "general"]));
    assert_eq!(
        stderr(&output),
        "error: --channel: a channel is a UUID with hyphens\n"
    );
    assert_eq!(
        stdout(&output),
        "{\"error\":\"--channel: a channel is a UUID with hyphens\",\"exit\":2}\n"
    );
}
