//! A world that answers the publisher as it is told, and checks what it sees.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use buzz_proto::ids::{ChannelId, JobId, Ticket};
use buzz_proto::note::Note;
use buzz_proto::publish::{
    Action, Body, Class, Command, Config, Input, LatestKey, Publisher, Route, Verdict,
};
use buzz_proto::relay::{BrokeCause, HttpAnswer, Receipt};
use buzz_proto::schedule::Scope;
use buzz_proto::seed::Seed;
use buzz_proto::time::MonoTime;
use buzz_proto::wire::Reason;
use bytes::Bytes;

use crate::property::Step;
use crate::support::{draft, event};

const STATUSES: [(u16, &str); 12] = [
    (200, r#"{"accepted":true,"message":""}"#),
    (200, r#"{"accepted":false,"message":"duplicate: had it"}"#),
    (200, r#"{"accepted":false,"message":"blocked: no"}"#),
    (200, "<html>"),
    (
        400,
        r#"{"error":"invalid: event timestamp too far from server time"}"#,
    ),
    (400, r#"{"error":"restricted: unknown event kind"}"#),
    (401, r#"{"error":"NIP-98: replay detected"}"#),
    (403, r#"{"error":"relay_membership_required"}"#),
    (404, "not found"),
    (
        429,
        r#"{"error":"rate-limited: quota exceeded; retry in 4s"}"#,
    ),
    (500, r#"{"error":"internal server error"}"#),
    (503, ""),
];

const REASONS: [&str; 6] = [
    "rate-limited: quota exceeded; retry in 2s",
    "auth-required: not authenticated",
    "error: internal server error",
    "invalid: event timestamp too far from server time",
    "duplicate: had it",
    "blocked: no",
];

/// A relay, a signer and a caller that answer as they are told, and check what they see.
pub(crate) struct World {
    pub(crate) publisher: Publisher,
    pub(crate) now: MonoTime,
    pub(crate) is_stepping: bool,
    jobs: u64,
    events: u64,
    pub(crate) submitted: BTreeSet<JobId>,
    pub(crate) durable: BTreeSet<JobId>,
    pub(crate) verdicts: BTreeMap<JobId, Verdict>,
    signs: Vec<Ticket>,
    posts: Vec<Ticket>,
    sends: Vec<Ticket>,
    /// Until when no post may go.
    shut_until: MonoTime,
    wake: Option<MonoTime>,
    pub(crate) ends: u32,
    /// All that came out, but for wakes, with its time.
    pub(crate) told: Vec<(MonoTime, Action)>,
}

impl World {
    pub(crate) fn new() -> Self {
        let config = Config {
            jobs_max: 24,
            latest_max: 6,
            attempts_max: 1_000,
            durable_ttl: Duration::from_secs(3_600),
            ..Config::default()
        };
        Self {
            publisher: Publisher::new(config, Seed(7), MonoTime::ZERO).expect("it can work"),
            now: MonoTime::ZERO,
            is_stepping: false,
            jobs: 0,
            events: 0,
            submitted: BTreeSet::new(),
            durable: BTreeSet::new(),
            verdicts: BTreeMap::new(),
            signs: Vec::new(),
            posts: Vec::new(),
            sends: Vec::new(),
            shut_until: MonoTime::ZERO,
            wake: None,
            ends: 0,
            told: Vec::new(),
        }
    }

    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::Pass { millis } => self.pass(Duration::from_millis(u64::from(millis))),
            Step::Submit { kind, ttl } => self.submit(kind, ttl),
            Step::Answer { which, how } => {
                if let Some(ticket) = pick(&mut self.posts, which) {
                    self.answer(ticket, how);
                }
            }
            Step::Break { which, how } => {
                if let Some(ticket) = pick(&mut self.posts, which) {
                    let causes = [
                        BrokeCause::Connect,
                        BrokeCause::Connection,
                        BrokeCause::TooLarge,
                    ];
                    let cause = causes[usize::from(how % 3)];
                    self.feed(Input::Broke { ticket, cause });
                }
            }
            Step::Sign { which, works } => {
                if let Some(ticket) = pick(&mut self.signs, which) {
                    self.sign(ticket, works);
                }
            }
            Step::Receive { which, how } => {
                if let Some(ticket) = pick(&mut self.sends, which) {
                    self.receive(ticket, how);
                }
            }
            Step::Link { live } => self.feed(Input::Link { live }),
            Step::Cancel { which } => {
                let job = JobId(u64::from(which) % self.jobs.max(1));
                self.feed(Input::Command(Command::Cancel { job }));
            }
            Step::Stale { ticket } => self.stale(Ticket(u64::from(ticket))),
        }
    }

    fn submit(&mut self, kind: u8, ttl: u8) {
        let job = JobId(self.jobs);
        self.jobs += 1;
        let scope = Scope::Conversation(ChannelId([kind % 5; 16]));
        let class = match kind % 3 {
            0 | 1 => Class::Durable,
            _ => Class::Latest(LatestKey::Typing(scope)),
        };
        let route = if kind & 8 == 0 {
            Route::Post
        } else {
            Route::Socket
        };
        let body = if kind & 16 == 0 {
            self.events += 1;
            Body::Signed(event(self.events))
        } else {
            Body::SignWhenSent(draft(0))
        };
        let ttl = (ttl < 128).then(|| Duration::from_secs(1 + u64::from(ttl)));
        self.submitted.insert(job);
        // Even with all the latest ones there that can be.
        let room = self.publisher.view().durable < 16;
        if class == Class::Durable && room {
            self.durable.insert(job);
        }
        self.feed(Input::Command(Command::Submit {
            job,
            class,
            route,
            body,
            ttl,
        }));
    }

    fn answer(&mut self, ticket: Ticket, how: u8) {
        let (status, body) = STATUSES[usize::from(how) % STATUSES.len()];
        let body = Bytes::from_static(body.as_bytes());
        let retry_after = (how > 200).then(|| Bytes::from_static(b"17"));
        let answer = HttpAnswer {
            status,
            retry_after,
            date: None,
            body,
        };
        self.feed(Input::Answered { ticket, answer });
    }

    fn sign(&mut self, ticket: Ticket, works: bool) {
        self.events += 1;
        let event = event(self.events).raw().clone();
        self.feed(match works {
            true => Input::Signed { ticket, event },
            false => Input::SignFailed { ticket },
        });
    }

    fn receive(&mut self, ticket: Ticket, how: u8) {
        let receipt = match how % 10 {
            0 | 1 => Receipt::Answered {
                accepted: true,
                reason: Reason::new(""),
            },
            2 => Receipt::NotSent,
            3 => Receipt::Unanswered,
            other => {
                let reason = Reason::new(REASONS[usize::from(other - 4)]);
                Receipt::Answered {
                    accepted: false,
                    reason,
                }
            }
        };
        self.feed(Input::Receipt { ticket, receipt });
    }

    /// A completion that nobody awaits changes nothing and is told as such.
    fn stale(&mut self, ticket: Ticket) {
        if self.posts.contains(&ticket) || self.sends.contains(&ticket) {
            return;
        }
        let (view, deadline) = (self.publisher.view(), self.publisher.next_deadline());
        let before = self.told.len();
        self.feed(Input::Broke {
            ticket,
            cause: BrokeCause::Connection,
        });
        assert!(matches!(
            self.told[before..],
            [(_, Action::Note(Note::Stale { .. }))]
        ));
        assert_eq!(
            (self.publisher.view(), self.publisher.next_deadline()),
            (view, deadline)
        );
    }

    fn pass(&mut self, span: Duration) {
        let until = self.now.after(span);
        loop {
            let next = match self.is_stepping {
                true => Some(self.now.after(Duration::from_millis(1))),
                false => self.publisher.next_deadline().map(|(at, _)| at),
            };
            let Some(at) = next.filter(|at| *at <= until) else {
                break;
            };
            self.now = at;
            self.feed(Input::Tick);
        }
        self.now = until;
    }

    /// Nothing answers any more.
    pub(crate) fn run_dry(&mut self) {
        for _ in 0..100_000 {
            let Some((at, _)) = self.publisher.next_deadline() else {
                return;
            };
            self.now = at;
            self.feed(Input::Tick);
        }
        panic!("it never comes to rest");
    }

    /// Everything works from now on.
    pub(crate) fn heal(&mut self) {
        self.feed(Input::Link { live: true });
        for _ in 0..100_000 {
            if let Some(ticket) = self.signs.pop() {
                self.sign(ticket, true);
            } else if let Some(ticket) = self.posts.pop() {
                self.answer(ticket, 0);
            } else if let Some(ticket) = self.sends.pop() {
                self.receive(ticket, 0);
            } else if let Some((at, _)) = self.publisher.next_deadline() {
                self.now = at;
                self.feed(Input::Tick);
            } else {
                return;
            }
        }
        panic!("it never comes to rest");
    }

    pub(crate) fn feed(&mut self, input: Input) {
        let actions = self.publisher.handle_input(input, self.now);
        for (place, action) in actions.iter().enumerate() {
            self.see(action, place + 1 == actions.len());
        }
        let deadline = self.publisher.next_deadline().map(|(at, _)| at);
        assert!(
            deadline.is_none_or(|at| at > self.now),
            "a deadline lies in the past"
        );
        assert_eq!(deadline, self.wake, "a wake was not announced");
        assert_eq!(self.publisher.handle_input(Input::Tick, self.now), []);
        assert!(self.posts.len() <= 4, "more than four posts are under way");
    }

    fn see(&mut self, action: &Action, is_last: bool) {
        match action {
            Action::Sign { ticket, .. } => self.signs.push(*ticket),
            Action::Post { ticket, .. } | Action::Query { ticket, .. } => {
                assert!(self.now >= self.shut_until, "a post passed a shut gate");
                self.posts.push(*ticket);
            }
            Action::Send { ticket, .. } => self.sends.push(*ticket),
            Action::Abort { ticket } => {
                for open in [&mut self.signs, &mut self.posts, &mut self.sends] {
                    open.retain(|other| other != ticket);
                }
            }
            Action::Settle { job, verdict } => {
                assert!(self.submitted.contains(job), "a verdict on no job");
                let before = self.verdicts.insert(*job, verdict.clone());
                assert_eq!(before, None, "a second verdict");
            }
            Action::Ended => self.ends += 1,
            Action::Note(Note::Throttled { wait, .. }) => {
                let until = self.now.after(*wait);
                assert!(until >= self.shut_until, "the gate opens earlier than said");
                self.shut_until = until;
            }
            Action::Note(_) => {}
            Action::WakeAt(at) => {
                assert!(
                    is_last && *at != self.wake,
                    "a wake is last, and only when it changed"
                );
                self.wake = *at;
                return;
            }
        }
        self.told.push((self.now, action.clone()));
    }
}

fn pick(tickets: &mut Vec<Ticket>, which: u8) -> Option<Ticket> {
    let place = usize::from(which).checked_rem(tickets.len())?;
    Some(tickets.remove(place))
}
