//! Scripts: a scheduler, its clock, and short names for what goes in and comes out.

use std::time::Duration;

use buzz_proto::ids::{ChannelId, EventId, JobId, PubKey, TurnId};
use buzz_proto::note::{Note, StaleWhat, TurnOutcome};
use buzz_proto::publish::{self, Body, Class, LatestKey, Route, Verdict};
use buzz_proto::relay::{ChannelKind, ChannelState, Disposal, HttpAnswer, Sub};
use buzz_proto::schedule::{
    Action, Config, Context, DownCause, FailureClass, Input, Limits, RespondTo, Scheduler, Scope,
    Session, SessionRef, StopReason, TurnEnd, WorkerId,
};
use buzz_proto::seed::Seed;
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_proto::wire::{Draft, Event, Excerpt};
use bytes::Bytes;

pub(crate) const ME: PubKey = PubKey([0xaa; 32]);
pub(crate) const OWNER: PubKey = PubKey([0xbb; 32]);
pub(crate) const STRANGER: PubKey = PubKey([0xcc; 32]);
pub(crate) const ROOM: ChannelId = ChannelId([1; 16]);
pub(crate) const DIRECT: ChannelId = ChannelId([2; 16]);
/// The wall clock at the start of every script.
pub(crate) const START: u64 = 1_700_000_000;

pub(crate) struct Script {
    pub(crate) scheduler: Scheduler,
    now: MonoTime,
}

impl Script {
    /// A scheduler that was told the time and two channels; its workers start.
    pub(crate) fn new(config: Config) -> Self {
        let now = MonoTime::ZERO;
        let scheduler = Scheduler::new(config, ME, Seed(7), now).expect("the settings work");
        let mut script = Self { scheduler, now };
        script.give(Input::WallClock(UnixTime(START)));
        script.give(joined(ROOM, ChannelKind::Stream));
        script.give(joined(DIRECT, ChannelKind::Direct));
        script
    }

    /// As `new`, and all workers are up.
    pub(crate) fn working(config: Config) -> Self {
        let workers = config.workers;
        let mut script = Self::new(config);
        for slot in 0..workers {
            script.give(Input::WorkerUp {
                worker: worker(slot),
            });
        }
        script
    }

    /// Feeds an input; gives what must be done, the wake apart, which is checked here.
    pub(crate) fn give(&mut self, input: Input) -> Vec<Action> {
        let before = self.scheduler.next_deadline();
        let mut actions = self.scheduler.handle_input(input, self.now);
        let deadline = self.scheduler.next_deadline();
        assert!(
            deadline.is_none_or(|(at, _)| at > self.now),
            "{deadline:?} has passed"
        );
        let wake = deadline.map(|(at, _)| at);
        if before.map(|(at, _)| at) != wake {
            assert_eq!(actions.pop(), Some(Action::WakeAt(wake)));
        }
        assert!(
            !actions
                .iter()
                .any(|action| matches!(action, Action::WakeAt(_)))
        );
        assert_eq!(
            self.scheduler.handle_input(Input::Tick, self.now),
            [],
            "a second tick"
        );
        actions
    }

    /// Lets time pass, then ticks.
    pub(crate) fn wait(&mut self, span: Duration) -> Vec<Action> {
        self.now = self.now.after(span);
        self.give(Input::Tick)
    }

    pub(crate) const fn now(&self) -> MonoTime {
        self.now
    }

    /// Lets time pass, and no tick comes in time.
    pub(crate) fn sleep(&mut self, span: Duration) {
        self.now = self.now.after(span);
    }

    /// Ticks at the next deadline; a tick just before it does nothing.
    pub(crate) fn jump(&mut self) -> Vec<Action> {
        if let Some((at, _)) = self.scheduler.next_deadline() {
            let early = MonoTime::from_nanos(at.as_nanos() - 1);
            self.now = self.now.max(early);
            assert_eq!(self.give(Input::Tick), [], "an early tick");
            self.now = at;
        }
        self.give(Input::Tick)
    }

    pub(crate) fn arrive(&mut self, event: &Event) -> Vec<Action> {
        self.give(arrived(event))
    }

    /// An event arrives and its turn is prompting.
    pub(crate) fn prompt(&mut self, turn: u64, event: &Event) {
        self.arrive(event);
        assert_eq!(self.give(Input::SessionOpened { turn: TurnId(turn) }), []);
    }
}

/// One worker, everyone may speak, nothing is shown but answers.
pub(crate) fn config() -> Config {
    Config {
        respond_to: RespondTo::Anyone,
        owner: Some(OWNER),
        cosmetics: false,
        marks: false,
        limits: limits(),
        ..Config::new(1)
    }
}

