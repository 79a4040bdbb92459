//! Stories in a world that end in figures. A scenario decides what happens; what the agent, the
//! relay and time make of it is the world's affair.

pub mod chaos;
pub mod fleet;
pub mod hold;
pub mod overload;
pub mod storm;

use core::fmt;

use crate::world::WorldError;

/// The name of each scenario, and what it plays.
pub const ALL: [(&str, &str); 4] = [
    (
        overload::NAME,
        "more mentions than there is room for, in one channel of many, again and again",
    ),
    (
        storm::NAME,
        "a thousand posts at once, while the relay takes nothing for half a minute",
    ),
    (
        fleet::NAME,
        "a thousand agents with much to publish, behind one quota",
    ),
    (
        hold::NAME,
        "more conversations than workers, which are slow, forget, fail and end",
    ),
];

/// One number over another, to four digits: what is printed is what is judged.
fn ratio(part: f64, of: f64) -> f64 {
    (part / of * 1e4).round() / 1e4
}

fn whole(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// Takes down what was promised and not kept.
fn judge(misses: &mut Vec<String>, is_kept: bool, words: fmt::Arguments<'_>) {
    if !is_kept {
        misses.push(words.to_string());
    }
}

/// Why a scenario has no figures.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScenarioError {
    /// A setting lies outside its bounds.
    Setting {
        /// Its name.
        name: &'static str,
        /// The least and the greatest value.
        bounds: (u32, u32),
    },
    /// The world could not be, or refused something.
    World(WorldError),
    /// The agent did not get its subscriptions.
    NotLive {
        /// Those that the relay has confirmed.
        confirmed: usize,
        /// Those that there should be.
        wanted: usize,
    },
}

impl From<WorldError> for ScenarioError {
    fn from(error: WorldError) -> Self {
        Self::World(error)
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Setting { name, bounds } => {
                let (least, greatest) = bounds;
                write!(f, "{name} must lie between {least} and {greatest}")
            }
            Self::World(error) => error.fmt(f),
            Self::NotLive { confirmed, wanted } => write!(
                f,
                "the relay confirmed {confirmed} of {wanted} subscriptions in time, so there is \
                 nothing to measure: play it with fewer"
            ),
        }
    }
}

impl core::error::Error for ScenarioError {}
