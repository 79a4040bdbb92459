//! A fault of the program itself, wherever it happens, ends the whole program: a part that is
//! missing would be silence. Workers are ended first, where there are any.

use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::Notify;

use crate::exit::{Exit, Failure};
use crate::secrets;
use crate::ui::Ui;

/// What the orderly end after a fault may take.
const END_MAX: Duration = Duration::from_secs(10);

static IS_CONTAINED: AtomicBool = AtomicBool::new(false);
static FAULT: Mutex<Option<Failure>> = Mutex::new(None);
static WAKE: Notify = Notify::const_new();

/// From now on a fault ends the program.
pub(crate) fn watch() {
    std::panic::set_hook(Box::new(end_at_fault));
}

/// Does work that ends by itself when a fault [`happened`]; then the fault is its result.
pub(crate) fn contain<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    IS_CONTAINED.store(true, Ordering::SeqCst);
    // Nothing of the work is used after a fault.
    let result = catch_unwind(AssertUnwindSafe(work));
    match (first(), result) {
        (Some(fault), _) => Err(fault),
        (None, Ok(result)) => result,
        (None, Err(_)) => Err(Failure::other("a fault in buzz-agent")),
    }
}

/// Waits for a fault.
pub(crate) async fn happened() -> Failure {
    loop {
        if let Some(fault) = first() {
            return fault;
        }
        WAKE.notified().await;
    }
}

fn first() -> Option<Failure> {
    FAULT.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn end_at_fault(info: &PanicHookInfo<'_>) {
    let fault = failure(info);
    if !IS_CONTAINED.load(Ordering::SeqCst) {
        Ui::new(false).fail(&fault);
        std::process::exit(i32::from(fault.exit.code()));
    }
    FAULT
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get_or_insert(fault);
    WAKE.notify_one();
    let guard = thread::Builder::new().spawn(|| {
        thread::sleep(END_MAX);
        std::process::exit(i32::from(Exit::Other.code()));
    });
    if guard.is_err() {
        std::process::exit(i32::from(Exit::Other.code()));
    }
}

fn failure(info: &PanicHookInfo<'_>) -> Failure {
    let payload = info.payload();
    let what = payload.downcast_ref::<&str>().copied();
    let what = what.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let place = info.location().map(ToString::to_string);
    let place = place.unwrap_or_else(|| "an unknown place".to_owned());
    Failure::other(format!(
        "a fault in buzz-agent: {} at {place}; please report it with a trace (run --trace FILE)",
        secrets::scrubbed(what.unwrap_or("no words"))
    ))
}