/// The usual limits, and no fresh session is told what was said before.
pub(crate) fn limits() -> Limits {
    Limits {
        context_max: 0,
        ..Limits::default()
    }
}

pub(crate) fn two_workers() -> Config {
    Config {
        workers: 2,
        ..config()
    }
}

pub(crate) const fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

pub(crate) const fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The first life of the worker in a slot.
pub(crate) const fn worker(slot: u16) -> WorkerId {
    life(slot, 1)
}

pub(crate) const fn life(slot: u16, incarnation: u32) -> WorkerId {
    WorkerId { slot, incarnation }
}

pub(crate) const fn session(slot: u16, epoch: u64) -> SessionRef {
    SessionRef {
        worker: worker(slot),
        epoch,
    }
}

pub(crate) fn id(n: u16) -> EventId {
    let mut bytes = [0; 32];
    bytes[..2].copy_from_slice(&n.to_be_bytes());
    EventId(bytes)
}

/// What an event says, with defaults that are let in.
pub(crate) struct Said {
    pub(crate) id: u16,
    pub(crate) author: PubKey,
    pub(crate) kind: u32,
    pub(crate) created_at: u64,
    pub(crate) channel: ChannelId,
    /// The root of the thread that it answers in.
    pub(crate) root: Option<u16>,
    pub(crate) mentions: bool,
    pub(crate) content: &'static str,
}

impl Default for Said {
    fn default() -> Self {
        Self {
            id: 1,
            author: STRANGER,
            kind: 9,
            created_at: START,
            channel: ROOM,
            root: None,
            mentions: true,
            content: "hello",
        }
    }
}

