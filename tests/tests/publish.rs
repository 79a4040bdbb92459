//! The publisher, fed by hand: what goes in at which time, and all that has to come out.

use std::collections::VecDeque;
use std::time::Duration;

use buzz_proto::ids::{JobId, Ticket};
use buzz_proto::note::{Note, Quota, StaleWhat};
use buzz_proto::publish::{
    Action, Body, Class, Command, Config, Input, LatestKey, Publisher, Route, Verdict,
};
use buzz_proto::relay::{BrokeCause, HttpAnswer, Receipt};
use buzz_proto::retry_hint::HintSource;
use buzz_proto::schedule::Scope;
use buzz_proto::seed::Seed;
use buzz_proto::time::{MonoTime, UnixTime};
use buzz_proto::wire::{Draft, Event, Reason};
use bytes::Bytes;

const ACCEPTED: &str = r#"{"accepted":true,"message":""}"#;

#[test]
fn a_job_is_posted_and_has_its_verdict_once() {
    let mut script = Script::new();

    assert_eq!(script.at(0, submit(1)), [post(0, 1, 1), wake(15_000)]);
    assert_eq!(
        script.at(200, answered(0, 200, ACCEPTED)),
        [stored(1), sleep()]
    );

    assert_eq!(
        script.at(300, answered(0, 200, ACCEPTED)),
        [stale(StaleWhat::Call)]
    );
    assert_eq!(script.at(400, cancel(1)), [stale(StaleWhat::Job)]);
}

#[test]
fn a_duplicate_is_stored_and_a_refusal_in_a_success_is_not() {
    let mut script = Script::new();
    let duplicate = r#"{"accepted":false,"message":"duplicate: already processed"}"#;
    let refused = r#"{"accepted":false,"message":"blocked: banned"}"#;

    assert_eq!(script.at(0, submit(1)), [post(0, 1, 1), wake(15_000)]);
    assert_eq!(script.at(0, submit(2)), [post(1, 1, 2)]);
    assert_eq!(script.at(100, answered(0, 200, duplicate)), [stored(1)]);
    let rejected = settle(2, rejected("blocked: banned"));
    assert_eq!(
        script.at(100, answered(1, 200, refused)),
        with(rejected, [sleep()])
    );
}

#[test]
fn a_draft_is_dated_when_its_turn_comes() {
    let mut script = Script::new();
    let wall = UnixTime(1_700_000_000);

    assert_eq!(script.at(0, Input::WallClock(wall)), []);
    let sign = Action::Sign {
        ticket: Ticket(0),
        draft: draft(wall.0 + 2),
    };
    assert_eq!(script.at(2_000, submit_draft(1)), [sign, wake(22_000)]);
    assert_eq!(
        script.at(2_500, signed(0, 9)),
        [post(1, 1, 9), wake(17_500)]
    );
    assert_eq!(
        script.at(2_600, answered(1, 200, ACCEPTED)),
        [stored(1), sleep()]
    );
}

#[test]
fn a_signer_that_fails_rests_and_lets_signed_events_pass() {
    let mut script = Script::new();

    let sign = Action::Sign {
        ticket: Ticket(0),
        draft: draft(0),
    };
    assert_eq!(script.at(0, submit_draft(1)), [sign, wake(20_000)]);
    let actions = script.at(0, Input::SignFailed { ticket: Ticket(0) });
    let [Action::WakeAt(Some(rest))] = actions[..] else {
        panic!("{actions:?}")
    };
    assert!(ms(500) <= rest && rest <= ms(1_000));
    assert_eq!(script.at(100, submit(2)), [post(1, 1, 2)]);
    assert_eq!(script.at(100, answered(1, 200, ACCEPTED)), [stored(2)]);
    let again = Action::Sign {
        ticket: Ticket(2),
        draft: draft(0),
    };
    assert_eq!(script.at_time(rest, Input::Tick)[0], again);
    let given_up = script.at_time(rest.after(Duration::from_secs(20)), Input::Tick);
    assert_eq!(given_up[0], Action::Abort { ticket: Ticket(2) });
}

