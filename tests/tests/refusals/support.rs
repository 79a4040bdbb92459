//! A publisher and a relay that answers its calls late, or never, in virtual time. What must hold
//! whatever the relay does is checked at each step.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use buzz_proto::ids::{JobId, Ticket};
use buzz_proto::note::{Note, Quota};
use buzz_proto::publish::{Action, Body, Class, Command, Config, Input, Publisher, Route, Verdict};
use buzz_proto::relay::{BrokeCause, HttpAnswer};
use buzz_proto::retry_hint::HintSource;
use buzz_proto::seed::Seed;
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_proto::wire::Event;
use bytes::Bytes;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// How long a publisher awaits an answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(15);
const IN_FLIGHT_MAX: usize = 4;
/// Calls and ticks of one run before the publisher counts as spinning.
const STEPS_MAX: u32 = 200_000;

/// A call over HTTP that the publisher made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) at: MonoTime,
    pub(crate) ticket: Ticket,
    /// The job whose event it is about.
    pub(crate) job: u64,
    /// Whether it asks if the event is stored, and posts nothing.
    pub(crate) is_query: bool,
}

/// What becomes of a call.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Answer(HttpAnswer),
    Broke(BrokeCause),
}

/// What becomes of a call, and after how long; nothing when it never ends.
pub(crate) type Outcome = Option<(Duration, Reply)>;

/// A note that a gate shut, and when it was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Throttle {
    pub(crate) at: MonoTime,
    pub(crate) source: Option<HintSource>,
    pub(crate) capped: bool,
    pub(crate) wait: Duration,
    pub(crate) in_flight: u32,
    pub(crate) waiting: u32,
    pub(crate) attempt: u32,
}

pub(crate) struct Storm {
    pub(crate) publisher: Publisher,
    pub(crate) now: MonoTime,
    /// All calls, in their order.
    pub(crate) calls: Vec<Call>,
    pub(crate) throttles: Vec<Throttle>,
    pub(crate) verdicts: BTreeMap<u64, (MonoTime, Verdict)>,
    /// Calls that the publisher awaits.
    open: BTreeSet<Ticket>,
    most_open: usize,
    /// Answers on their way, by the time they come and the place of their call.
    coming: BTreeMap<(MonoTime, usize), (Ticket, Reply)>,
    /// How many calls the relay has seen.
    seen: usize,
    /// No call may leave before, by the publisher's own word.
    shut_until: MonoTime,
}

impl Storm {
    pub(crate) fn new() -> Self {
        Self::seeded(7)
    }

    pub(crate) fn seeded(seed: u64) -> Self {
        let start = MonoTime::ZERO;
        let publisher = Publisher::new(Config::default(), Seed(seed), start);
        Self {
            publisher: publisher.expect("the settings work"),
            now: start,
            calls: Vec::new(),
            throttles: Vec::new(),
            verdicts: BTreeMap::new(),
            open: BTreeSet::new(),
            most_open: 0,
            coming: BTreeMap::new(),
            seen: 0,
            shut_until: start,
        }
    }

    /// With these jobs, each durable and already signed.
    pub(crate) fn with_jobs(count: u64) -> Self {
        let mut storm = Self::new();
        for job in 1..=count {
            storm.submit(job, None);
        }
        storm
    }

    pub(crate) fn submit(&mut self, job: u64, ttl: Option<Duration>) {
        self.feed(Input::Command(Command::Submit {
            job: JobId(job),
            class: Class::Durable,
            route: Route::Post,
            body: Body::Signed(event(job)),
            ttl,
        }));
    }

    pub(crate) fn cancel(&mut self, job: u64) {
        self.feed(Input::Command(Command::Cancel { job: JobId(job) }));
    }

    /// A call is answered now.
    pub(crate) fn answer(&mut self, call: Call, answer: HttpAnswer) {
        self.end(call.ticket, Reply::Answer(answer));
    }

