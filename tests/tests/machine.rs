//! The machine as a whole: what it takes from a driver, and how it ends.

use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::config::{Config, Consumer};
use buzz_proto::ids::{ConnId, JobId, Ticket, TurnId, WriteId};
use buzz_proto::input::{Command, Input};
use buzz_proto::machine::Machine;
use buzz_proto::note::{Note, StaleWhat};
use buzz_proto::publish::{self, Body, Class, Route, Verdict};
use buzz_proto::relay;
use buzz_proto::schedule::{self, WorkerId};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::Draft;
use buzz_sim::machine::machine;
use buzz_sim::relay::{channel_sub, given};
use buzz_sim::script::{Script, script, secs};
use buzz_sim::toy::{self, Toy};

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

#[test]
fn what_a_worker_is_at_when_the_time_is_up_is_handed_back_before_the_end() {
    let mut machine = at_work();
    let grace = SECOND;
    machine.input(Input::Command(Command::Shutdown { grace }));
    machine.run_for(grace);
    hands_back_one(&mut machine);
}

#[test]
fn an_answer_that_is_not_published_when_the_time_is_up_is_handed_back_before_the_end() {
    for goes in [true, false] {
        let mut machine = at_work();
        let end = schedule::TurnEnd::Answered {
            reply: "hi".to_owned(),
            stop: schedule::StopReason::EndTurn,
        };
        let turn = TurnId(0);
        machine.input(Input::Schedule(schedule::Input::Finished { turn, end }));
        machine.orders();
        let grace = SECOND;
        machine.input(Input::Command(Command::Shutdown { grace }));
        machine.orders();
        if goes {
            let cause = schedule::DownCause::Killed;
            let down = schedule::Input::WorkerDown {
                worker: WORKER,
                cause,
            };
            machine.input(Input::Schedule(down));
        }
        machine.run_for(grace);
        hands_back_one(&mut machine);
    }
}

#[test]
fn no_turn_starts_while_the_outbox_is_half_full_and_one_starts_with_the_verdict_that_empties_it() {
    let mut machine = listening(publish::Config {
        jobs_max: 2,
        ..publish::Config::default()
    });
    let event = Toy::new(7).author(toy::ME).event();
    let submit = publish::Command::Submit {
        job: JobId(1),
        body: Body::Signed(event),
        class: Class::Durable,
        route: Route::Post,
        ttl: None,
    };
    machine.input(Input::Publish(publish::Input::Command(submit)));
    let orders = machine.orders();
    let post = orders.iter().find_map(|order| {
        let Action::Publish(publish::Action::Post { ticket, .. }) = order else {
            return None;
        };
        Some(*ticket)
    });
    let Some(ticket) = post else {
        machine.fail(&format!("nothing is posted: {orders:?}"));
    };
    assert!(!has_start(&owner_says(&mut machine)));
    machine.run_for(5 * SECOND);
    assert!(!has_start(&machine.orders()));

    let answer = relay::HttpAnswer {
        status: 200,
        retry_after: None,
        date: None,
        body: r#"{"accepted":true}"#.into(),
    };
    machine.input(Input::Publish(publish::Input::Answered { ticket, answer }));

    assert!(has_start(&machine.orders()), "with no other fact");
}

/// The last that is told of the one event is that it is handed back, once.
fn hands_back_one(machine: &mut Script<Machine>) {
    assert_eq!(machine.orders().last(), Some(&Action::Ended));
    let scope = schedule::Scope::Thread(toy::channel(1), toy::id(1));
    let mut fates = machine.notes();
    fates.retain(|note| matches!(note, Note::HandedBack { .. } | Note::TurnEnded { .. }));
    assert_eq!(fates, [Note::HandedBack { scope, count: 1 }]);
}

/// A machine with a connection, and a worker with an event of its owner.
fn at_work() -> Script<Machine> {
    let mut machine = listening(publish::Config::default());
    let orders = owner_says(&mut machine);
    if !has_start(&orders) {
        machine.fail(&format!("no turn starts: {orders:?}"));
    }
    machine
}

/// A machine with a connection, and a worker that has nothing to do.
fn listening(publish: publish::Config) -> Script<Machine> {
    let mut config = schedule::Config::new(1);
    config.owner = Some(toy::key(0xb2));
    config.cosmetics = false;
    config.marks = false;
    let consumer = Consumer::Workers(Box::new(config));
    let mut machine = script(machine(Config {
        publish,
        ..settings(consumer, given(&[1]))
    }));
    machine.input(Input::WallClock(toy::START));
    machine.orders();
    machine.input(Input::Schedule(schedule::Input::WorkerUp {
        worker: WORKER,
    }));
    let conn = ConnId(1);
    relay_says(&mut machine, relay::Input::Connected { conn, date: None });
    // No challenge comes, and the relay tells nothing of itself.
    machine.run_for(8 * SECOND).orders();
    let write = WriteId(0);
    relay_says(&mut machine, relay::Input::Written { write });
    let text = toy::eose(&channel_sub(1, 1));
    relay_says(&mut machine, relay::Input::Frame { conn, text });
    machine
}

/// The owner's mention comes. Gives the orders that follow.
fn owner_says(machine: &mut Script<Machine>) -> Vec<Action> {
    let conn = ConnId(1);
    let event = Toy::mention(1, toy::channel(1)).dated(toy::START.after(8 * SECOND));
    let text = toy::event_frame(&channel_sub(1, 1), &event);
    let orders = relay_says(machine, relay::Input::Frame { conn, text });
    let [Action::Relay(relay::Action::Verify { ticket, .. })] = orders[..] else {
        machine.fail("nothing to verify");
    };
    let genuine = true;
    relay_says(machine, relay::Input::Verified { ticket, genuine })
}

fn has_start(orders: &[Action]) -> bool {
    let is_start =
        |order: &Action| matches!(order, Action::Schedule(schedule::Action::Start { .. }));
    orders.iter().any(is_start)
}

fn relay_says(machine: &mut Script<Machine>, input: relay::Input) -> Vec<Action> {
    machine.orders();
    machine.input(Input::Relay(input));
    machine.orders()
}

/// A machine with one worker, which is up, and no connection.
fn begun() -> Script<Machine> {
    let consumer = Consumer::Workers(Box::new(schedule::Config::new(1)));
    let relay = relay::Config::new("ws://127.0.0.1:1");
    let mut machine = script(machine(settings(consumer, relay)));
    machine.input(Input::WallClock(UnixTime(1_800_000_000)));
    machine.orders();
    machine.input(Input::Schedule(schedule::Input::WorkerUp {
        worker: WORKER,
    }));
    machine.orders();
    machine
}

fn settings(consumer: Consumer, relay: relay::Config) -> Config {
    Config {
        seed: 1,
        me: toy::ME,
        relay,
        publish: publish::Config::default(),
        consumer,
    }
}