#[test]
fn one_refusal_makes_all_jobs_wait_at_one_gate_and_one_probe_opens_it() {
    let mut script = Script::new();
    for job in 1..=5 {
        let expected = if job <= 4 {
            vec![post(job - 1, 1, job)]
        } else {
            vec![]
        };
        assert_eq!(without_wake(script.at(0, submit(job))), expected);
    }

    // The body's hint shuts the gate for all of them.
    let actions = script.at(0, answered(0, 429, limited(4).as_str()));
    let gate = script.gate(&actions[0], Some(HintSource::Text), 3, 2, 1);
    assert!(ms(4_500) <= gate && gate <= ms(5_500));
    assert_eq!(actions.len(), 2);
    assert_eq!(script.at(1_000, submit(6)), []);

    // A late answer of the same burst lengthens the wait, a shorter one changes nothing.
    let actions = script.at(1_000, refused_with_header(1, "30"));
    let gate = script.gate(&actions[0], Some(HintSource::Header), 2, 4, 1);
    assert!(ms(31_500) <= gate && gate <= ms(37_000));
    assert_eq!(without_wake(actions).len(), 1);
    assert_eq!(script.at(1_500, refused_with_header(2, "5")), []);
    assert_eq!(
        script.at(2_000, answered(3, 200, ACCEPTED)),
        [stored(4), wake_at(gate)]
    );

    // It opens for one, whose success lets two more go.
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [post(4, 2, 1)]
    );
    assert_eq!(without_wake(script.at_time(gate, submit(7))), []);
    let next = script.at_time(gate, answered(4, 200, ACCEPTED));
    assert_eq!(
        without_wake(next),
        [stored(1), post(5, 2, 2), post(6, 2, 3)]
    );
}

#[test]
fn a_probe_that_fails_goes_behind_the_others() {
    let mut script = Script::new();
    assert_eq!(without_wake(script.at(0, submit(1))), [post(0, 1, 1)]);
    let said = script.at(0, answered(0, 429, "{}"));
    let gate = script.gate(&said[0], None, 0, 1, 1);
    assert_eq!(without_wake(script.at(1, submit(2))), []);

    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [post(1, 2, 1)]
    );
    let said = script.at_time(gate, answered(1, 503, "{}"));
    let next = script.gate(&said[0], None, 0, 2, 2);
    assert_eq!(
        without_wake(script.at_time(next, Input::Tick)),
        [post(2, 1, 2)]
    );
}

#[test]
fn an_event_not_stored_is_signed_again_when_its_signature_is_old_and_a_doubtful_one_is_not() {
    for (status, is_signed_again) in [(429, true), (504, false)] {
        let config = Config {
            signature_age: Duration::from_secs(2),
            ..Config::default()
        };
        let mut script = Script::with(config);
        let _ = script.at(0, submit_draft(1));
        assert_eq!(without_wake(script.at(0, signed(0, 9))), [post(1, 1, 9)]);

        let said = script.at(0, answered(1, status, "{}"));
        let gate = script.gate(&said[0], None, 0, 1, 1);
        let actions = without_wake(script.at_time(gate, Input::Tick));

        let sign = Action::Sign {
            ticket: Ticket(2),
            draft: draft(0),
        };
        let expected = if is_signed_again { sign } else { post(2, 2, 9) };
        assert_eq!(actions, [expected], "{status}");
    }
}

#[test]
fn an_event_dated_too_far_away_is_signed_again_once() {
    let mut script = Script::new();
    let too_far = r#"{"error":"invalid: event timestamp too far from server time"}"#;
    let _ = script.at(0, submit_draft(1));
    let _ = script.at(0, signed(0, 9));

    let sign = Action::Sign {
        ticket: Ticket(2),
        draft: draft(0),
    };
    assert_eq!(
        without_wake(script.at(10, answered(1, 400, too_far))),
        [sign]
    );
    assert_eq!(without_wake(script.at(20, signed(2, 10))), [post(3, 2, 10)]);
    let reason = "invalid: event timestamp too far from server time";
    let last = script.at(30, answered(3, 400, too_far));
    assert_eq!(last, with(settle(1, rejected(reason)), [sleep()]));
}

