//! One line that is written over itself on a terminal, and repeated now and then elsewhere.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use crate::ui::Ui;

/// Between two lines where they cannot be written over.
const REPEAT: Duration = Duration::from_secs(2);

pub(super) struct Progress {
    ui: Ui,
    is_terminal: bool,
    said: Option<Instant>,
    width: usize,
}

impl Progress {
    pub(super) fn new(ui: Ui) -> Self {
        Self {
            ui,
            is_terminal: io::stderr().is_terminal(),
            said: None,
            width: 0,
        }
    }

    /// Shows this instead of what was shown before.
    pub(super) fn show(&mut self, line: &str) {
        if self.is_terminal {
            let mut stderr = io::stderr().lock();
            let _closed = write!(stderr, "\r{line:<width$}", width = self.width);
            let _closed = stderr.flush();
            self.width = line.len();
        } else if self.said.is_none_or(|said| said.elapsed() >= REPEAT) {
            self.said = Some(Instant::now());
            self.ui.say(line);
        }
    }

    /// Leaves the last line standing.
    pub(super) fn finish(self, line: &str) {
        if self.is_terminal {
            let mut stderr = io::stderr().lock();
            let _closed = writeln!(stderr, "\r{line:<width$}", width = self.width);
        } else {
            self.ui.say(line);
        }
    }
}
