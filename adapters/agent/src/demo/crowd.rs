//! The crowd: people with keys and connections of their own, who mention the agent and read what
//! it answers.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use buzz_dev_relay::DevRelay;
use buzz_dev_relay::client::{Client, Frame, tag, unix_now};
use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::event::Event;
use buzz_proto::ids::PubKey;
use serde_json::json;
use tokio::sync::watch;

use super::CHANNELS;
use super::score::{Owed, Tally, replied_to};
use crate::args::DemoArgs;
use crate::exit::Failure;
use crate::ui::Ui;

/// Between two messages of one person.
const PAUSE: Duration = Duration::from_millis(400);
/// The relay takes 60 messages a minute of one person: whoever has more than this to say is slower.
const HASTY_MAX: usize = 50;
const SLOW_PAUSE: Duration = Duration::from_millis(1100);
/// A demonstration in which nothing happens for this long has failed.
const STALLED: Duration = Duration::from_secs(45);
/// After the last answer: a second one, were there any, comes in this time.
const AFTERMATH: Duration = Duration::from_millis(1500);
/// Every so many messages a person goes on in a thread that was answered, instead of opening one.
const FOLLOW_UP: usize = 3;
/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_millis(250);
/// The relay's own limit of one history request.
const HISTORY_MAX: u32 = 1000;

/// Who talks how much.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    users: usize,
    mentions: usize,
}

impl Plan {
    pub(super) fn of(args: &DemoArgs) -> Self {
        Self {
            users: usize::from(args.users),
            mentions: usize::from(args.mentions),
        }
    }
}

/// People with open connections.
pub(super) struct Crowd {
    plan: Plan,
    agent: String,
    people: Vec<Person>,
    tally: Arc<Mutex<Tally>>,
}

struct Person {
    number: usize,
    keys: Keys,
    client: Client,
}

impl Crowd {
    /// Connects everybody.
    pub(super) async fn gather(
        relay: &DevRelay,
        plan: Plan,
        agent: PubKey,
    ) -> Result<Self, Failure> {
        let mut people = Vec::with_capacity(plan.users);
        for number in 0..plan.users {
            let keys = Keys::generate();
            let client = Client::connect(&relay.url(), &keys)
                .await
                .map_err(Failure::other)?;
            people.push(Person {
                number,
                keys,
                client,
            });
        }
        Ok(Self {
            plan,
            agent: agent.to_string(),
            people,
            tally: Arc::default(),
        })
    }

    /// Who opens the channels: the first to arrive.
    pub(super) fn owner(&self) -> &str {
        self.people
            .first()
            .map_or("", |person| person.keys.public())
    }

    /// Everybody else.
    pub(super) fn members(&self) -> impl Iterator<Item = &str> {
        self.people
            .iter()
            .skip(1)
            .map(|person| person.keys.public())
    }

    /// Everybody talks until all mentions are settled, or nothing happens any more.
    pub(super) async fn talk(self, ui: Ui) -> Result<Tally, Failure> {
        let total = self.plan.users.saturating_mul(self.plan.mentions);
        let (over, ended) = watch::channel(false);
        let mut tasks = Vec::new();
        for person in self.people {
            let talk = Talk {
                person,
                agent: self.agent.clone(),
                tally: Arc::clone(&self.tally),
                open: Vec::new(),
                mine: BTreeMap::new(),
            };
            tasks.push(tokio::spawn(talk.run(self.plan.mentions, ended.clone())));
        }
        show(&self.tally, total, ui).await;
        // The receivers live in the tasks; one that failed has dropped its own.
        let _failed = over.send(true);
        for task in tasks {
            task.await.map_err(Failure::other)??;
        }
        Ok(locked(&self.tally).clone())
    }
}

/// Shows progress until everything is settled or nothing moves any more.
async fn show(tally: &Mutex<Tally>, total: usize, ui: Ui) {
    let (mut last, mut since) = (0, Instant::now());
    loop {
        tokio::time::sleep(PROGRESS).await;
        let (owed, settled, refused) = {
            let tally = locked(tally);
            (tally.owed(), tally.settled(), tally.refused())
        };
        let sent = owed.saturating_add(refused);
        let over = settled.saturating_add(refused);
        let line = format!("{sent} of {total} mentions sent, {settled} answered");
        if over >= total || since.elapsed() > STALLED {
            ui.progress(line);
            return ui.progress_done();
        }
        ui.progress(line);
        if over.saturating_add(owed) > last {
            last = over.saturating_add(owed);
            since = Instant::now();
        }
    }
}

