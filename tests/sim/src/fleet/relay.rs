//! The relay of a fleet: one quota for everybody, and no more manners than an agent needs.

use std::hash::{DefaultHasher, Hasher as _};
use std::time::Duration;

use buzz_proto::ids::{ConnId, EventId};
use buzz_proto::relay::{self, HttpAnswer};
use buzz_proto::time::{MonoTime, UnixTime};
use bytes::Bytes;
use serde_json::{Value, json};

use super::{Asked, Clock, Sent, Settings, forge, place};

#[derive(Debug)]
pub(super) struct RelaySide {
    quota: u32,
    length: Duration,
    window: Option<Window>,
    jobs_each: u32,
    books: Vec<Book>,
    /// Agents whose posts are not all stored.
    waiting: u32,
    tally: Tally,
    hash: DefaultHasher,
}

/// What is counted since the posts were handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Calls that the quota counted.
    pub requests: u64,
    /// Those of them that were no posts.
    pub reads: u64,
    /// Calls that the quota refused.
    pub refused: u64,
    /// The most refusals of one agent within one window.
    pub refused_max: u64,
    /// Windows that were opened, each by the first call after the end of the one before.
    pub windows: u64,
    /// Over all windows, the agents whose posts were not all stored when it was opened.
    pub agent_windows: u64,
    /// Posts that are stored.
    pub stored: u64,
    /// Posts that are stored although another of their job was.
    pub duplicates: u64,
}

/// A span in which calls are counted. Refused ones are, too, and do not lengthen it.
#[derive(Clone, Copy, Debug)]
struct Window {
    closes: MonoTime,
    hits: u32,
}

/// What the relay knows of one agent.
#[derive(Debug)]
struct Book {
    /// The date of the post of each job, or nothing.
    dates: Vec<Option<u64>>,
    stored: u32,
    /// Refusals in the window of this number.
    refused: (u64, u64),
}

impl RelaySide {
    pub(super) fn new(settings: &Settings) -> Self {
        let jobs = usize::try_from(settings.jobs_each).unwrap_or_default();
        let books = (0..settings.agents).map(|_| Book {
            dates: vec![None; jobs],
            stored: 0,
            refused: (0, 0),
        });
        Self {
            quota: settings.quota,
            length: settings.window,
            window: None,
            jobs_each: settings.jobs_each,
            books: books.collect(),
            waiting: 0,
            tally: Tally::default(),
            hash: DefaultHasher::new(),
        }
    }

    /// Everybody has posts from now on. What was called before is not counted, its window is shut.
    pub(super) fn begin(&mut self) {
        self.window = None;
        self.tally = Tally::default();
        self.waiting = u32::try_from(self.books.len()).unwrap_or(u32::MAX);
    }

    pub(super) const fn jobs_each(&self) -> u32 {
        self.jobs_each
    }

    pub(super) const fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(super) const fn hash(&self) -> &DefaultHasher {
        &self.hash
    }

    /// Answers an HTTP call.
    pub(super) fn call(&mut self, agent: u32, asked: Asked, clock: &Clock) -> HttpAnswer {
        let (now, wall) = (clock.now(), clock.wall());
        let (status, body) = match asked {
            // The document is open to everybody.
            Asked::Inform => (200, Bytes::from_static(b"{\"name\":\"a relay\"}")),
            Asked::Query | Asked::Post(_) => match self.charge(agent, now) {
                Err(seconds) => (429, refusal(seconds)),
                Ok(()) => match asked {
                    Asked::Post(id) => (200, self.store(agent, id)),
                    Asked::Query | Asked::Inform => (200, Bytes::from_static(b"[]")),
                },
            },
        };
        if let Asked::Query = asked {
            self.tally.reads = self.tally.reads.saturating_add(1);
        }
        self.hash.write_u32(agent);
        self.hash.write_u16(status);
        self.hash.write_u64(now.as_nanos());
        HttpAnswer {
            status,
            retry_after: None,
            date: Some(wall),
            body,
        }
    }

    /// Counts a call. The whole seconds until the window closes, possibly 0, when it is full.
    fn charge(&mut self, agent: u32, now: MonoTime) -> Result<(), u64> {
        let window = match &mut self.window {
            Some(window) if now < window.closes => window,
            shut => {
                self.tally.windows = self.tally.windows.saturating_add(1);
                let waiting = u64::from(self.waiting);
                self.tally.agent_windows = self.tally.agent_windows.saturating_add(waiting);
                shut.insert(Window {
                    closes: now.after(self.length),
                    hits: 0,
                })
            }
        };
        self.tally.requests = self.tally.requests.saturating_add(1);
        window.hits = window.hits.saturating_add(1);
        if window.hits <= self.quota {
            return Ok(());
        }
        let seconds = window.closes.saturating_since(now).as_secs();
        self.tally.refused = self.tally.refused.saturating_add(1);
        let number = self.tally.windows;
        if let Some(book) = place(agent).and_then(|it| self.books.get_mut(it)) {
            if book.refused.0 != number {
                book.refused = (number, 0);
            }
            book.refused.1 = book.refused.1.saturating_add(1);
            self.tally.refused_max = self.tally.refused_max.max(book.refused.1);
        }
        Err(seconds)
    }

