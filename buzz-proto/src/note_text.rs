//! Notes as one line for people.

use core::fmt;
use core::time::Duration;

use crate::note::{
    GapWhy, LinkNote, Note, Quota, ReadFailure, RefusedWhy, StaleWhat, SubPhase, TurnFailure,
    TurnOutcome,
};
use crate::publish::Verdict;
use crate::relay::{CloseCause, ConnectCause};
use crate::schedule::{DownCause, Want};
use crate::wire::Excerpt;

/// Writes one line.
pub(crate) fn write(note: &Note, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match note {
        Note::Link(link) => write_link(link, f),
        Note::Subscription { sub, phase } => {
            write!(f, "{sub}: ")?;
            write_phase(phase, f)
        }
        Note::Gap {
            sub,
            count,
            from,
            to,
            why,
        } => {
            match count {
                Some(count) => write!(f, "{sub}: {count} events are lost")?,
                None => write!(f, "{sub}: events may be lost")?,
            }
            write!(f, ", dated {from} to {to}: {}", gap_words(*why))
        }
        Note::Behind { .. }
        | Note::Lagging { .. }
        | Note::CaughtUp { .. }
        | Note::ReadFailed { .. }
        | Note::Missed { .. }
        | Note::Unaudited { .. }
        | Note::DedupShort { .. }
        | Note::RecordAhead { .. }
        | Note::NotPersisted
        | Note::AnswersUnread => write_history(note, f),
        Note::Refused { event, why } => write!(f, "event {event} refused: {}", refused_words(*why)),
        Note::BadFrame { text } => write!(f, "a frame of the relay means nothing: {text}"),
        Note::Notice { reason } => write!(f, "the relay says: {}", reason.text),
        Note::Throttled { .. } => write_throttled(note, f),
        Note::RosterFailed {
            status: Some(status),
        } => {
            write!(
                f,
                "the channel list could not be read: HTTP status {status}"
            )
        }
        Note::RosterFailed { status: None } => {
            f.write_str("the channel list could not be read: no answer")
        }
        Note::Joined { channel } => write!(f, "joined channel {channel}"),
        Note::Left { channel, dropped } => {
            write!(
                f,
                "left channel {channel}, {dropped} waiting events dropped"
            )
        }
        Note::Unpublished { job, verdict } => {
            write!(f, "message {} not published: ", job.0)?;
            write_verdict(verdict, f)
        }
        Note::ClockStepped { seconds } => write!(f, "the clock was set by {seconds} s"),
        Note::ClockSkew { seconds } => write!(
            f,
            "the clock differs from the relay's by {seconds} s; beyond 60 s it refuses to log in"
        ),
        Note::Stale { what } => {
            write!(f, "an outcome came for {} that is over", stale_words(*what))
        }
        Note::Repeated { count, last, .. } => write!(f, "{count} more like: {last}"),
        Note::WorkerUp { .. }
        | Note::WorkerDown { .. }
        | Note::TurnStarted { .. }
        | Note::TurnEnded { .. }
        | Note::Controlled { .. }
        | Note::NothingToControl { .. }
        | Note::HandedBack { .. } => write_work(note, f),
    }
}

fn write_history(note: &Note, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match note {
        Note::Behind { sub, count, from } => write!(
            f,
            "{sub}: {count} events dated from {from} on found no room; they are read again when \
             there is some"
        ),
        Note::Lagging { sub, count, wait } => write!(
            f,
            "{sub}: {count} events have waited for {} to be read again; any room will do now",
            Span(*wait)
        ),
        Note::CaughtUp { sub, count } => {
            write!(f, "{sub}: caught up, {count} events were delivered late")
        }
        Note::ReadFailed { sub, why } => {
            write!(f, "{sub}: stored events could not be read: ")?;
            write_read_failure(why, f)
        }
        Note::Missed { sub, event } => write!(
            f,
            "{sub}: the relay stores event {event}, but did not send it; subscribing again"
        ),
        Note::Unaudited { sub, before } => write!(
            f,
            "{sub}: what is older than {before} was not compared with what the relay stores"
        ),
        Note::DedupShort { dated } => write!(
            f,
            "too many events to remember: one dated {dated} is forgotten and may come again"
        ),
        Note::RecordAhead { sub, seconds } => write!(
            f,
            "{sub}: its record is {seconds} s ahead of the relay's time and is not trusted"
        ),
        Note::NotPersisted => {
            f.write_str("the state could not be written; a restart would read further back")
        }
        _ => f.write_str(
            "what this agent said before its start could not be read; an event may be answered twice",
        ),
    }
}

