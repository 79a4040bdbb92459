//! The quotas of the relay, one value each: they outlive sockets and are lent to whoever sends.

use core::time::Duration;

use crate::bucket::Bucket;
use crate::gate::{Gate, Generation, Refusal};
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

/// One value per quota. A machine owns them and lends them to its parts; a part used alone keeps
/// its own.
#[derive(Clone, Debug)]
pub(crate) struct Quotas {
    /// REQ, COUNT and EVENT frames.
    pub(crate) operations: Pace,
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
            operations: Pace::new(seed.derive(1), operations),
            messages: Pace::new(seed.derive(2), messages),
            http: Http::new(Pace::new(seed.derive(3), http), calls_max),
        }
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

    /// What was sent at the stamp `sent` was accepted.
    pub(crate) fn succeed(&mut self, sent: Generation) {
        self.gate.succeed(sent);
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

    /// Starts a call if there is room, and gives the stamp to keep with it. It ends by exactly one
    /// of [`succeed`](Self::succeed), [`fail`](Self::fail) and [`abandon`](Self::abandon).
    pub(crate) fn start(&mut self, now: &mut Now) -> Option<Generation> {
        if !self.has_room(0, now) || !self.pace.bucket.take(now, Why::Bucket) {
            return None;
        }
        self.present = self.present.saturating_add(1);
        Some(self.seen)
    }

    /// The call was answered, and not by a failure that may pass.
    pub(crate) fn succeed(&mut self, sent: Generation) {
        self.release(sent);
        self.pace.succeed(sent);
        if sent == self.seen {
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

    /// Calls under way.
    pub(crate) const fn in_flight(&self) -> u32 {
        self.present.saturating_add(self.past)
    }

    /// Refusals in a row.
    pub(crate) const fn attempt(&self) -> u32 {
        self.pace.attempt()
    }

    /// How long the gate stays shut.
    pub(crate) fn wait(&self, now: MonoTime) -> Duration {
        self.pace.wait(now)
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

    #[test]
    fn four_calls_go_at_once_and_the_fifth_waits_for_an_answer() {
        let mut http = http();
        let sent: [_; 5] = core::array::from_fn(|_| http.start(&mut ms(0)));
        assert_eq!(sent.iter().flatten().count(), 4);
        http.abandon(Generation(0));
        assert!(http.start(&mut ms(1)).is_some());
    }

    #[test]
    fn after_an_opening_one_probe_goes_and_late_answers_do_not_move_the_window() {
        let mut http = http();
        for _ in 0..3 {
            let _: Option<Generation> = http.start(&mut ms(0));
        }
        let old = Generation(0);
        assert_eq!(
            http.fail(Some(Duration::from_secs(4)), old, ms(0).time()),
            Refusal::Counted
        );
        assert_eq!(http.start(&mut ms(4400)), None);
        let probe = http.start(&mut ms(6000)).expect("the gate is open");
        assert_eq!(http.start(&mut ms(6000)), None);
        http.succeed(old);
        assert_eq!(http.start(&mut ms(6000)), None);
        assert!(http.is_probe(probe));
        http.succeed(probe);
        assert_eq!(http.window, 2);
        assert!(http.start(&mut ms(6000)).is_some() && http.start(&mut ms(6000)).is_some());
        assert_eq!(http.start(&mut ms(6000)), None);
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
