//! The program that starts the relay alone.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use buzz_dev_relay::client::ClientError;
use buzz_dev_relay::keys::Keys;

use crate::common::*;

#[tokio::test]
async fn the_program_prints_its_url_first_and_stops_gracefully_on_interrupt() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_buzz-dev-relay"))
        .args(["--port", "0", "--generation", "old", "--no-quotas"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut url = String::new();
    let stdout = child.stdout.take().expect("a pipe");
    BufReader::new(stdout).read_line(&mut url).expect("a line");
    let keys = Keys::generate();
    let mut client = guard(buzz_dev_relay::client::Client::connect(url.trim(), &keys))
        .await
        .expect("the key is admitted");
    accept(&mut client, &note(&keys, "hello")).await;

    let pid = child.id().to_string();
    Command::new("kill")
        .args(["-INT", &pid])
        .status()
        .expect("a signal is sent");

    let end = guard(client.next()).await;
    assert!(
        matches!(
            end,
            Err(ClientError::Ended {
                code: Some(1012),
                ..
            })
        ),
        "{end:?}"
    );
    drop(client);
    let status = child.wait().expect("an exit status");
    let mut report = String::new();
    child
        .stderr
        .take()
        .expect("a pipe")
        .read_to_string(&mut report)
        .expect("text");
    assert!(status.success(), "{report}");
    assert!(report.contains("1 events accepted"), "{report}");
}
