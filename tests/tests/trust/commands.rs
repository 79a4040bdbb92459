//! Commands of the owner that come again, from somebody else, or too late.

use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::config::{Config, Consumer};
use buzz_proto::ids::{ConnId, TurnId, WriteId};
use buzz_proto::input::Input;
use buzz_proto::machine::Machine;
use buzz_proto::note::{Note, RefusedWhy};
use buzz_proto::schedule::{self, Session, TurnEnd, WorkerId};
use buzz_proto::time::UnixTime;
use buzz_proto::{publish, relay};
use buzz_sim::machine::machine;
use buzz_sim::relay::{channel_sub, given};
use buzz_sim::script::{Script, script};
use buzz_sim::toy::{self, ME, START, Toy, channel, key};

const SECOND: Duration = Duration::from_secs(1);
const OWNER: u8 = 0xb2;
const COMMANDS: [&str; 3] = ["!cancel", "!rotate", "!shutdown"];

/// A machine with one worker, which has a turn of its owner.
struct Desk {
    machine: Script<Machine>,
    conn: ConnId,
    sub: u64,
    turn: Option<TurnId>,
    events: u64,
    verdict: bool,
}

impl Desk {
    fn at_work() -> Self {
        let mut config = schedule::Config::new(1);
        config.owner = Some(key(OWNER));
        config.cosmetics = false;
        config.marks = false;
        let machine = script(machine(Config {
            seed: 1,
            me: ME,
            relay: given(&[1]),
            publish: publish::Config::default(),
            consumer: Consumer::Workers(Box::new(config)),
        }));
        let mut desk = Self {
            machine,
            conn: ConnId(1),
            sub: 1,
            turn: None,
            events: 100,
            verdict: true,
        };
        desk.tell(Input::WallClock(START));
        let worker = WorkerId {
            slot: 0,
            incarnation: 1,
        };
        desk.tell(Input::Schedule(schedule::Input::WorkerUp { worker }));
        desk.opens();
        desk.works();
        desk
    }

    /// A socket opens, and the subscription on it is confirmed after what is stored.
    fn opens_with(&mut self, stored: &[&Toy]) {
        let conn = self.conn;
        self.tell_relay(relay::Input::Connected { conn, date: None });
        self.pass(8);
        self.tell_relay(relay::Input::Written {
            write: WriteId(self.sub - 1),
        });
        for event in stored {
            self.comes(event);
        }
        let text = toy::eose(&channel_sub(1, self.sub));
        self.tell_relay(relay::Input::Frame { conn, text });
    }

    fn opens(&mut self) {
        self.opens_with(&[]);
    }

    fn reconnects_to(&mut self, stored: &[&Toy]) {
        let conn = self.conn;
        self.tell_relay(relay::Input::Closed { conn, code: None });
        self.pass(2);
        self.conn = ConnId(conn.0 + 1);
        self.sub += 1;
        self.opens_with(stored);
    }

    /// Time passes; the peer is heard of often enough.
    fn pass(&mut self, seconds: u64) -> Vec<Action> {
        let conn = self.conn;
        let mut ends = Vec::new();
        for _ in 0..seconds {
            self.machine.run_for(SECOND);
            ends.extend(self.follow());
            if self.machine.part().relay().is_live {
                ends.extend(self.tell_relay(relay::Input::Pinged { conn }));
            }
        }
        ends
    }

    fn now(&self) -> UnixTime {
        let start = buzz_proto::time::MonoTime::ZERO;
        START.after(self.machine.now().saturating_since(start))
    }

    /// A message of the owner begins a turn.
    fn works(&mut self) {
        assert_eq!(self.turn, None);
        self.events += 1;
        let event = Toy::mention(self.events, channel(1)).dated(self.now());
        self.comes(&event);
        assert!(self.turn.is_some(), "a turn begins");
    }

    /// The turn under way is over.
    fn ends(&mut self) {
        let turn = self.turn.take().expect("a turn is under way");
        let end = TurnEnd::Cancelled;
        self.tell(Input::Schedule(schedule::Input::Finished { turn, end }));
    }

    /// An event comes. What it made the machine end, itself after its grace included.
    fn effect_of(&mut self, event: &Toy) -> Vec<Action> {
        let mut ends = self.comes(event);
        ends.extend(self.pass(40));
        ends
    }

    /// An event comes under the present subscription. What it made the machine end at once.
    fn comes(&mut self, event: &Toy) -> Vec<Action> {
        let (conn, text) = (
            self.conn,
            toy::event_frame(&channel_sub(1, self.sub), event),
        );
        self.tell_relay(relay::Input::Frame { conn, text })
    }

    fn tell_relay(&mut self, input: relay::Input) -> Vec<Action> {
        self.tell(Input::Relay(input))
    }

    fn tell(&mut self, input: Input) -> Vec<Action> {
        self.machine.input(input);
        self.follow()
    }

