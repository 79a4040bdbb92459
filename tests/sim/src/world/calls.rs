//! The HTTP calls of the agent, written down where the relay answers them.

use buzz_proto::time::MonoTime;

/// A `POST` of the agent that reached the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpCall {
    /// When the agent sent it.
    pub sent: MonoTime,
    /// When it reached the relay, which answers at once.
    pub arrived: MonoTime,
    /// When the answer reaches the agent.
    pub answered: MonoTime,
    /// What is called, such as `/events`.
    pub path: String,
    /// The status of the answer.
    pub status: u16,
    /// The seconds in the answer's words `retry in {N}s`, if they stand there.
    pub hint: Option<u64>,
}

impl HttpCall {
    /// Whether a quota refused it.
    #[must_use]
    pub const fn is_over_quota(&self) -> bool {
        self.status == 429
    }
}

/// How long an answer asks the caller to wait, in seconds. Read here without the machine's own
/// reader, which is what is measured.
pub(super) fn hint(body: &str) -> Option<u64> {
    let (_, rest) = body.split_once("retry in ")?;
    rest.split_once('s')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_the_number_in_the_words_of_a_relay() {
        let refusal = |text: &str| hint(&format!("{{\"error\":\"rate-limited: {text}\"}}"));

        assert_eq!(refusal("quota exceeded; retry in 29s"), Some(29));
        assert_eq!(refusal("quota exceeded; retry in 0s"), Some(0));
        assert_eq!(refusal("quota exceeded"), None);
        assert_eq!(refusal("retry in a whiles"), None);
    }
}
