//! What all tasks of one relay share: the rules behind a lock, and the wakers of its connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::persist::Disk;
use crate::rules::{ConnectionId, Rules};

#[derive(Debug)]
pub(crate) struct Shared {
    state: Mutex<State>,
    tasks: Mutex<JoinSet<()>>,
    /// Counts changes of the faults, so that held tasks look again.
    faults_changed: watch::Sender<u64>,
    /// Connections open now.
    open: watch::Sender<usize>,
    pub(crate) linger: Duration,
    pub(crate) history_patience: Duration,
    pub(crate) frame_bytes_max: usize,
}

#[derive(Debug)]
struct State {
    rules: Rules,
    links: HashMap<ConnectionId, Arc<Link>>,
    disk: Option<Disk>,
    disk_error: Option<String>,
}

/// Wakes the parts of one connection's task.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// There is something to write.
    pub(crate) outgoing: Notify,
    /// There is stored history to queue.
    pub(crate) history: Notify,
    /// The queue got shorter.
    pub(crate) room: Notify,
    /// The connection is to end.
    pub(crate) closing: watch::Sender<bool>,
}

/// Times of the transport.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    pub(crate) linger: Duration,
    pub(crate) history: Duration,
    pub(crate) frame_bytes_max: usize,
}

impl Shared {
    pub(crate) fn new(rules: Rules, disk: Option<Disk>, patience: Patience) -> Self {
        Self {
            state: Mutex::new(State {
                rules,
                links: HashMap::new(),
                disk,
                disk_error: None,
            }),
            tasks: Mutex::default(),
            faults_changed: watch::Sender::new(0),
            open: watch::Sender::new(0),
            linger: patience.linger,
            history_patience: patience.history,
            frame_bytes_max: patience.frame_bytes_max,
        }
    }

    /// Runs `act` on the rules, copies what changed to disk and wakes who has to write.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut Rules, Duration) -> T) -> T {
        let mut state = lock(&self.state);
        let result = act(&mut state.rules, now());
        state.settle();
        result
    }

    /// As [`Shared::with`], for changes of the faults.
    pub(crate) fn with_faults<T>(&self, act: impl FnOnce(&mut Rules) -> T) -> T {
        let result = self.with(|rules, _| act(rules));
        self.faults_changed.send_modify(|version| *version += 1);
        result
    }

    pub(crate) fn open(&self, host: &str) -> (ConnectionId, Arc<Link>) {
        let link = Arc::new(Link::default());
        let mut state = lock(&self.state);
        let id = state.rules.open(host, crate::keys::random_bytes(), now());
        state.links.insert(id, Arc::clone(&link));
        state.settle();
        self.open.send_replace(state.links.len());
        (id, link)
    }

    pub(crate) fn gone(&self, id: ConnectionId) {
        let mut state = lock(&self.state);
        state.rules.gone(id);
        if let Some(link) = state.links.remove(&id) {
            link.closing.send_replace(true);
            link.outgoing.notify_one();
        }
        self.open.send_replace(state.links.len());
    }

    pub(crate) async fn all_gone(&self) {
        let mut open = self.open.subscribe();
        // The sender lives as long as `self`, so the wait ends only by its condition.
        let _ = open.wait_for(|count| *count == 0).await;
    }

    pub(crate) fn faults_changed(&self) -> watch::Receiver<u64> {
        self.faults_changed.subscribe()
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = lock(&self.tasks);
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    pub(crate) fn abort_tasks(&self) {
        lock(&self.tasks).abort_all();
    }

    /// Ends everything and lets go of the file.
    pub(crate) async fn finish(&self) {
        loop {
            let mut tasks = std::mem::take(&mut *lock(&self.tasks));
            if tasks.is_empty() {
                break;
            }
            // An ending task may have started another one.
            tasks.shutdown().await;
        }
        lock(&self.state).disk = None;
    }

    pub(crate) fn disk_error(&self) -> Option<String> {
        lock(&self.state).disk_error.clone()
    }
}

impl State {
    fn settle(&mut self) {
        if let Some(disk) = &mut self.disk {
            let (changes, channels) = self.rules.take_changes();
            if let Err(error) = disk.apply(&changes, &channels) {
                self.disk_error = Some(error.to_string());
            }
        }
        for id in self.rules.take_touched() {
            let Some(link) = self.links.get(&id) else {
                continue;
            };
            if self.rules.is_closing(id) {
                link.closing.send_replace(true);
            }
            if self.rules.has_history(id) {
                link.history.notify_one();
            }
            link.outgoing.notify_one();
        }
    }
}

fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// A panic elsewhere must not turn into a second one here.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
