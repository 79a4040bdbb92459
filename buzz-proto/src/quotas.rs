//! The quotas of the relay, one value each: they outlive sockets and are lent to whoever sends.

use core::time::Duration;

use crate::bucket::Bucket;
use crate::gate::{Gate, Generation, Refusal};
use crate::lanes::Lanes;
use crate::note::{Note, Quota};
use crate::retry_hint::Hint;
use crate::seed::Seed;
use crate::time::{MonoTime, Now, Why};

/// Frames on the socket: at most 48 in any 5 s, the relay allows 50.
const OPERATIONS_PER_SECOND: u32 = 8;
const OPERATIONS_BURST: u32 = 8;
/// EVENTs on the socket: at most 55 in any minute, the relay allows 60 to a person.
const MESSAGES_PER_MINUTE: u32 = 45;
const MESSAGES_BURST: u32 = 10;
/// HTTP calls: at most 260 in any minute, the relay allows 300.
const HTTP_PER_SECOND: u32 = 4;
const HTTP_BURST: u32 = 20;

/// What waits for an operation on the socket, in the order of its right of way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationLane {
    /// The subscription to notices.
    Membership,
    /// A durable EVENT.
    Event,
    /// A subscription not asked for on this socket yet.
    New,
    /// One that was asked for in vain.
    Retry,
    /// A read of stored events.
    CatchUp,
    /// An EVENT that is only good to see.
    Latest,
}

const OPERATION_LANES: usize = 6;

/// What waits for a call over HTTP, in the order of its right of way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallLane {
    /// A durable job.
    Reply,
    /// Whether something was stored or answered before.
    LookUp,
    /// Which channels there are.
    Roster,
    /// Stored events.
    History,
    /// What is only good to see.
    Cosmetic,
}

const CALL_LANES: usize = 5;

/// One value per quota. A machine owns them and lends them to its parts; a part used alone keeps
/// its own.
#[derive(Clone, Debug)]
pub(crate) struct Quotas {
    /// REQ, COUNT and EVENT frames.
    pub(crate) operations: Operations,
    /// EVENT frames, which are charged to both.
    pub(crate) messages: Pace,
    /// Calls over HTTP.
    pub(crate) http: Http,
}

impl Quotas {
    /// Nothing was sent yet. At most `calls_max` calls over HTTP are under way.
    pub(crate) fn new(seed: Seed, calls_max: u32) -> Self {
        let minute = Duration::from_secs(60);
        let operations = Bucket::per_second(OPERATIONS_PER_SECOND, OPERATIONS_BURST);
        let messages = Bucket::new(MESSAGES_PER_MINUTE, minute, MESSAGES_BURST);
        let http = Bucket::per_second(HTTP_PER_SECOND, HTTP_BURST);
        // Labels of their own, so that gates that shut together open apart.
        Self {
            operations: Operations {
                pace: Pace::new(seed.derive(1), operations),
                lanes: Lanes::new(),
            },
            messages: Pace::new(seed.derive(2), messages),
            http: Http::new(Pace::new(seed.derive(3), http), calls_max),
        }
    }

    /// Ends a round of decisions: chooses who takes the next token of each quota in the next
    /// round. True when somebody was chosen. What bars the tokens arms the wake.
    pub(crate) fn choose(&mut self, now: &mut Now) -> bool {
        let Operations { pace, lanes } = &mut self.operations;
        let is_chosen = lanes.choose(|| pace.is_ready(now));
        self.http.choose(now) | is_chosen
    }
}

/// The quota of operations on the socket.
#[derive(Clone, Debug)]
pub(crate) struct Operations {
    pub(crate) pace: Pace,
    lanes: Lanes<OPERATION_LANES>,
}

impl Operations {
    /// So many wait on this lane, whether or not one of them could go.
    pub(crate) fn wait(&mut self, lane: OperationLane, count: u32) {
        self.lanes.wait(lane as usize, count);
    }

    /// Takes a token if it is the turn of this lane, on which something [waits](Self::wait); gives
    /// the stamp to keep with what is sent.
    pub(crate) fn start(&mut self, lane: OperationLane, now: &mut Now) -> Option<Generation> {
        if !self.lanes.ask(lane as usize) {
            return None;
        }
        let stamp = self.pace.start(now)?;
        self.lanes.take();
        Some(stamp)
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> u32 {
        self.lanes.waiting()
    }
}

/// One quota: a gate that refusals shut, and a bucket that keeps below the quota before being told.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    gate: Gate,
    bucket: Bucket,
}

impl Pace {
    fn new(seed: Seed, bucket: Bucket) -> Self {
        Self {
            gate: Gate::new(seed),
            bucket,
        }
    }

