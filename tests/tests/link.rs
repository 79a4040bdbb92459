//! The connection: dials, the ladder between them, liveness, writes and the end.

use std::time::Duration;

use buzz_proto::config::Consumer;
use buzz_proto::ids::{ConnId, Ticket, WriteId};
use buzz_proto::note::{LinkNote, Note, StaleWhat};
use buzz_proto::relay::{
    Action, CloseCause, Command, ConnectCause, Input, Receipt, Relay, Sub, SubState,
};
use buzz_proto::seed::Seed;
use buzz_proto::time::MonoTime;
use buzz_proto::wire::Excerpt;
use buzz_sim::relay::{channel_sub, close, connect, given, ping, script};
use buzz_sim::script::{Script, ms, secs};
use buzz_sim::toy::{self, ME, Toy, channel};

const SECOND: Duration = Duration::from_secs(1);
const SLOW: Duration = Duration::from_secs(300);
const SLOWEST: Duration = Duration::from_secs(360);
const DOWN: Action = Action::Link { live: false };

// Dials

#[test]
fn the_first_input_dials() {
    let mut relay = script(given(&[]));
    relay.at(ms(150)).tick().expect([connect(1)]);
    assert_eq!(relay.notes(), [Note::Link(LinkNote::Dialing)]);
}

#[test]
fn a_dial_is_given_up_at_its_limit_and_tried_again_by_the_ladder() {
    let mut relay = script(given(&[]));
    relay.tick().expect([connect(1)]);
    relay.quiet_until(secs(30)).tick();
    relay.expect([close(1, CloseCause::DialLimit)]);
    let wait = one_wait(&mut relay);
    assert!(wait >= SECOND / 2 && wait <= SECOND, "{wait:?}");
    relay.quiet_for(wait).tick();
    relay.expect([connect(2)]);
}

#[test]
fn every_cause_of_a_failed_dial_has_its_own_wait() {
    let status = |status| ConnectCause::Status {
        status,
        text: Excerpt::new("not now"),
    };
    for (cause, least, most) in [
        (ConnectCause::Resolve, SECOND / 2, SECOND),
        (ConnectCause::Transport, SECOND / 2, SECOND),
        (ConnectCause::Protocol, SECOND / 2, SECOND),
        (status(401), SECOND / 2, SECOND),
        (status(404), SECOND / 2, SECOND),
        (status(503), SECOND / 2, SECOND),
        (ConnectCause::Certificate, SLOW, SLOWEST),
    ] {
        let mut relay = script(given(&[]));
        relay.tick().expect([connect(1)]);
        fail_dial(&mut relay, cause.clone());
        let wait = one_wait(&mut relay);
        assert!(least <= wait && wait <= most, "{cause:?}: {wait:?}");
        relay.quiet_for(wait).tick();
        relay.expect([connect(2)]);
    }
}

#[test]
fn an_unusable_url_stops_the_link_and_says_so() {
    let mut relay = script(given(&[]));
    relay.tick().expect([connect(1)]).notes();
    fail_dial(&mut relay, ConnectCause::Url);
    let failed = LinkNote::Failed {
        cause: ConnectCause::Url,
    };
    relay.expect_notes([Note::Link(failed), Note::Link(LinkNote::Stopped)]);
    assert_eq!(relay.part().next_deadline(), None);
    relay.command(Command::Reconnect).quiet_until(secs(10_000));
}

// The ladder

#[test]
fn each_loss_in_a_row_waits_half_to_the_whole_of_a_rung_twice_as_long() {
    let mut relay = script(given(&[]));
    relay.tick().expect([connect(1)]).notes();
    for rung in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
        fail_dial(&mut relay, ConnectCause::Transport);
        let (wait, rung) = (one_wait(&mut relay), Duration::from_secs(rung));
        assert!(rung / 2 <= wait && wait <= rung, "{wait:?} of {rung:?}");
        run_to_dial(&mut relay, wait);
    }
}

#[test]
fn a_connection_that_opens_and_drops_at_once_climbs() {
    let mut relay = script(given(&[]));
    relay.tick().expect([connect(1)]);
    for rung in [1, 2, 4] {
        relay.connected().notes();
        relay.closed(None).expect([]);
        let (wait, rung) = (one_wait(&mut relay), Duration::from_secs(rung));
        assert!(rung / 2 <= wait && wait <= rung, "{wait:?} of {rung:?}");
        run_to_dial(&mut relay, wait);
    }
}

#[test]
fn only_a_minute_of_being_live_leads_back_to_the_first_rung() {
    for (live_for, least, most) in [
        (Duration::from_millis(59_999), 4 * SECOND, 8 * SECOND),
        (Duration::from_secs(60), SECOND / 2, SECOND),
    ] {
        let mut relay = script(given(&[]));
        relay.wall_clock().expect([connect(1)]);
        for _ in 0..3 {
            relay.notes();
            fail_dial(&mut relay, ConnectCause::Transport);
            let wait = one_wait(&mut relay);
            run_to_dial(&mut relay, wait);
        }
        relay.connected().quiet_for(3 * SECOND).tick();
        relay.expect_live().expect([]);
        relay.alive_for(live_for).tick().expect([]);
        relay.notes();
        relay.closed(None).expect([DOWN]);
        let wait = one_wait(&mut relay);
        assert!(least <= wait && wait <= most, "{live_for:?}: {wait:?}");
    }
}

