//! Notes as one line for people.

mod history;
mod link;
mod work;

use core::fmt;
use core::time::Duration;

use crate::note::{Note, RefusedWhy, Shown, StaleWhat};

/// Writes one line.
pub(crate) fn write(note: &Note, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match note {
        Note::Link(link) => link::write_link(link, f),
        Note::Subscription { sub, phase } => link::write_subscription(*sub, phase, f),
        Note::Throttled { .. } => link::write_throttled(note, f),
        Note::Notice { reason } => write!(f, "the relay says: {}", reason.text),
        Note::BadFrame { text } => write!(f, "a frame of the relay means nothing: {text}"),
        Note::RosterFailed { status } => link::write_roster_failed(*status, f),
        Note::Joined { channel } => write!(f, "joined channel {channel}"),
        Note::Left { channel, dropped } => link::write_left(*channel, *dropped, f),
        Note::ClockStepped { seconds } => write!(f, "the clock was set by {seconds} s"),
        Note::ClockSkew { seconds } => link::write_clock_skew(*seconds, f),
        Note::Gap { .. } => history::write_gap(note, f),
        Note::Behind { sub, dated } => history::write_behind(*sub, *dated, f),
        Note::Lagging { sub, count, wait } => history::write_lagging(*sub, *count, *wait, f),
        Note::CaughtUp { sub, count } => history::write_caught_up(*sub, *count, f),
        Note::ReadFailed { sub, why } => history::write_read_failed(*sub, why, f),
        Note::Missed { sub, event } => history::write_missed(*sub, *event, f),
        Note::Unaudited { sub, before } => history::write_unaudited(*sub, *before, f),
        Note::DedupShort { dated } => history::write_dedup_short(*dated, f),
        Note::RecordAhead { sub, seconds } => history::write_record_ahead(*sub, *seconds, f),
        Note::NotPersisted => f.write_str(history::NOT_PERSISTED),
        Note::AnswersUnread => f.write_str(history::ANSWERS_UNREAD),
        Note::Refused { event, why } => write!(f, "event {event} refused: {}", refused_words(*why)),
        Note::Unpublished { job, verdict } => work::write_unpublished(*job, verdict, f),
        Note::NotShown { what } => f.write_str(not_shown_words(*what)),
        Note::WorkerUp { .. }
        | Note::WorkerDown { .. }
        | Note::BreakerOpened { .. }
        | Note::TurnStarted { .. }
        | Note::TurnRetried { .. }
        | Note::TurnEnded { .. }
        | Note::ContextUnread { .. }
        | Note::Held { .. }
        | Note::HoldEnded { .. }
        | Note::UsageLimited { .. }
        | Note::UsageRestored
        | Note::Controlled { .. }
        | Note::NothingToControl { .. }
        | Note::HandedBack { .. } => work::write(note, f),
        Note::Stale { what } => {
            write!(f, "an outcome came for {} that is over", stale_words(*what))
        }
        Note::Repeated { count, last, .. } => write!(f, "{count} more like: {last}"),
    }
}

const fn not_shown_words(what: Shown) -> &'static str {
    match what {
        Shown::Presence => "the agent's presence could not be shown",
        Shown::Typing => "that the agent is typing could not be shown",
        Shown::Reaction => "a reaction to a message could not be shown",
    }
}

const fn refused_words(why: RefusedWhy) -> &'static str {
    match why {
        RefusedWhy::NotGenuine => "its id or signature is wrong",
        RefusedWhy::NoMatch => "it was not asked for",
        RefusedWhy::NotTheRelay => "only the relay may sign its kind, and another key has",
        RefusedWhy::Author => "its author may not address this agent",
        RefusedWhy::NoMention => "it does not mention this agent",
        RefusedWhy::Kind => "its kind is not answered",
        RefusedWhy::AuthorUnknown => {
            "it could not be found out whether its author is an agent of the same owner"
        }
        RefusedWhy::StaleCommand => "a command dated this far from now is not obeyed",
    }
}

const fn stale_words(what: StaleWhat) -> &'static str {
    match what {
        StaleWhat::Connection => "a connection",
        StaleWhat::Write => "a write",
        StaleWhat::Signature => "a signature",
        StaleWhat::Verification => "a verification",
        StaleWhat::Call => "an HTTP call",
        StaleWhat::Receipt => "a sent event",
        StaleWhat::Subscription => "a subscription",
        StaleWhat::Worker => "a worker",
        StaleWhat::Turn => "a turn",
        StaleWhat::Job => "a message",
        StaleWhat::Event => "an event",
        StaleWhat::Part => "a part of the machine",
    }
}

/// A span to a tenth of a second.
struct Span(Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0.subsec_millis().checked_div(100).unwrap_or(0);
        write!(f, "{}.{tenths} s", self.0.as_secs())
    }
}
