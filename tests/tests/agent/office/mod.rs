//! Work done by workers that are processes, for people on a relay.
#![expect(
    clippy::unwrap_used,
    reason = "a set-up that fails has failed the test"
)]

mod faults;
mod hold;
mod owner;
mod shown;
pub(crate) mod worker;

use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use buzz_adapters::acp::{AcpPool, AcpSettings, AcpSettingsHandle, Workers};
use buzz_adapters::connect::Report;
use buzz_dev_relay::client::tag;
use buzz_dev_relay::rules::event::Event;
use buzz_proto::config::Consumer;
use buzz_proto::note::Note;
use buzz_proto::relay::View;
use buzz_proto::schedule::{Config, Limits};
use tempfile::TempDir;

use crate::Rt;
use crate::support::{Agent, LOOK_EVERY, Scene, Taker, within};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A scene whose agent has workers; the person in it is the agent's owner.
pub(crate) struct Office {
    pub(crate) scene: Scene,
    pub(crate) agent: Agent,
    folder: TempDir,
    /// What workers are started as, from now on.
    settings: AcpSettingsHandle,
    notes: Arc<Mutex<Vec<Note>>>,
}

/// An answer of a worker, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) process: String,
    pub(crate) session: String,
    pub(crate) version: String,
    pub(crate) words: String,
}

impl Office {
    pub(crate) async fn open(workers: u16, change: impl FnOnce(&mut Limits)) -> Self {
        let mut scene = Scene::open().await;
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::new(workers);
        config.owner = Some(scene.person().parse().unwrap());
        let limits = &mut config.limits;
        limits.retry_first = 100 * MS;
        limits.respawn_first = 10 * MS;
        limits.cancel_grace = 500 * MS;
        change(limits);
        let settings = AcpSettingsHandle::new(started_as("first", &folder));
        let pool = settings.clone();
        let taker = Taker {
            consumer: Consumer::Workers(Box::new(config)),
            workers: Some(Box::new(move |facts| -> Box<dyn Workers> {
                Box::new(AcpPool::<Rt>::new(pool, move |fact| facts(fact)))
            })),
        };
        let notes = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&notes);
        let agent = scene.agent_with(taker, |setup| {
            setup.report = Box::new(move |report| {
                if let Report::Note(note) = report {
                    told.lock().unwrap().push(note);
                }
            });
        });
        let office = Self {
            scene,
            agent,
            folder,
            settings,
            notes,
        };
        let is_up = |note: &Note| matches!(note, Note::WorkerUp { .. });
        office.until_noted(workers.into(), is_up).await;
        // What is said before comes in the order of a history.
        let is_listening = |relay: &View| relay.subscriptions_live >= 2;
        office.agent.until(is_listening).await;
        office
    }

    /// The workers that are started from now on are started so.
    pub(crate) fn start_as(&self, version: &str) {
        self.settings.set(started_as(version, &self.folder));
    }

    /// A file that workers wait for.
    pub(crate) fn let_go(&self, file: &str) {
        fs::write(self.folder.path().join(file), "").unwrap();
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        fs::write(self.folder.path().join(file), text).unwrap();
    }

    /// The lines of a file that workers write.
    pub(crate) fn lines(&self, file: &str) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join(file));
        let text = text.unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The same, once there are any.
    pub(crate) async fn until_written(&self, file: &str) -> Vec<String> {
        within(async {
            while self.lines(file).is_empty() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
        .await;
        self.lines(file)
    }

    /// The owner says something that begins a thread.
    pub(crate) async fn begin(&mut self, words: &str) -> Event {
        self.scene.mention(words, Vec::new()).await
    }

    /// The owner says something in a thread.
    pub(crate) async fn go_on(&mut self, root: &Event, words: &str) -> Event {
        let reply = ["e", &root.id, "", "reply"].map(str::to_owned).to_vec();
        self.scene.mention(words, vec![reply]).await
    }

    /// The answer to a message, taken apart.
    pub(crate) async fn answer_to(&self, message: &Event) -> Said {
        Said::read(&self.replies_to(message, 1).await[0].content)
    }

    /// What was said in answer to a message, oldest first, once it is so much.
    pub(crate) async fn replies_to(&self, message: &Event, count: usize) -> Vec<Event> {
        within(async {
            loop {
                let replies = self.replies_so_far(message);
                if replies.len() >= count {
                    return replies;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
        .await
    }

    /// What was said in answer to a message so far, oldest first.
    pub(crate) fn replies_so_far(&self, message: &Event) -> Vec<Event> {
        let mut said = self.scene.said(9);
        said.reverse();
        said.retain(|event| {
            let mut named = event.tags.iter().rev().filter(|tag| tag[0] == "e");
            named.next().is_some_and(|tag| tag[1] == message.id)
        });
        said
    }

    /// The notes so far that are as wanted.
    pub(crate) fn noted(&self, is_wanted: impl Fn(&Note) -> bool) -> Vec<Note> {
        let notes = self.notes.lock().unwrap();
        notes
            .iter()
            .filter(|note| is_wanted(note))
            .cloned()
            .collect()
    }

    /// Waits until there are so many notes of a sort.
    pub(crate) async fn until_noted(&self, count: usize, is_wanted: impl Fn(&Note) -> bool) {
        within(async {
            while self.noted(&is_wanted).len() < count {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
        .await;
    }

    /// Ends the agent. No process of a worker is left then.
    pub(crate) async fn close(mut self) {
        self.agent.end().await;
        let groups = self.lines("pids");
        assert!(!groups.is_empty());
        within(async {
            while groups.iter().any(|group| is_group_alive(group)) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
        .await;
    }
}

impl Said {
    fn read(text: &str) -> Self {
        let mut parts = text.splitn(4, ' ').map(str::to_owned);
        let mut next = || parts.next().unwrap_or_default();
        Self {
            process: next(),
            session: next(),
            version: next(),
            words: next(),
        }
    }
}

/// Starts this test binary as a worker.
fn started_as(version: &str, folder: &TempDir) -> AcpSettings {
    let this = std::env::current_exe().unwrap();
    let mut settings = AcpSettings::new(this.to_str().unwrap());
    settings.args = ["--exact", "test_worker", "--nocapture"]
        .map(str::to_owned)
        .into();
    settings.env = vec![
        (worker::FOLDER.into(), folder.path().into()),
        (worker::VERSION.into(), version.into()),
    ];
    settings
}

/// Whether a process of this group exists; one that has ended and was not collected does not.
fn is_group_alive(group: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.into_iter().any(|process| {
        let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // The name, which may hold anything, stands in parentheses before the fields.
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split(' ')
            .collect();
        matches!(fields[..], [_, state, _, of, ..] if of == group && state != "Z")
    })
}

/// A tag that names a thread's root in a reply of the agent.
pub(crate) fn is_in_thread(reply: &Event, root: &Event) -> bool {
    reply
        .tags
        .iter()
        .any(|it| it[..2] == tag("e", &root.id)[..])
}
