//! Tells what an agent reports, on a thread of its own: an output that nobody reads must hold up
//! neither the agent nor its end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use buzz_adapters::connect::Report;
use buzz_proto::note::{LinkNote, Note, TurnOutcome, Weight};
use serde_json::json;

use crate::exit::Failure;
use crate::secrets::scrubbed;
use crate::ui::{Look, Ui};

/// Reports that wait for a slow output; what comes on top is counted and not told.
const WAITING_MAX: usize = 4096;
/// How long the end of the program waits for a slow output.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Takes reports; cheap to clone.
#[derive(Clone)]
pub(crate) struct Teller {
    words: SyncSender<Words>,
    missed: Arc<AtomicU64>,
}

/// Waits for what is still to be told.
pub(crate) struct Told {
    teller: Teller,
    last: SyncSender<Result<(), Failure>>,
    running: Receiver<()>,
}

enum Words {
    Report(Report),
    Line(String),
    /// The last word is there.
    End,
}

impl Teller {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub(crate) fn start(ui: Ui) -> Result<(Self, Told), Failure> {
        let (words, waiting) = sync_channel(WAITING_MAX);
        // It has a place of its own, for the queue may be full.
        let (last, last_word) = sync_channel(1);
        // Nothing is ever sent: the thread's end hangs up.
        let (alive, running) = sync_channel::<()>(0);
        let missed = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&missed);
        thread::Builder::new()
            .name("teller".into())
            .spawn(move || {
                tell_all(&waiting, &count, ui);
                if let Ok(result) = last_word.recv() {
                    tell_end(&result, ui);
                }
                drop(alive);
            })
            .map_err(|error| Failure::other(format!("there is no thread: {error}")))?;
        let teller = Self { words, missed };
        let told = Told {
            teller: teller.clone(),
            last,
            running,
        };
        Ok((teller, told))
    }

    /// Takes one report, at once.
    pub(crate) fn take(&self, report: Report) {
        self.send(Words::Report(report));
    }

    /// Takes a line for people, at once.
    pub(crate) fn say(&self, line: impl fmt::Display) {
        self.send(Words::Line(scrubbed(&line.to_string())));
    }

    fn send(&self, words: Words) {
        if self.words.try_send(words).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Told {
    /// Tells how the program ends, after all else, and waits for that, but not for ever.
    pub(crate) fn end(self, result: Result<(), Failure>) {
        // Only a fault of the thread loses it, and then nobody can be told.
        let _sent = self.last.try_send(result);
        // Where the queue is full, its end comes when the agent's own tellers are gone.
        let _full = self.teller.words.try_send(Words::End);
        drop(self.teller);
        match self.running.recv_timeout(LAST_WORDS) {
            Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
    }
}

fn tell_all(waiting: &Receiver<Words>, missed: &AtomicU64, ui: Ui) {
    while let Ok(words) = waiting.recv() {
        tell_missed(missed, ui);
        match words {
            Words::Report(report) => tell(&report, ui),
            Words::Line(line) => ui.line(line),
            Words::End => return,
        }
    }
    tell_missed(missed, ui);
}

fn tell_end(result: &Result<(), Failure>, ui: Ui) {
    match result {
        Ok(()) => ui.line("the agent has ended"),
        Err(failure) => {
            let _code = ui.fail(failure);
        }
    }
}

fn tell(report: &Report, ui: Ui) {
    match report {
        Report::Note(note) => {
            ui.json(note);
            // The failed dial itself says more.
            if !matches!(note, Note::Link(LinkNote::Failed { .. })) {
                ui.event(look(note), note);
            }
        }
        Report::DialFailed(error) => {
            ui.json(&json!({"DialFailed": error.to_string()}));
            ui.event(Look::Bad, error);
        }
        Report::RecordFailed(error) => {
            ui.json(&json!({"RecordFailed": error.to_string()}));
            let text = "the trace cannot be written and ends here";
            ui.event(Look::Bad, format_args!("{text}: {error}"));
        }
        Report::KeepFailed(error) => {
            ui.json(&json!({"KeepFailed": error.to_string()}));
            let text = "what the agent has done cannot be kept, and is tried again";
            ui.event(Look::Bad, format_args!("{text}: {error}"));
        }
        Report::NotKept(error) => {
            ui.json(&json!({"NotKept": error.to_string()}));
            let text = "the last of what the agent has done is not kept, and the next start may do \
                        it again";
            ui.event(Look::Bad, format_args!("{text}: {error}"));
        }
        _ => {}
    }
}

fn tell_missed(missed: &AtomicU64, ui: Ui) {
    let count = missed.swap(0, Ordering::Relaxed);
    if count > 0 {
        ui.json(&json!({"Missed": count}));
        ui.warn(format_args!(
            "{count} reports were not told: the output is too slow"
        ));
    }
}

/// Whether somebody may have to act.
pub(crate) fn is_trouble(report: &Report) -> bool {
    if let Report::Note(note) = report {
        note.weight() == Weight::Trouble
    } else {
        true
    }
}

fn look(note: &Note) -> Look {
    let answered = TurnOutcome::Answered;
    let is_good = matches!(note, Note::Link(LinkNote::Live { .. }))
        || matches!(note, Note::TurnEnded { outcome, .. } if *outcome == answered);
    match note.weight() {
        Weight::Trouble => Look::Bad,
        Weight::Work if is_good => Look::Good,
        Weight::Work => Look::Plain,
        Weight::Detail => Look::Faint,
    }
}
