//! What a lying relay says has no effect, and what is genuine is delivered once.

use buzz_dev_relay::client::{tag, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::event::Event;
use serde_json::json;

use crate::agent::{CHANNEL, Scene};
use crate::line::{Line, text};

/// Ways to forge a copy of an event. Each takes what it needs of another one by the same author.
fn forgeries(genuine: &Event, other: &Event) -> Vec<Event> {
    let copy = || genuine.clone();
    vec![
        Event {
            content: "not what was signed".to_owned(),
            ..copy()
        },
        Event {
            created_at: genuine.created_at + 1,
            ..copy()
        },
        Event {
            pubkey: Keys::generate().public().to_owned(),
            ..copy()
        },
        Event {
            id: other.id.clone(),
            ..copy()
        },
        Event {
            sig: other.sig.clone(),
            ..copy()
        },
        Event {
            sig: "0".repeat(128),
            ..copy()
        },
    ]
}

async fn bring(line: &mut Line, name: &str, events: &[Event]) {
    for event in events {
        line.bring(name, event).await.expect("it is open");
    }
}

/// Nothing is delivered of what came until now but these events, in this order.
async fn delivers_only(scene: &mut Scene, line: &mut Line, name: &str, expected: &[&Event]) {
    for event in expected {
        assert_eq!(scene.next_event().await, **event);
    }
    // What came before it would be delivered before it.
    scene.delivers(line, name).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_copies_before_and_after_the_genuine_event() {
    let mut scene = Scene::open().await;
    let (mut line, name) = scene.live().await;
    let [genuine, other] = ["hello", "something else"].map(|words| scene.mention(words));
    let forged = forgeries(&genuine, &other);
    bring(&mut line, &name, &forged).await;
    bring(&mut line, &name, std::slice::from_ref(&genuine)).await;
    bring(&mut line, &name, &forged).await;
    bring(&mut line, &name, std::slice::from_ref(&other)).await;
    delivers_only(&mut scene, &mut line, &name, &[&genuine, &other]).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_copies_in_the_history_of_a_request() {
    let mut scene = Scene::open().await;
    let mut line = scene.liar.line().await;
    let name = line.welcome_to_request().await;
    let [genuine, other] = ["hello", "something else"].map(|words| scene.mention(words));
    let forged = forgeries(&genuine, &other);
    bring(&mut line, &name, &forged).await;
    bring(&mut line, &name, std::slice::from_ref(&genuine)).await;
    bring(&mut line, &name, &forged).await;
    line.say(&json!(["EOSE", name])).await.expect("it is open");
    delivers_only(&mut scene, &mut line, &name, &[&genuine]).await;
    scene.end().await;
}

/// Whatever finds no room for its verdict is asked for again, and comes in a page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_copies_that_leave_no_room_for_a_verdict() {
    let mut scene = Scene::open().await;
    let (mut line, name) = scene.live().await;
    let genuine = scene.mention("hello");
    let copies = |n: u32| {
        let numbers = n * 500..(n + 1) * 500;
        let frames = numbers.flat_map(|n| {
            let content = format!("lie {n}");
            let copy = Event {
                content,
                ..genuine.clone()
            };
            text(&json!(["EVENT", name, copy]).to_string())
        });
        frames.collect()
    };
    let flood = scene.flood(&mut line, 40, 1, copies).await;
    flood.expect("it is no reason to go");
    line.bring(&name, &genuine).await.expect("it is open");
    let reading = async {
        loop {
            let page = line.request("page-").await;
            line.bring(&page, &genuine).await.expect("it is open");
            line.say(&json!(["EOSE", page])).await.expect("it is open");
        }
    };
    let found = tokio::select! {
        () = reading => unreachable!("it reads on"),
        found = scene.next_event() => found,
    };
    assert_eq!(found, genuine);
    scene.until(|relay| relay.verifying == 0).await;
    line.bring(&name, &genuine).await.expect("it is open");
    delivers_only(&mut scene, &mut line, &name, &[]).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn genuine_events_that_were_not_asked_for() {
    let mut scene = Scene::open().await;
    let (mut line, name) = scene.live().await;
    let (here, agent) = (tag("h", CHANNEL), tag("p", &scene.agent));
    let elsewhere = tag("h", "7a2e3d4c-5b6a-4f79-9081-92a3b4c5d6e7");
    let somebody = tag("p", Keys::generate().public());
    let now = unix_now();
    let sign = |kind, tags, dated| scene.person.sign_event(kind, tags, "hello", dated);
    let foreign = [
        sign(1, vec![here.clone(), agent.clone()], now),
        sign(9, vec![elsewhere, agent.clone()], now),
        sign(9, vec![here.clone(), somebody], now),
        sign(9, vec![here.clone()], now),
        sign(9, vec![here, agent], now - 3600),
    ];
    bring(&mut line, &name, &foreign).await;
    bring(&mut line, "page-1", &[scene.mention("in no page")]).await;
    bring(&mut line, "x", &[scene.mention("under no name")]).await;
    delivers_only(&mut scene, &mut line, &name, &[]).await;
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_comes_again_and_on_every_connection() {
    let mut scene = Scene::open().await;
    let (mut line, name) = scene.live().await;
    let genuine = scene.mention("hello");
    bring(&mut line, &name, &vec![genuine.clone(); 100]).await;
    delivers_only(&mut scene, &mut line, &name, &[&genuine]).await;
    line.hang_up().await;
    let mut line = scene.liar.line().await;
    let name = line.welcome_to_request().await;
    bring(&mut line, &name, &vec![genuine.clone(); 100]).await;
    line.say(&json!(["EOSE", name])).await.expect("it is open");
    bring(&mut line, &name, &[genuine]).await;
    delivers_only(&mut scene, &mut line, &name, &[]).await;
    scene.end().await;
}
