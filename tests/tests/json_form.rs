//! The JSON form of facts, orders, notes and settings.

use std::collections::BTreeSet;
use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::config::Config;
use buzz_proto::ids::{Ticket, TurnId};
use buzz_proto::input::Input;
use buzz_proto::note::{GapWhy, HoldEnd, Note, ReadFailure, TurnFailure, TurnOutcome};
use buzz_proto::publish;
use buzz_proto::relay::{self, Done, Record, Started, Sub};
use buzz_proto::schedule::{self, RespondTo, Scheduler};
use buzz_proto::seed::Seed;
use buzz_proto::time::MonoTime;
use buzz_proto::wire::{Excerpt, Filter, Reason, query};
use buzz_sim::chaos::drive;
use buzz_sim::machine::{config, external, machine, workers};
use buzz_sim::toy::{self, ME, START, Toy, channel};
use quickcheck::{Arbitrary, Gen};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

#[test]
fn every_fact_and_order_survives_its_written_form() {
    let mut generator = Gen::from_size_and_seed(3000, 13);
    let (mut facts, mut orders) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..120 {
        let mut config = config(if round % 2 == 0 {
            external()
        } else {
            workers()
        });
        config.relay.records = (round % 3 == 0).then(Vec::new);
        let bytes: Vec<u8> = Arbitrary::arbitrary(&mut generator);
        let run = drive(machine(config), &bytes);
        for (_, input, actions) in run.calls() {
            facts.insert(survives::<Input>(&input));
            orders.extend(actions.iter().map(survives::<Action>));
        }
        orders.extend(turns(&bytes).iter().map(survives::<Action>));
    }
    orders.extend(rare_orders().iter().map(survives::<Action>));
    let missing = |names: &[&'static str], seen: &BTreeSet<String>| -> Vec<_> {
        let unseen = names.iter().filter(|name| !seen.contains(**name));
        unseen.copied().collect()
    };
    assert_eq!(missing(&FACTS, &facts), [""; 0], "of {facts:?}");
    assert_eq!(missing(&ORDERS, &orders), [""; 0], "of {orders:?}");
}

#[test]
fn the_settings_survive_their_written_form() {
    for consumer in [external(), workers()] {
        let config = config(consumer);
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
    }
}

/// Every fact.
const FACTS: [&str; 62] = [
    "Command.Shutdown",
    "Publish.Answered",
    "Publish.Broke",
    "Publish.Command.Cancel",
    "Publish.Command.React",
    "Publish.Command.Shutdown",
    "Publish.Command.Submit",
    "Publish.Link",
    "Publish.Receipt",
    "Publish.SignFailed",
    "Publish.Signed",
    "Publish.Tick",
    "Publish.WallClock",
    "Relay.Answered",
    "Relay.Broke",
    "Relay.Capacity",
    "Relay.Closed",
    "Relay.Command.Reconnect",
    "Relay.Command.Send",
    "Relay.Command.Shutdown",
    "Relay.Command.Subscribe",
    "Relay.Command.Unsubscribe",
    "Relay.ConnectFailed",
    "Relay.Connected",
    "Relay.ConsumerGone",
    "Relay.Disposed",
    "Relay.Frame",
    "Relay.Left",
    "Relay.PersistFailed",
    "Relay.Persisted",
    "Relay.Pinged",
    "Relay.Pong",
    "Relay.SignFailed",
    "Relay.Signed",
    "Relay.Started",
    "Relay.Tick",
    "Relay.Verified",
    "Relay.WallClock",
    "Relay.WriteFailed",
    "Relay.Written",
    "Schedule.Answered",
    "Schedule.Arrived",
    "Schedule.Broke",
    "Schedule.Channel",
    "Schedule.Command.Control",
    "Schedule.Command.Renew",
    "Schedule.Command.Shutdown",
    "Schedule.Finished",
    "Schedule.Link",
    "Schedule.Outbox",
    "Schedule.Progressed",
    "Schedule.RelayKey",
    "Schedule.SessionFailed",
    "Schedule.SessionOpened",
    "Schedule.Settled",
    "Schedule.Tick",
    "Schedule.Verified",
    "Schedule.WallClock",
    "Schedule.WorkerDown",
    "Schedule.WorkerUp",
    "Tick",
    "WallClock",
];
/// Every order, and the notes that a run of chance reaches.
const ORDERS: [&str; 66] = [
    "Ended",
    "WakeAt",
    "Relay.Connect",
    "Relay.Close",
    "Relay.Send",
    "Relay.Ping",
    "Relay.SignAuth",
    "Relay.Verify",
    "Relay.Query",
    "Relay.Inform",
    "Relay.Persist",
    "Relay.Abort",
    "Relay.Deliver",
    "Relay.Report",
    "Relay.Channel",
    "Relay.Link",
    "Relay.RelayKey",
    "Publish.Sign",
    "Publish.Post",
    "Publish.Query",
    "Publish.Abort",
    "Publish.Settle",
    "Publish.Outbox",
    "Schedule.Spawn",
    "Schedule.Kill",
    "Schedule.Start",
    "Schedule.CancelTurn",
    "Schedule.CloseSession",
    "Schedule.Query",
    "Schedule.Verify",
    "Schedule.Abort",
    "Note.Link",
    "Note.Subscription",
    "Note.Gap",
    "Note.Behind",
    "Note.Lagging",
    "Note.CaughtUp",
    "Note.ReadFailed",
    "Note.Missed",
    "Note.Unaudited",
    "Note.DedupShort",
    "Note.RecordAhead",
    "Note.NotPersisted",
    "Note.AnswersUnread",
    "Note.Refused",
    "Note.BadFrame",
    "Note.Notice",
    "Note.Throttled",
    "Note.RosterFailed",
    "Note.Joined",
    "Note.WorkerUp",
    "Note.WorkerDown",
    "Note.NotShown",
    "Note.TurnStarted",
    "Note.TurnEnded",
    "Note.TurnRetried",
    "Note.ContextUnread",
    "Note.Held",
    "Note.HoldEnded",
    "Note.UsageLimited",
    "Note.UsageRestored",
    "Note.BreakerOpened",
    "Note.Stale",
    "Note.Repeated",
    "Note.ClockStepped",
    "Note.ClockSkew",
];

