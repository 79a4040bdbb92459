//! An agent that is stopped or killed and started again: each mention has one answer.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use buzz_dev_relay::client::{Client, tag, unix_now};
use buzz_dev_relay::rules::Settings;
use buzz_dev_relay::rules::event::Event;
use buzz_dev_relay::rules::filter::Filter;
use buzz_dev_relay::rules::quota::Quotas;
use buzz_proto::seed::Seed;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::{sleep, timeout};

use crate::room::{CHANNEL, Room, blocking, is_joined, is_live};
use crate::support::{PATIENCE, PROGRAM, Running, agent};

/// Answers like the echo worker, after a while, and says in which life: an answer that is the same to
/// the second would be the same event.
const SLOW_ECHO: &str = r#"
while read -r line; do
    case "$line" in *session/prompt*)
        sleep "$2"
        line=$(printf '%s\n' "$line" | sed "s/question/life $3 on question/g") ;;
    esac
    printf '%s\n' "$line"
done | exec "$1" echo-worker"#;
/// The crowd says something this often.
const PAUSE: Duration = Duration::from_millis(400);
/// Between two looks at something that changes by itself.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// More than all that is said here.
const HISTORY_MAX: u32 = 1000;
/// As long before a first start nothing is owed.
const CLEAR_OF_START: Duration = Duration::from_secs(4);
/// Another seed than the usual one can be given in this variable.
const SEED: &str = "BUZZ_TEST_SEED";

