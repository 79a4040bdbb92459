//! Workers that fail, each in its way: what becomes of the message that they were given.

use std::time::Duration;

use buzz_dev_relay::rules::Settings;
use buzz_proto::config::{Config, Consumer};
use buzz_proto::ids::EventId;
use buzz_proto::schedule::Policy;
use buzz_sim::world::crew::{Deed, Task};
use buzz_sim::world::judge::Verdict;
use buzz_sim::world::{OWNER, Person, World, channel, workers_config};

use crate::support::{MINUTE, SOON};

const DIRECT: u16 = 9;

#[test]
fn what_may_pass_is_answered_in_the_end() {
    for deed in [
        Deed::Answer,
        Deed::AnswerTwice,
        Deed::AnswerLate,
        Deed::Fail,
        Deed::Babble,
        Deed::Crash,
        Deed::Hang,
        Deed::Ignore,
        Deed::Refuse,
        Deed::Linger,
        Deed::Lose,
        Deed::Limit(None),
        Deed::Limit(Some(MINUTE)),
    ] {
        let verdict = after(&[deed], 7);

        assert_eq!(
            (verdict.accepted, verdict.answered),
            (1, 1),
            "{deed:?}: {verdict:?}"
        );
        assert_clean(&verdict);
    }
}

#[test]
fn what_cannot_be_answered_is_told_of() {
    for deeds in [
        &[Deed::SayNothing][..],
        &[Deed::NeedHuman],
        &[Deed::Crash; 3],
        &[Deed::Fail; 10],
    ] {
        let verdict = after(deeds, 8);

        assert_eq!(
            (verdict.accepted, verdict.notices),
            (1, 1),
            "{deeds:?}: {verdict:?}"
        );
        assert_clean(&verdict);
    }
}

#[test]
fn a_session_that_the_worker_has_forgotten_is_opened_anew() {
    let mut world = staffed(2, 9);
    let root = ask(&mut world, None);
    world.run_for(MINUTE);
    let more = ask(&mut world, Some(root));
    plan(&mut world, more, &[Deed::Forget]);
    world.run_for(MINUTE);

    let verdict = ended(world);

    assert_eq!((verdict.accepted, verdict.answered), (2, 2), "{verdict:?}");
    assert_eq!((verdict.turns, verdict.retries), (2, 0), "{verdict:?}");
    assert_clean(&verdict);
}

#[test]
fn a_direct_message_does_not_wait_for_a_busy_worker_and_a_thread_does() {
    let mut world = staffed(2, 11);
    let direct = world
        .publish(OWNER, channel(DIRECT), "hello", None)
        .expect("the relay takes it");
    world.run_for(MINUTE);
    let [first, second] = [(); 2].map(|()| ask(&mut world, None));
    world.run_for(MINUTE);
    // Both sit on the two workers; each is busy for minutes in turn, with one of them.
    for root in [first, second] {
        let long = ask(&mut world, Some(root));
        plan_for(&mut world, long, Deed::Answer, 3 * MINUTE);
        world.run_for(SOON);
        let more = world
            .publish(OWNER, channel(DIRECT), "and?", None)
            .expect("the relay takes it");
        assert_ne!(more, direct);
        world.run_for(5 * MINUTE);
    }

    let verdict = ended(world);

    assert_eq!((verdict.accepted, verdict.answered), (7, 7), "{verdict:?}");
    assert!(verdict.forks >= 1, "{verdict:?}");
    assert_clean(&verdict);
}

#[test]
fn where_a_channel_is_one_conversation_nobody_is_held() {
    let mut config = workers_config(2);
    if let Consumer::Workers(schedule) = &mut config.consumer {
        schedule.policy = Policy::Channel;
        schedule.cosmetics = true;
        schedule.marks = true;
    }
    let mut world = staffed_as(config, 14);
    for number in 0..12 {
        let asked = ask(&mut world, None);
        plan_for(&mut world, asked, Deed::Answer, 20 * SOON);
        let direct = world.publish(OWNER, channel(DIRECT), &format!("hello {number}"), None);
        plan_for(
            &mut world,
            direct.expect("it is new"),
            Deed::Answer,
            25 * SOON,
        );
        world.run_for(30 * SOON);
    }

    let verdict = ended(world);

    assert_eq!((verdict.accepted, verdict.holds), (24, 0), "{verdict:?}");
    assert_clean(&verdict);
}

