//! Who goes next where several wait for one quota: on the socket notices of membership, then what
//! was said, then new channels, those asked for in vain, stored events, and last what is only good
//! to see; over HTTP replies, look-ups, the roster, stored events, and last what is only good to
//! see. Every fourth token goes to the longest wait above the last.

use std::collections::VecDeque;
use std::time::Duration;

use buzz_proto::action::Action as Order;
use buzz_proto::config::Consumer;
use buzz_proto::ids::{ConnId, JobId, Ticket};
use buzz_proto::input::Input as Fact;
use buzz_proto::machine::Machine;
use buzz_proto::publish::{self, Body, Class, LatestKey, Route};
use buzz_proto::relay::{self, Command, Config, HttpAnswer, Relay};
use buzz_sim::machine::machine;
use buzz_sim::relay::{URL, channel_sub, given, script, unaudited};
use buzz_sim::script::{self, Script};
use buzz_sim::toy::{self, Toy, channel};
use bytes::Bytes;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn on_the_socket_what_was_said_goes_before_new_channels_and_what_is_good_to_see_goes_last() {
    let mut relay = at_an_empty_bucket(12);
    submit(&mut relay, 100, false);
    submit(&mut relay, 101, true);
    relay.run_for(SECOND);
    let sent = heads(&frames(&mut relay));
    assert_eq!(sent, ["EVENT 101", "REQ", "REQ", "REQ", "REQ", "EVENT 100"]);
}