    pub(crate) fn end(&mut self, ticket: Ticket, reply: Reply) {
        self.open.remove(&ticket);
        self.feed(match reply {
            Reply::Answer(answer) => Input::Answered { ticket, answer },
            Reply::Broke(cause) => Input::Broke { ticket, cause },
        });
    }

    /// Calls that the publisher awaits, oldest first.
    pub(crate) fn open(&self) -> Vec<Call> {
        let is_open = |call: &&Call| self.open.contains(&call.ticket);
        self.calls.iter().filter(is_open).copied().collect()
    }

    /// The one call under way.
    pub(crate) fn only(&self) -> Call {
        let open = self.open();
        let [call] = open[..] else {
            panic!("not one call under way: {open:?}");
        };
        call
    }

    pub(crate) const fn most_open(&self) -> usize {
        self.most_open
    }

    /// Posts of a job.
    pub(crate) fn posts_of(&self, job: u64) -> usize {
        let is_post = |call: &&Call| call.job == job && !call.is_query;
        self.calls.iter().filter(is_post).count()
    }

    pub(crate) fn verdict(&self, job: u64) -> Option<&Verdict> {
        self.verdicts.get(&job).map(|(_, verdict)| verdict)
    }

    pub(crate) fn last_throttle(&self) -> Throttle {
        *self.throttles.last().expect("a gate has shut")
    }

    /// Nobody answers until then.
    pub(crate) fn wait_until(&mut self, end: MonoTime) {
        self.seen = self.calls.len();
        self.run_until(end, &mut |_| None);
        self.seen = self.calls.len();
    }

    pub(crate) fn wait_for(&mut self, span: Duration) {
        self.wait_until(self.now.after(span));
    }

    /// Waits for the next call, and nobody answers meanwhile; gives that call.
    pub(crate) fn wait_for_call(&mut self) -> Call {
        let before = self.calls.len();
        for _ in 0..STEPS_MAX {
            if let Some(call) = self.calls.get(before) {
                return *call;
            }
            let (at, _) = self.publisher.next_deadline().expect("it waits for a time");
            self.now = at;
            self.feed(Input::Tick);
        }
        panic!("no call comes");
    }

    /// A relay answers until then.
    pub(crate) fn run_until(&mut self, end: MonoTime, relay: &mut dyn FnMut(&Call) -> Outcome) {
        for _ in 0..STEPS_MAX {
            self.show(relay);
            let coming = self.coming.keys().next().map(|(at, _)| *at);
            let due = self.publisher.next_deadline().map(|(at, _)| at);
            let next = coming.into_iter().chain(due).min();
            let Some(at) = next.filter(|at| *at <= end) else {
                self.now = self.now.max(end);
                return;
            };
            self.now = at;
            match self
                .coming
                .first_entry()
                .filter(|entry| entry.key().0 <= at)
            {
                Some(entry) => {
                    let (ticket, reply) = entry.remove();
                    self.end(ticket, reply);
                }
                None => self.feed(Input::Tick),
            }
        }
        panic!("it spins");
    }

    /// The relay sees the calls that are new to it.
    fn show(&mut self, relay: &mut dyn FnMut(&Call) -> Outcome) {
        for (place, call) in self.calls.iter().enumerate().skip(self.seen) {
            if let Some((after, reply)) = relay(call) {
                let at = call.at.after(after);
                self.coming.insert((at, place), (call.ticket, reply));
            }
        }
        self.seen = self.calls.len();
    }

    pub(crate) fn feed(&mut self, input: Input) {
        let actions = self.publisher.handle_input(input, self.now);
        for action in actions {
            self.see(action);
        }
        assert!(self.open.len() <= IN_FLIGHT_MAX, "too many calls under way");
        self.most_open = self.most_open.max(self.open.len());
        let due = self.publisher.next_deadline();
        assert!(due.is_none_or(|(at, _)| at > self.now), "{due:?} is over");
        assert_eq!(self.publisher.handle_input(Input::Tick, self.now), []);
    }

