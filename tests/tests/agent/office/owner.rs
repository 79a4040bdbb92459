//! What the owner may order, and nobody else.

use buzz_dev_relay::client::unix_now;
use buzz_dev_relay::keys::Keys;
use buzz_proto::note::{Note, TurnOutcome};

use super::{Office, is_in_thread};

fn is_start(note: &Note) -> bool {
    matches!(note, Note::TurnStarted { .. })
}

fn is_discarded(note: &Note) -> bool {
    matches!(
        note,
        Note::TurnEnded {
            outcome: TurnOutcome::Discarded,
            ..
        }
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_ends_the_turn_of_its_thread_and_no_other() {
    let mut office = Office::open(2, |_| {}).await;
    let cancelled = office.begin("wait never").await;
    let other = office.begin("wait file").await;
    office.until_noted(2, is_start).await;

    office.go_on(&cancelled, "!cancel").await;
    office.until_noted(1, is_discarded).await;
    office.let_go("file");
    office.answer_to(&other).await;
    let next = office.go_on(&cancelled, "and now?").await;

    assert_eq!(office.answer_to(&next).await.words, "and now?");
    assert_eq!(office.replies_so_far(&cancelled), []);
    office.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rotated_thread_goes_on_in_a_fresh_session() {
    let mut office = Office::open(1, |_| {}).await;
    let thread = office.begin("one").await;
    let before = office.answer_to(&thread).await;

    office.go_on(&thread, "!rotate").await;
    office
        .until_noted(1, |note| matches!(note, Note::Controlled { .. }))
        .await;
    let second = office.go_on(&thread, "two").await;
    let after = office.answer_to(&second).await;

    assert_eq!(after.process, before.process);
    assert_ne!(after.session, before.session);
    assert_eq!(office.until_written("closed").await, [before.session]);
    office.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_finds_nothing_is_answered() {
    let mut office = Office::open(1, |_| {}).await;
    let order = office.begin("!cancel").await;

    let replies = office.replies_to(&order, 1).await;

    assert_eq!(replies[0].content, "Nothing of mine is running here.");
    assert!(is_in_thread(&replies[0], &order));
    office.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_of_anybody_else_has_no_effect() {
    let mut office = Office::open(1, |_| {}).await;
    let running = office.begin("wait file").await;
    office.until_noted(1, is_start).await;

    let stranger = office.scene.invite();
    for order in ["!cancel", "!rotate", "!shutdown"] {
        let event = office.scene.mention_of(&stranger, order, Vec::new());
        office.scene.say(&stranger, &event).await;
    }
    let is_refused = |note: &Note| matches!(note, Note::Refused { .. });
    office.until_noted(1, is_refused).await;
    office.let_go("file");

    assert_eq!(office.answer_to(&running).await.words, "wait file");
    office.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_ends_the_agent_and_gives_back_what_runs() {
    let mut office = Office::open(1, |_| {}).await;
    let running = office.begin("wait never").await;
    office.until_noted(1, is_start).await;

    office.begin("!shutdown").await;

    crate::support::within(office.agent.handle.ended()).await;
    assert_eq!(
        office
            .noted(|note| matches!(note, Note::HandedBack { .. }))
            .len(),
        1
    );
    assert_eq!(office.replies_so_far(&running), []);
    office.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_of_the_same_owner_is_answered_and_one_that_says_so_falsely_is_not() {
    let office = Office::open(1, |_| {}).await;
    for is_genuine in [false, true] {
        let sibling = office.scene.invite();
        let owner = Keys::generate();
        let attested = office
            .scene
            .attest(&sibling, (!is_genuine).then_some(&owner));
        let profile = sibling.sign_event(0, vec![attested], "{}", unix_now());
        office.scene.say(&sibling, &profile).await;
        let mention = office
            .scene
            .mention_of(&sibling, "from an agent", Vec::new());
        office.scene.say(&sibling, &mention).await;
        if is_genuine {
            assert_eq!(office.answer_to(&mention).await.words, "from an agent");
        } else {
            office
                .until_noted(1, |note| matches!(note, Note::Refused { .. }))
                .await;
            assert_eq!(office.replies_so_far(&mention), []);
        }
    }
    office.close().await;
}
