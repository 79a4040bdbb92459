//! What people and programs see: people read stderr, programs read stdout.

use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

use buzz_adapters::clock::Clock;
use serde::Serialize;
use serde_json::json;
use tracing_subscriber::EnvFilter;

use crate::exit::Failure;
use crate::secrets::scrubbed;

/// Lines of the log that wait for a slow stderr.
const LOG_WAITING_MAX: usize = 1024;

/// Writes lines. A stream that somebody has closed is no fault: what is left to do is still done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ui {
    json: bool,
    colours: bool,
    /// Whether a line can be written over.
    terminal: bool,
}

/// How a line looks on a terminal that has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// As it is.
    Plain,
    /// Something went well.
    Good,
    /// Somebody may have to act.
    Bad,
    /// Of interest to few.
    Faint,
}

impl Ui {
    /// Machine output is written if `json`.
    pub(crate) fn new(json: bool) -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let terminal = io::stderr().is_terminal() && !is_dumb;
        let colours = terminal && !is_set("NO_COLOR");
        Self {
            json,
            colours,
            terminal,
        }
    }

    /// The same without machine output.
    pub(crate) const fn for_people(self) -> Self {
        Self {
            json: false,
            ..self
        }
    }

    /// Whether machine output is wanted.
    pub(crate) const fn is_json(self) -> bool {
        self.json
    }

    /// One line for people.
    pub(crate) fn line(self, line: impl fmt::Display) {
        self.styled(Look::Plain, line);
    }

    /// One line for people, of this look.
    pub(crate) fn styled(self, look: Look, line: impl fmt::Display) {
        let mut stderr = io::stderr().lock();
        // A line of progress may stand there.
        let clear = if self.terminal { "\r\x1b[K" } else { "" };
        let _closed = match look.code() {
            Some(code) if self.colours => writeln!(stderr, "{clear}\x1b[{code}m{line}\x1b[0m"),
            Some(_) | None => writeln!(stderr, "{clear}{line}"),
        };
    }

    /// One line for people, with the time of day (UTC).
    pub(crate) fn event(self, look: Look, line: impl fmt::Display) {
        let now = Clock::wall().0;
        self.styled(look, format_args!("{}  {line}", TimeOfDay(now)));
    }

    /// How far long work is, in a line that the next one replaces; on a terminal alone.
    pub(crate) fn progress(self, line: impl fmt::Display) {
        if self.terminal {
            let _closed = write!(io::stderr().lock(), "\r{line}\x1b[K");
        }
    }

    /// The long work is over; its last line stays.
    pub(crate) fn progress_done(self) {
        if self.terminal {
            let _closed = writeln!(io::stderr().lock());
        }
    }

    /// Something that works, but not as it should.
    pub(crate) fn warn(self, line: impl fmt::Display) {
        let line = scrubbed(&line.to_string());
        self.styled(Look::Bad, format_args!("warning: {line}"));
    }

    /// Says why the program ends, to both, and gives its exit code.
    /// The sentence may quote what it was given, which may be a key in the wrong place.
    pub(crate) fn fail(self, failure: &Failure) -> ExitCode {
        let text = scrubbed(&failure.text);
        self.styled(Look::Bad, format_args!("error: {text}"));
        self.json(&json!({"error": text, "exit": failure.exit.code()}));
        failure.exit.into()
    }

    /// One line for programs, if they were asked for.
    pub(crate) fn json(self, value: &impl Serialize) {
        if self.json
            && let Ok(text) = serde_json::to_string(value)
        {
            // Nobody reads it: what the program does goes on.
            let _closed = self.out(text);
        }
    }

    /// One line on stdout.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn out(self, line: impl fmt::Display) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        writeln!(stdout, "{line}")?;
        stdout.flush()
    }

    /// Lets `RUST_LOG` turn on the log of the libraries, on stderr. A thread of its own writes it,
    /// so that a stderr which nobody reads holds up nobody; what is too much for it is left out.
    pub(crate) fn start_logging(self) {
        if std::env::var_os("RUST_LOG").is_none_or(|value| value.is_empty()) {
            return;
        }
        match EnvFilter::try_from_default_env() {
            Ok(filter) => {
                let (lines, waiting) = sync_channel::<Vec<u8>>(LOG_WAITING_MAX);
                // Without a thread there is no log, and that is all that is lost.
                let _thread = thread::Builder::new().name("log".into()).spawn(move || {
                    while let Ok(line) = waiting.recv() {
                        let _closed = io::stderr().lock().write_all(&line);
                    }
                });
                let log = tracing_subscriber::fmt().with_env_filter(filter);
                log.with_writer(move || LogLines(lines.clone())).init();
            }
            Err(error) => self.warn(format_args!("RUST_LOG is ignored: {error}")),
        }
    }
}

impl Look {
    /// The parameter of SGR (ECMA-48).
    const fn code(self) -> Option<u8> {
        match self {
            Self::Plain => None,
            Self::Good => Some(32),
            Self::Bad => Some(33),
            Self::Faint => Some(2),
        }
    }
}

/// Hands each line to the thread that writes them.
struct LogLines(SyncSender<Vec<u8>>);

impl io::Write for LogLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _full = self.0.try_send(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Seconds of the Unix epoch as the time of day, UTC.
struct TimeOfDay(u64);

impl fmt::Display for TimeOfDay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hours, minutes, seconds) = (self.0 / 3600 % 24, self.0 / 60 % 60, self.0 % 60);
        write!(f, "{hours:02}:{minutes:02}:{seconds:02}Z")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_day_wraps_at_midnight() {
        assert_eq!(TimeOfDay(86_399).to_string(), "23:59:59Z");
        assert_eq!(TimeOfDay(86_400 + 3661).to_string(), "01:01:01Z");
    }
}
