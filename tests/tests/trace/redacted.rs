//! Runs with workers whose people and workers write anything: their redacted traces.

use std::collections::VecDeque;
use std::fmt::Write as _;

use buzz_proto::action::Action;
use buzz_proto::config::{Config, Consumer};
use buzz_proto::ids::ConnId;
use buzz_proto::input::Input;
use buzz_proto::machine::Machine;
use buzz_proto::note::Note;
use buzz_proto::relay::HttpAnswer;
use buzz_proto::schedule::{DownCause, FailureClass, OpenCause, RespondTo, StopReason, TurnEnd};
use buzz_proto::time::MonoTime;
use buzz_proto::trace::{Privacy, Recorder};
use buzz_proto::wire::Excerpt;
use buzz_proto::{publish, relay, schedule};
use buzz_sim::chaos::Dice;
use buzz_sim::machine::machine;
use buzz_sim::relay::given;
use buzz_sim::script::{Script, script, secs};
use buzz_sim::toy::{self, ME, START, Toy, channel, key};
use bytes::Bytes;
use quickcheck::{Arbitrary, Gen};
use serde_json::{Value, json};

use crate::{differences, record};

const CONN: ConnId = ConnId(1);
/// What nobody may find in a redacted trace, and how JSON may write it.
const SECRETS: [&str; 4] = ["lanterns", "фонари", "灯籠", "𝔩𝔞𝔫𝔱𝔢𝔯𝔫"];
const SPACES: [&str; 6] = [" ", "\n", "\t", "\u{3000}", "\u{85}", "\u{2028}"];
const COMMANDS: [&str; 3] = ["!cancel", "!rotate", "!shutdown"];

#[test]
fn a_redacted_run_replays_and_holds_no_words() {
    let mut generator = Gen::from_size_and_seed(600, 23);
    let mut answers = 0;
    for _ in 0..40 {
        let bytes = Vec::arbitrary(&mut generator);
        let config = config();
        let run = run(&bytes, &config);
        let lines = record(&run, &config, Privacy::Redacted);
        assert_eq!(differences(&lines), [], "{}", lines.join("\n"));
        lines.iter().for_each(|line| assert_holds_no_words(line));
        lines[1..].iter().for_each(|line| assert_is_redacted(line));
        answers += count_posts(&run);
    }
    assert!(answers > 40, "only {answers} answers were posted");
}

#[test]
fn a_whole_run_replays() {
    let mut generator = Gen::from_size_and_seed(600, 24);
    for _ in 0..20 {
        let config = config();
        let run = run(&Vec::arbitrary(&mut generator), &config);
        let lines = record(&run, &config, Privacy::Whole);
        assert_eq!(differences(&lines), []);
    }
}

#[test]
fn a_long_reply_of_wide_letters_is_split_alike() {
    for letter in ["é", "€", "😀", "!cancel\n"] {
        let reply = letter.repeat(40 * 1024 / letter.len());
        let end = TurnEnd::Answered {
            reply,
            stop: StopReason::EndTurn,
        };
        let lines = replays_alike(&frame(&quoted("hello")), &end);
        assert!(lines.matches("\"Post\"").count() > 1, "{letter}");
    }
}

#[test]
fn an_escaped_command_stays_one_and_other_marks_do_not() {
    for content in [r#""\n!cancel""#, r#""\u0021shutdown ""#, r#""!rotate""#] {
        let lines = replays_alike(&frame(content), &TurnEnd::Cancelled);
        let inside = serde_json::to_string(content.trim_matches('"')).unwrap();
        assert!(lines.contains(inside.trim_matches('"')), "{lines}");
    }
    for content in ["!!! lanterns", "![lanterns](a)", "!cancel lanterns"] {
        let lines = replays_alike(&frame(&quoted(content)), &TurnEnd::Cancelled);
        assert!(!lines.contains('!'), "{lines}");
    }
}

