//! What is said: a reply in messages of legal size, and notices in plain words.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Limits, StopReason, Want};
use crate::note::TurnFailure;
use crate::publish::Verdict;
use crate::time::UnixTime;
use crate::utc::Utc;
use crate::wire::Excerpt;

/// Stands at the end of the last message of a reply that is longer than all its messages.
const CUT: &str = "\n\n(The rest of this answer was cut: it is longer than I may post.)";

/// The messages of an answer, or why there is none.
pub(super) fn answer(
    reply: &str,
    stop: StopReason,
    limits: &Limits,
) -> Result<Vec<String>, TurnFailure> {
    let remark = remark(stop);
    let reply = reply.trim();
    match (reply.is_empty(), remark) {
        (true, None) => Err(TurnFailure::Empty),
        (true, Some(remark)) => Err(TurnFailure::Worker {
            text: Excerpt::new(remark),
        }),
        (false, None) => Ok(split(reply, limits)),
        (false, Some(remark)) => Ok(split(&format!("{reply}\n\n({remark}.)"), limits)),
    }
}

/// What to say of an answer that is not complete.
const fn remark(stop: StopReason) -> Option<&'static str> {
    match stop {
        StopReason::EndTurn => None,
        StopReason::MaxTokens => Some("The answer stops here because the model ran out of tokens"),
        StopReason::MaxTurnRequests => {
            Some("The answer stops here because the turn ran out of model requests")
        }
        StopReason::Refusal => Some("The model refused to go on"),
    }
}

/// Splits a text that is not empty into messages.
fn split(text: &str, limits: &Limits) -> Vec<String> {
    let bytes_max = usize::try_from(limits.message_bytes_max).unwrap_or(usize::MAX);
    let parts_max = usize::from(limits.parts_max);
    let mut parts = Vec::new();
    let mut rest = text;
    while rest.len() > bytes_max {
        if parts.len().saturating_add(1) >= parts_max {
            let (head, _) = split_once(rest, bytes_max.saturating_sub(CUT.len()));
            parts.push(format!("{head}{CUT}"));
            return parts;
        }
        let (head, tail) = split_once(rest, bytes_max);
        parts.push(head.to_string());
        rest = tail;
    }
    parts.push(rest.to_string());
    parts.retain(|part| !part.is_empty());
    parts
}

/// The longest beginning of at most `bytes_max` bytes that ends with a line, if that is at least
/// half of them, else with a character; and what follows, without the line end between.
fn split_once(text: &str, bytes_max: usize) -> (&str, &str) {
    let mut end = bytes_max.min(text.len());
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    let (head, _) = text.split_at_checked(end).unwrap_or((text, ""));
    let line = head.rfind('\n').filter(|at| *at >= end / 2);
    let (head, tail) = text
        .split_at_checked(line.unwrap_or(end))
        .unwrap_or((text, ""));
    (head.trim_end(), tail.trim_start_matches('\n'))
}

/// The notice in the thread of a turn that has no answer after so many attempts.
pub(super) fn notice(why: &TurnFailure, attempts: u16) -> String {
    let text = reason(why);
    if attempts > 1 {
        format!("{text} I tried {attempts} times.")
    } else {
        text
    }
}

/// That the workers' account has used up its allowance.
pub(super) fn usage_limited(until: Option<UnixTime>) -> String {
    const LATER: &str = "I will answer as soon as I have one again.";
    match until {
        Some(until) => format!(
            "My worker has used up its allowance until {}. {LATER}",
            Utc(until)
        ),
        None => format!("My worker has used up its allowance. {LATER}"),
    }
}

/// That a command found nothing to act on.
pub(super) fn nothing_to_control(want: Want) -> String {
    let what = match want {
        Want::Run | Want::Stop => "Nothing of mine is running here.",
        Want::StopAndDrop => "Nothing of mine is running or waiting here.",
        Want::StopAndRotate => "I have no session here.",
    };
    what.to_string()
}

fn reason(why: &TurnFailure) -> String {
    const AGAIN: &str = "You can send it again.";
    match why {
        TurnFailure::Worker { text } if text.is_empty() => {
            format!("I could not answer this message: the worker reported a failure. {AGAIN}")
        }
        TurnFailure::Worker { text } => {
            format!("I could not answer this message. The worker said: \"{text}\". {AGAIN}")
        }
        TurnFailure::WorkerGone => {
            format!("I could not answer this message: the worker ended while at it. {AGAIN}")
        }
        TurnFailure::NoSession { text } => format!(
            "I could not answer this message: no session could be opened (\"{text}\"). {AGAIN}"
        ),
        TurnFailure::Idle => format!(
            "I could not answer this message: the worker gave no sign of life for too long. \
             {AGAIN}"
        ),
        TurnFailure::TooLong => {
            format!("I could not answer this message: it took too long. {AGAIN}")
        }
        TurnFailure::Interrupted => format!(
            "I could not answer this message: I was ended several times while at it. {AGAIN}"
        ),
        TurnFailure::UsageLimit => {
            format!("I could not answer this message: my worker has used up its allowance. {AGAIN}")
        }
        TurnFailure::Renewed => {
            format!("I could not answer this message: my worker was replaced. {AGAIN}")
        }
        TurnFailure::Poisonous => {
            "I could not answer this message: several workers ended at it. Sending it again will \
             not help; saying it differently may."
                .to_string()
        }
        TurnFailure::NeedsHuman { text } => format!(
            "I could not answer this message: someone must see to my worker first. It said: \
             \"{text}\". {AGAIN}"
        ),
        TurnFailure::Empty => {
            format!("I did not answer this message: the worker ended without a word. {AGAIN}")
        }
        TurnFailure::NotStored { verdict } => {
            format!(
                "My answer to this message could not be posted{}. {AGAIN}",
                because(verdict)
            )
        }
    }
}

fn because(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Rejected { reason } => format!(" because the relay refused it ({})", reason.text),
        Verdict::Unknown => " as far as I know: the relay did not say".to_string(),
        Verdict::Expired => " in time".to_string(),
        Verdict::Evicted => ": too much was waiting to be posted".to_string(),
        Verdict::Stored | Verdict::Cancelled => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(message_bytes_max: u32, parts_max: u16) -> Limits {
        Limits {
            message_bytes_max,
            parts_max,
            ..Limits::default()
        }
    }

    #[test]
    fn a_text_of_legal_size_is_one_message() {
        let text = "x".repeat(256);
        assert_eq!(split(&text, &limits(256, 8)), [text]);
    }

    #[test]
    fn a_long_text_is_split_at_a_line_where_there_is_one() {
        let text = format!("{}\n{}", "a".repeat(200), "b".repeat(200));
        assert_eq!(
            split(&text, &limits(256, 8)),
            ["a".repeat(200), "b".repeat(200)]
        );
    }

    #[test]
    fn a_text_without_lines_is_split_between_characters() {
        let parts = split(&"é".repeat(300), &limits(257, 8));
        assert_eq!(parts, ["é".repeat(128), "é".repeat(128), "é".repeat(44)]);
    }

    #[test]
    fn what_is_beyond_the_last_message_is_cut_and_said() {
        let parts = split(&"x".repeat(10_000), &limits(256, 2));
        assert_eq!(parts.len(), 2);
        assert!(parts[1].ends_with(CUT));
        assert!(parts.iter().all(|part| part.len() <= 256));
    }
}
