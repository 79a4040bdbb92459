//! Reports of what workers say, played through to the relay.

use buzz_proto::action::Action;
use buzz_proto::config::Consumer;
use buzz_proto::note::{Note, TurnFailure, TurnOutcome};
use buzz_proto::schedule::{self, FailureClass, TurnEnd};
use buzz_proto::wire::{Event, Excerpt};
use buzz_sim::toy::{self, channel};

use crate::outcomes::posts;
use crate::player::Case;
use crate::whole::{OWNER, Whole, live_with, settings};

const A: u8 = 1;
const B: u8 = 2;
const MESSAGE: u32 = 9;
const SECOND: u64 = 1000;

/// An agent with two workers.
fn agent(batch_max: u32) -> Whole {
    let mut config = schedule::Config::new(2);
    config.owner = Some(toy::key(OWNER));
    config.limits.batch_max = batch_max;
    live_with(settings(&[A, B], Consumer::Workers(Box::new(config))))
}

fn failed(class: FailureClass, text: &str) -> TurnEnd {
    let text = Excerpt::new(text);
    TurnEnd::Failed { class, text }
}

/// What was said in the channels, and not to be taken back.
fn messages(whole: &Whole) -> Vec<Event> {
    let all = posts(whole).into_iter().map(|it| it.event);
    let mut said: Vec<Event> = all.filter(|event| event.kind() == MESSAGE).collect();
    said.dedup_by_key(|event| event.id());
    said
}

/// The message that it answers.
fn target(event: &Event) -> Option<u64> {
    let parent = event.thread().parent?;
    (0..1000).find(|n| toy::id(*n) == parent)
}

fn targets(whole: &Whole) -> Vec<Option<u64>> {
    messages(whole).iter().map(target).collect()
}

fn ends(whole: &Whole) -> Vec<TurnOutcome> {
    let all = whole.script.history().filter_map(|action| {
        let Action::Note(Note::TurnEnded { outcome, .. }) = action else {
            return None;
        };
        Some(outcome.clone())
    });
    all.collect()
}

#[test]
fn block_buzz_2751_one_notice_in_the_thread_says_what_a_human_must_mend() {
    let text = "Authentication required";
    Case::new(|| agent(50))
        .at(0, |whole| whole.mention(1, A))
        .at(SECOND, move |whole| {
            whole.end_turn(A, failed(FailureClass::NeedsHuman, text));
        })
        .must(3 * SECOND, move |whole| {
            let said = messages(whole);
            assert_eq!(targets(whole), [Some(1)]);
            assert!(said[0].content().contains(text));
            assert_eq!(said[0].channel(), Some(channel(A)));
            let text = Excerpt::new(text);
            let why = TurnFailure::NeedsHuman { text };
            assert_eq!(ends(whole), [TurnOutcome::Reported { why }]);
        })
        .at(600 * SECOND, |_| {})
        .never(|whole| {
            assert!(messages(whole).len() <= 1 && ends(whole).len() <= 1);
        })
        .play();
}

#[test]
fn block_buzz_3176_an_answer_to_several_messages_names_the_newest() {
    let mut case = Case::new(|| agent(50)).at(0, |whole| whole.mention_in(1, A, 900));
    for n in 2..=6 {
        case = case.at(n * 100, move |whole| whole.mention_in(n, A, 900));
    }
    case.at(2 * SECOND, |whole| whole.reply(A, "one"))
        .at(4 * SECOND, |whole| whole.reply(A, "six"))
        .must(6 * SECOND, |whole| {
            assert_eq!(targets(whole), [Some(1), Some(6)]);
            let root = toy::id(900);
            let said = messages(whole);
            assert!(said.iter().all(|event| event.thread().root == Some(root)));
        })
        .play();
}

#[test]
fn block_buzz_3176_one_message_a_turn_gives_each_its_own_answer() {
    let mut case = Case::new(|| agent(1)).at(0, |whole| whole.mention_in(1, A, 900));
    for n in 2..=4 {
        case = case.at(n * 100, move |whole| whole.mention_in(n, A, 900));
    }
    for n in 1..=4 {
        case = case.at(n * 2 * SECOND, |whole| whole.reply(A, "this one"));
    }
    case.must(10 * SECOND, |whole| {
        assert_eq!(targets(whole), [1, 2, 3, 4].map(Some));
    })
    .play();
}

/// Two channels, answers and failures, and whatever happens on the way: a message that was worked
/// on has one answer or one notice.
#[test]
fn block_buzz_4903_each_message_that_was_worked_on_has_one_answer_or_one_notice() {
    let mut case = Case::new(|| agent(50));
    for n in 1..=12 {
        let place = if n % 3 == 0 { B } else { A };
        case = case.at(n * 700, move |whole| whole.mention(n, place));
        case = case.at(n * 700 + 400, move |whole| match n % 4 {
            0 => whole.end_turn(place, failed(FailureClass::Transient, "Internal error")),
            1 => whole.end_turn(place, failed(FailureClass::NeedsHuman, "log in")),
            _ => whole.reply(place, "done"),
        });
    }
    for late in 1..=40 {
        for place in [A, B] {
            let at = 10 * SECOND + late * 2 * SECOND;
            case = case.at(at, move |whole| whole.reply(place, "late"));
        }
    }
    case.must(95 * SECOND, |whole| {
        let mut answered = targets(whole);
        answered.sort_unstable();
        assert_eq!(answered, (1..=12).map(Some).collect::<Vec<_>>());
    })
    .finally(|whole| {
        let mut answered: Vec<_> = targets(whole).into_iter().flatten().collect();
        answered.sort_unstable();
        let mut worked: Vec<u64> = started(whole);
        worked.sort_unstable();
        worked.dedup();
        assert_eq!(answered, worked);
    })
    .play();
}

/// The messages that workers were given; each is at top level, and so a turn of its own.
fn started(whole: &Whole) -> Vec<u64> {
    let batches = whole.script.history().filter_map(|action| {
        let Action::Schedule(schedule::Action::Start { batch, .. }) = action else {
            return None;
        };
        Some(batch)
    });
    let ids = batches.flatten().map(Event::id);
    ids.filter_map(|id| (0..1000).find(|n| toy::id(*n) == id))
        .collect()
}
