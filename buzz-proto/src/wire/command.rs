//! What an owner says to an agent to steer it, as the Buzz harness knows it.

use super::Event;

/// A stream message of the Buzz relay, after NIP-29: mentions, answers and owner commands.
pub const MESSAGE: u32 = 9;

/// A command of an owner. Whether its author may give it is not decided here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerCommand {
    /// `!cancel`: end the turn that runs.
    Cancel,
    /// `!rotate`: end it, and go on in a fresh session.
    Rotate,
    /// `!shutdown`: end the whole agent.
    Shutdown,
}

impl OwnerCommand {
    /// The command that a text is, white space around it aside.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.trim() {
            "!cancel" => Some(Self::Cancel),
            "!rotate" => Some(Self::Rotate),
            "!shutdown" => Some(Self::Shutdown),
            _ => None,
        }
    }

    /// The command that an event gives: a message with nothing else in it.
    #[must_use]
    pub fn of(event: &Event) -> Option<Self> {
        (event.kind() == MESSAGE)
            .then(|| Self::parse(&event.content()))
            .flatten()
    }
}
