//! A relay that reads no more.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use buzz_dev_relay::client::{tag, unix_now};
use buzz_dev_relay::line::{Lane, State};
use buzz_proto::note::{LinkNote, Note};
use buzz_proto::publish::{Class, LatestKey, Verdict};
use buzz_proto::relay::CloseCause;
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Draft;

use crate::agent::within;
use crate::names::Narrow;
use crate::scene::{CHANNEL, Scene};

/// Together more than is taken for a peer that reads nothing.
const MESSAGES: usize = 8;
const MESSAGE_BYTES: usize = 200_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_does_not_end_ends_the_connection_and_everything_is_said_once_afterwards() {
    let mut scene = Scene::open().await;
    scene.relay.faults().set_bridge_absent(Some(404));
    let url = scene.line.url();
    let mut agent = scene.agent_at::<Narrow>(&url, |config| {
        config.publish.in_flight_max = 16;
        // All of them are handed over at once, and a busy machine takes its time for them.
        config.relay.limits.write = Duration::from_secs(4);
        config.publish.receipt = Duration::from_secs(20);
        // Nothing else ends the connection.
        config.relay.limits.ping_after = Duration::from_secs(3600);
    });
    agent.is_live().await;

    // From the answer to it the agent knows that only the socket is left.
    let first = agent.handle.publish(message("hello"), Class::Durable, None);
    assert_eq!(within("a verdict", first).await, Ok(Verdict::Stored));

    let is_unread = Lane {
        is_unread: true,
        ..Lane::default()
    };
    scene.line.set(State {
        to_relay: is_unread,
        ..State::default()
    });
    let verdicts = {
        let class = || Class::Durable;
        let jobs = (0..MESSAGES).map(|number| {
            let draft = message(&format!("{number} {}", "x".repeat(MESSAGE_BYTES)));
            agent.handle.publish(draft, class(), None)
        });
        let cause = CloseCause::Write;
        let closed = Note::Link(LinkNote::Closed { cause });
        let meanwhile = async {
            agent.tells(|note| *note == closed).await;
            agent.view().await;
            let soon = Some(Duration::from_millis(100));
            let latest = Class::Latest(LatestKey::Presence);
            let verdict = agent.handle.publish(message("late"), latest, soon).await;
            assert_eq!(verdict, Ok(Verdict::Expired));
            let said = scene.mentions(5).await;
            scene.heal();
            said
        };
        within("verdicts", async { tokio::join!(all(jobs), meanwhile) }).await
    };

    let (verdicts, said) = verdicts;
    assert!(verdicts.iter().all(|it| *it == Ok(Verdict::Stored)));
    assert_eq!(scene.said().len(), MESSAGES + 1);
    assert_eq!(agent.take(5).await, said);
    scene.is_heard_by(&mut agent).await;
    agent.end().await;
}

fn message(words: &str) -> Draft {
    Draft {
        kind: 9,
        created_at: UnixTime(unix_now()),
        tags: vec![tag("h", CHANNEL)],
        content: words.into(),
    }
}

/// What all of them give.
async fn all<F: Future>(work: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut open: Vec<Pin<Box<F>>> = work.map(Box::pin).collect();
    let mut done = Vec::new();
    poll_fn(|cx| {
        open.retain_mut(|one| match one.as_mut().poll(cx) {
            Poll::Ready(value) => {
                done.push(value);
                false
            }
            Poll::Pending => true,
        });
        if open.is_empty() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
    done
}
