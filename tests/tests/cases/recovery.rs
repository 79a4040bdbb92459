//! Reports of lost events, and of what was done to get them back.

use std::time::Duration;

use buzz_proto::ids::Ticket;
use buzz_proto::note::{Note, ReadFailure};
use buzz_proto::relay::{Action, Command, Input, Sub, SubState};
use buzz_sim::bench::{Answer, Bench, Dial};
use buzz_sim::toy::{self, ME, START, Toy, channel};

use crate::player::{Case, ELSEWHERE, dated, live, new};
use crate::transcript::{
    asked, delivered_at, expect_delivered, frames, is_caught_up, pages, standings, told,
};

const A: u8 = 1;
const B: u8 = 2;
const SECOND: Duration = Duration::from_secs(1);

fn eighteen() -> Bench {
    live(&(1..=18).collect::<Vec<_>>(), 8)
}

/// Pages are asked for where something was lost, and when half of the queue is free.
fn only_where_lost_and_with_room(bench: &Bench, lost: &[u8]) {
    for request in bench.requests.iter().filter(|request| request.is_page()) {
        let place = request.channel();
        assert!(lost.contains(&place) || place == ELSEWHERE, "{request:?}");
        if request.held > 4 {
            bench.script.fail(&format!("{request:?}"));
        }
    }
}

#[test]
fn block_buzz_7325_a_full_queue_costs_one_request_once_half_of_it_is_free() {
    Case::new(eighteen)
        .feed(0, A, 1..=8)
        .at(1000, |bench| {
            bench.publish(100, A, dated(100));
        })
        .at(2000, |bench| {
            bench.publish(90, A, dated(90));
        })
        .at(3000, |bench| bench.take(2))
        .must(3000, |bench| assert!(pages(bench, A).is_empty()))
        .at(4000, |bench| bench.take(2))
        .must(4000, |bench| {
            let asked = pages(bench, A);
            assert_eq!(asked.len(), 1, "{asked:?}");
            assert_eq!(asked[0].at, bench.script.now());
            assert_eq!(asked[0].filter.ids.len(), 2);
            assert_eq!(asked[0].filter.since, Some(dated(90).before(5 * SECOND)));
            expect_delivered(bench, [90, 100]);
        })
        .never(|bench| only_where_lost_and_with_room(bench, &[A]))
        .finally(|bench| expect_delivered(bench, (1..=8).chain([90, 100])))
        .play();
}

#[test]
fn block_buzz_7325_a_request_that_did_not_leave_is_repeated_after_the_others() {
    Case::new(eighteen)
        .feed(0, A, 1..=8)
        .feed(1000, A, 20..=21)
        .feed(2500, B, 95..=95)
        .at(4000, |bench| {
            bench.writes_fail = true;
            bench.take(4);
            bench.writes_fail = false;
        })
        .must(8999, |bench| {
            assert_eq!(pages(bench, A).len(), 1);
            assert!(pages(bench, B).is_empty());
            assert_eq!(bench.script.part().view().lost, 3);
        })
        .must(9000, |bench| {
            let (first, other) = (pages(bench, A), pages(bench, B));
            assert_eq!((first.len(), other.len()), (1, 1));
            assert_eq!(other[0].at, first[0].at.after(5 * SECOND));
        })
        .at(10_000, |bench| bench.take(4))
        .must(10_000, |bench| assert_eq!(pages(bench, A).len(), 2))
        .never(|bench| only_where_lost_and_with_room(bench, &[A, B]))
        .never(failed_attempts_are_followed_by_rest)
        .finally(|bench| expect_delivered(bench, (1..=8).chain([20, 21, 95])))
        .play();
}

/// The rest is counted from the end of what failed; a new connection needs none.
fn failed_attempts_are_followed_by_rest(bench: &Bench) {
    let mut failed = None;
    for (at, input, actions) in bench.script.calls() {
        if matches!(input, Input::Closed { .. }) {
            failed = None;
        } else if matches!(input, Input::WriteFailed { .. }) {
            failed = Some(at);
        }
        for action in actions {
            let is_page = matches!(&action, Action::Send { text, .. }
                if text.starts_with(b"[\"REQ\",\"page-"));
            if is_page && let Some(failed) = failed {
                assert!(at.saturating_since(failed) >= 5 * SECOND);
            }
        }
    }
}

