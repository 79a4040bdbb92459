//! What a fresh session is told of the time before it.

use buzz_proto::ids::TurnId;
use buzz_proto::note::Note;
use buzz_proto::relay::{BrokeCause, HttpAnswer};
use buzz_proto::schedule::{Action, Command, Config, Context, Input, Limits, Want};
use buzz_proto::wire::Event;

use crate::seen::{checks_of, query_of, starts_of};
use crate::support::{
    DIRECT, OWNER, ROOM, STRANGER, Said, Script, answered, command, config, found, id, mention,
    millis, note, reply, secs, tagged, thread, worker,
};

fn informed() -> Config {
    Config {
        limits: Limits::default(),
        ..config()
    }
}

/// The context of the turn that starts.
fn context_of(actions: &[Action]) -> Option<Context> {
    actions.iter().find_map(|action| {
        if let Action::Start { context, .. } = action {
            return Some(context.clone());
        }
        None
    })
}

/// What is said of the answer once all of it was found genuine.
fn confirm(script: &mut Script, actions: &[Action]) -> Vec<Action> {
    let mut last = Vec::new();
    for (ticket, ..) in checks_of(actions) {
        let genuine = true;
        last = script.give(Input::Verified { ticket, genuine });
    }
    last
}

fn earlier(n: u16, root: Option<u16>, dated: u64) -> Event {
    Said {
        id: n,
        root,
        created_at: dated,
        ..Said::default()
    }
    .event()
}

#[test]
fn a_thread_that_goes_on_in_a_fresh_session_is_told_what_was_said_oldest_first() {
    let mut script = Script::working(informed());

    let (ticket, body) = query_of(&script.arrive(&reply(9, 1)));
    let root = id(1);
    let expected = format!(
        r##"[{{"ids":["{root}"]}},{{"kinds":[9,46010,40007],"#h":["{ROOM}"],"#e":["{root}"],"limit":12}}]"##
    );
    assert_eq!(body, expected);
    let (first, second) = (earlier(1, None, 100), earlier(2, Some(1), 200));
    let answer = found(&[second.clone(), first.clone()]);
    let asked = script.give(Input::Answered { ticket, answer });
    assert_eq!(starts_of(&asked), []);
    let begun = confirm(&mut script, &asked);

    assert_eq!(
        context_of(&begun),
        Some(Context::Before(vec![first, second]))
    );
}

#[test]
fn nothing_is_asked_where_the_batch_begins_the_thread_or_the_session_goes_on() {
    let mut script = Script::working(informed());
    assert_eq!(
        context_of(&script.arrive(&mention(1))),
        Some(Context::Known)
    );
    let turn = TurnId(0);
    script.give(Input::SessionOpened { turn });
    script.give(answered(0, "hi"));
    assert_eq!(
        context_of(&script.arrive(&reply(2, 1))),
        Some(Context::Known)
    );
}

