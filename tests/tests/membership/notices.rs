//! Notices in any order: their dates say which is the last.

use buzz_proto::ids::Ticket;
use buzz_proto::relay::{Action, ChannelKind, Relay};
use buzz_sim::script::Script;
use buzz_sim::toy::{START, Toy, channel};

use crate::support::{SECOND, answer, channels, joined, left, query, settled, sweep};

const ADDED: u32 = 44_100;
const REMOVED: u32 = 44_101;

/// The agent is a member of channel 1, by its roster.
fn member() -> Script<Relay> {
    let mut relay = settled();
    sweep(&mut relay, &[Toy::members(1, channel(1))]);
    channels(&mut relay);
    relay
}

/// A notice of channel 1, dated so many seconds after the start.
fn notice(n: u64, kind: u32, seconds: u32) -> Toy {
    Toy::notice(n, kind, channel(1)).dated(START.after(seconds * SECOND))
}

/// The tickets of the queries since the last look.
fn queries(relay: &mut Script<Relay>) -> Vec<Ticket> {
    let orders = relay.orders().into_iter();
    let tickets = orders.filter_map(|order| {
        let Action::Query { ticket, .. } = order else {
            return None;
        };
        Some(ticket)
    });
    tickets.collect()
}

#[test]
fn an_addition_that_is_older_than_the_removal_before_it_joins_nothing() {
    for mut relay in [settled(), member()] {
        relay.event("membership-1", &notice(9, REMOVED, 5));
        channels(&mut relay);
        relay.event("membership-1", &notice(10, ADDED, 4));
        assert_eq!(queries(&mut relay), [], "it leaves nothing open");
        relay.event("membership-1", &notice(11, ADDED, 6));
        let ticket = query(&mut relay);
        answer(&mut relay, ticket, &[Toy::members(1, channel(1))], &[]);
        assert_eq!(channels(&mut relay), [joined(1, ChannelKind::Direct)]);
    }
}

#[test]
fn of_an_addition_and_a_removal_of_one_second_the_roster_says_which_was_the_last() {
    for kinds in [[ADDED, REMOVED], [REMOVED, ADDED]] {
        for is_member in [false, true] {
            let mut relay = settled();
            let members = [Toy::members(1, channel(1))];
            let members = if is_member { &members[..] } else { &[] };
            relay.event("membership-1", &notice(9, kinds[0], 5));
            let early: Vec<_> = queries(&mut relay);
            relay.event("membership-1", &notice(10, kinds[1], 5));
            for ticket in early {
                // What was asked before the second notice came may not know of it.
                answer(&mut relay, ticket, &[], &[]);
            }
            let ticket = query(&mut relay);
            answer(&mut relay, ticket, members, &[]);
            let wanted: &[Action] = if is_member {
                &[joined(1, ChannelKind::Direct)]
            } else {
                &[]
            };
            assert_eq!(channels(&mut relay), wanted, "{kinds:?} {is_member}");
        }
    }
}

#[test]
fn a_read_that_began_before_a_removal_does_not_take_it_back() {
    let mut relay = member();
    let ticket = crate::support::next_query(&mut relay);
    relay.event("membership-1", &notice(9, REMOVED, 500));
    assert_eq!(channels(&mut relay), [left(1)]);
    answer(&mut relay, ticket, &[Toy::members(1, channel(1))], &[]);
    assert_eq!(channels(&mut relay), []);
    sweep(&mut relay, &[Toy::members(2, channel(1))]);
    assert_eq!(channels(&mut relay), [joined(1, ChannelKind::Direct)]);
}

#[test]
fn a_removal_in_the_second_of_the_addition_leaves_when_two_reads_agree() {
    let mut relay = settled();
    relay.event("membership-1", &notice(9, ADDED, 5));
    let ticket = query(&mut relay);
    answer(&mut relay, ticket, &[Toy::members(1, channel(1))], &[]);
    channels(&mut relay);
    relay.event("membership-1", &notice(10, REMOVED, 5));
    let ticket = query(&mut relay);
    answer(&mut relay, ticket, &[Toy::members(2, channel(2))], &[]);
    assert_eq!(channels(&mut relay), [joined(2, ChannelKind::Direct)]);
    sweep(&mut relay, &[Toy::members(2, channel(2))]);
    assert_eq!(channels(&mut relay), [left(1)]);
}
