//! Many agents behind one quota, in virtual time: whole machines, a plain relay, links that take
//! their time.
//!
//! It is light where a [`World`](crate::world::World) is thorough, so that thousands of agents can
//! share one: signatures are made up and believed, the relay keeps of a post only whose it is, and
//! it speaks no more than it has to. What it does say is honest: the window of the quota and the
//! hint are those of a Buzz relay, a subscription is confirmed, a ping is answered. Each message
//! takes a latency of its own, drawn from the seed. The same settings give the same run.

mod agent;
mod forge;
mod relay;

use std::collections::BTreeSet;
use std::hash::Hasher as _;
use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::config::ConfigError;
use buzz_proto::ids::{ConnId, EventId, Ticket};
use buzz_proto::input::Input;
use buzz_proto::publish;
use buzz_proto::relay::{self as machine_relay, HttpAnswer};
use buzz_proto::seed::Seed;
use buzz_proto::time::MonoTime;
use bytes::Bytes;

use crate::world::clock;
use agent::Agent;
use relay::RelaySide;

pub use relay::Tally;

/// Between the starts of the first and the last agent.
const STARTS: Duration = Duration::from_secs(1);
/// A driver reports the wall clock this often.
const WALL_CLOCK_EVERY: Duration = Duration::from_secs(10);

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where chance comes from.
    pub seed: u64,
    /// How many agents there are.
    pub agents: u32,
    /// Posts of each.
    pub jobs_each: u32,
    /// HTTP calls of all together that the relay takes in one window.
    pub quota: u32,
    /// The length of a window, from its first call.
    pub window: Duration,
}

/// Agents and their relay.
#[derive(Debug)]
pub struct Fleet {
    clock: Clock,
    /// When each agent wants its tick.
    wakes: BTreeSet<(MonoTime, u32)>,
    relay: RelaySide,
    agents: Vec<Agent>,
    /// Reused between calls.
    actions: Vec<Action>,
}

/// What one agent has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Jobs whose verdict is that they are stored.
    pub stored: u32,
    /// Verdicts beyond the first of a job, and those that say otherwise.
    pub wrong: u32,
    /// When its last verdict came.
    pub last: MonoTime,
    /// Its most calls under way at once.
    pub in_flight_max: u32,
}

type Clock = clock::Clock<(u32, Happening)>;

/// What happens to one agent or on its behalf. Many of them are moved about, so they are small.
#[derive(Debug)]
enum Happening {
    /// Its driver reports the wall clock.
    WallClock,
    /// The signer has signed a post.
    Signed(Ticket, Bytes),
    /// An event was found to be genuine.
    Verified(Ticket),
    /// Something reaches the machine, if this is still its socket.
    OnSocket(ConnId, machine_relay::Input),
    /// An HTTP call is answered.
    Answered(Call, HttpAnswer),
    /// Something on its socket reaches the relay.
    Sent(ConnId, Sent),
    /// An HTTP call reaches the relay.
    Called(Call, Asked),
}

#[derive(Debug)]
enum Sent {
    Upgrade,
    Text(Bytes),
    Ping,
}

#[derive(Clone, Copy, Debug)]
enum Asked {
    Post(EventId),
    Query,
    Inform,
}

/// An HTTP call; each part of a machine numbers its own.
#[derive(Clone, Copy, Debug)]
struct Call {
    is_publishers: bool,
    ticket: Ticket,
}

impl Fleet {
    /// A fleet before its first moment.
    ///
    /// # Errors
    /// When the machine cannot work with its settings.
    pub fn new(settings: &Settings) -> Result<Self, ConfigError> {
        let seed = Seed(settings.seed);
        let mut fleet = Self {
            clock: Clock::new(),
            wakes: BTreeSet::new(),
            relay: RelaySide::new(settings),
            agents: Vec::new(),
            actions: Vec::new(),
        };
        for number in 0..settings.agents {
            let seed = seed.derive(u64::from(number));
            fleet.agents.push(Agent::new(number, settings, seed)?);
            let start = seed.between(1, 0, Duration::ZERO, STARTS);
            fleet.clock.plan_in(start, (number, Happening::WallClock));
        }
        Ok(fleet)
    }

    /// Every agent is given all its posts, now.
    pub fn submit(&mut self) {
        self.relay.begin();
        let jobs = self.relay.jobs_each();
        for number in (0..).take(self.agents.len()) {
            for job in 0..jobs {
                self.feed(number, agent::post(job));
            }
        }
    }

