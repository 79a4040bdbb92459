//! What the agent itself is said to have answered in an earlier life.

use std::time::Duration;

use buzz_proto::config::Consumer;
use buzz_proto::note::{Note, RefusedWhy};
use buzz_proto::relay::{Action, Config};
use buzz_proto::schedule;
use buzz_sim::bench::{Answer, Bench};
use buzz_sim::relay::given;
use buzz_sim::toy::{self, ME, Toy};

const SECOND: Duration = Duration::from_secs(1);

fn workers() -> Consumer {
    Consumer::Workers(Box::new(schedule::Config::new(1)))
}

/// A life that was cut short in the middle of an event, which is stored under 1, and a message of
/// the agent that answers it, under 20.
fn cut_short() -> Bench {
    let config = Config {
        records: Some(Vec::new()),
        ..given(&[1])
    };
    let mut bench = Bench::new(config, &workers());
    bench.connect();
    let present = bench.present();
    let event = bench.publish(1, 1, present);
    bench.start(event, event);
    bench.run_for(2 * SECOND);
    bench.store_answer(20, 1, present);
    bench
}

#[test]
fn a_forged_answer_of_the_agent_does_not_end_what_is_owed() {
    for has_query in [true, false] {
        let mut bench = cut_short();
        bench.has_query = has_query;
        let mut bench = bench.restart(&[1], &workers());
        bench.forged.insert(toy::id(20));
        bench.connect();
        bench.run_for(2 * SECOND);
        bench.expect_delivered([toy::id(1)]);
        let (event, why) = (toy::id(20), RefusedWhy::NotGenuine);
        assert!(bench.notes().contains(&Note::Refused { event, why }));
    }
}

#[test]
fn a_genuine_answer_of_the_agent_ends_what_it_answers() {
    for has_query in [true, false] {
        let mut bench = cut_short();
        bench.has_query = has_query;
        let mut bench = bench.restart(&[1], &workers());
        bench.connect();
        bench.run_for(2 * SECOND);
        bench.expect_delivered([]);
    }
}

#[test]
fn a_list_of_answers_without_end_is_read_no_further_and_asked_for_again_after_a_rest() {
    let mut bench = cut_short().restart(&[1], &workers());
    bench.page = Answer::Cut(0);
    bench.connect();
    let page = bench.pages().pop().expect("the answers are read").name;
    let close = format!(r#"["CLOSE","{page}"]"#);
    let is_closed = |bench: &Bench| {
        let mut history = bench.script.history();
        history.any(|it| matches!(it, Action::Send { text, .. } if *text == close.as_bytes()))
    };
    let present = bench.present();
    for n in 0..1300 {
        let answer = Toy::new(100 + n).author(ME).dated(present);
        let text = toy::event_frame(&page, &answer);
        bench.say(text);
        if is_closed(&bench) {
            assert_eq!(n, 200 + 1000);
            break;
        }
    }
    assert!(is_closed(&bench), "they are read for ever");
    bench.run_for(4 * SECOND);
    let asked = |bench: &mut Bench| {
        bench
            .pages()
            .into_iter()
            .filter(|it| it.name != "/query")
            .count()
    };
    assert_eq!(asked(&mut bench), 0);
    bench.run_for(2 * SECOND);
    assert_eq!(asked(&mut bench), 1);
}
