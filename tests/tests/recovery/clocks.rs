//! Authors whose clocks are wrong.

use std::time::Duration;

use buzz_sim::toy::{self, START};

use buzz_sim::bench::Bench;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

#[test]
fn a_slow_clock_and_a_date_ahead_lose_nothing_and_deafen_nothing() {
    for ahead in [15 * MINUTE, YEAR] {
        let mut bench = Bench::live(&[1], 256);
        bench.run_for(30 * MINUTE);
        let mut owed = Vec::new();
        for round in 0..3 {
            let first = 10 * round;
            let present = bench.present();
            owed.push(bench.publish(first, 1, present.before(14 * MINUTE)));
            owed.push(bench.publish(first + 1, 1, present.after(ahead)));
            owed.push(bench.publish(first + 2, 1, present));
            bench.disconnect();
            let present = bench.present();
            owed.push(bench.store(first + 3, 1, present.before(14 * MINUTE)));
            owed.push(bench.store(first + 4, 1, present));
            bench.script.run_for(SECOND);
            bench.reopen();
            bench.run_for(20 * MINUTE);
            bench.take_all();
            let live_since = bench
                .requests
                .iter()
                .rev()
                .find(|request| !request.is_page());
            let since = live_since.and_then(|request| request.filter.since);
            let latest = bench.present().before(14 * MINUTE);
            assert!(since.is_some_and(|since| since <= latest), "{since:?}");
        }
        bench.expect_delivered(owed);
    }
}

#[test]
fn an_event_with_an_old_date_that_found_no_room_is_recovered() {
    let mut bench = Bench::live(&[1], 1);
    bench.publish(1, 1, START);
    let old = START.before(14 * MINUTE);
    bench.publish(2, 1, old);
    bench.take(1);
    bench.expect_delivered([1, 2].map(toy::id));
}