#[test]
fn what_cannot_be_read_stays_unreadable() {
    let half = frame(r#""lanterns \ud800""#);
    let control = frame("\"lanterns \u{1}\"");
    let mut foreign = frame(r#""lanterns ?""#).to_vec();
    let place = foreign.iter().position(|byte| *byte == b'?').unwrap();
    foreign[place] = 0xff;
    let unknown = Bytes::from_static(br#"["WRITE","lanterns"]"#);
    for raw in [half, control, foreign.into(), unknown] {
        let lines = replays_alike(&raw, &TurnEnd::Cancelled);
        assert!(lines.contains(&"!".repeat(raw.len())), "{lines}");
    }
}

#[test]
fn words_of_workers_are_redacted_wherever_they_are_told() {
    let text = Excerpt::new("lanterns");
    let class = FailureClass::Transient;
    let end = TurnEnd::Failed { class, text };
    let lines = replays_alike(&frame(&quoted("hello")), &end);
    for told in ["TurnRetried", "TurnEnded"] {
        assert!(lines.contains(told), "{lines}");
    }
    let mut down = start(&config());
    for cause in causes(&Excerpt::new("lanterns")) {
        down.run_for(std::time::Duration::from_secs(400));
        let spawned = down.orders().into_iter().find_map(|order| {
            let Action::Schedule(schedule::Action::Spawn { worker }) = order else {
                return None;
            };
            Some(worker)
        });
        let worker = spawned.expect("a worker is started");
        down.input(Input::Schedule(schedule::Input::WorkerDown {
            worker,
            cause,
        }));
    }
    let told = |action: &Action| matches!(action, Action::Note(Note::WorkerDown { .. }));
    assert!(down.history().any(told));
    let lines = record(&down, &config(), Privacy::Redacted);
    assert_eq!(differences(&lines), []);
    assert_holds_no_words(&lines.join("\n"));
}

/// Records a run of one frame and one way to end a turn; checks and gives the redacted lines.
fn replays_alike(raw: &Bytes, end: &TurnEnd) -> String {
    let mut run = start(&config());
    feed_frame(&mut run, raw);
    settle(&mut run, &mut |_| end.clone());
    let lines = record(&run, &config(), Privacy::Redacted);
    let text = lines.join("\n");
    assert_eq!(differences(&lines), [], "{text}");
    assert_holds_no_words(&text);
    text
}

fn config() -> Config {
    let mut schedule = schedule::Config::new(2);
    schedule.respond_to = RespondTo::Anyone;
    schedule.owner = Some(key(0xb2));
    schedule.notices = true;
    schedule.limits.attempts_max = 2;
    Config {
        seed: 7,
        me: ME,
        relay: given(&[1]),
        publish: publish::Config::default(),
        consumer: Consumer::Workers(Box::new(schedule)),
    }
}

/// A machine that is live.
fn start(config: &Config) -> Script<Machine> {
    let mut run = script(machine(config.clone()));
    run.input(Input::WallClock(START)).orders();
    let connected = relay::Input::Connected {
        conn: CONN,
        date: None,
    };
    run.input(Input::Relay(connected));
    run
}

/// Frames and replies drawn from bytes.
fn run(bytes: &[u8], config: &Config) -> Script<Machine> {
    let mut dice = Dice::new(bytes);
    let mut run = start(config);
    for number in 1..=1 + u64::from(dice.roll(5)) {
        let content = raw_content(&mut dice);
        let mut raw = frame_of(number, &content).to_vec();
        if dice.rarely(12) {
            let place = usize::from(dice.roll(255)).min(raw.len() - 1);
            raw[place] = 0xff;
        }
        feed_frame(&mut run, &raw.into());
        settle(&mut run, &mut |_| turn_end(&mut dice));
    }
    run
}

fn feed_frame(run: &mut Script<Machine>, text: &Bytes) {
    settle(run, &mut |_| TurnEnd::Cancelled);
    let text = text.clone();
    run.input(Input::Relay(relay::Input::Frame { conn: CONN, text }));
}

/// Answers every order as a good world does, for a while.
fn settle(run: &mut Script<Machine>, end: &mut dyn FnMut(u64) -> TurnEnd) {
    let until = run.now().after(secs(40).saturating_since(MonoTime::ZERO));
    loop {
        let mut facts: VecDeque<_> = run.orders().iter().flat_map(|o| facts(o, end)).collect();
        while let Some(fact) = facts.pop_front() {
            let orders = run.input(fact).orders();
            facts.extend(orders.iter().flat_map(|order| self::facts(order, end)));
        }
        let due = run.part().next_deadline().map(|(at, _)| at);
        let Some(due) = due.filter(|due| *due <= until) else {
            return;
        };
        run.run_until(due);
    }
}

/// What follows from an order.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "nothing follows from most orders"
)]
fn facts(order: &Action, end: &mut dyn FnMut(u64) -> TurnEnd) -> Vec<Input> {
    use publish::Action as P;
    use relay::Action as R;
    use schedule::{Action as S, Input as I};
    match order {
        Action::Relay(R::Send { write, text, .. }) => {
            let written = Input::Relay(relay::Input::Written { write: *write });
            let form: Value = serde_json::from_slice(text).expect("a frame is JSON");
            let sub = form[1].as_str().filter(|_| form[0] == "REQ");
            let confirmed = sub.map(|sub| {
                let (conn, text) = (CONN, toy::eose(sub));
                Input::Relay(relay::Input::Frame { conn, text })
            });
            [written].into_iter().chain(confirmed).collect()
        }
        Action::Relay(R::Inform { ticket }) => {
            let limitation = json!({"max_limit": 60});
            let body = json!({"name": SECRETS[0], "limitation": limitation, "self": key(0xc3)});
            let (ticket, answer) = (*ticket, answer(&body.to_string()));
            vec![Input::Relay(relay::Input::Answered { ticket, answer })]
        }
        Action::Relay(R::Verify { ticket, .. }) => {
            let (ticket, genuine) = (*ticket, true);
            vec![Input::Relay(relay::Input::Verified { ticket, genuine })]
        }
        Action::Relay(R::Ping { conn }) => {
            vec![Input::Relay(relay::Input::Pong { conn: *conn })]
        }
        Action::Schedule(S::Spawn { worker }) => {
            vec![Input::Schedule(I::WorkerUp { worker: *worker })]
        }
        Action::Schedule(S::Kill { worker }) => {
            let (worker, cause) = (*worker, DownCause::Killed);
            vec![Input::Schedule(I::WorkerDown { worker, cause })]
        }
        Action::Schedule(S::Start { turn, session, .. }) => {
            let (turn, worker) = (*turn, session.reference().worker);
            turn_facts(turn, worker, end(turn.0))
        }
        Action::Publish(P::Sign { ticket, draft }) => {
            let event = Toy::new(1000 + ticket.0).content(&draft.content).bytes();
            let ticket = *ticket;
            vec![Input::Publish(publish::Input::Signed { ticket, event })]
        }
        Action::Publish(P::Post { ticket, event, .. }) => {
            let body = json!({"event_id": event.id(), "accepted": true, "message": ""});
            let (ticket, answer) = (*ticket, answer(&body.to_string()));
            vec![Input::Publish(publish::Input::Answered { ticket, answer })]
        }
        _ => Vec::new(),
    }
}

/// How a turn goes. What is said of a protocol failure is said by no session and no worker too.
fn turn_facts(
    turn: buzz_proto::ids::TurnId,
    worker: schedule::WorkerId,
    end: TurnEnd,
) -> Vec<Input> {
    use schedule::Input as I;
    let facts = match &end {
        TurnEnd::Failed { class, text } if *class == FailureClass::NeedsHuman => {
            let text = text.clone();
            let cause = OpenCause::Refused { text };
            vec![I::SessionFailed { turn, cause }]
        }
        TurnEnd::Failed { class, text } if *class == FailureClass::Protocol => {
            let (code, text) = (Some(1), text.clone());
            let cause = DownCause::Exited { code, text };
            vec![I::SessionOpened { turn }, I::WorkerDown { worker, cause }]
        }
        TurnEnd::Failed { .. } | TurnEnd::Answered { .. } | TurnEnd::Cancelled => {
            vec![I::SessionOpened { turn }, I::Finished { turn, end }]
        }
    };
    facts.into_iter().map(Input::Schedule).collect()
}

fn turn_end(dice: &mut Dice<'_>) -> TurnEnd {
    let classes = [
        FailureClass::Transient,
        FailureClass::NeedsHuman,
        FailureClass::Protocol,
    ];
    let class = dice.pick(&classes).unwrap_or(FailureClass::Transient);
    match dice.roll(6) {
        0 => TurnEnd::Failed {
            class,
            text: Excerpt::new(&words(dice)),
        },
        1 => TurnEnd::Cancelled,
        _ => TurnEnd::Answered {
            reply: words(dice).repeat(1 + 97 * usize::from(dice.roll(12))),
            stop: dice
                .pick(&[StopReason::EndTurn, StopReason::MaxTokens])
                .unwrap_or(StopReason::EndTurn),
        },
    }
}

fn words(dice: &mut Dice<'_>) -> String {
    let mut text = String::new();
    for _ in 0..dice.roll(8) {
        let parts: &[&str] = match dice.roll(8) {
            0 => &COMMANDS,
            1 => &["!", "\u{1}", "\"", "\\", "…", "content"],
            2..4 => &SPACES,
            _ => &SECRETS,
        };
        text.extend(dice.pick(parts));
    }
    text
}

/// The content of an event as JSON, and now and then as what is none.
fn raw_content(dice: &mut Dice<'_>) -> String {
    let text = words(dice);
    let mut json = quoted(&text);
    if dice.rarely(3) {
        let escaped = text.encode_utf16().fold(String::new(), |mut out, unit| {
            write!(out, "\\u{unit:04x}").expect("a string takes all");
            out
        });
        json = format!("\"{escaped}\"");
    }
    let spoilers = [r"\ud800", "\u{1}", r"\x", "\""];
    if dice.rarely(6) {
        json.insert_str(1, dice.pick(&spoilers).unwrap_or_default());
    }
    json
}

pub(crate) fn quoted(text: &str) -> String {
    serde_json::to_string(text).expect("text is JSON")
}

fn frame(content: &str) -> Bytes {
    frame_of(1, content)
}

/// An EVENT whose content is this JSON.
fn frame_of(number: u64, content: &str) -> Bytes {
    let sub = buzz_sim::relay::channel_sub(1, 1);
    let event = Toy::mention(number, channel(1)).content("(content)");
    let frame = toy::event_frame(&sub, &event).to_vec();
    let frame = String::from_utf8(frame).expect("a frame is text");
    frame.replace("\"(content)\"", content).into()
}

pub(crate) fn answer(body: &str) -> HttpAnswer {
    HttpAnswer {
        status: 200,
        retry_after: None,
        date: None,
        body: body.to_owned().into(),
    }
}

fn causes(text: &Excerpt) -> [DownCause; 4] {
    let text = || text.clone();
    [
        DownCause::CannotStart { text: text() },
        DownCause::NoHandshake { text: text() },
        DownCause::Exited {
            code: Some(1),
            text: text(),
        },
        DownCause::Protocol { text: text() },
    ]
}

fn count_posts(run: &Script<Machine>) -> usize {
    let posts = run
        .history()
        .filter(|action| matches!(action, Action::Publish(publish::Action::Post { .. })));
    posts.count()
}

pub(crate) fn assert_holds_no_words(text: &str) {
    for secret in SECRETS {
        let units: Vec<_> = secret.encode_utf16().take(2).collect();
        let escaped = format!(r"u{:04x}\\u{:04x}", units[0], units[1]);
        assert!(!text.contains(secret), "{secret} in {text}");
        assert!(!text.contains(&escaped), "{escaped} in {text}");
    }
    assert!(!text.contains("b64"), "bytes that are no text: {text}");
}

/// Recording a redacted call again changes nothing.
pub(crate) fn assert_is_redacted(line: &str) {
    let call: Value = serde_json::from_str(line).expect("JSON");
    let at: MonoTime = serde_json::from_value(call["t"].clone()).expect("a time");
    let input: Input = serde_json::from_value(call["in"].clone()).expect("a fact");
    let out: Vec<Action> = serde_json::from_value(call["out"].clone()).expect("orders");
    let again = Recorder::new(Privacy::Redacted).call(at, &input, &out);
    assert_eq!(again, line);
}
