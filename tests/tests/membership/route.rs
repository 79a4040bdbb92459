//! Where `/query` is missing the roster is read over the socket.

use buzz_proto::relay::{Action, BrokeCause, ChannelKind, Input, Relay};
use buzz_sim::script::Script;
use buzz_sim::toy::{self, Toy, channel};
use bytes::Bytes;

use crate::support::{SECOND, channels, joined, next_query, settled};

/// The name of the one REQ among the frames since the last look.
fn request(relay: &mut Script<Relay>) -> String {
    let sent = relay.take_sent();
    let requests: Vec<_> = sent
        .iter()
        .filter(|text| text.starts_with(r#"["REQ""#))
        .collect();
    assert_eq!(requests.len(), 1, "{}", relay.transcript());
    requests[0].split('"').nth(3).expect("a name").to_owned()
}

/// A relay without the route, that was asked by this REQ.
fn without_query(status: u16) -> (Script<Relay>, String) {
    let mut relay = settled();
    let ticket = next_query(&mut relay);
    relay.answered(ticket, status, Bytes::new());
    let name = request(&mut relay);
    (relay, name)
}

#[test]
fn a_relay_without_the_route_is_asked_over_the_socket_at_once() {
    for status in [403, 404, 405, 426] {
        let (mut relay, name) = without_query(status);
        relay.page(&name, &[&Toy::members(1, channel(1))]);
        let name = request(&mut relay);
        let metadata = Toy::metadata(2, channel(1));
        relay.page(&name, &[&metadata]);
        assert_eq!(channels(&mut relay), [joined(1, ChannelKind::Stream)]);
    }
}

#[test]
fn three_calls_without_an_answer_count_as_no_route() {
    let mut relay = settled();
    for _ in 0..3 {
        let ticket = next_query(&mut relay);
        let cause = BrokeCause::Connection;
        relay.orders();
        relay.input(Input::Broke { ticket, cause });
    }
    request(&mut relay);
}

#[test]
fn a_read_over_the_socket_that_is_refused_or_ends_with_it_is_repeated() {
    let (mut relay, name) = without_query(404);
    relay.written();
    relay.frame(toy::closed(&name, "error: database error"));
    relay.orders();
    relay.alive_for(5 * SECOND).tick();
    request(&mut relay);
    relay.closed(None);
    relay.run_for(SECOND);
    relay.orders();
    relay.connected().run_for(3 * SECOND);
    relay.expect_live();
    let asked = relay.orders();
    assert!(
        asked.iter().any(|it| matches!(it, Action::Query { .. })),
        "another relay may have it"
    );
}

#[test]
fn a_read_over_the_socket_without_an_end_is_given_up_and_repeated() {
    let (mut relay, name) = without_query(404);
    relay.written();
    for _ in 0..3 {
        relay.alive_for(SECOND).run_for(9 * SECOND);
    }
    let sent = relay.take_sent();
    assert!(sent.contains(&format!(r#"["CLOSE","{name}"]"#)), "{sent:?}");
    relay.alive_for(5 * SECOND).tick();
    request(&mut relay);
}
