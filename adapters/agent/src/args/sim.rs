//! Arguments of `sim`.

use buzz_sim::scenario::fleet::Fleet;
use buzz_sim::scenario::hold::Hold;
use buzz_sim::scenario::overload::Overload;
use buzz_sim::scenario::storm::Storm;
use clap::builder::RangedI64ValueParser;
use clap::{Args as ClapArgs, Subcommand};

/// Plays a scenario in virtual time: the machine, a relay with real quotas, no network.
#[derive(Debug, ClapArgs)]
pub(crate) struct SimArgs {
    /// Without one, the scenarios are listed.
    #[command(subcommand)]
    pub(crate) scenario: Option<Scenario>,
}

impl SimArgs {
    pub(super) const fn is_json(&self) -> bool {
        match &self.scenario {
            Some(Scenario::Overload(args)) => args.json,
            Some(Scenario::Storm(args)) => args.json,
            Some(Scenario::Fleet(args)) => args.json,
            Some(Scenario::Hold(args)) => args.json,
            None => false,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Scenario {
    Overload(OverloadArgs),
    Storm(StormArgs),
    Fleet(FleetArgs),
    Hold(HoldArgs),
}

/// More mentions than there is room for, in one channel of many, again and again.
///
/// The exit code is 0 only if everything owed was delivered, once, without a gap; else it is 7.
#[derive(Debug, ClapArgs)]
pub(crate) struct OverloadArgs {
    /// Figures as one JSON object, the last line on stdout.
    #[arg(long)]
    pub(crate) json: bool,
    /// Where chance comes from: the same seed gives the same figures.
    #[arg(long, value_name = "NUMBER", default_value_t = Overload::default().seed)]
    pub(crate) seed: u64,
    /// Events that may be delivered and not taken.
    #[arg(long, value_name = "N", default_value_t = Overload::default().slots)]
    #[arg(value_parser = bounded(Overload::SLOTS))]
    pub(crate) slots: u32,
    /// Subscriptions: one for membership, one for each channel.
    #[arg(long, value_name = "N", default_value_t = Overload::default().subscriptions)]
    #[arg(value_parser = bounded(Overload::SUBSCRIPTIONS))]
    pub(crate) subscriptions: u32,
    /// How often it happens.
    #[arg(long, value_name = "N", default_value_t = Overload::default().rounds)]
    #[arg(value_parser = bounded(Overload::ROUNDS))]
    pub(crate) rounds: u32,
    /// Mentions in each round.
    #[arg(long, value_name = "N", default_value_t = Overload::default().events)]
    #[arg(value_parser = bounded(Overload::EVENTS))]
    pub(crate) events: u32,
}

/// A thousand posts at once, while the relay takes nothing for half a minute.
///
/// Measured is what the relay sees: how many calls it gets, whether one comes before the time that
/// an answer has named, how many are under way, and when the last post is stored. The exit code is 0
/// only if every post is stored once and these bounds are kept: no call before the time named, at
/// most 4 under way, at most 1.25 times the shortest time. It is 7 if a post was lost or stored
/// twice, 1 if another bound was missed.
#[derive(Debug, ClapArgs)]
pub(crate) struct StormArgs {
    /// Figures as one JSON object, the last line on stdout.
    #[arg(long)]
    pub(crate) json: bool,
    /// Where chance comes from: the same seed gives the same figures.
    #[arg(long, value_name = "NUMBER", default_value_t = Storm::default().seed)]
    pub(crate) seed: u64,
    /// Posts.
    #[arg(long, value_name = "N", default_value_t = Storm::default().jobs)]
    #[arg(value_parser = bounded(Storm::JOBS))]
    pub(crate) jobs: u32,
}

/// A thousand agents with much to publish, behind one quota.
///
/// There are two runs, of 100 posts each and a quota of 30 a minute for each agent, and of 5 posts
/// each and a tight quota: three tenths of a post. The exit code is 0 only if every post is stored
/// once and these bounds are kept: in one window of the quota an agent is refused at most 5 times,
/// and 1.5 times on average; the last post is stored within 1.25 times the shortest time; in the
/// first run less than 5 % of the calls are refused. It is 7 if a post was lost or stored twice, 1
/// if another bound was missed.
#[derive(Debug, ClapArgs)]
pub(crate) struct FleetArgs {
    /// Figures as one JSON object, the last line on stdout.
    #[arg(long)]
    pub(crate) json: bool,
    /// Where chance comes from: the same seed gives the same figures.
    #[arg(long, value_name = "NUMBER", default_value_t = Fleet::default().seed)]
    pub(crate) seed: u64,
    /// How many agents there are.
    #[arg(long, value_name = "N", default_value_t = Fleet::default().agents)]
    #[arg(value_parser = bounded(Fleet::AGENTS))]
    pub(crate) agents: u32,
}

/// More conversations than workers, which are slow, forget, fail and end.
///
/// A judge watches what the machine is told and what it orders, and looks into the relay's store.
/// The exit code is 0 only if every message that reached the agent is answered, or reported once,
/// and these bounds are kept: a conversation never waits beside a free worker, a thread at most 10 s
/// from when it first waited for the worker that knows it, and no session is gone on with that
/// another one has replaced. Else it is 7; it is 1 if anything else was not as the judge expects.
#[derive(Debug, ClapArgs)]
pub(crate) struct HoldArgs {
    /// Figures as one JSON object, the last line on stdout.
    #[arg(long)]
    pub(crate) json: bool,
    /// Where chance comes from: the same seed gives the same figures.
    #[arg(long, value_name = "NUMBER", default_value_t = Hold::default().seed)]
    pub(crate) seed: u64,
    /// Workers.
    #[arg(long, value_name = "N", default_value_t = Hold::default().workers)]
    #[arg(value_parser = bounded(Hold::WORKERS))]
    pub(crate) workers: u32,
}

fn bounded((least, greatest): (u32, u32)) -> RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(i64::from(least)..=i64::from(greatest))
}