/// What a scheduler alone says to the same bytes: a whole machine takes no arrivals from outside,
/// so it has few turns.
fn turns(bytes: &[u8]) -> Vec<Action> {
    let mut config = schedule::Config::new(2);
    config.respond_to = RespondTo::Anyone;
    let scheduler = Scheduler::new(config, ME, Seed(7), MonoTime::ZERO);
    let run = drive(scheduler.expect("the settings work"), bytes);
    run.calls()
        .into_iter()
        .flat_map(|(_, _, actions)| actions)
        .map(|action| {
            if let schedule::Action::Note(note) = action {
                return Action::Note(note);
            }
            Action::Schedule(action)
        })
        .collect()
}

const WORKER: schedule::WorkerId = schedule::WorkerId {
    slot: 1,
    incarnation: 2,
};
const TURN: TurnId = TurnId(3);

fn scope() -> schedule::Scope {
    schedule::Scope::Thread(channel(1), toy::id(1))
}

/// What a run of chance seldom reaches.
fn rare_orders() -> Vec<Action> {
    let session = schedule::SessionRef {
        worker: WORKER,
        epoch: 4,
    };
    let close = schedule::Action::CloseSession { session };
    let of_parts = [
        Action::Relay(relay::Action::RelayKey { key: None }),
        Action::Relay(relay::Action::RelayKey { key: Some(ME) }),
        Action::Publish(publish::Action::Outbox { is_half_full: true }),
        Action::Schedule(close),
        Action::Relay(relay::Action::Deliver {
            sub: Sub::Channel(channel(1)),
            event: Toy::new(1).event(),
            lives: 1,
        }),
        persist(),
    ];
    let notes = turn_notes().into_iter().chain(rare_notes());
    of_parts
        .into_iter()
        .chain(questions())
        .chain(notes.map(Action::Note))
        .collect()
}

/// What the scheduler asks, and asks no more.
fn questions() -> impl Iterator<Item = Action> {
    let (ticket, event) = (Ticket(1), Toy::new(1).event());
    let verify = |owner| schedule::Action::Verify {
        ticket,
        event: event.clone(),
        owner,
    };
    let body = query(&[Filter::default()]);
    let asked = schedule::Action::Query { ticket, body };
    let given_up = schedule::Action::Abort { ticket };
    let all = [asked, verify(None), verify(Some(ME)), given_up];
    all.map(Action::Schedule).into_iter()
}

