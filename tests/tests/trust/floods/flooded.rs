//! A machine under a flood, and a driver that answers at once.

use std::collections::BTreeMap;
use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::config::{Config, Consumer};
use buzz_proto::ids::{ConnId, EventId, JobId, PubKey};
use buzz_proto::input::Input;
use buzz_proto::machine::Machine;
use buzz_proto::note::Note;
use buzz_proto::publish::{self, Body, Class, Route, Verdict};
use buzz_proto::relay::{self, BrokeCause};
use buzz_proto::time::MonoTime;
use buzz_proto::wire::Draft;
use buzz_sim::machine::machine;
use buzz_sim::relay::given;
use buzz_sim::toy::{self, ME, START, Toy, channel};
use bytes::Bytes;

pub(super) const SECOND: Duration = Duration::from_secs(1);
/// How long a flood goes on, in the machine's time.
pub(super) const SPAN: Duration = Duration::from_secs(600);
/// Notes of one kind in that time: the first, and summaries after 30, 60, 120 and 240 s.
const NOTES_OF_KIND: u32 = 5;
const JOB: JobId = JobId(1);
/// How long the one message of the agent may take. It never can be sent.
const TTL: Duration = Duration::from_secs(120);

/// A machine and a driver that answers at once, with nothing kept of what went in.
pub(super) struct Flooded {
    pub(super) machine: Machine,
    now: MonoTime,
    pub(super) conn: ConnId,
    pub(super) live: String,
    pub(super) page: Option<String>,
    pub(super) delivered: Vec<EventId>,
    submitted: MonoTime,
    verdict: Option<(MonoTime, Verdict)>,
    notes: BTreeMap<String, u32>,
    pub(super) orders: u64,
    /// Whether the relay ends what it is asked for, at once and with nothing in it.
    pub(super) is_answering: bool,
    pub(super) is_taking: bool,
}

impl Flooded {
    /// A subscription is live.
    pub(super) fn new() -> Self {
        let flooded = Self::with(true);
        assert_eq!(flooded.machine.relay().subscriptions_live, 1);
        flooded
    }

    /// A subscription is asked for.
    pub(super) fn unanswered() -> Self {
        let flooded = Self::with(false);
        assert_eq!(flooded.machine.relay().subscriptions_live, 0);
        flooded
    }

    fn with(is_answering: bool) -> Self {
        let mut flooded = Self {
            machine: machine(Config {
                seed: 1,
                me: ME,
                relay: given(&[1]),
                publish: publish::Config::default(),
                consumer: Consumer::External { slots: 64 },
            }),
            now: MonoTime::ZERO,
            conn: ConnId(0),
            live: String::new(),
            page: None,
            delivered: Vec::new(),
            submitted: MonoTime::ZERO,
            verdict: None,
            notes: BTreeMap::new(),
            orders: 0,
            is_answering,
            is_taking: true,
        };
        flooded.tell(Input::WallClock(START));
        flooded.pass(Duration::from_secs(10));
        flooded.notes.clear();
        flooded.submit();
        flooded
    }

    /// The consumer takes all that it has.
    pub(super) fn takes(&mut self) {
        let taken = self.delivered.len() as u64;
        self.tell(Input::Relay(relay::Input::Capacity { taken }));
    }

    /// A message that waits: the relay has no answer to it.
    fn submit(&mut self) {
        self.submitted = self.now;
        let body = Body::SignWhenSent(Draft {
            kind: 9,
            created_at: START,
            tags: Vec::new(),
            content: "hello".to_owned(),
        });
        let submit = publish::Command::Submit {
            job: JOB,
            class: Class::Durable,
            route: Route::Post,
            body,
            ttl: Some(TTL),
        };
        self.tell(Input::Publish(publish::Input::Command(submit)));
    }

    /// Frames come at equal distances for the whole span of a flood.
    pub(super) fn flood(&mut self, frames: impl ExactSizeIterator<Item = Bytes>) {
        let count = u32::try_from(frames.len()).expect("a number of frames");
        let distance = SPAN / count;
        for text in frames {
            self.frame(text);
            self.pass(distance);
        }
        self.pass(SECOND);
    }

    pub(super) fn frame(&mut self, text: Bytes) {
        let conn = self.conn;
        self.tell(Input::Relay(relay::Input::Frame { conn, text }));
    }

    /// Time passes, with a tick at each deadline.
    pub(super) fn pass(&mut self, span: Duration) {
        let end = self.now.after(span);
        while let Some((due, _)) = self.machine.next_deadline().filter(|(at, _)| *at <= end) {
            assert!(due > self.now, "a deadline has passed");
            self.now = due;
            self.tell(Input::Tick);
        }
        self.now = end;
    }

    pub(super) fn tell(&mut self, input: Input) {
        let mut facts = vec![input];
        while !facts.is_empty() {
            for fact in std::mem::take(&mut facts) {
                for order in self.machine.handle_input(fact, self.now) {
                    facts.extend(self.carry_out(order));
                }
            }
        }
    }

