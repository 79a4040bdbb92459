//! Properties of the gate of a quota, against its rule written down as bounds.

use std::time::Duration;

use buzz_proto::gate::{Gate, Generation, Refusal};
use buzz_proto::seed::Seed;
use buzz_proto::time::{MonoTime, Now, Why};
use buzz_sim::script::ms;
use buzz_tests::check;
use quickcheck::Gen;

#[test]
fn a_gate_opens_within_the_bounds_of_the_latest_refusal() {
    fn property(seed: u64, script: Vec<GateStep>) -> bool {
        let mut gate = Gate::new(Seed(seed));
        let mut model = GateModel::default();
        let mut at = MonoTime::ZERO;
        script.into_iter().all(|step| {
            at = at.after(step.gap());
            let mut now = Now::new(at);
            if gate.is_open(&mut now) {
                model.open();
            }
            let fits = gate.until().is_none_or(|until| model.allows(until));
            let sent = step.sent(gate.generation());
            if step.accepted() {
                gate.succeed(sent);
                model.succeed(sent == gate.generation());
            } else {
                gate.refuse(step.hint(), sent, at);
                model.refuse(step.hint(), sent == gate.generation(), at);
            }
            fits && gate.attempt() == model.rung
                && gate.until().is_none_or(|until| model.allows(until))
                && gate.until().is_some() == model.bounds.is_some()
        })
    }
    check(3, property as fn(u64, Vec<GateStep>) -> bool);
}

#[test]
fn a_gate_asked_each_millisecond_opens_when_one_asked_at_its_wakes_does() {
    fn property(seed: u64, script: Vec<GateStep>) -> bool {
        let script = script.get(..script.len().min(12)).unwrap_or_default();
        openings(seed, script, true) == openings(seed, script, false)
    }
    check(4, property as fn(u64, Vec<GateStep>) -> bool);
}

#[test]
fn a_refused_burst_climbs_once_and_only_later_hints_lengthen() {
    let mut gate = Gate::new(Seed(9));
    let burst = gate.generation();
    assert_eq!(
        gate.refuse(Some(Duration::from_secs(4)), burst, ms(750)),
        Refusal::Counted
    );
    assert_eq!(gate.refuse(None, burst, ms(760)), Refusal::Known);
    assert_eq!(
        gate.refuse(Some(Duration::from_secs(9)), burst, ms(1000)),
        Refusal::Lengthened
    );
    assert_eq!(
        gate.refuse(Some(Duration::from_secs(1)), burst, ms(1500)),
        Refusal::Known
    );
    assert_eq!(gate.attempt(), 1);

    let until = gate.until().unwrap();
    assert!(ms(10_500) <= until && until <= ms(11_800));
    assert!(!gate.is_open(&mut Now::new(ms(10_499))));
    assert!(gate.is_open(&mut Now::new(until.round_up())));

    assert_eq!(gate.refuse(None, burst, ms(12_000)), Refusal::Known);
    assert!(gate.is_open(&mut Now::new(ms(12_000))));
    gate.succeed(burst);
    assert_eq!(gate.attempt(), 1);
    gate.succeed(gate.generation());
    assert_eq!(gate.attempt(), 0);
}

#[test]
fn a_late_hint_shuts_an_open_gate_without_a_climb() {
    let mut gate = Gate::new(Seed(9));
    let burst = gate.generation();
    gate.refuse(Some(Duration::from_secs(1)), burst, ms(0));
    assert!(gate.is_open(&mut Now::new(ms(3000))));
    assert_eq!(
        gate.refuse(Some(Duration::from_secs(30)), burst, ms(3000)),
        Refusal::Lengthened
    );
    assert!(!gate.is_open(&mut Now::new(ms(33_000))));
    assert_eq!(gate.attempt(), 1);
}

#[test]
fn a_shut_gate_arms_the_wake_and_an_absurd_hint_is_capped() {
    let mut gate = Gate::new(Seed(9));
    gate.refuse(Some(Duration::MAX), gate.generation(), ms(0));
    let mut now = Now::new(ms(1));
    assert!(!gate.is_open(&mut now));
    let (wake, why) = now.wake().unwrap();
    assert_eq!(why, Why::Gate);
    assert!(wake <= ms(360_000));
}