/// One person's part of the conversation.
struct Talk {
    person: Person,
    agent: String,
    tally: Arc<Mutex<Tally>>,
    /// Answered openings that were not followed up yet.
    open: Vec<Opening>,
    /// Openings of this person without an answer so far, by their id.
    mine: BTreeMap<String, &'static str>,
}

/// A thread that may be continued.
struct Opening {
    channel: &'static str,
    root: String,
    answer: String,
}

impl Talk {
    async fn run(
        mut self,
        mentions: usize,
        mut over: watch::Receiver<bool>,
    ) -> Result<(), Failure> {
        for channel in CHANNELS {
            let filter =
                json!({"kinds": [9], "#h": [channel], "authors": [self.agent], "limit": 0});
            let subscribed = self.person.client.subscribe(channel, filter).await;
            subscribed.map_err(Failure::other)?;
        }
        let pause = if mentions > HASTY_MAX {
            SLOW_PAUSE
        } else {
            PAUSE
        };
        for turn in 0..mentions {
            let follow_up = if turn % FOLLOW_UP == 0 {
                self.open.pop()
            } else {
                None
            };
            self.mention(turn, follow_up).await?;
            self.listen(tokio::time::sleep(pause)).await?;
        }
        self.listen(async move {
            // A sender that is gone means the same.
            let _over = over.wait_for(|over| *over).await;
        })
        .await?;
        self.listen(tokio::time::sleep(AFTERMATH)).await?;
        self.read_back().await
    }

    /// Says one thing to the agent; once the relay has it, an answer is owed.
    async fn mention(&mut self, turn: usize, follow_up: Option<Opening>) -> Result<(), Failure> {
        let Person {
            number,
            keys,
            client,
        } = &mut self.person;
        let channel = match &follow_up {
            Some(opening) => opening.channel,
            None => CHANNELS[(*number + turn) % CHANNELS.len()],
        };
        let word = format!("q-{number}-{turn}-end");
        let mut tags = vec![tag("h", channel), tag("p", &self.agent)];
        let marked = |id: &str, mark: &str| ["e", id, "", mark].map(String::from).to_vec();
        if let Some(opening) = &follow_up {
            tags.push(marked(&opening.root, "root"));
            tags.push(marked(&opening.answer, "reply"));
        }
        let event = keys.sign_event(9, tags, &format!("please repeat {word}"), unix_now());
        let receipt = client.publish(&event).await.map_err(Failure::other)?;
        if receipt.accepted {
            if follow_up.is_none() {
                self.mine.insert(event.id.clone(), channel);
            }
            let root = follow_up.map(|opening| opening.root);
            locked(&self.tally).owe(event.id, Owed { word, root });
        } else {
            locked(&self.tally).refuse();
        }
        Ok(())
    }

    /// Takes what comes until `end`.
    async fn listen(&mut self, end: impl Future<Output = ()>) -> Result<(), Failure> {
        let mut end = pin!(end);
        loop {
            let frame = tokio::select! {
                frame = self.person.client.next() => frame.map_err(Failure::other)?,
                () = &mut end => return Ok(()),
            };
            if let Frame::Event { event, .. } = frame {
                self.heard(*event);
            }
        }
    }

    fn heard(&mut self, event: Event) {
        let root = replied_to(&event).map(str::to_owned);
        if let Some(root) = root
            && let Some(channel) = self.mine.remove(&root)
        {
            self.open.push(Opening {
                channel,
                root,
                answer: event.id.clone(),
            });
        }
        locked(&self.tally).saw(event);
    }

    /// What the relay has stored of the agent, whether or not it came live.
    async fn read_back(&mut self) -> Result<(), Failure> {
        for channel in CHANNELS {
            let filter = json!({
                "kinds": [9], "#h": [channel], "authors": [self.agent], "limit": HISTORY_MAX,
            });
            let name = format!("back-{channel}");
            let stored = self
                .person
                .client
                .history(&name, filter)
                .await
                .map_err(Failure::other)?;
            for event in stored {
                locked(&self.tally).saw(event);
            }
        }
        Ok(())
    }
}

/// A person whose task broke while it held the tally left it whole: each change is one insertion.
fn locked(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}
