//! A world that answers the publisher as it is told, and checks what it sees.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use buzz_proto::ids::{ChannelId, EventId, JobId, PubKey, Ticket};
use buzz_proto::note::Note;
use buzz_proto::publish::{
    Action, Body, Class, Command, Config, Input, LatestKey, Mark, Publisher, Route, Verdict,
};
use buzz_proto::relay::{BrokeCause, HttpAnswer, Receipt};
use buzz_proto::schedule::Scope;
use buzz_proto::seed::Seed;
use buzz_proto::time::MonoTime;
use buzz_proto::wire::{Draft, Event, Reason};
use bytes::Bytes;

use crate::held::{Held, is_of_mark};
use crate::property::Step;
use crate::said::{REASONS, STATUSES};
use crate::support::{draft, event, event_of};

/// So few that chance fills half of them.
const JOBS_MAX: u32 = 24;

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
    signs: Vec<(Ticket, Draft)>,
    calls: Vec<(Ticket, Call)>,
    sends: Vec<(Ticket, Event)>,
    pub(crate) held: Held,
    pub(crate) wanted: BTreeMap<EventId, Option<Mark>>,
    /// Whether no message may ever bear two marks: the relay refuses nothing for good.
    pub(crate) is_harmless: bool,
    /// Until when no post may go.
    shut_until: MonoTime,
    wake: Option<MonoTime>,
    /// Whether durable jobs were last said to fill half of the outbox.
    is_half_full: bool,
    pub(crate) ends: u32,
    /// All that came out, but for wakes, with its time.
    pub(crate) told: Vec<(MonoTime, Action)>,
}

