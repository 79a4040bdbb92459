//! What a transcript shows, and what none may.

use std::collections::BTreeSet;
use std::time::Duration;

use buzz_proto::ids::{ConnId, EventId};
use buzz_proto::note::Note;
use buzz_proto::relay::{Action, CloseCause, Input, Sub, SubState};
use buzz_proto::time::MonoTime;
use buzz_sim::bench::{Bench, Request};
use buzz_sim::toy::channel;

/// A relay allows fifty REQs and EVENTs in this span.
const SPAN: Duration = Duration::from_secs(5);
const FRAMES_MAX: usize = 48;
/// A connection that lasts for so long ends the ladder of waits.
const STABLE: Duration = Duration::from_secs(60);
const LAST_RUNG: Duration = Duration::from_secs(60);
/// A longer wait is not obeyed.
const WAIT_MAX_SECONDS: u64 = 300;
/// Every wait is longer than what was stated, by this at least.
pub(crate) const WAIT_EXTRA_MIN: Duration = Duration::from_millis(500);

/// A call of the relay part: its time, what went in, and what came out.
pub(crate) type RelayCall = (MonoTime, Input, Vec<Action>);

/// Whatever has a relay part that was called.
pub(crate) trait Transcript {
    fn relay_calls(&self) -> Vec<RelayCall>;
    /// Ends the test, and shows what went in and came out.
    fn fail(&self, what: &str) -> !;
}

impl Transcript for Bench {
    fn relay_calls(&self) -> Vec<RelayCall> {
        self.script.calls()
    }

    fn fail(&self, what: &str) -> ! {
        self.script.fail(what)
    }
}

/// What holds of every transcript.
pub(crate) fn check(whose: &impl Transcript) {
    names_are_new(whose);
    dials_are_apart(whose);
    stated_waits_are_kept(whose);
    let times: Vec<_> = frames(whose)
        .into_iter()
        .filter(Frame::is_counted)
        .map(|frame| frame.at)
        .collect();
    for window in times.windows(FRAMES_MAX + 1) {
        if window[FRAMES_MAX].saturating_since(window[0]) < SPAN {
            whose.fail("more frames than the relay allows");
        }
    }
}

fn names_are_new(whose: &impl Transcript) {
    let mut names = BTreeSet::new();
    for frame in frames(whose) {
        if frame.verb == "REQ" && !names.insert((frame.conn, frame.name.clone())) {
            whose.fail(&format!("{} twice on one connection", frame.name));
        }
    }
}

fn dials_are_apart(whose: &impl Transcript) {
    let dials = dials(whose);
    if dials.windows(2).any(|pair| pair[0] == pair[1]) {
        whose.fail("two dials at one instant");
    }
}

/// After a word of the relay that names a wait, nothing that it counts is sent before its end, and
/// not in the half second after it.
fn stated_waits_are_kept(whose: &impl Transcript) {
    let (mut requests, mut events) = (MonoTime::ZERO, MonoTime::ZERO);
    let mut open = None;
    for (at, input, actions) in whose.relay_calls() {
        if let Input::Connected { conn, .. } = &input {
            open = Some(*conn);
        } else if matches!(input, Input::Closed { .. }) {
            open = None;
        } else if let Input::Frame { conn, text } = &input
            && Some(*conn) == open
        {
            let text = String::from_utf8_lossy(text);
            if let Some(wait) = stated_wait(&text) {
                let end = at.after(wait + WAIT_EXTRA_MIN);
                let is_refused_request = text.starts_with("[\"CLOSED\"");
                if !is_refused_request {
                    events = events.max(end);
                }
                if is_refused_request || wait <= SPAN {
                    requests = requests.max(end);
                    // An EVENT is charged to both quotas.
                    events = events.max(end);
                }
            }
        }
        for action in &actions {
            let early = match frame(at, action) {
                Some(frame) if frame.verb == "REQ" => at < requests,
                Some(frame) if frame.verb == "EVENT" => at < events,
                _ => false,
            };
            if early {
                whose.fail(&format!("{at}: a frame within the wait that was stated"));
            }
        }
    }
}

/// The wait that a relay states, as far as it is obeyed.
pub(crate) fn stated_wait(text: &str) -> Option<Duration> {
    let (_, rest) = text.split_once("retry in ")?;
    let (seconds, _) = rest.split_once('s')?;
    let seconds: u64 = seconds.parse().ok()?;
    Some(Duration::from_secs(seconds.clamp(1, WAIT_MAX_SECONDS)))
}

/// A frame that was to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) at: MonoTime,
    pub(crate) conn: ConnId,
    pub(crate) verb: String,
    /// The subscription of a REQ or CLOSE.
    pub(crate) name: String,
}

impl Frame {
    /// Whether the relay counts it.
    pub(crate) fn is_counted(&self) -> bool {
        self.verb == "REQ" || self.verb == "EVENT"
    }
}

