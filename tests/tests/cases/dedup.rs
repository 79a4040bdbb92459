//! Reports of events that came twice, or that a cursor passed over.

use std::time::Duration;

use buzz_proto::config::Consumer;
use buzz_proto::note::{Note, StaleWhat};
use buzz_proto::relay::{Command, Disposal, Interest, Sub, SubState};
use buzz_sim::bench::{Answer, Bench, Dial};
use buzz_sim::toy::{self, START, Toy, channel};

use crate::player::{Case, ELSEWHERE, dated, live, live_with, new, settings};
use crate::transcript::{asked, delivered_at, expect_delivered, frames, standings, told};

const A: u8 = 1;
const SECOND: Duration = Duration::from_secs(1);
const SLOTS: Consumer = Consumer::External { slots: 256 };

/// A live connection, and records that are kept.
fn recorded() -> Bench {
    let mut config = settings(&[A]);
    config.records = Some(Vec::new());
    live_with(config, 256)
}

/// The process is killed and begins anew; what it has recorded must not come again.
fn restart(bench: &mut Bench) {
    let done = bench.records.values().flat_map(|record| &record.done);
    let done = done.map(|done| done.event).collect();
    bench.revive(&[A, ELSEWHERE], &SLOTS);
    bench.forbidden = done;
}

#[test]
fn block_buzz_6968_an_event_is_delivered_once_however_often_the_connection_is_lost() {
    Case::new(|| live(&[A], 256))
        .feed(0, A, 1..=1)
        .at(1000, |bench| bench.dispose(toy::id(1), Disposal::Accepted))
        .at(2000, Bench::disconnect)
        .at(10_000, |bench| {
            let event = Toy::mention(1, channel(A)).dated(dated(100));
            bench.say_of(A, |name| toy::event_frame(name, &event));
        })
        .at(20_000, Bench::disconnect)
        .finally(|bench| expect_delivered(bench, [1]))
        .play();
}

#[test]
fn block_buzz_6968_an_event_that_was_done_is_not_delivered_in_the_next_life() {
    Case::new(recorded)
        .feed(0, A, 1..=2)
        .at(1000, |bench| bench.dispose(toy::id(1), Disposal::Accepted))
        .at(5000, restart)
        .must(6000, |bench| {
            assert_eq!(bench.delivered, [toy::id(2)]);
        })
        .at(10_000, restart)
        .finally(|bench| {
            assert!(bench.forbidden.contains(&toy::id(1)));
            expect_delivered(bench, [2]);
        })
        .play();
}

#[test]
fn bytedance_deer_flow_4888_what_a_replay_can_bring_is_remembered_for_as_long() {
    let mut case = Case::new(|| live(&[A], 256)).feed(0, A, 1..=3);
    for minutes in [11, 22, 60, 180] {
        case = case.at(minutes * 60_000, |bench| {
            bench.disconnect();
            bench.run_for(5 * SECOND);
            let event = Toy::mention(1, channel(A)).dated(dated(100));
            bench.say_of(A, |name| toy::event_frame(name, &event));
        });
    }
    case.finally(|bench| expect_delivered(bench, 1..=3)).play();
}

#[test]
fn openclaw_openclaw_66760_the_record_stops_at_the_first_event_without_an_outcome() {
    let (first, second) = (dated(4000), dated(4100));
    Case::new(|| {
        let mut bench = recorded();
        bench.run_for(4000 * SECOND);
        bench
    })
    .at(0, move |bench| {
        bench.publish(1, A, first);
    })
    .at(0, move |bench| {
        bench.publish(2, A, second);
    })
    .at(1000, |bench| bench.dispose(toy::id(2), Disposal::Accepted))
    .at(2000, Bench::disconnect)
    .at(2_000_000, Bench::disconnect)
    .must(2_010_000, move |bench| {
        let record = &bench.records[&Sub::Channel(channel(A))];
        assert!(record.settled <= first, "{record:?}");
        let done: Vec<_> = record.done.iter().map(|done| done.event).collect();
        assert_eq!(done, [toy::id(2)]);
    })
    .at(2_020_000, restart)
    .must(2_030_000, |bench| assert_eq!(bench.delivered, [toy::id(1)]))
    .finally(|bench| {
        expect_delivered(bench, [1]);
        assert!(bench.forbidden.contains(&toy::id(2)));
    })
    .play();
}