#[test]
fn an_unauthorized_post_goes_again_at_once_and_a_forbidden_one_after_a_second() {
    let mut script = Script::new();
    let replay = r#"{"error":"NIP-98: replay detected"}"#;
    let member = r#"{"error":"relay_membership_required"}"#;

    assert_eq!(script.at(0, submit(1)), [post(0, 1, 1), wake(15_000)]);
    assert_eq!(
        script.at(100, answered(0, 401, "{}")),
        [post(1, 2, 1), wake(15_100)]
    );
    assert_eq!(
        script.at(200, answered(1, 401, replay)),
        [post(2, 3, 1), wake(15_200)]
    );
    assert_eq!(script.at(300, answered(2, 403, member)), [wake(1_300)]);
    assert_eq!(script.at(1_300, Input::Tick), [post(3, 4, 1), wake(16_300)]);
    let last = settle(1, rejected("relay_membership_required"));
    assert_eq!(
        script.at(1_400, answered(3, 403, member)),
        with(last, [sleep()])
    );
}

#[test]
fn without_the_route_all_jobs_go_by_the_socket_until_the_next_connection() {
    let mut script = Script::new();
    assert_eq!(script.at(0, submit(1)), [post(0, 1, 1), wake(15_000)]);
    assert_eq!(script.at(100, answered(0, 404, "not found")), [wake_day(0)]);
    assert_eq!(script.at(200, submit(2)), []);

    // The link may bring another relay.
    let up = script.at(300, Input::Link { live: true });
    assert_eq!(up, [post(1, 2, 1), post(2, 1, 2), wake(15_300)]);
    let sends = script.at(400, answered(1, 405, ""));
    assert_eq!(sends, [send(3, 1)]);
    assert_eq!(
        script.at(400, answered(2, 405, "")),
        [send(4, 2), wake(40_400)]
    );
    assert_eq!(script.at(500, accepted(3)), [stored(1)]);

    // What did not leave waits for the next connection.
    assert_eq!(script.at(600, Input::Link { live: false }), []);
    let not_sent = Input::Receipt {
        ticket: Ticket(4),
        receipt: Receipt::NotSent,
    };
    assert_eq!(script.at(600, not_sent), [wake(1_600)]);
    assert_eq!(script.at(1_600, Input::Tick), [wake_day(200)]);
    let up = script.at(2_000, Input::Link { live: true });
    assert_eq!(up, [post(5, 2, 2), wake(17_000)]);
}

#[test]
fn each_receipt_means_something_of_its_own() {
    let mut script = Script::new();
    let _ = script.at(0, Input::Link { live: true });
    assert_eq!(
        script.at(0, submit_event(1, 60)),
        [send(0, 1), wake(40_000)]
    );

    let limited = refused(0, "rate-limited: quota exceeded; retry in 5s");
    assert_eq!(script.at(100, limited), [wake(5_100)]);
    assert_eq!(script.at(5_100, Input::Tick), [send(1, 1), wake(45_100)]);
    assert_eq!(
        script.at(5_200, refused(1, "auth-required: first")),
        [wake(6_200)]
    );
    assert_eq!(script.at(6_200, Input::Tick), [send(2, 1), wake(46_200)]);
    let lost = Input::Receipt {
        ticket: Ticket(2),
        receipt: Receipt::Unanswered,
    };
    assert_eq!(script.at(6_300, lost), [wake(7_300)]);
    assert_eq!(script.at(7_300, Input::Tick), [send(3, 1), wake(47_300)]);

    // No receipt: the call is given up, and the job goes on with the same event.
    assert_eq!(script.at(47_300, Input::Tick), [abort(3), wake(48_300)]);
    assert_eq!(script.at(47_400, accepted(3)), [stale(StaleWhat::Receipt)]);
    assert_eq!(script.at(48_300, Input::Tick), [send(4, 1), wake(60_000)]);
    let last = [abort(4), settle(1, Verdict::Unknown)[0].clone()];
    assert_eq!(script.at(60_000, Input::Tick)[..2], last);

    assert_eq!(
        script.at(70_000, submit_event(2, 60)),
        [send(5, 2), wake(110_000)]
    );
    let last = settle(2, rejected("invalid: bad tag"));
    assert_eq!(
        script.at(70_100, refused(5, "invalid: bad tag")),
        with(last, [sleep()])
    );
    assert_eq!(
        script.at(70_200, submit_event(3, 60)),
        [send(6, 3), wake(110_200)]
    );
    assert_eq!(
        script.at(70_300, refused(6, "duplicate: had it")),
        [stored(3), sleep()]
    );
}

