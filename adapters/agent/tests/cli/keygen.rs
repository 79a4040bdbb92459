//! Keys.

use std::os::unix::fs::PermissionsExt as _;

use buzz_adapters::keys::{SecretKey, npub};
use serde_json::Value;

use crate::support::{agent, assert_ends, assert_hides, end_of, stdout};

#[test]
fn a_key_goes_to_a_file_that_its_owner_alone_may_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.key");

    let output = end_of(&mut agent(&["keygen", "--out", path.to_str().unwrap()]));

    assert_ends(&output, 0, "readable by you alone");
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let key = SecretKey::from_file(&path).unwrap();
    let public = key.public_key();
    assert_eq!(stdout(&output), format!("{}\n{public}\n", npub(&public)));
    assert_hides(&output, &key.nsec());
}

#[test]
fn a_key_file_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.key");
    std::fs::write(&path, "precious").unwrap();

    let output = end_of(&mut agent(&["keygen", "--out", path.to_str().unwrap()]));

    assert_ends(
        &output,
        2,
        "may hold the only copy of a key: choose another name",
    );
    assert_eq!(stdout(&output), "");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    let output = end_of(&mut agent(&["keygen", "--out", "/no/such/folder/key"]));
    assert_ends(
        &output,
        2,
        "the key cannot be written to /no/such/folder/key",
    );
}

#[test]
fn the_private_key_is_printed_only_when_asked_for() {
    assert_ends(
        &end_of(&mut agent(&["keygen"])),
        2,
        "<--out <FILE>|--stdout>",
    );
    let both = end_of(&mut agent(&["keygen", "--stdout", "--out", "key"]));
    assert_ends(&both, 2, "cannot be used with");

    let output = end_of(&mut agent(&["keygen", "--stdout"]));

    assert_ends(&output, 0, "");
    let lines: Vec<_> = stdout(&output).lines().map(str::to_owned).collect();
    let [nsec, public, hex] = lines.as_slice() else {
        panic!("{lines:?}")
    };
    let key = SecretKey::parse(nsec).unwrap();
    assert_eq!(*public, npub(&key.public_key()));
    assert_eq!(*hex, key.public_key().to_string());
}

#[test]
fn programs_get_one_object() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.key");
    let path = path.to_str().unwrap();

    let kept: Value = {
        let output = end_of(&mut agent(&["keygen", "--json", "--out", path]));
        serde_json::from_str(&stdout(&output)).unwrap()
    };
    let shown: Value = {
        let output = end_of(&mut agent(&["keygen", "--json", "--stdout"]));
        serde_json::from_str(&stdout(&output)).unwrap()
    };

    let key = SecretKey::from_file(path.as_ref()).unwrap();
    assert_eq!(kept["public_key"], key.public_key().to_string());
    assert_eq!(kept["npub"], npub(&key.public_key()));
    assert_eq!(kept.get("nsec"), None);
    let key = SecretKey::parse(shown["nsec"].as_str().unwrap()).unwrap();
    assert_eq!(shown["public_key"], key.public_key().to_string());
}
