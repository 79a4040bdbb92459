//! The machine as a whole: what it takes from a driver, and how it ends.

use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::config::{Config, Consumer};
use buzz_proto::ids::{JobId, PubKey, Ticket};
use buzz_proto::input::{Command, Input};
use buzz_proto::note::{Note, StaleWhat};
use buzz_proto::publish::{self, Body, Class, Route, Verdict};
use buzz_proto::relay;
use buzz_proto::schedule::{self, WorkerId};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Draft;
use buzz_sim::machine::machine;
use buzz_sim::script::{Script, script, secs};

const SECOND: Duration = Duration::from_secs(1);
const WORKER: WorkerId = WorkerId {
    slot: 0,
    incarnation: 1,
};

#[test]
fn a_shutdown_given_to_a_part_ends_the_whole() {
    let grace = SECOND;
    for input in [
        Input::Command(Command::Shutdown { grace }),
        Input::Relay(relay::Input::Command(relay::Command::Shutdown { grace })),
        Input::Publish(publish::Input::Command(publish::Command::Shutdown {
            grace,
        })),
        Input::Schedule(schedule::Input::Command(schedule::Command::Shutdown {
            grace,
        })),
    ] {
        let mut machine = begun();
        machine.input(input);
        machine.orders();
        let cause = schedule::DownCause::Killed;
        let down = schedule::Input::WorkerDown {
            worker: WORKER,
            cause,
        };
        machine.input(Input::Schedule(down));
        assert_eq!(machine.orders().last(), Some(&Action::Ended));
        assert!(machine.part().is_ended());
    }
}

#[test]
fn a_worker_that_does_not_go_holds_up_no_end() {
    let mut machine = begun();
    let grace = 8 * SECOND;
    machine.input(Input::Command(Command::Shutdown { grace }));
    machine.orders();

    machine.run_until(secs(8));

    let (at, last) = machine.timed_orders().pop().expect("orders");
    assert_eq!(last, Action::Ended);
    assert!(at <= secs(8), "{at}");
}

#[test]
fn a_second_shutdown_can_only_bring_the_end_forward() {
    let mut machine = begun();
    for seconds in [60, 2, 30] {
        let grace = seconds * SECOND;
        machine.input(Input::Command(Command::Shutdown { grace }));
        machine.orders();
    }

    machine.run_until(secs(2));

    assert_eq!(machine.orders().last(), Some(&Action::Ended));
}

#[test]
fn what_only_the_parts_can_tell_each_other_is_stale_from_outside() {
    let (live, ticket) = (true, Ticket(1));
    for input in [
        Input::Publish(publish::Input::Link { live }),
        Input::Schedule(schedule::Input::Link { live }),
        Input::Relay(relay::Input::Command(relay::Command::Withdraw { ticket })),
        Input::Relay(relay::Input::WallClock(UnixTime(1))),
    ] {
        let mut machine = begun();
        machine.notes();
        machine.input(input).expect([]);
        machine.expect_notes([Note::Stale {
            what: StaleWhat::Part,
        }]);
    }
}

#[test]
fn a_job_with_a_number_of_the_scheduler_is_answered_at_once() {
    let mut machine = begun();
    let job = JobId(1 << 63);
    let body = Body::SignWhenSent(Draft {
        kind: 9,
        created_at: UnixTime(1),
        tags: Vec::new(),
        content: "hello".into(),
    });
    let (class, route, ttl) = (Class::Durable, Route::Post, None);
    let submit = publish::Command::Submit {
        job,
        class,
        route,
        body,
        ttl,
    };
    machine.input(Input::Publish(publish::Input::Command(submit)));
    let verdict = Verdict::Cancelled;
    machine.expect([Action::Publish(publish::Action::Settle { job, verdict })]);
}

/// A machine with one worker, which is up, and no connection.
fn begun() -> Script<buzz_proto::machine::Machine> {
    let mut machine = script(machine(Config {
        seed: 1,
        me: PubKey([0xa1; 32]),
        relay: relay::Config::new("ws://127.0.0.1:1"),
        publish: publish::Config::default(),
        consumer: Consumer::Workers(Box::new(schedule::Config::new(1))),
    }));
    machine.input(Input::WallClock(UnixTime(1_800_000_000)));
    machine.orders();
    machine.input(Input::Schedule(schedule::Input::WorkerUp {
        worker: WORKER,
    }));
    machine.orders();
    machine
}
