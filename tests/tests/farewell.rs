//! The last presence of a whole machine, and what its parts tell each other alone.

use std::collections::VecDeque;
use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::config::{Config, Consumer};
use buzz_proto::ids::{ConnId, JobId};
use buzz_proto::input::{Command, Input};
use buzz_proto::machine::Machine;
use buzz_proto::note::Note;
use buzz_proto::publish::{self, Body, Class, Route, Verdict};
use buzz_proto::relay::{self, HttpAnswer};
use buzz_proto::schedule::{self, DownCause, WorkerId};
use buzz_proto::time::MonoTime;
use buzz_sim::machine::{external, machine, workers};
use buzz_sim::relay::given;
use buzz_sim::script::{Script, script};
use buzz_sim::toy::{self, START, Toy};
use serde_json::Value;

const CONN: ConnId = ConnId(1);
const BUSY: &str = "rate-limited: quota exceeded; retry in 30s";

#[test]
fn an_agent_that_is_live_says_that_it_is_offline_before_it_closes() {
    let mut machine = live(workers());
    assert_eq!(presences(&serve(&mut machine, "")), ["online"]);

    let told = end(&mut machine, "");

    assert_eq!(presences(&told), ["offline"]);
    let said = place(&told, |order| presence(order).is_some());
    let closed = place(&told, is_close);
    assert!(said < closed, "{told:?}");
    assert_eq!(told.last(), Some(&Action::Ended));
}

#[test]
fn an_agent_that_is_not_live_ends_at_once() {
    let mut machine = live(workers());
    serve(&mut machine, "");
    let closed = relay::Input::Closed {
        conn: CONN,
        code: None,
    };
    machine.input(Input::Relay(closed));
    serve(&mut machine, "");

    let told = end(&mut machine, "");

    assert_eq!(presences(&told), [""; 0]);
    assert_eq!(told.last(), Some(&Action::Ended));
}

#[test]
fn an_agent_that_is_kept_from_sending_for_long_ends_at_once() {
    let mut machine = live(workers());
    assert_eq!(presences(&serve(&mut machine, BUSY)), ["online"]);

    let told = end(&mut machine, "");

    assert_eq!(presences(&told), [""; 0]);
    assert_eq!(told.last(), Some(&Action::Ended));
}

#[test]
fn a_relay_that_does_not_answer_is_waited_for_no_longer_than_two_seconds() {
    let mut machine = live(workers());
    serve(&mut machine, "");
    let begun = machine.now();

    let told = end(&mut machine, "silence");
    assert_eq!(presences(&told), ["offline"]);
    assert!(!told.contains(&Action::Ended), "{told:?}");
    machine.run_for(Duration::from_secs(2));

    let (at, last) = machine.timed_orders().pop().expect("orders");
    assert_eq!(last, Action::Ended);
    assert_eq!(at.saturating_since(begun), Duration::from_secs(2));
}

/// Deadlines are in whole milliseconds, so an end that is over already still needs the next one.
#[test]
fn a_machine_that_sleeps_past_its_end_still_gives_each_job_its_verdict() {
    for consumer in [external(), workers()] {
        let mut machine = script(machine(buzz_sim::machine::config(consumer)));
        machine.at(MonoTime::from_nanos(5_000_002));
        machine.input(Input::WallClock(START)).orders();
        machine.input(post(JobId(1))).orders();
        let grace = Duration::from_secs(24);
        machine.input(Input::Command(Command::Shutdown { grace }));
        machine.orders();

        machine.sleep_until(machine.now().after(Duration::from_secs(300)));
        machine.tick().run_for(Duration::from_millis(1));

        let told = machine.orders();
        let job = JobId(1);
        let verdict = Verdict::Unknown;
        let settled = Action::Publish(publish::Action::Settle { job, verdict });
        assert!(told.contains(&settled), "{told:?}");
        assert_eq!(told.last(), Some(&Action::Ended));
    }
}

#[test]
fn the_key_of_the_relay_and_a_filling_outbox_are_told_to_nobody_outside() {
    for consumer in [external(), workers()] {
        let mut machine = live(consumer);
        serve(&mut machine, "");
        machine.input(post(JobId(1)));
        serve(&mut machine, "");
        let told = machine.history().find(|order| is_inward(order));
        assert_eq!(told, None);
        assert!(
            !machine
                .notes()
                .iter()
                .any(|note| matches!(note, Note::Stale { .. }))
        );
    }
}

const fn is_inward(order: &Action) -> bool {
    matches!(
        order,
        Action::Relay(relay::Action::RelayKey { .. })
            | Action::Publish(publish::Action::Outbox { .. })
    )
}