fn write_read_failure(why: &ReadFailure, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match why {
        ReadFailure::Refused { reason } => write!(f, "the relay refuses: {}", reason.text),
        ReadFailure::Silent => f.write_str("the relay fell silent"),
        ReadFailure::TooLarge => f.write_str("it brought too much"),
        ReadFailure::NotSent => f.write_str("the request could not be sent"),
        ReadFailure::Disconnected => f.write_str("the connection ended"),
        ReadFailure::Http {
            status: Some(status),
        } => write!(f, "HTTP status {status}"),
        ReadFailure::Http { status: None } => f.write_str("no answer"),
        ReadFailure::Empty => f.write_str("it brought nothing, and there is something"),
    }
}

fn write_throttled(note: &Note, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Note::Throttled {
        quota,
        wait,
        in_flight,
        waiting,
        attempt,
        ..
    } = note
    else {
        return f.write_str(note.kind());
    };
    write!(
        f,
        "the relay wants fewer {}: pausing for {}, {in_flight} under way, {waiting} waiting, \
         refusal {attempt} in a row",
        quota_words(*quota),
        Span(*wait)
    )
}

fn write_work(note: &Note, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match note {
        Note::WorkerUp { worker } => write!(f, "worker {} is ready", worker.slot),
        Note::WorkerDown {
            worker,
            cause,
            wait,
        } => {
            write!(f, "worker {} is down: ", worker.slot)?;
            write_down(cause, *wait, f)
        }
        Note::TurnStarted {
            turn,
            scope,
            worker,
            events,
        } => write!(
            f,
            "turn {} on worker {}: {events} events of {scope}",
            turn.0, worker.slot
        ),
        Note::TurnEnded {
            turn,
            scope,
            outcome,
        } => {
            write!(f, "turn {} of {scope}: ", turn.0)?;
            write_outcome(outcome, f)
        }
        Note::Controlled {
            scope,
            want,
            discarded,
        } => {
            write!(
                f,
                "{scope}: {}, {discarded} events discarded",
                want_words(*want)
            )
        }
        Note::NothingToControl { want } => {
            write!(
                f,
                "asked to {}, but nothing is running there",
                want_words(*want)
            )
        }
        Note::HandedBack { scope, count } => {
            write!(
                f,
                "{scope}: {count} events handed back unanswered because the agent ends"
            )
        }
        Note::Link(_)
        | Note::Subscription { .. }
        | Note::Gap { .. }
        | Note::Behind { .. }
        | Note::Lagging { .. }
        | Note::CaughtUp { .. }
        | Note::ReadFailed { .. }
        | Note::Missed { .. }
        | Note::Unaudited { .. }
        | Note::DedupShort { .. }
        | Note::RecordAhead { .. }
        | Note::NotPersisted
        | Note::AnswersUnread
        | Note::Refused { .. }
        | Note::BadFrame { .. }
        | Note::Notice { .. }
        | Note::Throttled { .. }
        | Note::RosterFailed { .. }
        | Note::Joined { .. }
        | Note::Left { .. }
        | Note::Unpublished { .. }
        | Note::ClockStepped { .. }
        | Note::ClockSkew { .. }
        | Note::Stale { .. }
        | Note::Repeated { .. } => f.write_str(note.kind()),
    }
}

fn write_link(link: &LinkNote, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match link {
        LinkNote::Dialing => f.write_str("connecting to the relay"),
        LinkNote::Live {
            authenticated: true,
        } => f.write_str("connected and logged in"),
        LinkNote::Live {
            authenticated: false,
        } => f.write_str("connected; not logged in"),
        LinkNote::Failed { cause } => {
            f.write_str("no connection: ")?;
            write_cause(cause, f)
        }
        LinkNote::AuthRefused { reason } => {
            write!(f, "the relay refuses the login: {}", reason.text)
        }
        LinkNote::Lost { code: Some(code) } => {
            write!(f, "the relay ended the connection with code {code}")
        }
        LinkNote::Lost { code: None } => f.write_str("the connection was lost"),
        LinkNote::Closed { cause } => write!(f, "connection closed: {}", close_words(*cause)),
        LinkNote::Waiting { wait } => write!(f, "connecting again in {}", Span(*wait)),
        LinkNote::Stopped => {
            f.write_str("this relay can never be reached; nothing is tried any more")
        }
    }
}

fn write_cause(cause: &ConnectCause, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match cause {
        ConnectCause::Url => f.write_str("the address cannot be used"),
        ConnectCause::Resolve => f.write_str("the host name has no address"),
        ConnectCause::Transport => f.write_str("the host does not answer, or the connection broke"),
        ConnectCause::Certificate => f.write_str("the relay's certificate is not trusted"),
        ConnectCause::Status { status, text } => write!(f, "HTTP status {status} {text}"),
        ConnectCause::Protocol => f.write_str("the host does not speak WebSocket"),
    }
}

fn write_phase(phase: &SubPhase, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match phase {
        SubPhase::Requested => f.write_str("subscribing"),
        SubPhase::Live => f.write_str("subscribed"),
        SubPhase::Unconfirmed => f.write_str("not confirmed in time, subscribing again"),
        SubPhase::Waiting { reason } => {
            write!(
                f,
                "refused for now, subscribing again later: {}",
                reason.text
            )
        }
        SubPhase::Refused { reason } => write!(f, "refused by the relay: {}", reason.text),
    }
}