#[test]
fn only_the_newest_of_a_key_waits_and_durable_jobs_go_first() {
    let mut script = Script::new();
    assert_eq!(script.at(0, latest(1, LatestKey::Presence)), [wake(60_000)]);
    assert_eq!(
        script.at(10, latest(2, LatestKey::Presence)),
        [evicted(1), wake(60_010)]
    );
    assert_eq!(script.at(20, latest(3, typing(7))), []);
    assert_eq!(script.at(30, submit_event(4, 86_400)), []);

    let actions = script.at(40, Input::Link { live: true });
    assert_eq!(actions, [send(0, 4), send(1, 2), send(2, 3), wake(40_040)]);

    // A newer one waits beside the one that is out, which is not tried again.
    assert_eq!(script.at(50, latest(5, typing(7))), [send(3, 5)]);
    assert_eq!(script.at(60, refused(2, "rate-limited: no")), [evicted(3)]);
}

#[test]
fn a_full_outbox_says_so_at_once_and_latest_jobs_make_room_for_durable_ones() {
    let config = Config {
        jobs_max: 3,
        latest_max: 2,
        ..Config::default()
    };
    let mut script = Script::with(config);
    let _ = script.at(0, latest(1, typing(1)));
    let _ = script.at(0, latest(2, typing(2)));
    assert_eq!(
        without_wake(script.at(0, latest(3, typing(3)))),
        [evicted(1)]
    );

    assert_eq!(without_wake(script.at(0, submit_event(4, 60))), []);
    assert_eq!(
        without_wake(script.at(0, submit_event(5, 60))),
        [evicted(2)]
    );
    assert_eq!(
        without_wake(script.at(0, submit_event(6, 60))),
        [evicted(3)]
    );
    assert_eq!(
        without_wake(script.at(0, submit_event(7, 60))),
        settle(7, Verdict::Evicted)
    );
    assert_eq!(
        without_wake(script.at(0, latest(8, typing(8)))),
        [evicted(8)]
    );
    assert_eq!(script.publisher.view().waiting, 3);
}

#[test]
fn an_event_larger_than_the_outbox_sends_nobody_away() {
    let mut script = Script::with(Config {
        bytes_max: 1_200,
        ..Config::default()
    });
    let _ = script.at(0, latest(1, typing(1)));

    let content = "x".repeat(2_000);
    let body = Body::SignWhenSent(Draft {
        content,
        ..draft(0)
    });
    let large = command(2, Class::Durable, Route::Post, body, None);
    assert_eq!(script.at(0, large), settle(2, Verdict::Evicted));
}

#[test]
fn a_job_expires_when_it_was_never_sent_and_is_unknown_when_it_was() {
    let mut script = Script::new();
    assert_eq!(script.at(0, submit_for(1, 5)), [post(0, 1, 1), wake(5_000)]);
    assert_eq!(script.at(0, submit_event(2, 5)), []);

    let mut expected = settle(1, Verdict::Unknown);
    expected.extend(settle(2, Verdict::Expired));
    expected.push(wake(15_000));
    assert_eq!(script.at(5_000, Input::Tick), expected);

    // The call outlives its job, and its answer still opens or shuts the gate.
    let said = script.at(6_000, answered(0, 429, "{}"));
    let gate = script.gate(&said[0], None, 0, 0, 1);
    assert_eq!(without_wake(script.at(6_100, submit_for(3, 60))), []);
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [post(1, 1, 3)]
    );
}

#[test]
fn a_refused_job_that_expires_is_known_not_to_be_stored() {
    let mut script = Script::new();
    let _ = script.at(0, submit_for(1, 2));
    let _ = script.at(0, submit_for(2, 2));
    let _ = script.at(0, answered(0, 429, "{}"));
    let _ = script.at(0, answered(1, 500, "{}"));

    let mut expected = settle(1, Verdict::Expired);
    expected.extend(settle(2, Verdict::Unknown));
    expected.push(sleep());
    assert_eq!(script.at(2_000, Input::Tick), expected);
}

#[test]
fn a_post_without_an_answer_is_given_up_and_shuts_the_gate() {
    let mut script = Script::new();
    let _ = script.at(0, submit(1));

    let actions = script.at(15_000, Input::Tick);
    assert_eq!(actions[0], abort(0));
    let gate = script.gate(&actions[1], None, 0, 1, 1);
    assert_eq!(
        script.at(16_000, answered(0, 200, ACCEPTED)),
        [stale(StaleWhat::Call)]
    );
    assert_eq!(
        without_wake(script.at_time(gate, Input::Tick)),
        [post(1, 2, 1)]
    );
    let broke = Input::Broke {
        ticket: Ticket(1),
        cause: BrokeCause::Connect,
    };
    let said = script.at_time(gate, broke);
    let next = script.gate(&said[0], None, 0, 1, 2);
    assert!(next > gate);
}