#[test]
fn notices_of_membership_are_asked_for_before_anything_else() {
    let mut relay = script(unaudited(Config::new(URL)));
    relay.live_with_auth();
    assert_eq!(heads(&frames(&mut relay)), ["REQ"]);
    relay.written();
    let hint = "rate-limited: quota exceeded; retry in 20s";
    relay.frame(toy::closed("membership-1", hint));
    for n in 1..=3 {
        let channel = channel(n);
        relay.orders();
        relay.command(Command::Subscribe {
            channel,
            interest: None,
            floor: None,
        });
    }
    submit(&mut relay, 100, true);
    relay.alive_until(relay.now().after(15 * SECOND));
    assert_eq!(frames(&mut relay), Vec::<String>::new(), "the gate is shut");
    relay.run_for(10 * SECOND);
    let sent = frames(&mut relay);
    assert!(sent[0].starts_with(r#"["REQ","membership-"#), "{sent:?}");
    assert_eq!(heads(&sent), ["REQ", "EVENT 100", "REQ", "REQ", "REQ"]);
}

#[test]
fn a_stream_of_new_channels_does_not_keep_one_that_was_refused_out() {
    let mut relay = at_an_empty_bucket(40);
    relay.frame(toy::closed(&channel_sub(1, 1), "error: database error"));
    relay.run_for(SECOND);
    assert_eq!(frames(&mut relay).len(), 8);
    relay.run_for(SECOND);
    let sent = frames(&mut relay);
    let is_again = |text: &String| text.contains(&channel(1).to_string());
    let place = sent.iter().position(is_again);
    assert!(place.is_some_and(|place| place < 5), "{sent:?}");
}

#[test]
fn one_that_was_refused_keeps_its_place_while_too_many_requests_are_unanswered() {
    let channels: Vec<u8> = (1..=60).collect();
    let mut relay = script(unaudited(given(&channels)));
    relay.live();
    assert_eq!(relay.requested().len(), 8);
    relay.frame(toy::closed(&channel_sub(1, 1), "error: database error"));
    relay.run_for(2 * SECOND);
    let mut sent = VecDeque::from(frames(&mut relay));
    let mut others = 0;
    while let Some(text) = sent.pop_front() {
        if text.contains(&channel(1).to_string()) {
            break;
        }
        others += 1;
        relay.frame(toy::eose(text.split('"').nth(3).expect("a name")));
        relay.run_for(SECOND);
        sent.extend(frames(&mut relay));
    }
    assert!(others <= 8, "{others} went first");
}

#[test]
fn a_stream_of_what_is_said_does_not_keep_channels_out() {
    let mut relay = at_an_empty_bucket(20);
    for n in 100..130 {
        submit(&mut relay, n, true);
    }
    relay.run_for(SECOND);
    let sent = heads(&frames(&mut relay));
    let events = sent.iter().filter(|head| head.starts_with("EVENT")).count();
    assert_eq!((sent.len(), events), (8, 6), "{sent:?}");
}

#[test]
fn over_http_replies_go_first_and_every_fourth_call_is_another_s() {
    let mut machine = with_roster();
    for job in 2..6 {
        submit_post(&mut machine, job, Class::Durable);
    }
    submit_post(&mut machine, 1, Class::Latest(LatestKey::Presence));
    for job in 6..=60 {
        submit_post(&mut machine, job, Class::Durable);
    }
    let conn = ConnId(1);
    let waiting = machine.timed_orders();
    machine.input(Fact::Relay(relay::Input::Connected { conn, date: None }));
    machine.put_back(waiting);
    let before = play(&mut machine, 3 * SECOND).len();
    assert!(before > 20, "{before}");
    let calls = play(&mut machine, 20 * SECOND);
    let roster = calls.iter().position(|call| *call == Call::Query);
    assert!(roster.is_some_and(|place| place < 4), "{calls:?}");
    let posts: Vec<_> = calls
        .iter()
        .filter(|call| **call != Call::Query)
        .copied()
        .collect();
    assert_eq!(posts.last(), Some(&Call::Post(1)), "presence is last");
    let is_sorted = posts.windows(2).rev().skip(1).all(|pair| pair[0] < pair[1]);
    assert!(
        is_sorted,
        "replies go in the order in which they came: {posts:?}"
    );
}

/// A call over HTTP: a read, or a post of this event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Query,
    Post(u8),
}

/// A relay part of so many channels whose first requests have used up the bucket.
fn at_an_empty_bucket(channels: u8) -> Script<Relay> {
    let channels: Vec<u8> = (1..=channels).collect();
    let mut config = unaudited(given(&channels));
    config.limits.unanswered_max = 40;
    let mut relay = script(config);
    relay.live();
    assert_eq!(relay.requested().len(), 8);
    relay.written();
    relay
}

fn submit(relay: &mut Script<Relay>, n: u64, durable: bool) {
    let (ticket, event) = (Ticket(n), Toy::new(n).bytes());
    let waiting = relay.timed_orders();
    relay.command(Command::Send {
        ticket,
        durable,
        event,
    });
    relay.put_back(waiting);
}

/// What was written.
fn frames(relay: &mut Script<Relay>) -> Vec<String> {
    let text = |order| {
        let relay::Action::Send { text, .. } = order else {
            return None;
        };
        Some(String::from_utf8_lossy(&text).into_owned())
    };
    relay.orders().into_iter().filter_map(text).collect()
}

/// The verbs of these frames, of EVENTs with their number.
fn heads(frames: &[String]) -> Vec<String> {
    let head = |text: &String| {
        let event = (100..130).find(|n| text.contains(&toy::id(*n).to_string()));
        event.map_or_else(|| "REQ".to_owned(), |n| format!("EVENT {n}"))
    };
    frames.iter().map(head).collect()
}

/// A machine that follows a roster and has not dialed with success.
fn with_roster() -> Script<Machine> {
    let mut config = buzz_sim::machine::config(Consumer::External { slots: 8 });
    config.relay = Config::new(URL);
    let mut machine = script::script(machine(config));
    machine.input(Fact::WallClock(toy::START));
    machine.orders();
    machine
}

fn submit_post(machine: &mut Script<Machine>, job: u64, class: Class) {
    let waiting = machine.timed_orders();
    let command = publish::Command::Submit {
        job: JobId(job),
        class,
        route: Route::Post,
        body: Body::Signed(Toy::new(job).event()),
        ttl: None,
    };
    machine.input(Fact::Publish(publish::Input::Command(command)));
    machine.put_back(waiting);
}

/// Lets time pass and answers each call well; gives the calls in their order.
fn play(machine: &mut Script<Machine>, span: Duration) -> Vec<Call> {
    let end = machine.now().after(span);
    let (mut calls, mut orders) = (Vec::new(), VecDeque::from(machine.orders()));
    loop {
        while let Some(order) = orders.pop_front() {
            if let Order::Publish(publish::Action::Post { ticket, event, .. }) = order {
                calls.push(Call::Post(event.id().0[7]));
                let answer = good(r#"{"accepted":true}"#);
                let input = publish::Input::Answered { ticket, answer };
                machine.input(Fact::Publish(input));
            } else if let Order::Relay(relay::Action::Query { ticket, .. }) = order {
                calls.push(Call::Query);
                let answer = good("[]");
                machine.input(Fact::Relay(relay::Input::Answered { ticket, answer }));
            } else if let Order::Relay(relay::Action::Inform { ticket }) = order {
                let answer = good("{}");
                machine.input(Fact::Relay(relay::Input::Answered { ticket, answer }));
            }
            orders.extend(machine.orders());
        }
        let next = machine.part().next_deadline().map(|(at, _)| at);
        let Some(next) = next.filter(|next| *next <= end) else {
            return calls;
        };
        machine.at(next).tick();
        orders.extend(machine.orders());
    }
}

fn good(body: &'static str) -> HttpAnswer {
    HttpAnswer {
        status: 200,
        retry_after: None,
        date: None,
        body: Bytes::from_static(body.as_bytes()),
    }
}
