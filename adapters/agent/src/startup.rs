//! Whether a start can succeed.
//!
//! Until the agent was live once, some failures end the program, because whoever started it is
//! there to mend them. After that nothing does: it comes back by itself.

use buzz_adapters::connect::Report;
use buzz_adapters::dial::DialError;
use buzz_proto::note::{LinkNote, Note};
use buzz_proto::relay::{CloseCause, ConnectCause};
use buzz_proto::schedule::{DownCause, Input};
use buzz_proto::wire::{AuthReason, InvalidReason, Reason, ReasonClass};

use crate::exit::{Exit, Failure};

/// A worker that fails this often before any is ready will not become ready: once may be chance,
/// and two start at the same time by default.
const WORKER_FAILURES_MAX: u32 = 3;

/// What is known of the start.
#[derive(Debug)]
pub(crate) struct Startup {
    /// The relay, for sentences.
    relay: String,
    /// The worker's program, for sentences.
    command: String,
    was_live: bool,
    has_joined: bool,
    was_worker_up: bool,
    worker_failures: u32,
    /// Why there is no connection, as last heard.
    obstacle: Option<String>,
    /// Seconds that our clock is ahead of the relay's.
    skew: Option<i64>,
}

impl Startup {
    /// Nothing is known.
    pub(crate) const fn new(relay: String, command: String) -> Self {
        Self {
            relay,
            command,
            was_live: false,
            has_joined: false,
            was_worker_up: false,
            worker_failures: 0,
            obstacle: None,
            skew: None,
        }
    }

    /// Whether the agent was live.
    pub(crate) const fn was_live(&self) -> bool {
        self.was_live
    }

    /// Whether the agent was live and has joined no channel: nobody can speak to it.
    pub(crate) const fn is_alone(&self) -> bool {
        self.was_live && !self.has_joined
    }

    /// Whether the agent has joined a channel.
    pub(crate) const fn has_joined(&self) -> bool {
        self.has_joined
    }

    /// Takes a report; gives the failure if the start cannot succeed.
    pub(crate) fn report(&mut self, report: &Report) -> Option<Failure> {
        if let Report::DialFailed(error) = report {
            return self.dial_failed(error);
        }
        let Report::Note(note) = report else {
            return None;
        };
        self.note(note)
    }

    /// Takes a fact of the workers; gives the failure if the start cannot succeed.
    pub(crate) fn worker(&mut self, fact: &Input) -> Option<Failure> {
        if let Input::WorkerUp { .. } = fact {
            self.was_worker_up = true;
        }
        let Input::WorkerDown { cause, .. } = fact else {
            return None;
        };
        if self.was_worker_up {
            return None;
        }
        let command = &self.command;
        let (why, failures) = match cause {
            DownCause::Killed => return None,
            DownCause::CannotStart { text } => {
                (format!("cannot be started: {text}"), WORKER_FAILURES_MAX)
            }
            DownCause::NoHandshake { text } => (format!("does not speak ACP: {text}"), 1),
            DownCause::Protocol { text } => (format!("does not speak ACP: {text}"), 1),
            DownCause::Exited { code, text } => (exited(*code, text.as_str()), 1),
        };
        self.worker_failures = self.worker_failures.saturating_add(failures);
        (self.worker_failures >= WORKER_FAILURES_MAX).then(|| {
            let text = format!("the worker command {command} {why}; check what stands after --");
            Failure::new(Exit::Worker, text)
        })
    }

    /// The failure of a start that has taken too long.
    pub(crate) fn too_late(&self, seconds: u64) -> Failure {
        let relay = &self.relay;
        let obstacle = self.obstacle.as_deref().unwrap_or("it has not answered");
        let text = format!("{relay} was not reached within {seconds} s: {obstacle}");
        Failure::new(Exit::Unreachable, text)
    }

    fn note(&mut self, note: &Note) -> Option<Failure> {
        // A summary tells the last of what it sums up.
        let note = if let Note::Repeated { last, .. } = note {
            last
        } else {
            note
        };
        if let Note::ClockSkew { seconds } = note {
            self.skew = Some(*seconds);
        }
        if let Note::Joined { .. } = note {
            self.has_joined = true;
        }
        let Note::Link(link) = note else {
            return None;
        };
        self.link(link)
    }

