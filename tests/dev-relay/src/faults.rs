//! Misbehaviour on order: what a relay, a proxy or a network does on a bad day.

use std::collections::BTreeSet;

/// Whom a fault strikes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Every connection and caller.
    Everyone,
    /// Connections and callers proven to hold this public key (64 hex digits).
    Key(String),
}

impl Target {
    pub(crate) fn includes(&self, key: Option<&str>) -> bool {
        match self {
            Self::Everyone => true,
            Self::Key(wanted) => key == Some(wanted.as_str()),
        }
    }
}

/// An HTTP answer made up on the spot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CannedReply {
    /// HTTP status.
    pub status: u16,
    /// Header names and values; `content-type` is not added.
    pub headers: Vec<(String, String)>,
    /// Body, sent as it is.
    pub body: String,
}

impl CannedReply {
    /// A JSON error as the relay writes it.
    #[must_use]
    pub fn error(status: u16, text: &str) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: serde_json::json!({ "error": text }).to_string(),
        }
    }

    /// An HTML page as a front end writes it.
    #[must_use]
    pub fn html(status: u16) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), "text/html".to_owned())],
            body: format!("<html><head><title>{status}</title></head><body>{status}</body></html>"),
        }
    }

    /// The same with one more header.
    #[must_use]
    pub fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

/// A fault that strikes a number of times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// EVENT is refused with this text, by OK false or by the NOTICE of older relays.
    RefuseEvent(String),
    /// EVENT is refused with this text in a NOTICE, whatever the generation.
    RefuseEventByNotice(String),
    /// REQ is refused with this text in CLOSED.
    RefuseReq(String),
    /// AUTH is refused with this text.
    RefuseAuth(String),
    /// `POST /events` is answered by this instead of being carried out.
    FailEvents(CannedReply),
    /// `POST /query` is answered by this.
    FailQuery(CannedReply),
    /// Any HTTP request except the upgrade is answered by this.
    FailHttp(CannedReply),
    /// `POST /events` is carried out and then answered by this.
    LoseEventsReply(CannedReply),
    /// The upgrade is answered by this.
    RefuseUpgrade(CannedReply),
    /// The connection ends right after the upgrade, without a frame.
    DropConnection,
    /// The challenge sent is not the one expected.
    WrongChallenge,
    /// No challenge is sent.
    WithholdChallenge,
    /// EVENT is carried out, its OK is lost.
    SwallowOk,
    /// AUTH is carried out, its OK is lost.
    SwallowAuthOk,
    /// The EOSE of a REQ is lost.
    SwallowEose,
    /// A REQ is counted and noted by its name, and nothing comes of it.
    IgnoreReq,
    /// A live event is not delivered to a connection.
    WithholdLive,
    /// History breaks off after so many events, without EOSE.
    CutHistory(usize),
    /// History is empty and ends with EOSE, as when the database has just failed.
    EmptyHistory,
}

/// The armed faults.
#[derive(Debug, Default)]
pub struct Faults {
    armed: Vec<Armed>,
    /// Names of requests that were ignored.
    pub(crate) ignored: Vec<String>,
    /// Connections whose socket is not read.
    pub(crate) unread: Switch,
    /// Connections to which nothing is written, and callers that get no answer.
    pub(crate) stalled: Switch,
}

impl Faults {
    /// Arms a fault for the next `times` occasions.
    pub fn arm(&mut self, fault: Fault, target: Target, times: u64) {
        self.armed.push(Armed {
            fault,
            target,
            left: times,
        });
    }

    /// Disarms everything.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// The first armed fault that `pick` wants for this key; it is used up by one.
    pub(crate) fn take<T>(
        &mut self,
        key: Option<&str>,
        pick: impl Fn(&Fault) -> Option<T>,
    ) -> Option<T> {
        for armed in &mut self.armed {
            if armed.left == 0 || !armed.target.includes(key) {
                continue;
            }
            if let Some(found) = pick(&armed.fault) {
                armed.left -= 1;
                self.armed.retain(|armed| armed.left > 0);
                return Some(found);
            }
        }
        None
    }

    /// As [`Faults::take`], for a fault without details.
    pub(crate) fn strikes(&mut self, key: Option<&str>, fault: &Fault) -> bool {
        self.take(key, |armed| (armed == fault).then_some(()))
            .is_some()
    }
}

/// A condition that holds for some connections until it is lifted.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    everyone: bool,
    keys: BTreeSet<String>,
}

impl Switch {
    pub(crate) fn set(&mut self, target: &Target, on: bool) {
        match (target, on) {
            (Target::Everyone, _) => {
                self.everyone = on;
                self.keys.clear();
            }
            (Target::Key(key), true) => {
                self.keys.insert(key.clone());
            }
            (Target::Key(key), false) => {
                self.keys.remove(key);
            }
        }
    }

    pub(crate) fn holds_for(&self, key: Option<&str>) -> bool {
        self.everyone || key.is_some_and(|key| self.keys.contains(key))
    }
}

#[derive(Debug)]
struct Armed {
    fault: Fault,
    target: Target,
    left: u64,
}
