//! A trace to a file. A file that cannot be written ends the recording, not the agent.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};

use buzz_proto::action::Action;
use buzz_proto::config::Config;
use buzz_proto::input::Input;
use buzz_proto::time::MonoTime;
use buzz_proto::trace::Recorder;

use crate::connect::{RecordTo, Report};

pub(super) struct Record {
    to: Option<(Recorder, BufWriter<File>)>,
    failed: Option<io::Error>,
}

impl Record {
    pub(super) fn new(to: Option<RecordTo>, config: &Config) -> Self {
        let Some(RecordTo { file, privacy }) = to else { return Self { to: None, failed: None } };
        let recorder = Recorder::new(privacy);
        let mut file = BufWriter::new(file);
        let failed = writeln!(file, "{}", recorder.head(config)).err();
        Self { to: Some((recorder, file)), failed }
    }

    pub(super) const fn is_on(&self) -> bool {
        self.to.is_some()
    }

    pub(super) fn call(
        &mut self,
        now: MonoTime,
        input: &Input,
        actions: &[Action],
        report: &mut dyn FnMut(Report),
    ) {
        let Some((recorder, file)) = &mut self.to else { return };
        let mut result = writeln!(file, "{}", recorder.call(now, input, actions));
        if matches!(input, Input::WallClock(_)) {
            // Often enough for a trace of a process that is killed.
            result = result.and_then(|()| file.flush());
        }
        if let Some(error) = self.failed.take().or(result.err()) {
            self.to = None;
            report(Report::RecordFailed(error));
        }
    }

    pub(super) fn finish(&mut self, report: &mut dyn FnMut(Report)) {
        let Some((_, mut file)) = self.to.take() else { return };
        if let Err(error) = file.flush() {
            report(Report::RecordFailed(error));
        }
    }
}
