//! The figures of the scenario, and what they must be.

use std::time::Duration;

use serde::Serialize;

use super::NAME;
use crate::scenario::{judge, whole};
use crate::world::judge::Verdict;

/// The longest time that a thread waits beside a free worker.
const THREAD_WAIT_MAX_MS: u64 = 10_000;
/// With less it would prove little.
const ACCEPTED_MIN: u64 = 200;

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// [`NAME`].
    pub scenario: &'static str,
    /// As set.
    pub seed: u64,
    /// As set.
    pub workers: u64,
    /// Mentions that the relay stored.
    pub owed: u64,
    /// Those of them that reached the scheduler.
    pub accepted: u64,
    /// Those that a stored answer names, by itself or with its batch.
    pub answered: u64,
    /// Those with another end: a notice in their thread, discarded by their owner or with their
    /// channel, handed back at the end.
    pub reported: u64,
    /// The first of these.
    pub notices: u64,
    /// The second.
    pub discarded: u64,
    /// The third.
    pub handed_back: u64,
    /// Those without an end.
    pub lost: u64,
    /// Those with two.
    pub duplicates: u64,
    /// Turns.
    pub turns: u64,
    /// Turns that were tried again.
    pub retries: u64,
    /// Times that a thread waited for the worker of its session.
    pub holds: u64,
    /// Turns in a fresh session while the older one lived on a busy worker.
    pub forks: u64,
    /// Turns that went on in another session than the newest of their conversation.
    pub stale_resumes: u64,
    /// The longest time that a conversation was ready and a worker free.
    pub conversation_wait_ms_max: u64,
    /// The longest time that a worker was free from the first hold of a thread to its turn.
    pub thread_wait_ms_max: u64,
    /// The longest time that a thread was ready, did not wait for a worker of its own, and one was
    /// free.
    pub ready_wait_ms_max: u64,
    /// All else that the judge found wrong.
    pub deviations: u64,
    /// The first of it, in words.
    #[serde(skip)]
    pub faults: Vec<String>,
    /// How long it took, in the world.
    pub virtual_seconds: u64,
    /// A hash of all facts and orders: equal if and only if two runs were.
    pub digest: String,
}

impl From<Verdict> for Figures {
    fn from(verdict: Verdict) -> Self {
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self {
            scenario: NAME,
            accepted: verdict.accepted,
            answered: verdict.answered,
            reported: verdict.reported(),
            notices: verdict.notices,
            discarded: verdict.discarded,
            handed_back: verdict.handed_back,
            lost: verdict.lost,
            duplicates: verdict.doubled,
            turns: verdict.turns,
            retries: verdict.retries,
            holds: verdict.holds,
            forks: verdict.forks,
            stale_resumes: verdict.stale_resumes,
            conversation_wait_ms_max: millis(verdict.conversation_wait),
            thread_wait_ms_max: millis(verdict.thread_wait),
            ready_wait_ms_max: millis(verdict.ready_wait),
            deviations: whole(verdict.faults.len()),
            faults: verdict.faults,
            ..Self::default()
        }
    }
}

impl Figures {
    /// Whether nothing was lost or ended twice, nobody waited too long, and no session was gone on
    /// with that another one had replaced.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.broken().is_empty()
    }

    /// What was promised and not kept, in sentences for people.
    #[must_use]
    pub fn misses(&self) -> Vec<String> {
        let mut misses = self.broken();
        for (name, value, least) in [
            ("accepted", self.accepted, ACCEPTED_MIN),
            ("forks", self.forks, 1),
        ] {
            let words = format_args!("{name} is {value}, below {least}");
            judge(&mut misses, value >= least, words);
        }
        let count = self.deviations;
        let first = self.faults.first().map_or("", String::as_str);
        let words = format_args!("deviations is {count}, above 0; the first: {first}");
        judge(&mut misses, count == 0, words);
        misses
    }

    fn broken(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let ended = self.answered.saturating_add(self.reported);
        let words = format_args!(
            "answered and reported are {ended} together, not {}",
            self.owed
        );
        judge(&mut broken, ended == self.owed, words);
        for (name, value, most) in [
            ("lost", self.lost, 0),
            ("duplicates", self.duplicates, 0),
            ("stale_resumes", self.stale_resumes, 0),
            ("conversation_wait_ms_max", self.conversation_wait_ms_max, 0),
            ("ready_wait_ms_max", self.ready_wait_ms_max, 0),
            (
                "thread_wait_ms_max",
                self.thread_wait_ms_max,
                THREAD_WAIT_MAX_MS,
            ),
        ] {
            let words = format_args!("{name} is {value}, above {most}");
            judge(&mut broken, value <= most, words);
        }
        broken
    }

    /// A table for people: name, figure and meaning.
    #[must_use]
    pub fn rows(&self) -> [(&'static str, u64, &'static str); 12] {
        [
            (
                "accepted",
                self.accepted,
                "mentions that reached the scheduler",
            ),
            (
                "answered",
                self.answered,
                "of them answered in their thread",
            ),
            (
                "reported",
                self.reported,
                "of them told of, discarded or handed back",
            ),
            ("lost", self.lost, "of them without an end"),
            ("duplicates", self.duplicates, "of them with two"),
            ("turns", self.turns, "turns of the workers"),
            ("retries", self.retries, "of them tried again"),
            ("holds", self.holds, "waits of a thread for its own worker"),
            (
                "forks",
                self.forks,
                "turns elsewhere, because that one was busy",
            ),
            (
                "stale",
                self.stale_resumes,
                "turns in a session that is not the newest",
            ),
            (
                "conversation",
                self.conversation_wait_ms_max,
                "ms that one waited at most beside a free worker",
            ),
            (
                "thread",
                self.thread_wait_ms_max,
                "ms of the same for a thread, from its first hold",
            ),
        ]
    }
}