    fn link(&mut self, link: &LinkNote) -> Option<Failure> {
        if self.was_live {
            return None;
        }
        match link {
            LinkNote::Live { .. } => self.was_live = true,
            LinkNote::AuthRefused { reason } => return self.refused(reason),
            LinkNote::Lost { code } => {
                let code = code
                    .map(|code| format!(" (code {code})"))
                    .unwrap_or_default();
                self.obstacle = Some(format!("the relay closed the connection{code}"));
            }
            LinkNote::Closed { cause } => {
                // A refusal was told in the relay's own words.
                if let Some(obstacle) = obstacle_of(*cause) {
                    self.obstacle = Some(obstacle.to_owned());
                }
            }
            // The failed dial itself tells more.
            LinkNote::Failed { .. }
            | LinkNote::Dialing
            | LinkNote::Waiting { .. }
            | LinkNote::Stopped => {}
        }
        None
    }

    fn refused(&mut self, reason: &Reason) -> Option<Failure> {
        let words = &reason.text;
        if !is_final(reason.class) {
            self.obstacle = Some(format!("the relay did not take the key now: {words}"));
            return None;
        }
        let clock = match self.skew {
            Some(seconds) if seconds > 0 => {
                format!("this machine's clock, which is {seconds} s ahead of the relay's")
            }
            Some(seconds) => {
                let seconds = seconds.unsigned_abs();
                format!("this machine's clock, which is {seconds} s behind the relay's")
            }
            None => "this machine's clock".to_owned(),
        };
        Some(Failure::new(
            Exit::Refused,
            format!(
                "{} refuses this key: {words}; check that the key may use this relay, that the \
                 URL names the host under which the relay knows itself, and {clock}",
                self.relay
            ),
        ))
    }

    fn dial_failed(&mut self, error: &DialError) -> Option<Failure> {
        if self.was_live {
            return None;
        }
        self.obstacle = Some(error.to_string());
        match error.cause() {
            ConnectCause::Url => Some(Failure::settings(format!("--relay: {error}"))),
            // Waiting brings no other certificate.
            ConnectCause::Certificate => Some(Failure::new(
                Exit::Unreachable,
                format!(
                    "{}: {error}; give --ca FILE for an authority of your own, or --system-roots",
                    self.relay
                ),
            )),
            ConnectCause::Resolve
            | ConnectCause::Transport
            | ConnectCause::Status { .. }
            | ConnectCause::Protocol => None,
        }
    }
}

fn exited(code: Option<i32>, text: &str) -> String {
    let code = code.map_or_else(
        || "was ended".to_owned(),
        |code| format!("ended with code {code}"),
    );
    if text.is_empty() {
        return format!("{code} before it spoke ACP");
    }
    format!("{code} before it spoke ACP: {text}")
}

const fn obstacle_of(cause: CloseCause) -> Option<&'static str> {
    match cause {
        CloseCause::DialLimit => Some("it did not answer the dial in time"),
        CloseCause::AuthLimit => Some("it did not answer the authentication in time"),
        CloseCause::Write => Some("it does not take what is sent"),
        CloseCause::Silent => Some("it fell silent"),
        CloseCause::AuthRefused
        | CloseCause::Unconfirmed
        | CloseCause::Lossy
        | CloseCause::Requested
        | CloseCause::Shutdown => None,
    }
}

