//! A relay of others behind a line that goes bad, and an agent in this process whose limits are
//! short enough to wait for.

use buzz_adapters::keys::SecretKey;
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::line::{Dials, Lane, Line, State};

use crate::CHANNEL;
use crate::agent::Agent;
use crate::peer::{Part, Relay, are_there};
use crate::person::Person;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_on_node_relay_behind_a_half_open_socket_comes_once() {
    let held = Lane {
        is_held: true,
        ..Lane::default()
    };
    comes_once(State::both(held), false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_on_node_relay_after_a_cut_comes_once() {
    comes_once(State::default(), true).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_on_node_relay_while_dials_are_accepted_and_closed_comes_once() {
    let closed = State {
        dials: Dials::Closed,
        ..State::default()
    };
    comes_once(closed, true).await;
}

/// The line goes bad, and is good again once the agent has noticed.
async fn comes_once(state: State, is_cut: bool) {
    if !are_there(&[Part::NodeRelay]) {
        return;
    }
    let relay = Relay::start(Part::NodeRelay, "open", &[]).await;
    let line = Line::open(relay.addr(), 7).unwrap();
    let (keys, ann) = (Keys::generate(), Keys::generate());
    let key = SecretKey::parse(&keys.secret_hex()).unwrap();
    let mut agent: Agent = Agent::start(&line.url(), key, CHANNEL, |_| {});
    agent.is_live().await;
    let mut person = Person::join(&relay.url(), &ann, &keys).await;
    let first = said(&mut person, &["before"]).await;
    assert_eq!(agent.take(1).await, first);

    line.set(state);
    if is_cut {
        line.cut();
    }
    let meanwhile = said(&mut person, &["one", "two", "three"]).await;
    agent.until(|relay| !relay.is_live).await;
    if state.dials == Dials::Closed {
        agent.fails(4).await;
    }
    line.set(State::default());

    assert_eq!(agent.take(3).await, meanwhile);
    let last = said(&mut person, &["after"]).await;
    assert_eq!(agent.take(1).await, last);
    agent.end().await;
}

async fn said(person: &mut Person, texts: &[&str]) -> Vec<String> {
    let mut ids = Vec::new();
    for text in texts {
        let event = person.mention(CHANNEL, text);
        person.publish(&event).await;
        ids.push(event.id);
    }
    ids.sort_unstable();
    ids
}
