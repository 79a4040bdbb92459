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
}

impl Record {
    pub(super) fn new() -> Self {
        Self {
            recorder: Recorder::new(Privacy::Whole),
            hash: DefaultHasher::new(),
            lines: Vec::new(),
            is_kept: false,
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