#[test]
fn a_conversation_is_told_the_latest_of_its_channel() {
    let mut script = Script::working(informed());
    let direct = Said {
        author: OWNER,
        channel: DIRECT,
        ..Said::default()
    };
    let (_, body) = query_of(&script.arrive(&direct.event()));
    let expected = format!(r##"[{{"kinds":[9,46010,40007],"#h":["{DIRECT}"],"limit":12}}]"##);
    assert_eq!(body, expected);
}

#[test]
fn a_long_thread_is_told_by_its_root_and_its_latest_messages() {
    let mut script = Script::working(informed());
    let (ticket, _) = query_of(&script.arrive(&reply(99, 1)));
    let root = earlier(1, None, 100);
    let later: Vec<_> = (2..20)
        .map(|n| earlier(n, Some(1), 100 + u64::from(n)))
        .collect();
    let answer = found(&[&later[..], std::slice::from_ref(&root)].concat());

    let asked = script.give(Input::Answered { ticket, answer });
    let begun = confirm(&mut script, &asked);

    let latest = &later[later.len() - 11..];
    let told = [&[root], latest].concat();
    assert_eq!(context_of(&begun), Some(Context::Before(told)));
}

#[test]
fn what_does_not_belong_there_or_is_not_genuine_is_not_told() {
    let mut script = Script::working(informed());
    let (ticket, _) = query_of(&script.arrive(&reply(9, 1)));
    let elsewhere = tagged(3, STRANGER, 9, &[&["h", &DIRECT.to_string()]]);
    let other_thread = earlier(4, Some(8), 300);
    let (genuine, forged) = (earlier(2, Some(1), 200), earlier(5, Some(1), 400));
    let answer = found(&[
        elsewhere,
        other_thread,
        reply(9, 1),
        genuine.clone(),
        forged.clone(),
    ]);

    let asked = script.give(Input::Answered { ticket, answer });
    let checks = checks_of(&asked);
    assert_eq!(checks.len(), 2);
    let mut begun = Vec::new();
    for (ticket, event, _) in checks {
        let genuine = event != forged.id();
        begun = script.give(Input::Verified { ticket, genuine });
    }

    assert_eq!(context_of(&begun), Some(Context::Before(vec![genuine])));
}

#[test]
fn only_the_latest_are_told() {
    let mut script = Script::working(informed());
    let (ticket, _) = query_of(&script.arrive(&reply(99, 1)));
    let said: Vec<Event> = (2..22).map(|n| earlier(n, Some(1), u64::from(n))).collect();
    let asked = script.give(Input::Answered {
        ticket,
        answer: found(&said),
    });
    let begun = confirm(&mut script, &asked);
    assert_eq!(
        context_of(&begun),
        Some(Context::Before(said[8..].to_vec()))
    );
}

#[test]
fn a_turn_starts_without_what_comes_too_late_and_says_so() {
    let mut script = Script::working(informed());
    query_of(&script.arrive(&reply(2, 1)));

    assert_eq!(script.wait(millis(6499)), []);
    let begun = script.wait(millis(1));

    assert!(matches!(begun[0], Action::Abort { .. }), "{begun:?}");
    let (turn, scope) = (TurnId(0), thread(1));
    assert_eq!(begun[1], note(Note::ContextUnread { turn, scope }));
    assert_eq!(context_of(&begun), Some(Context::Unread));
}

#[test]
fn a_query_that_fails_is_not_repeated_once_the_gate_opens_too_late_for_it() {
    let mut script = Script::working(informed());
    let (ticket, _) = query_of(&script.arrive(&reply(2, 1)));
    let answer = HttpAnswer {
        status: 429,
        retry_after: Some("60".into()),
        ..found(&[])
    };
    let begun = script.give(Input::Answered { ticket, answer });
    assert_eq!(context_of(&begun), Some(Context::Unread));
}

#[test]
fn a_query_that_breaks_is_repeated_once() {
    let mut script = Script::working(informed());
    let mut asked = script.arrive(&reply(2, 1));
    let mut tries = 0;
    while context_of(&asked).is_none() {
        if asked
            .iter()
            .any(|action| matches!(action, Action::Query { .. }))
        {
            tries += 1;
            let (ticket, _) = query_of(&asked);
            let cause = BrokeCause::Connect;
            asked = script.give(Input::Broke { ticket, cause });
        } else {
            asked = script.jump();
        }
    }
    assert!((1..=2).contains(&tries), "{tries}");
}

#[test]
fn an_answer_that_says_nothing_is_asked_for_twice_and_no_more() {
    let mut script = Script::working(informed());
    let nonsense = || HttpAnswer {
        body: bytes::Bytes::from_static(b"[{}]"),
        ..found(&[])
    };

    let (ticket, _) = query_of(&script.arrive(&reply(2, 1)));
    let answer = nonsense();
    let (ticket, _) = query_of(&script.give(Input::Answered { ticket, answer }));
    let answer = nonsense();
    let begun = script.give(Input::Answered { ticket, answer });

    assert_eq!(context_of(&begun), Some(Context::Unread));
}

#[test]
fn a_relay_that_knows_no_queries_is_asked_once() {
    let mut script = Script::working(informed());
    let (ticket, _) = query_of(&script.arrive(&reply(2, 1)));
    let answer = HttpAnswer {
        status: 404,
        ..found(&[])
    };
    let begun = script.give(Input::Answered { ticket, answer });
    assert_eq!(context_of(&begun), Some(Context::Unread));
    script.give(Input::SessionOpened { turn: TurnId(0) });
    script.give(answered(0, "hi"));
    assert_eq!(
        context_of(&script.arrive(&reply(4, 3))),
        Some(Context::Unread)
    );
}

#[test]
fn a_turn_that_is_stopped_while_it_gathers_is_never_started() {
    let mut script = Script::working(informed());
    query_of(&script.arrive(&reply(2, 1)));

    let told = script.arrive(&command(3, Some(1), "!cancel"));

    let is_worker_order =
        |action: &Action| matches!(action, Action::Start { .. } | Action::CancelTurn { .. });
    assert!(!told.iter().any(is_worker_order), "{told:?}");
    assert!(
        told.iter()
            .any(|action| matches!(action, Action::Abort { .. }))
    );
    assert_eq!(script.scheduler.view().running, 0);
    assert_eq!(script.scheduler.view().sessions, 0);
    // The worker is free.
    assert_eq!(starts_of(&script.arrive(&mention(4))).len(), 1);
}

#[test]
fn what_gathers_when_time_is_up_or_its_channel_is_left_has_its_end() {
    let grace = secs(1);
    let mut script = Script::working(informed());
    query_of(&script.arrive(&reply(2, 1)));
    script.give(Input::Command(Command::Shutdown { grace }));
    let told = script.wait(grace);
    let (scope, count) = (thread(1), 1);
    assert!(told.contains(&note(Note::HandedBack { scope, count })));
    assert!(told.contains(&Action::Kill { worker: worker(0) }));

    let mut script = Script::working(informed());
    query_of(&script.arrive(&reply(2, 1)));
    let state = buzz_proto::relay::ChannelState::Left;
    let channel = ROOM;
    let told = script.give(Input::Channel { channel, state });
    let want = Want::StopAndRotate;
    let discarded = 1;
    assert!(told.contains(&note(Note::Controlled {
        scope,
        want,
        discarded
    })));
    assert_eq!(script.scheduler.view().running, 0);
}