#[test]
fn what_its_owner_cancels_is_discarded_whether_the_worker_hears_it_or_not() {
    for deed in [Deed::Answer, Deed::Ignore, Deed::Hang, Deed::Linger] {
        let mut world = staffed(2, 12);
        let root = ask(&mut world, None);
        plan_for(&mut world, root, deed, 3 * MINUTE);
        world.run_for(10 * SOON);
        world
            .command(channel(1), Some(root), "!cancel")
            .expect("the relay takes it");
        world.run_for(5 * MINUTE);

        let verdict = ended(world);

        assert_eq!(
            (verdict.accepted, verdict.discarded),
            (1, 1),
            "{deed:?}: {verdict:?}"
        );
        assert_clean(&verdict);
    }
}

#[test]
fn what_its_owner_stops_between_two_attempts_is_discarded() {
    for command in ["!cancel", "!rotate"] {
        let mut world = staffed(2, 15);
        let root = ask(&mut world, None);
        plan(&mut world, root, &[Deed::Fail; 3]);
        world.run_for(9 * SOON);
        let sent = world.command(channel(1), Some(root), command);
        sent.expect("the relay takes it");
        world.run_for(MINUTE);

        let verdict = ended(world);

        assert_eq!(
            (verdict.accepted, verdict.discarded),
            (1, 1),
            "{command}: {verdict:?}"
        );
        assert_eq!(
            (verdict.turns, verdict.retries),
            (1, 1),
            "{command}: {verdict:?}"
        );
        assert_clean(&verdict);
    }
}

#[test]
fn what_is_under_way_at_the_end_is_handed_back() {
    let mut world = staffed(2, 13);
    for _ in 0..3 {
        let asked = ask(&mut world, None);
        plan_for(&mut world, asked, Deed::Ignore, 5 * MINUTE);
    }
    world.run_for(10 * SOON);

    let verdict = ended(world);

    assert_eq!(
        (verdict.accepted, verdict.handed_back),
        (3, 3),
        "{verdict:?}"
    );
    assert_clean(&verdict);
}

/// Two rooms and a direct conversation, and workers that are up.
fn staffed(workers: u16, seed: u64) -> World {
    staffed_as(workers_config(workers), seed)
}

fn staffed_as(config: Config, seed: u64) -> World {
    let mut world = World::new(config, Settings::default(), seed).expect("the settings work");
    world.listen();
    world.open_channel(channel(1)).expect("it is new");
    world.open_direct(channel(DIRECT)).expect("it is new");
    assert!(world.run_until(MINUTE, |world| world.subscriptions() > 2));
    world.run_for(10 * SOON);
    world
}

/// One message whose first turns go like this; the verdict when all is over.
fn after(deeds: &[Deed], seed: u64) -> Verdict {
    let mut world = staffed(2, seed);
    let asked = ask(&mut world, None);
    plan(&mut world, asked, deeds);
    world.run_for(60 * MINUTE);
    ended(world)
}

fn ask(world: &mut World, root: Option<EventId>) -> EventId {
    let asked = match root {
        Some(root) => world.reply(Person(1), (channel(1), root), "and?"),
        None => {
            let words = format!("question {}", world.owed().len());
            world.publish(Person(1), channel(1), &words, None)
        }
    };
    asked.expect("the relay takes it")
}

fn plan(world: &mut World, event: EventId, deeds: &[Deed]) {
    for deed in deeds {
        plan_for(world, event, *deed, 5 * SOON);
    }
}

fn plan_for(world: &mut World, event: EventId, deed: Deed, takes: Duration) {
    world.assign(event, &[Task { deed, takes }]);
}

fn ended(mut world: World) -> Verdict {
    assert!(world.shut_down(20 * SOON));
    world.judge().expect("there are workers")
}

#[track_caller]
fn assert_clean(verdict: &Verdict) {
    assert_eq!(verdict.faults, Vec::<String>::new(), "{verdict:?}");
    assert_eq!(
        (verdict.lost, verdict.doubled, verdict.stale_resumes),
        (0, 0, 0)
    );
    assert_eq!(verdict.conversation_wait.as_millis(), 0);
    assert_eq!(verdict.ready_wait.as_millis(), 0);
    assert!(verdict.thread_wait.as_millis() <= 10_000);
}
