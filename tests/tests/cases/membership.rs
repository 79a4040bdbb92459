//! Channels that are joined and left while the agent runs, and rosters that fail.

use buzz_proto::note::Note;
use buzz_proto::relay::{Action, Sub, SubState};
use buzz_sim::toy::{self, START, Toy, channel};

use crate::house::{House, Roster};
use crate::player::{Case, Stage as _, dated};
use crate::transcript::when;

const A: u8 = 1;
const B: u8 = 2;
const C: u8 = 3;

fn never_closed(house: &House) {
    assert!(when(house, |action| matches!(action, Action::Close { .. })).is_empty());
}

fn added(n: u64, place: u8, second: u64) -> Toy {
    Toy::notice(n, 44_100, channel(place)).dated(dated(second))
}

fn removed(n: u64, place: u8, second: u64) -> Toy {
    Toy::notice(n, 44_101, channel(place)).dated(dated(second))
}

#[test]
fn block_buzz_5555_a_notice_that_was_lost_is_made_good_by_the_next_sweep() {
    Case::new(|| House::new().begin())
        // The notice of 12 s never comes; the next sweep names the channel.
        .at(60_000, |house| {
            house.rosters = [Roster::Names(&[C])].into();
        })
        .must(180_000, |house| {
            let asked = house.asked_for(C);
            assert_eq!(asked.len(), 1);
            assert!(asked[0].since() <= Some(START));
        })
        .at(181_000, |house| house.notify(&added(9, C, 12)))
        .must(181_000, |house| assert_eq!(house.asked_for(C).len(), 1))
        .finally(|house| assert!(house.is_live(C)))
        .play();
}

#[test]
fn block_buzz_5555_removed_and_added_within_a_second_ends_subscribed_once() {
    Case::new(|| House::in_channels(&[C]))
        .at(5000, |house| house.notify(&removed(8, C, 5)))
        .at(6000, |house| house.notify(&added(9, C, 6)))
        .must(6000, |house| assert!(house.is_live(C)))
        .finally(|house| assert!(house.is_live(C)))
        .play();
}

#[test]
fn block_buzz_6661_one_partial_answer_and_an_error_remove_nothing_and_two_complete_ones_do() {
    Case::new(|| {
        let mut house = House::new();
        house.rosters = [
            Roster::Names(&[A, B]),
            Roster::Names(&[A]),
            Roster::Fails(500),
            Roster::Names(&[A]),
        ]
        .into();
        house.begin()
    })
    .at(1000, |_| {})
    // The error is no information: it neither counts nor takes back what the sweep before it said.
    .never(|house| assert!(house.left_at(B).iter().all(|sweep| *sweep >= 4)))
    .never(|house| assert_eq!(house.left_at(A), Vec::<usize>::new()))
    .finally(|house| assert_eq!(house.left_at(B).len(), 1))
    .play();
}

#[test]
fn block_buzz_6661_a_sweep_that_is_not_answered_holds_up_nothing() {
    Case::new(|| {
        let mut house = House::new();
        house.rosters = [Roster::Names(&[A]), Roster::Silent, Roster::Names(&[A])].into();
        house.begin()
    })
    .at(110_000, |house| {
        house.bring(A, &Toy::mention(7, channel(A)).dated(house.present()))
    })
    .must(110_000, |house| assert_eq!(house.delivered, [toy::id(7)]))
    .never(|house| assert_eq!(house.left_at(A), Vec::<usize>::new()))
    .finally(|house| assert!(house.sweeps > 3))
    .play();
}

#[test]
fn block_buzz_5170_a_removal_that_was_missed_converges_too() {
    Case::new(|| House::in_channels(&[A, B]))
        .at(10_000, |house| {
            house.lose_connection();
            house.rosters = [Roster::Names(&[A])].into();
        })
        .finally(|house| {
            assert_eq!(house.left_at(B).len(), 1);
            assert!(house.is_live(A));
        })
        .play();
}

#[test]
fn block_buzz_4452_what_was_written_is_no_subscription_before_the_relay_says_so() {
    Case::new(|| House::new().begin())
        .at(1000, |house| {
            house.is_silent_on.insert(C);
            house.rosters = [Roster::Names(&[C])].into();
            house.notify(&added(9, C, 1));
        })
        .must(1000, |house| {
            assert_eq!(house.asked_for(C).len(), 1);
            assert!(!house.is_live(C));
        })
        .at(30_000, |house| house.notify(&added(10, C, 30)))
        .must(62_000, |house| assert!(house.asked_for(C).len() >= 2))
        .at(63_000, |house| {
            house.is_silent_on.clear();
        })
        .never(|house| {
            let names: std::collections::BTreeSet<_> =
                house.asked.iter().map(|asked| &asked.name).collect();
            assert_eq!(names.len(), house.asked.len(), "a name was used twice");
        })
        .finally(|house| assert!(house.is_live(C)))
        .play();
}