/// A machine whose connection has just become live, with an outbox that one job half fills.
fn live(consumer: Consumer) -> Script<Machine> {
    let publish = publish::Config {
        jobs_max: 2,
        ..publish::Config::default()
    };
    let mut machine = script(machine(Config {
        seed: 1,
        me: toy::ME,
        relay: given(&[1]),
        publish,
        consumer,
    }));
    machine.input(Input::WallClock(START));
    machine.orders();
    let up = relay::Input::Connected {
        conn: CONN,
        date: None,
    };
    machine.input(Input::Relay(up));
    serve(&mut machine, "");
    machine.run_for(Duration::from_secs(3));
    machine
}

/// Shuts it down. The present stands still.
fn post(job: JobId) -> Input {
    let submit = publish::Command::Submit {
        job,
        class: Class::Durable,
        route: Route::Post,
        body: Body::Signed(Toy::new(1).event()),
        ttl: None,
    };
    Input::Publish(publish::Input::Command(submit))
}

fn end(machine: &mut Script<Machine>, relay_says: &str) -> Vec<Action> {
    let grace = Duration::from_secs(30);
    machine.input(Input::Command(Command::Shutdown { grace }));
    serve(machine, relay_says)
}

/// Carries orders out until there are none. The relay answers an EVENT with these words; with none
/// it takes it, and "silence" is no answer.
fn serve(machine: &mut Script<Machine>, relay_says: &str) -> Vec<Action> {
    let mut told = Vec::new();
    let mut orders = VecDeque::from(machine.orders());
    while let Some(order) = orders.pop_front() {
        for fact in facts(&order, relay_says) {
            machine.input(fact);
            orders.extend(machine.orders());
        }
        told.push(order);
    }
    told
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "nothing follows from most orders"
)]
fn facts(order: &Action, relay_says: &str) -> Vec<Input> {
    use relay::{Action as R, Input as Fact};
    use schedule::{Action as S, Input as Told};
    match order {
        Action::Relay(R::Send { write, text, .. }) => {
            let written = Fact::Written { write: *write };
            let frame: Value = serde_json::from_slice(text).expect("a frame is JSON");
            let id = frame[1]["id"].as_str().filter(|_| frame[0] == "EVENT");
            let answer = id.filter(|_| relay_says != "silence").map(|id| {
                let id = id.parse().expect("an id");
                let text = toy::ok(id, relay_says.is_empty(), relay_says);
                Fact::Frame { conn: CONN, text }
            });
            let facts = [written].into_iter().chain(answer);
            facts.map(Input::Relay).collect()
        }
        Action::Relay(R::Inform { ticket }) => {
            let answer = HttpAnswer {
                status: 200,
                retry_after: None,
                date: None,
                body: format!(r#"{{"self":"{}"}}"#, toy::key(0xc3)).into(),
            };
            let ticket = *ticket;
            vec![Input::Relay(Fact::Answered { ticket, answer })]
        }
        Action::Publish(publish::Action::Sign { ticket, draft }) => {
            let event = Toy::new(ticket.0).kind(draft.kind).content(&draft.content);
            let (ticket, event) = (*ticket, event.bytes());
            vec![Input::Publish(publish::Input::Signed { ticket, event })]
        }
        Action::Schedule(S::Spawn { worker }) => up(*worker),
        Action::Schedule(S::Kill { worker }) => {
            let (worker, cause) = (*worker, DownCause::Killed);
            vec![Input::Schedule(Told::WorkerDown { worker, cause })]
        }
        _ => Vec::new(),
    }
}

fn up(worker: WorkerId) -> Vec<Input> {
    vec![Input::Schedule(schedule::Input::WorkerUp { worker })]
}

/// The presences that were written to the socket.
fn presences(orders: &[Action]) -> Vec<String> {
    orders.iter().filter_map(presence).collect()
}

fn presence(order: &Action) -> Option<String> {
    let Action::Relay(relay::Action::Send { text, .. }) = order else {
        return None;
    };
    let frame: Value = serde_json::from_slice(text).expect("a frame is JSON");
    let content = frame[1]["content"].as_str();
    content
        .filter(|_| frame[1]["kind"] == 20_001)
        .map(str::to_owned)
}

const fn is_close(order: &Action) -> bool {
    matches!(order, Action::Relay(relay::Action::Close { .. }))
}

fn place(orders: &[Action], is: impl Fn(&Action) -> bool) -> usize {
    orders.iter().position(is).expect("there is such an order")
}