#[test]
fn gates_that_shut_together_open_evenly_over_the_whole_extra() {
    for (hint, low, high) in [
        (None, 5_500, 6_500),
        (Some(2), 2_500, 3_500),
        (Some(60), 60_500, 72_000),
    ] {
        let mut tenths = [0_u32; 10];
        for seed in 0..1_000 {
            let mut gate = Gate::new(Seed(seed));
            gate.refuse(hint.map(Duration::from_secs), gate.generation(), ms(0));
            let until = gate.until().unwrap();
            assert!(ms(low) <= until && until <= ms(high), "{until}");
            let place = until.saturating_since(ms(low)).as_millis() * 10;
            let tenth = place / u128::from(high - low);
            tenths[usize::try_from(tenth.min(9)).unwrap()] += 1;
        }
        // A hundred each, and five standard deviations.
        assert!(
            tenths.iter().all(|count| (50..=150).contains(count)),
            "{tenths:?}"
        );
    }
}

#[test]
fn a_gate_refused_again_and_again_draws_its_extra_anew() {
    let mut gate = Gate::new(Seed(9));
    let mut extras = std::collections::BTreeSet::new();
    let mut now = ms(0);
    for _ in 0..20 {
        gate.refuse(Some(Duration::from_secs(60)), gate.generation(), now);
        let until = gate.until().unwrap();
        extras.insert(until.saturating_since(now));
        now = until.round_up();
        assert!(gate.is_open(&mut Now::new(now)));
    }
    assert_eq!(extras.len(), 20);
}

// Support

/// Time passes, then a call sent so many openings ago is answered.
#[derive(Clone, Debug)]
struct GateStep {
    gap_millis: u16,
    hint_millis: Option<u32>,
    age: u8,
    answer: u8,
}

impl quickcheck::Arbitrary for GateStep {
    fn arbitrary(g: &mut Gen) -> Self {
        Self {
            gap_millis: u16::arbitrary(g) % 20_000,
            hint_millis: Option::<u32>::arbitrary(g).map(|n| n % [3000, 400_000][n as usize % 2]),
            age: u8::arbitrary(g),
            answer: u8::arbitrary(g),
        }
    }
}

impl GateStep {
    fn gap(&self) -> Duration {
        Duration::from_millis(u64::from(self.gap_millis))
    }

    fn hint(&self) -> Option<Duration> {
        self.hint_millis
            .map(|n| Duration::from_millis(u64::from(n)))
    }

    fn sent(&self, generation: Generation) -> Generation {
        Generation(generation.0.saturating_sub(u64::from(self.age % 3)))
    }

    fn accepted(&self) -> bool {
        self.answer.is_multiple_of(4)
    }
}

/// The gate's rule written down plainly: bounds of the opening instead of an instant.
#[derive(Default)]
struct GateModel {
    bounds: Option<(MonoTime, MonoTime)>,
    counted: bool,
    rung: u32,
}

impl GateModel {
    fn open(&mut self) {
        if self.bounds.take().is_some() {
            self.counted = false;
        }
    }

    fn refuse(&mut self, hint: Option<Duration>, current: bool, now: MonoTime) {
        let wait = if current && !self.counted {
            self.counted = true;
            let rung = Duration::from_secs(60.min(1 << self.rung.min(6)));
            self.rung += 1;
            hint.unwrap_or_else(|| Duration::from_secs(5)).max(rung)
        } else if let Some(hint) = hint {
            hint
        } else {
            return;
        };
        let wait = wait.min(Duration::from_secs(300));
        let low = now.after(wait + Duration::from_millis(500));
        let high = now.after(wait + (wait / 5).max(Duration::from_millis(1500)));
        let (low_before, high_before) = self.bounds.unwrap_or_default();
        self.bounds = Some((low.max(low_before), high.max(high_before)));
    }

    fn succeed(&mut self, current: bool) {
        if current {
            self.rung = 0;
        }
    }

    fn allows(&self, until: MonoTime) -> bool {
        self.bounds
            .is_some_and(|(low, high)| low <= until && until <= high)
    }
}

/// The instants at which a gate under `script` opens, asked each millisecond or only at its wakes.
fn openings(seed: u64, script: &[GateStep], each_milli: bool) -> Vec<MonoTime> {
    let mut gate = Gate::new(Seed(seed));
    let mut time = MonoTime::ZERO;
    let mut opened = Vec::new();
    for step in script {
        let end = time.after(step.gap());
        while time < end {
            let shut = gate.until().is_some();
            let mut now = Now::new(time);
            if gate.is_open(&mut now) && shut {
                opened.push(time);
            }
            let next = now.wake().map_or(end, |(wake, _)| wake.min(end));
            time = if each_milli {
                time.after(Duration::from_millis(1))
            } else {
                next
            };
        }
        let sent = step.sent(gate.generation());
        if step.accepted() {
            gate.succeed(sent);
        } else {
            gate.refuse(step.hint(), sent, time);
        }
    }
    opened
}