#[test]
fn block_buzz_4564_the_first_message_may_be_older_than_the_notice() {
    Case::new(|| House::new().begin())
        .at(103_000, |house| {
            house.rosters = [Roster::Names(&[C])].into();
            house.notify(&added(9, C, 103));
            house.bring(C, &Toy::mention(7, channel(C)).dated(dated(101)));
        })
        .must(103_000, |house| {
            let since = house.asked_for(C)[0].since();
            assert!(since <= Some(dated(100)), "{since:?}");
            assert_eq!(house.delivered, [toy::id(7)]);
        })
        .never(|house| {
            let asked = house.asked_for(C);
            assert!(asked.iter().all(|asked| asked.since() < Some(dated(103))));
        })
        .finally(|house| assert_eq!(house.delivered, [toy::id(7)]))
        .play();
}

#[test]
fn block_buzz_4538_a_roster_that_fails_is_not_one_without_channels() {
    Case::new(|| {
        let mut house = House::new();
        house.rosters = [Roster::Fails(503), Roster::Silent, Roster::Names(&[A])].into();
        house.begin()
    })
    .must(0, |house| {
        let is_told = |note: &Note| matches!(note, Note::RosterFailed { .. });
        assert!(house.notes.iter().any(|(_, note)| is_told(note)));
    })
    .at(1000, |_| {})
    .never(|house| assert!(house.left_at(A).is_empty()))
    .finally(|house| assert!(house.is_live(A)))
    .play();
}

#[test]
fn block_buzz_4538_errors_later_take_no_channel_away() {
    Case::new(|| {
        let mut house = House::new();
        house.rosters = [Roster::Names(&[A]), Roster::Fails(404)].into();
        house.begin()
    })
    .at(1000, |_| {})
    .never(|house| assert!(house.left_at(A).is_empty()))
    .finally(|house| assert!(house.is_live(A)))
    .play();
}

#[test]
fn nousresearch_hermes_agent_76850_a_channel_that_is_refused_concerns_that_channel() {
    Case::new(|| House::in_channels(&[A, B]))
        .at(1000, |house| {
            house.refuses.insert(B, "restricted: not a channel member");
            house.close(B, "restricted: not a channel member");
        })
        .must(1000, |house| {
            assert_eq!(house.refusals(B), 1);
            assert!(house.is_live(A));
            never_closed(house);
        })
        .must(89_000, |house| assert_eq!(house.asked_for(B).len(), 1))
        .must(300_000, |house| {
            assert_eq!(house.asked_for(B).len(), 2);
            never_closed(house);
        })
        // The one more after 90 s, and one for each connection at most.
        .never(|house| assert!(house.asked_for(B).len() <= 3))
        .finally(|house| assert!(house.is_live(A)))
        .play();
}

#[test]
fn nousresearch_hermes_agent_76823_a_channel_is_joined_in_the_step_of_its_notice() {
    Case::new(|| House::new().begin())
        .at(50_000, |house| {
            house.rosters = [Roster::Names(&[C])].into();
            house.notify(&added(9, C, 50));
        })
        .must(50_000, |house| {
            let asked = house.asked_for(C);
            assert_eq!(asked.len(), 1);
            assert_eq!(asked[0].at, house.instant());
        })
        .finally(|house| assert!(house.is_live(C)))
        .play();
}

#[test]
fn mostrop2p_mostro_874_the_only_inbox_is_told_of_and_asked_for_again() {
    let is_membership = |sub: &Sub| *sub == Sub::Membership;
    Case::new(|| House::new().begin())
        .at(1000, |house| {
            let name = house.last_name(|asked| asked.name.starts_with("membership-"));
            house.say(toy::closed(&name, "error: could not read"));
        })
        .must(1000, move |house| {
            let (_, sub, state) = house.standings.last().expect("it is told");
            assert!(is_membership(sub) && *state == SubState::Waiting);
        })
        .must(4000, move |house| {
            let (_, sub, state) = house.standings.last().expect("it is told");
            assert!(is_membership(sub) && *state == SubState::Live);
        })
        .finally(move |house| {
            let mut of = house.standings.iter().rev();
            let last = of.find(|(_, sub, _)| is_membership(sub));
            assert!(matches!(last, Some((_, _, SubState::Live))));
        })
        .play();
}
