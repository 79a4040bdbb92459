//! The figures of the hold scenario.

use buzz_sim::scenario::ScenarioError;
use buzz_sim::scenario::hold::{Figures, Hold};

#[test]
fn whatever_the_seed_everything_has_one_end_and_nobody_waits_too_long() {
    for seed in [2, 3] {
        let figures = play(seed, 4);

        assert_eq!(figures.misses(), Vec::<String>::new(), "{figures:?}");
        assert!(figures.is_whole(), "{figures:?}");
        assert!(
            figures.accepted >= 200 && figures.forks >= 20,
            "{figures:?}"
        );
        assert!(
            figures.discarded > 0 && figures.handed_back > 0,
            "{figures:?}"
        );
        assert!(figures.notices > 0 && figures.retries > 0, "{figures:?}");
        let ended = figures.answered + figures.reported;
        assert_eq!(ended, figures.accepted, "{figures:?}");
    }
}

#[test]
fn where_workers_are_idle_a_thread_waits_as_long_as_it_may_and_no_longer() {
    let figures = play(4, 8);

    assert_eq!(figures.misses(), Vec::<String>::new(), "{figures:?}");
    assert_eq!(figures.thread_wait_ms_max, 10_000, "{figures:?}");
}

#[test]
fn the_same_settings_give_the_same_figures_and_another_seed_another_hold() {
    let first = play(5, 2);

    assert_eq!(first, play(5, 2));
    assert_ne!(first.digest, play(6, 2).digest);
}

#[test]
fn a_number_of_workers_outside_its_bounds_is_refused_by_name() {
    for workers in [1, 13] {
        let refused = Hold { seed: 1, workers }.play(|_| {});

        let (name, bounds) = ("workers", (2, 12));
        assert_eq!(refused, Err(ScenarioError::Setting { name, bounds }));
    }
}

fn play(seed: u64, workers: u32) -> Figures {
    let hold = Hold { seed, workers };
    hold.play(|_| {}).expect("it has figures")
}
