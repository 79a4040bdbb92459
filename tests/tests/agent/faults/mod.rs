//! What networks and relays do on a bad day: the agent comes back by itself, soon,
//! without a storm, and loses nothing that the relay still has.

mod gaps;
mod link;

use std::time::{Duration, Instant};

use buzz_adapters::connect::Setup;
use buzz_adapters::url::RelayUrl;
use buzz_dev_relay::faults::{Fault, Target};
use buzz_dev_relay::rules::queue::Closing;
use buzz_proto::publish::{Class, Verdict};
use buzz_proto::relay::Channels;
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Draft;

use self::link::{Delay, Link, Mode};
use crate::support::{Agent, CHANNEL, LOOK_EVERY, Scene, external, within};

const MS: Duration = Duration::from_millis(1);
/// The rungs of the ladder here.
const FIRST: Duration = Duration::from_millis(50);
const TOP: Duration = Duration::from_millis(400);

/// A scene whose one agent reaches the relay over a link.
struct Scenery {
    scene: Scene,
    link: Link,
    agent: Agent,
}

impl Scenery {
    async fn open(delay: Delay, change: impl FnOnce(&mut Setup)) -> Self {
        let mut scene = Scene::open().await;
        let link = Link::to(&scene.url(), delay);
        let url = link.url();
        let agent = scene.agent_with(external(64), |setup| {
            setup.url = RelayUrl::parse(&url).expect("the link's own URL");
            setup.config.relay.url = url;
            hasten(setup);
            change(setup);
        });
        Self { scene, link, agent }
    }

    async fn live(change: impl FnOnce(&mut Setup)) -> Self {
        let scenery = Self::open(Delay::default(), change).await;
        scenery.until_live().await;
        scenery
    }

    async fn until_live(&self) {
        self.agent.until(|relay| relay.subscriptions_live > 1).await;
    }

