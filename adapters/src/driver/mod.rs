//! The driver: it owns one machine, feeds it facts and carries out its orders. It decides nothing.
//!
//! One task runs it. Reading goes on while writes, signatures, verifications and HTTP calls are
//! under way: those run beside it and come back as facts. There is one timer, set by the machine's
//! wake; what is readable is fed before a tick.

mod keeping;
mod port;
mod record;
#[cfg(feature = "tokio")]
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::config::{ConfigError, Consumer};
use buzz_proto::ids::{ConnId, JobId, Ticket};
use buzz_proto::input::Input;
use buzz_proto::machine::Machine;
use buzz_proto::publish::{self, Verdict};
use buzz_proto::relay;
use buzz_proto::schedule;
use buzz_proto::time::{MonoTime, UnixTime};
use futures_channel::{mpsc, oneshot};
use futures_util::future::{AbortHandle, BoxFuture};
use futures_util::{FutureExt as _, StreamExt as _};

use self::keeping::{Keeping, Kept};
use self::record::Record;
use crate::acp::{Facts, Workers};
use crate::clock::Clock;
use crate::connect::{Report, Setup, Status};
use crate::delivery::Deliver;
use crate::dial::DialError;
use crate::http::HttpClient;
use crate::runtime::Runtime;
use crate::sign::{Attestation, Signer};
use crate::tls::Tls;
use crate::url::RelayUrl;
use crate::verify::Verifier;
use crate::ws::{Socket, SocketEvent};

/// The machine extrapolates the wall clock between reports this far apart.
const WALL_CLOCK_PERIOD: Duration = Duration::from_secs(10);
/// A report later in its second than this would keep the machine's time behind: an answer might be
/// dated before its question.
const WALL_CLOCK_REST_MAX: Duration = Duration::from_millis(50);
/// The machine has its own limits for an answer; the driver's frees the connection so much later.
const CALL_TIME_MORE: Duration = Duration::from_secs(5);
/// Facts fed in a row before a tick that is due: a socket that never falls silent must not keep
/// deadlines from being seen.
const FACTS_BEFORE_TICK: u32 = 64;

/// What reaches the driver's task from outside of it.
pub(crate) enum Message<S> {
    /// A fact.
    Fact(Input),
    /// A dial has ended.
    Dialed {
        conn: ConnId,
        result: Box<Dialed<S>>,
    },
    /// A write of records has ended.
    Kept(Box<Kept>),
    /// Publish, and tell the verdict.
    Publish {
        command: publish::Command,
        job: JobId,
        verdict: oneshot::Sender<Verdict>,
    },
    /// Tell how things stand.
    Status(oneshot::Sender<Status>),
}

/// A socket with the relay's `Date`, or why there is none.
pub(crate) type Dialed<S> = Result<(Socket<S>, Option<UnixTime>), DialError>;

/// The sending half of the driver's inbox.
pub(crate) type Inbox<S> = mpsc::UnboundedSender<Message<S>>;

/// A call beside the driver's task, named by the part that ordered it.
type Call = (Part, Ticket);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Relay,
    Publish,
    Schedule,
}

/// Drives one machine to its end.
pub(crate) struct Driver<R: Runtime> {
    machine: Machine,
    clock: Clock,
    /// Orders of the last call, kept for their memory.
    actions: Vec<Action>,
    sender: Inbox<R::Stream>,
    inbox: mpsc::UnboundedReceiver<Message<R::Stream>>,
    timer: Timer<R>,
    fed: u32,
    url: RelayUrl,
    tls: Tls,
    http: Arc<HttpClient<R>>,
    /// From the start of a call to the last byte of its answer.
    call_time_max: Duration,
    signer: Arc<dyn Signer>,
    verifier: Arc<dyn Verifier>,
    attestation: Option<Arc<Attestation>>,
    dialing: Option<(ConnId, AbortHandle)>,
    socket: Option<(ConnId, Socket<R::Stream>)>,
    calls: BTreeMap<Call, AbortHandle>,
    workers: Option<Box<dyn Workers>>,
    deliveries: Option<Deliver>,
    verdicts: BTreeMap<JobId, oneshot::Sender<Verdict>>,
    report: Box<dyn FnMut(Report) + Send>,
    record: Record,
    keeping: Keeping,
    ended: bool,
}

/// A driver may be dropped where it stands.
impl<R: Runtime> Drop for Driver<R> {
    fn drop(&mut self) {
        self.abort_all();
    }
}

