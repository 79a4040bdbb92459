//! Tells what an agent reports, on a thread of its own: an output that nobody reads must hold up
//! neither the agent nor its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use buzz_adapters::connect::Report;
use buzz_proto::note::{LinkNote, Note, SubPhase, TurnOutcome};
use serde_json::json;

use crate::exit::Failure;
use crate::ui::{Look, Ui};

/// Reports that wait for a slow output; what comes on top is counted and not told.
const WAITING_MAX: usize = 4096;
/// How long the end of the program waits for a slow output.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Takes reports; cheap to clone.
#[derive(Clone)]
pub(crate) struct Teller {
    reports: SyncSender<Report>,
    missed: Arc<AtomicU64>,
}

/// Waits for what is still to be told.
pub(crate) struct Told(Receiver<()>);

impl Teller {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub(crate) fn start(ui: Ui) -> Result<(Self, Told), Failure> {
        let (reports, waiting) = sync_channel(WAITING_MAX);
        // Nothing is ever sent: the thread's end hangs up.
        let (running, told) = sync_channel::<()>(0);
        let missed = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&missed);
        thread::Builder::new()
            .name("teller".into())
            .spawn(move || {
                while let Ok(report) = waiting.recv() {
                    tell_missed(&count, ui);
                    tell(&report, ui);
                }
                tell_missed(&count, ui);
                drop(running);
            })
            .map_err(|error| Failure::other(format!("there is no thread: {error}")))?;
        Ok((Self { reports, missed }, Told(told)))
    }

    /// Takes one report, at once.
    pub(crate) fn take(&self, report: Report) {
        if self.reports.try_send(report).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Told {
    /// Waits until everything is told, but not for ever. Every [`Teller`] must be gone.
    pub(crate) fn wait(self) {
        match self.0.recv_timeout(LAST_WORDS) {
            Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
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

fn look(note: &Note) -> Look {
    let note = if let Note::Repeated { last, .. } = note {
        last
    } else {
        note
    };
    let answered = TurnOutcome::Answered;
    let is_good = matches!(note, Note::Link(LinkNote::Live { .. }))
        || matches!(note, Note::TurnEnded { outcome, .. } if *outcome == answered);
    let is_plain = matches!(
        note,
        Note::Link(LinkNote::Dialing)
            | Note::Joined { .. }
            | Note::WorkerUp { .. }
            | Note::TurnStarted { .. }
            | Note::Controlled { .. }
    );
    let is_faint = matches!(
        note,
        Note::Subscription {
            phase: SubPhase::Requested | SubPhase::Live,
            ..
        } | Note::Stale { .. }
            | Note::Refused { .. }
    );
    match (is_good, is_plain, is_faint) {
        (true, _, _) => Look::Good,
        (_, true, _) => Look::Plain,
        (_, _, true) => Look::Faint,
        (false, false, false) => Look::Bad,
    }
}