pub(crate) fn frames(whose: &impl Transcript) -> Vec<Frame> {
    let calls = whose.relay_calls();
    let sent = calls
        .iter()
        .flat_map(|(at, _, actions)| actions.iter().filter_map(|action| frame(*at, action)));
    sent.collect()
}

fn frame(at: MonoTime, action: &Action) -> Option<Frame> {
    let Action::Send { conn, text, .. } = action else {
        return None;
    };
    let frame: Vec<serde_json::Value> = serde_json::from_slice(text).expect("a frame");
    let word = |n: usize| frame[n].as_str().unwrap_or_default().to_owned();
    let (verb, name) = (word(0), word(1));
    Some(Frame {
        at,
        conn: *conn,
        verb,
        name,
    })
}

/// When these orders were given.
pub(crate) fn when(whose: &impl Transcript, is_wanted: impl Fn(&Action) -> bool) -> Vec<MonoTime> {
    let mut times = Vec::new();
    for (at, _, actions) in whose.relay_calls() {
        times.extend(
            actions
                .iter()
                .filter(|action| is_wanted(action))
                .map(|_| at),
        );
    }
    times
}

pub(crate) fn dials(whose: &impl Transcript) -> Vec<MonoTime> {
    when(whose, |action| matches!(action, Action::Connect { .. }))
}

/// When the machine gave a socket up for this cause.
pub(crate) fn closes(whose: &impl Transcript, cause: CloseCause) -> Vec<MonoTime> {
    when(
        whose,
        |action| matches!(action, Action::Close { cause: found, .. } if *found == cause),
    )
}

/// The waits between the end of a socket or dial and the next dial.
pub(crate) fn waits(whose: &impl Transcript) -> Vec<Duration> {
    let mut waits = Vec::new();
    let mut ended = None;
    for (at, input, actions) in whose.relay_calls() {
        if matches!(input, Input::Closed { .. } | Input::ConnectFailed { .. }) {
            ended = ended.or(Some(at));
        }
        for action in actions {
            if matches!(action, Action::Connect { .. })
                && let Some(ended) = ended.take()
            {
                waits.push(at.saturating_since(ended));
            }
        }
    }
    waits
}

/// As long as no connection lasts a minute, no wait is shorter than the one before, the last rung
/// apart.
pub(crate) fn waits_grow(whose: &impl Transcript) {
    let ups = when(whose, |action| *action == Action::Link { live: true });
    let downs = when(whose, |action| *action == Action::Link { live: false });
    let lasted = |n: usize| downs[n].saturating_since(ups[n]) >= STABLE;
    if (1..downs.len()).any(lasted) {
        return;
    }
    for pair in waits(whose).windows(2) {
        assert!(pair[1] >= pair[0].min(LAST_RUNG / 2), "{pair:?}");
    }
}

/// Whether something was told.
pub(crate) fn told(bench: &Bench, is_wanted: impl Fn(&Note) -> bool) -> bool {
    bench
        .script
        .history()
        .any(|action| matches!(action, Action::Note(note) if is_wanted(note)))
}

pub(crate) fn is_caught_up(note: &Note) -> bool {
    matches!(note, Note::CaughtUp { .. })
}

/// How the standing of a channel's subscription changed, and when.
pub(crate) fn standings(bench: &Bench, place: u8) -> Vec<(MonoTime, SubState)> {
    let mut standings = Vec::new();
    for (at, _, actions) in bench.script.calls() {
        for action in actions {
            if let Action::Report { sub, state } = action
                && sub == Sub::Channel(channel(place))
            {
                standings.push((at, state));
            }
        }
    }
    standings
}

/// The requests for pages of a channel.
pub(crate) fn pages(bench: &Bench, place: u8) -> Vec<Request> {
    let those = bench
        .requests
        .iter()
        .filter(|request| request.is_page() && request.channel() == place);
    those.cloned().collect()
}

/// The requests for a channel's live subscription.
pub(crate) fn asked(bench: &Bench, place: u8) -> Vec<Request> {
    let those = bench
        .requests
        .iter()
        .filter(|request| !request.is_page() && request.channel() == place);
    those.cloned().collect()
}

/// When an event was delivered.
pub(crate) fn delivered_at(bench: &Bench, id: EventId) -> Option<MonoTime> {
    let times = when(
        bench,
        |action| matches!(action, Action::Deliver { event, .. } if event.id() == id),
    );
    times.first().copied()
}

/// Demands that these events were delivered.
pub(crate) fn expect_delivered(bench: &Bench, numbers: impl IntoIterator<Item = u64>) {
    for n in numbers {
        if !bench.delivered.contains(&buzz_sim::toy::id(n)) {
            bench.script.fail(&format!("event {n} is missing"));
        }
    }
}
