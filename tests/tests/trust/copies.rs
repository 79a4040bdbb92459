//! Forged copies of an event against the genuine one, in every order.

use std::time::Duration;

use buzz_proto::ids::Ticket;
use buzz_proto::note::Note;
use buzz_proto::relay::{Action, Relay};
use buzz_proto::wire::Event;
use buzz_sim::relay::given;
use buzz_sim::script::Script;
use buzz_sim::toy::{self, Toy};

use crate::support::{comes, deliver, forged, live, live_as, tickets, toy};

const SECOND: Duration = Duration::from_secs(1);

/// What happens with one of three copies, told apart by a number. Zero is the genuine one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Comes(usize),
    IsJudged(usize),
}

/// All orders in which three copies can come and be judged.
fn orders() -> Vec<Vec<Step>> {
    let mut all = vec![Vec::new()];
    for _ in 0..6 {
        let longer = all.iter().flat_map(|begun: &Vec<Step>| {
            (0..3).filter_map(|copy| {
                let step = if begun.contains(&Step::Comes(copy)) {
                    Step::IsJudged(copy)
                } else {
                    Step::Comes(copy)
                };
                (!begun.contains(&step)).then(|| [begun.as_slice(), &[step]].concat())
            })
        });
        all = longer.collect();
    }
    all
}

fn copies() -> [Toy; 3] {
    [toy(1), forged(1, "first lie"), forged(1, "second lie")]
}

fn gaps(notes: &[Note]) -> usize {
    notes
        .iter()
        .filter(|note| matches!(note, Note::Gap { .. }))
        .count()
}

#[test]
fn the_genuine_event_is_delivered_once_whatever_the_order_of_copies_and_verdicts() {
    let all = orders();
    assert_eq!(all.len(), 90);
    for order in all {
        let mut relay = live();
        let (copies, mut asked) = (copies(), [const { None::<Ticket> }; 3]);
        let mut found = Vec::new();
        for step in &order {
            match *step {
                Step::Comes(copy) => {
                    comes(&mut relay, &copies[copy]);
                    asked[copy] = tickets(&mut relay).first().map(|(ticket, _)| *ticket);
                }
                Step::IsJudged(copy) => {
                    let Some(ticket) = asked[copy] else { continue };
                    found.extend(relay.verified(ticket, copy == 0).orders());
                }
            }
        }
        found.extend(relay.orders());
        assert_eq!(found, [deliver(&copies[0])], "{order:?}");
        assert_eq!(relay.part().view().verifying, 0, "{order:?}");
    }
}

/// An event is known by its id and owed, because its verdict did not come in time; a page is asked
/// for. Gives the name of the page.
fn owed() -> (Script<Relay>, String) {
    let mut relay = live();
    comes(&mut relay, &toy(1));
    assert_eq!(tickets(&mut relay).len(), 1);
    relay.quiet_for(10 * SECOND).tick();
    relay.run_for(6 * SECOND);
    let asked = relay.requested();
    assert_eq!(asked.len(), 1, "one page");
    relay.written().notes();
    (relay, asked[0].clone())
}

/// Verdicts come, in this order. Gives what follows.
fn judged(relay: &mut Script<Relay>, asked: Vec<(Ticket, Event)>) -> Vec<Action> {
    let mut found = relay.orders();
    for (ticket, event) in asked {
        let genuine = event == toy(1).event();
        found.extend(relay.verified(ticket, genuine).orders());
    }
    found
}

