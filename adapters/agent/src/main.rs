//! `buzz-agent`: an agent on a Buzz relay, and tools around it.
//!
//! People read stderr, programs read stdout. Each command ends with one of the exit codes of
//! [`exit::Exit`]. No secret is ever written, except by `keygen --stdout`, which exists for that.

mod agent;
mod args;
mod demo;
mod doctor;
mod echo;
mod exit;
mod fault;
mod keygen;
mod replay;
mod run;
mod secrets;
mod settings;
mod signals;
mod sim;
mod startup;
mod state;
mod teller;
mod trace_file;
mod ui;

use std::process::ExitCode;

use crate::args::{Args, Command, DemoArgs};
use crate::exit::{Exit, Failure};
use crate::ui::Ui;

fn main() -> ExitCode {
    fault::watch();
    if secrets::are_in(std::env::args_os().skip(1)) {
        return Ui::new(false).fail(&secrets::refusal());
    }
    let args = match Args::read() {
        Ok(args) => args,
        Err(error) => return refuse(&error),
    };
    let ui = Ui::new(args.command.is_json());
    ui.start_logging();
    match args.command {
        Command::Demo(args) => start_demo(&args, ui),
        Command::Run(args) => run::run(*args, ui),
        Command::Doctor(args) => end(fault::contain(|| doctor::run(&args, ui)), ui),
        Command::Keygen(args) => report(keygen::run(&args, ui), ui),
        Command::Replay(args) => report(replay::run(&args, ui), ui),
        Command::Sim(args) => end(sim::run(&args, ui), ui),
        Command::EchoWorker => report(echo::run(), ui),
    }
}

fn start_demo(args: &DemoArgs, ui: Ui) -> ExitCode {
    let result = fault::contain(|| agent::start_runtime()?.block_on(demo::run(args, ui)));
    end(result, ui)
}

fn report(result: Result<(), Failure>, ui: Ui) -> ExitCode {
    end(result.map(|()| Exit::Done), ui)
}

fn end(result: Result<Exit, Failure>, ui: Ui) -> ExitCode {
    result.map_or_else(|failure| ui.fail(&failure), ExitCode::from)
}

/// What the parser of arguments has to say: help and version on stdout, errors on stderr. It
/// quotes what it was given, which may be a key in the wrong place.
fn refuse(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    let clean = secrets::scrubbed(&text);
    if let Some(variable) = args::variable_of(error) {
        let text = format!(
            "{}\n\nThe value stands in the variable {variable}.",
            clean.trim_end()
        );
        Ui::new(false).line(text);
    } else if clean == text {
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