impl<R: Runtime> Driver<R> {
    /// A driver whose machine dials as soon as it runs.
    pub(crate) fn new(
        setup: Setup,
        deliveries: Deliver,
    ) -> Result<(Self, Inbox<R::Stream>), ConfigError> {
        let clock = Clock::start();
        let machine = Machine::new(setup.config.clone(), MonoTime::ZERO)?;
        let (sender, inbox) = mpsc::unbounded();
        let facts = facts_into(sender.clone());
        let limits = &setup.config.relay.limits;
        let answer = setup.config.publish.answer.max(limits.answer);
        let external = matches!(setup.config.consumer, Consumer::External { .. });
        let driver = Self {
            machine,
            clock,
            actions: Vec::new(),
            sender: sender.clone(),
            inbox,
            timer: Timer::new(),
            fed: 0,
            http: Arc::new(HttpClient::new(setup.url.clone(), setup.tls.clone())),
            call_time_max: answer.saturating_add(CALL_TIME_MORE),
            url: setup.url,
            tls: setup.tls,
            signer: setup.signer,
            verifier: setup.verifier,
            attestation: setup.attestation.map(Arc::new),
            dialing: None,
            socket: None,
            calls: BTreeMap::new(),
            workers: setup.workers.map(|start| start(facts)),
            deliveries: external.then_some(deliveries),
            verdicts: BTreeMap::new(),
            report: setup.report,
            record: Record::new(setup.record, &setup.config),
            keeping: Keeping::new(setup.keeper),
            ended: false,
        };
        Ok((driver, sender))
    }

    /// Runs until the machine has ended.
    pub(crate) async fn run(mut self) {
        self.tell_wall();
        while !self.ended {
            let message = poll_fn(|cx| self.poll_message(cx)).await;
            self.take(message);
        }
        self.abort_all();
        self.finish_keeping().await;
        self.record.finish(&mut self.report);
    }

    /// Reports the wall clock out of turn.
    fn tell_wall(&mut self) {
        let wall = self.timer.read_wall(self.clock.now());
        self.feed(wall);
    }

    /// Nothing that runs beside the driver is to outlive it.
    fn abort_all(&mut self) {
        let dial = self.dialing.take().map(|(_, dial)| dial);
        let calls = std::mem::take(&mut self.calls).into_values();
        for handle in calls.chain(dial) {
            handle.abort();
        }
    }

    fn take(&mut self, message: Message<R::Stream>) {
        match message {
            Message::Fact(input) => {
                if self.finish_call(&input) {
                    self.feed(input);
                }
            }
            Message::Dialed { conn, result } => self.dialed(conn, *result),
            Message::Kept(kept) => {
                let fact = self.kept(*kept);
                self.feed(fact);
            }
            Message::Publish {
                command,
                job,
                verdict,
            } => {
                self.verdicts.insert(job, verdict);
                self.feed(Input::Publish(publish::Input::Command(command)));
            }
            Message::Status(answer) => {
                // Whoever asked may have gone.
                let _gone = answer.send(Status::of(&self.machine));
            }
        }
    }

    /// One call of the machine, and all that it orders.
    fn feed(&mut self, input: Input) {
        let now = self.clock.now();
        let mut actions = std::mem::take(&mut self.actions);
        if self.record.is_on() {
            self.machine
                .handle_input_into(input.clone(), now, &mut actions);
            self.record.call(now, &input, &actions, &mut self.report);
        } else {
            self.machine.handle_input_into(input, now, &mut actions);
        }
        for action in actions.drain(..) {
            self.perform(action);
        }
        self.actions = actions;
    }

    /// Takes note of a call's end. False when its answer is not awaited: the call was given up, and
    /// ended before it could be stopped.
    fn finish_call(&mut self, input: &Input) -> bool {
        use relay::Input as FromRelay;
        let call = match input {
            Input::Relay(FromRelay::Answered { ticket, .. } | FromRelay::Broke { ticket, .. }) => {
                (Part::Relay, *ticket)
            }
            Input::Publish(
                publish::Input::Answered { ticket, .. }
                | publish::Input::Broke { ticket, .. }
                | publish::Input::Signed { ticket, .. }
                | publish::Input::SignFailed { ticket },
            ) => (Part::Publish, *ticket),
            Input::Schedule(
                schedule::Input::Answered { ticket, .. } | schedule::Input::Broke { ticket, .. },
            ) => (Part::Schedule, *ticket),
            Input::Relay(_)
            | Input::Publish(_)
            | Input::Schedule(_)
            | Input::Tick
            | Input::WallClock(_)
            | Input::Command(_) => return true,
        };
        self.calls.remove(&call).is_some()
    }