    fn see(&mut self, action: Action) {
        match action {
            Action::Post { ticket, event, .. } => self.begin(ticket, number(&event), false),
            Action::Query { ticket, body } => self.begin(ticket, number_in(&body), true),
            Action::Abort { ticket } => {
                self.open.remove(&ticket);
            }
            Action::Settle { job, verdict } => {
                let before = self.verdicts.insert(job.0, (self.now, verdict));
                assert_eq!(before, None, "a second verdict");
            }
            Action::Note(Note::Throttled {
                quota: Quota::Http,
                source,
                capped,
                wait,
                in_flight,
                waiting,
                attempt,
            }) => {
                self.shut_until = self.shut_until.max(self.now.after(wait));
                self.throttles.push(Throttle {
                    at: self.now,
                    source,
                    capped,
                    wait,
                    in_flight,
                    waiting,
                    attempt,
                });
            }
            Action::Note(_)
            | Action::Sign { .. }
            | Action::Send { .. }
            | Action::Outbox { .. }
            | Action::Ended
            | Action::WakeAt(_) => {}
        }
    }

    fn begin(&mut self, ticket: Ticket, job: u64, is_query: bool) {
        let at = self.now;
        assert!(at >= self.shut_until, "a call passed a shut gate at {at}");
        self.open.insert(ticket);
        self.calls.push(Call {
            at,
            ticket,
            job,
            is_query,
        });
    }
}

/// The instant so many seconds after the start.
pub(crate) const fn at(seconds: u64) -> MonoTime {
    MonoTime::from_nanos(seconds * 1_000_000_000)
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// An event whose id is that number.
pub(crate) fn event(number: u64) -> Event {
    let zeros = "0".repeat(64);
    let fields = r#""created_at":1,"kind":9,"tags":[],"content":"""#;
    let keys = format!(r#""pubkey":"{zeros}","sig":"{zeros}{zeros}""#);
    let json = format!(r#"{{"id":"{number:064x}",{keys},{fields}}}"#);
    Event::decode(Bytes::from(json)).expect("an event")
}

fn number(event: &Event) -> u64 {
    let [.., a, b, c, d, e, f, g, h] = event.id().0;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// The number of the one id that a query names.
fn number_in(body: &[u8]) -> u64 {
    let filters: serde_json::Value = serde_json::from_slice(body).expect("filters");
    let id = filters[0]["ids"][0].as_str().expect("an id");
    u64::from_str_radix(&id[48..], 16).expect("a number")
}

pub(crate) fn status(status: u16, body: &str) -> HttpAnswer {
    HttpAnswer {
        status,
        retry_after: None,
        date: None,
        body: Bytes::copy_from_slice(body.as_bytes()),
    }
}

pub(crate) fn with_header(mut answer: HttpAnswer, value: &str) -> HttpAnswer {
    answer.retry_after = Some(Bytes::copy_from_slice(value.as_bytes()));
    answer
}

pub(crate) const fn dated(mut answer: HttpAnswer, date: UnixTime) -> HttpAnswer {
    answer.date = Some(date);
    answer
}

/// The limiter's answer, with a hint.
pub(crate) fn limited(seconds: u64) -> HttpAnswer {
    let text = format!("rate-limited: quota exceeded; retry in {seconds}s");
    status(429, &format!(r#"{{"error":"{text}"}}"#))
}

/// A refusal that says nothing about when.
pub(crate) fn unhinted() -> HttpAnswer {
    status(429, r#"{"error":"slow down"}"#)
}

/// What a relay that works says: it takes a post, and has none of what it is asked for.
pub(crate) fn takes(call: &Call) -> HttpAnswer {
    match call.is_query {
        true => status(200, "[]"),
        false => status(200, r#"{"accepted":true,"message":""}"#),
    }
}

/// The longest that a gate may stay shut beyond the wait it is for.
pub(crate) fn extra_max(wait: Duration) -> Duration {
    (wait / 5).max(ms(1500))
}

/// Whether a gate that is shut for so long was shut for that wait and what is put on top of it.
pub(crate) fn is_for(shut: Duration, wait: Duration) -> bool {
    (wait + ms(500)..=wait + extra_max(wait)).contains(&shut)
}
