//! One process for each worker.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use buzz_proto::ids::TurnId;
use buzz_proto::schedule::{Action, DownCause, Input, OpenCause, SessionRef, WorkerId};
use buzz_proto::wire::Excerpt;
use futures_channel::mpsc::{UnboundedSender, unbounded};
use futures_util::future::{AbortHandle, abortable};
use nix::sys::signal::Signal;

use super::launch::Group;
use super::process::{self, Command};
use super::session::{Order, Turn};
use super::{AcpSettingsHandle, Facts, Workers};
use crate::runtime::Processes;

/// Workers as child processes of a runtime.
///
/// ```no_run
/// # #[cfg(feature = "tokio")]
/// # fn f(setup: &mut buzz_adapters::connect::Setup) {
/// use buzz_adapters::acp::{AcpPool, AcpSettings, Workers};
/// use buzz_adapters::tokio::Tokio;
/// use buzz_proto::config::Consumer;
/// use buzz_proto::schedule;
///
/// setup.config.consumer = Consumer::Workers(Box::new(schedule::Config::new(2)));
/// setup.workers = Some(Box::new(|facts| -> Box<dyn Workers> {
///     let settings = AcpSettings::new("my-acp-agent");
///     Box::new(AcpPool::<Tokio>::new(settings, move |fact| facts(fact)))
/// }));
/// # }
/// ```
///
/// Dropping it kills every process group at once; to end workers gently, order `Kill` for each and
/// await `WorkerDown`.
pub struct AcpPool<R> {
    settings: AcpSettingsHandle,
    facts: Facts,
    workers: BTreeMap<WorkerId, Row>,
    runtime: PhantomData<fn() -> R>,
}

struct Row {
    orders: UnboundedSender<Command>,
    task: AbortHandle,
    group: Group,
    /// The turn it was last given.
    turn: Option<TurnId>,
}

impl<R: Processes> AcpPool<R> {
    /// A pool without workers, with settings that stay or the handle to settings that change.
    /// `facts` is called on the threads of the runtime, in which orders must be given.
    #[must_use]
    pub fn new(
        settings: impl Into<AcpSettingsHandle>,
        facts: impl Fn(Input) + Send + Sync + 'static,
    ) -> Self {
        Self {
            settings: settings.into(),
            facts: Arc::new(facts),
            workers: BTreeMap::new(),
            runtime: PhantomData,
        }
    }

    fn spawn(&mut self, worker: WorkerId) {
        // Workers that are down stay known until their slot has another one, so that an order to
        // kill that crossed their end does not report them a second time.
        let is_over =
            |former: &WorkerId, row: &Row| former.slot == worker.slot && row.orders.is_closed();
        self.workers.retain(|former, row| !is_over(former, row));
        let (orders, inbox) = unbounded();
        let settings = self.settings.current();
        let facts = Arc::clone(&self.facts);
        let group = Group::default();
        let run = process::run::<R>(worker, settings, group.clone(), inbox, facts);
        let (run, task) = abortable(run);
        R::spawn(async move {
            // Without the pool nobody hears of its end.
            let _aborted = run.await;
        });
        let row = Row {
            orders,
            task,
            group,
            turn: None,
        };
        self.workers.insert(worker, row);
    }

    fn kill(&self, worker: WorkerId) {
        let Some(row) = self.workers.get(&worker) else {
            let cause = DownCause::Killed;
            return (self.facts)(Input::WorkerDown { worker, cause });
        };
        // Its task says that the worker is down, or has said so.
        let _ended = row.orders.unbounded_send(Command::Kill);
    }

    fn start(&mut self, order: Turn) {
        let (turn, worker) = (order.turn, order.session.reference().worker);
        let order = Command::Order(Order::Start(Box::new(order)));
        let row = self.workers.get_mut(&worker);
        let is_taken = row.is_some_and(|row| {
            row.turn = Some(turn);
            row.orders.unbounded_send(order).is_ok()
        });
        if !is_taken {
            let text = Excerpt::new("the worker has ended");
            let cause = OpenCause::Refused { text };
            (self.facts)(Input::SessionFailed { turn, cause });
        }
    }

    fn cancel(&self, turn: TurnId) {
        // A worker that has ended said so, and that ends its turn.
        for row in self.workers.values().filter(|row| row.turn == Some(turn)) {
            let _ended = row
                .orders
                .unbounded_send(Command::Order(Order::Cancel(turn)));
        }
    }

    fn close(&self, session: SessionRef) {
        if let Some(row) = self.workers.get(&session.worker) {
            let _ended = row
                .orders
                .unbounded_send(Command::Order(Order::Close(session)));
        }
    }
}

impl<R: Processes> Workers for AcpPool<R> {
    fn perform(&mut self, action: Action) {
        match action {
            Action::Spawn { worker } => self.spawn(worker),
            Action::Kill { worker } => self.kill(worker),
            Action::Start {
                turn,
                session,
                scope,
                batch,
                context,
            } => self.start(Turn {
                turn,
                session,
                scope,
                batch,
                context,
            }),
            Action::CancelTurn { turn } => self.cancel(turn),
            Action::CloseSession { session } => self.close(session),
            Action::Left { .. }
            | Action::Dispose { .. }
            | Action::Started { .. }
            | Action::Query { .. }
            | Action::Verify { .. }
            | Action::Abort { .. }
            | Action::Publish(_)
            | Action::ShutdownRequested
            | Action::Ended
            | Action::Note(_)
            | Action::WakeAt(_) => {}
        }
    }
}

impl<R> Drop for AcpPool<R> {
    fn drop(&mut self) {
        for row in self.workers.values() {
            row.task.abort();
            // The program may end before the task does.
            row.group.signal(Signal::SIGKILL);
        }
    }
}

impl<R> fmt::Debug for AcpPool<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AcpPool")
            .field("settings", &self.settings)
            .field("workers", &self.workers.keys())
            .finish_non_exhaustive()
    }
}
