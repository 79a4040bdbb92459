//! How a program speaks to its running agent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use buzz_proto::ids::{ChannelId, EventId, JobId, PubKey};
use buzz_proto::input::{Command, Input};
use buzz_proto::publish::{self, Body, Class, Mark, Route, Verdict};
use buzz_proto::relay::{self, Interest};
use buzz_proto::schedule;
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Draft;
use futures_channel::oneshot;
use futures_util::future::AbortHandle;

use crate::connect::Status;
use crate::driver::{Inbox, Message};
use crate::runtime::Runtime;

/// Running turns and what is to be published, when a [`Handle`] is dropped.
const DROP_GRACE: Duration = Duration::from_secs(5);

/// The agent has ended: no order reaches it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the agent has ended")
    }
}

impl std::error::Error for Ended {}

/// Speaks to a running agent, and ends it when dropped: running turns and what is to be published
/// then get 5 s. [`Handle::detach`] lets it run on.
///
/// ```no_run
/// # use std::{error::Error, time::Duration};
/// # use buzz_adapters::connect::Handle;
/// # use buzz_adapters::runtime::Runtime;
/// # use buzz_proto::{ids::ChannelId, publish::{Class, Verdict}, wire::Draft};
/// # async fn f<R: Runtime>(mut agent: Handle<R>, channel: ChannelId, draft: Draft) -> Result<(), Box<dyn Error>> {
/// agent.subscribe(channel, None, None)?;
/// match agent.publish(draft, Class::Durable, Some(Duration::from_secs(60))).await? {
///     Verdict::Stored => println!("the relay has it"),
///     verdict => println!("{verdict:?}; connected: {}", agent.status().await?.relay.is_live),
/// }
/// agent.shutdown(Duration::from_secs(10));
/// agent.ended().await;
/// # Ok(()) }
/// ```
pub struct Handle<R: Runtime> {
    inbox: Inbox<R::Stream>,
    task: AbortHandle,
    jobs: Arc<AtomicU64>,
    ended: Option<oneshot::Receiver<()>>,
    /// Whether the drop has nothing to order: the end is under way, or not wanted.
    is_let_go: AtomicBool,
}

impl<R: Runtime> Handle<R> {
    pub(crate) fn new(
        inbox: Inbox<R::Stream>,
        task: AbortHandle,
        ended: oneshot::Receiver<()>,
    ) -> Self {
        Self {
            inbox,
            task,
            jobs: Arc::new(AtomicU64::new(1)),
            ended: Some(ended),
            is_let_go: AtomicBool::new(false),
        }
    }

    /// Keeps a channel subscribed; events dated before `floor` are not asked for.
    ///
    /// # Errors
    /// When the agent has ended.
    pub fn subscribe(
        &self,
        channel: ChannelId,
        interest: Option<Interest>,
        floor: Option<UnixTime>,
    ) -> Result<(), Ended> {
        self.relay(relay::Command::Subscribe {
            channel,
            interest,
            floor,
        })
    }

    /// Lets a channel go.
    ///
    /// # Errors
    /// When the agent has ended.
    pub fn unsubscribe(&self, channel: ChannelId) -> Result<(), Ended> {
        self.relay(relay::Command::Unsubscribe { channel })
    }

    /// Drops the connection and dials anew.
    ///
    /// # Errors
    /// When the agent has ended.
    pub fn reconnect(&self) -> Result<(), Ended> {
        self.relay(relay::Command::Reconnect)
    }

    /// Changes what is wanted of a scope or channel.
    ///
    /// # Errors
    /// When the agent has ended.
    pub fn control(&self, target: schedule::Target, want: schedule::Want) -> Result<(), Ended> {
        self.schedule(schedule::Command::Control { target, want })
    }

