//! Whole machines, fed from bytes.

use std::time::Duration;

use buzz_proto::config::{Config, Consumer};
use buzz_proto::input::{Command, Input};
use buzz_proto::relay::Channels;
use buzz_proto::schedule::Policy;

use crate::chaos::{Dice, drive};
use crate::ledger::Ledger;
use crate::machine::{config, external, workers};
use crate::script::Script;

/// Bytes of the settings.
const SETTINGS: usize = 4;
/// What a machine is given for its end.
const GRACE: Duration = Duration::from_secs(40);
/// What may be needed beyond: a worker that was killed is given a few seconds.
const BEYOND: Duration = Duration::from_secs(30);

/// Four bytes choose the settings, the others what happens. Then the machine is told to end.
///
/// Every call is held to the contract of the machine and to the [`Ledger`]. At the end every job
/// that was handed over has its verdict, and the machine has ended in time.
pub fn machine(bytes: &[u8]) {
    let (settings, bytes) = bytes.split_at(bytes.len().min(SETTINGS));
    let config = chosen(&mut Dice::new(settings));
    let mut script = drive(crate::machine::machine(config.clone()), bytes);
    script.orders();
    let end = Input::Command(Command::Shutdown { grace: GRACE });
    script.input(end).orders();
    script.run_for(GRACE.saturating_add(BEYOND)).orders();
    let ledger = entered(&config, &script);
    if !ledger.has_ended() {
        script.fail("it has not ended in time");
    }
    if !ledger.unsettled().is_empty() {
        script.fail(&format!("jobs without a verdict: {:?}", ledger.unsettled()));
    }
}

/// The books of a whole run.
fn entered(config: &Config, script: &Script<buzz_proto::machine::Machine>) -> Ledger {
    let mut ledger = Ledger::new(config);
    for (at, input, actions) in script.calls() {
        if let Err(fault) = ledger.enter(at, &input, &actions) {
            script.fail(&format!("{at}: {fault}"));
        }
    }
    ledger
}

/// Settings with small limits as often as not, so that they are met.
fn chosen(dice: &mut Dice<'_>) -> Config {
    let how = dice.roll(u8::MAX);
    let has = |bit: u8| how & (1 << bit) != 0;
    let mut consumer = if has(0) { workers() } else { external() };
    if let Consumer::Workers(schedule) = &mut consumer {
        schedule.workers = u16::from(dice.roll(3)).saturating_add(1);
        schedule.policy = dice
            .pick(&[Policy::Thread, Policy::Channel])
            .unwrap_or(schedule.policy);
        if has(1) {
            schedule.limits.channel_max = 6;
            schedule.limits.total_max = 9;
        }
    }
    let mut config = config(consumer);
    config.seed = u64::from(dice.roll(u8::MAX));
    if has(2) {
        config.relay.channels = Channels::Roster;
    }
    config.relay.records = has(3).then(Vec::new);
    if has(4) {
        let limits = &mut config.relay.limits;
        limits.verify_max = 6;
        limits.outbound_max = 4;
        limits.subscriptions_max = 5;
        limits.live_page = 2;
        limits.page = 3;
    }
    if has(5) {
        config.publish.jobs_max = 8;
        config.publish.latest_max = 2;
    }
    config
}
