//! A restart on the same file.

use buzz_dev_relay::client::tag;
use buzz_dev_relay::client::unix_now;
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::channels::Visibility;
use buzz_dev_relay::{Options, Storage};
use serde_json::json;

use crate::common::*;

#[tokio::test]
async fn a_restart_keeps_history_channels_members_deletions_and_the_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("relay.sqlite");
    let options = || Options {
        settings: settings(),
        storage: Storage::Sqlite(file.clone()),
        ..Options::default()
    };
    let (owner, member, outsider) = (Keys::generate(), Keys::generate(), Keys::generate());
    let first = start(options()).await;
    let addr = first.addr();
    let relay_key = first.public_key().to_owned();
    room(&first, ROOM, Visibility::Private, &owner);
    join(&first, ROOM, &member, &owner);
    let (kept, deleted) = (
        message(&owner, ROOM, "kept"),
        message(&owner, ROOM, "deleted"),
    );
    let mut client = client(&first, &owner).await;
    accept(&mut client, &kept).await;
    accept(&mut client, &deleted).await;
    let deletion = owner.sign_event(5, vec![tag("e", &deleted.id)], "", unix_now());
    accept(&mut client, &deletion).await;
    let profile = |text| owner.sign_event(0, vec![], text, unix_now());
    accept(&mut client, &profile("{}")).await;
    drop(client);
    guard(first.kill()).await;

    let second = start(Options { addr, ..options() }).await;

    assert_eq!(second.public_key(), relay_key);
    assert_eq!(second.addr(), addr);
    let mut client = crate::common::client(&second, &member).await;
    let filter = json!({"kinds": [9], "#h": [ROOM]});
    assert_eq!(history(&mut client, filter.clone()).await, [kept]);
    assert_eq!(
        publish(&mut crate::common::client(&second, &owner).await, &deleted)
            .await
            .message,
        "duplicate:"
    );
    let mut stranger = crate::common::client(&second, &outsider).await;
    subscribe(&mut stranger, "s", filter).await;
    assert_eq!(next(&mut stranger).await, closed("s", NOT_A_MEMBER));
    assert_eq!(second.storage_error(), None);
}