    async fn until_dials(&self, count: u64) {
        within(async {
            while self.link.dials() < count {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
        .await;
    }

    /// Says something and gives its id.
    async fn say(&mut self, words: &str) -> String {
        self.scene.mention(words, Vec::new()).await.id
    }

    fn logins(&self) -> u64 {
        self.scene.relay().stats_of(&self.scene.agent_key()).auths
    }

    async fn end(mut self) {
        self.agent.end().await;
        self.link.end().await;
    }
}

/// Limits that pass in a test.
fn hasten(setup: &mut Setup) {
    let limits = &mut setup.config.relay.limits;
    limits.dial = 1000 * MS;
    limits.auth = 1000 * MS;
    limits.challenge = 500 * MS;
    limits.write = 500 * MS;
    limits.ping_after = 300 * MS;
    limits.pong = 300 * MS;
    limits.reconnect_first = FIRST;
    limits.reconnect_top = TOP;
    limits.answer = 1000 * MS;
    limits.page_silence = 1000 * MS;
}

/// So many dials fit into a span: each wait but the first few is at least half of the top rung.
fn dials_within(span: Duration) -> u64 {
    let on_top = span.as_millis() / (TOP / 2).as_millis();
    u64::try_from(on_top).expect("a short span") + 6
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_freezes_is_noticed_and_what_was_said_meanwhile_is_delivered() {
    let mut at = Scenery::live(|_| {}).await;
    let before = at.link.dials();

    at.link.set(Mode::Frozen);
    let said = at.say("into the silence").await;
    at.until_dials(before + 1).await;
    at.link.set(Mode::Open);

    assert_eq!(at.agent.take(1).await, [said]);
    at.until_live().await;
    let next = at.say("afterwards").await;
    assert_eq!(at.agent.take(1).await, [next]);
    at.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_stops_reading_costs_the_connection_and_no_message() {
    let mut at = Scenery::live(|_| {}).await;
    let before = at.link.dials();

    at.link.set(Mode::Deaf);
    let said = at.say("to one who cannot answer").await;
    let heard = at.agent.take(1).await;
    // Nothing is lost of what the agent says meanwhile, nor is it said twice.
    let draft = Draft {
        kind: 9,
        created_at: UnixTime(buzz_dev_relay::client::unix_now()),
        tags: vec![vec!["h".into(), CHANNEL.into()]],
        content: "said into the void".into(),
    };
    let verdict = at.agent.handle.publish(draft, Class::Durable, None);
    let heals = async {
        at.until_dials(before + 1).await;
        at.link.set(Mode::Open);
    };
    let (verdict, ()) = within(async { tokio::join!(verdict, heals) }).await;

    assert_eq!(heard, [said]);
    assert_eq!(verdict, Ok(Verdict::Stored));
    let said = at.scene.said(9);
    assert_eq!(said.len(), 1, "{said:?}");
    at.until_live().await;
    let next = at.say("afterwards").await;
    assert_eq!(at.agent.take(1).await, [next]);
    at.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_freezes_before_it_answers_is_left_and_found_again() {
    let mut scene = Scene::open().await;
    let link = Link::to(&scene.url(), Delay::default());
    link.set(Mode::Frozen);
    let url = link.url();
    let agent = scene.agent_with(external(64), |setup| {
        setup.url = RelayUrl::parse(&url).expect("the link's own URL");
        setup.config.relay.url = url;
        hasten(setup);
    });
    let mut at = Scenery { scene, link, agent };

    at.until_dials(3).await;
    at.link.set(Mode::Open);

    at.until_live().await;
    let said = at.say("good morning").await;
    assert_eq!(at.agent.take(1).await, [said]);
    at.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_login_that_is_never_answered_is_given_up_and_tried_anew() {
    let mut at = Scenery::live(|_| {}).await;
    let logins = at.logins();
    let target = Target::Everyone;
    let faults = at.scene.relay().faults();
    faults.arm_for(Fault::SwallowAuthOk, target, 2);

    at.scene.drop_the_agents_connection();
    let said = at.say("in the meantime").await;

    assert_eq!(at.agent.take(1).await, [said]);
    assert!(at.logins() >= logins + 3, "two were given up");
    at.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_accepts_and_drops_is_dialed_by_the_ladder_alone() {
    let mut at = Scenery::live(|_| {}).await;
    let (before, begun) = (at.link.dials(), Instant::now());

    at.link.set(Mode::Dropped);
    at.scene.drop_the_agents_connection();
    let said = at.say("while the door slams").await;
    at.until_dials(before + 8).await;
    // Its HTTP calls come over the link as well: two, each a few times.
    let (dials, span) = (at.link.dials() - before, begun.elapsed());
    at.link.set(Mode::Open);

    assert_eq!(at.agent.take(1).await, [said]);
    let most = dials_within(span) + dials_within(span);
    assert!(dials <= most, "{dials} dials in {span:?}, {most} at most");
    at.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relay_that_restarts_again_and_again_loses_and_repeats_nothing() {
    let mut at = Scenery::live(|_| {}).await;
    let agent = Target::Key(at.scene.agent_key());
    let mut said = Vec::new();

    for round in 0..2 {
        let logins = at.logins();
        let closing = Closing::Status {
            code: 1012,
            reason: "restart".into(),
        };
        at.scene.relay().faults().disconnect(&agent, &closing);
        said.push(at.say(&format!("during restart {round}")).await);
        within(async {
            while at.logins() == logins {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
        .await;
        at.until_live().await;
        said.push(at.say(&format!("after restart {round}")).await);
    }

    let mut taken = at.agent.take(said.len()).await;
    let next = at.say("the last").await;
    taken.extend(at.agent.take(1).await);
    said.push(next);
    taken.sort_unstable();
    said.sort_unstable();
    assert_eq!(taken, said);
    at.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_far_link_that_loses_much_carries_an_agent_all_the_same() {
    // A round trip of 3.4 s; the limits are those of the real world.
    let delay = Delay {
        way: 1700 * MS,
        loss: 40,
        again: 200 * MS,
    };
    let channel = CHANNEL.parse().expect("a channel");
    let mut at = Scenery::open(delay, |setup| {
        setup.config.relay.limits = buzz_proto::relay::Limits::default();
        setup.config.relay.channels = Channels::Given(vec![channel]);
    })
    .await;

    let said = at.say("can you hear me?").await;

    // It was said before the agent was there, or after: the relay has it either way.
    at.agent.until(|relay| relay.subscriptions_live > 0).await;
    let next = at.say("and now?").await;
    let taken = at.agent.take(1).await;
    assert!(taken == [said] || taken == [next], "{taken:?}");
    at.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_the_relay_never_registered_is_made_again_under_a_new_name() {
    let mut at = Scenery::live(|setup| {
        setup.config.relay.limits.confirmation = 500 * MS;
    })
    .await;
    let agent = Target::Key(at.scene.agent_key());
    let requests = at.scene.relay().stats_of(&at.scene.agent_key()).reqs;

    at.scene
        .relay()
        .faults()
        .arm_for(Fault::IgnoreReq, agent, 2);
    at.scene.drop_the_agents_connection();
    let said = at.say("unheard at first").await;

    assert_eq!(at.agent.take(1).await, [said]);
    at.until_live().await;
    let requests = at.scene.relay().stats_of(&at.scene.agent_key()).reqs - requests;
    assert!(requests >= 4, "{requests}: two were lost");
    let next = at.say("afterwards").await;
    assert_eq!(at.agent.take(1).await, [next]);
    at.end().await;
}
