//! What the agent tells during the demonstration: the start at once, trouble when it is asked for.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use buzz_adapters::connect::Report;
use buzz_proto::note::{LinkNote, Note};

use crate::exit::Failure;
use crate::teller::{Teller, is_trouble};
use crate::ui::{Look, Ui};

/// Lines that are kept; the first ones go.
const KEPT_MAX: usize = 100;

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Diary {
    teller: Teller,
    kept: Arc<Mutex<VecDeque<String>>>,
}

impl Diary {
    /// Nothing was told. Lines for people go to `ui`.
    pub(super) fn start(ui: Ui) -> Result<Self, Failure> {
        // Programs get the figures alone. Nothing is to be told at the end.
        let (teller, _told) = Teller::start(ui.for_people())?;
        let kept = Arc::default();
        Ok(Self { teller, kept })
    }

    /// Takes one report, at once.
    pub(super) fn take(&self, report: Report) {
        if is_trouble(&report) {
            self.keep(&report);
        }
        let is_shown = matches!(
            report,
            Report::Note(Note::Link(LinkNote::Live { .. }) | Note::WorkerUp { .. })
                | Report::RecordFailed(_)
        );
        if is_shown {
            self.teller.take(report);
        }
    }

    /// Shows what was kept.
    pub(super) fn show(&self, ui: Ui) {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_empty() {
            return ui.line("the agent told of no trouble");
        }
        ui.line(format_args!(
            "trouble that the agent told of, the last {}:",
            kept.len()
        ));
        for line in kept.iter() {
            ui.styled(Look::Bad, format_args!("  {line}"));
        }
    }

    fn keep(&self, report: &Report) {
        let line = match report {
            Report::Note(note) => note.to_string(),
            Report::DialFailed(error) => error.to_string(),
            Report::RecordFailed(error) | Report::KeepFailed(error) | Report::NotKept(error) => {
                error.to_string()
            }
            _ => return,
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trouble_is_kept_up_to_a_limit_and_the_rest_is_not() {
        let diary = Diary::start(Ui::new(false)).unwrap();
        diary.take(Report::Note(Note::Link(LinkNote::Dialing)));
        for number in 0..=KEPT_MAX {
            diary.take(Report::Note(Note::ClockSkew {
                seconds: i64::try_from(number).unwrap(),
            }));
        }

        let kept = diary.kept.lock().unwrap();

        assert_eq!(kept.len(), KEPT_MAX);
        let last = Note::ClockSkew { seconds: 100 };
        assert_eq!(kept.back(), Some(&last.to_string()));
    }
}
