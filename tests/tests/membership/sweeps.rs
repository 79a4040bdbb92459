//! The roster is the truth: when it is read, and what a read says.

use std::time::Duration;

use buzz_proto::ids::Ticket;
use buzz_proto::note::{Note, Quota};
use buzz_proto::relay::{Action, BrokeCause, ChannelKind, Config, HttpAnswer, Input, Relay};
use buzz_sim::relay::{URL, channel_sub, script};
use buzz_sim::script::Script;
use buzz_sim::toy::{self, ME, START, Toy, channel};
use bytes::Bytes;

use crate::support::*;

#[test]
fn the_roster_is_read_in_two_steps_and_its_channels_are_joined() {
    let mut relay = script(Config::new(URL));
    relay.live_with_auth();
    let orders = relay.orders();
    let body: Bytes = format!(r##"[{{"kinds":[39002],"#p":["{ME}"]}}]"##).into();
    let ticket = Ticket(3);
    assert_eq!(orders[0], Action::Query { ticket, body });
    assert_eq!(orders.len(), 2, "the query and the REQ of membership");
    relay.written();
    let members = [Toy::members(1, channel(1)), Toy::members(2, channel(2))];
    relay.found(ticket, &members);
    let (one, two) = (channel(1), channel(2));
    let body: Bytes = format!(r##"[{{"kinds":[39000],"#d":["{one}","{two}"]}}]"##).into();
    let ticket = Ticket(6);
    relay.expect([Action::Query { ticket, body }]).notes();
    let rows = [
        Toy::metadata(3, channel(1)),
        Toy::metadata(4, channel(2)).tag(&["t", "dm"]),
    ];
    relay.found(ticket, &rows);
    let orders = relay.orders();
    let joined = [
        joined(1, ChannelKind::Stream),
        joined(2, ChannelKind::Direct),
    ];
    assert_eq!(orders[..2], joined);
    assert_eq!(orders.len(), 4, "and a REQ each");
}

#[test]
fn a_channel_that_nothing_describes_counts_as_direct_and_an_archived_one_is_left_out() {
    let mut relay = script(Config::new(URL));
    relay.live_with_auth();
    let members = [Toy::members(1, channel(1)), Toy::members(2, channel(2))];
    let archived = Toy::metadata(3, channel(2)).tag(&["archived", "true"]);
    read(&mut relay, &members, &[archived]);
    assert_eq!(channels(&mut relay), [joined(1, ChannelKind::Direct)]);
}

#[test]
fn a_notice_of_an_addition_joins_once_a_read_has_told_what_the_channel_is() {
    let mut relay = settled();
    let notice = Toy::notice(9, 44_100, channel(1));
    relay.event("membership-1", &notice);
    let ticket = query(&mut relay);
    answer(
        &mut relay,
        ticket,
        &[Toy::members(1, channel(1))],
        &[Toy::metadata(2, channel(1))],
    );
    let orders = relay.orders();
    assert_eq!(orders[0], joined(1, ChannelKind::Stream));
    let since = START.before(Duration::from_secs(900 + 1080));
    let (sub, since) = (channel_sub(1, 2), format!("\"since\":{since},"));
    let Action::Send { text, .. } = &orders[1] else {
        relay.fail("no REQ");
    };
    let text = String::from_utf8_lossy(text);
    assert!(text.contains(&sub) && text.contains(&since), "{text}");
    assert_eq!(orders.len(), 2);
}

#[test]
fn a_notice_is_believed_when_the_roster_cannot_be_read_or_lacks_the_channel_twice() {
    let mut relay = settled();
    relay.event("membership-1", &Toy::notice(9, 44_100, channel(1)));
    let ticket = query(&mut relay);
    relay.answered(ticket, 400, Bytes::new());
    assert_eq!(channels(&mut relay), [joined(1, ChannelKind::Direct)]);

    let mut relay = settled();
    relay.event("membership-1", &Toy::notice(9, 44_100, channel(1)));
    let ticket = query(&mut relay);
    answer(&mut relay, ticket, &[], &[]);
    let ticket = query(&mut relay);
    answer(&mut relay, ticket, &[], &[]);
    assert_eq!(channels(&mut relay), [joined(1, ChannelKind::Direct)]);
}

#[test]
fn a_notice_of_a_removal_leaves_unless_it_is_older_than_the_addition() {
    let mut relay = settled();
    relay.event("membership-1", &Toy::notice(9, 44_100, channel(1)));
    let ticket = query(&mut relay);
    answer(&mut relay, ticket, &[Toy::members(1, channel(1))], &[]);
    channels(&mut relay);
    let older = Toy::notice(10, 44_101, channel(1)).dated(START.before(SECOND));
    relay.event("membership-1", &older);
    assert_eq!(channels(&mut relay), []);
    let newer = Toy::notice(11, 44_101, channel(1)).dated(START.after(SECOND));
    relay.event("membership-1", &newer);
    assert_eq!(channels(&mut relay), [left(1)]);
}

#[test]
fn a_removal_takes_back_an_addition_that_was_not_described_yet() {
    let mut relay = settled();
    relay.event("membership-1", &Toy::notice(9, 44_100, channel(1)));
    let ticket = query(&mut relay);
    let removal = Toy::notice(10, 44_101, channel(1)).dated(START.after(SECOND));
    relay.event("membership-1", &removal);
    answer(&mut relay, ticket, &[], &[]);
    assert_eq!(channels(&mut relay), []);
}

#[test]
fn an_addition_counts_at_once_and_a_removal_when_two_reads_agree() {
    let mut relay = settled();
    let (one, two) = (Toy::members(1, channel(1)), Toy::members(2, channel(2)));
    sweep(&mut relay, &[one.clone(), two]);
    let expected = [1, 2].map(|n| joined(n, ChannelKind::Direct));
    assert_eq!(channels(&mut relay), expected);
    sweep(&mut relay, std::slice::from_ref(&one));
    assert_eq!(channels(&mut relay), []);
    sweep(&mut relay, std::slice::from_ref(&one));
    assert_eq!(channels(&mut relay), [left(2)]);
}

#[test]
fn an_empty_roster_after_a_full_one_counts_from_the_third_in_a_row() {
    let mut relay = settled();
    sweep(&mut relay, &[Toy::members(1, channel(1))]);
    channels(&mut relay);
    for _ in 0..3 {
        sweep(&mut relay, &[]);
        assert_eq!(channels(&mut relay), []);
    }
    sweep(&mut relay, &[]);
    assert_eq!(channels(&mut relay), [left(1)]);
}

#[test]
fn a_failed_read_is_no_information_and_is_repeated_ever_more_slowly() {
    let cut = toy::events(&[Toy::members(1, channel(1))]);
    let cut = cut.slice(..cut.len() - 1);
    let mut relay = settled();
    sweep(&mut relay, &[Toy::members(1, channel(1))]);
    channels(&mut relay);
    let ticket = next_query(&mut relay);
    relay.answered(ticket, 200, cut.clone()).notes();
    for wait in [5, 10, 20, 40] {
        relay.alive_for(Duration::from_secs(wait)).tick();
        let ticket = query(&mut relay);
        relay.answered(ticket, 200, cut.clone());
        let status = Some(200);
        relay.expect([]);
        relay.expect_notes([Note::RosterFailed { status }]);
    }
}

#[test]
fn a_read_without_an_answer_is_given_up_and_repeated() {
    let mut relay = script(Config::new(URL));
    relay.live_with_auth();
    let ticket = query(&mut relay);
    relay.written().notes();
    relay.quiet_for(15 * SECOND).tick();
    relay.expect([Action::Abort { ticket }]);
    expect_failure(&mut relay, 1);
    let ticket = next_query(&mut relay);
    let cause = BrokeCause::Connection;
    relay.input(Input::Broke { ticket, cause }).expect([]);
    expect_failure(&mut relay, 2);
    next_query(&mut relay);
}

/// A read without an answer is told, and that the gate of all calls is shut because of it.
fn expect_failure(relay: &mut Script<Relay>, in_a_row: u32) {
    let notes = relay.notes();
    let [
        Note::Throttled {
            quota,
            source,
            attempt,
            ..
        },
        failed,
    ] = &notes[..]
    else {
        panic!("{notes:?}");
    };
    assert_eq!((*quota, *source, *attempt), (Quota::Http, None, in_a_row));
    assert_eq!(*failed, Note::RosterFailed { status: None });
}

#[test]
fn a_wait_that_the_relay_asks_for_is_kept_whether_in_the_header_or_in_the_body() {
    let header = || Some(Bytes::from_static(b"60"));
    for (status, retry_after, body) in [
        (429, header(), ""),
        (429, None, r#"{"error":"rate-limited: retry in 60s"}"#),
        (
            401,
            header(),
            r#"{"error":"NIP-98: replay check unavailable"}"#,
        ),
    ] {
        let mut relay = script(Config::new(URL));
        relay.live_with_auth();
        let ticket = query(&mut relay);
        relay.written().frame(toy::eose("membership-1")).orders();
        let answer = HttpAnswer {
            status,
            retry_after,
            date: None,
            body: body.into(),
        };
        relay.input(Input::Answered { ticket, answer });
        relay.alive_for(60 * SECOND);
        relay.alive_for(SECOND / 2);
        next_query(&mut relay);
    }
}

#[test]
fn a_date_to_wait_for_means_nothing_without_a_clock() {
    let mut relay = script(Config::new(URL));
    relay.tick().orders();
    relay.connected().run_for(3 * SECOND);
    relay.expect_live();
    let ticket = query(&mut relay);
    relay.written().frame(toy::eose("membership-1")).orders();
    let answer = HttpAnswer {
        status: 503,
        retry_after: Some(Bytes::from_static(b"Fri, 31 Dec 2027 23:59:59 GMT")),
        date: None,
        body: Bytes::new(),
    };
    relay.input(Input::Answered { ticket, answer });
    relay.run_for(10 * SECOND);
    query(&mut relay);
}

#[test]
fn a_notice_does_not_shorten_the_wait_after_a_failed_read() {
    let mut relay = settled();
    let ticket = next_query(&mut relay);
    relay.answered(ticket, 400, Bytes::new());
    for n in 9..12 {
        let notice = Toy::notice(n, 44_100, channel(1));
        relay.event("membership-1", &notice).expect([]);
    }
    relay.alive_for(5 * SECOND).tick();
    query(&mut relay);
}

#[test]
fn a_notice_of_a_channel_too_many_costs_no_read_and_is_reported_once() {
    let mut config = Config::new(URL);
    config.limits.subscriptions_max = 1;
    let mut relay = settled_with(config);
    relay.event("membership-1", &Toy::notice(9, 44_100, channel(1)));
    query(&mut relay);
    relay.event("membership-1", &Toy::notice(10, 44_100, channel(2)));
    assert_eq!(refused(&mut relay), [2]);
    relay.event("membership-1", &Toy::notice(11, 44_100, channel(2)));
    relay.expect([]);
}

#[test]
fn a_channel_without_room_is_joined_when_there_is_some() {
    let mut config = Config::new(URL);
    config.limits.subscriptions_max = 2;
    let mut relay = settled_with(config);
    let members = [1, 2].map(|n| Toy::members(n.into(), channel(n)));
    sweep(&mut relay, &members);
    assert_eq!(refused(&mut relay), [2]);
    sweep(&mut relay, &members);
    assert!(refused(&mut relay).is_empty());
    let removal = Toy::notice(9, 44_101, channel(1));
    relay.event("membership-1", &removal);
    assert_eq!(channels(&mut relay), [left(1)]);
    sweep(&mut relay, &members[1..]);
    assert_eq!(channels(&mut relay), [joined(2, ChannelKind::Direct)]);
}