    fn carry_out(&mut self, order: Action) -> Vec<Input> {
        use relay::{Action as A, Input as I};
        let order = match order {
            Action::Relay(order) => order,
            Action::Note(note) => {
                self.count(&note);
                return Vec::new();
            }
            Action::Publish(publish::Action::Sign { ticket, draft }) => {
                let event = toy_of(&draft);
                let signed = publish::Input::Signed { ticket, event };
                return vec![Input::Publish(signed)];
            }
            Action::Publish(publish::Action::Settle { job: JOB, verdict }) => {
                self.verdict = Some((self.now, verdict));
                return Vec::new();
            }
            Action::Publish(_) | Action::Schedule(_) | Action::Ended | Action::WakeAt(_) => {
                return Vec::new();
            }
        };
        self.orders += 1;
        let facts = match order {
            A::Connect { conn, .. } => {
                self.conn = conn;
                let text = toy::challenge("who are you");
                let connected = I::Connected { conn, date: None };
                vec![connected, I::Frame { conn, text }]
            }
            A::Send { write, text, .. } => {
                let mut facts = vec![I::Written { write }];
                facts.extend(self.answer(&text));
                facts
            }
            A::Ping { conn } => vec![I::Pong { conn }],
            A::SignAuth { ticket, .. } => {
                let event = Toy::new(self.orders).kind(22_242).author(ME).bytes();
                vec![I::Signed { ticket, event }]
            }
            A::Verify { ticket, .. } => {
                let genuine = true;
                vec![I::Verified { ticket, genuine }]
            }
            A::Inform { ticket } | A::Query { ticket, .. } => {
                let cause = BrokeCause::Connect;
                vec![I::Broke { ticket, cause }]
            }
            A::Deliver { event, .. } => {
                self.delivered.push(event.id());
                let taken = self.delivered.len() as u64;
                let fact = self.is_taking.then_some(I::Capacity { taken });
                Vec::from_iter(fact)
            }
            A::Close { .. }
            | A::Persist { .. }
            | A::Abort { .. }
            | A::Report { .. }
            | A::Channel { .. }
            | A::Receipt { .. }
            | A::RelayKey { .. }
            | A::Link { .. }
            | A::Ended
            | A::Note(_)
            | A::WakeAt(_) => Vec::new(),
        };
        facts.into_iter().map(Input::Relay).collect()
    }

    /// What the relay says to a frame.
    fn answer(&mut self, text: &[u8]) -> Option<relay::Input> {
        let frame: serde_json::Value = serde_json::from_slice(text).expect("a frame");
        let (verb, name) = (frame[0].as_str()?, frame[1].as_str());
        let text = match (verb, name) {
            ("REQ", Some(name)) => {
                if name.starts_with("page-") {
                    self.page = Some(name.to_owned());
                } else {
                    name.clone_into(&mut self.live);
                }
                if !self.is_answering {
                    return None;
                }
                toy::eose(name)
            }
            ("AUTH", _) => {
                let id = serde_json::from_value(frame[1]["id"].clone()).expect("an id");
                toy::ok(id, true, "")
            }
            _ => return None,
        };
        let conn = self.conn;
        Some(relay::Input::Frame { conn, text })
    }

    fn count(&mut self, note: &Note) {
        let of_kind = self.notes.entry(note_kind(note)).or_default();
        *of_kind += 1;
    }

    /// What holds after every flood.
    pub(super) fn is_as_before(&mut self) {
        for (kind, count) in &self.notes {
            assert!(*count <= NOTES_OF_KIND, "{count} notes: {kind}");
        }
        let (at, verdict) = self.verdict.take().expect("the message has a verdict");
        // Where there is no route for it, it went over the socket, and no OK came.
        assert!(matches!(verdict, Verdict::Expired | Verdict::Unknown));
        assert_eq!(at, self.submitted.after(TTL), "it has its verdict in time");
        self.pass(360 * SECOND);
        let view = self.machine.relay();
        assert!(
            view.verifying == 0 && view.subscriptions_live == 1,
            "{view:?}"
        );
        let before = self.delivered.len();
        let live = self.live.clone();
        let dated = START.after(self.now.saturating_since(MonoTime::ZERO));
        let event = Toy::mention(1_000_000, channel(1)).dated(dated);
        self.frame(toy::event_frame(&live, &event));
        assert_eq!(self.delivered[before..], [event.event().id()]);
        // What the relay does not have any more is given up in the end.
        self.pass(12 * 3600 * SECOND);
        assert_eq!(self.machine.relay().lost, 0);
    }
}

/// The kind of a note, or of what it sums up.
fn note_kind(note: &Note) -> String {
    if let Note::Repeated { kind, .. } = note {
        return kind.clone();
    }
    note.kind().to_owned()
}

fn toy_of(draft: &Draft) -> Bytes {
    Toy::new(7)
        .author(PubKey(ME.0))
        .kind(draft.kind)
        .dated(draft.created_at)
        .content(&draft.content)
        .bytes()
}
