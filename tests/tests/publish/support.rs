//! A script: facts with their times, and what comes out, written short.

use std::time::Duration;

use buzz_proto::ids::{JobId, Ticket};
use buzz_proto::note::{Note, Quota, Shown, StaleWhat};
use buzz_proto::publish::{
    Action, Body, Class, Command, Config, Input, LatestKey, Publisher, Route, Verdict,
};
use buzz_proto::relay::{HttpAnswer, Receipt};
use buzz_proto::retry_hint::HintSource;
use buzz_proto::schedule::Scope;
use buzz_proto::seed::Seed;
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_proto::wire::{Draft, Event, Reason};
use bytes::Bytes;

pub(crate) const ACCEPTED: &str = r#"{"accepted":true,"message":""}"#;

pub(crate) struct Script {
    pub(crate) publisher: Publisher,
    pub(crate) last: MonoTime,
}

impl Script {
    pub(crate) fn new() -> Self {
        Self::with(Config::default())
    }

    pub(crate) fn with(config: Config) -> Self {
        let publisher = Publisher::new(config, Seed(7), MonoTime::ZERO).expect("it can work");
        Self {
            publisher,
            last: MonoTime::ZERO,
        }
    }

    pub(crate) fn at(&mut self, millis: u64, input: Input) -> Vec<Action> {
        self.at_time(ms(millis), input)
    }

    /// At the time of the last input.
    pub(crate) fn now(&mut self, input: Input) -> Vec<Action> {
        self.at_time(self.last, input)
    }

    /// When the gate opens that this action speaks of; checks all it says.
    pub(crate) fn gate(
        &self,
        action: &Action,
        source: Option<HintSource>,
        in_flight: u32,
        waiting: u32,
        attempt: u32,
    ) -> MonoTime {
        let Action::Note(Note::Throttled { wait, .. }) = action else {
            panic!("{action:?}")
        };
        let (quota, wait) = (Quota::Http, *wait);
        let said = Note::Throttled {
            quota,
            source,
            capped: false,
            wait,
            in_flight,
            waiting,
            attempt,
        };
        assert_eq!(*action, Action::Note(said));
        self.last.after(wait).round_up()
    }

    pub(crate) fn opening(&self, action: &Action) -> MonoTime {
        let Action::Note(Note::Throttled { wait, .. }) = action else {
            panic!("{action:?}")
        };
        self.last.after(*wait).round_up()
    }

    pub(crate) fn at_time(&mut self, now: MonoTime, input: Input) -> Vec<Action> {
        assert!(now >= self.last, "a script goes forward");
        self.last = now;
        let actions = self.publisher.handle_input(input, now);
        assert!(
            self.publisher
                .next_deadline()
                .is_none_or(|(at, _)| at > now)
        );
        assert_eq!(self.publisher.handle_input(Input::Tick, now), []);
        actions
    }
}

pub(crate) const fn ms(millis: u64) -> MonoTime {
    MonoTime::from_nanos(millis * 1_000_000)
}

pub(crate) fn event(id: u64) -> Event {
    event_of(
        id,
        &Draft {
            created_at: UnixTime(1),
            content: String::new(),
            ..draft(1)
        },
    )
}

