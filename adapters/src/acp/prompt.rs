//! What an agent is told about the events of a turn.
//!
//! One text block per event, oldest first: a line that says when, by whom and where, an empty line,
//! and the content as it was written. Nothing in between tells the agent what to do, and text in an
//! event stands in the block of that event alone.

use agent_client_protocol_schema::v1::{ContentBlock, TextContent};
use buzz_proto::schedule::Scope;
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Event;

use super::head;

/// The most bytes of one event's content that go into a prompt. Relays take events of 64 KiB; one
/// that is larger would only crowd out the others in the model's window.
const CONTENT_BYTES_MAX: usize = 64 << 10;

/// Digits of a key or id that tell its bearer apart in a conversation.
const SHORT: usize = 12;

/// Parts the line about an event from its content.
const BREAK: &str = "\n\n";

/// The blocks of one prompt; a preamble comes first.
pub(super) fn render(preamble: Option<&str>, scope: Scope, batch: &[Event]) -> Vec<ContentBlock> {
    let preamble = preamble.map(str::to_owned).into_iter();
    let events = batch.iter().map(|event| block(scope, event));
    preamble
        .chain(events)
        .map(|text| ContentBlock::Text(TextContent::new(text)))
        .collect()
}

/// The content of the event that a block was written for.
pub(super) fn message(block: &str) -> &str {
    block
        .split_once(BREAK)
        .map_or(block, |(_, message)| message)
}

fn block(scope: Scope, event: &Event) -> String {
    let when = utc(event.created_at());
    let author = format!("{:.SHORT$}", event.author().to_string());
    let place = match scope {
        Scope::Conversation(channel) => format!("channel {channel}"),
        Scope::Thread(channel, root) => {
            format!("channel {channel}, thread {:.SHORT$}", root.to_string())
        }
    };
    let content = event.content();
    let kept = head(&content, CONTENT_BYTES_MAX);
    let cut = if kept.len() < content.len() {
        "\n[cut: the message is longer]"
    } else {
        ""
    };
    format!("[{when}] {author} in {place}:{BREAK}{kept}{cut}")
}

/// `2026-01-02 03:04:05 UTC`, in the proleptic Gregorian calendar. Years are counted from March,
/// so that a leap day is the last of its year; an era is 400 years.
fn utc(time: UnixTime) -> String {
    const DAY: u64 = 86_400;
    const ERA: u64 = 146_097;
    // Days from the first of March of the year 0 to the Unix epoch.
    let days = time.0 / DAY + 719_468;
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 3, 0)
    } else {
        (month - 9, 1)
    };
    let year = era * 400 + year + carry;
    let second = time.0 % DAY;
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_in_the_gregorian_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_827_696, "2000-02-29 12:34:56 UTC"),
            (1_767_323_045, "2026-01-02 03:04:05 UTC"),
            (4_107_542_399, "2100-02-28 23:59:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(UnixTime(seconds)), text);
        }
    }

    #[test]
    fn any_time_can_be_shown() {
        assert!(utc(UnixTime(u64::MAX)).ends_with(" UTC"));
    }

    #[test]
    fn a_message_is_what_follows_the_first_empty_line() {
        assert_eq!(message("[when] who:\n\na\n\nb"), "a\n\nb");
        assert_eq!(message("no header"), "no header");
    }
}