#[test]
fn failures_count_against_a_job_only_while_others_are_stored() {
    let config = Config {
        attempts_max: 3,
        ..Config::default()
    };
    let mut script = Script::with(config);
    let _ = script.at(0, submit(1));

    // The relay fails for all: that costs only time.
    for ticket in 0..20 {
        let actions = script.now(answered(ticket, 500, "{}"));
        let gate = script.opening(&actions[0]);
        let tries = u16::try_from(ticket + 2).expect("a small number");
        assert_eq!(
            without_wake(script.at_time(gate, Input::Tick)),
            [post(ticket + 1, tries, 1)]
        );
    }
    let actions = script.now(answered(20, 500, "{}"));
    assert_eq!(without_wake(actions).len(), 1);

    // It fails for this one alone: the third time after another was stored is final.
    let (mut others, mut stored_others) = (2, 0);
    let mut actions = script.now(submit(others));
    let mut pending = VecDeque::new();
    let last = &settle(1, Verdict::Unknown)[0];
    while !actions.contains(last) {
        assert!(others < 20, "it is tried for ever");
        pending.extend(actions.iter().filter_map(posted));
        actions = match pending.pop_front() {
            Some((ticket, 1)) => script.now(answered(ticket, 500, "{}")),
            Some((ticket, _)) => {
                stored_others += 1;
                others += 1;
                let mut actions = script.now(answered(ticket, 200, ACCEPTED));
                actions.extend(script.now(submit(others)));
                actions
            }
            None => {
                let (at, _) = script.publisher.next_deadline().expect("a gate is shut");
                script.at_time(at, Input::Tick)
            }
        };
    }
    assert_eq!(stored_others, 3);
}

#[test]
fn a_shutdown_cancels_latest_jobs_and_gives_durable_ones_their_grace() {
    let mut script = Script::new();
    let _ = script.at(0, submit(1));
    let _ = script.at(0, submit_event(2, 86_400));
    let _ = script.at(0, latest(3, LatestKey::Presence));

    let shutdown = Input::Command(Command::Shutdown {
        grace: Duration::from_secs(10),
    });
    let cancelled = Action::Settle {
        job: JobId(3),
        verdict: Verdict::Cancelled,
    };
    assert_eq!(script.at(1_000, shutdown), [cancelled, wake(11_000)]);
    assert_eq!(script.at(1_100, submit(4)), settle(4, Verdict::Cancelled));

    let mut expected = settle(1, Verdict::Unknown);
    expected.extend(settle(2, Verdict::Cancelled));
    expected.extend([abort(0), Action::Ended, sleep()]);
    assert_eq!(script.at(11_000, Input::Tick), expected);
    assert_eq!(script.at(12_000, submit(5)), settle(5, Verdict::Cancelled));
    assert_eq!(
        script.at(12_000, answered(0, 200, ACCEPTED)),
        [stale(StaleWhat::Call)]
    );
    assert!(script.publisher.view().is_ended);
}

#[test]
fn a_shutdown_ends_as_soon_as_nothing_is_owed() {
    let mut script = Script::new();
    let _ = script.at(0, submit(1));
    let _ = script.at(
        0,
        Input::Command(Command::Shutdown {
            grace: Duration::from_secs(10),
        }),
    );

    let last = script.at(100, answered(0, 200, ACCEPTED));
    assert_eq!(last, [stored(1), Action::Ended, sleep()]);
}

