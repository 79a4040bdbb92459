//! Whether calls over HTTP go as the answers to earlier ones allow.

use std::collections::BTreeMap;
use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::ids::Ticket;
use buzz_proto::input::Input;
use buzz_proto::relay::HttpAnswer;
use buzz_proto::time::MonoTime;
use buzz_proto::{publish, relay};

use crate::transcript::{WAIT_EXTRA_MIN, stated_wait};
use crate::whole::Whole;

/// The wait after a failure that states none.
const WAIT: Duration = Duration::from_secs(5);
const WAIT_MAX: Duration = Duration::from_secs(300);
/// Calls under way.
const CALLS_MAX: usize = 4;
/// A relay allows three hundred calls in this span.
const SPAN: Duration = Duration::from_secs(60);
const SPAN_CALLS_MAX: usize = 260;

/// Which part made a call: each numbers its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Relay,
    Publisher,
}

type Call = (Part, Ticket);

/// What the answers so far allow.
#[derive(Debug, Default)]
struct Allowed {
    /// Calls under way, and how many failures were known when each left.
    open: BTreeMap<Call, u64>,
    failures: u64,
    shut_until: MonoTime,
    /// Calls that left after the last failure and were answered well.
    successes: usize,
    left_at: Vec<MonoTime>,
}

/// No call within the wait after a failure; after it one alone, and one more with each that is
/// answered well; never more than four.
pub(crate) fn check(whole: &Whole) {
    let mut allowed = Allowed::default();
    for (at, input, actions) in whole.script.calls() {
        if let Some((call, answer)) = ended(&input) {
            allowed.end(call, answer, at);
        }
        for action in &actions {
            if let Some(call) = aborted(action) {
                allowed.end(call, None, at);
            } else if let Some(call) = begun(action) {
                allowed.begin(call, at, whole);
            }
        }
    }
    for window in allowed.left_at.windows(SPAN_CALLS_MAX + 1) {
        if window[SPAN_CALLS_MAX].saturating_since(window[0]) < SPAN {
            whole.script.fail("more calls than the relay allows");
        }
    }
}

/// The call that a fact ends, and its answer.
fn ended(input: &Input) -> Option<(Call, Option<&HttpAnswer>)> {
    use publish::Input as Publisher;
    use relay::Input as Relay;
    if let Input::Publish(Publisher::Answered { ticket, answer }) = input {
        return Some(((Part::Publisher, *ticket), Some(answer)));
    }
    if let Input::Relay(Relay::Answered { ticket, answer }) = input {
        return Some(((Part::Relay, *ticket), Some(answer)));
    }
    if let Input::Publish(Publisher::Broke { ticket, .. }) = input {
        return Some(((Part::Publisher, *ticket), None));
    }
    let Input::Relay(Relay::Broke { ticket, .. }) = input else {
        return None;
    };
    Some(((Part::Relay, *ticket), None))
}

/// The call that an action gives up.
const fn aborted(action: &Action) -> Option<Call> {
    if let Action::Publish(publish::Action::Abort { ticket }) = action {
        return Some((Part::Publisher, *ticket));
    }
    let Action::Relay(relay::Action::Abort { ticket }) = action else {
        return None;
    };
    Some((Part::Relay, *ticket))
}

/// The call that an action begins.
const fn begun(action: &Action) -> Option<Call> {
    use publish::Action as Publisher;
    if let Action::Publish(Publisher::Post { ticket, .. } | Publisher::Query { ticket, .. }) =
        action
    {
        return Some((Part::Publisher, *ticket));
    }
    let Action::Relay(relay::Action::Query { ticket, .. }) = action else {
        return None;
    };
    Some((Part::Relay, *ticket))
}

impl Allowed {
    fn end(&mut self, call: Call, answer: Option<&HttpAnswer>, at: MonoTime) {
        let Some(known) = self.open.remove(&call) else {
            return;
        };
        // What left before the last failure tells nothing of the present, but for a wait it states.
        let is_present = known == self.failures;
        if answer.is_some_and(|answer| !is_failure(answer.status)) {
            self.successes += usize::from(is_present);
            return;
        }
        let stated = answer.and_then(wait);
        if !is_present && stated.is_none() {
            return;
        }
        self.failures += 1;
        self.successes = 0;
        let wait = stated.unwrap_or(WAIT).min(WAIT_MAX) + WAIT_EXTRA_MIN;
        self.shut_until = self.shut_until.max(at.after(wait));
    }

    fn begin(&mut self, call: Call, at: MonoTime, whole: &Whole) {
        if at < self.shut_until {
            whole
                .script
                .fail(&format!("{at}: a call before {}", self.shut_until));
        }
        let present = self.open.values().filter(|known| **known == self.failures);
        if self.failures > 0 && present.count() > self.successes {
            whole
                .script
                .fail(&format!("{at}: a burst of calls after a failure"));
        }
        self.left_at.push(at);
        self.open.insert(call, self.failures);
        if self.open.len() > CALLS_MAX {
            whole.script.fail(&format!("{at}: too many calls at once"));
        }
    }
}

const fn is_failure(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502..=504)
}

/// The wait in seconds that an answer states; the longer one where it states two.
fn wait(answer: &HttpAnswer) -> Option<Duration> {
    let header = answer.retry_after.as_deref();
    let header = header.and_then(|value| std::str::from_utf8(value).ok()?.parse::<u64>().ok());
    let header = header.map(|seconds| Duration::from_secs(seconds.max(1)));
    header.max(stated_wait(&String::from_utf8_lossy(&answer.body)))
}