/// Why a turn has no answer: all there is.
fn failures() -> [TurnFailure; 12] {
    let text = Excerpt::new("it broke");
    let verdict = publish::Verdict::Rejected {
        reason: Reason::new("blocked: banned"),
    };
    [
        TurnFailure::Worker { text: text.clone() },
        TurnFailure::WorkerGone,
        TurnFailure::NoSession { text: text.clone() },
        TurnFailure::Idle,
        TurnFailure::TooLong,
        TurnFailure::Empty,
        TurnFailure::NotStored { verdict },
        TurnFailure::Interrupted,
        TurnFailure::Poisonous,
        TurnFailure::UsageLimit,
        TurnFailure::Renewed,
        TurnFailure::NeedsHuman { text },
    ]
}

/// What is said of turns, and of what keeps them waiting.
fn turn_notes() -> Vec<Note> {
    let (turn, scope, worker) = (TURN, scope(), WORKER);
    let wait = Duration::from_secs(5);
    let mut notes = vec![
        Note::ContextUnread { turn, scope },
        Note::Held { scope, worker },
        Note::UsageLimited { until: None, wait },
        Note::UsageLimited {
            until: Some(START),
            wait,
        },
        Note::UsageRestored,
        Note::BreakerOpened { worker, wait },
    ];
    for how in [
        HoldEnd::Home,
        HoldEnd::Forked,
        HoldEnd::Released,
        HoldEnd::Dropped,
    ] {
        notes.push(Note::HoldEnded {
            scope,
            worker,
            wait,
            how,
        });
    }
    notes.extend(failures().map(|why| Note::TurnRetried {
        turn,
        scope,
        why,
        attempts: 2,
        wait,
    }));
    let reported = failures().map(|why| TurnOutcome::Reported { why });
    let unreported = failures().map(|why| TurnOutcome::Unreported { why });
    let others = [TurnOutcome::Answered, TurnOutcome::Discarded];
    let outcomes = reported.into_iter().chain(unreported).chain(others);
    notes.extend(outcomes.map(|outcome| Note::TurnEnded {
        turn,
        scope,
        outcome,
    }));
    notes
}

/// What is said of events that were lost, and of records.
fn rare_notes() -> [Note; 10] {
    let (sub, dated) = (Sub::Channel(channel(1)), START);
    let wait = Duration::from_secs(60);
    [
        Note::Gap {
            sub,
            count: Some(1),
            from: dated,
            to: dated,
            why: GapWhy::NotStored,
        },
        Note::Lagging {
            sub,
            count: 2,
            wait,
        },
        Note::CaughtUp { sub, count: 3 },
        Note::ReadFailed {
            sub,
            why: ReadFailure::Silent,
        },
        Note::Missed {
            sub,
            event: toy::id(1),
        },
        Note::Unaudited { sub, before: dated },
        Note::DedupShort { dated },
        Note::RecordAhead { sub, seconds: 4 },
        Note::NotPersisted,
        Note::AnswersUnread,
    ]
}

fn persist() -> Action {
    let (dated, event) = (START, toy::id(1));
    let started = Started {
        dated,
        event,
        target: toy::id(2),
        lives: 3,
    };
    let record = Record {
        sub: Sub::Channel(channel(1)),
        settled: START,
        done: vec![Done { dated, event }],
        started: vec![started],
    };
    Action::Relay(relay::Action::Persist {
        ticket: Ticket(1),
        records: vec![record],
        forgotten: vec![Sub::Membership],
    })
}

/// Writes and reads a value; the path of its names.
fn survives<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) -> String {
    let text = serde_json::to_string(value).expect("it can be written");
    let read: T = serde_json::from_str(&text).expect(&text);
    assert_eq!(&read, value, "{text}");
    path(&serde_json::from_str(&text).expect("JSON"))
}

/// The names of variants, from the outermost to the one that says what it is.
fn path(form: &Value) -> String {
    let is_variant = |name: &str| name.chars().next().is_some_and(char::is_uppercase);
    if let Some(name) = form.as_str().filter(|name| is_variant(name)) {
        return name.to_owned();
    }
    let fields = form.as_object().and_then(|fields| fields.iter().next());
    let Some((name, inner)) = fields.filter(|(name, _)| is_variant(name)) else {
        return String::new();
    };
    let goes_on = ["Relay", "Publish", "Schedule", "Note", "Command"];
    let inner = if goes_on.contains(&name.as_str()) {
        path(inner)
    } else {
        String::new()
    };
    if inner.is_empty() {
        return name.clone();
    }
    format!("{name}.{inner}")
}