#[test]
fn after_a_restart_agents_come_back_spread_over_ten_seconds() {
    let mut waits = Vec::new();
    for seed in 0..40 {
        let consumer = Consumer::External { slots: 1 };
        let part = Relay::new(given(&[]), ME, &consumer, Seed(seed), MonoTime::ZERO);
        let mut relay = buzz_sim::script::script(part.expect("the settings work"));
        relay.tick().expect([connect(1)]);
        relay.connected().notes();
        relay.closed(Some(1012));
        waits.push(one_wait(&mut relay));
    }
    waits.sort();
    assert!(waits[0] >= SECOND && waits[39] <= 10 * SECOND, "{waits:?}");
    assert!(
        waits[10] < 5 * SECOND && waits[30] > 5 * SECOND,
        "{waits:?}"
    );
}

#[test]
fn a_close_for_policy_is_followed_by_a_slow_dial() {
    let mut relay = script(given(&[]));
    relay.live().notes();
    relay.closed(Some(1008)).expect([DOWN]);
    let wait = one_wait(&mut relay);
    assert!(wait > SLOW && wait <= SLOWEST, "{wait:?}");
    relay.quiet_for(wait).tick().expect([connect(2)]);
}

#[test]
fn a_command_to_reconnect_closes_and_never_shortens_a_wait() {
    let mut relay = script(given(&[]));
    relay.live().notes();
    relay.command(Command::Reconnect);
    relay.expect([close(1, CloseCause::Requested), DOWN]);
    let wait = one_wait(&mut relay);
    assert!(wait >= SECOND / 2 && wait <= SECOND, "{wait:?}");
    relay.command(Command::Reconnect).expect([]);
    run_to_dial(&mut relay, wait);
    relay.command(Command::Reconnect);
    relay.expect([close(2, CloseCause::Requested)]);
    let wait = one_wait(&mut relay);
    assert!(wait >= SECOND && wait <= 2 * SECOND, "{wait:?}");
}

// Liveness

#[test]
fn silence_is_answered_with_a_ping_and_a_ping_without_answer_with_a_close() {
    let mut relay = script(given(&[]));
    relay.live();
    relay.quiet_until(secs(25)).tick().expect([ping(1)]);
    relay.quiet_until(secs(35)).tick();
    relay.expect([close(1, CloseCause::Silent), DOWN]);
}

#[test]
fn whatever_comes_counts_as_life() {
    let conn = ConnId(1);
    for alive in [
        Input::Pong { conn },
        Input::Pinged { conn },
        Input::Frame {
            conn,
            text: toy::notice("hello"),
        },
        Input::Frame {
            conn,
            text: "neither JSON nor a frame".into(),
        },
    ] {
        let mut relay = script(given(&[]));
        relay.live();
        relay.quiet_until(secs(25)).tick().expect([ping(1)]);
        relay.quiet_until(ms(34_999)).input(alive).expect([]);
        relay.quiet_until(ms(59_999)).tick().expect([ping(1)]);
    }
}

#[test]
fn a_machine_that_slept_through_the_answer_gives_one_fresh_window() {
    let mut relay = script(given(&[]));
    relay.live();
    relay.quiet_until(secs(25)).tick().expect([ping(1)]);
    relay.sleep_until(secs(3600)).tick().expect([ping(1)]);
    relay.sleep_until(secs(7200)).tick();
    relay.expect([close(1, CloseCause::Silent), DOWN]);
}

#[test]
fn a_tick_that_is_only_a_little_late_gives_no_fresh_window() {
    let mut relay = script(given(&[]));
    relay.live();
    relay.quiet_until(secs(25)).tick().expect([ping(1)]);
    relay.sleep_until(ms(39_999)).tick();
    relay.expect([close(1, CloseCause::Silent), DOWN]);
}

#[test]
fn facts_of_a_socket_that_is_over_change_nothing() {
    let conn = ConnId(99);
    let mut relay = script(given(&[]));
    relay.live().notes();
    for stale in [
        Input::Connected { conn, date: None },
        Input::ConnectFailed {
            conn: ConnId(1),
            cause: ConnectCause::Url,
        },
        Input::Closed { conn, code: None },
        Input::Pong { conn },
        Input::Pinged { conn },
        Input::Frame {
            conn,
            text: toy::challenge("not for us"),
        },
    ] {
        relay.input(stale).expect([]);
        let what = StaleWhat::Connection;
        relay.expect_notes([Note::Stale { what }]);
    }
    for (stale, what) in stale_calls() {
        relay.input(stale).expect([]);
        relay.expect_notes([Note::Stale { what }]);
    }
    relay.quiet_until(secs(28)).tick().expect([ping(1)]);
}

// Writes