    /// Starts every worker anew, so that settings given to
    /// [`AcpSettingsHandle::set`](crate::acp::AcpSettingsHandle::set) count for all that is answered
    /// from then on. Sessions are given up; what is being worked on is worked on again.
    ///
    /// # Errors
    /// When the agent has ended.
    pub fn renew_workers(&self) -> Result<(), Ended> {
        self.schedule(schedule::Command::Renew)
    }

    /// Publishes a draft; gives its verdict, which may take as long as `ttl` (a day without one).
    ///
    /// # Errors
    /// When the agent has ended.
    pub async fn publish(
        &self,
        draft: Draft,
        class: Class,
        ttl: Option<Duration>,
    ) -> Result<Verdict, Ended> {
        let job = JobId(self.jobs.fetch_add(1, Ordering::Relaxed));
        let body = Body::SignWhenSent(draft);
        let command = publish::Command::Submit {
            job,
            class,
            route: Route::Post,
            body,
            ttl,
        };
        let (verdict, answer) = oneshot::channel();
        self.send(Message::Publish {
            command,
            job,
            verdict,
        })?;
        answer.await.map_err(|_| Ended)
    }

    /// Shows a mark on a message, as a reaction of the agent to it, in place of the one that it
    /// bears; none takes that away. `author` is the message's, whom the reaction names. Marks are
    /// sent after everything else, one step at a time, and only the last one wanted of a message
    /// is worked towards; one that cannot be shown is noted
    /// ([`NotShown`](buzz_proto::note::Note::NotShown)).
    ///
    /// # Errors
    /// When the agent has ended.
    pub fn react(&self, message: EventId, author: PubKey, mark: Option<Mark>) -> Result<(), Ended> {
        let command = publish::Command::React {
            message,
            author,
            mark,
        };
        let fact = Input::Publish(publish::Input::Command(command));
        self.send(Message::Fact(fact))
    }

    /// How things stand.
    ///
    /// # Errors
    /// When the agent has ended.
    pub async fn status(&self) -> Result<Status, Ended> {
        let (status, answer) = oneshot::channel();
        self.send(Message::Status(status))?;
        answer.await.map_err(|_| Ended)
    }

    /// Ends the agent: running turns and what is to be published get `grace`. [`Handle::ended`]
    /// tells when it is over.
    pub fn shutdown(&self, grace: Duration) {
        self.is_let_go.store(true, Ordering::Relaxed);
        // An agent that has ended needs no order to.
        let _ended = self.send(Message::Fact(Input::Command(Command::Shutdown { grace })));
    }

    /// Ends the agent where it stands, for a program that cannot wait: running turns have no
    /// answer, and what is not published or kept yet is lost, or done again where records are kept.
    /// Sockets are closed and workers are killed. [`Handle::ended`] tells when it is over.
    pub fn abort(&self) {
        self.is_let_go.store(true, Ordering::Relaxed);
        self.task.abort();
    }

    /// Waits until the agent has ended; at once when it has.
    pub async fn ended(&mut self) {
        if let Some(ended) = &mut self.ended {
            let _over = ended.await;
            self.ended = None;
        }
    }

    /// Lets the agent run on without a handle, for as long as its process does; without workers,
    /// until its events are dropped.
    pub fn detach(self) {
        self.is_let_go.store(true, Ordering::Relaxed);
    }

    fn relay(&self, command: relay::Command) -> Result<(), Ended> {
        self.send(Message::Fact(Input::Relay(relay::Input::Command(command))))
    }

    fn schedule(&self, command: schedule::Command) -> Result<(), Ended> {
        let fact = Input::Schedule(schedule::Input::Command(command));
        self.send(Message::Fact(fact))
    }

    fn send(&self, message: Message<R::Stream>) -> Result<(), Ended> {
        self.inbox.unbounded_send(message).map_err(|_| Ended)
    }
}

impl<R: Runtime> Drop for Handle<R> {
    /// An agent that nobody can reach any more is ended.
    fn drop(&mut self) {
        if !self.is_let_go.load(Ordering::Relaxed) {
            self.shutdown(DROP_GRACE);
        }
    }
}