/// Where in a life it is killed. Work is begun in at most two lives in a row that end early: after
/// the third it would be given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    JustStarted,
    CatchingUp,
    TurnRunning,
    ReplyPosted,
    Idle,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_killed_again_and_again_answers_each_mention_once() {
    use Moment::{CatchingUp, Idle, JustStarted, ReplyPosted, TurnRunning};
    let seed = std::env::var(SEED).map_or(7, |text| text.parse().unwrap());
    let seed = Seed(seed);
    let stage = Stage::open().await;
    let crowd = Crowd::start(&stage).await;
    let (scene, said) = (stage.clone(), crowd.said.clone());
    let last = blocking(move || {
        let mut life = scene.start("0.2", &[]);
        // What is said before the first record is kept is owed to nobody.
        life.wait_for("channel", is_joined);
        scene.wait_until(|scene| scene.has_record() && !scene.answers().is_empty());
        let round = [
            TurnRunning,
            ReplyPosted,
            Idle,
            CatchingUp,
            JustStarted,
            Idle,
        ];
        for (moment, number) in round.into_iter().cycle().take(12).zip(0..) {
            scene.wait_for(moment, &mut life, &said);
            let most = if moment == ReplyPosted { 20 } else { 150 };
            let pause = seed.between(1, number, Duration::ZERO, Duration::from_millis(most));
            thread::sleep(pause);
            drop(life);
            said.is_quiet.store(false, Ordering::Relaxed);
            let away = seed.between(2, number, Duration::ZERO, Duration::from_millis(900));
            thread::sleep(away);
            life = scene.start("0.2", &[]);
        }
        life.wait_for("channel", is_joined);
        life
    })
    .await;

    let (mut person, mut said) = crowd.stop().await;
    stage.say(&mut person, "question last", &mut said).await;
    stage.until_answered(&said).await;
    let (status, words) = blocking(move || last.terminate()).await;

    assert_eq!(status.code(), Some(0), "{status}: {words}");
    assert!(said.len() > 12, "{}", said.len());
    stage.assert_answered_once(&mut person, &said).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waited_when_an_agent_was_told_to_stop_is_answered_by_the_next_life() {
    let stage = Stage::open().await;
    let mut person = stage.person().await;
    let one = ["--workers", "1"];
    let (scene, mut life) = (stage.clone(), stage.start("1", &one));
    life = blocking(move || {
        life.wait_for("channel", is_joined);
        life
    })
    .await;
    let mut said = Said::new();
    for number in 0..4 {
        stage
            .say(&mut person, &format!("question {number}"), &mut said)
            .await;
    }

    let (status, words) = blocking(move || {
        life.wait_for("turn", |fact| fact.get("TurnStarted").is_some());
        life.terminate()
    })
    .await;

    assert_eq!(status.code(), Some(0), "{words}");
    let answered = stage.answers().len();
    assert!(answered < said.len(), "something is left to the next life");
    let life = blocking(move || scene.start("0", &one)).await;
    stage.until_answered(&said).await;
    blocking(move || life.terminate()).await;
    stage.assert_answered_once(&mut person, &said).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_state_means_nothing_says_so_and_answers_what_is_said_from_then_on() {
    let (stage, mut person, mut said) = Stage::after_answers().await;
    let path = stage.state();
    fs::write(&path, "no state").unwrap();
    // Dates have seconds: what is said right before a first start may be owed to it.
    sleep(CLEAR_OF_START).await;

    let words = stage.answer_more(&mut person, &mut said).await;

    assert!(
        words.contains("the agent starts as for the first time"),
        "{words}"
    );
    stage.assert_answered_once(&mut person, &said).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_from_the_future_is_reported_and_hides_and_repeats_nothing() {
    let (stage, mut person, mut said) = Stage::after_answers().await;
    let path = stage.state();
    let mut state: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    for record in state["records"].as_array_mut().unwrap() {
        // As a life leaves it whose relay had the date of tomorrow.
        record["settled"] = json!(unix_now() + 86_400);
        record["done"] = json!([]);
    }
    fs::write(&path, state.to_string()).unwrap();

    let words = stage.answer_more(&mut person, &mut said).await;

    assert!(words.contains("RecordAhead"), "{words}");
    stage.assert_answered_once(&mut person, &said).await;
}

/// What was said, by the id of the mention.
type Said = BTreeMap<String, String>;

/// A room without quotas, and the folder in which the agent keeps its state.
#[derive(Clone)]
struct Stage {
    room: Arc<Room>,
    folder: Arc<TempDir>,
    lives: Arc<AtomicU32>,
}

impl Stage {
    async fn open() -> Self {
        let settings = Settings {
            quotas: Quotas::off(),
            ..Settings::default()
        };
        Self {
            room: Arc::new(Room::open(settings).await),
            folder: Arc::new(tempfile::tempdir().unwrap()),
            lives: Arc::default(),
        }
    }

    /// One whose agent has answered what was said and ended.
    async fn after_answers() -> (Self, Client, Said) {
        let (stage, mut said) = (Self::open().await, Said::new());
        let mut person = stage.person().await;
        stage.answer_more(&mut person, &mut said).await;
        (stage, person, said)
    }

    /// A life in which two mentions are answered; gives all that the agent said of it. The one
    /// worker takes the older work first: what came with the first mention was done before the
    /// answer to the second.
    async fn answer_more(&self, person: &mut Client, said: &mut Said) -> String {
        let stage = self.clone();
        let life = blocking(move || {
            let mut life = stage.start("0", &["--workers", "1"]);
            life.wait_for("channel", is_joined);
            life
        })
        .await;
        for _ in 0..2 {
            let words = format!("question {}", said.len());
            self.say(person, &words, said).await;
            self.until_answered(said).await;
        }
        let (status, words) = blocking(move || life.terminate()).await;
        assert_eq!(status.code(), Some(0), "{words}");
        words
    }

    /// Starts the agent with a worker that takes so many seconds for an answer.
    fn start(&self, seconds: &str, args: &[&str]) -> Running {
        let (url, folder) = (self.room.relay.url(), self.folder.path().to_str().unwrap());
        let base = ["run", "--json", "--state-dir", folder, "--relay", &url];
        let more = ["--owner", self.room.owner.public(), "--give-up-after", "0"];
        let life = self.lives.fetch_add(1, Ordering::Relaxed).to_string();
        let worker = ["--", "sh", "-c", SLOW_ECHO, "sh", PROGRAM, seconds, &life];
        let args: Vec<_> = [&base[..], &more, args, &worker].concat();
        let mut command: Command = agent(&args);
        command.env("BUZZ_PRIVATE_KEY", self.room.agent.secret_hex());
        Running::start(&mut command)
    }

    async fn person(&self) -> Client {
        Client::connect(&self.room.relay.url(), &self.room.owner)
            .await
            .unwrap()
    }

    /// Says something to the agent, which then owes an answer.
    async fn say(&self, person: &mut Client, words: &str, said: &mut Said) {
        let tags = vec![tag("h", CHANNEL), tag("p", self.room.agent.public())];
        let event = self.room.owner.sign_event(9, tags, words, unix_now());
        assert!(person.publish(&event).await.unwrap().accepted);
        said.insert(event.id, words.to_owned());
    }

    /// The messages of the agent that the relay has stored.
    fn answers(&self) -> Vec<Event> {
        let key = self.room.agent.public();
        let filter = json!({"kinds": [9], "authors": [key], "#h": [CHANNEL]});
        self.room.relay.events(&Filter::parse(&filter).unwrap())
    }

    /// The file of the agent's state.
    fn state(&self) -> PathBuf {
        let mut entries = fs::read_dir(self.folder.path()).unwrap();
        let lock = entries.next().unwrap().unwrap().path();
        lock.with_extension("json")
    }

    fn has_record(&self) -> bool {
        fs::read_to_string(self.state()).is_ok_and(|text| text.contains(CHANNEL))
    }

    fn wait_until(&self, is_so: impl Fn(&Self) -> bool) {
        let begun = std::time::Instant::now();
        while !is_so(self) {
            assert!(begun.elapsed() < PATIENCE, "{:#?}", self.answers());
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits for a moment in the life of an agent.
    fn wait_for(&self, moment: Moment, life: &mut Running, said: &Talk) {
        match moment {
            Moment::JustStarted => {}
            Moment::CatchingUp => life.wait_for("live link", is_live),
            Moment::TurnRunning => {
                life.look_away();
                life.wait_for("turn", |fact| fact.get("TurnStarted").is_some());
            }
            Moment::ReplyPosted => {
                let before = self.answers().len();
                self.wait_until(|stage| stage.answers().len() > before);
            }
            Moment::Idle => {
                said.is_quiet.store(true, Ordering::Relaxed);
                self.wait_until(|stage| stage.is_answered(&said.so_far()));
            }
        }
    }

    fn is_answered(&self, said: &Said) -> bool {
        let answers = self.answers();
        let answered: Vec<_> = answers.iter().filter_map(replied_to).collect();
        said.keys().all(|id| answered.contains(&id.as_str()))
    }

    async fn until_answered(&self, said: &Said) {
        let (stage, said) = (self.clone(), said.clone());
        blocking(move || stage.wait_until(|stage| stage.is_answered(&said))).await;
    }

    /// As a person sees it who reads the channel: one answer in the thread of each mention, and
    /// nothing else by the agent.
    async fn assert_answered_once(&self, person: &mut Client, said: &Said) {
        let filter = json!({
            "kinds": [9], "authors": [self.room.agent.public()], "#h": [CHANNEL],
            "limit": HISTORY_MAX,
        });
        let stored = timeout(PATIENCE, person.history("answers", filter)).await;
        let mut answers: Vec<_> = stored
            .unwrap()
            .unwrap()
            .into_iter()
            .map(|event| {
                let asked = replied_to(&event).unwrap().to_owned();
                let (_, words) = event.content.split_once(" on ").unwrap();
                (asked, words.to_owned())
            })
            .collect();
        answers.sort_unstable();
        let said: Vec<_> = said.clone().into_iter().collect();
        assert_eq!(answers, said);
    }
}

/// The event that a message replies to (NIP-10).
fn replied_to(event: &Event) -> Option<&str> {
    let mut tags = event.tags.iter();
    let tag = tags.find(|tag| tag.first().is_some_and(|name| name == "e") && tag.len() > 3)?;
    tag.get(1).map(String::as_str)
}

/// What the crowd says, and whether it is to hold its tongue.
#[derive(Default)]
struct Talk {
    said: Mutex<Said>,
    is_quiet: AtomicBool,
    is_over: AtomicBool,
}

impl Talk {
    fn so_far(&self) -> Said {
        self.said.lock().unwrap().clone()
    }
}

/// Somebody who mentions the agent all the time.
struct Crowd {
    said: Arc<Talk>,
    task: tokio::task::JoinHandle<Client>,
}

impl Crowd {
    async fn start(stage: &Stage) -> Self {
        let (stage, said) = (stage.clone(), Arc::new(Talk::default()));
        let (mut person, talk) = (stage.person().await, Arc::clone(&said));
        let task = tokio::spawn(async move {
            for number in 0.. {
                sleep(PAUSE).await;
                if talk.is_over.load(Ordering::Relaxed) {
                    break;
                }
                if !talk.is_quiet.load(Ordering::Relaxed) {
                    let mut one = Said::new();
                    let words = format!("question {number}");
                    stage.say(&mut person, &words, &mut one).await;
                    talk.said.lock().unwrap().append(&mut one);
                }
            }
            person
        });
        Self { said, task }
    }

    async fn stop(self) -> (Client, Said) {
        self.said.is_over.store(true, Ordering::Relaxed);
        let person = self.task.await.unwrap();
        (person, self.said.so_far())
    }
}
