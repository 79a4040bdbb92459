//! What is said of ended turns, and when their events are disposed of.

use buzz_proto::ids::TurnId;
use buzz_proto::note::{TurnFailure, TurnOutcome};
use buzz_proto::publish::{LatestKey, Verdict};
use buzz_proto::relay::Disposal;
use buzz_proto::schedule::{Config, FailureClass, Input, Limits, StopReason, TurnEnd};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::{Draft, Excerpt};

use crate::support::{
    ROOM, START, Script, answered, config, cosmetic_job, dispose, ended, id, limits, mention,
    message, posted, reply, secs, settled, shown, thread,
};

const AGAIN: &str = "You can send it again.";

fn needs_human(text: &str) -> TurnFailure {
    TurnFailure::NeedsHuman {
        text: Excerpt::new(text),
    }
}

fn failed(turn: u64, text: &str) -> Input {
    let end = TurnEnd::Failed {
        class: FailureClass::NeedsHuman,
        text: Excerpt::new(text),
    };
    Input::Finished {
        turn: TurnId(turn),
        end,
    }
}

#[test]
fn an_answer_is_published_and_its_verdict_disposes_of_the_event() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    assert_eq!(
        script.give(answered(0, " hi\n")),
        [message(0, 1, START, "hi")]
    );
    let expected = [
        ended(0, thread(1), TurnOutcome::Answered),
        dispose(1, Disposal::Accepted),
    ];
    assert_eq!(script.give(settled(0, Verdict::Stored)), expected);
}

#[test]
fn an_answer_in_a_thread_names_its_root_and_what_it_answers() {
    let mut script = Script::working(config());
    script.prompt(0, &reply(2, 1));
    let (root, answered_id) = (id(1).to_string(), id(2).to_string());
    let tags: [&[&str]; 2] = [&["e", &root, "", "root"], &["e", &answered_id, "", "reply"]];
    assert_eq!(
        script.give(answered(0, "hi")),
        [posted(0, START, "hi", &tags)]
    );
}

#[test]
fn the_messages_of_a_scope_go_one_at_a_time_and_a_second_apart() {
    let (mut script, second) = answered_in_two_parts();
    script.prompt(1, &reply(2, 1));
    assert_eq!(script.give(answered(1, "third")), []);
    let actions = script.give(settled(0, Verdict::Stored));
    assert_eq!(actions, [message(1, 1, START + 1, &second)]);
    let tags: [&[&str]; 2] = [
        &["e", &id(1).to_string(), "", "root"],
        &["e", &id(2).to_string(), "", "reply"],
    ];
    let expected = [
        ended(0, thread(1), TurnOutcome::Answered),
        dispose(1, Disposal::Accepted),
        posted(2, START + 2, "third", &tags),
    ];
    assert_eq!(script.give(settled(1, Verdict::Stored)), expected);
}

#[test]
fn what_follows_a_message_that_waited_is_dated_after_its_signature() {
    let (mut script, second) = answered_in_two_parts();
    // The publisher dated it again when it was signed, at the latest now.
    script.wait(secs(40));
    let actions = script.give(settled(0, Verdict::Stored));
    assert_eq!(actions, [message(1, 1, START + 41, &second)]);
}

#[test]
fn a_typing_indicator_without_a_verdict_is_taken_back_when_its_turn_ends() {
    let cosmetics = true;
    for is_settled in [false, true] {
        let mut script = Script::working(Config {
            cosmetics,
            ..config()
        });
        script.give(Input::Link { live: true });
        script.prompt(0, &mention(1));
        let job = cosmetic_job(1);
        if is_settled {
            let verdict = Verdict::Stored;
            script.give(Input::Settled { job, verdict });
        }
        let mut expected = vec![message(0, 1, START, "hi")];
        if !is_settled {
            let cancel = buzz_proto::publish::Command::Cancel { job };
            expected.insert(0, buzz_proto::schedule::Action::Publish(cancel));
        }
        assert_eq!(script.give(answered(0, "hi")), expected);
    }
}

#[test]
fn a_failure_is_said_in_the_thread_before_the_event_is_disposed_of() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    let text = format!(
        "I could not answer this message: someone must see to my worker first. It said: \"no\". {AGAIN}"
    );
    assert_eq!(script.give(failed(0, "no")), [message(0, 1, START, &text)]);
    let outcome = TurnOutcome::Reported {
        why: needs_human("no"),
    };
    let expected = [ended(0, thread(1), outcome), dispose(1, Disposal::Accepted)];
    assert_eq!(script.give(settled(0, Verdict::Stored)), expected);
}

#[test]
fn a_failure_that_cannot_be_said_is_at_least_noted() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.give(failed(0, "no"));
    let outcome = TurnOutcome::Unreported {
        why: needs_human("no"),
    };
    let expected = [ended(0, thread(1), outcome), dispose(1, Disposal::Accepted)];
    assert_eq!(script.give(settled(0, Verdict::Expired)), expected);
}

