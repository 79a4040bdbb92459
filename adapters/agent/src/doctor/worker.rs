//! Whether the worker's command speaks ACP.

use std::time::Duration;

use buzz_adapters::acp::{AcpPool, AcpSettings, Workers as _};
use buzz_adapters::tokio::Tokio;
use buzz_proto::schedule::{Action, DownCause, Input, WorkerId};
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::timeout;

use super::finding::Finding;
use crate::exit::Exit;

const CHECK: &str = "worker";
const WORKER: WorkerId = WorkerId {
    slot: 0,
    incarnation: 1,
};
/// What its end may take, beyond the steps of ending it.
const END: Duration = Duration::from_secs(10);

/// Starts a worker, and ends it.
pub(super) async fn check(settings: AcpSettings) -> Finding {
    let (limit, command) = (settings.limits.start, settings.command.clone());
    let (sender, mut facts) = unbounded_channel();
    let mut pool = AcpPool::<Tokio>::new(settings, move |fact| {
        // Nobody waits for what comes after the verdict.
        let _gone = sender.send(fact);
    });
    pool.perform(Action::Spawn { worker: WORKER });
    let first = timeout(limit.saturating_add(END), facts.recv()).await;
    let finding = match first {
        Ok(Some(Input::WorkerUp { .. })) => Finding::good(CHECK, format!("{command} speaks ACP")),
        Ok(Some(Input::WorkerDown { cause, .. })) => return failed(&command, &cause),
        Ok(_) | Err(_) => {
            let seconds = limit.as_secs();
            let found = format!("{command} did not say hello within {seconds} s");
            Finding::bad(CHECK, found, "check what stands after --", Exit::Worker)
        }
    };
    pool.perform(Action::Kill { worker: WORKER });
    let is_over = async {
        while let Some(fact) = facts.recv().await {
            if matches!(fact, Input::WorkerDown { .. }) {
                return;
            }
        }
    };
    // One that does not end is killed with the pool.
    let _late = timeout(END, is_over).await;
    finding
}

fn failed(command: &str, cause: &DownCause) -> Finding {
    let (found, advice) = match cause {
        DownCause::CannotStart { text } => (
            format!("{command} cannot be started: {text}"),
            "check that it is installed and can be found in PATH",
        ),
        DownCause::NoHandshake { text } | DownCause::Protocol { text } => (
            format!("{command} does not speak ACP: {text}"),
            "many agents speak ACP only with an argument of their own: see their manual",
        ),
        DownCause::Exited { code, text } => {
            let code = code.map_or_else(|| "by a signal".to_owned(), |code| format!("with {code}"));
            let text = Some(text).filter(|text| !text.is_empty());
            let text = text.map(|text| format!(": {text}")).unwrap_or_default();
            (
                format!("{command} ended {code} before it spoke ACP{text}"),
                "run it by hand: what it says there is the reason",
            )
        }
        DownCause::Killed => (
            format!("{command} was stopped"),
            "check what stands after --",
        ),
    };
    Finding::bad(CHECK, found, advice, Exit::Worker)
}