#[test]
fn block_buzz_7325_room_that_is_gone_when_the_gate_opens_was_no_room() {
    Case::new(eighteen)
        .feed(0, A, 1..=8)
        .feed(1000, A, 20..=21)
        .at(2000, |bench| {
            bench.say_of(B, |name| {
                toy::closed(name, "rate-limited: slow; retry in 20s")
            });
        })
        .at(3000, |bench| bench.take(4))
        .feed(4000, A, 30..=33)
        .must(30_000, |bench| assert!(pages(bench, A).is_empty()))
        .at(31_000, |bench| bench.take(4))
        .must(31_000, |bench| assert_eq!(pages(bench, A).len(), 1))
        .never(|bench| only_where_lost_and_with_room(bench, &[A]))
        .finally(|bench| expect_delivered(bench, (1..=8).chain([20, 21]).chain(30..=33)))
        .play();
}

#[test]
fn block_buzz_7325_nothing_is_read_again_of_a_channel_that_is_let_go_or_refused() {
    let endings: [fn(&mut Bench); 2] = [
        |bench| bench.unsubscribe(A),
        |bench| {
            let reason = "restricted: not a channel member";
            bench.history_of.insert(A, Answer::Closed(reason));
            bench.say_of(A, |name| toy::closed(name, reason));
        },
    ];
    for ending in endings {
        Case::new(eighteen)
            .feed(0, A, 1..=8)
            .feed(1000, A, 20..=21)
            .at(2000, ending)
            .at(4000, |bench| bench.take(8))
            .never(|bench| only_where_lost_and_with_room(bench, &[]))
            .play();
    }
}

#[test]
fn urbit_urbit_2678_requests_grow_with_the_room_and_not_with_the_losses() {
    let mut case = Case::new(|| live(&[A], 8)).feed(0, A, 1..=8);
    for n in 0..5 {
        case = case.feed(5000 * n, A, 20 + n..=20 + n);
    }
    case.must(30_000, |bench| assert!(pages(bench, A).is_empty()))
        .at(31_000, |bench| bench.take(5))
        .must(31_000, |bench| assert_eq!(pages(bench, A).len(), 1))
        .feed(32_000, A, 30..=30)
        .must(35_999, |bench| assert_eq!(pages(bench, A).len(), 1))
        .at(36_000, |bench| bench.take(4))
        .must(36_000, |bench| assert_eq!(pages(bench, A).len(), 2))
        .never(|bench| {
            only_where_lost_and_with_room(bench, &[A]);
            let room = bench.delivered.len() / 4;
            assert!(pages(bench, A).len() <= room, "{room}");
        })
        .finally(|bench| expect_delivered(bench, (1..=8).chain(20..=24).chain([30])))
        .play();
}

#[test]
fn marmot_protocol_mdk_1561_what_is_delivered_later_does_not_lift_the_cursor_over_a_loss() {
    let lost = START.before(800 * SECOND);
    Case::new(|| live(&[A], 8))
        .feed(0, A, 1..=8)
        .at(1000, move |bench| {
            bench.publish(50, A, lost);
        })
        .at(2000, |bench| bench.take(1))
        .at(3000, |bench| {
            bench.publish(200, A, dated(200));
        })
        .at(4000, |bench| bench.take(1))
        .at(5000, |bench| {
            bench.publish(300, A, dated(300));
        })
        .must(5000, |bench| expect_delivered(bench, [200, 300]))
        .at(2_000_000, Bench::disconnect)
        .at(4_000_000, Bench::disconnect)
        .must(4_005_000, |bench| assert_eq!(asked(bench, A).len(), 3))
        .never(move |bench| {
            let end = delivered_at(bench, toy::id(50)).unwrap_or_else(|| bench.script.now());
            for request in asked(bench, A).iter().filter(|request| request.at <= end) {
                assert!(request.filter.since <= Some(lost), "{request:?}");
            }
        })
        .finally(|bench| expect_delivered(bench, (1..=8).chain([50, 200, 300])))
        .play();
}

#[test]
fn marmot_protocol_mdk_1548_silence_in_a_read_is_a_failure_and_each_event_restarts_it() {
    let say = |n: u64| {
        move |bench: &mut Bench| {
            let event = Toy::mention(n, channel(A)).dated(dated(100));
            let page = pages(bench, A).pop();
            if let Some(page) = page {
                bench.say(toy::event_frame(&page.name, &event));
            }
        }
    };
    let is_silence = |note: &Note| {
        let why = ReadFailure::Silent;
        let sub = Sub::Channel(channel(A));
        *note == Note::ReadFailed { sub, why }
    };
    Case::new(|| {
        let mut bench = live(&[A], 4);
        bench.page = Answer::Cut(0);
        bench
    })
    .feed(0, A, 1..=4)
    .feed(1000, A, 20..=22)
    .at(2000, |bench| bench.take(3))
    .at(22_000, say(20))
    .at(42_000, say(21))
    .must(71_999, move |bench| {
        assert!(!told(bench, is_silence));
        assert_eq!(bench.script.part().view().lost, 3);
    })
    .must(72_000, move |bench| {
        assert!(told(bench, is_silence));
        expect_delivered(bench, [20, 21]);
        assert_eq!(bench.script.part().view().lost, 1);
    })
    .at(73_000, |bench| bench.page = Answer::Whole)
    .must(73_000, |bench| assert!(!told(bench, is_caught_up)))
    .never(|bench| assert!(!told(bench, |note| matches!(note, Note::Gap { .. }))))
    .finally(|bench| expect_delivered(bench, (1..=4).chain(20..=22)))
    .play();
}