    /// Does what is ordered. Gives the orders that end work.
    fn follow(&mut self) -> Vec<Action> {
        let mut ends = Vec::new();
        loop {
            let orders = self.machine.orders();
            if orders.is_empty() {
                return ends;
            }
            let mut facts = Vec::new();
            for order in orders {
                if let Some(fact) = self.answer(&order) {
                    facts.push(fact);
                } else if is_end(&order) {
                    ends.push(order);
                }
            }
            for fact in facts {
                let rest = self.machine.timed_orders();
                self.machine.input(fact).put_back(rest);
            }
        }
    }

    /// What follows from an order, if anything does.
    fn answer(&mut self, order: &Action) -> Option<Input> {
        if let Action::Relay(relay::Action::Verify { ticket, .. }) = order {
            let (ticket, genuine) = (*ticket, self.verdict);
            return Some(Input::Relay(relay::Input::Verified { ticket, genuine }));
        }
        let Action::Schedule(schedule::Action::Start { turn, session, .. }) = order else {
            return None;
        };
        let turn = *turn;
        self.turn = Some(turn);
        let is_fresh = matches!(session, Session::Fresh(_));
        is_fresh.then_some(Input::Schedule(schedule::Input::SessionOpened { turn }))
    }

    fn refusals(&mut self) -> Vec<RefusedWhy> {
        let notes = self.machine.notes().into_iter();
        let whys = notes.filter_map(|note| {
            let Note::Refused { why, .. } = note else {
                return None;
            };
            Some(why)
        });
        whys.collect()
    }
}

/// Whether an order ends work, or the machine.
fn is_end(order: &Action) -> bool {
    matches!(
        order,
        Action::Ended
            | Action::Schedule(
                schedule::Action::CancelTurn { .. }
                    | schedule::Action::CloseSession { .. }
                    | schedule::Action::Kill { .. }
            )
    )
}

fn command(n: u64, words: &str, dated: UnixTime) -> Toy {
    Toy::mention(n, channel(1)).content(words).dated(dated)
}

/// A desk at which the owner has stopped a turn with this command, and the next one is under way.
fn after(words: &str) -> (Desk, Toy) {
    let mut desk = Desk::at_work();
    let command = command(1, words, desk.now());
    assert_ne!(desk.comes(&command), [], "{words} stops the turn");
    desk.ends();
    desk.works();
    (desk, command)
}

#[test]
fn a_command_that_comes_again_has_no_effect() {
    for words in ["!cancel", "!rotate"] {
        let (mut desk, command) = after(words);
        for _ in 0..3 {
            assert_eq!(desk.effect_of(&command), []);
        }
        assert!(desk.turn.is_some());
    }
}

#[test]
fn a_command_that_comes_again_on_a_new_connection_has_no_effect() {
    for words in ["!cancel", "!rotate"] {
        let (mut desk, command) = after(words);
        desk.reconnects_to(&[&command]);
        assert_eq!(desk.effect_of(&command), []);
        assert!(desk.turn.is_some());
        // The next one counts.
        let next = self::command(2, words, desk.now());
        assert_ne!(desk.effect_of(&next), []);
    }
}

#[test]
fn the_words_of_a_command_by_somebody_else_have_no_effect() {
    for words in COMMANDS {
        let mut desk = Desk::at_work();
        desk.machine.notes();
        let said = command(1, words, desk.now()).author(key(9));
        assert_eq!(desk.effect_of(&said), []);
        assert!(desk.turn.is_some());
    }
}

#[test]
fn a_forged_command_has_no_effect_and_the_genuine_one_has() {
    for words in COMMANDS {
        let mut desk = Desk::at_work();
        desk.machine.notes();
        let said = command(1, words, desk.now());
        desk.verdict = false;
        assert_eq!(
            desk.effect_of(&said.clone().content(&format!("{words} "))),
            []
        );
        assert_eq!(desk.refusals(), [RefusedWhy::NotGenuine]);
        desk.verdict = true;
        assert_ne!(desk.effect_of(&said), []);
    }
}

#[test]
fn a_command_that_was_kept_back_has_no_effect() {
    for words in COMMANDS {
        let mut desk = Desk::at_work();
        let said = command(1, words, desk.now().before(301 * SECOND));
        desk.machine.notes();
        assert_eq!(desk.effect_of(&said), []);
        assert_eq!(desk.refusals(), [RefusedWhy::StaleCommand]);
        // It is known from now on.
        desk.machine.notes();
        assert_eq!(desk.effect_of(&said), []);
        assert_eq!(desk.refusals(), []);
    }
}

#[test]
fn a_command_for_another_agent_or_in_another_channel_has_no_effect() {
    for words in COMMANDS {
        let mut desk = Desk::at_work();
        let here = channel(1).to_string();
        let others = [
            Toy::mention(1, channel(2)),
            Toy::new(2)
                .tag(&["h", &here])
                .tag(&["p", &key(9).to_string()]),
            Toy::new(3).tag(&["h", &here]),
        ];
        for other in others {
            let said = other.content(words).dated(desk.now());
            assert_eq!(desk.effect_of(&said), []);
        }
        assert!(desk.turn.is_some());
    }
}