    /// The next message: from the inbox and the socket in turns, then the clocks.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Message<R::Stream>> {
        if self.fed >= FACTS_BEFORE_TICK {
            self.fed = 0;
            if let Poll::Ready(input) = self.timer.poll(self.clock.now(), cx) {
                return Poll::Ready(Message::Fact(input));
            }
        }
        self.fed = self.fed.saturating_add(1);
        let socket_first = self.fed.is_multiple_of(2);
        if socket_first && let Poll::Ready(message) = self.poll_socket(cx) {
            return Poll::Ready(message);
        }
        if let Poll::Ready(Some(message)) = self.inbox.poll_next_unpin(cx) {
            return Poll::Ready(message);
        }
        if !socket_first && let Poll::Ready(message) = self.poll_socket(cx) {
            return Poll::Ready(message);
        }
        self.fed = 0;
        self.timer.poll(self.clock.now(), cx).map(Message::Fact)
    }

    fn poll_socket(&mut self, cx: &mut Context<'_>) -> Poll<Message<R::Stream>> {
        use relay::Input as I;
        let Some((conn, socket)) = &mut self.socket else {
            return Poll::Pending;
        };
        let conn = *conn;
        let Poll::Ready(event) = socket.poll_next(cx) else {
            return Poll::Pending;
        };
        let fact = match event {
            Some(SocketEvent::Text(text)) => I::Frame { conn, text },
            Some(SocketEvent::Pinged | SocketEvent::Ignored) => I::Pinged { conn },
            Some(SocketEvent::Pong) => I::Pong { conn },
            Some(SocketEvent::Written(write)) => I::Written { write },
            Some(SocketEvent::WriteFailed { write, sent }) => I::WriteFailed { write, sent },
            Some(SocketEvent::Closed { code, detail }) => {
                tracing::debug!(?code, %detail, "the socket ended");
                self.socket = None;
                I::Closed { conn, code }
            }
            None => {
                self.socket = None;
                I::Closed { conn, code: None }
            }
        };
        Poll::Ready(Message::Fact(Input::Relay(fact)))
    }
}

/// Hands the facts of workers to the driver.
fn facts_into<S: Send + 'static>(inbox: Inbox<S>) -> Facts {
    Arc::new(move |fact| {
        // After the end nobody listens.
        let _gone = inbox.unbounded_send(Message::Fact(Input::Schedule(fact)));
    })
}

/// When the wall clock is reported after a report that left `rest` out: where a second begins.
fn next_report(now: MonoTime, rest: Duration) -> MonoTime {
    let span = if rest > WALL_CLOCK_REST_MAX {
        Duration::from_secs(1)
    } else {
        WALL_CLOCK_PERIOD
    };
    now.after(span.saturating_sub(rest))
}

/// The one timer: the machine's wake, and the wall clock's period.
struct Timer<R> {
    wake: Option<MonoTime>,
    wall: MonoTime,
    sleep: Option<(MonoTime, BoxFuture<'static, ()>)>,
    runtime: std::marker::PhantomData<fn() -> R>,
}

impl<R: Runtime> Timer<R> {
    fn new() -> Self {
        let wall = MonoTime::ZERO.after(WALL_CLOCK_PERIOD);
        Self {
            wake: None,
            wall,
            sleep: None,
            runtime: std::marker::PhantomData,
        }
    }

    const fn set(&mut self, wake: Option<MonoTime>) {
        self.wake = wake;
    }

    fn read_wall(&mut self, now: MonoTime) -> Input {
        let (wall, rest) = Clock::wall_and_rest();
        self.wall = next_report(now, rest);
        Input::WallClock(wall)
    }

    /// The fact that is due. A tick stays due until the machine has moved its wake.
    fn poll(&mut self, now: MonoTime, cx: &mut Context<'_>) -> Poll<Input> {
        loop {
            if now >= self.wall {
                return Poll::Ready(self.read_wall(now));
            }
            if self.wake.is_some_and(|wake| now >= wake) {
                return Poll::Ready(Input::Tick);
            }
            let next = self.wake.map_or(self.wall, |wake| wake.min(self.wall));
            if self.sleep.as_ref().is_none_or(|(until, _)| *until != next) {
                let span = next.saturating_since(now);
                self.sleep = Some((next, Box::pin(R::sleep(span))));
            }
            let Some((_, sleep)) = &mut self.sleep else {
                return Poll::Pending;
            };
            if sleep.poll_unpin(cx).is_pending() {
                return Poll::Pending;
            }
            // It woke early: sleep on for what is left, at least a moment.
            let span = next.saturating_since(now).max(Duration::from_millis(1));
            self.sleep = Some((next, Box::pin(R::sleep(span))));
        }
    }
}