#[test]
fn without_notices_a_failure_is_noted_at_once() {
    let mut script = Script::working(Config {
        notices: false,
        ..config()
    });
    script.prompt(0, &mention(1));
    let outcome = TurnOutcome::Unreported {
        why: TurnFailure::Empty,
    };
    let expected = [ended(0, thread(1), outcome), dispose(1, Disposal::Accepted)];
    assert_eq!(script.give(answered(0, " \n")), expected);
}

#[test]
fn an_answer_that_is_not_stored_is_replaced_by_one_notice() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.give(answered(0, "hi"));
    let text = format!("My answer to this message could not be posted in time. {AGAIN}");
    let actions = script.give(settled(0, Verdict::Expired));
    assert_eq!(actions, [message(1, 1, START + 1, &text)]);
    let why = TurnFailure::NotStored {
        verdict: Verdict::Expired,
    };
    let expected = [
        ended(0, thread(1), TurnOutcome::Unreported { why }),
        dispose(1, Disposal::Accepted),
    ];
    assert_eq!(script.give(settled(1, Verdict::Unknown)), expected);
}

#[test]
fn an_answer_that_is_not_complete_says_so() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    let end = TurnEnd::Answered {
        reply: "hi".to_string(),
        stop: StopReason::MaxTokens,
    };
    let actions = script.give(Input::Finished {
        turn: TurnId(0),
        end,
    });
    let text = "hi\n\n(The answer stops here because the model ran out of tokens.)";
    let close = buzz_proto::schedule::Action::CloseSession {
        session: crate::support::session(0, 1),
    };
    assert_eq!(actions, [close, message(0, 1, START, text)]);
}

#[test]
fn presence_and_typing_are_shown_while_there_is_a_connection() {
    let mut script = Script::working(Config {
        cosmetics: true,
        ..config()
    });
    let presence = |job, created_at| {
        let draft = Draft {
            kind: 20_001,
            created_at: UnixTime(created_at),
            tags: Vec::new(),
            content: "online".to_string(),
        };
        shown(job, LatestKey::Presence, draft, None)
    };
    let typing = |job, created_at| {
        let tags = vec![
            vec!["h".to_string(), ROOM.to_string()],
            vec!["e".to_string(), id(1).to_string()],
        ];
        let created_at = UnixTime(created_at);
        let draft = Draft {
            kind: 20_002,
            created_at,
            tags,
            content: String::new(),
        };
        shown(job, LatestKey::Typing(thread(1)), draft, Some(secs(5)))
    };
    script.prompt(0, &mention(1));
    let live = Input::Link { live: true };
    assert_eq!(script.give(live), [presence(0, START), typing(1, START)]);
    assert_eq!(script.wait(secs(3)), [typing(2, START + 3)]);
    let job = cosmetic_job(0);
    assert_eq!(
        script.give(Input::Settled {
            job,
            verdict: Verdict::Expired
        }),
        []
    );
    script.give(answered(0, "hi"));
    script.give(settled(0, Verdict::Stored));
    assert_eq!(script.wait(secs(56)), []);
    assert_eq!(script.wait(secs(1)), [presence(3, START + 60)]);
    assert_eq!(script.give(Input::Link { live: false }), []);
    assert_eq!(script.wait(secs(600)), []);
}

#[test]
fn typing_in_all_threads_together_stays_within_twenty_a_minute_and_a_burst() {
    let mut script = Script::working(Config {
        cosmetics: true,
        workers: 8,
        ..config()
    });
    script.give(Input::Link { live: true });
    let mut shown = 0;
    for n in 0..8 {
        shown += typing_of(&script.arrive(&mention(n)));
    }
    for _ in 0..57 {
        shown += typing_of(&script.wait(secs(1)));
    }
    assert_eq!(shown, 4 + 57 / 3);
}

fn typing_of(actions: &[buzz_proto::schedule::Action]) -> usize {
    use buzz_proto::publish::{Class, Command};
    use buzz_proto::schedule::Action;
    let is_typing = |action: &&Action| {
        matches!(
            action,
            Action::Publish(Command::Submit {
                class: Class::Latest(LatestKey::Typing(_)),
                ..
            })
        )
    };
    actions.iter().filter(is_typing).count()
}

/// An answer of which the first part is submitted; gives the second.
fn answered_in_two_parts() -> (Script, String) {
    let limits = Limits {
        message_bytes_max: 256,
        ..limits()
    };
    let mut script = Script::working(Config { limits, ..config() });
    script.prompt(0, &mention(1));
    let (first, second) = ("a".repeat(200), "b".repeat(200));
    let actions = script.give(answered(0, &format!("{first}\n{second}")));
    assert_eq!(actions, [message(0, 1, START, &first)]);
    (script, second)
}