    /// Lets time pass.
    pub fn run_for(&mut self, span: Duration) {
        let until = self.clock.now().after(span);
        while self.step(until) {}
        self.clock.pass_to(until);
    }

    /// The present.
    #[must_use]
    pub const fn now(&self) -> MonoTime {
        self.clock.now()
    }

    /// Agents whose connection is live and whose subscriptions the relay has confirmed.
    #[must_use]
    pub fn live(&self) -> usize {
        self.agents.iter().filter(|agent| agent.is_live()).count()
    }

    /// What the relay has counted since the posts were handed over.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        self.relay.tally()
    }

    /// What each agent has got.
    pub fn accounts(&self) -> impl Iterator<Item = Account> {
        self.agents.iter().map(|agent| agent.account)
    }

    /// A number that two runs share only if the same calls reached the relay at the same times.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.relay.hash().finish()
    }

    /// The next thing that happens until then. False when there is none.
    fn step(&mut self, until: MonoTime) -> bool {
        let planned = self.clock.next();
        let wake = self.wakes.first().copied();
        // What can be read is fed before a tick of the same instant.
        let is_due = |at: MonoTime| at <= until && planned.is_none_or(|planned| at < planned);
        if let Some((at, number)) = wake.filter(|(at, _)| is_due(*at)) {
            self.wakes.pop_first();
            self.clock.pass_to(at);
            if let Some(agent) = self.agent(number) {
                agent.wake = None;
            }
            self.feed(number, Input::Tick);
            return true;
        }
        if planned.is_none_or(|at| at > until) {
            return false;
        }
        if let Some((number, what)) = self.clock.take() {
            self.happen(number, what);
        }
        true
    }

    fn happen(&mut self, number: u32, what: Happening) {
        match what {
            Happening::WallClock => {
                let again = (number, Happening::WallClock);
                self.clock.plan_in(WALL_CLOCK_EVERY, again);
                self.feed(number, Input::WallClock(self.clock.wall()));
            }
            Happening::Signed(ticket, event) => {
                let input = publish::Input::Signed { ticket, event };
                self.feed(number, Input::Publish(input));
            }
            Happening::Verified(ticket) => {
                let genuine = true;
                let input = machine_relay::Input::Verified { ticket, genuine };
                self.feed(number, Input::Relay(input));
            }
            Happening::OnSocket(conn, input) => {
                if self.agent(number).is_none_or(|it| !it.is_on(conn)) {
                    return;
                }
                if let machine_relay::Input::Connected { .. } = input {
                    self.feed(number, Input::WallClock(self.clock.wall()));
                }
                self.feed(number, Input::Relay(input));
            }
            Happening::Answered(call, answer) => {
                if let Some(agent) = self.agent(number) {
                    agent.in_flight = agent.in_flight.saturating_sub(1);
                }
                self.feed(number, call.answered(answer));
            }
            Happening::Sent(conn, what) => {
                let Some(agent) = place(number).and_then(|it| self.agents.get_mut(it)) else {
                    return;
                };
                if let Some(reply) = relay::on_socket(conn, &what, self.clock.wall()) {
                    let at = agent.arrival(agent::Way::Down, self.clock.now());
                    let reaches = Happening::OnSocket(conn, reply);
                    self.clock.plan(at, (number, reaches));
                }
            }
            Happening::Called(call, asked) => {
                let answer = self.relay.call(number, asked, &self.clock);
                let Some(agent) = place(number).and_then(|it| self.agents.get_mut(it)) else {
                    return;
                };
                let at = agent.arrival(agent::Way::Call, self.clock.now());
                self.clock
                    .plan(at, (number, Happening::Answered(call, answer)));
            }
        }
    }

    fn feed(&mut self, number: u32, input: Input) {
        let Self {
            clock,
            wakes,
            agents,
            actions,
            ..
        } = self;
        let Some(agent) = place(number).and_then(|it| agents.get_mut(it)) else {
            return;
        };
        let before = agent.wake;
        agent.feed(input, actions, clock);
        if agent.wake != before {
            if let Some(at) = before {
                wakes.remove(&(at, number));
            }
            wakes.extend(agent.wake.map(|at| (at, number)));
        }
    }

    fn agent(&mut self, number: u32) -> Option<&mut Agent> {
        self.agents.get_mut(place(number)?)
    }
}

fn place(number: u32) -> Option<usize> {
    usize::try_from(number).ok()
}