    /// Takes a token if the gate is open, and gives the stamp to keep with what is sent. A shut
    /// gate or an empty bucket arms the wake.
    pub(crate) fn start(&mut self, now: &mut Now) -> Option<Generation> {
        let ready = self.gate.is_open(now) && self.bucket.take(now, Why::Bucket);
        ready.then(|| self.gate.generation())
    }

    /// Whether a token could be taken now. A shut gate or an empty bucket arms the wake.
    pub(crate) fn is_ready(&mut self, now: &mut Now) -> bool {
        self.gate.is_open(now) && self.bucket.is_ready(now, Why::Bucket)
    }

    /// Whether nothing was refused lately; takes no token. A shut gate arms the wake.
    pub(crate) fn is_open(&mut self, now: &mut Now) -> bool {
        self.gate.is_open(now)
    }

    /// What was sent at the stamp `sent` was refused.
    pub(crate) fn refuse(
        &mut self,
        hint: Option<Duration>,
        sent: Generation,
        now: MonoTime,
    ) -> Refusal {
        self.gate.refuse(hint, sent, now)
    }

    /// What was sent at the stamp `sent` was accepted. Whether that tells something of the present:
    /// an answer that finds the gate shut belongs to the burst that shut it.
    pub(crate) fn succeed(&mut self, sent: Generation) -> bool {
        let counts = sent == self.generation() && self.gate.until().is_none();
        if counts {
            self.gate.succeed(sent);
        }
        counts
    }

    /// The stamp of what is sent now.
    pub(crate) const fn generation(&self) -> Generation {
        self.gate.generation()
    }

    /// Refusals in a row.
    pub(crate) const fn attempt(&self) -> u32 {
        self.gate.attempt()
    }

    /// How long the gate stays shut.
    pub(crate) fn wait(&self, now: MonoTime) -> Duration {
        self.gate
            .until()
            .map_or(Duration::ZERO, |until| until.saturating_since(now))
    }
}

/// The quota of HTTP calls, with a window of calls under way.
///
/// The window begins at its maximum. A failure sets it to one, every other answer adds one. After
/// each opening of the gate one call goes alone until it is answered. Only calls sent since the
/// last opening move the window: answers of an older burst say nothing about the present.
#[derive(Clone, Debug)]
pub(crate) struct Http {
    pace: Pace,
    lanes: Lanes<CALL_LANES>,
    calls_max: u32,
    window: u32,
    /// The generation whose calls `present` counts.
    seen: Generation,
    /// Calls under way, sent since the last opening.
    present: u32,
    /// Calls under way, sent before it.
    past: u32,
    /// Whether a call sent since the last opening was answered well.
    is_proven: bool,
}

impl Http {
    fn new(pace: Pace, calls_max: u32) -> Self {
        let calls_max = calls_max.max(1);
        Self {
            seen: pace.generation(),
            pace,
            lanes: Lanes::new(),
            calls_max,
            window: calls_max,
            present: 0,
            past: 0,
            is_proven: true,
        }
    }

    /// Whether a call may start beside those under way and `reserved` more; takes nothing. A shut
    /// gate or an empty bucket arms the wake.
    pub(crate) fn has_room(&mut self, reserved: u32, now: &mut Now) -> bool {
        // The gate comes first: a burst that is still under way must not keep it from opening.
        self.is_open(now) && self.has_place(reserved) && self.pace.bucket.is_ready(now, Why::Bucket)
    }

    fn choose(&mut self, now: &mut Now) -> bool {
        let mut lanes = core::mem::replace(&mut self.lanes, Lanes::new());
        let is_chosen = lanes.choose(|| self.has_room(0, now));
        self.lanes = lanes;
        is_chosen
    }

    /// So many wait on this lane for a call, whether or not one of them could go.
    pub(crate) fn wait(&mut self, lane: CallLane, count: u32) {
        self.lanes.wait(lane as usize, count);
    }

    /// Whether the next call is this lane's because it has waited longest.
    pub(crate) fn is_owed(&self, lane: CallLane) -> bool {
        self.lanes.is_owed(lane as usize)
    }

    /// Starts a call if it is the turn of this lane, on which something [waits](Self::wait); gives
    /// the stamp to keep with it. It ends by exactly one of [`succeed`](Self::succeed),
    /// [`fail`](Self::fail) and [`abandon`](Self::abandon).
    pub(crate) fn start(&mut self, lane: CallLane, now: &mut Now) -> Option<Generation> {
        let is_turn = self.lanes.ask(lane as usize);
        if !is_turn || !self.has_room(0, now) || !self.pace.bucket.take(now, Why::Bucket) {
            return None;
        }
        self.lanes.take();
        self.present = self.present.saturating_add(1);
        Some(self.seen)
    }