#[test]
fn block_buzz_2199_a_rate_limit_outlives_the_socket_and_no_command_is_lost() {
    const DEPARTED: u8 = 20;
    const JOINED: u8 = 30;
    Case::new(|| {
        let mut bench = new(&(1..=20).collect::<Vec<_>>(), 256);
        bench
            .history_of
            .extend([(7, Answer::Cut(0)), (8, Answer::Cut(0))]);
        bench.attend(Dial::Succeeds);
        bench
    })
    .at(10, |bench| {
        bench.say(toy::notice("rate-limited: quota exceeded; retry in 4s"));
    })
    .at(1000, |bench| {
        bench.history_of.clear();
        let reason = "rate-limited: quota exceeded; retry in 9s";
        bench.say_of(8, |name| toy::closed(name, reason));
    })
    .at(1500, |bench| bench.subscribe(JOINED))
    .at(1500, |bench| bench.unsubscribe(DEPARTED))
    .at(2000, Bench::disconnect)
    .at(4000, |bench| {
        let event = Toy::new(77).author(ME).bytes();
        let ticket = Ticket(1 << 40);
        bench.script.command(Command::Send {
            ticket,
            durable: true,
            event,
        });
        bench.settle();
    })
    .must(4000, |bench| {
        assert!(bench.script.part().view().is_live, "AUTH is not counted");
    })
    .must(10_499, |bench| {
        assert_eq!(bench.requests.len(), 8, "nothing within the waits");
    })
    .must(16_000, |bench| {
        let sent: Vec<_> = frames(bench)
            .into_iter()
            .filter(|frame| frame.is_counted() && frame.conn == bench.script.conn())
            .collect();
        assert_eq!(sent[0].verb, "EVENT", "a reply goes before the channels");
        for place in (1..=19).chain([JOINED]) {
            assert!(bench.is_asked_for(place), "{place}");
        }
        assert_eq!(
            standings(bench, 8).last().map(|(_, state)| state.clone()),
            LIVE
        );
    })
    .never(|bench| assert_eq!(asked(bench, DEPARTED).len(), 0))
    .finally(|bench| {
        for place in (1..=19).chain([JOINED]) {
            let last = standings(bench, place).pop();
            assert_eq!(last.map(|(_, state)| state), LIVE, "{place}");
        }
    })
    .play();
}

const LIVE: Option<SubState> = Some(SubState::Live);

#[test]
fn block_buzz_3053_exactly_the_refused_requests_are_repeated_and_no_live_one_is_touched() {
    let mut case = Case::new(|| {
        let mut bench = new(&(1..=54).collect::<Vec<_>>(), 256);
        bench.history_of = (1..=9).map(|place| (place, Answer::Cut(0))).collect();
        bench.attend(Dial::Succeeds);
        bench
    })
    .must(20_000, |bench| assert_eq!(bench.requests.len(), 55))
    .at(20_000, |bench| bench.history_of.clear());
    for place in 1..=9 {
        case = case.at(20_001, move |bench| {
            let reason = "rate-limited: quota exceeded; retry in 4s";
            bench.say_of(place, |name| toy::closed(name, reason));
        });
    }
    case.must(24_500, |bench| assert_eq!(bench.requests.len(), 55))
        .must(40_000, |bench| {
            let mut again: Vec<_> = bench.requests[55..]
                .iter()
                .map(buzz_sim::bench::Request::channel)
                .collect();
            again.sort_unstable();
            assert_eq!(again, (1..=9).collect::<Vec<_>>());
            assert_eq!(bench.script.part().view().subscriptions_live, 55);
        })
        .never(|bench| {
            let is_of_live = |name: &str| {
                (10..=54).any(|place| name.starts_with(&format!("ch-{}", channel(place))))
            };
            let closed = frames(bench)
                .into_iter()
                .find(|frame| frame.verb == "CLOSE" && is_of_live(&frame.name));
            assert!(closed.is_none(), "{closed:?}");
            for place in 10..=54 {
                let mut conns: Vec<_> = asked(bench, place).iter().map(|one| one.conn).collect();
                let count = conns.len();
                conns.dedup();
                assert_eq!(conns.len(), count, "{place}");
            }
        })
        .finally(|bench| assert_eq!(bench.script.part().view().subscriptions_live, 55))
        .play();
}