#[test]
fn nousresearch_hermes_agent_90464_only_what_precedes_the_start_is_old() {
    Case::new(|| {
        let mut bench = new(&[A], 256);
        bench.store(1, A, START.after(SECOND));
        bench.store(2, A, START.before(10 * SECOND));
        bench.attend(Dial::IsLost);
        bench
    })
    .at(5000, Bench::open)
    .must(5000, |bench| assert_eq!(bench.delivered, [toy::id(1)]))
    .never(|bench| assert_eq!(delivered_at(bench, toy::id(2)), None))
    .finally(|bench| expect_delivered(bench, [1]))
    .play();
}

#[test]
fn block_buzz_6319_frames_of_a_request_that_was_given_up_change_nothing() {
    let old_names = |bench: &Bench| -> Vec<String> {
        let mut names: Vec<_> = asked(bench, A).into_iter().map(|one| one.name).collect();
        names.pop();
        names
    };
    let late = |frame: fn(&str) -> bytes::Bytes| {
        move |bench: &mut Bench| {
            for name in old_names(bench) {
                bench.say(frame(&name));
            }
        }
    };
    let event = |name: &str| {
        let event = Toy::mention(9, channel(A)).dated(dated(900));
        toy::event_frame(name, &event)
    };
    Case::new(|| live(&[A], 256))
        .feed(0, A, 1..=1)
        .at(1000, |bench| {
            bench.unsubscribe(A);
            bench.subscribe(A);
        })
        .at(2000, late(event))
        .at(2000, late(toy::eose))
        .at(2000, late(|name| toy::closed(name, "error: shutting down")))
        .at(2000, |bench| {
            let event = Toy::mention(10, channel(A)).dated(dated(900));
            bench.say(toy::event_frame("unknown", &event));
        })
        .must(2000, |bench| {
            let last = standings(bench, A).pop().map(|(_, state)| state);
            assert_eq!(last, Some(SubState::Live));
            let what = StaleWhat::Subscription;
            assert!(told(bench, |note| *note == Note::Stale { what }));
        })
        .must(31_000, move |bench| {
            let name = &old_names(bench)[0];
            let ends = frames(bench)
                .into_iter()
                .filter(|frame| frame.verb == "CLOSE" && frame.name == *name);
            assert_eq!(ends.count(), 2, "the first may have overtaken its request");
        })
        .at(40_000, Bench::disconnect)
        .must(45_000, |bench| {
            let last = asked(bench, A).pop().expect("a request");
            assert!(last.filter.since <= Some(dated(100)));
        })
        .never(|bench| {
            assert_eq!(delivered_at(bench, toy::id(9)), None);
            assert_eq!(delivered_at(bench, toy::id(10)), None);
        })
        .finally(|bench| expect_delivered(bench, [1]))
        .play();
}

#[test]
fn nostr_protocol_nips_2079_a_changed_wish_has_a_name_of_its_own() {
    Case::new(|| live(&[A], 256))
        .at(0, |bench| {
            bench.history_of.insert(A, Answer::Cut(0));
            let mut interest = Interest::default();
            interest.kinds.push(9);
            bench.script.command(Command::Subscribe {
                channel: channel(A),
                interest: Some(interest),
                floor: None,
            });
            bench.settle();
        })
        .must(0, |bench| {
            let names: Vec<_> = asked(bench, A).into_iter().map(|one| one.name).collect();
            assert_eq!(names.len(), 2);
            assert_ne!(names[0], names[1]);
            let closed = frames(bench).into_iter().find(|one| one.verb == "CLOSE");
            assert_eq!(closed.map(|one| one.name), Some(names[0].clone()));
        })
        .at(1000, |bench| {
            let old = asked(bench, A).swap_remove(0);
            bench.say(toy::eose(&old.name));
        })
        .must(1000, |bench| {
            assert_eq!(bench.script.part().view().subscriptions_live, 1);
        })
        .at(2000, |bench| bench.say_of(A, toy::eose))
        .must(2000, |bench| {
            assert_eq!(bench.script.part().view().subscriptions_live, 2);
        })
        .play();
}
