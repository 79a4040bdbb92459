//! The figures of the storm scenario, and the world behind them.

use buzz_dev_relay::rules::quota::{Limit, Quotas};
use buzz_proto::ids::JobId;
use buzz_proto::input::Input;
use buzz_proto::publish::{self, Body, Class, Route, Verdict};
use buzz_proto::wire::{Draft, MESSAGE};
use buzz_sim::scenario::ScenarioError;
use buzz_sim::scenario::storm::{Figures, Storm};
use buzz_sim::world::{START, World, channel, config};

use crate::support::{MINUTE, SOON, live};

#[test]
fn many_posts_cost_no_more_refusals_than_were_under_way_when_the_first_one_came() {
    let figures = play(120, 1);

    assert_eq!(figures.misses(), Vec::<String>::new());
    assert!(figures.is_whole());
    assert_eq!((figures.settled, figures.stored), (120, 120));
    assert_eq!((figures.refused, figures.in_flight_max), (4, 4));
    assert_eq!(figures.sent_before_hint, 0);
    assert!((1.0..=1.25).contains(&figures.drain_ratio), "{figures:?}");
}

#[test]
fn whatever_the_seed_every_post_is_stored_once_within_the_bounds() {
    for seed in 2..8 {
        let figures = play(12, seed);

        assert_eq!(figures.misses(), Vec::<String>::new(), "{figures:?}");
        assert!(figures.is_whole(), "{figures:?}");
    }
}

#[test]
fn the_same_settings_give_the_same_figures_and_another_seed_another_storm() {
    let first = play(8, 7);

    assert_eq!(first, play(8, 7));
    assert_ne!(first.digest, play(8, 8).digest);
}

#[test]
fn a_number_of_posts_outside_its_bounds_is_refused_by_name() {
    for jobs in [0, 2001] {
        let refused = Storm { seed: 1, jobs }.play(|_| {});

        let (name, bounds) = ("jobs", (1, 2000));
        assert_eq!(refused, Err(ScenarioError::Setting { name, bounds }));
    }
}

#[test]
fn a_world_writes_down_each_call_and_each_verdict_and_what_is_stored() {
    let mut world = live(config(16), 3);
    let earlier = world.calls().len();
    world.set_quotas(no_calls());
    world.feed(post(7));
    world.run_for(SOON);
    world.set_quotas(Quotas::default());
    assert_eq!(world.verdicts(), []);

    assert!(world.run_until(MINUTE, |world| !world.verdicts().is_empty()));

    let calls = &world.calls()[earlier..];
    let posts: Vec<_> = calls.iter().filter(|it| it.path == "/events").collect();
    let answers: Vec<_> = posts.iter().map(|it| (it.status, it.hint)).collect();
    assert_eq!(answers, [(429, Some(10)), (200, None)]);
    assert!(
        posts
            .iter()
            .all(|it| it.sent < it.arrived && it.arrived < it.answered)
    );
    let [(at, job, verdict)] = world.verdicts() else {
        panic!("one job has one verdict");
    };
    assert_eq!((*at, *job), (posts[1].answered, JobId(7)));
    assert_eq!(*verdict, Verdict::Stored);
    assert_eq!(stored(&world), ["a post"]);
}

fn play(jobs: u32, seed: u64) -> Figures {
    let storm = Storm { seed, jobs };
    storm.play(|_| {}).expect("it has figures")
}

/// Every call is refused, for ten seconds from the first one.
fn no_calls() -> Quotas {
    Quotas {
        api: Limit::new(0, MINUTE / 6),
        ..Quotas::default()
    }
}

fn post(job: u64) -> Input {
    let draft = Draft {
        kind: MESSAGE,
        created_at: START,
        tags: vec![vec!["h".to_owned(), channel(1).to_string()]],
        content: "a post".to_owned(),
    };
    Input::Publish(publish::Input::Command(publish::Command::Submit {
        job: JobId(job),
        class: Class::Durable,
        route: Route::Post,
        body: Body::SignWhenSent(draft),
        ttl: None,
    }))
}

/// The words of the messages that the relay stores.
fn stored(world: &World) -> Vec<String> {
    let filter = serde_json::json!({"kinds": [MESSAGE]});
    let filter = buzz_dev_relay::rules::filter::Filter::parse(&filter).expect("it is one");
    let events = world.store().matching(&filter);
    events.map(|filed| filed.event.content.clone()).collect()
}
