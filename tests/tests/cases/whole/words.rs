//! What a relay says.

use buzz_proto::relay::HttpAnswer;
use buzz_proto::time::UnixTime;
use bytes::Bytes;

/// What a relay says of an EVENT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Word {
    Yes,
    No(&'static str),
    Nothing,
}

/// What a relay says to a post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) retry_after: Option<String>,
    pub(crate) date: Option<UnixTime>,
    pub(crate) body: String,
}

impl Said {
    pub(crate) fn new(status: u16, body: &str) -> Self {
        Self {
            status,
            retry_after: None,
            date: None,
            body: body.to_owned(),
        }
    }

    pub(crate) fn accepted() -> Self {
        Self::new(200, r#"{"accepted":true,"message":""}"#)
    }

    pub(crate) fn error(status: u16, text: &str) -> Self {
        Self::new(status, &format!(r#"{{"error":"{text}"}}"#))
    }

    /// A 429 that states no wait.
    pub(crate) fn limited() -> Self {
        Self::error(429, "rate-limited: quota exceeded")
    }

    /// A 429 that states a wait in its text.
    pub(crate) fn limited_for(seconds: u64) -> Self {
        let text = format!("rate-limited: quota exceeded; retry in {seconds}s");
        Self::error(429, &text)
    }

    pub(crate) fn retry_after(mut self, value: &str) -> Self {
        self.retry_after = Some(value.to_owned());
        self
    }

    pub(crate) const fn dated(mut self, date: UnixTime) -> Self {
        self.date = Some(date);
        self
    }

    /// Whether it says that the relay has the event.
    pub(super) fn is_acceptance(&self) -> bool {
        self.status == 200 && self.body.contains(r#""accepted":true"#)
    }

    /// Whether any call would be answered so, whatever it asks.
    pub(super) const fn is_of_the_relay(&self) -> bool {
        matches!(self.status, 408 | 425 | 429 | 500..=599)
    }

    pub(super) fn answer(&self) -> HttpAnswer {
        HttpAnswer {
            status: self.status,
            retry_after: self.retry_after.clone().map(Bytes::from),
            date: self.date,
            body: Bytes::from(self.body.clone()),
        }
    }
}
