//! Everything that can go wrong, in an order from a seed.

use buzz_sim::scenario::chaos::Chaos;

#[test]
fn whatever_goes_wrong_all_that_is_owed_arrives_once() {
    for seed in 1..=20 {
        let chaos = Chaos { seed, troubles: 45 };
        let figures = chaos.play().expect("it has figures");

        assert!(figures.is_clean(), "{figures:?}");
        assert!(figures.owed > 20, "{figures:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_chaos() {
    let play = |seed| {
        let chaos = Chaos { seed, troubles: 20 };
        chaos.play().expect("it has figures")
    };

    let first = play(3);

    assert_eq!(first, play(3));
    assert_ne!(first.digest, play(4).digest);
}