#[test]
fn a_frame_that_does_not_leave_in_time_closes_the_socket() {
    let mut relay = script(given(&[1]));
    relay.live().requested();
    relay.quiet_until(secs(13)).tick();
    relay.expect([close(1, CloseCause::Write), DOWN]);
}

#[test]
fn a_frame_that_left_in_part_closes_the_socket() {
    let mut relay = script(given(&[1]));
    relay.live().requested();
    let write = relay.unanswered_writes()[0];
    relay.input(Input::WriteFailed { write, sent: true });
    relay.expect([close(1, CloseCause::Write), DOWN]);
}

#[test]
fn a_frame_of_which_nothing_left_is_sent_again_on_the_same_socket() {
    let mut relay = script(given(&[1]));
    relay.live();
    assert_eq!(relay.requested(), [channel_sub(1, 1)]);
    let write = relay.unanswered_writes()[0];
    relay.input(Input::WriteFailed { write, sent: false });
    assert_eq!(relay.requested(), [channel_sub(1, 2)]);
    relay.written().frame(toy::eose(&channel_sub(1, 2)));
    let (sub, state) = (Sub::Channel(channel(1)), SubState::Live);
    relay.expect([Action::Report { sub, state }]);
}

// The end

#[test]
fn a_shutdown_ends_in_every_phase() {
    let phases: [fn(&mut Script<Relay>); 6] = [
        |_idle| {},
        |dialing| {
            dialing.tick().orders();
        },
        |open| {
            open.open();
        },
        |live| {
            live.live();
        },
        |waiting| {
            waiting.tick().orders();
            fail_dial(waiting, ConnectCause::Transport);
        },
        |stopped| {
            stopped.tick().orders();
            fail_dial(stopped, ConnectCause::Url);
        },
    ];
    for (number, reach) in phases.into_iter().enumerate() {
        let mut relay = script(given(&[]));
        reach(&mut relay);
        let grace = Duration::from_secs(30);
        relay.command(Command::Shutdown { grace });
        match number {
            1 | 2 => relay.expect([close(1, CloseCause::Shutdown), Action::Ended]),
            3 => relay.expect([close(1, CloseCause::Shutdown), DOWN, Action::Ended]),
            _ => relay.expect([Action::Ended]),
        };
        assert_eq!(relay.part().next_deadline(), None);
        assert!(relay.part().view().is_ended);
        relay.command(Command::Shutdown { grace }).expect([]);
        relay.quiet_until(secs(10_000));
    }
}

#[test]
fn a_shutdown_waits_for_what_is_outbound_and_no_longer_than_its_grace() {
    for answered in [true, false] {
        let mut relay = script(given(&[]));
        relay.live();
        let (ticket, event) = (Ticket(5), Toy::new(1).bytes());
        relay
            .command(Command::Send {
                ticket,
                durable: true,
                event,
            })
            .sent();
        relay.written();
        let grace = Duration::from_secs(5);
        relay.command(Command::Shutdown { grace }).expect([]);
        let receipt = if answered {
            relay.frame(toy::ok(toy::id(1), true, ""));
            let reason = buzz_proto::wire::Reason::new("");
            Receipt::Answered {
                accepted: true,
                reason,
            }
        } else {
            relay.quiet_for(grace).tick();
            Receipt::Unanswered
        };
        let receipt = Action::Receipt { ticket, receipt };
        let close = close(1, CloseCause::Shutdown);
        if answered {
            relay.expect([receipt, close, DOWN, Action::Ended]);
        } else {
            relay.expect([close, DOWN, receipt, Action::Ended]);
        }
    }
}

fn fail_dial(relay: &mut Script<Relay>, cause: ConnectCause) {
    let conn = relay.conn();
    relay.input(Input::ConnectFailed { conn, cause }).expect([]);
}

/// The one wait that was noted.
fn one_wait(relay: &mut Script<Relay>) -> Duration {
    let waits = relay.waits();
    assert_eq!(waits.len(), 1, "{waits:?}");
    waits[0]
}

fn run_to_dial(relay: &mut Script<Relay>, wait: Duration) {
    let next = relay.conn().0 + 1;
    relay.quiet_for(wait).tick();
    relay.expect([connect(next)]).notes();
}

/// Completions of effects that never were.
fn stale_calls() -> [(Input, StaleWhat); 7] {
    let (ticket, write) = (Ticket(99), WriteId(99));
    [
        (Input::Written { write }, StaleWhat::Write),
        (Input::WriteFailed { write, sent: true }, StaleWhat::Write),
        (Input::SignFailed { ticket }, StaleWhat::Signature),
        (
            Input::Signed {
                ticket,
                event: Toy::new(1).bytes(),
            },
            StaleWhat::Signature,
        ),
        (
            Input::Verified {
                ticket,
                genuine: true,
            },
            StaleWhat::Verification,
        ),
        (
            Input::Broke {
                ticket,
                cause: buzz_proto::relay::BrokeCause::TimedOut,
            },
            StaleWhat::Call,
        ),
        (
            Input::Frame {
                conn: ConnId(1),
                text: toy::ok(toy::id(99), true, ""),
            },
            StaleWhat::Receipt,
        ),
    ]
}
