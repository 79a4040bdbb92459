//! The figures of the fleet scenario, and the fleet behind them.

use std::time::Duration;

use buzz_sim::fleet::{Fleet as Agents, Settings};
use buzz_sim::scenario::ScenarioError;
use buzz_sim::scenario::fleet::{Figures, Fleet};

use crate::support::MINUTE;

/// Every agent is live.
const START: Duration = Duration::from_secs(10);

#[test]
fn forty_agents_behind_one_quota_drain_it_almost_without_a_refusal() {
    let figures = play(40, 1);

    assert_eq!(figures.misses(), Vec::<String>::new());
    assert!(figures.is_whole());
    let wide = &figures.wide;
    assert_eq!((wide.quota, wide.window_s, wide.jobs), (1200, 60, 4000));
    assert!(wide.refused > 0 && wide.refused_share < 0.05, "{wide:?}");
    assert_eq!(wide.requests, wide.jobs + wide.refused);
    assert!(wide.fairness < 2.0, "{wide:?}");
    let tight = &figures.tight;
    assert_eq!((tight.quota, tight.window_s, tight.jobs), (12, 60, 200));
    assert!(tight.refused_max <= 5, "{tight:?}");
}

#[test]
fn whatever_the_seed_a_fleet_keeps_the_bounds() {
    for seed in 2..5 {
        let figures = play(30, seed);

        assert_eq!(figures.misses(), Vec::<String>::new(), "{figures:?}");
        assert!(figures.is_whole(), "{figures:?}");
    }
}

#[test]
fn however_few_agents_there_are_every_post_is_stored_once() {
    for agents in [1, 2, 5] {
        let figures = play(agents, 1);

        assert!(figures.is_whole(), "{figures:?}");
        assert!(figures.wide.refused_max <= 5, "{figures:?}");
        assert!(figures.tight.refused_max <= 5, "{figures:?}");
    }
}

#[test]
fn the_same_settings_give_the_same_figures_and_another_seed_another_fleet() {
    let first = play(3, 7);

    assert_eq!(first, play(3, 7));
    assert_ne!(first.wide.digest, play(3, 8).wide.digest);
}

#[test]
fn a_number_of_agents_outside_its_bounds_is_refused_by_name() {
    for agents in [0, 20_001] {
        let refused = Fleet { seed: 1, agents }.play(|_| {});

        let (name, bounds) = ("agents", (1, 20_000));
        assert_eq!(refused, Err(ScenarioError::Setting { name, bounds }));
    }
}

#[test]
fn a_quota_with_room_for_everything_refuses_nothing_and_every_agent_has_its_verdicts() {
    let mut agents = submitted(5, 6, 1000);

    agents.run_for(MINUTE);

    let tally = agents.tally();
    assert_eq!((tally.requests, tally.refused, tally.stored), (30, 0, 30));
    assert_eq!((tally.windows, tally.agent_windows), (1, 5));
    assert!(agents.accounts().all(|it| (it.stored, it.wrong) == (6, 0)));
}

#[test]
fn agents_that_are_refused_are_silent_until_the_window_is_over() {
    let mut agents = submitted(5, 6, 2);
    agents.run_for(Duration::from_secs(1));
    let early = *agents.tally();

    agents.run_for(Duration::from_secs(57));

    let late = *agents.tally();
    assert_eq!((early.windows, early.stored), (1, 2));
    assert!(early.refused >= 5, "{early:?}");
    assert_eq!(late.refused, early.refused);
    agents.run_for(MINUTE / 2);
    assert_eq!(agents.tally().windows, 2);
    assert_eq!(agents.tally().stored, 4);
}

#[test]
fn the_connections_of_a_fleet_stay_through_hours_of_silence() {
    let mut agents = fleet(3, 0, 30);

    agents.run_for(120 * MINUTE);

    assert_eq!(agents.live(), 3);
}

fn play(agents: u32, seed: u64) -> Figures {
    let fleet = Fleet { seed, agents };
    fleet.play(|_| {}).expect("it has figures")
}

fn fleet(agents: u32, jobs_each: u32, quota: u32) -> Agents {
    let mut agents = Agents::new(&Settings {
        seed: 1,
        agents,
        jobs_each,
        quota,
        window: MINUTE,
    })
    .expect("the settings work");
    agents.run_for(START);
    agents
}

/// The same with all agents live and their posts handed over.
fn submitted(agents: u32, jobs_each: u32, quota: u32) -> Agents {
    let mut fleet = fleet(agents, jobs_each, quota);
    let wanted = usize::try_from(agents).expect("it is small");
    assert_eq!(fleet.live(), wanted);
    fleet.submit();
    fleet
}
