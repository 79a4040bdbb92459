//! What a story tells of, and how it is told twice.

use std::time::Duration;

use buzz_proto::ids::EventId;
use buzz_proto::publish::Verdict;
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_proto::wire::Reason;
use serde_json::Value;

use crate::desk::Desk;

/// Jobs of no story are numbered from this on.
pub(crate) const TRAFFIC: u64 = 900;

/// How a story is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// As it was reported.
    AsReported,
    /// With other traffic, the facts of one instant turned round, and the connection lost once
    /// before the instant of this number.
    Disturbed { outage: u32 },
}

/// Which way a job goes, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// A signed event over the socket.
    Socket,
    /// A signed event over HTTP.
    Post,
    /// A draft over the socket.
    SocketDraft,
    /// A draft over HTTP.
    PostDraft,
}

/// What happens to the agent.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fact {
    /// A job is submitted, with so many seconds to live.
    Submit(u64, Way, u64),
    /// A message is to bear the mark that it was seen.
    React(u64),
    /// The relay answers the newest EVENT of a job.
    Ok(u64, bool, &'static str),
    /// The relay says something of no event.
    Notice(&'static str),
    /// The relay wants to know who we are.
    Challenge,
    /// From now on each post of the story is answered so.
    Web(u16, &'static str),
    /// The open post of a job is answered.
    Answer(u64, u16, &'static str),
    /// The open post of a job breaks: there was no connection.
    Unreachable(u64),
    /// The socket ends.
    Down,
    /// From now on dials succeed, or not.
    Network(bool),
    /// From now on AUTH is refused with these words.
    RefuseAuth(&'static str),
}

/// What was seen of the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// An EVENT on the socket.
    Event { id: EventId, kind: u32 },
    /// A post.
    Post { id: EventId, attempt: u16 },
    /// A draft to sign, so dated.
    Sign(UnixTime),
    /// The relay knows who we are.
    Known,
    /// A job has its verdict.
    Verdict(u64, Verdict),
}

/// Tells a story as reported, and with an outage before each of its instants.
pub(crate) fn twice(begin: impl Fn(Variant) -> Desk, story: impl Fn(&mut Desk)) {
    let instants = tell(begin(Variant::AsReported), &story);
    assert!(instants > 0, "a story has facts");
    for outage in 0..instants {
        tell(begin(Variant::Disturbed { outage }), &story);
    }
}

fn tell(mut desk: Desk, story: impl Fn(&mut Desk)) -> u32 {
    story(&mut desk);
    desk.finish()
}

/// The verdict of a refusal in these words.
pub(crate) fn rejected(words: &str) -> Verdict {
    let reason = Reason::new(words);
    Verdict::Rejected { reason }
}

/// Whether the spans between these times become longer, less what is drawn by lot, and double at
/// least.
pub(crate) fn gaps_grow(times: &[MonoTime]) -> bool {
    const LOT: Duration = Duration::from_secs(1);
    let gaps: Vec<_> = times
        .windows(2)
        .map(|pair| pair[1].saturating_since(pair[0]))
        .collect();
    let (Some(first), Some(last)) = (gaps.first(), gaps.last()) else {
        return false;
    };
    gaps.windows(2).all(|pair| pair[0] < pair[1] + LOT) && *last >= 2 * *first
}

/// The words of an HTTP body of the relay.
pub(crate) fn words(body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    let text = body.get("error").or_else(|| body.get("message"));
    text.and_then(Value::as_str).unwrap_or_default().to_owned()
}
