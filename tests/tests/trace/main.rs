//! Traces: what was recorded replays to the same actions, redacted or whole.

mod calls;
mod redacted;

use buzz_proto::action::Action;
use buzz_proto::config::Config;
use buzz_proto::ids::{ConnId, JobId, Ticket, WriteId};
use buzz_proto::input::Input;
use buzz_proto::machine::Machine;
use buzz_proto::publish;
use buzz_proto::relay;
use buzz_proto::trace::{Privacy, Recorder, Replay, TraceErrorKind};
use buzz_sim::chaos::drive;
use buzz_sim::machine::{config, external, machine, workers};
use buzz_sim::script::{Script, script};
use buzz_sim::toy::{self, START, Toy, channel};
use quickcheck::{Arbitrary, Gen};
use serde_json::{Value, json};

const WORDS: &str = "Meet at the pier, bring 4 lanterns";

#[test]
fn a_scripted_run_replays_to_the_same_actions() {
    for privacy in [Privacy::Whole, Privacy::Redacted] {
        let lines = record(&conversation(), &config(external()), privacy);
        assert!(lines.len() > 8);
        assert_eq!(differences(&lines), []);
    }
}

#[test]
fn any_run_replays_to_the_same_actions() {
    let mut generator = Gen::from_size_and_seed(1500, 11);
    for round in 0..40 {
        let mut config = config(if round % 2 == 0 {
            external()
        } else {
            workers()
        });
        config.relay.records = (round % 3 == 0).then(Vec::new);
        let bytes = Vec::arbitrary(&mut generator);
        let run = drive(machine(config.clone()), &bytes);
        for privacy in [Privacy::Whole, Privacy::Redacted] {
            let lines = record(&run, &config, privacy);
            let found = differences(&lines);
            assert_eq!(found, [], "{privacy:?}: {}", lines.join("\n"));
        }
    }
}

#[test]
fn a_redacted_trace_holds_nothing_of_what_people_wrote() {
    let run = conversation();
    let whole = record(&run, &config(external()), Privacy::Whole).join("\n");
    let redacted = record(&run, &config(external()), Privacy::Redacted).join("\n");
    for word in ["Meet", "pier", "lanterns"] {
        assert!(whole.contains(word) && !redacted.contains(word), "{word}");
    }
}

#[test]
fn unknown_fields_are_errors_at_every_depth() {
    let lines = record(&conversation(), &config(external()), Privacy::Whole);
    let head: Value = serde_json::from_str(&lines[0]).unwrap();
    let places = [
        "",
        "/config",
        "/config/relay",
        "/config/relay/limits",
        "/config/publish",
    ];
    for place in places {
        let text = with_stranger(&head, place);
        let error = Replay::new(&text).expect_err(place);
        assert_eq!(error.line, 1);
        assert!(matches!(error.kind, TraceErrorKind::Form(_)), "{place}");
    }
    let frame = lines.iter().find(|line| line.contains("\"Frame\""));
    let call: Value = serde_json::from_str(frame.unwrap()).unwrap();
    for place in ["", "/in/Relay/Frame", "/out/0/Note", "/out/0"] {
        if call.pointer(place).is_none_or(|value| !value.is_object()) {
            continue;
        }
        let mut replay = Replay::new(&lines[0]).unwrap();
        let error = replay.step(&with_stranger(&call, place));
        assert!(error.is_err(), "{place}");
    }
}

#[test]
fn a_tampered_trace_shows_which_order_differs() {
    let mut lines = record(&conversation(), &config(external()), Privacy::Whole);
    let at = lines.iter().position(|line| line.contains("\"Ping\""));
    let at = at.expect("the script has a ping");
    let mut call: Value = serde_json::from_str(&lines[at]).unwrap();
    let orders = call["out"].as_array_mut().unwrap();
    let place = orders
        .iter()
        .position(|order| order["Relay"]["Ping"].is_object());
    let place = place.unwrap();
    orders[place]["Relay"]["Ping"]["conn"] = json!(77);
    lines[at] = call.to_string();
    assert_eq!(differences(&lines), [(at + 1, place)]);
    let out = call["out"].as_array_mut().unwrap();
    out.truncate(place);
    lines[at] = call.to_string();
    assert_eq!(differences(&lines), [(at + 1, place)]);
}

#[test]
fn a_trace_without_orders_replays_and_has_no_differences() {
    let lines = record(&conversation(), &config(external()), Privacy::Whole);
    let bare = lines.iter().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        line.as_object_mut().unwrap().remove("out");
        line.to_string()
    });
    let bare: Vec<_> = bare.collect();
    assert_eq!(differences(&bare), []);
    assert!(replay(&bare).machine().relay().is_live);
}

