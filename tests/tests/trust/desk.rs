//! A machine with a worker at work for its owner, and a driver that answers at once.

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

pub(super) const SECOND: Duration = Duration::from_secs(1);
const OWNER: u8 = 0xb2;

/// A machine with one worker, which has a turn of its owner.
pub(super) struct Desk {
    pub(super) machine: Script<Machine>,
    conn: ConnId,
    sub: u64,
    pub(super) turn: Option<TurnId>,
    events: u64,
    pub(super) verdict: bool,
}

impl Desk {
    pub(super) fn at_work() -> Self {
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

    pub(super) fn reconnects_to(&mut self, stored: &[&Toy]) {
        let conn = self.conn;
        self.tell_relay(relay::Input::Closed { conn, code: None });
        self.pass(2);
        self.conn = ConnId(conn.0 + 1);
        self.sub += 1;
        self.opens_with(stored);
    }

    /// Time passes; the peer is heard of often enough.
    pub(super) fn pass(&mut self, seconds: u64) -> Vec<Action> {
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

    pub(super) fn now(&self) -> UnixTime {
        let start = buzz_proto::time::MonoTime::ZERO;
        START.after(self.machine.now().saturating_since(start))
    }

    /// A message of the owner begins a turn.
    pub(super) fn works(&mut self) {
        assert_eq!(self.turn, None);
        self.events += 1;
        let event = Toy::mention(self.events, channel(1)).dated(self.now());
        self.comes(&event);
        assert!(self.turn.is_some(), "a turn begins");
    }

    /// The turn under way is over.
    pub(super) fn ends(&mut self) {
        let turn = self.turn.take().expect("a turn is under way");
        let end = TurnEnd::Cancelled;
        self.tell(Input::Schedule(schedule::Input::Finished { turn, end }));
    }

    /// An event comes. What it made the machine end, itself after its grace included.
    pub(super) fn effect_of(&mut self, event: &Toy) -> Vec<Action> {
        let mut ends = self.comes(event);
        ends.extend(self.pass(40));
        ends
    }

    /// An event comes under the present subscription. What it made the machine end at once.
    pub(super) fn comes(&mut self, event: &Toy) -> Vec<Action> {
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

    pub(super) fn refusals(&mut self) -> Vec<RefusedWhy> {
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
