//! Marks that an agent shows on messages.

use buzz_dev_relay::client::tag;
use buzz_dev_relay::rules::event::Event;
use buzz_proto::publish::{self, Mark};

use crate::support::{Scene, external};

const REACTION: u32 = 7;
const DELETION: u32 = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_is_a_reaction_to_its_message_which_another_replaces_and_none_takes_away() {
    let mut scene = Scene::open().await;
    let mut agent = scene.agent(external(16));
    let mention = scene.mention("look here", Vec::new()).await;
    let event = agent.next_event().await;
    let words = publish::Config::default();
    let mut shown = Vec::new();

    for (mark, word) in [(Mark::Seen, words.seen), (Mark::Waiting, words.waiting)] {
        let wish = agent.handle.react(event.id(), event.author(), Some(mark));
        wish.expect("the agent runs");

        let reactions = scene.until_said(REACTION, |said| said.iter().any(|it| it.content == word));
        let reactions = reactions.await;
        assert_eq!(reactions.len(), 1, "{reactions:?}");
        assert!(reactions[0].tags.contains(&tag("e", &mention.id)));
        assert!(reactions[0].tags.contains(&tag("p", &mention.pubkey)));
        shown.push(reactions[0].id.clone());
    }
    let wish = agent.handle.react(event.id(), event.author(), None);
    wish.expect("the agent runs");

    let deletions = scene.until_said(DELETION, |said| said.len() == shown.len());
    for deletion in deletions.await {
        let deleted = |id: &String| deletion.tags.contains(&tag("e", id));
        assert!(shown.iter().any(deleted), "{deletion:?}");
    }
    // One that comes back at once is a reaction of its own.
    for mark in [Some(Mark::Seen), None] {
        let wish = agent.handle.react(event.id(), event.author(), mark);
        wish.expect("the agent runs");
        let is_there = |said: &[Event]| said.len() == usize::from(mark.is_some());
        scene.until_said(REACTION, is_there).await;
    }
    // Steps are taken in order, so the mark of a later message shows that none is left before it.
    let later = scene.mention("and here", Vec::new()).await;
    let event = agent.next_event().await;
    let wish = agent
        .handle
        .react(event.id(), event.author(), Some(Mark::Seen));
    wish.expect("the agent runs");
    let is_later = |it: &Event| it.tags.contains(&tag("e", &later.id));
    let reactions = scene.until_said(REACTION, |said| said.iter().any(is_later));
    assert_eq!(reactions.await.len(), 1);
    agent.end().await;
}
