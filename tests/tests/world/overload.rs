//! The figures of the overload scenario.

use buzz_sim::scenario::ScenarioError;
use buzz_sim::scenario::overload::{Figures, Overload};

#[test]
fn what_finds_no_room_in_three_bursts_is_fetched_again_with_one_request_each() {
    let figures = play(Overload::default());

    assert_eq!(
        figures,
        Figures {
            scenario: "overload",
            seed: 1,
            subscriptions: 18,
            slots: 256,
            rounds: 3,
            lost: 3 * (320 - 256),
            history_requests: 3,
            requests_elsewhere: 0,
            audits: 0,
            owed: 3 * 320 + 17,
            delivered: 3 * 320 + 17,
            duplicates: 0,
            gaps: 0,
            virtual_seconds: figures.virtual_seconds,
            digest: figures.digest.clone(),
        }
    );
    assert!(figures.is_clean());
}

#[test]
fn whatever_the_seed_every_mention_is_delivered_once() {
    for seed in 2..6 {
        let figures = play(Overload {
            seed,
            subscriptions: 4,
            slots: 16,
            rounds: 2,
            events: 24,
        });

        assert_eq!((figures.lost, figures.owed), (2 * 8, 2 * 24 + 3));
        assert!(figures.is_clean(), "{figures:?}");
        assert!((2..=4).contains(&figures.history_requests), "{figures:?}");
        assert_eq!(figures.requests_elsewhere, 0, "{figures:?}");
    }
}

#[test]
fn where_everything_finds_room_nothing_is_lost_and_nothing_asked_for() {
    let figures = play(Overload {
        events: 256,
        rounds: 1,
        ..Overload::default()
    });

    assert!(figures.is_clean(), "{figures:?}");
    let counts = (figures.lost, figures.history_requests, figures.delivered);
    assert_eq!(counts, (0, 0, 256 + 17));
}

#[test]
fn the_same_settings_give_the_same_figures_and_another_seed_another_run() {
    let small = Overload {
        slots: 8,
        events: 12,
        rounds: 1,
        subscriptions: 3,
        seed: 7,
    };

    let first = play(small);

    assert_eq!(first, play(small));
    assert_ne!(first.digest, play(Overload { seed: 8, ..small }).digest);
}

#[test]
fn a_setting_outside_its_bounds_is_refused_by_name() {
    let refused = Overload {
        subscriptions: 1,
        ..Overload::default()
    }
    .play(|_| {});

    let expected = ScenarioError::Setting {
        name: "subscriptions",
        bounds: (2, 200),
    };
    assert_eq!(refused, Err(expected));
}

fn play(overload: Overload) -> Figures {
    overload.play(|_| {}).expect("it has figures")
}