/// Whether the relay will say the same to the same key again.
const fn is_final(class: ReasonClass) -> bool {
    match class {
        ReasonClass::Blocked
        | ReasonClass::Restricted(_)
        | ReasonClass::AuthRequired(AuthReason::VerificationFailed)
        | ReasonClass::Invalid(InvalidReason::TimestampTooFar | InvalidReason::Other) => true,
        ReasonClass::AuthRequired(
            AuthReason::NotAuthenticated
            | AuthReason::AlreadyAuthenticated
            | AuthReason::AlreadyFailed
            | AuthReason::Other,
        )
        | ReasonClass::Empty
        | ReasonClass::Duplicate
        | ReasonClass::RateLimited
        | ReasonClass::Error(_)
        | ReasonClass::Pow
        | ReasonClass::Unsupported
        | ReasonClass::Relay
        | ReasonClass::HttpAuth(_)
        | ReasonClass::Unknown => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use buzz_proto::ids::ChannelId;
    use buzz_proto::schedule::WorkerId;
    use buzz_proto::wire::{Excerpt, RestrictedReason};

    use super::*;

    fn startup() -> Startup {
        Startup::new("wss://relay.example".into(), "goose".into())
    }

    fn refusal(class: ReasonClass, text: &str) -> Report {
        let reason = Reason {
            class,
            text: Excerpt::new(text),
            hint: None,
        };
        Report::Note(Note::Link(LinkNote::AuthRefused { reason }))
    }

    fn live() -> Report {
        Report::Note(Note::Link(LinkNote::Live {
            authenticated: true,
        }))
    }

    fn down(cause: DownCause) -> Input {
        let worker = WorkerId {
            slot: 0,
            incarnation: 1,
        };
        Input::WorkerDown { worker, cause }
    }

    #[test]
    fn a_key_that_may_not_use_the_relay_ends_the_start() {
        let mut startup = startup();
        let restricted = ReasonClass::Restricted(RestrictedReason::NotARelayMember);

        let failure = startup.report(&refusal(restricted, "restricted: not a relay member"));

        let failure = failure.unwrap();
        assert_eq!(failure.exit, Exit::Refused);
        assert!(failure.text.contains("restricted: not a relay member"));
    }

    #[test]
    fn an_agent_is_alone_once_it_is_live_until_it_joins_a_channel() {
        let mut startup = startup();
        assert!(!startup.is_alone());

        assert_eq!(startup.report(&live()), None);
        assert!(startup.is_alone());

        let channel = ChannelId([1; 16]);
        let joined = Report::Note(Note::Joined { channel });
        assert_eq!(startup.report(&joined), None);
        assert!(!startup.is_alone() && startup.has_joined());
    }

    #[test]
    fn a_clock_that_is_known_to_be_wrong_is_named_in_the_refusal() {
        let mut startup = startup();
        assert_eq!(
            startup.report(&Report::Note(Note::ClockSkew { seconds: -90 })),
            None
        );
        let failed = ReasonClass::AuthRequired(AuthReason::VerificationFailed);

        let failure = startup.report(&refusal(failed, "auth-required: verification failed"));

        assert!(failure.unwrap().text.contains("90 s behind the relay's"));
    }

    #[test]
    fn a_relay_that_is_busy_is_no_reason_to_end() {
        let mut startup = startup();
        assert_eq!(
            startup.report(&refusal(ReasonClass::RateLimited, "rate-limited: wait")),
            None
        );
        assert!(startup.too_late(30).text.contains("rate-limited: wait"));
    }

    #[test]
    fn once_live_neither_the_relay_nor_the_network_ends_the_agent() {
        let mut startup = startup();
        assert_eq!(startup.report(&live()), None);

        assert_eq!(
            startup.report(&refusal(ReasonClass::Blocked, "blocked: you")),
            None
        );
        assert_eq!(startup.report(&Report::DialFailed(DialError::Url)), None);
        let certificate = DialError::Certificate(io::Error::other("expired"));
        assert_eq!(startup.report(&Report::DialFailed(certificate)), None);
    }

    #[test]
    fn the_last_failed_dial_stands_in_the_sentence_about_a_late_start() {
        let mut startup = startup();
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(
            startup.report(&Report::DialFailed(DialError::Resolve(refused()))),
            None
        );
        assert_eq!(
            startup.report(&Report::DialFailed(DialError::Io(refused()))),
            None
        );

        let failure = startup.too_late(5);

        assert_eq!(failure.exit, Exit::Unreachable);
        assert_eq!(
            failure.text,
            "wss://relay.example was not reached within 5 s: \
             no connection to the relay: connection refused"
        );
    }

    #[test]
    fn a_command_that_is_missing_ends_the_start_at_once() {
        let mut startup = startup();
        let failure = startup.worker(&down(DownCause::CannotStart {
            text: Excerpt::new("gone"),
        }));
        assert_eq!(
            failure,
            Some(Failure::new(
                Exit::Worker,
                "the worker command goose cannot be started: gone; check what stands after --"
            ))
        );
    }

    #[test]
    fn the_third_failure_of_a_worker_ends_the_start_unless_one_was_up() {
        let exit = || {
            down(DownCause::Exited {
                code: Some(1),
                text: Excerpt::new(""),
            })
        };
        let mut start = startup();
        assert_eq!(start.worker(&exit()), None);
        assert_eq!(start.worker(&exit()), None);
        assert_eq!(
            start.worker(&exit()).map(|failure| failure.exit),
            Some(Exit::Worker)
        );

        let mut start = startup();
        start.was_worker_up = true;
        for _ in 0..10 {
            assert_eq!(start.worker(&exit()), None);
        }
    }
}
