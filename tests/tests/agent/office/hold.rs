//! Which worker goes on with a thread, and how long the thread waits for it.

use buzz_dev_relay::rules::event::Event;
use buzz_proto::note::{HoldEnd, Note};

use super::{MS, Office, SECOND, Said};

/// A thread whose worker is busy with another one, while a second worker is idle.
struct Held {
    office: Office,
    thread: Event,
    /// What was said in it, by the worker that knows it.
    before: Said,
    /// Keeps that worker busy, until the file `known` is there.
    other: Event,
}

impl Held {
    async fn open(hold: std::time::Duration) -> Self {
        let mut office = Office::open(2, |limits| limits.hold = hold).await;
        let thread = office.begin("one").await;
        let before = office.answer_to(&thread).await;
        // The next one goes to the worker that has fewer sessions, and the last one to the only
        // worker that is idle then.
        let filler = office.begin("wait filler").await;
        started(&office, 2).await;
        let other = office.begin("wait known").await;
        started(&office, 3).await;
        office.let_go("filler");
        assert_ne!(office.answer_to(&filler).await.process, before.process);
        Self {
            office,
            thread,
            before,
            other,
        }
    }
}

async fn started(office: &Office, turns: usize) {
    let is_start = |note: &Note| matches!(note, Note::TurnStarted { .. });
    office.until_noted(turns, is_start).await;
}

fn is_hold(note: &Note) -> bool {
    matches!(note, Note::Held { .. })
}

fn ends(office: &Office) -> Vec<HoldEnd> {
    let ends = office
        .noted(|note| matches!(note, Note::HoldEnded { .. }))
        .into_iter();
    let ends = ends.filter_map(|note| {
        let Note::HoldEnded { how, .. } = note else {
            return None;
        };
        Some(how)
    });
    ends.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_whose_worker_stays_busy_goes_on_elsewhere_and_stays_there() {
    let Held {
        mut office,
        thread,
        before,
        other,
    } = Held::open(300 * MS).await;

    let second = office.go_on(&thread, "two").await;
    let elsewhere = office.answer_to(&second).await;
    office.let_go("known");
    let known = office.answer_to(&other).await;
    let third = office.go_on(&thread, "three").await;
    let after = office.answer_to(&third).await;

    assert_eq!(known.process, before.process);
    assert_ne!(elsewhere.process, before.process);
    assert_eq!(
        (&after.process, &after.session),
        (&elsewhere.process, &elsewhere.session)
    );
    assert_eq!(office.noted(is_hold).len(), 1);
    assert_eq!(ends(&office), [HoldEnd::Forked]);
    assert_eq!(office.until_written("closed").await, [before.session]);
    office.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_comes_back_in_time_goes_on_in_its_session() {
    let Held {
        mut office,
        thread,
        before,
        other,
    } = Held::open(3600 * SECOND).await;

    let second = office.go_on(&thread, "two").await;
    office.until_noted(1, is_hold).await;
    office.let_go("known");
    office.answer_to(&other).await;
    let after = office.answer_to(&second).await;

    assert_eq!(
        (&after.process, &after.session),
        (&before.process, &before.session)
    );
    assert_eq!(ends(&office), [HoldEnd::Home]);
    assert_eq!(office.lines("closed"), Vec::<String>::new());
    office.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_direct_message_does_not_wait_for_a_busy_worker() {
    let mut office = Office::open(2, |limits| limits.hold = 3600 * SECOND).await;
    let direct = office.scene.open_direct_messages().await;
    let first = office.scene.mention_in(direct, "one", Vec::new()).await;
    let before = office.answer_to(&first).await;
    let filler = office.begin("wait filler").await;
    started(&office, 2).await;
    office.begin("wait known").await;
    started(&office, 3).await;
    office.let_go("filler");
    office.answer_to(&filler).await;

    let second = office.scene.mention_in(direct, "two", Vec::new()).await;
    let after = office.answer_to(&second).await;

    assert_ne!(after.process, before.process);
    assert_eq!(office.noted(is_hold), []);
    office.let_go("known");
    office.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_are_renewed_and_what_they_worked_on_is_answered_by_the_new_ones() {
    let mut office = Office::open(2, |_| {}).await;
    let first = office.begin("one").await;
    let before = office.answer_to(&first).await;
    let running = office.begin("wait file").await;
    started(&office, 2).await;

    office.start_as("second");
    office.agent.handle.renew_workers().unwrap();
    let is_given_back = |note: &Note| matches!(note, Note::TurnRetried { .. });
    office.until_noted(1, is_given_back).await;
    office.let_go("file");
    let run_again = office.answer_to(&running).await;
    let next = office.go_on(&first, "two").await;
    let after = office.answer_to(&next).await;

    assert_eq!(
        (
            &before.version[..],
            &run_again.version[..],
            &after.version[..]
        ),
        ("first", "second", "second")
    );
    assert_eq!(office.replies_so_far(&running).len(), 1);
    office.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_talks_without_end_keeps_no_other_waiting_beyond_its_turn() {
    let mut office = Office::open(1, |_| {}).await;
    let chatty = office.begin("wait a").await;
    started(&office, 1).await;
    let mut said = Vec::new();
    for n in 0..3 {
        said.push(office.go_on(&chatty, &format!("more {n}")).await);
    }
    let other = office.begin("and me?").await;
    let late = office.go_on(&chatty, "wait b").await;

    office.let_go("a");
    office.answer_to(&other).await;

    // The turn after that of the other thread still waits.
    assert_eq!(office.replies_so_far(&late), []);
    office.let_go("b");
    office.answer_to(&late).await;
    office.close().await;
}
