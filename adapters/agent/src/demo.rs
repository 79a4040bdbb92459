//! The demonstration.

use std::process::ExitCode;

use crate::args::DemoArgs;
use crate::exit::{Exit, Failure};
use crate::ui::Ui;

/// Runs it.
pub(crate) fn run(_args: DemoArgs, ui: Ui) -> ExitCode {
    ui.fail(&Failure::new(
        Exit::Lost,
        "the demo is not part of this build",
    ))
}