    fn store(&mut self, agent: u32, id: EventId) -> Bytes {
        let job = place(forge::job_of(id));
        let book = place(agent).and_then(|it| self.books.get_mut(it));
        let Some((book, job)) = book.zip(job) else {
            return accepted(id, false, "invalid: nobody's");
        };
        let Some(date) = book.dates.get_mut(job) else {
            return accepted(id, false, "invalid: no job of this agent");
        };
        match date.replace(forge::date_of(id)) {
            Some(known) if known == forge::date_of(id) => {
                return accepted(id, false, "duplicate: have this event");
            }
            Some(_) => self.tally.duplicates = self.tally.duplicates.saturating_add(1),
            None => {
                book.stored = book.stored.saturating_add(1);
                self.tally.stored = self.tally.stored.saturating_add(1);
                if book.stored == self.jobs_each {
                    self.waiting = self.waiting.saturating_sub(1);
                }
            }
        }
        accepted(id, true, "")
    }
}

/// What the relay says on a socket: it is open, its pings are answered, a subscription has no
/// stored events.
pub(super) fn on_socket(conn: ConnId, what: &Sent, wall: UnixTime) -> Option<relay::Input> {
    match what {
        Sent::Upgrade => {
            let date = Some(wall);
            Some(relay::Input::Connected { conn, date })
        }
        Sent::Ping => Some(relay::Input::Pong { conn }),
        Sent::Text(text) => {
            let Ok(Value::Array(parts)) = serde_json::from_slice(text) else {
                return None;
            };
            let [Value::String(verb), Value::String(name), ..] = parts.as_slice() else {
                return None;
            };
            let text = json!(["EOSE", name]).to_string().into();
            (verb == "REQ").then_some(relay::Input::Frame { conn, text })
        }
    }
}

fn refusal(seconds: u64) -> Bytes {
    format!("{{\"error\":\"rate-limited: quota exceeded; retry in {seconds}s\"}}").into()
}

fn accepted(id: EventId, is_accepted: bool, message: &str) -> Bytes {
    let id = forge::hex(&id.0);
    format!("{{\"event_id\":\"{id}\",\"accepted\":{is_accepted},\"message\":\"{message}\"}}").into()
}

#[cfg(test)]
mod tests {
    use buzz_dev_relay::rules::quota::{Bucket, Counters, Limit};

    use super::*;

    const WINDOW: Duration = Duration::from_secs(60);

    fn relay(quota: u32) -> RelaySide {
        RelaySide::new(&Settings {
            seed: 1,
            agents: 2,
            jobs_each: 2,
            quota,
            window: WINDOW,
        })
    }

    const fn ms(n: u64) -> MonoTime {
        MonoTime::from_nanos(n * 1_000_000)
    }

    #[test]
    fn the_quota_is_that_of_the_development_relay() {
        let mut relay = relay(7);
        let mut counters = Counters::default();
        let limit = Limit::new(7, WINDOW);
        for call in 0..2000 {
            let at = call * 1777 + call % 13 * 31;
            let now = Duration::from_millis(at);

            let theirs = counters.charge("us", Bucket::Api, limit, now);

            assert_eq!(relay.charge(0, ms(at)), theirs, "at {now:?}");
        }
    }

    #[test]
    fn refusals_are_counted_for_each_agent_and_window() {
        let mut relay = relay(1);
        relay.begin();

        for (agent, at) in [(0, 0), (0, 1), (1, 2), (0, 3), (0, 60_000), (1, 60_001)] {
            let _verdict = relay.charge(agent, ms(at));
        }

        let tally = relay.tally();
        assert_eq!(
            (tally.requests, tally.refused, tally.refused_max),
            (6, 4, 2)
        );
        assert_eq!((tally.windows, tally.agent_windows), (2, 4));
    }

    #[test]
    fn an_agent_whose_posts_are_all_stored_counts_in_no_later_window() {
        let mut relay = relay(10);
        relay.begin();
        for (job, date) in [(0, 5), (1, 5), (1, 5), (1, 6)] {
            relay.store(0, forge::id(date, job));
        }

        assert_eq!(relay.charge(1, ms(0)), Ok(()));

        let tally = relay.tally();
        assert_eq!((tally.stored, tally.duplicates), (2, 1));
        assert_eq!((tally.windows, tally.agent_windows), (1, 1));
    }
}
