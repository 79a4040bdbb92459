//! Commands of the owner that come again, from somebody else, or too late.

use buzz_proto::note::RefusedWhy;
use buzz_proto::time::UnixTime;
use buzz_sim::toy::{Toy, channel, key};

use crate::desk::{Desk, SECOND};

const COMMANDS: [&str; 3] = ["!cancel", "!rotate", "!shutdown"];

fn command(n: u64, words: &str, dated: UnixTime) -> Toy {
    Toy::mention(n, channel(1)).content(words).dated(dated)
}

/// A desk at which the owner has stopped a turn with this command, and the next one is under way.
fn after(words: &str) -> (Desk, Toy) {
    let mut desk = Desk::at_work();
    let command = command(1, words, desk.now());
    assert_ne!(desk.comes(&command), [], "{words} stops the turn");
    desk.ends();
    desk.works();
    (desk, command)
}

#[test]
fn a_command_that_comes_again_has_no_effect() {
    for words in ["!cancel", "!rotate"] {
        let (mut desk, command) = after(words);
        for _ in 0..3 {
            assert_eq!(desk.effect_of(&command), []);
        }
        assert!(desk.turn.is_some());
    }
}

#[test]
fn a_command_that_comes_again_on_a_new_connection_has_no_effect() {
    for words in ["!cancel", "!rotate"] {
        let (mut desk, command) = after(words);
        desk.reconnects_to(&[&command]);
        assert_eq!(desk.effect_of(&command), []);
        assert!(desk.turn.is_some());
        // The next one counts.
        let next = self::command(2, words, desk.now());
        assert_ne!(desk.effect_of(&next), []);
    }
}

#[test]
fn the_words_of_a_command_by_somebody_else_have_no_effect() {
    for words in COMMANDS {
        let mut desk = Desk::at_work();
        desk.machine.notes();
        let said = command(1, words, desk.now()).author(key(9));
        assert_eq!(desk.effect_of(&said), []);
        assert!(desk.turn.is_some());
    }
}

#[test]
fn a_forged_command_has_no_effect_and_the_genuine_one_has() {
    for words in COMMANDS {
        let mut desk = Desk::at_work();
        desk.machine.notes();
        let said = command(1, words, desk.now());
        desk.verdict = false;
        assert_eq!(
            desk.effect_of(&said.clone().content(&format!("{words} "))),
            []
        );
        assert_eq!(desk.refusals(), [RefusedWhy::NotGenuine]);
        desk.verdict = true;
        assert_ne!(desk.effect_of(&said), []);
    }
}

#[test]
fn a_command_that_was_kept_back_has_no_effect() {
    for words in COMMANDS {
        let mut desk = Desk::at_work();
        let said = command(1, words, desk.now().before(301 * SECOND));
        desk.machine.notes();
        assert_eq!(desk.effect_of(&said), []);
        assert_eq!(desk.refusals(), [RefusedWhy::StaleCommand]);
        // It is known from now on.
        desk.machine.notes();
        assert_eq!(desk.effect_of(&said), []);
        assert_eq!(desk.refusals(), []);
    }
}

#[test]
fn a_command_for_another_agent_or_in_another_channel_has_no_effect() {
    for words in COMMANDS {
        let mut desk = Desk::at_work();
        let here = channel(1).to_string();
        let others = [
            Toy::mention(1, channel(2)),
            Toy::new(2)
                .tag(&["h", &here])
                .tag(&["p", &key(9).to_string()]),
            Toy::new(3).tag(&["h", &here]),
        ];
        for other in others {
            let said = other.content(words).dated(desk.now());
            assert_eq!(desk.effect_of(&said), []);
        }
        assert!(desk.turn.is_some());
    }
}