/// A call over HTTP.
enum Call {
    Post(Event),
    Query(Bytes),
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_latest_ttl(3_600)
    }

    /// A world in which what is only good to see has this many seconds.
    pub(crate) fn with_latest_ttl(seconds: u64) -> Self {
        let config = Config {
            jobs_max: JOBS_MAX,
            latest_max: 6,
            attempts_max: 1_000,
            durable_ttl: Duration::from_secs(3_600),
            latest_ttl: Duration::from_secs(seconds),
            signature_age: Duration::from_secs(3),
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
            calls: Vec::new(),
            sends: Vec::new(),
            held: Held::default(),
            wanted: BTreeMap::new(),
            is_harmless: false,
            shut_until: MonoTime::ZERO,
            wake: None,
            is_half_full: false,
            ends: 0,
            told: Vec::new(),
        }
    }

    pub(crate) fn take(&mut self, step: Step) {
        match step {
            Step::Pass { millis } => self.pass(Duration::from_millis(u64::from(millis))),
            Step::Submit { kind, ttl } => self.submit(kind, ttl),
            Step::React { message, mark } => self.react(message, mark),
            Step::Answer { which, how } => {
                if let Some((ticket, call)) = pick(&mut self.calls, which) {
                    self.answer(ticket, &call, how);
                }
            }
            Step::Break { which, how } => {
                if let Some((ticket, call)) = pick(&mut self.calls, which) {
                    self.break_off(ticket, &call, how);
                }
            }
            Step::Sign { which, works } => {
                if let Some((ticket, draft)) = pick(&mut self.signs, which) {
                    self.sign(ticket, &draft, works);
                }
            }
            Step::Receive { which, how } => {
                if let Some((ticket, event)) = pick(&mut self.sends, which) {
                    self.receive(ticket, &event, how);
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
            let content = format!("job {}", job.0);
            Body::SignWhenSent(Draft {
                content,
                ..draft(0)
            })
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

    fn react(&mut self, message: u8, mark: u8) {
        let message = EventId([message % 4; 32]);
        let mark = [None, Some(Mark::Seen), Some(Mark::Waiting)][usize::from(mark % 3)];
        self.wanted.insert(message, mark);
        self.feed(Input::Command(Command::React {
            message,
            author: PubKey([3; 32]),
            mark,
        }));
    }

    fn answer(&mut self, ticket: Ticket, call: &Call, how: u8) {
        let place = usize::from(how) % STATUSES.len();
        let (status, body) = STATUSES[place];
        let mut body = Bytes::from_static(body.as_bytes());
        match call {
            Call::Query(question) if place < 3 => body = self.held.rows(question).into(),
            Call::Query(_) => {}
            // Stored, or perhaps stored.
            Call::Post(event) => {
                let leaves_open = matches!(place, 3 | 10 | 11) && (how / 12).is_multiple_of(2);
                if place < 2 || leaves_open {
                    self.hold(event);
                }
            }
        }
        let retry_after = (how > 200).then(|| Bytes::from_static(b"17"));
        let answer = HttpAnswer {
            status,
            retry_after,
            date: None,
            body,
        };
        self.feed(Input::Answered { ticket, answer });
    }

    fn break_off(&mut self, ticket: Ticket, call: &Call, how: u8) {
        let causes = [
            BrokeCause::Connect,
            BrokeCause::Connection,
            BrokeCause::TooLarge,
        ];
        let cause = causes[usize::from(how % 3)];
        if cause != BrokeCause::Connect && (how / 3).is_multiple_of(2) {
            self.arrive(call);
        }
        self.feed(Input::Broke { ticket, cause });
    }

    /// The relay stores an event.
    fn hold(&mut self, event: &Event) {
        self.held.take(event);
        if self.is_harmless {
            assert!(self.held.marks_max() <= 1, "a message bears two marks");
            assert!(!self.held.has_repeats(), "a job is stored under two ids");
        }
    }

    /// The relay takes what it was sent.
    fn arrive(&mut self, call: &Call) {
        match call {
            Call::Post(event) => self.hold(event),
            Call::Query(_) => {}
        }
    }

    fn sign(&mut self, ticket: Ticket, draft: &Draft, works: bool) {
        self.events += 1;
        let event = event_of(self.events, draft).raw().clone();
        self.feed(match works {
            true => Input::Signed { ticket, event },
            false => Input::SignFailed { ticket },
        });
    }

    fn receive(&mut self, ticket: Ticket, event: &Event, how: u8) {
        let leaves_open = how % 10 == 3 && (how / 10).is_multiple_of(2);
        if matches!(how % 10, 0 | 1 | 8) || leaves_open {
            self.hold(event);
        }
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
        if self.calls.iter().any(|(other, _)| *other == ticket) {
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
            if let Some((ticket, draft)) = self.signs.pop() {
                self.sign(ticket, &draft, true);
            } else if let Some((ticket, call)) = self.calls.pop() {
                self.answer(ticket, &call, 0);
            } else if let Some((ticket, event)) = self.sends.pop() {
                self.receive(ticket, &event, 0);
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
        let is_half_full = self.publisher.view().durable * 2 >= JOBS_MAX;
        assert_eq!(is_half_full, self.is_half_full, "half full was not told");
        assert!(self.calls.len() <= 4, "more than four calls are under way");
        assert!(self.steps() <= 1, "two steps towards marks are under way");
    }

    /// Calls under way that change a mark.
    fn steps(&self) -> usize {
        let posts = self.calls.iter().filter_map(|(_, call)| match call {
            Call::Post(event) => Some(event),
            Call::Query(_) => None,
        });
        let sends = self.sends.iter().map(|(_, event)| event);
        posts.chain(sends).filter(|event| is_of_mark(event)).count()
    }

    /// A call was given up. What was sent may arrive all the same.
    fn abort(&mut self, ticket: Ticket) {
        self.signs.retain(|(other, _)| *other != ticket);
        let (over, rest) = self
            .calls
            .drain(..)
            .partition(|(other, _)| *other == ticket);
        self.calls = rest;
        let unsent: Vec<_> = self
            .sends
            .extract_if(.., |(other, _)| *other == ticket)
            .collect();
        if ticket.0.is_multiple_of(2) {
            let over: Vec<(Ticket, Call)> = over;
            over.iter().for_each(|(_, call)| self.arrive(call));
            unsent.iter().for_each(|(_, event)| self.hold(event));
        }
    }

    fn see(&mut self, action: &Action, is_last: bool) {
        match action {
            Action::Sign { ticket, draft } => self.signs.push((*ticket, draft.clone())),
            Action::Post { ticket, event, .. } => {
                assert!(self.now >= self.shut_until, "a post passed a shut gate");
                self.calls.push((*ticket, Call::Post(event.clone())));
            }
            Action::Query { ticket, body } => {
                assert!(self.now >= self.shut_until, "a question passed a shut gate");
                self.calls.push((*ticket, Call::Query(body.clone())));
            }
            Action::Send { ticket, event, .. } => self.sends.push((*ticket, event.clone())),
            Action::Abort { ticket } => self.abort(*ticket),
            Action::Settle { job, verdict } => {
                assert!(self.submitted.contains(job), "a verdict on no job");
                let before = self.verdicts.insert(*job, verdict.clone());
                assert_eq!(before, None, "a second verdict");
            }
            Action::Outbox { is_half_full } => {
                assert_ne!(*is_half_full, self.is_half_full, "said twice");
                self.is_half_full = *is_half_full;
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

fn pick<T>(open: &mut Vec<T>, which: u8) -> Option<T> {
    let place = usize::from(which).checked_rem(open.len())?;
    Some(open.remove(place))
}
