//! Agents of the same owner, and workflows that speak for a person.

use buzz_proto::ids::PubKey;
use buzz_proto::note::{Note, RefusedWhy};
use buzz_proto::relay::{BrokeCause, ChannelKind, ChannelState, Disposal, HttpAnswer};
use buzz_proto::schedule::{Action, Config, Input, RespondTo};

use crate::seen::{checks_of, query_of, starts_of};
use crate::support::{
    DIRECT, ME, OWNER, ROOM, STRANGER, Said, Script, command, config, dispose, found, id, joined,
    left, mention, millis, note, secs, tagged, two_workers,
};

pub(crate) const RELAY: PubKey = PubKey([0xdd; 32]);

fn strict() -> Config {
    Config {
        respond_to: RespondTo::OwnerOnly,
        ..config()
    }
}

/// The profile of an author that bears this owner's attestation.
pub(crate) fn profile(author: PubKey, owner: PubKey) -> buzz_proto::wire::Event {
    let signature = "0".repeat(128);
    tagged(
        900,
        author,
        0,
        &[&["auth", &owner.to_string(), "", &signature]],
    )
}

fn refused(n: u16, why: RefusedWhy) -> [Action; 3] {
    [
        note(Note::Refused { event: id(n), why }),
        left(ROOM, 1),
        dispose(n, Disposal::Discarded),
    ]
}