    /// What there is to say of a failure.
    pub(crate) fn throttled(
        &self,
        refusal: Refusal,
        hint: Option<Hint>,
        waiting: u32,
        now: MonoTime,
    ) -> Option<Note> {
        (refusal != Refusal::Known).then(|| Note::Throttled {
            quota: Quota::Http,
            source: hint.map(|hint| hint.source),
            capped: hint.is_some_and(|hint| hint.capped),
            wait: self.pace.wait(now),
            in_flight: self.in_flight(),
            waiting,
            attempt: self.pace.attempt(),
        })
    }

    /// The call was answered, and not by a failure that may pass.
    pub(crate) fn succeed(&mut self, sent: Generation) {
        self.release(sent);
        if self.pace.succeed(sent) {
            self.window = self.window.saturating_add(1).min(self.calls_max);
            self.is_proven = true;
        }
    }

    /// The call failed in a way that may pass, or had no answer: the gate shuts for everybody.
    pub(crate) fn fail(
        &mut self,
        hint: Option<Duration>,
        sent: Generation,
        now: MonoTime,
    ) -> Refusal {
        self.release(sent);
        if sent == self.seen {
            self.window = 1;
        }
        self.pace.refuse(hint, sent, now)
    }

    /// The call is given up without any knowledge of its answer.
    pub(crate) fn abandon(&mut self, sent: Generation) {
        self.release(sent);
    }

    /// Whether a call under way with this stamp is the one that goes alone after an opening.
    pub(crate) fn is_probe(&self, sent: Generation) -> bool {
        sent == self.seen && !self.is_proven
    }

    /// Calls that wait.
    pub(crate) fn waiting(&self) -> u32 {
        self.lanes.waiting()
    }

    /// Calls under way.
    pub(crate) const fn in_flight(&self) -> u32 {
        self.present.saturating_add(self.past)
    }

    fn is_open(&mut self, now: &mut Now) -> bool {
        let open = self.pace.is_open(now);
        if self.seen != self.pace.generation() {
            self.seen = self.pace.generation();
            self.past = self.in_flight();
            self.present = 0;
            self.is_proven = false;
        }
        open
    }

    fn has_place(&self, reserved: u32) -> bool {
        let window = if self.is_proven { self.window } else { 1 };
        self.present.saturating_add(reserved) < window
            && self.in_flight().saturating_add(reserved) < self.calls_max
    }

    /// How long no call is sent because of a refusal.
    pub(crate) fn shut_for(&self, now: MonoTime) -> Duration {
        self.pace.wait(now)
    }

    const fn release(&mut self, sent: Generation) {
        if sent.0 == self.seen.0 {
            self.present = self.present.saturating_sub(1);
        } else {
            self.past = self.past.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Now {
        Now::new(MonoTime::from_nanos(n * 1_000_000))
    }

    fn http() -> Http {
        Quotas::new(Seed(7), 4).http
    }

    /// Starts a call if there is room, for the only lane that waits.
    fn start(http: &mut Http, now: u64) -> Option<Generation> {
        let ask = |http: &mut Http| {
            http.wait(CallLane::Reply, 1);
            http.start(CallLane::Reply, &mut ms(now))
        };
        assert_eq!(ask(http), None);
        http.choose(&mut ms(now));
        ask(http)
    }

    #[test]
    fn four_calls_go_at_once_and_the_fifth_waits_for_an_answer() {
        let mut http = http();
        let sent: [_; 5] = core::array::from_fn(|_| start(&mut http, 0));
        assert_eq!(sent.iter().flatten().count(), 4);
        http.abandon(Generation(0));
        assert!(start(&mut http, 1).is_some());
    }

    #[test]
    fn after_an_opening_one_probe_goes_and_late_answers_do_not_move_the_window() {
        let mut http = http();
        for _ in 0..3 {
            let _: Option<Generation> = start(&mut http, 0);
        }
        let old = Generation(0);
        assert_eq!(
            http.fail(Some(Duration::from_secs(4)), old, ms(0).time()),
            Refusal::Counted
        );
        assert_eq!(start(&mut http, 4400), None);
        let probe = start(&mut http, 6000).expect("the gate is open");
        assert_eq!(start(&mut http, 6000), None);
        http.succeed(old);
        assert_eq!(start(&mut http, 6000), None);
        assert!(http.is_probe(probe));
        http.succeed(probe);
        assert_eq!(http.window, 2);
        assert!(start(&mut http, 6000).is_some() && start(&mut http, 6000).is_some());
        assert_eq!(start(&mut http, 6000), None);
        assert_eq!(http.in_flight(), 3);
    }

    #[test]
    fn a_shut_gate_takes_no_token() {
        let mut pace = Quotas::new(Seed(7), 4).messages;
        assert_eq!(
            pace.refuse(None, Generation(0), ms(0).time()),
            Refusal::Counted
        );
        for _ in 0..100 {
            assert_eq!(pace.start(&mut ms(1)), None);
        }
        let started = (0..100)
            .filter(|_| pace.start(&mut ms(10_000)).is_some())
            .count();
        assert_eq!(started, 10);
    }
}
