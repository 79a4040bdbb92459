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

/// What holds of every transcript.
pub(crate) fn check(bench: &Bench) {
    let unique: BTreeSet<_> = bench.delivered.iter().collect();
    if unique.len() != bench.delivered.len() {
        bench.script.fail("an event was delivered twice");
    }
    names_are_new(bench);
    dials_are_apart(bench);
    stated_waits_are_kept(bench);
    let times: Vec<_> = frames(bench)
        .into_iter()
        .filter(|frame| frame.is_counted())
        .map(|frame| frame.at)
        .collect();
    for window in times.windows(FRAMES_MAX + 1) {
        if window[FRAMES_MAX].saturating_since(window[0]) < SPAN {
            bench.script.fail("more frames than the relay allows");
        }
    }
}

fn names_are_new(bench: &Bench) {
    let mut names = BTreeSet::new();
    for request in &bench.requests {
        if request.name != "/query" && !names.insert((request.conn, &request.name)) {
            bench
                .script
                .fail(&format!("{} twice on one connection", request.name));
        }
    }
}

fn dials_are_apart(bench: &Bench) {
    let dials = dials(bench);
    if dials.windows(2).any(|pair| pair[0] == pair[1]) {
        bench.script.fail("two dials at one instant");
    }
}

/// After a word of the relay that names a wait, nothing that it counts is sent before its end.
fn stated_waits_are_kept(bench: &Bench) {
    let (mut requests, mut events) = (MonoTime::ZERO, MonoTime::ZERO);
    let mut open = None;
    for (at, input, actions) in bench.script.calls() {
        if let Input::Connected { conn, .. } = &input {
            open = Some(*conn);
        } else if matches!(input, Input::Closed { .. }) {
            open = None;
        } else if let Input::Frame { conn, text } = &input
            && Some(*conn) == open
        {
            let text = String::from_utf8_lossy(text);
            if let Some(wait) = stated_wait(&text) {
                let end = at.after(wait);
                let is_refused_request = text.starts_with("[\"CLOSED\"");
                if !is_refused_request {
                    events = events.max(end);
                }
                if is_refused_request || wait <= SPAN {
                    requests = requests.max(end);
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
                bench
                    .script
                    .fail(&format!("{at}: a frame within the wait that was stated"));
            }
        }
    }
}

fn stated_wait(text: &str) -> Option<Duration> {
    let (_, rest) = text.split_once("retry in ")?;
    let (seconds, _) = rest.split_once('s')?;
    seconds.parse().ok().map(Duration::from_secs)
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

pub(crate) fn frames(bench: &Bench) -> Vec<Frame> {
    let calls = bench.script.calls();
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
pub(crate) fn when(bench: &Bench, is_wanted: impl Fn(&Action) -> bool) -> Vec<MonoTime> {
    let mut times = Vec::new();
    for (at, _, actions) in bench.script.calls() {
        times.extend(
            actions
                .iter()
                .filter(|action| is_wanted(action))
                .map(|_| at),
        );
    }
    times
}

pub(crate) fn dials(bench: &Bench) -> Vec<MonoTime> {
    when(bench, |action| matches!(action, Action::Connect { .. }))
}

/// When the machine gave a socket up for this cause.
pub(crate) fn closes(bench: &Bench, cause: CloseCause) -> Vec<MonoTime> {
    when(
        bench,
        |action| matches!(action, Action::Close { cause: found, .. } if *found == cause),
    )
}

/// The waits between the end of a socket or dial and the next dial.
pub(crate) fn waits(bench: &Bench) -> Vec<Duration> {
    let mut waits = Vec::new();
    let mut ended = None;
    for (at, input, actions) in bench.script.calls() {
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
pub(crate) fn waits_grow(bench: &Bench) {
    let ups = when(bench, |action| *action == Action::Link { live: true });
    let downs = when(bench, |action| *action == Action::Link { live: false });
    let lasted = |n: usize| downs[n].saturating_since(ups[n]) >= STABLE;
    if (1..downs.len()).any(lasted) {
        return;
    }
    for pair in waits(bench).windows(2) {
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
