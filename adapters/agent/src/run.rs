//! An agent on a relay, from its start to its end.

use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use buzz_adapters::acp::{AcpPool, AcpSettings, Facts, Workers};
use buzz_adapters::connect::{self, Handle, Report, Setup, StartWorkers};
use buzz_adapters::sign::LocalSigner;
use buzz_adapters::tokio::Tokio;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::sleep;

use crate::args::RunArgs;
use crate::exit::Failure;
use crate::settings::Settings;
use crate::startup::Startup;
use crate::teller::Teller;
use crate::ui::Ui;

/// What the end of a failed start may take: nothing runs that would need more.
const FAILED_GRACE: Duration = Duration::from_secs(1);
/// The machine ends within its grace. This guards against a fault in that.
const GRACE_MARGIN: Duration = Duration::from_secs(10);
/// What threads get to notice the end; workers are killed by it.
const RUNTIME_END: Duration = Duration::from_secs(2);

/// Runs an agent until it is told to stop, or its start cannot succeed.
pub(crate) fn run(args: RunArgs, ui: Ui) -> Result<(), Failure> {
    let settings = Settings::read(args, ui)?;
    let runtime = start_runtime()?;
    let (teller, told) = Teller::start(ui)?;
    let result = runtime.block_on(serve(settings, teller, ui));
    runtime.shutdown_timeout(RUNTIME_END);
    told.wait();
    if result.is_ok() {
        ui.line("the agent has ended");
    }
    result
}

/// The runtime of a whole program.
pub(crate) fn start_runtime() -> Result<Runtime, Failure> {
    Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::other(format!("there is no runtime: {error}")))
}

async fn serve(settings: Settings, teller: Teller, ui: Ui) -> Result<(), Failure> {
    let mut signals =
        Signals::new().map_err(|error| Failure::other(format!("no signals arrive: {error}")))?;
    ui.line(settings.summary());
    let (give_up, grace) = (settings.give_up, settings.grace);
    let (watch, failure) = Watch::new(&settings);
    let setup = setup(settings, teller, watch.clone());
    let (mut handle, _no_events) = connect::connect::<Tokio>(setup).map_err(Failure::settings)?;
    let failure = tokio::select! {
        failure = failed(failure) => failure,
        failure = too_late(give_up, &watch) => failure,
        () = handle.ended() => return Ok(()),
        () = signals.next() => {
            let seconds = grace.as_secs();
            ui.line(format_args!(
                "ending: what runs gets up to {seconds} s; Ctrl-C again ends at once"
            ));
            return finish(&mut handle, grace, &mut signals).await;
        }
    };
    // Why it ends is known; how it ends adds nothing.
    let _end = finish(&mut handle, FAILED_GRACE, &mut signals).await;
    Err(failure)
}

fn setup(settings: Settings, teller: Teller, watch: Watch) -> Setup {
    let workers = start_workers(settings.worker, watch.clone());
    Setup {
        config: settings.config,
        url: settings.url,
        tls: settings.tls,
        signer: Arc::new(LocalSigner::new(settings.key)),
        attestation: settings.attestation,
        workers: Some(workers),
        record: settings.record,
        report: Box::new(move |report| {
            watch.report(&report);
            teller.take(report);
        }),
    }
}

fn start_workers(worker: AcpSettings, watch: Watch) -> StartWorkers {
    let runtime = tokio::runtime::Handle::current();
    Box::new(move |facts: Facts| -> Box<dyn Workers> {
        let facts = move |fact| {
            watch.worker(&fact);
            facts(fact);
        };
        Box::new(AcpPool::new(worker, runtime, facts))
    })
}

async fn finish(
    handle: &mut Handle<Tokio>,
    grace: Duration,
    signals: &mut Signals,
) -> Result<(), Failure> {
    handle.shutdown(grace);
    let text = tokio::select! {
        () = handle.ended() => return Ok(()),
        () = signals.next() => "ended at once, as asked: running turns have no answer",
        () = sleep(grace.saturating_add(GRACE_MARGIN)) => "the agent did not end in time",
    };
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

/// Watches over the start from all the threads that know something of it.
#[derive(Clone)]
struct Watch(Arc<Mutex<Watched>>);

struct Watched {
    startup: Startup,
    /// Empty once a failure was told.
    failure: Option<oneshot::Sender<Failure>>,
}

impl Watch {
    fn new(settings: &Settings) -> (Self, oneshot::Receiver<Failure>) {
        let (sender, failure) = oneshot::channel();
        let (relay, command) = (settings.url.to_string(), settings.worker.command.clone());
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

/// What tells the program to stop. A hang-up is left to the system, which knows `nohup`.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