fn write_verdict(verdict: &Verdict, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match verdict {
        Verdict::Stored => f.write_str("it is stored"),
        Verdict::Rejected { reason } => write!(f, "the relay refused it: {}", reason.text),
        Verdict::Unknown => f.write_str("it was sent, and no answer came"),
        Verdict::Expired => f.write_str("its time ran out before it could be sent"),
        Verdict::Evicted => f.write_str("there was no room for it"),
        Verdict::Cancelled => f.write_str("it was taken back"),
    }
}

fn write_down(
    cause: &DownCause,
    wait: Option<Duration>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    match cause {
        DownCause::CannotStart { text } => write!(f, "the command cannot be run: {text}"),
        DownCause::NoHandshake { text } => write!(f, "it does not speak ACP: {text}"),
        DownCause::Exited {
            code: Some(code),
            text,
        } => {
            write!(f, "it ended with exit code {code}{}", After(text))
        }
        DownCause::Exited { code: None, text } => {
            write!(f, "it was ended by a signal{}", After(text))
        }
        DownCause::Protocol { text } => write!(f, "it broke the protocol: {text}"),
        DownCause::Killed => f.write_str("it was stopped"),
    }?;
    match wait {
        Some(wait) => write!(f, "; the next start is in {}", Span(wait)),
        None => Ok(()),
    }
}

fn write_outcome(outcome: &TurnOutcome, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match outcome {
        TurnOutcome::Answered => f.write_str("answered"),
        TurnOutcome::Reported { why } => {
            f.write_str("not answered, and said so in the thread: ")?;
            write_failure(why, f)
        }
        TurnOutcome::Unreported { why } => {
            f.write_str("not answered, and that could not be said in the thread: ")?;
            write_failure(why, f)
        }
        TurnOutcome::Discarded => f.write_str("discarded: its scope was stopped or left"),
    }
}

fn write_failure(failure: &TurnFailure, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match failure {
        TurnFailure::Worker { text } => write!(f, "the worker failed: {text}"),
        TurnFailure::WorkerGone => f.write_str("the worker ended during the turn"),
        TurnFailure::NoSession { text } => write!(f, "no session could be opened: {text}"),
        TurnFailure::Idle => f.write_str("the worker fell silent"),
        TurnFailure::TooLong => f.write_str("the turn took too long"),
        TurnFailure::Empty => f.write_str("the worker ended the turn without a word"),
        TurnFailure::NotStored { verdict } => write_verdict(verdict, f),
        TurnFailure::Interrupted => {
            f.write_str("work on it was begun several times and never ended")
        }
        TurnFailure::Overfull => f.write_str("too much was waiting"),
    }
}

const fn gap_words(why: GapWhy) -> &'static str {
    match why {
        GapWhy::NoRoom => "there was no room for them",
        GapWhy::NotStored => "the relay does not have them any more",
        GapWhy::HistoryLimit => "one second of history holds more than one request brings",
        GapWhy::Ended => "the agent ended before they were read again",
        GapWhy::ConsumerGone => "nobody takes them any more",
    }
}

const fn refused_words(why: RefusedWhy) -> &'static str {
    match why {
        RefusedWhy::NotGenuine => "its id or signature is wrong",
        RefusedWhy::NoMatch => "it was not asked for",
        RefusedWhy::Author => "its author may not address this agent",
        RefusedWhy::NoMention => "it does not mention this agent",
        RefusedWhy::Kind => "its kind is not answered",
        RefusedWhy::StaleCommand => "a command dated this far from now is not obeyed",
    }
}

const fn quota_words(quota: Quota) -> &'static str {
    match quota {
        Quota::Operations => "requests on the socket",
        Quota::Messages => "messages on the socket",
        Quota::Http => "HTTP calls",
    }
}

const fn want_words(want: Want) -> &'static str {
    match want {
        Want::Run => "go on",
        Want::Stop => "stop",
        Want::StopAndDrop => "stop and drop what waits",
        Want::StopAndRotate => "stop and start a fresh session",
    }
}

const fn close_words(cause: CloseCause) -> &'static str {
    match cause {
        CloseCause::DialLimit => "connecting took too long",
        CloseCause::AuthLimit => "logging in took too long",
        CloseCause::AuthRefused => "the login was refused",
        CloseCause::Write => "a write took too long or broke",
        CloseCause::Silent => "the relay fell silent",
        CloseCause::Unconfirmed => "the relay confirms no subscription",
        CloseCause::Lossy => "the relay does not send what it stores",
        CloseCause::Requested => "as asked",
        CloseCause::Shutdown => "the agent ends",
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

/// What was said, if anything was.
struct After<'a>(&'a Excerpt);

impl fmt::Display for After<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, ": {}", self.0)
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
