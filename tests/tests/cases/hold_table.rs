//! Where ready work goes, over all that the decision may depend on.

use std::time::Duration;

use buzz_proto::schedule::Input;
use buzz_proto::time::Why;

use crate::crew::{ANNE, BERT, Conduct, Crew, begun_with, holds, settings};
use crate::hold::T;

const LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Thread,
    Conversation,
}

/// The session of the scope, on the worker in the first slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Session {
    Current,
    None,
    /// It lived in an earlier life of that worker.
    Lost,
}

/// The worker in the first slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Busy,
    Idle,
    Down,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    kind: Kind,
    session: Session,
    owner: Owner,
    /// Since the event came.
    elapsed: Duration,
    /// Idle workers besides.
    others: u16,
    limit: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Resume,
    Fresh,
    /// It waits, beside a worker that could take it.
    Hold,
    /// It waits, and there is no such worker.
    Wait,
}

fn expected(cell: Cell) -> Decision {
    let has_session = cell.session == Session::Current && cell.owner != Owner::Down;
    let is_held = has_session
        && cell.owner == Owner::Busy
        && cell.kind == Kind::Thread
        && !cell.limit.is_zero();
    match (cell.owner, cell.others) {
        (Owner::Idle, _) if has_session => Decision::Resume,
        (Owner::Busy | Owner::Down, 0) => Decision::Wait,
        _ if is_held && cell.elapsed < cell.limit => Decision::Hold,
        (Owner::Busy | Owner::Down, _) | (Owner::Idle, _) => Decision::Fresh,
    }
}

/// Workers as the cell has them, and nothing to do.
fn prepare(cell: Cell) -> Crew {
    // The last one comes late.
    let mut config = settings(2 + cell.others);
    config.limits.hold = cell.limit;
    let mut crew = Crew::unmanned(config);
    crew.ready(0);
    if cell.session != Session::None {
        bring(&mut crew, 1, cell.kind);
        crew.answers(1);
    }
    if cell.session == Session::Lost {
        crew.starts = Conduct::Works;
        crew.exits(0);
        crew.run_for(Duration::from_secs(1));
    }
    crew.starts = Conduct::ByHand;
    match cell.owner {
        Owner::Busy => crew.say(2, BERT),
        Owner::Idle => {}
        Owner::Down => crew.exits(0),
    }
    for slot in 1..=cell.others {
        crew.ready(slot);
    }
    crew.begins()
}

fn bring(crew: &mut Crew, n: u64, kind: Kind) {
    match kind {
        Kind::Thread => crew.say_in(n, T),
        Kind::Conversation => crew.say(n, ANNE),
    }
}

fn found(crew: &Crew, cell: Cell) -> Decision {
    match begun_with(crew, 10).first() {
        Some(begun) if begun.is_fresh() => Decision::Fresh,
        Some(_) => Decision::Resume,
        None if cell.others > 0 => Decision::Hold,
        None => Decision::Wait,
    }
}

fn expect(crew: &Crew, cell: Cell) {
    let decision = found(crew, cell);
    if decision != expected(cell) {
        crew.script.fail(&format!("{cell:?}: {decision:?}"));
    }
    let due = crew.script.part().next_deadline();
    let limit = due.filter(|(_, why)| *why == Why::Hold);
    let is_armed = limit.map(|(at, _)| crew.ms(at)) == Some(Some(10_000));
    assert_eq!(is_armed, decision == Decision::Hold, "{cell:?}: {due:?}");
}

/// Nothing happens but the event, a tick after `elapsed`, late where something was due before, and
/// one more worker.
fn play(cell: Cell) {
    let mut crew = prepare(cell);
    bring(&mut crew, 10, cell.kind);
    let at_once = Cell {
        elapsed: Duration::ZERO,
        ..cell
    };
    expect(&crew, at_once);
    let later = crew.script.now().after(cell.elapsed);
    crew.script.sleep_until(later);
    crew.feed(Input::Tick);
    if expected(at_once) == Decision::Hold || expected(at_once) == Decision::Wait {
        expect(&crew, cell);
    }
    if cell.owner != Owner::Down {
        crew.ready(1 + cell.others);
        let others = 1 + cell.others;
        let is_begun = !begun_with(&crew, 10).is_empty();
        if !is_begun || expected(cell) == Decision::Wait {
            expect(&crew, Cell { others, ..cell });
        }
    }
    let is_held = !holds(&crew).is_empty();
    let may_be_held = cell.kind == Kind::Thread && cell.session == Session::Current;
    assert!(
        !is_held || may_be_held && cell.owner == Owner::Busy,
        "{cell:?}"
    );
}

#[test]
fn block_buzz_7340_where_work_goes_follows_from_the_facts_alone() {
    let nano = Duration::from_nanos(1);
    let mut cells = 0;
    for kind in [Kind::Thread, Kind::Conversation] {
        for session in [Session::Current, Session::None, Session::Lost] {
            for owner in [Owner::Busy, Owner::Idle, Owner::Down] {
                for elapsed in [Duration::ZERO, LIMIT - nano, LIMIT, LIMIT + LIMIT] {
                    for others in 0..3 {
                        for limit in [Duration::ZERO, LIMIT] {
                            let cell = Cell {
                                kind,
                                session,
                                owner,
                                elapsed,
                                others,
                                limit,
                            };
                            play(cell);
                            cells += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(cells, 432);
}
