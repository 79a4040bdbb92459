//! `buzz-agent`: an agent on a Buzz relay, and tools around it.
//!
//! People read stderr, programs read stdout. Each command ends with one of the exit codes of
//! [`exit::Exit`]. No secret is ever written, except by `keygen --stdout`, which exists for that.

mod args;
mod demo;
mod echo;
mod exit;
mod keygen;
mod replay;
mod run;
mod secrets;
mod settings;
mod startup;
mod teller;
mod ui;

use std::panic::PanicHookInfo;
use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Args, Command, DemoArgs};
use crate::exit::{Exit, Failure};
use crate::ui::Ui;

fn main() -> ExitCode {
    std::panic::set_hook(Box::new(end_at_fault));
    if secrets::are_in(std::env::args_os().skip(1)) {
        return Ui::new(false).fail(&secrets::refusal());
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
    let ui = Ui::new(args.command.is_json());
    ui.start_logging();
    match args.command {
        Command::Demo(args) => start_demo(&args, ui),
        Command::Run(args) => report(run::run(*args, ui), ui),
        Command::Keygen(args) => report(keygen::run(&args, ui), ui),
        Command::Replay(args) => report(replay::run(&args, ui), ui),
        Command::EchoWorker => report(echo::run(), ui),
    }
}

fn start_demo(args: &DemoArgs, ui: Ui) -> ExitCode {
    let result = run::start_runtime().and_then(|runtime| runtime.block_on(demo::run(args, ui)));
    result.map_or_else(|failure| ui.fail(&failure), ExitCode::from)
}

fn report(result: Result<(), Failure>, ui: Ui) -> ExitCode {
    match result {
        Ok(()) => Exit::Done.into(),
        Err(failure) => ui.fail(&failure),
    }
}

/// What the parser of arguments has to say: help and version on stdout, errors on stderr. It
/// quotes what it was given, which may be a key in the wrong place.
fn refuse(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    let clean = secrets::scrubbed(&text);
    if clean == text {
        // A closed terminal leaves nobody to tell.
        let _closed = error.print();
    } else {
        Ui::new(false).line(clean.trim_end());
    }
    if error.use_stderr() {
        Exit::Usage.into()
    } else {
        Exit::Done.into()
    }
}

/// A fault ends the whole program, with one sentence: a part that is missing would be silence.
fn end_at_fault(fault: &PanicHookInfo<'_>) {
    let payload = fault.payload();
    let what = payload.downcast_ref::<&str>().copied();
    let what = what.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let place = fault.location().map(ToString::to_string);
    let place = place.unwrap_or_else(|| "an unknown place".to_owned());
    Ui::new(false).line(format_args!(
        "a fault in buzz-agent: {} at {place}; please report it with a trace (run --trace FILE)",
        secrets::scrubbed(what.unwrap_or("no words"))
    ));
    std::process::exit(i32::from(Exit::Other.code()));
}