/// What a signer makes of a draft, but for the keys.
pub(crate) fn event_of(id: u64, draft: &Draft) -> Event {
    let zeros = "0".repeat(64);
    let tags = serde_json::to_string(&draft.tags).expect("strings");
    let content = serde_json::to_string(&draft.content).expect("a string");
    let (kind, dated) = (draft.kind, draft.created_at.0);
    let fields = format!(r#""created_at":{dated},"kind":{kind},"tags":{tags},"content":{content}"#);
    let keys = format!(r#""pubkey":"{zeros}","sig":"{zeros}{zeros}""#);
    let json = format!(r#"{{"id":"{id:064x}",{keys},{fields}}}"#);
    Event::decode(Bytes::from(json)).expect("an event")
}

pub(crate) fn draft(created_at: u64) -> Draft {
    let created_at = UnixTime(created_at);
    Draft {
        kind: 9,
        created_at,
        tags: Vec::new(),
        content: String::from("hello"),
    }
}

pub(crate) fn command(job: u64, class: Class, route: Route, body: Body, ttl: Option<u64>) -> Input {
    let ttl = ttl.map(Duration::from_secs);
    Input::Command(Command::Submit {
        job: JobId(job),
        class,
        route,
        body,
        ttl,
    })
}

/// A durable job whose event has the job's number as its id.
pub(crate) fn submit(job: u64) -> Input {
    command(
        job,
        Class::Durable,
        Route::Post,
        Body::Signed(event(job)),
        None,
    )
}

pub(crate) fn submit_for(job: u64, seconds: u64) -> Input {
    command(
        job,
        Class::Durable,
        Route::Post,
        Body::Signed(event(job)),
        Some(seconds),
    )
}

pub(crate) fn submit_draft(job: u64) -> Input {
    command(
        job,
        Class::Durable,
        Route::Post,
        Body::SignWhenSent(draft(0)),
        None,
    )
}

pub(crate) fn submit_event(job: u64, seconds: u64) -> Input {
    command(
        job,
        Class::Durable,
        Route::Socket,
        Body::Signed(event(job)),
        Some(seconds),
    )
}

pub(crate) fn latest(job: u64, key: LatestKey) -> Input {
    command(
        job,
        Class::Latest(key),
        Route::Socket,
        Body::Signed(event(job)),
        None,
    )
}

pub(crate) fn typing(channel: u8) -> LatestKey {
    LatestKey::Typing(Scope::Conversation(buzz_proto::ids::ChannelId(
        [channel; 16],
    )))
}

pub(crate) fn cancel(job: u64) -> Input {
    Input::Command(Command::Cancel { job: JobId(job) })
}

pub(crate) fn signed(ticket: u64, id: u64) -> Input {
    Input::Signed {
        ticket: Ticket(ticket),
        event: event(id).raw().clone(),
    }
}

pub(crate) fn answered(ticket: u64, status: u16, body: &str) -> Input {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let answer = HttpAnswer {
        status,
        retry_after: None,
        date: None,
        body,
    };
    Input::Answered {
        ticket: Ticket(ticket),
        answer,
    }
}

pub(crate) fn refused_with_header(ticket: u64, header: &'static str) -> Input {
    let retry_after = Some(Bytes::from_static(header.as_bytes()));
    let answer = HttpAnswer {
        status: 429,
        retry_after,
        date: None,
        body: Bytes::new(),
    };
    Input::Answered {
        ticket: Ticket(ticket),
        answer,
    }
}

pub(crate) fn limited(seconds: u64) -> String {
    format!(r#"{{"error":"rate-limited: quota exceeded; retry in {seconds}s"}}"#)
}

pub(crate) fn accepted(ticket: u64) -> Input {
    let receipt = Receipt::Answered {
        accepted: true,
        reason: Reason::new(""),
    };
    Input::Receipt {
        ticket: Ticket(ticket),
        receipt,
    }
}

pub(crate) fn refused(ticket: u64, text: &str) -> Input {
    let receipt = Receipt::Answered {
        accepted: false,
        reason: Reason::new(text),
    };
    Input::Receipt {
        ticket: Ticket(ticket),
        receipt,
    }
}

pub(crate) fn post(ticket: u64, attempt: u16, id: u64) -> Action {
    Action::Post {
        ticket: Ticket(ticket),
        attempt,
        event: event(id),
    }
}

pub(crate) fn send(ticket: u64, id: u64) -> Action {
    Action::Send {
        ticket: Ticket(ticket),
        durable: true,
        event: event(id),
    }
}

/// What is only good to see, on the socket.
pub(crate) fn show(ticket: u64, id: u64) -> Action {
    Action::Send {
        ticket: Ticket(ticket),
        durable: false,
        event: event(id),
    }
}

/// The question for an event made by [`event`].
pub(crate) fn look_up(ticket: u64, id: u64) -> Action {
    look_up_of(ticket, id, 9)
}

pub(crate) fn look_up_of(ticket: u64, id: u64, kind: u32) -> Action {
    let body = format!(r#"[{{"ids":["{id:064x}"],"kinds":[{kind}],"limit":1}}]"#);
    Action::Query {
        ticket: Ticket(ticket),
        body: Bytes::from(body),
    }
}

/// The answer to a question: these events.
pub(crate) fn found(ticket: u64, ids: &[u64]) -> Input {
    let rows: Vec<_> = ids.iter().map(|id| text_of(&event(*id))).collect();
    answered(ticket, 200, &format!("[{}]", rows.join(",")))
}

fn text_of(event: &Event) -> String {
    String::from_utf8_lossy(event.raw()).into_owned()
}

pub(crate) const fn not_shown(what: Shown) -> Action {
    Action::Note(Note::NotShown { what })
}

pub(crate) const fn abort(ticket: u64) -> Action {
    Action::Abort {
        ticket: Ticket(ticket),
    }
}

pub(crate) const fn stored(job: u64) -> Action {
    Action::Settle {
        job: JobId(job),
        verdict: Verdict::Stored,
    }
}

pub(crate) const fn half_full(is_half_full: bool) -> Action {
    Action::Outbox { is_half_full }
}

pub(crate) const fn evicted(job: u64) -> Action {
    Action::Settle {
        job: JobId(job),
        verdict: Verdict::Evicted,
    }
}

pub(crate) fn rejected(text: &str) -> Verdict {
    Verdict::Rejected {
        reason: Reason::new(text),
    }
}

/// The verdict on a durable job that was not stored, and its note.
pub(crate) fn settle(job: u64, verdict: Verdict) -> Vec<Action> {
    let job = JobId(job);
    let note = Note::Unpublished {
        job,
        verdict: verdict.clone(),
    };
    vec![Action::Settle { job, verdict }, Action::Note(note)]
}

pub(crate) fn with<const N: usize>(mut actions: Vec<Action>, more: [Action; N]) -> Vec<Action> {
    actions.extend(more);
    actions
}

/// The job that an action says is stored.
pub(crate) fn stored_job(action: &Action) -> Option<u64> {
    match action {
        Action::Settle { job, verdict } => (*verdict == Verdict::Stored).then_some(job.0),
        Action::Sign { .. }
        | Action::Post { .. }
        | Action::Query { .. }
        | Action::Abort { .. }
        | Action::Send { .. }
        | Action::Outbox { .. }
        | Action::Ended
        | Action::Note(_)
        | Action::WakeAt(_) => None,
    }
}

/// Ticket and event of a post.
pub(crate) fn posted(action: &Action) -> Option<(u64, u8)> {
    match action {
        Action::Post { ticket, event, .. } => Some((ticket.0, event.id().0[31])),
        Action::Sign { .. }
        | Action::Query { .. }
        | Action::Abort { .. }
        | Action::Send { .. }
        | Action::Settle { .. }
        | Action::Outbox { .. }
        | Action::Ended
        | Action::Note(_)
        | Action::WakeAt(_) => None,
    }
}

pub(crate) const fn stale(what: StaleWhat) -> Action {
    Action::Note(Note::Stale { what })
}

pub(crate) const fn wake(millis: u64) -> Action {
    wake_at(ms(millis))
}

/// The end of a durable job's own limit.
pub(crate) const fn wake_day(submitted: u64) -> Action {
    wake(submitted + 24 * 3_600_000)
}

pub(crate) const fn wake_at(at: MonoTime) -> Action {
    Action::WakeAt(Some(at))
}

pub(crate) const fn sleep() -> Action {
    Action::WakeAt(None)
}

pub(crate) fn without_wake(mut actions: Vec<Action>) -> Vec<Action> {
    actions.retain(|action| !matches!(action, Action::WakeAt(_)));
    actions
}
