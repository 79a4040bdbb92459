//! An agent on a relay, from its start to its end.

use std::convert::Infallible;
use std::future::pending;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use buzz_adapters::async_std::AsyncStd;
use buzz_adapters::connect::{Handle, Report};
use buzz_adapters::runtime::Processes;
use buzz_adapters::tokio::Tokio;
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::agent::{Parts, start_runtime};
use crate::args::{RunArgs, RuntimeChoice};
use crate::exit::{Exit, Failure};
use crate::fault;
use crate::settings::Settings;
use crate::signals::Signals;
use crate::startup::Startup;
use crate::teller::Teller;
use crate::ui::Ui;

/// What the end of a failed start may take: nothing runs that would need more.
const FAILED_GRACE: Duration = Duration::from_secs(1);
/// The machine ends within its grace. This guards against a fault in that.
const GRACE_MARGIN: Duration = Duration::from_secs(10);
/// What threads get to notice the end; workers are killed by it.
const RUNTIME_END: Duration = Duration::from_secs(2);

/// How long an agent may be in no channel before that is said: the relay's roster has come by then.
const ALONE_MAX: Duration = Duration::from_secs(10);

/// Runs an agent until it is told to stop, or its start cannot succeed.
pub(crate) fn run(args: RunArgs, ui: Ui) -> ExitCode {
    hide_memory(ui);
    let ready = Settings::read(args, ui).and_then(|settings| Ok((settings, Teller::start(ui)?)));
    let (settings, (teller, told)) = match ready {
        Ok(ready) => ready,
        Err(failure) => return ui.fail(&failure),
    };
    // From here on the teller alone writes: whoever does not read must not hold up the end.
    let result = fault::contain(|| {
        // Signals are awaited on tokio, whatever the agent runs on.
        let runtime = start_runtime()?;
        let result = runtime.block_on(async {
            match settings.runtime {
                RuntimeChoice::Tokio => serve::<Tokio>(settings, teller).await,
                RuntimeChoice::AsyncStd => serve::<AsyncStd>(settings, teller).await,
            }
        });
        runtime.shutdown_timeout(RUNTIME_END);
        result
    });
    let exit = result
        .as_ref()
        .map_or_else(|failure| failure.exit, |()| Exit::Done);
    told.end(result);
    exit.into()
}

/// Keeps other processes of the same user, such as workers, from reading the key in this one.
fn hide_memory(ui: Ui) {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_dumpable(false) {
        ui.warn(format_args!("workers could read the key: {error}"));
    }
    #[cfg(not(target_os = "linux"))]
    let _unused = ui;
}

async fn serve<R: Processes>(settings: Settings, teller: Teller) -> Result<(), Failure> {
    let mut signals =
        Signals::new().map_err(|error| Failure::other(format!("no signals arrive: {error}")))?;
    teller.say(settings.summary());
    let Settings {
        parts,
        give_up,
        grace,
        ..
    } = settings;
    let (watch, failure) = Watch::new(&parts);
    let (facts, reports, reporter) = (watch.clone(), watch.clone(), teller.clone());
    let look = move |fact: &_| facts.worker(fact);
    let mut handle = parts.start::<R>(look, move |report| {
        reports.report(&report);
        reporter.take(report);
    })?;
    let failure = tokio::select! {
        failure = failed(failure) => failure,
        failure = too_late(give_up, &watch) => failure,
        fault = fault::happened() => return Err(fault),
        () = handle.ended() => return Ok(()),
        never = say_if_alone(&watch, &teller) => match never {},
        () = signals.first() => {
            let asked = Some(Instant::now());
            handle.shutdown(grace);
            let seconds = grace.as_secs();
            teller.say(format_args!(
                "ending: what runs gets up to {seconds} s; Ctrl-C again ends at once"
            ));
            return finish(&mut handle, grace, signals.another(asked)).await;
        }
    };
    // Why it ends is known; how it ends adds nothing.
    handle.shutdown(FAILED_GRACE);
    let _end = finish(&mut handle, FAILED_GRACE, signals.another(None)).await;
    Err(failure)
}

/// Waits for the end of an agent that was told to.
async fn finish<R: Processes>(
    handle: &mut Handle<R>,
    grace: Duration,
    insisted: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let text = tokio::select! {
        () = handle.ended() => return Ok(()),
        () = insisted => "ended at once, as asked: running turns have no answer",
        fault = fault::happened() => {
            handle.abort();
            return Err(fault);
        }
        () = sleep(grace.saturating_add(GRACE_MARGIN)) => "the agent did not end in time",
    };
    handle.abort();
    Err(Failure::other(text))
}

/// The failure that ends the start, or never.
async fn failed(failure: oneshot::Receiver<Failure>) -> Failure {
    match failure.await {
        Ok(failure) => failure,
        Err(_) => pending().await,
    }
}

async fn too_late(give_up: Option<Duration>, watch: &Watch) -> Failure {
    let Some(limit) = give_up else {
        return pending().await;
    };
    sleep(limit).await;
    match watch.too_late(limit) {
        Some(failure) => failure,
        None => pending().await,
    }
}

/// Says once that nobody can speak to the agent, if that is so.
async fn say_if_alone(watch: &Watch, teller: &Teller) -> Infallible {
    loop {
        sleep(ALONE_MAX).await;
        let (is_alone, has_joined) = watch.company();
        if is_alone {
            teller.say(
                "the agent is in no channel yet, so nobody can speak to it: add its key to one, \
                 or give --channel; it joins by itself",
            );
        }
        if is_alone || has_joined {
            return pending().await;
        }
    }
}

/// Watches over the start from all the threads that know something of it.
#[derive(Clone)]
struct Watch(Arc<Mutex<Watched>>);

struct Watched {
    startup: Startup,
    /// Empty once a failure was told.
    failure: Option<oneshot::Sender<Failure>>,
}

impl Watch {
    fn new(parts: &Parts) -> (Self, oneshot::Receiver<Failure>) {
        let (sender, failure) = oneshot::channel();
        let (relay, command) = (parts.url.to_string(), parts.worker.command.clone());
        let startup = Startup::new(relay, command);
        let watched = Watched {
            startup,
            failure: Some(sender),
        };
        (Self(Arc::new(Mutex::new(watched))), failure)
    }

    fn report(&self, report: &Report) {
        self.ask(|startup| startup.report(report));
    }

    fn worker(&self, fact: &buzz_proto::schedule::Input) {
        self.ask(|startup| startup.worker(fact));
    }

    fn too_late(&self, limit: Duration) -> Option<Failure> {
        let watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let startup = &watched.startup;
        (!startup.was_live()).then(|| startup.too_late(limit.as_secs()))
    }

    /// Whether the agent is live without a channel, and whether it has joined one.
    fn company(&self) -> (bool, bool) {
        let watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (watched.startup.is_alone(), watched.startup.has_joined())
    }

    fn ask(&self, question: impl FnOnce(&mut Startup) -> Option<Failure>) {
        let mut watched = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = question(&mut watched.startup)
            && let Some(sender) = watched.failure.take()
        {
            // The program may be ending for another reason.
            let _over = sender.send(failure);
        }
    }
}
