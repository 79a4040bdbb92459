//! A whole machine, a relay that says what a story has it say, and what was seen of both.

mod peer;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use buzz_proto::config::Config;
use buzz_proto::ids::{ConnId, EventId, Ticket};
use buzz_proto::input::Input;
use buzz_proto::machine::Machine;
use buzz_proto::publish::{self, Mark, Verdict};
use buzz_proto::relay::BrokeCause;
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_sim::machine::{config, external, machine};
use buzz_sim::relay::unaudited;
use buzz_sim::script::{self, Script};
use buzz_sim::toy;

use crate::support::{Fact, Seen, TRAFFIC, Variant, Way};

/// How exactly a deadline is kept.
const SLACK: Duration = Duration::from_secs(1);

/// The desk at which a story is told.
pub(crate) struct Desk {
    machine: Script<Machine>,
    variant: Variant,
    zero: MonoTime,
    instants: u32,
    serial: u64,
    seen: Vec<(MonoTime, Seen)>,
    dials: Vec<MonoTime>,
    /// The socket that is open.
    conn: Option<ConnId>,
    is_known: bool,
    takes_dials: bool,
    refuses_auth: Option<&'static str>,
    /// The EVENTs without an answer on this socket.
    out: BTreeSet<EventId>,
    /// What is answered to each post from now on, if not by hand.
    web: Option<(u16, &'static str)>,
    /// The posts without an answer.
    posts: Vec<(Ticket, EventId)>,
    /// The events of jobs.
    owners: BTreeMap<EventId, u64>,
    /// When the events of drafts were signed.
    made: BTreeMap<EventId, MonoTime>,
    deadlines: BTreeMap<u64, MonoTime>,
    /// What the relay has.
    stored: BTreeSet<EventId>,
    /// What the relay says to these events each time.
    standing: BTreeMap<EventId, (bool, &'static str)>,
    /// Until when the relay asked to be left alone, on the socket and over HTTP.
    socket_shut: MonoTime,
    http_shut: MonoTime,
    /// Whether the relay took an EVENT for one of a stranger, and does not know us since.
    is_stranger: bool,
}

impl Desk {
    /// An agent with a live connection and no workers.
    pub(crate) fn live(variant: Variant) -> Self {
        let mut desk = Self::with(config(external()), variant);
        desk.takes_dials = true;
        desk.begin();
        desk
    }

    /// An agent that was never connected.
    pub(crate) fn away(variant: Variant) -> Self {
        let mut desk = Self::with(config(external()), variant);
        desk.begin();
        desk
    }

    /// An agent with these settings and a live connection since just now.
    pub(crate) fn live_with(config: Config, variant: Variant) -> Self {
        let mut desk = Self::with(config, variant);
        desk.takes_dials = true;
        desk.begin();
        desk
    }

    fn with(mut config: Config, variant: Variant) -> Self {
        config.relay = unaudited(config.relay);
        Self {
            machine: script::script(machine(config)),
            variant,
            zero: MonoTime::ZERO,
            instants: 0,
            serial: 0,
            seen: Vec::new(),
            dials: Vec::new(),
            web: None,
            conn: None,
            is_known: false,
            takes_dials: false,
            refuses_auth: None,
            out: BTreeSet::new(),
            posts: Vec::new(),
            owners: BTreeMap::new(),
            made: BTreeMap::new(),
            deadlines: BTreeMap::new(),
            stored: BTreeSet::new(),
            standing: BTreeMap::new(),
            socket_shut: MonoTime::ZERO,
            http_shut: MonoTime::ZERO,
            is_stranger: false,
        }
    }

    fn begin(&mut self) {
        self.feed(Input::WallClock(toy::START));
        if self.takes_dials && !self.is_live() {
            self.machine.fail("the agent is not connected");
        }
        self.zero = self.machine.now();
    }

    /// The facts of an instant, in milliseconds from the beginning.
    pub(crate) fn at<const N: usize>(&mut self, ms: u64, facts: [Fact; N]) {
        self.until(ms);
        let number = self.instants;
        self.instants += 1;
        let mut facts = facts.to_vec();
        if let Variant::Disturbed { outage } = self.variant {
            facts.reverse();
            if outage == number {
                self.outage();
            }
            self.traffic(u64::from(number));
        }
        for fact in facts {
            self.happen(fact);
        }
    }

    /// Lets time pass until so many milliseconds from the beginning, if that is ahead.
    pub(crate) fn until(&mut self, ms: u64) {
        let end = self.zero.after(Duration::from_millis(ms));
        self.run_until(end);
    }

    /// What is demanded where the story is told as reported.
    pub(crate) fn must(&self, holds: bool, what: &str) {
        if self.variant == Variant::AsReported && !holds {
            self.machine.fail(&format!("must: {what}"));
        }
    }

    /// What is forbidden however the story is told.
    pub(crate) fn never(&self, happens: bool, what: &str) {
        if happens {
            self.machine
                .fail(&format!("never: {what} ({:?})", self.variant));
        }
    }

    pub(crate) fn verdict(&self, job: u64) -> Option<&Verdict> {
        self.seen.iter().find_map(|(_, seen)| {
            if let Seen::Verdict(of, verdict) = seen {
                return (*of == job).then_some(verdict);
            }
            None
        })
    }

    /// Milliseconds from the beginning at which the job's verdict came.
    pub(crate) fn settled_at(&self, job: u64) -> Option<u64> {
        let found = self
            .seen
            .iter()
            .find(|(_, seen)| matches!(seen, Seen::Verdict(of, _) if *of == job));
        found.map(|(at, _)| self.millis(*at))
    }

    /// When an event of a job went out, either way.
    pub(crate) fn sends(&self, job: u64) -> Vec<MonoTime> {
        let those = self.sent(job);
        those.map(|(at, _)| at).collect()
    }

    /// As [`sends`](Self::sends), in milliseconds from the beginning.
    pub(crate) fn sends_ms(&self, job: u64) -> Vec<u64> {
        let times = self.sends(job);
        times.into_iter().map(|at| self.millis(at)).collect()
    }

    /// The different ids under which a job went out.
    pub(crate) fn ids(&self, job: u64) -> BTreeSet<EventId> {
        self.sent(job).map(|(_, id)| id).collect()
    }

    /// When events of this kind were sent, in milliseconds from the beginning.
    pub(crate) fn events_of(&self, wanted: u32) -> Vec<u64> {
        let mut times = Vec::new();
        for (at, seen) in &self.seen {
            if matches!(seen, Seen::Event { kind, .. } if *kind == wanted) {
                times.push(self.millis(*at));
            }
        }
        times
    }

    /// The posts whose event is of no job, with the number of the try.
    pub(crate) fn posts_of_no_job(&self) -> Vec<(EventId, u16)> {
        let mut posts = Vec::new();
        for (_, seen) in &self.seen {
            if let Seen::Post { id, attempt } = seen
                && !self.owners.contains_key(id)
            {
                posts.push((*id, *attempt));
            }
        }
        posts
    }

    /// The dates of the drafts that were signed.
    pub(crate) fn signed(&self) -> Vec<UnixTime> {
        let mut dates = Vec::new();
        for (_, seen) in &self.seen {
            if let Seen::Sign(date) = seen {
                dates.push(*date);
            }
        }
        dates
    }

    /// When the relay said that it knows us, in milliseconds from the beginning.
    pub(crate) fn known(&self) -> Vec<u64> {
        let those = self.seen.iter().filter(|(_, seen)| *seen == Seen::Known);
        those.map(|(at, _)| self.millis(*at)).collect()
    }

    /// How old the signature of an event was when it went out, in milliseconds.
    pub(crate) fn age_ms(&self, sent: MonoTime, id: EventId) -> u128 {
        let made = self.made.get(&id).copied().unwrap_or_default();
        sent.saturating_since(made).as_millis()
    }

    /// When it dialed, in milliseconds from the beginning.
    pub(crate) fn dials(&self) -> Vec<u64> {
        self.dials.iter().map(|at| self.millis(*at)).collect()
    }

    /// Milliseconds from the beginning until now.
    pub(crate) fn now_ms(&self) -> u64 {
        self.millis(self.machine.now())
    }

    pub(crate) fn is_live(&self) -> bool {
        self.conn.is_some() && self.is_known
    }

    /// The wall clock so many milliseconds from the beginning.
    pub(crate) fn wall(&self, ms: u64) -> UnixTime {
        let at = self.zero.after(Duration::from_millis(ms));
        toy::START.after(at.saturating_since(MonoTime::ZERO))
    }

    /// Ends the story: every job whose time is over has its verdict. Gives the number of instants.
    pub(crate) fn finish(&self) -> u32 {
        let now = self.machine.now();
        for (job, deadline) in &self.deadlines {
            let is_over = deadline.after(SLACK) < now;
            self.never(
                is_over && self.verdict(*job).is_none(),
                &format!("job {job} outlives its time"),
            );
        }
        self.instants
    }

    /// When each event of a job went out, and its id.
    pub(crate) fn sent(&self, job: u64) -> impl Iterator<Item = (MonoTime, EventId)> {
        let those = self.seen.iter().filter_map(|(at, seen)| {
            if let Seen::Event { id, .. } | Seen::Post { id, .. } = seen {
                return Some((*at, *id));
            }
            None
        });
        those.filter(move |(_, id)| self.owners.get(id) == Some(&job))
    }

    fn millis(&self, at: MonoTime) -> u64 {
        let since = at.saturating_since(self.zero);
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }

    /// The socket is lost and, where dials succeed, soon another is live.
    fn outage(&mut self) {
        self.happen(Fact::Down);
        let end = self.machine.now().after(Duration::from_secs(5));
        while self.takes_dials && !self.is_live() && self.machine.now() < end {
            let next = self.machine.now().after(Duration::from_millis(100));
            self.run_until(next);
        }
    }

    /// What concerns no story: jobs that the relay takes, and words that mean nothing.
    fn traffic(&mut self, number: u64) {
        let job = TRAFFIC + 2 * number;
        self.happen(Fact::Submit(job, Way::Socket, 24 * 3600));
        self.happen(Fact::Submit(job + 1, Way::Post, 24 * 3600));
        self.happen(Fact::Notice("maintenance tonight"));
        self.say(toy::eose("nobody-asked-for-this"));
        self.say(toy::ok(toy::id(800), true, ""));
    }

    fn happen(&mut self, fact: Fact) {
        match fact {
            Fact::Submit(job, way, ttl) => self.submit(job, way, Duration::from_secs(ttl)),
            Fact::React(n) => self.publish(publish::Command::React {
                message: toy::id(n),
                author: toy::key(0xb2),
                mark: Some(Mark::Seen),
            }),
            Fact::Ok(job, accepted, reason) => {
                let last = self.sent(job).last();
                let id = last.map_or_else(|| toy::id(job), |(_, id)| id);
                self.answer_event(id, accepted, reason);
            }
            Fact::Notice(text) => {
                self.heed(text);
                self.say(toy::notice(text));
            }
            Fact::Challenge => self.say(toy::challenge("again")),
            Fact::Web(status, body) => self.web = Some((status, body)),
            Fact::Answer(job, status, body) => self.answer_post(job, status, body),
            Fact::Unreachable(job) => {
                if let Some((ticket, _)) = self.take_post(job) {
                    let cause = BrokeCause::Connect;
                    self.feed(Input::Publish(publish::Input::Broke { ticket, cause }));
                }
            }
            Fact::Down => self.hang_up(),
            Fact::Network(is_there) => {
                self.takes_dials = is_there;
                if !is_there {
                    self.hang_up();
                }
            }
            Fact::RefuseAuth(reason) => self.refuses_auth = Some(reason),
        }
    }
}
