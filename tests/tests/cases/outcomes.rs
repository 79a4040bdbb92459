//! What a transcript of a whole machine shows, and what none may.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::ids::{ConnId, EventId, JobId, Ticket};
use buzz_proto::input::Input;
use buzz_proto::note::Note;
use buzz_proto::publish::{self, Verdict};
use buzz_proto::relay;
use buzz_proto::schedule;
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_proto::wire::Event;
use buzz_sim::toy;

use crate::jobs::job_of;
use crate::player::{Stage, TRAFFIC};
use crate::polite;
use crate::transcript::{self, RelayCall, Transcript};
use crate::whole::Whole;

/// A relay allows sixty EVENTs to a person in this span.
const MINUTE: Duration = Duration::from_secs(60);
const EVENTS_MAX: usize = 55;
/// Below this age a signature is not made anew.
const SIGNATURE_AGE: Duration = Duration::from_secs(600);
/// The longest wait of a gate, and its spread, is over by then, and so is what waited behind it.
const REST_SECONDS: u64 = 480;

impl Stage for Whole {
    fn instant(&self) -> MonoTime {
        self.now()
    }

    fn pass(&mut self, span: Duration) {
        self.run_for(span);
    }

    fn lose_connection(&mut self) {
        self.disconnect();
    }

    /// A message to somebody else and one of our own, words of a relay that mean nothing, and
    /// answers to what was never asked.
    fn bring_traffic(&mut self, number: u64) {
        self.bring_strange(TRAFFIC + number);
        self.post(TRAFFIC + number);
        self.say(toy::notice("maintenance tonight"));
        self.say(r#"["HELLO","there"]"#);
        self.say(toy::eose("nobody-asked-for-this"));
        self.say(toy::ok(toy::id(TRAFFIC + number), true, ""));
        let ticket = Ticket(u64::MAX - number);
        self.input(Input::Publish(publish::Input::SignFailed { ticket }));
    }

    /// Eight minutes in which the relay takes all that it is given.
    fn come_to_rest(&mut self) {
        self.heal();
        for _ in 0..REST_SECONDS {
            self.run_for(Duration::from_secs(1));
            self.check_present();
        }
    }

    fn check_present(&self) {
        if self.script.part().next_deadline().is_none() {
            self.script.fail("something is wanted and nothing is due");
        }
    }

    fn check_transcript(&self) {
        transcript::check(self);
        polite::check(self);
        each_job_has_one_verdict(self);
        nothing_leaves_after_its_verdict(self);
        what_is_stored_was_accepted(self);
        nothing_is_out_twice(self);
        let sent: Vec<_> = events(self).into_iter().map(|it| it.at).collect();
        for window in sent.windows(EVENTS_MAX + 1) {
            if window[EVENTS_MAX].saturating_since(window[0]) < MINUTE {
                self.script.fail("more EVENTs than the relay allows");
            }
        }
    }
}

impl Transcript for Whole {
    fn relay_calls(&self) -> Vec<RelayCall> {
        let calls = self.script.calls().into_iter();
        let of_relay = calls.map(|(at, input, actions)| {
            let input = if let Input::Relay(input) = input {
                input
            } else {
                relay::Input::Tick
            };
            let actions = actions.into_iter().filter_map(|action| {
                let Action::Relay(action) = action else {
                    return None;
                };
                Some(action)
            });
            (at, input, actions.collect())
        });
        of_relay.collect()
    }