#[test]
fn a_full_outbox_drains_in_the_order_of_submission() {
    let mut script = Script::new();
    for job in 1..=2_048 {
        let _ = script.at(0, submit(job));
    }
    assert_eq!(
        without_wake(script.at(0, submit(3_000))),
        settle(3_000, Verdict::Evicted)
    );

    let mut order = Vec::new();
    let mut tickets: VecDeque<u64> = (0..4).collect();
    while let Some(ticket) = tickets.pop_front() {
        let mut actions = script.now(answered(ticket, 200, ACCEPTED));
        if tickets.is_empty() {
            while let Some((at, _)) = script.publisher.next_deadline() {
                actions.extend(script.at_time(at, Input::Tick));
                if actions
                    .iter()
                    .any(|action| matches!(action, Action::Post { .. }))
                {
                    break;
                }
            }
        }
        for action in actions {
            match action {
                Action::Settle {
                    job,
                    verdict: Verdict::Stored,
                } => order.push(job.0),
                Action::Post { ticket, .. } => tickets.push_back(ticket.0),
                Action::WakeAt(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(order, (1..=2_048).collect::<Vec<_>>());
}

struct Script {
    publisher: Publisher,
    last: MonoTime,
}

impl Script {
    fn new() -> Self {
        Self::with(Config::default())
    }

    fn with(config: Config) -> Self {
        let publisher = Publisher::new(config, Seed(7), MonoTime::ZERO).expect("it can work");
        Self {
            publisher,
            last: MonoTime::ZERO,
        }
    }

    fn at(&mut self, millis: u64, input: Input) -> Vec<Action> {
        self.at_time(ms(millis), input)
    }

    /// At the time of the last input.
    fn now(&mut self, input: Input) -> Vec<Action> {
        self.at_time(self.last, input)
    }

    /// When the gate opens that this action speaks of; checks all it says.
    fn gate(
        &self,
        action: &Action,
        source: Option<HintSource>,
        in_flight: u32,
        waiting: u32,
        attempt: u32,
    ) -> MonoTime {
        let Action::Note(Note::Throttled { wait, .. }) = action else {
            panic!("{action:?}")
        };
        let (quota, wait) = (Quota::Http, *wait);
        let said = Note::Throttled {
            quota,
            source,
            wait,
            in_flight,
            waiting,
            attempt,
        };
        assert_eq!(*action, Action::Note(said));
        self.last.after(wait).round_up()
    }

    fn opening(&self, action: &Action) -> MonoTime {
        let Action::Note(Note::Throttled { wait, .. }) = action else {
            panic!("{action:?}")
        };
        self.last.after(*wait).round_up()
    }

    fn at_time(&mut self, now: MonoTime, input: Input) -> Vec<Action> {
        assert!(now >= self.last, "a script goes forward");
        self.last = now;
        let actions = self.publisher.handle_input(input, now);
        assert!(
            self.publisher
                .next_deadline()
                .is_none_or(|(at, _)| at > now)
        );
        assert_eq!(self.publisher.handle_input(Input::Tick, now), []);
        actions
    }
}

const fn ms(millis: u64) -> MonoTime {
    MonoTime::from_nanos(millis * 1_000_000)
}

fn event(id: u64) -> Event {
    let zeros = "0".repeat(64);
    let json = format!(
        r#"{{"id":"{id:064x}","pubkey":"{zeros}","created_at":1,"kind":9,"tags":[],"content":"","sig":"{zeros}{zeros}"}}"#
    );
    Event::decode(Bytes::from(json)).expect("an event")
}

fn draft(created_at: u64) -> Draft {
    let created_at = UnixTime(created_at);
    Draft {
        kind: 9,
        created_at,
        tags: Vec::new(),
        content: String::from("hello"),
    }
}

fn command(job: u64, class: Class, route: Route, body: Body, ttl: Option<u64>) -> Input {
    let ttl = ttl.map(Duration::from_secs);
    Input::Command(Command::Submit {
        job: JobId(job),
        class,
        route,
        body,
        ttl,
    })
}

/// A durable job whose event has the job's number as its id.
fn submit(job: u64) -> Input {
    command(
        job,
        Class::Durable,
        Route::Post,
        Body::Signed(event(job)),
        None,
    )
}

fn submit_for(job: u64, seconds: u64) -> Input {
    command(
        job,
        Class::Durable,
        Route::Post,
        Body::Signed(event(job)),
        Some(seconds),
    )
}

fn submit_draft(job: u64) -> Input {
    command(
        job,
        Class::Durable,
        Route::Post,
        Body::SignWhenSent(draft(0)),
        None,
    )
}

fn submit_event(job: u64, seconds: u64) -> Input {
    command(
        job,
        Class::Durable,
        Route::Socket,
        Body::Signed(event(job)),
        Some(seconds),
    )
}

fn latest(job: u64, key: LatestKey) -> Input {
    command(
        job,
        Class::Latest(key),
        Route::Socket,
        Body::Signed(event(job)),
        None,
    )
}

fn typing(channel: u8) -> LatestKey {
    LatestKey::Typing(Scope::Conversation(buzz_proto::ids::ChannelId(
        [channel; 16],
    )))
}

fn cancel(job: u64) -> Input {
    Input::Command(Command::Cancel { job: JobId(job) })
}

fn signed(ticket: u64, id: u64) -> Input {
    Input::Signed {
        ticket: Ticket(ticket),
        event: event(id).raw().clone(),
    }
}

fn answered(ticket: u64, status: u16, body: &str) -> Input {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let answer = HttpAnswer {
        status,
        retry_after: None,
        date: None,
        body,
    };
    Input::Answered {
        ticket: Ticket(ticket),
        answer,
    }
}

fn refused_with_header(ticket: u64, header: &'static str) -> Input {
    let retry_after = Some(Bytes::from_static(header.as_bytes()));
    let answer = HttpAnswer {
        status: 429,
        retry_after,
        date: None,
        body: Bytes::new(),
    };
    Input::Answered {
        ticket: Ticket(ticket),
        answer,
    }
}

fn limited(seconds: u64) -> String {
    format!(r#"{{"error":"rate-limited: quota exceeded; retry in {seconds}s"}}"#)
}

fn accepted(ticket: u64) -> Input {
    let receipt = Receipt::Answered {
        accepted: true,
        reason: Reason::new(""),
    };
    Input::Receipt {
        ticket: Ticket(ticket),
        receipt,
    }
}

fn refused(ticket: u64, text: &str) -> Input {
    let receipt = Receipt::Answered {
        accepted: false,
        reason: Reason::new(text),
    };
    Input::Receipt {
        ticket: Ticket(ticket),
        receipt,
    }
}

fn post(ticket: u64, attempt: u16, id: u64) -> Action {
    Action::Post {
        ticket: Ticket(ticket),
        attempt,
        event: event(id),
    }
}

fn send(ticket: u64, id: u64) -> Action {
    Action::Send {
        ticket: Ticket(ticket),
        event: event(id),
    }
}

const fn abort(ticket: u64) -> Action {
    Action::Abort {
        ticket: Ticket(ticket),
    }
}

const fn stored(job: u64) -> Action {
    Action::Settle {
        job: JobId(job),
        verdict: Verdict::Stored,
    }
}

const fn evicted(job: u64) -> Action {
    Action::Settle {
        job: JobId(job),
        verdict: Verdict::Evicted,
    }
}

fn rejected(text: &str) -> Verdict {
    Verdict::Rejected {
        reason: Reason::new(text),
    }
}

/// The verdict on a durable job that was not stored, and its note.
fn settle(job: u64, verdict: Verdict) -> Vec<Action> {
    let job = JobId(job);
    let note = Note::Unpublished {
        job,
        verdict: verdict.clone(),
    };
    vec![Action::Settle { job, verdict }, Action::Note(note)]
}

fn with<const N: usize>(mut actions: Vec<Action>, more: [Action; N]) -> Vec<Action> {
    actions.extend(more);
    actions
}

/// Ticket and event of a post.
fn posted(action: &Action) -> Option<(u64, u8)> {
    match action {
        Action::Post { ticket, event, .. } => Some((ticket.0, event.id().0[31])),
        Action::Sign { .. }
        | Action::Abort { .. }
        | Action::Send { .. }
        | Action::Settle { .. }
        | Action::Ended
        | Action::Note(_)
        | Action::WakeAt(_) => None,
    }
}

const fn stale(what: StaleWhat) -> Action {
    Action::Note(Note::Stale { what })
}

const fn wake(millis: u64) -> Action {
    wake_at(ms(millis))
}

/// The end of a durable job's own limit.
const fn wake_day(submitted: u64) -> Action {
    wake(submitted + 24 * 3_600_000)
}

const fn wake_at(at: MonoTime) -> Action {
    Action::WakeAt(Some(at))
}

const fn sleep() -> Action {
    Action::WakeAt(None)
}

fn without_wake(mut actions: Vec<Action>) -> Vec<Action> {
    actions.retain(|action| !matches!(action, Action::WakeAt(_)));
    actions
}
