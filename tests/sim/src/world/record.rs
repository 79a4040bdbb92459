//! What went into the machine and what came out: a running hash of all of it, and a trace.

use std::hash::{DefaultHasher, Hasher as _};

use buzz_proto::action::Action;
use buzz_proto::config::Config;
use buzz_proto::input::Input;
use buzz_proto::time::MonoTime;
use buzz_proto::trace::{Privacy, Recorder};

#[derive(Debug)]
pub(super) struct Record {
    recorder: Recorder,
    hash: DefaultHasher,
    lines: Vec<String>,
    is_kept: bool,
    /// Facts and orders as they are, where somebody wants to judge them.
    told: Option<Vec<Told>>,
}

/// A fact, and what was ordered upon it.
#[derive(Clone, Debug)]
pub struct Told {
    /// When, by the machine's clock.
    pub at: MonoTime,
    /// The fact.
    pub input: Input,
    /// The orders.
    pub actions: Vec<Action>,
}

impl Record {
    pub(super) fn new() -> Self {
        Self {
            recorder: Recorder::new(Privacy::Whole),
            hash: DefaultHasher::new(),
            lines: Vec::new(),
            is_kept: false,
            told: None,
        }
    }

    /// From now on lines are kept.
    pub(super) const fn keep(&mut self) {
        self.is_kept = true;
    }

    /// A machine begins: a trace is that of one life.
    pub(super) fn begin(&mut self, config: &Config) {
        self.lines.clear();
        self.add(self.recorder.head(config));
    }

    pub(super) fn call(&mut self, now: MonoTime, input: &Input, actions: &[Action]) {
        self.add(self.recorder.call(now, input, actions));
        if let Some(told) = &mut self.told {
            told.push(Told {
                at: now,
                input: input.clone(),
                actions: actions.to_vec(),
            });
        }
    }

    /// From now on facts and orders are kept as they are.
    pub(super) fn listen(&mut self) {
        self.told.get_or_insert_default();
    }

    pub(super) fn told(&self) -> &[Told] {
        self.told.as_deref().unwrap_or_default()
    }

    fn add(&mut self, line: String) {
        self.hash.write(line.as_bytes());
        if self.is_kept {
            self.lines.push(line);
        }
    }

    pub(super) fn digest(&self) -> u64 {
        self.hash.finish()
    }

    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }
}
