//! Traces: what went into a machine and what came out, as JSON Lines that replay to the same
//! actions.
//!
//! The first line holds the settings, `{"v":1,"config":{…}}`. Each other line is one call,
//! `{"t":<ns>,"in":{"<part>":{"<Variant>":{…}}},"out":[…]}`; `out` may be missing. Unknown fields
//! are errors. A recorded machine is built at [`MonoTime::ZERO`], and secrets never enter it, so a
//! trace can be handed on; what people wrote is replaced unless it is to be kept, see
//! [`Privacy`].

mod letters;
mod redact;
mod told;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::config::{Config, ConfigError};
use crate::input::Input;
use crate::machine::Machine;
use crate::time::MonoTime;

/// The version of the form.
const VERSION: u32 = 1;

/// What a trace keeps of what people and workers wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Privacy {
    /// Every letter of the content of events and drafts, of replies and of what workers say of
    /// failures becomes another of as many bytes, so that lengths stay; so does white space. An
    /// event that is nothing but an owner command (`!cancel`, `!rotate`, `!shutdown`) stays as it
    /// is, because it decides actions. A frame or event that cannot be read becomes as many `!`.
    ///
    /// What the relay says in its own words decides actions too and stays: the texts of OK,
    /// CLOSED and NOTICE, the bodies of HTTP errors, the largest page that it gives, the key it
    /// signs with, and what is quoted from them. So do keys, ids, dates, kinds and tags, and what a
    /// peer adds to an event beyond NIP-01. A relay that quotes a message in such a place is quoted
    /// in the trace.
    #[default]
    Redacted,
    /// All of it.
    Whole,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head<'a> {
    v: u32,
    config: Cow<'a, Config>,
    #[serde(default)]
    privacy: Privacy,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call<'a> {
    t: MonoTime,
    #[serde(rename = "in")]
    input: Cow<'a, Input>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    out: Option<Cow<'a, [Action]>>,
}

/// Writes the lines of a trace.
#[derive(Clone, Copy, Debug)]
pub struct Recorder {
    privacy: Privacy,
}

impl Recorder {
    /// A recorder that keeps this much.
    #[must_use]
    pub const fn new(privacy: Privacy) -> Self {
        Self { privacy }
    }

    /// The first line, without its end.
    #[must_use]
    pub fn head(&self, config: &Config) -> String {
        line(&Head {
            v: VERSION,
            config: Cow::Borrowed(config),
            privacy: self.privacy,
        })
    }

    /// The line of one call, without its end.
    #[must_use]
    pub fn call(&self, now: MonoTime, input: &Input, actions: &[Action]) -> String {
        let (input, out) = match self.privacy {
            Privacy::Whole => (Cow::Borrowed(input), Cow::Borrowed(actions)),
            Privacy::Redacted => {
                let actions = actions.iter().cloned().map(redact::action).collect();
                (
                    Cow::Owned(redact::input(input.clone())),
                    Cow::Owned(actions),
                )
            }
        };
        line(&Call {
            t: now,
            input,
            out: Some(out),
        })
    }
}

/// A machine fed from a trace.
#[derive(Clone, Debug)]
pub struct Replay {
    machine: Machine,
    privacy: Privacy,
    lines: u64,
}

/// One call that was replayed.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// The line, counted from one.
    pub line: u64,
    /// The time of the call.
    pub now: MonoTime,
    /// The fact that went in.
    pub input: Input,
    /// What came out.
    pub actions: Vec<Action>,
    /// What came out when it was recorded, if the trace says so.
    pub recorded: Option<Vec<Action>>,
}

impl Replayed {
    /// The first order that differs from the recorded one: its place, counted from zero.
    #[must_use]
    pub fn difference(&self) -> Option<usize> {
        let recorded = self.recorded.as_ref()?;
        let same = self
            .actions
            .iter()
            .zip(recorded)
            .take_while(|(ours, theirs)| ours == theirs);
        let same = same.count();
        (same < self.actions.len().max(recorded.len())).then_some(same)
    }
}

impl Replay {
    /// Builds the machine that the first line of a trace describes.
    ///
    /// # Errors
    /// When the line is not the head of a trace of this version, or a setting cannot work.
    pub fn new(head: &str) -> Result<Self, TraceError> {
        let head: Head<'_> = parse(head, 1)?;
        if head.v != VERSION {
            return Err(TraceError {
                line: 1,
                kind: TraceErrorKind::Version(head.v),
            });
        }
        let machine =
            Machine::new(head.config.into_owned(), MonoTime::ZERO).map_err(|error| TraceError {
                line: 1,
                kind: TraceErrorKind::Config(error),
            })?;
        Ok(Self {
            machine,
            privacy: head.privacy,
            lines: 1,
        })
    }

    /// Replays one more line.
    ///
    /// # Errors
    /// When the line is not a call.
    pub fn step(&mut self, text: &str) -> Result<Replayed, TraceError> {
        self.lines = self.lines.saturating_add(1);
        let call: Call<'_> = parse(text, self.lines)?;
        let input = call.input.into_owned();
        let mut actions = self.machine.handle_input(input.clone(), call.t);
        if self.privacy == Privacy::Redacted {
            actions = actions.into_iter().map(redact::action).collect();
        }
        let recorded = call.out.map(Cow::into_owned);
        Ok(Replayed {
            line: self.lines,
            now: call.t,
            input,
            actions,
            recorded,
        })
    }

    /// The machine as the lines so far have left it.
    #[must_use]
    pub const fn machine(&self) -> &Machine {
        &self.machine
    }
}

/// A line that is not of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    /// The line, counted from one.
    pub line: u64,
    /// What is wrong with it.
    pub kind: TraceErrorKind,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceErrorKind {
    /// It is not JSON of the right form: the parser's words.
    Form(String),
    /// It is of a version that this program cannot read.
    Version(u32),
    /// Its settings cannot work.
    Config(ConfigError),
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.kind {
            TraceErrorKind::Form(words) => write!(f, "not a line of a trace: {words}"),
            TraceErrorKind::Version(version) => {
                write!(
                    f,
                    "the trace has version {version}; this program reads version {VERSION}"
                )
            }
            TraceErrorKind::Config(error) => write!(f, "the settings cannot work: {error}"),
        }
    }
}

impl core::error::Error for TraceError {}

fn parse<'a, T: Deserialize<'a>>(text: &'a str, line: u64) -> Result<T, TraceError> {
    serde_json::from_str(text).map_err(|error| {
        let words = crate::wire::Excerpt::of(&error);
        TraceError {
            line,
            kind: TraceErrorKind::Form(words.as_str().into()),
        }
    })
}

/// Serialisation fails only for maps whose keys are not strings, and there are none here.
fn line<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_default()
}
