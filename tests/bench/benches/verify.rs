//! How many events a second go through the machine, with real signatures.
//!
//! Each event comes as a frame, is checked when the machine orders it, as the driver does, and is
//! delivered and taken. Three figures of one run stand side by side: the checks alone, the machine
//! whose checks are answered for free, and both together. All of it runs on one thread, where the
//! driver has a pool for the checks. Machines differ and are shared, so that only ratios mean
//! anything; passes take turns, and the fastest of each kind counts. Beyond the limit the run
//! fails: what a signature costs is to stay most of what an event costs.

#![expect(clippy::print_stdout, reason = "figures are what a benchmark is for")]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use buzz_adapters::verify::is_genuine;
use buzz_dev_relay::keys::Keys;
use buzz_proto::action::Action;
use buzz_proto::config::{Config, Consumer};
use buzz_proto::ids::{ChannelId, ConnId, PubKey};
use buzz_proto::input::Input;
use buzz_proto::machine::Machine;
use buzz_proto::publish;
use buzz_proto::relay::{self, Channels};
use buzz_proto::time::{MonoTime, UnixTime};
use bytes::Bytes;
use serde_json::json;

const EVENTS: u32 = 4000;
/// Passes of each kind, of which the fastest counts.
const PASSES: usize = 15;
/// What an event costs in all, at most, as a multiple of its check alone.
const RATIO_MAX: f64 = 1.5;
const START: UnixTime = UnixTime(1_800_000_000);
const ME: PubKey = PubKey([0xa1; 32]);
const CHANNEL: ChannelId = ChannelId([0x77; 16]);
const CONN: ConnId = ConnId(1);

fn main() -> ExitCode {
    let (events, frames) = signed();
    let mut costs = [Duration::MAX; 3];
    for _ in 0..PASSES {
        let passes = [
            checks(&events),
            through(&frames, |_| true),
            through(&frames, is_genuine),
        ];
        for (cost, pass) in costs.iter_mut().zip(passes) {
            *cost = pass.min(*cost);
        }
    }
    let [alone, ..] = costs.map(|cost| cost.as_secs_f64());
    println!(
        "{:<24}  {:>10}  {:>12}  {:>6}",
        "", "one event", "a second", "ratio"
    );
    let names = [
        "checks alone",
        "machine, checks free",
        "machine with checks",
    ];
    for (name, cost) in names.into_iter().zip(costs) {
        let cost = cost.as_secs_f64();
        let (micros, rate) = (cost / f64::from(EVENTS) * 1e6, f64::from(EVENTS) / cost);
        println!(
            "{name:<24}  {micros:>7.2} us  {rate:>12.0}  {:>6.2}",
            cost / alone
        );
    }
    let [.., both] = costs.map(|cost| cost.as_secs_f64() / alone);
    println!("an event costs {both:.2} times its check, at most {RATIO_MAX}");
    if both > RATIO_MAX {
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Mentions of the agent, and the frames that bring them.
fn signed() -> (Vec<Bytes>, Vec<Bytes>) {
    let author = Keys::generate();
    let tags = || {
        let (channel, me) = (CHANNEL.to_string(), ME.to_string());
        vec![vec!["h".to_owned(), channel], vec!["p".to_owned(), me]]
    };
    let name = format!("ch-{CHANNEL}-1");
    let events = (0..EVENTS).map(|n| {
        let words = format!("message {n}, as long as what people write to an agent mostly is");
        let event = author.sign_event(9, tags(), &words, START.0);
        (
            json!(event).to_string().into(),
            json!(["EVENT", name, event]).to_string().into(),
        )
    });
    events.unzip()
}

/// The checks of all events, without a machine.
fn checks(events: &[Bytes]) -> Duration {
    let begun = Instant::now();
    for event in events {
        assert!(is_genuine(black_box(event)), "it is signed");
    }
    begun.elapsed()
}

/// All events, from their frames to their being taken.
fn through(frames: &[Bytes], check: fn(&[u8]) -> bool) -> Duration {
    let mut desk = Desk::open();
    let begun = Instant::now();
    for text in frames {
        let text = text.clone();
        desk.tell(relay::Input::Frame { conn: CONN, text }, check);
    }
    let spent = begun.elapsed();
    assert_eq!(desk.taken, u64::from(EVENTS), "each is delivered");
    spent
}

/// A machine with a live subscription, and who answers its orders.
struct Desk {
    machine: Machine,
    now: MonoTime,
    taken: u64,
    orders: Vec<Action>,
}

impl Desk {
    fn open() -> Self {
        let config = Config {
            seed: 7,
            me: ME,
            relay: relay::Config {
                channels: Channels::Given(vec![CHANNEL]),
                ..relay::Config::new("ws://127.0.0.1:1")
            },
            publish: publish::Config::default(),
            consumer: Consumer::External { slots: 64 },
        };
        let now = MonoTime::ZERO;
        let mut desk = Self {
            machine: Machine::new(config, now).expect("the settings work"),
            now,
            taken: 0,
            orders: Vec::new(),
        };
        desk.machine
            .handle_input_into(Input::WallClock(START), now, &mut desk.orders);
        desk.orders.clear();
        let connected = relay::Input::Connected {
            conn: CONN,
            date: Some(START),
        };
        desk.tell(connected, |_| true);
        for _ in 0..20 {
            desk.now = desk.now.after(Duration::from_secs(1));
            desk.machine
                .handle_input_into(Input::Tick, desk.now, &mut desk.orders);
            desk.follow(|_| true);
        }
        let view = desk.machine.relay();
        assert_eq!(view.subscriptions_live, 1, "{view:?}");
        desk
    }

    fn tell(&mut self, fact: relay::Input, check: fn(&[u8]) -> bool) {
        let fact = Input::Relay(fact);
        self.machine
            .handle_input_into(fact, self.now, &mut self.orders);
        self.follow(check);
    }

    /// Carries out what is ordered.
    fn follow(&mut self, check: fn(&[u8]) -> bool) {
        for order in std::mem::take(&mut self.orders) {
            if let Action::Relay(order) = order
                && let Some(fact) = self.answer(order, check)
            {
                self.tell(fact, check);
            }
        }
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "nothing follows from most orders"
    )]
    fn answer(&mut self, order: relay::Action, check: fn(&[u8]) -> bool) -> Option<relay::Input> {
        use relay::{Action as A, Input as I};
        match order {
            A::Verify { ticket, event } => {
                let genuine = check(event.raw());
                Some(I::Verified { ticket, genuine })
            }
            A::Deliver { event, .. } => {
                black_box(event);
                self.taken += 1;
                Some(I::Capacity { taken: self.taken })
            }
            A::Inform { ticket } | A::Query { ticket, .. } => {
                let cause = relay::BrokeCause::Connect;
                Some(I::Broke { ticket, cause })
            }
            A::Send { write, text, .. } if text.starts_with(b"[\"REQ\"") => {
                self.tell(I::Written { write }, check);
                let request: serde_json::Value = serde_json::from_slice(&text).ok()?;
                let text = json!(["EOSE", request[1]]).to_string().into();
                Some(I::Frame { conn: CONN, text })
            }
            A::Send { write, .. } => Some(I::Written { write }),
            _ => None,
        }
    }
}
