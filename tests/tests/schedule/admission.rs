//! Who is heard, what is one conversation, and what the owner may command.

use buzz_proto::ids::TurnId;
use buzz_proto::note::{Note, RefusedWhy, TurnOutcome};
use buzz_proto::publish::{self, Body, Verdict};
use buzz_proto::relay::Disposal;
use buzz_proto::schedule::{
    Action, Command, Config, Input, Limits, RespondTo, Scope, Session, Target, Want,
};
use buzz_proto::wire::Event;

use crate::support::{
    DIRECT, ME, OWNER, ROOM, STRANGER, Said, Script, cancel, command, config, dispose, ended,
    found, id, left, limits, mention, note, reply, session, settled, start, thread,
};

#[test]
fn an_agent_does_not_hear_itself() {
    let mut script = Script::working(config());
    let own = Said {
        author: ME,
        ..Said::default()
    }
    .event();
    assert_eq!(
        script.arrive(&own),
        [left(ROOM, 1), dispose(1, Disposal::Discarded)]
    );
}

#[test]
fn an_event_for_somebody_else_is_refused_with_its_reason() {
    let strict = Config {
        respond_to: RespondTo::OwnerOnly,
        ..config()
    };
    let nobody = Config {
        respond_to: RespondTo::Nobody,
        ..config()
    };
    let listed = Config {
        respond_to: RespondTo::Allowlist(vec![STRANGER]),
        ..config()
    };
    let direct = Said {
        channel: DIRECT,
        ..Said::default()
    };
    let unknown = Said {
        channel: buzz_proto::ids::ChannelId([9; 16]),
        ..Said::default()
    };
    let cases = [
        (strict, Said::default(), RefusedWhy::Author),
        (
            nobody,
            Said {
                author: OWNER,
                ..Said::default()
            },
            RefusedWhy::Author,
        ),
        (listed, direct, RefusedWhy::Author),
        (config(), unknown, RefusedWhy::Author),
        (
            config(),
            Said {
                kind: 7,
                ..Said::default()
            },
            RefusedWhy::Kind,
        ),
        (
            config(),
            Said {
                mentions: false,
                ..Said::default()
            },
            RefusedWhy::NoMention,
        ),
    ];
    for (config, said, why) in cases {
        let mut script = Script::working(config);
        let expected = [
            note(Note::Refused { event: id(1), why }),
            left(said.channel, 1),
            dispose(1, Disposal::Discarded),
        ];
        let mut told = script.arrive(&said.event());
        if let [Action::Query { ticket, .. }] = told[..] {
            // Whether its author is an agent of the same owner is asked first.
            let answer = found(&[]);
            told = script.give(Input::Answered { ticket, answer });
        }
        assert_eq!(told, expected);
    }
}

#[test]
fn each_thread_of_a_room_is_a_conversation_and_a_direct_message_is_one_as_a_whole() {
    let mut script = Script::working(Config {
        workers: 3,
        ..config()
    });
    let (first, second) = (mention(1), reply(3, 2));
    let fresh = |slot, epoch| Session::Fresh(session(slot, epoch));
    assert_eq!(
        script.arrive(&first),
        start(0, thread(1), fresh(0, 1), &[first])
    );
    assert_eq!(
        script.arrive(&second),
        start(1, thread(2), fresh(1, 2), &[second])
    );
    let said = Said {
        id: 4,
        root: Some(3),
        channel: DIRECT,
        author: OWNER,
        ..Said::default()
    };
    let direct = said.event();
    let scope = Scope::Conversation(DIRECT);
    assert_eq!(
        script.arrive(&direct),
        start(2, scope, fresh(2, 3), &[direct])
    );
}

#[test]
fn an_event_that_finds_no_room_is_refused_for_now_which_is_no_outcome() {
    let limits = Limits {
        channel_max: 1,
        ..limits()
    };
    let mut script = Script::new(Config { limits, ..config() });
    assert_eq!(script.arrive(&mention(1)), []);
    let expected = [left(ROOM, 1), dispose(2, Disposal::RefusedForNow)];
    assert_eq!(script.arrive(&mention(2)), expected);
}

#[test]
fn a_command_in_a_thread_stops_its_turn_and_no_other() {
    let mut script = Script::working(Config {
        workers: 2,
        ..config()
    });
    script.arrive(&mention(1));
    script.arrive(&mention(2));
    let controlled = Note::Controlled {
        scope: thread(2),
        want: Want::Stop,
        discarded: 1,
    };
    let expected = [
        left(ROOM, 1),
        dispose(3, Disposal::Accepted),
        note(controlled),
        cancel(1),
    ];
    assert_eq!(script.arrive(&command(3, Some(2), "  !cancel ")), expected);
}

