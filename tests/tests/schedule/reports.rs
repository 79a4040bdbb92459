//! Public bug reports of who may wake an agent, and of what grows without end. Each test bears the
//! name of its report: owner, repository, number.

use buzz_proto::ids::{PubKey, TurnId};
use buzz_proto::note::{Note, RefusedWhy};
use buzz_proto::relay::Disposal;
use buzz_proto::schedule::{Action, Config, Input, Limits, RespondTo, Target, Want};

use crate::seen::{checks_of, query_of, starts_of};
use crate::siblings::{RELAY, profile, workflow};
use crate::support::{
    DIRECT, ME, OWNER, ROOM, STRANGER, Said, Script, answered, config, found, id, limits, mention,
    secs, settled, two_workers,
};

const SIBLING: PubKey = PubKey([0x55; 32]);
const LISTED: PubKey = PubKey([0x66; 32]);

/// Whether a message wakes the agent. Whoever is asked about is said to be nobody's, but the
/// sibling is the owner's.
fn wakes(mode: &RespondTo, author: PubKey, is_direct: bool) -> bool {
    let mut script = Script::working(Config {
        respond_to: mode.clone(),
        ..config()
    });
    let said = Said {
        author,
        channel: if is_direct { DIRECT } else { ROOM },
        ..Said::default()
    };
    let mut told = script.arrive(&said.event());
    if told
        .iter()
        .any(|action| matches!(action, Action::Query { .. }))
    {
        let (ticket, _) = query_of(&told);
        let known: Vec<_> = (author == SIBLING)
            .then(|| profile(SIBLING, OWNER))
            .into_iter()
            .collect();
        let answer = found(&known);
        told = script.give(Input::Answered { ticket, answer });
        for (ticket, ..) in checks_of(&told) {
            let genuine = true;
            told = script.give(Input::Verified { ticket, genuine });
        }
    }
    let is_refused = |action: &Action| matches!(action, Action::Note(Note::Refused { .. }));
    let (is_awake, is_said) = (!starts_of(&told).is_empty(), told.iter().any(is_refused));
    // Nobody misses an answer to the agent's own words.
    let is_told = is_said || author == ME;
    assert_ne!(is_awake, is_told, "{mode:?} {author:?}");
    is_awake
}

#[test]
fn block_buzz_1108_who_wakes_an_agent_is_the_same_question_in_every_mode() {
    let listed = RespondTo::Allowlist(vec![LISTED]);
    let authors = [OWNER, SIBLING, LISTED, STRANGER, ME];
    // In a channel, then in a direct message.
    let table = [
        (RespondTo::OwnerOnly, [1, 1, 0, 0, 0], [1, 1, 0, 0, 0]),
        (listed, [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]),
        (RespondTo::Anyone, [1, 1, 1, 1, 0], [1, 1, 0, 0, 0]),
        (RespondTo::Nobody, [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]),
    ];
    for (mode, in_channel, direct) in &table {
        let found = |is_direct| authors.map(|author| u8::from(wakes(mode, author, is_direct)));
        assert_eq!(
            (found(false), found(true)),
            (*in_channel, *direct),
            "{mode:?}"
        );
    }
}

#[test]
fn block_buzz_4460_words_that_another_key_puts_into_the_relay_s_mouth_wake_nobody() {
    let forger = PubKey([0xde; 32]);
    let mut script = Script::working(Config {
        respond_to: RespondTo::OwnerOnly,
        ..config()
    });
    script.give(Input::RelayKey { key: Some(forger) });
    let foreign = script.arrive(&workflow(1, OWNER, ME));
    script.give(Input::RelayKey { key: None });
    let unknown = script.arrive(&workflow(2, OWNER, ME));
    script.give(Input::RelayKey { key: Some(RELAY) });
    let other_target = script.arrive(&workflow(3, OWNER, STRANGER));

    for (n, told) in [(1, foreign), (2, unknown), (3, other_target)] {
        assert_eq!(starts_of(&told), []);
        let why = RefusedWhy::NoMention;
        assert!(told.contains(&Action::Note(Note::Refused { event: id(n), why })));
    }
}

#[test]
fn block_buzz_3043_a_hundred_rounds_of_cancelled_batches_carry_no_more_than_the_queue_holds() {
    let most = 500;
    let mut script = Script::working(config());
    let (mut handed_back, mut number) = (0, 0);
    for _ in 0..100 {
        for _ in 0..50 {
            number += 1;
            let told = script.arrive(&mention(number));
            let is_back = |action: &&Action| {
                let how = Disposal::RefusedForNow;
                matches!(action, Action::Dispose { how: found, .. } if *found == how)
            };
            handed_back += told.iter().filter(is_back).count();
        }
        let (target, want) = (Target::Channel(ROOM), Want::Stop);
        let command = buzz_proto::schedule::Command::Control { target, want };
        script.give(Input::Command(command));
        let queued = script.scheduler.view().queued;
        assert!(queued <= most, "{queued}");
    }
    // What found no room goes back to whoever keeps it: it is read again later.
    assert!(handed_back > 4000, "{handed_back}");
}

#[test]
fn block_buzz_6958_a_thousand_threads_keep_no_more_sessions_than_the_bound() {
    let sessions_max = 8;
    let limits = Limits {
        sessions_max,
        ..limits()
    };
    let mut script = Script::working(Config {
        limits,
        ..two_workers()
    });
    let (mut closed, mut turn) = (0, 0);
    for number in 1..=1000 {
        let begun = script.arrive(&mention(number));
        assert_eq!(starts_of(&begun).len(), 1, "{number}");
        let opened = script.give(Input::SessionOpened { turn: TurnId(turn) });
        let ended = script.give(answered(turn, "done"));
        let told = script.give(settled(turn, buzz_proto::publish::Verdict::Stored));
        turn += 1;
        let is_close = |action: &&Action| matches!(action, Action::CloseSession { .. });
        let of = [begun, opened, ended, told, script.wait(secs(1))];
        closed += of.iter().flatten().filter(is_close).count();
        let kept = script.scheduler.view().sessions;
        assert!(kept <= 2 * usize::from(sessions_max), "{kept}");
    }
    assert!(closed >= 1000 - 16, "{closed}");
}