/// A page brings these copies and its end. Gives what follows the verdicts.
fn page_brings(
    relay: &mut Script<Relay>,
    page: &str,
    copies: &[&Toy],
    backwards: bool,
) -> Vec<Action> {
    for copy in copies {
        relay.frame(toy::event_frame(page, copy));
    }
    relay.frame(toy::eose(page));
    let close = format!(r#"["CLOSE","{page}"]"#);
    assert_eq!(relay.take_sent(), [close]);
    let mut asked = tickets(relay);
    if backwards {
        asked.reverse();
    }
    judged(relay, asked)
}

#[test]
fn a_forged_copy_in_a_page_stands_in_the_way_of_no_genuine_one_in_it() {
    let [genuine, first, second] = copies();
    for copies in [
        [&genuine, &first, &second],
        [&first, &genuine, &second],
        [&first, &second, &genuine],
    ] {
        for backwards in [false, true] {
            let (mut relay, page) = owed();
            let found = page_brings(&mut relay, &page, &copies, backwards);
            assert_eq!(found, [deliver(&genuine)]);
            assert_eq!(gaps(&relay.notes()), 0, "it was delivered");
            assert_eq!(relay.part().view().lost, 0);
        }
    }
}

#[test]
fn a_forged_copy_in_a_page_stands_in_the_way_of_no_genuine_one_that_comes_live() {
    for live_first in [false, true] {
        let (mut relay, page) = owed();
        relay.frame(toy::event_frame(&page, &forged(1, "a lie")));
        let mut asked = Vec::new();
        if live_first {
            comes(&mut relay, &toy(1));
            asked.extend(tickets(&mut relay));
        }
        relay.frame(toy::eose(&page)).take_sent();
        asked.extend(tickets(&mut relay));
        if !live_first {
            comes(&mut relay, &toy(1));
            asked.extend(tickets(&mut relay));
        }
        assert_eq!(judged(&mut relay, asked), [deliver(&toy(1))]);
        assert_eq!(gaps(&relay.notes()), 0, "it was delivered");
        assert_eq!(relay.part().view().lost, 0);
    }
}

#[test]
fn a_forged_copy_that_comes_live_stands_in_the_way_of_no_page() {
    for copy_first in [false, true] {
        let (mut relay, page) = owed();
        let mut asked = Vec::new();
        if copy_first {
            comes(&mut relay, &forged(1, "a lie"));
            asked.extend(tickets(&mut relay));
        }
        relay.frame(toy::event_frame(&page, &toy(1)));
        relay.frame(toy::eose(&page)).take_sent();
        asked.extend(tickets(&mut relay));
        if !copy_first {
            comes(&mut relay, &forged(1, "a lie"));
            asked.extend(tickets(&mut relay));
        }
        assert_eq!(judged(&mut relay, asked), [deliver(&toy(1))]);
        assert_eq!(relay.part().view().lost, 0);
    }
}

#[test]
fn a_page_that_brings_copies_without_end_is_ended_and_what_it_was_to_bring_is_told_as_a_gap() {
    let (mut relay, page) = owed();
    let close = format!(r#"["CLOSE","{page}"]"#);
    let mut asked = Vec::new();
    let mut count = 0;
    while relay.take_sent() != [close.as_str()] {
        assert!(count < 1100, "it is read for ever");
        let copy = forged(1, &format!("lie {count}"));
        relay.frame(toy::event_frame(&page, &copy));
        asked.extend(tickets(&mut relay));
        count += 1;
    }
    assert!(count > 1000);
    assert_eq!(judged(&mut relay, asked), []);
    assert_eq!(gaps(&relay.notes()), 1);
    assert_eq!(relay.part().view().lost, 0);
}

/// Forged copies leave no room for another verification: by number, then by size.
#[test]
fn copies_that_fill_the_table_of_verdicts_put_the_genuine_event_off_and_no_more() {
    let large = "x".repeat(64 << 10);
    for (words, count) in [("", 1024), (large.as_str(), 254)] {
        let mut relay = live();
        let genuine = toy(1).content(&format!("the truth {words}"));
        let mut asked = Vec::new();
        for n in 0..count {
            comes(&mut relay, &forged(1, &format!("lie {n} {words}")));
            asked.extend(tickets(&mut relay));
        }
        assert_eq!(asked.len(), count);
        comes(&mut relay, &genuine);
        let page = relay.requested();
        assert_eq!(page.len(), 1, "what found no room is read");
        for n in 0..100 {
            comes(&mut relay, &forged(1, &format!("another {n} {words}")));
            relay.expect([]);
        }
        assert_eq!(relay.part().view().verifying, count);
        for (ticket, _) in asked {
            relay.verified(ticket, false).expect([]);
        }
        assert_eq!(relay.part().view().verifying, 0);
        relay.page(&page[0], &[&genuine]);
        // What else may have found no room is read after it.
        let mut found = relay.orders();
        found.retain(|order| !matches!(order, Action::Send { .. }));
        assert_eq!(found, [deliver(&genuine)]);
    }
}

#[test]
fn copies_whose_verdicts_never_come_make_room_after_their_limit() {
    let mut config = given(&[1]);
    config.limits.verify_max = 4;
    let mut relay = live_as(config);
    for n in 0..4 {
        comes(&mut relay, &forged(1, &format!("lie {n}")));
        assert_eq!(tickets(&mut relay).len(), 1);
    }
    comes(&mut relay, &toy(1));
    let page = relay.requested();
    relay.written().quiet_for(10 * SECOND).tick();
    assert_eq!(relay.part().view().verifying, 0);
    relay.expect([]);
    relay.page(&page[0], &[&toy(1)]);
    relay.expect([deliver(&toy(1))]);
    assert!(
        !relay
            .history()
            .any(|order| matches!(order, Action::Close { .. }))
    );
}
