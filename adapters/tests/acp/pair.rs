//! A worker that may do anything, and a healthy one beside it in the same pool.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use buzz_adapters::acp::{AcpSettings, AcpSettingsHandle};
use buzz_proto::ids::TurnId;
use buzz_proto::schedule::{Action, DownCause, Input, Session, SessionRef, TurnEnd, WorkerId};

use super::bench::{Bench, GUARD, SESSION, WORKER, answered, fake};

const NEIGHBOUR: WorkerId = WorkerId {
    slot: 1,
    incarnation: 1,
};

const ITS_SESSION: SessionRef = SessionRef {
    worker: NEIGHBOUR,
    epoch: 100,
};

/// Turns of the neighbour have numbers from here on.
const ITS_TURNS: u64 = 100;

pub(crate) struct Pair {
    pub(crate) bench: Bench,
    pub(crate) settings: AcpSettingsHandle,
    log: Vec<Input>,
    turns: Vec<u64>,
    mark: String,
}

impl Pair {
    /// Both are ready, the second in the middle of its first turn.
    pub(crate) fn up(worker: AcpSettings) -> Self {
        let mut pair = Self::new(worker);
        pair.await_fact(|fact| *fact == Input::WorkerUp { worker: WORKER });
        assert!(!pair.family().is_empty(), "the mark is found");
        pair
    }

    /// The first is being started, the second is ready.
    pub(crate) fn new(mut worker: AcpSettings) -> Self {
        let mark = mark();
        worker.env.push(("FAKE_MARK".into(), (&mark).into()));
        let settings = AcpSettingsHandle::new(worker);
        let mut pair = Self {
            bench: Bench::new(settings.clone()),
            settings,
            log: Vec::new(),
            turns: Vec::new(),
            mark,
        };
        pair.bench.order(Action::Spawn { worker: WORKER });
        pair.settings.set(fake("echo"));
        pair.bench.order(Action::Spawn { worker: NEIGHBOUR });
        pair.await_fact(|fact| *fact == Input::WorkerUp { worker: NEIGHBOUR });
        pair.neighbour_answers();
        pair
    }

    pub(crate) fn start(&mut self, turn: u64, session: Session, text: &str) {
        self.turns.push(turn);
        self.bench.start(turn, session, &[text]);
    }

    /// The fact that ends a turn of the first worker.
    pub(crate) fn end(&mut self, turn: u64) -> Input {
        self.await_fact(|fact| {
            ended(fact) == Some(TurnId(turn))
                || matches!(fact, Input::WorkerDown { worker, .. } if *worker == WORKER)
        })
    }

    pub(crate) fn down(&mut self) -> DownCause {
        let fact = self.await_fact(
            |fact| matches!(fact, Input::WorkerDown { worker, .. } if *worker == WORKER),
        );
        let Input::WorkerDown { cause, .. } = fact else {
            panic!("the worker is down");
        };
        cause
    }

    /// The first fact of this kind, whether it came or comes.
    pub(crate) fn await_fact(&mut self, is: impl Fn(&Input) -> bool) -> Input {
        let mut seen = 0;
        loop {
            while let Some(fact) = self.log.get(seen) {
                if is(fact) {
                    return fact.clone();
                }
                seen += 1;
            }
            self.log.push(self.bench.fact());
        }
    }

    /// A whole turn of the second worker.
    pub(crate) fn neighbour_answers(&mut self) {
        let own = |turn: &&u64| **turn >= ITS_TURNS;
        let turn = ITS_TURNS + u64::try_from(self.turns.iter().filter(own).count()).unwrap();
        let session = if turn == ITS_TURNS {
            Session::Fresh(ITS_SESSION)
        } else {
            Session::Resume(ITS_SESSION)
        };
        self.start(turn, session, "how are you");
        let turn = TurnId(turn);
        let end = self.await_fact(|fact| ended(fact) == Some(turn));
        let answer = answered("how are you");
        assert_eq!(end, Input::Finished { turn, end: answer });
    }

    /// Ends what is left of both, and looks at all that was reported and all that is left.
    pub(crate) fn close(mut self) {
        self.neighbour_answers();
        for worker in [WORKER, NEIGHBOUR] {
            self.bench.order(Action::Kill { worker });
        }
        self.down();
        let end = self.await_fact(
            |fact| matches!(fact, Input::WorkerDown { worker, .. } if *worker == NEIGHBOUR),
        );
        let cause = DownCause::Killed;
        let worker = NEIGHBOUR;
        assert_eq!(end, Input::WorkerDown { worker, cause });
        self.log.extend(self.bench.rest());

        for turn in &self.turns {
            self.has_one_end(*turn);
        }
        for worker in [WORKER, NEIGHBOUR] {
            let downs = self.log.iter().filter(
                |fact| matches!(fact, Input::WorkerDown { worker: down, .. } if *down == worker),
            );
            assert_eq!(downs.count(), 1, "{worker:?}: {:?}", self.log);
        }
        self.leaves_nothing();
    }

    /// Processes of the first worker that are there, those included that left its group.
    pub(crate) fn family(&self) -> Vec<String> {
        let mark = format!("FAKE_MARK={}\0", self.mark);
        let mut family = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            // A process may end while it is looked at.
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            if String::from_utf8_lossy(&environment).contains(&mark) {
                family.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        family
    }

    /// Waits until nothing of the first worker is there.
    pub(crate) fn leaves_nothing(&self) {
        self.await_family(0..=0);
    }

    /// Waits until the first worker has so many processes.
    pub(crate) fn await_family(&self, size: RangeInclusive<usize>) {
        let began = Instant::now();
        let mut family = self.family();
        while !size.contains(&family.len()) {
            assert!(began.elapsed() < GUARD, "there are {family:?}");
            std::thread::sleep(Duration::from_millis(10));
            family = self.family();
        }
    }

    /// A turn ends with its answer or with its worker, never twice.
    fn has_one_end(&self, turn: u64) {
        let turn = TurnId(turn);
        let ends = self.log.iter().filter(|fact| ended(fact) == Some(turn));
        let ends = ends.count();
        let opened = Input::SessionOpened { turn };
        let openings = self.log.iter().filter(|fact| **fact == opened).count();
        assert!(ends <= 1, "{turn:?}: {:?}", self.log);
        assert!(openings <= 1, "{turn:?}: {:?}", self.log);
    }
}

/// The turn that a fact about it ends.
const fn ended(fact: &Input) -> Option<TurnId> {
    if let Input::Finished { turn, .. } | Input::SessionFailed { turn, .. } = fact {
        Some(*turn)
    } else {
        None
    }
}

pub(crate) fn failed(end: &Input) -> &buzz_proto::wire::Excerpt {
    let Input::Finished {
        end: TurnEnd::Failed { text, .. },
        ..
    } = end
    else {
        panic!("the turn failed: {end:?}");
    };
    text
}

/// The first turn of the first worker, in a fresh session.
pub(crate) const FIRST: Session = Session::Fresh(SESSION);

/// No two workers of any run have the same.
fn mark() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{}-{next}", std::process::id())
}
