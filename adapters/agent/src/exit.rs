//! How the program ends.

use std::fmt;
use std::process::ExitCode;

/// The exit codes, as the help names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// What was asked for is done.
    Done,
    /// Anything that has no code of its own.
    Other,
    /// An argument, variable or file that cannot be used.
    Usage,
    /// The relay was not reached in time, at the start.
    Unreachable,
    /// The relay refuses the key.
    Refused,
    /// The worker's command is missing or does not speak ACP.
    Worker,
    /// The trace cannot be read or replays differently.
    Trace,
    /// The demo lost or duplicated a reply, or a simulation an event or a post.
    Lost,
    /// Another agent with the same key runs on the relay.
    Taken,
}

impl Exit {
    /// The number.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Other => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
            Self::Refused => 4,
            Self::Worker => 5,
            Self::Trace => 6,
            Self::Lost => 7,
            Self::Taken => 8,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why the program ends otherwise than asked, in one sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, text: impl fmt::Display) -> Self {
        let text = text.to_string();
        Self { exit, text }
    }

    /// One that has no code of its own.
    pub(crate) fn other(text: impl fmt::Display) -> Self {
        Self::new(Exit::Other, text)
    }

    /// A setting that cannot be used.
    pub(crate) fn settings(text: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_has_a_code_of_its_own_and_the_help_names_it() {
        let exits = [
            Exit::Done,
            Exit::Other,
            Exit::Usage,
            Exit::Unreachable,
            Exit::Refused,
            Exit::Worker,
            Exit::Trace,
            Exit::Lost,
            Exit::Taken,
        ];
        for (exit, code) in exits.into_iter().zip(0..) {
            assert_eq!(exit.code(), code);
            assert!(crate::args::EXIT_CODES.contains(&format!("\n  {code}  ")));
        }
    }
}