#[test]
fn what_is_no_trace_is_told_with_its_line() {
    for garbage in ["", "{", "[]", "17", "{\"v\":1}", "\u{0}", "{\"v\":\"1\"}"] {
        let error = Replay::new(garbage).expect_err(garbage);
        let text = error.to_string();
        assert!(
            text.starts_with("line 1: not a line of a trace: "),
            "{text}"
        );
        assert!(text.len() < 400);
    }
    let lines = record(&conversation(), &config(external()), Privacy::Whole);
    let mut replay = Replay::new(&lines[0]).unwrap();
    replay.step(&lines[1]).unwrap();
    let error = replay.step("{\"t\":1,\"in\":\"Nonsense\"}").unwrap_err();
    assert_eq!(error.line, 3);
    assert!(error.to_string().contains("Nonsense"), "{error}");
}

#[test]
fn a_version_and_settings_that_do_not_work_are_named() {
    let lines = record(&conversation(), &config(external()), Privacy::Whole);
    let mut head: Value = serde_json::from_str(&lines[0]).unwrap();
    head["v"] = json!(2);
    let error = Replay::new(&head.to_string()).unwrap_err();
    assert_eq!(error.kind, TraceErrorKind::Version(2));
    head["v"] = json!(1);
    head["config"]["relay"]["limits"]["dial"] = json!(0);
    let error = Replay::new(&head.to_string()).unwrap_err();
    assert!(error.to_string().contains("relay.limits.dial"), "{error}");
}

/// A run with a message, an EVENT of ours, and a ping.
fn conversation() -> Script<Machine> {
    let mut machine = script(machine(config(external())));
    let sub = format!("ch-{}-1", channel(1));
    let conn = ConnId(1);
    let frame = |text| Input::Relay(relay::Input::Frame { conn, text });
    let event = Toy::mention(1, channel(1)).content(WORDS);
    let mut feed = |input| machine.input(input).orders();
    feed(Input::WallClock(START));
    feed(Input::Relay(relay::Input::Connected { conn, date: None }));
    machine.run_until(buzz_sim::script::secs(3)).orders();
    let mut feed = |input| machine.input(input).orders();
    let (ticket, cause) = (Ticket(1), relay::BrokeCause::Connection);
    feed(Input::Relay(relay::Input::Broke { ticket, cause }));
    let write = WriteId(0);
    feed(Input::Relay(relay::Input::Written { write }));
    feed(frame(toy::eose(&sub)));
    feed(frame(toy::event_frame(&sub, &event)));
    let ticket = Ticket(2);
    let genuine = true;
    let delivered = feed(Input::Relay(relay::Input::Verified { ticket, genuine }));
    assert!(matches!(
        delivered[..],
        [Action::Relay(relay::Action::Deliver { .. })]
    ));
    let submit = publish::Command::Submit {
        job: JobId(1),
        class: publish::Class::Durable,
        route: publish::Route::Post,
        body: publish::Body::Signed(Toy::new(2).content(WORDS).event()),
        ttl: None,
    };
    feed(Input::Publish(publish::Input::Command(submit)));
    machine.run_until(buzz_sim::script::secs(30)).orders();
    machine
}

fn record(run: &Script<Machine>, config: &Config, privacy: Privacy) -> Vec<String> {
    let recorder = Recorder::new(privacy);
    let calls = run.calls();
    let calls = calls
        .iter()
        .map(|(at, input, actions)| recorder.call(*at, input, actions));
    std::iter::once(recorder.head(config))
        .chain(calls)
        .collect()
}

/// Lines, counted from one, and the places at which their orders differ.
fn differences(lines: &[String]) -> Vec<(usize, usize)> {
    let mut replay = Replay::new(&lines[0]).expect("a head");
    let mut found = Vec::new();
    for (number, line) in (2..).zip(&lines[1..]) {
        let call = replay.step(line).expect("a call");
        assert_eq!(call.line, number as u64);
        found.extend(call.difference().map(|place| (number, place)));
    }
    found
}

fn replay(lines: &[String]) -> Replay {
    let mut replay = Replay::new(&lines[0]).expect("a head");
    for line in &lines[1..] {
        replay.step(line).expect("a call");
    }
    replay
}

/// The text of `value` with one more field at `place`.
fn with_stranger(value: &Value, place: &str) -> String {
    let mut value = value.clone();
    let fields = value.pointer_mut(place).and_then(Value::as_object_mut);
    let fields = fields.expect("an object");
    fields.insert("stranger".to_owned(), json!(1));
    value.to_string()
}