#[test]
fn an_agent_of_the_same_owner_is_heard_once_its_attestation_was_checked() {
    let mut script = Script::working(strict());

    let (ticket, body) = query_of(&script.arrive(&mention(1)));
    assert_eq!(
        body,
        format!(r#"[{{"authors":["{STRANGER}"],"kinds":[0],"limit":1}}]"#)
    );
    let answer = found(&[profile(STRANGER, OWNER)]);
    let checks = checks_of(&script.give(Input::Answered { ticket, answer }));
    assert_eq!(checks[0].2, Some(OWNER));
    let ticket = checks[0].0;
    let genuine = true;
    let begun = script.give(Input::Verified { ticket, genuine });

    assert_eq!(starts_of(&begun).len(), 1);
    // It is known from now on.
    let next = script.arrive(&mention(2));
    assert!(
        !next
            .iter()
            .any(|action| matches!(action, Action::Query { .. }))
    );
}

#[test]
fn an_attestation_that_does_not_hold_gives_no_right_and_is_asked_for_again_after_a_while() {
    let mut script = Script::working(strict());

    let (ticket, _) = query_of(&script.arrive(&mention(1)));
    let answer = found(&[profile(STRANGER, OWNER)]);
    let checks = checks_of(&script.give(Input::Answered { ticket, answer }));
    let (ticket, genuine) = (checks[0].0, false);
    let told = script.give(Input::Verified { ticket, genuine });

    assert_eq!(told, refused(1, RefusedWhy::Author));
    assert_eq!(script.arrive(&mention(2)), refused(2, RefusedWhy::Author));
    script.wait(secs(30));
    query_of(&script.arrive(&mention(3)));
}

#[test]
fn a_profile_that_names_another_owner_is_not_even_checked() {
    let mut script = Script::working(strict());
    let (ticket, _) = query_of(&script.arrive(&mention(1)));
    let answer = found(&[profile(STRANGER, RELAY)]);
    let told = script.give(Input::Answered { ticket, answer });
    assert_eq!(told, refused(1, RefusedWhy::Author));
}

#[test]
fn a_look_up_without_an_answer_refuses_for_now_and_is_not_remembered() {
    let mut script = Script::working(strict());
    query_of(&script.arrive(&mention(1)));

    assert_eq!(script.wait(secs(2) - millis(1)), []);
    let told = script.wait(millis(1));

    assert!(matches!(told[0], Action::Abort { .. }), "{told:?}");
    let expected = [left(ROOM, 1), dispose(1, Disposal::RefusedForNow)];
    assert_eq!(told[1..], expected);
    query_of(&script.arrive(&mention(1)));
}

#[test]
fn an_author_who_cannot_be_looked_up_for_a_quarter_of_an_hour_is_refused() {
    let mut script = Script::working(strict());
    let mut told = Vec::new();
    let mut attempts = 0;
    for _ in 0..200 {
        told = script.arrive(&mention(1));
        assert!(!told.contains(&dispose(1, Disposal::Discarded)));
        if let Some(Action::Query { ticket, .. }) = told.first() {
            let (ticket, cause) = (*ticket, BrokeCause::Connect);
            told = script.give(Input::Broke { ticket, cause });
        } else {
            told = script.wait(secs(2));
        }
        attempts += 1;
        if told.contains(&dispose(1, Disposal::Discarded)) {
            break;
        }
        script.wait(secs(20));
    }
    assert!((30..60).contains(&attempts), "{attempts}");
    let why = RefusedWhy::AuthorUnknown;
    assert!(told.contains(&note(Note::Refused { event: id(1), why })));
}

#[test]
fn a_look_up_holds_up_nobody_else() {
    let mut script = Script::working(Config {
        respond_to: RespondTo::OwnerOnly,
        ..two_workers()
    });
    query_of(&script.arrive(&mention(1)));
    let owner = Said {
        id: 2,
        author: OWNER,
        ..Said::default()
    };
    assert_eq!(starts_of(&script.arrive(&owner.event())).len(), 1);
}

#[test]
fn events_of_one_author_wait_for_one_look_up_in_their_order() {
    let mut script = Script::working(strict());
    let (ticket, _) = query_of(&script.arrive(&mention(1)));
    assert_eq!(script.arrive(&mention(2)), []);
    let told = script.give(Input::Answered {
        ticket,
        answer: found(&[]),
    });
    let expected = [
        refused(1, RefusedWhy::Author),
        refused(2, RefusedWhy::Author),
    ]
    .concat();
    assert_eq!(told, expected);
}

#[test]
fn a_stranger_who_does_not_mention_the_agent_is_not_looked_up() {
    let mut script = Script::working(strict());
    let aside = Said {
        mentions: false,
        ..Said::default()
    };
    assert_eq!(
        script.arrive(&aside.event()),
        refused(1, RefusedWhy::NoMention)
    );
}

#[test]
fn nobody_looks_up_for_an_agent_that_answers_nobody_or_has_no_owner() {
    let nobody = Config {
        respond_to: RespondTo::Nobody,
        ..config()
    };
    let orphan = Config {
        owner: None,
        respond_to: RespondTo::Allowlist(vec![ME]),
        ..config()
    };
    for config in [nobody, orphan] {
        let mut script = Script::working(config);
        assert_eq!(script.arrive(&mention(1)), refused(1, RefusedWhy::Author));
    }
}

#[test]
fn in_a_direct_message_an_agent_of_the_same_owner_is_heard_though_strangers_are_not() {
    let mut script = Script::working(config());
    let direct = Said {
        channel: DIRECT,
        ..Said::default()
    };
    let (ticket, _) = query_of(&script.arrive(&direct.event()));
    let answer = found(&[profile(STRANGER, OWNER)]);
    let checks = checks_of(&script.give(Input::Answered { ticket, answer }));
    let (ticket, genuine) = (checks[0].0, true);
    assert_eq!(
        starts_of(&script.give(Input::Verified { ticket, genuine })).len(),
        1
    );
}

#[test]
fn the_words_of_a_command_by_an_agent_of_the_owner_are_a_message() {
    let mut script = Script::working(strict());
    let said = Said {
        content: "!shutdown",
        ..Said::default()
    };
    query_of(&script.arrive(&said.event()));
    // Its owner's are not.
    let told = script.arrive(&command(2, None, "!shutdown"));
    assert!(told.contains(&Action::ShutdownRequested));
}

/// A post that the relay signed for the workflow of a person, who wants somebody to hear it.
pub(crate) fn workflow(n: u16, owner: PubKey, mention: PubKey) -> buzz_proto::wire::Event {
    let (owner, mention, room) = (owner.to_string(), mention.to_string(), ROOM.to_string());
    let tags: [&[&str]; 4] = [
        &["h", &room],
        &["buzz:workflow", "true"],
        &["buzz:workflow-owner", &owner],
        &["buzz:workflow-mention", &mention],
    ];
    tagged(n, RELAY, 9, &tags)
}

#[test]
fn a_post_of_a_workflow_counts_as_its_owner_s_if_the_relay_signed_it() {
    let mut script = Script::working(strict());

    let unknown = script.arrive(&workflow(1, OWNER, ME));
    script.give(Input::RelayKey { key: Some(RELAY) });
    let known = script.arrive(&workflow(2, OWNER, ME));
    let elsewhere = script.arrive(&workflow(3, OWNER, STRANGER));

    assert_eq!(unknown, refused(1, RefusedWhy::NoMention));
    assert_eq!(starts_of(&known).len(), 1);
    assert_eq!(elsewhere, refused(3, RefusedWhy::NoMention));
}

#[test]
fn the_person_whose_workflow_posts_is_looked_up_and_not_the_relay() {
    let mut script = Script::working(strict());
    script.give(Input::RelayKey { key: Some(RELAY) });

    let (ticket, body) = query_of(&script.arrive(&workflow(1, STRANGER, ME)));
    assert_eq!(
        body,
        format!(r#"[{{"authors":["{STRANGER}"],"kinds":[0],"limit":1}}]"#)
    );
    let answer = found(&[]);
    let told = script.give(Input::Answered { ticket, answer });

    assert_eq!(told, refused(1, RefusedWhy::Author));
}

#[test]
fn what_waits_for_a_look_up_goes_with_its_channel() {
    let mut script = Script::working(strict());
    let (ticket, _) = query_of(&script.arrive(&mention(1)));

    let state = ChannelState::Left;
    let channel = ROOM;
    let told = script.give(Input::Channel { channel, state });

    let dropped = Note::Left {
        channel,
        dropped: 1,
    };
    let expected = [
        note(dropped),
        left(ROOM, 1),
        dispose(1, Disposal::Discarded),
    ];
    assert_eq!(told, expected);
    // Nobody is let into a channel that is gone.
    let answer = found(&[profile(STRANGER, OWNER)]);
    let checks = checks_of(&script.give(Input::Answered { ticket, answer }));
    let (ticket, genuine) = (checks[0].0, true);
    assert_eq!(script.give(Input::Verified { ticket, genuine }), []);
}

#[test]
fn what_was_looked_up_or_has_gone_makes_room_for_what_comes() {
    let mut script = Script::working(strict());
    for n in 1_u16..600 {
        let mut author = [0xee; 32];
        author[..2].copy_from_slice(&n.to_be_bytes());
        let said = Said {
            id: n,
            author: PubKey(author),
            ..Said::default()
        };
        let (ticket, _) = query_of(&script.arrive(&said.event()));
        if n.is_multiple_of(2) {
            let (channel, state) = (ROOM, ChannelState::Left);
            script.give(Input::Channel { channel, state });
            script.give(joined(ROOM, ChannelKind::Stream));
        }
        let answer = found(&[]);
        script.give(Input::Answered { ticket, answer });
        script.wait(secs(1));
    }
}

#[test]
fn a_relay_that_once_knew_no_queries_is_asked_again_after_five_minutes() {
    let mut script = Script::working(strict());
    let (ticket, _) = query_of(&script.arrive(&mention(1)));
    let answer = HttpAnswer {
        status: 404,
        ..found(&[])
    };
    let put_off = [left(ROOM, 1), dispose(1, Disposal::RefusedForNow)];
    assert_eq!(script.give(Input::Answered { ticket, answer }), put_off);

    script.sleep(secs(300) - millis(1));
    assert_eq!(script.arrive(&mention(1)), put_off);
    script.sleep(millis(1));

    query_of(&script.arrive(&mention(1)));
}

#[test]
fn who_was_a_stranger_long_ago_is_looked_up_anew_though_no_tick_came_in_time() {
    let mut script = Script::working(strict());
    let (ticket, _) = query_of(&script.arrive(&mention(1)));
    let answer = found(&[]);
    script.give(Input::Answered { ticket, answer });

    script.sleep(secs(3600));

    query_of(&script.arrive(&mention(2)));
}

#[test]
fn answers_to_calls_that_nobody_awaits_change_nothing() {
    let mut script = Script::working(strict());
    let (ticket, _) = query_of(&script.arrive(&mention(1)));
    let answer = found(&[]);
    script.give(Input::Answered { ticket, answer });
    let before = script.scheduler.view();
    let (answer, genuine) = (found(&[]), true);
    script.give(Input::Answered { ticket, answer });
    script.give(Input::Verified { ticket, genuine });
    assert_eq!(script.scheduler.view(), before);
}