#[test]
fn a_command_at_top_level_stops_every_turn_of_its_channel() {
    let mut script = Script::working(Config {
        workers: 2,
        ..config()
    });
    script.arrive(&mention(1));
    script.arrive(&mention(2));
    let controlled = |root| {
        note(Note::Controlled {
            scope: thread(root),
            want: Want::Stop,
            discarded: 1,
        })
    };
    let expected = [
        left(ROOM, 1),
        dispose(3, Disposal::Accepted),
        controlled(1),
        controlled(2),
        cancel(0),
        cancel(1),
    ];
    assert_eq!(script.arrive(&command(3, None, "!cancel")), expected);
}

#[test]
fn a_command_that_finds_nothing_says_so() {
    let mut script = Script::working(config());
    let said = script.arrive(&command(3, None, "!rotate"));
    let want = Want::StopAndRotate;
    let expected = [
        left(ROOM, 1),
        dispose(3, Disposal::Accepted),
        note(Note::NothingToControl { want }),
    ];
    assert_eq!(said[..3], expected);
    let Action::Publish(publish::Command::Submit { body, .. }) = &said[3] else {
        panic!("{said:?}");
    };
    let Body::SignWhenSent(draft) = body else {
        panic!("{body:?}");
    };
    assert_eq!(draft.content, "I have no session here.");
    assert_eq!(script.give(settled(0, Verdict::Stored)), []);
}

#[test]
fn a_command_dated_far_from_now_is_refused_and_is_no_prompt() {
    let mut script = Script::working(config());
    let said = Said {
        author: OWNER,
        content: "!shutdown",
        ..Said::default()
    };
    let dated = |created_at| Said { created_at, ..said }.event();
    let refused = Note::Refused {
        event: id(1),
        why: RefusedWhy::StaleCommand,
    };
    let expected = [
        note(refused),
        left(ROOM, 1),
        dispose(1, Disposal::Discarded),
    ];
    for far in [said.created_at - 301, said.created_at + 61] {
        assert_eq!(script.arrive(&dated(far)), expected);
    }
    let expected = [
        left(ROOM, 1),
        dispose(1, Disposal::Accepted),
        Action::ShutdownRequested,
    ];
    for near in [said.created_at - 300, said.created_at + 60] {
        assert_eq!(script.arrive(&dated(near)), expected);
    }
}

#[test]
fn the_words_of_a_command_by_anyone_else_are_a_message() {
    let mut script = Script::working(config());
    let event = Said {
        content: "!shutdown",
        ..Said::default()
    }
    .event();
    let fresh = Session::Fresh(session(0, 1));
    assert_eq!(script.arrive(&event), start(0, thread(1), fresh, &[event]));
}

#[test]
fn dropping_discards_what_waited_before_and_nothing_that_comes_after() {
    let mut script = Script::working(config());
    let events: Vec<Event> = (2..5).map(|n| reply(n, 1)).collect();
    script.prompt(0, &mention(1));
    script.arrive(&events[0]);
    script.arrive(&events[1]);
    let want = Want::StopAndDrop;
    let control = Command::Control {
        target: Target::Scope(thread(1)),
        want,
    };
    let expected = [
        left(ROOM, 2),
        dispose(2, Disposal::Discarded),
        dispose(3, Disposal::Discarded),
        note(Note::Controlled {
            scope: thread(1),
            want,
            discarded: 3,
        }),
        cancel(0),
    ];
    assert_eq!(script.give(Input::Command(control)), expected);
    script.arrive(&events[2]);
    let mut expected = vec![
        ended(0, thread(1), TurnOutcome::Discarded),
        dispose(1, Disposal::Discarded),
    ];
    let resumed = Session::Resume(session(0, 1));
    expected.extend(start(1, thread(1), resumed, &events[2..]));
    let end = buzz_proto::schedule::TurnEnd::Cancelled;
    assert_eq!(
        script.give(Input::Finished {
            turn: TurnId(0),
            end
        }),
        expected
    );
}

#[test]
fn rotating_gives_the_next_turn_a_fresh_session() {
    let mut script = Script::working(config());
    script.prompt(0, &mention(1));
    script.arrive(&command(2, Some(1), "!rotate"));
    let end = buzz_proto::schedule::TurnEnd::Cancelled;
    let expected = [
        Action::CloseSession {
            session: session(0, 1),
        },
        ended(0, thread(1), TurnOutcome::Discarded),
        dispose(1, Disposal::Discarded),
    ];
    assert_eq!(
        script.give(Input::Finished {
            turn: TurnId(0),
            end
        }),
        expected
    );
    let next = reply(3, 1);
    let fresh = Session::Fresh(session(0, 2));
    assert_eq!(script.arrive(&next), start(1, thread(1), fresh, &[next]));
}
