//! A pool over fake agents, and the facts that come out of it.

use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use buzz_adapters::acp::{AcpPool, AcpSettings, AcpSettingsHandle, Workers as _};
use buzz_proto::ids::{ChannelId, EventId, TurnId};
use buzz_proto::schedule::{
    Action, Context, DownCause, Input, Scope, Session, SessionRef, StopReason, TurnEnd, WorkerId,
};
use buzz_proto::wire::Event;
use tokio::runtime::Runtime;

use crate::Rt;

/// Nothing here takes as long on a machine that works.
pub(crate) const GUARD: Duration = Duration::from_secs(60);

pub(crate) const WORKER: WorkerId = WorkerId {
    slot: 0,
    incarnation: 1,
};

pub(crate) const SESSION: SessionRef = SessionRef {
    worker: WORKER,
    epoch: 1,
};

pub(crate) struct Bench {
    pool: Option<AcpPool<Rt>>,
    facts: Receiver<Input>,
    /// Orders are given inside it, as a driver does; another runtime needs none.
    tokio: Runtime,
}

/// Settings that start this test binary as an agent in `mode`.
pub(crate) fn fake(mode: &str) -> AcpSettings {
    let this = std::env::current_exe().unwrap();
    let mut settings = AcpSettings::new(this.to_str().unwrap());
    settings.args = ["--exact", "fake_agent", "--nocapture"]
        .map(str::to_owned)
        .into();
    settings.env = vec![("FAKE_AGENT".into(), mode.into())];
    settings
}

/// The same agent and all that it starts, where SIGTERM is not heard.
pub(crate) fn deaf_to_sigterm(inner: AcpSettings) -> AcpSettings {
    let mut settings = AcpSettings::new("sh");
    settings.args = vec![
        "-c".into(),
        r#"trap "" TERM; exec "$0" "$@""#.into(),
        inner.command,
    ];
    settings.args.extend(inner.args);
    settings.env = inner.env;
    settings
}

impl Bench {
    pub(crate) fn new(settings: impl Into<AcpSettingsHandle>) -> Self {
        let (sender, facts) = channel();
        let tell = move |fact| {
            let _gone = sender.send(fact);
        };
        let mut tokio = tokio::runtime::Builder::new_multi_thread();
        let tokio = tokio.worker_threads(1).enable_all().build().unwrap();
        let pool = AcpPool::new(settings, tell);
        Self {
            pool: Some(pool),
            facts,
            tokio,
        }
    }

    /// With a worker that is ready.
    pub(crate) fn up(settings: impl Into<AcpSettingsHandle>) -> Self {
        let mut bench = Self::new(settings);
        bench.order(Action::Spawn { worker: WORKER });
        assert_eq!(bench.fact(), Input::WorkerUp { worker: WORKER });
        bench
    }

    pub(crate) fn order(&mut self, action: Action) {
        let _inside = self.tokio.enter();
        self.pool.as_mut().unwrap().perform(action);
    }

    pub(crate) fn start(&mut self, turn: u64, session: Session, texts: &[&str]) {
        let batch = texts.iter().map(|text| event(text)).collect();
        self.start_after(turn, session, Context::Known, batch);
    }

    /// Starts a turn whose worker is told what was said before.
    pub(crate) fn start_after(
        &mut self,
        turn: u64,
        session: Session,
        context: Context,
        batch: Vec<Event>,
    ) {
        self.order(Action::Start {
            turn: TurnId(turn),
            session,
            scope: Scope::Thread(channel_id(), EventId([0xab; 32])),
            batch,
            context,
        });
    }

    /// The next fact that is not a sign of life.
    pub(crate) fn fact(&self) -> Input {
        loop {
            let fact = self.any_fact();
            if !matches!(fact, Input::Progressed { .. }) {
                return fact;
            }
        }
    }

    pub(crate) fn any_fact(&self) -> Input {
        self.facts.recv_timeout(GUARD).expect("a fact in time")
    }

    /// A whole turn in a fresh session, and how it ended.
    pub(crate) fn turn(&mut self, text: &str) -> TurnEnd {
        self.start(1, Session::Fresh(SESSION), &[text]);
        assert_eq!(self.fact(), opened(1));
        self.end()
    }

    pub(crate) fn end(&self) -> TurnEnd {
        let fact = self.fact();
        let Input::Finished { end, .. } = fact else {
            panic!("expected the end of a turn, got {fact:?}");
        };
        end
    }

    pub(crate) fn down(&self) -> DownCause {
        let fact = self.fact();
        let Input::WorkerDown { worker, cause } = fact else {
            panic!("expected the worker to be down, got {fact:?}");
        };
        assert_eq!(worker, WORKER);
        cause
    }

    pub(crate) fn drop_pool(&mut self) {
        self.pool = None;
    }

    /// The facts that wait.
    pub(crate) fn rest(&self) -> Vec<Input> {
        self.facts.try_iter().collect()
    }

    /// Whether no fact waits.
    pub(crate) fn is_quiet(&self) -> bool {
        self.facts.try_recv().is_err()
    }

    /// Nothing else is reported, once all workers are gone.
    pub(crate) fn ends_quietly(mut self) {
        self.order(Action::Kill { worker: WORKER });
        assert_eq!(self.down(), DownCause::Killed);
        assert!(self.is_quiet());
    }
}

pub(crate) fn opened(turn: u64) -> Input {
    Input::SessionOpened { turn: TurnId(turn) }
}

pub(crate) fn answered(reply: &str) -> TurnEnd {
    TurnEnd::Answered {
        reply: reply.to_owned(),
        stop: StopReason::EndTurn,
    }
}

pub(crate) fn channel_id() -> ChannelId {
    "0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501".parse().unwrap()
}

/// An event of 2026-01-02 03:04:05 UTC.
pub(crate) fn event(text: &str) -> Event {
    let raw = serde_json::json!({
        "id": "01".repeat(32),
        "pubkey": "cd".repeat(32),
        "created_at": 1_767_323_045,
        "kind": 9,
        "tags": [["h", channel_id().to_string()]],
        "content": text,
        "sig": "02".repeat(64),
    });
    Event::decode(raw.to_string().into()).unwrap()
}

/// Whether a process is there, dead but not buried included.
pub(crate) fn exists(pid: &str) -> bool {
    std::path::Path::new("/proc").join(pid).exists()
}

pub(crate) fn await_gone(pid: &str) {
    let began = Instant::now();
    while exists(pid) {
        assert!(began.elapsed() < GUARD, "process {pid} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}