impl Said {
    pub(crate) fn event(&self) -> Event {
        let mut tags = vec![format!(r#"["h","{}"]"#, self.channel)];
        if let Some(root) = self.root {
            tags.push(format!(r#"["e","{}","","reply"]"#, id(root)));
        }
        if self.mentions {
            tags.push(format!(r#"["p","{ME}"]"#));
        }
        let text = format!(
            r#"{{"id":"{}","pubkey":"{}","created_at":{},"kind":{},"tags":[{}],"content":"{}","sig":"{}"}}"#,
            id(self.id),
            self.author,
            self.created_at,
            self.kind,
            tags.join(","),
            self.content,
            "0".repeat(128),
        );
        Event::decode(Bytes::from(text)).expect("an event of legal form")
    }
}

/// A mention at top level.
pub(crate) fn mention(n: u16) -> Event {
    Said {
        id: n,
        ..Said::default()
    }
    .event()
}

/// A mention in the thread of a root.
pub(crate) fn reply(n: u16, root: u16) -> Event {
    Said {
        id: n,
        root: Some(root),
        ..Said::default()
    }
    .event()
}

/// A command of the owner.
pub(crate) fn command(n: u16, root: Option<u16>, content: &'static str) -> Event {
    Said {
        id: n,
        root,
        author: OWNER,
        content,
        ..Said::default()
    }
    .event()
}

pub(crate) fn thread(root: u16) -> Scope {
    Scope::Thread(ROOM, id(root))
}

pub(crate) fn sub_of(event: &Event) -> Sub {
    Sub::Channel(event.channel().expect("an event of a channel"))
}

pub(crate) fn arrived(event: &Event) -> Input {
    begun(event, 0)
}

/// The arrival of an event on which work was begun in so many earlier lives.
pub(crate) fn begun(event: &Event, lives: u32) -> Input {
    Input::Arrived {
        sub: sub_of(event),
        event: event.clone(),
        lives,
    }
}

pub(crate) const fn joined(channel: ChannelId, kind: ChannelKind) -> Input {
    Input::Channel {
        channel,
        state: ChannelState::Joined { kind },
    }
}

pub(crate) fn answered(turn: u64, reply: &str) -> Input {
    let end = TurnEnd::Answered {
        reply: reply.to_string(),
        stop: StopReason::EndTurn,
    };
    Input::Finished {
        turn: TurnId(turn),
        end,
    }
}

pub(crate) const fn settled(job: u64, verdict: Verdict) -> Input {
    Input::Settled {
        job: reply_job(job),
        verdict,
    }
}

/// The n-th message of answers, counted from zero.
pub(crate) const fn reply_job(n: u64) -> JobId {
    JobId((1 << 63) + n)
}

pub(crate) const fn cosmetic_job(n: u64) -> JobId {
    JobId((3 << 62) + n)
}

pub(crate) const fn note(note: Note) -> Action {
    Action::Note(note)
}

pub(crate) const fn stale(what: StaleWhat) -> Action {
    note(Note::Stale { what })
}

pub(crate) const fn left(channel: ChannelId, count: u32) -> Action {
    Action::Left {
        sub: Sub::Channel(channel),
        count,
    }
}

pub(crate) fn dispose(n: u16, how: Disposal) -> Action {
    Action::Dispose { event: id(n), how }
}

pub(crate) const fn ended(turn: u64, scope: Scope, outcome: TurnOutcome) -> Action {
    note(Note::TurnEnded {
        turn: TurnId(turn),
        scope,
        outcome,
    })
}

pub(crate) const fn cancel(turn: u64) -> Action {
    Action::CancelTurn { turn: TurnId(turn) }
}

/// What begins a turn: the events leave the queue, are told as worked on, and the worker gets them.
pub(crate) fn start(turn: u64, scope: Scope, session: Session, batch: &[Event]) -> Vec<Action> {
    let count = u32::try_from(batch.len()).expect("a small batch");
    let turn = TurnId(turn);
    let worker = session.reference().worker;
    vec![
        left(scope.channel(), count),
        note(Note::TurnStarted {
            turn,
            scope,
            worker,
            events: count,
        }),
        started(batch),
        Action::Start {
            turn,
            session,
            scope,
            batch: batch.to_vec(),
            context: Context::Known,
        },
    ]
}

/// What begins another attempt: as `start`, but the events left the queue before.
pub(crate) fn again(turn: u64, scope: Scope, session: Session, batch: &[Event]) -> Vec<Action> {
    let mut actions = start(turn, scope, session, batch);
    actions.remove(0);
    actions
}

/// These events, oldest first, are worked on.
pub(crate) fn started(batch: &[Event]) -> Action {
    Action::Started {
        events: batch.iter().map(Event::id).collect(),
        target: batch.last().expect("a batch").id(),
    }
}

/// The message that is submitted to answer an event at top level of the room.
pub(crate) fn message(job: u64, answers: u16, created_at: u64, content: &str) -> Action {
    posted(
        job,
        created_at,
        content,
        &[&["e", &id(answers).to_string(), "", "reply"]],
    )
}

/// A message with these `e` tags.
pub(crate) fn posted(job: u64, created_at: u64, content: &str, threads: &[&[&str]]) -> Action {
    let tag = |values: &[&str]| {
        values
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<String>>()
    };
    let mut tags = vec![tag(&["h", &ROOM.to_string()])];
    tags.extend(threads.iter().map(|values| tag(values)));
    tags.push(tag(&["p", &STRANGER.to_string()]));
    let draft = Draft {
        kind: 9,
        created_at: UnixTime(created_at),
        tags,
        content: content.to_string(),
    };
    Action::Publish(publish::Command::Submit {
        job: reply_job(job),
        class: Class::Durable,
        route: Route::Post,
        body: Body::SignWhenSent(draft),
        ttl: None,
    })
}

pub(crate) fn shown(job: u64, key: LatestKey, draft: Draft, ttl: Option<Duration>) -> Action {
    Action::Publish(publish::Command::Submit {
        job: cosmetic_job(job),
        class: Class::Latest(key),
        route: Route::Socket,
        body: Body::SignWhenSent(draft),
        ttl,
    })
}

/// The worker in a slot ends by itself in its first life.
pub(crate) fn crashed(slot: u16) -> Input {
    Input::WorkerDown {
        worker: worker(slot),
        cause: exited(),
    }
}

pub(crate) fn exited() -> DownCause {
    DownCause::Exited {
        code: Some(1),
        text: Excerpt::new("out of memory"),
    }
}

/// The answer to a query.
pub(crate) fn found(events: &[Event]) -> HttpAnswer {
    let events: Vec<&str> = events
        .iter()
        .map(|event| std::str::from_utf8(event.raw()).expect("JSON"))
        .collect();
    HttpAnswer {
        status: 200,
        retry_after: None,
        date: None,
        body: Bytes::from(format!("[{}]", events.join(","))),
    }
}

/// An event of any kind with these tags.
pub(crate) fn tagged(n: u16, author: PubKey, kind: u32, tags: &[&[&str]]) -> Event {
    let tags = serde_json::to_string(tags).expect("JSON");
    let signature = "0".repeat(128);
    let text = format!(
        r#"{{"id":"{}","pubkey":"{author}","created_at":{START},"kind":{kind},"tags":{tags},
            "content":"","sig":"{signature}"}}"#,
        id(n)
    );
    Event::decode(Bytes::from(text)).expect("an event of legal form")
}

/// A turn ended in vain.
pub(crate) fn failed(turn: u64, class: FailureClass) -> Input {
    let text = Excerpt::new("no");
    Input::Finished {
        turn: TurnId(turn),
        end: TurnEnd::Failed { class, text },
    }
}