    fn fail(&self, what: &str) -> ! {
        self.script.fail(what)
    }
}

/// An event that was to leave.
#[derive(Clone, Debug)]
pub(crate) struct Leaving {
    pub(crate) at: MonoTime,
    pub(crate) event: Event,
    pub(crate) way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Post(Ticket),
    Socket(ConnId),
}

/// All events that were to leave, in order.
pub(crate) fn leaving(whole: &Whole) -> Vec<Leaving> {
    let calls = whole.script.calls().into_iter();
    let all = calls.flat_map(|(at, _, actions)| {
        let events = actions.into_iter().filter_map(event);
        events.map(move |(event, way)| Leaving { at, event, way })
    });
    all.collect()
}

/// The event that an action sends.
fn event(action: Action) -> Option<(Event, Way)> {
    if let Action::Publish(publish::Action::Post { ticket, event, .. }) = action {
        return Some((event, Way::Post(ticket)));
    }
    let Action::Relay(relay::Action::Send { conn, text, .. }) = action else {
        return None;
    };
    let frame: Vec<serde_json::Value> = serde_json::from_slice(&text).expect("a frame");
    let is_event = frame[0] == "EVENT";
    let decoded = || Event::decode(frame[1].to_string().into()).expect("an event");
    is_event.then(|| (decoded(), Way::Socket(conn)))
}

/// The posts, those of traffic apart.
pub(crate) fn posts(whole: &Whole) -> Vec<Leaving> {
    let mut all = leaving(whole);
    all.retain(|it| matches!(it.way, Way::Post(_)));
    all.retain(|it| job_of(&it.event).is_none_or(|job| job < TRAFFIC));
    all
}

/// When the publisher called over HTTP, to post or to look up.
pub(crate) fn calls(whole: &Whole) -> Vec<MonoTime> {
    let is_call = |action: &Action| {
        matches!(
            action,
            Action::Publish(publish::Action::Post { .. } | publish::Action::Query { .. })
        )
    };
    let all = whole.script.calls().into_iter();
    let times = all.flat_map(|(at, _, actions)| {
        let count = actions.iter().filter(|action| is_call(action)).count();
        std::iter::repeat_n(at, count)
    });
    times.collect()
}

/// The EVENTs on the socket.
pub(crate) fn events(whole: &Whole) -> Vec<Leaving> {
    let mut all = leaving(whole);
    all.retain(|it| matches!(it.way, Way::Socket(_)));
    all
}

/// What left for a job, by either way.
pub(crate) fn leaving_of(whole: &Whole, job: u64) -> Vec<Leaving> {
    let mut all = leaving(whole);
    all.retain(|it| job_of(&it.event) == Some(job));
    all
}

/// The EVENTs of a kind.
pub(crate) fn events_of_kind(whole: &Whole, kind: u32) -> Vec<Leaving> {
    let mut all = events(whole);
    all.retain(|it| it.event.kind() == kind);
    all
}

/// The spans between one and the next.
pub(crate) fn gaps(all: &[Leaving]) -> Vec<Duration> {
    let pairs = all.windows(2);
    pairs
        .map(|pair| pair[1].at.saturating_since(pair[0].at))
        .collect()
}

/// The verdicts on a job; there is never more than one.
pub(crate) fn verdicts(whole: &Whole, job: u64) -> Vec<(MonoTime, Verdict)> {
    let mut all = Vec::new();
    for (at, _, actions) in whole.script.calls() {
        for action in actions {
            if let Action::Publish(publish::Action::Settle { job: of, verdict }) = action
                && of == JobId(job)
            {
                all.push((at, verdict));
            }
        }
    }
    all
}

pub(crate) fn is_stored(whole: &Whole, job: u64) -> bool {
    let all = verdicts(whole, job);
    matches!(all[..], [(_, Verdict::Stored)])
}

pub(crate) fn expect_stored(whole: &Whole, jobs: impl IntoIterator<Item = u64>) {
    for job in jobs {
        if !is_stored(whole, job) {
            let verdicts = verdicts(whole, job);
            whole.script.fail(&format!("job {job}: {verdicts:?}"));
        }
    }
}

/// What the relay said when it refused a job for good.
pub(crate) fn rejection(whole: &Whole, job: u64) -> Option<String> {
    let Verdict::Rejected { reason } = verdicts(whole, job).pop()?.1 else {
        return None;
    };
    Some(reason.text.as_str().to_owned())
}

/// The notes so far, each with its time.
pub(crate) fn notes(whole: &Whole) -> Vec<(MonoTime, Note)> {
    let mut all = Vec::new();
    for (at, _, actions) in whole.script.calls() {
        for action in actions {
            if let Action::Note(note) = action {
                all.push((at, note));
            }
        }
    }
    all
}

/// The event of a job has one id, however often it leaves; one of another date would be another
/// event. Only a signature that a relay would soon find too old is made anew.
pub(crate) fn ids_stay(whole: &Whole) {
    let mut ids: BTreeMap<u64, Leaving> = BTreeMap::new();
    for it in leaving(whole) {
        let Some(job) = job_of(&it.event) else {
            continue;
        };
        let known = ids.entry(job).or_insert_with(|| it.clone());
        if known.event.id() == it.event.id() {
            continue;
        }
        if it.at.saturating_since(known.at) < SIGNATURE_AGE {
            whole.script.fail(&format!("another id for job {job}"));
        }
        *known = it;
    }
}

fn each_job_has_one_verdict(whole: &Whole) {
    for fact in whole.script.facts() {
        let Input::Publish(publish::Input::Command(publish::Command::Submit { job, .. })) = fact
        else {
            continue;
        };
        let verdicts = verdicts(whole, job.0);
        if verdicts.len() != 1 {
            whole.script.fail(&format!("job {}: {verdicts:?}", job.0));
        }
    }
}

fn nothing_leaves_after_its_verdict(whole: &Whole) {
    for it in leaving(whole) {
        let verdict = job_of(&it.event).and_then(|job| verdicts(whole, job).pop());
        if verdict.is_some_and(|(at, _)| at < it.at) {
            let at = it.at;
            whole
                .script
                .fail(&format!("{at}: an event leaves after its verdict"));
        }
    }
}

/// A job is stored when the relay said so, to a post, an EVENT or a look-up.
fn what_is_stored_was_accepted(whole: &Whole) {
    let posted: BTreeMap<Ticket, EventId> = leaving(whole)
        .into_iter()
        .filter_map(|it| match it.way {
            Way::Post(ticket) => Some((ticket, it.event.id())),
            Way::Socket(_) => None,
        })
        .collect();
    let mut accepted = BTreeSet::new();
    for (at, input, actions) in whole.script.calls() {
        accepted.extend(accepts(&input, &posted));
        for action in &actions {
            if let Action::Publish(publish::Action::Settle { job, verdict }) = action
                && *verdict == Verdict::Stored
                && !schedule::is_own_job(*job)
                && !leaving_of(whole, job.0)
                    .iter()
                    .any(|it| accepted.contains(&it.event.id()))
            {
                let job = job.0;
                whole
                    .script
                    .fail(&format!("{at}: job {job} is stored, and nobody said so"));
            }
        }
    }
}

/// The events of which a fact says that the relay has them.
fn accepts(input: &Input, posted: &BTreeMap<Ticket, EventId>) -> Vec<EventId> {
    if let Input::Publish(publish::Input::Answered { ticket, answer }) = input
        && answer.status == 200
    {
        let said: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let found = said.as_array().into_iter().flatten().map(id_of);
        let accepted = posted.get(ticket).filter(|_| said["accepted"] == true);
        return accepted.copied().into_iter().chain(found).collect();
    }
    let Input::Relay(relay::Input::Frame { text, .. }) = input else {
        return Vec::new();
    };
    let frame: Vec<serde_json::Value> = serde_json::from_slice(text).unwrap_or_default();
    match &frame[..] {
        [verb, id, accepts, ..] if verb == "OK" && *accepts == true => id
            .as_str()
            .and_then(|id| id.parse().ok())
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}

fn id_of(event: &serde_json::Value) -> EventId {
    let id = event["id"].as_str().and_then(|id| id.parse().ok());
    id.expect("an id")
}

/// While a post of an event has no answer, no other leaves.
fn nothing_is_out_twice(whole: &Whole) {
    let mut out: BTreeMap<Ticket, EventId> = BTreeMap::new();
    for (at, input, actions) in whole.script.calls() {
        if let Input::Publish(
            publish::Input::Answered { ticket, .. } | publish::Input::Broke { ticket, .. },
        ) = input
        {
            out.remove(&ticket);
        }
        for action in actions {
            if let Action::Publish(publish::Action::Abort { ticket }) = action {
                out.remove(&ticket);
            } else if let Action::Publish(publish::Action::Post { ticket, event, .. }) = action {
                if out.values().any(|id| *id == event.id()) {
                    whole
                        .script
                        .fail(&format!("{at}: two posts of one event at once"));
                }
                out.insert(ticket, event.id());
            }
        }
    }
}

/// How old an event was when it left, by our clock.
pub(crate) fn age(it: &Leaving) -> Duration {
    let wall: UnixTime = toy::START.after(it.at.saturating_since(MonoTime::ZERO));
    wall.saturating_since(it.event.created_at())
}
