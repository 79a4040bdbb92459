//! What became of each mention, counted from outside of the agent.

use std::collections::{BTreeMap, BTreeSet};

use buzz_dev_relay::rules::event::Event;
use serde::Serialize;

/// How the notices of the agent begin, whatever the reason they give.
const NOTICES: [&str; 4] = [
    "I could not answer this message",
    "I did not answer this message",
    "I could not take this message",
    "My answer to this message could not be posted",
];

/// A mention that the relay accepted: it is owed an answer.
#[derive(Clone, Debug)]
pub(super) struct Owed {
    /// The word that the answer must repeat.
    pub(super) word: String,
    /// The root of its thread, where it is not itself the root.
    pub(super) root: Option<String>,
}

/// All that is owed, and all that the agent's key has stored.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    owed: BTreeMap<String, Owed>,
    stored: BTreeMap<String, Event>,
    refused: usize,
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Score {
    pub(super) refused: usize,
    pub(super) owed: usize,
    pub(super) answered: usize,
    pub(super) accounted: usize,
    pub(super) lost: usize,
    pub(super) duplicates: usize,
    pub(super) seconds: f64,
}

/// How one mention fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fate {
    replies: usize,
    notices: usize,
}

impl Tally {
    pub(super) fn owe(&mut self, id: String, owed: Owed) {
        self.owed.insert(id, owed);
    }

    /// The relay did not take a mention: nothing is owed for it.
    pub(super) fn refuse(&mut self) {
        self.refused = self.refused.saturating_add(1);
    }

    pub(super) fn refused(&self) -> usize {
        self.refused
    }

    /// An event of the agent's key, as the relay gave it.
    pub(super) fn saw(&mut self, event: Event) {
        self.stored.insert(event.id.clone(), event);
    }

    pub(super) fn owed(&self) -> usize {
        self.owed.len()
    }

    /// How many mentions have anything at all in their thread.
    pub(super) fn settled(&self) -> usize {
        let named: BTreeSet<_> = self.stored.values().filter_map(replied_to).collect();
        self.owed
            .keys()
            .filter(|id| named.contains(id.as_str()))
            .count()
    }

    pub(super) fn score(&self, seconds: f64) -> Score {
        let mut fates: BTreeMap<&str, Fate> = BTreeMap::new();
        for event in self.stored.values() {
            let Some(id) = replied_to(event) else {
                continue;
            };
            let Some(owed) = self.owed.get(id) else {
                continue;
            };
            if owed.root.as_deref() != tagged(event, "root") {
                continue;
            }
            let fate = fates.entry(id).or_default();
            // Anything else is no answer, whoever wrote it.
            if NOTICES.iter().any(|start| event.content.starts_with(start)) {
                fate.notices = fate.notices.saturating_add(1);
            } else if event.content.contains(&owed.word) {
                fate.replies = fate.replies.saturating_add(1);
            }
        }
        let answered = fates.values().filter(|fate| fate.replies == 1).count();
        let accounted = fates
            .values()
            .filter(|fate| fate.replies == 0 && fate.notices > 0)
            .count();
        let doubled = fates.values().filter(|fate| fate.replies > 1);
        let (repeated, duplicates) = doubled.fold((0_usize, 0_usize), |(count, extra), fate| {
            (
                count.saturating_add(1),
                extra.saturating_add(fate.replies.saturating_sub(1)),
            )
        });
        let settled = answered.saturating_add(accounted).saturating_add(repeated);
        let lost = self.owed.len().saturating_sub(settled);
        Score {
            refused: self.refused,
            owed: self.owed.len(),
            answered,
            accounted,
            lost,
            duplicates,
            seconds,
        }
    }
}

impl Score {
    /// Whether nothing was lost and nothing said twice.
    pub(super) const fn is_clean(&self) -> bool {
        self.lost == 0 && self.duplicates == 0
    }

    pub(super) const fn rows(&self) -> [(&'static str, usize, &'static str); 6] {
        [
            (
                "refused",
                self.refused,
                "mentions that the relay did not accept",
            ),
            ("owed", self.owed, "mentions that the relay accepted"),
            (
                "answered",
                self.answered,
                "with exactly one stored reply in their thread",
            ),
            (
                "accounted",
                self.accounted,
                "with a notice in their thread instead",
            ),
            ("lost", self.lost, "with neither"),
            ("duplicates", self.duplicates, "replies beyond one"),
        ]
    }
}

/// The event that a message replies to: the `e` tag marked `reply` (NIP-10).
pub(super) fn replied_to(event: &Event) -> Option<&str> {
    tagged(event, "reply")
}

fn tagged<'a>(event: &'a Event, marker: &str) -> Option<&'a str> {
    let tag = event.tags.iter().find(|tag| {
        tag.first().is_some_and(|name| name == "e") && tag.get(3).is_some_and(|mark| mark == marker)
    })?;
    tag.get(1).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(id: &str, tags: &[[&str; 4]], content: &str) -> Event {
        Event {
            id: id.into(),
            pubkey: String::new(),
            created_at: 0,
            kind: 9,
            tags: tags
                .iter()
                .map(|tag| tag.map(String::from).to_vec())
                .collect(),
            content: content.into(),
            sig: String::new(),
        }
    }

    fn tally() -> Tally {
        let mut tally = Tally::default();
        for (id, word) in [
            ("a", "apple"),
            ("b", "berry"),
            ("c", "cherry"),
            ("d", "date"),
        ] {
            tally.owe(
                id.into(),
                Owed {
                    word: word.into(),
                    root: None,
                },
            );
        }
        tally
    }

    #[test]
    fn each_mention_counts_once_by_what_is_stored_in_its_thread() {
        let mut tally = tally();
        tally.saw(event("1", &[["e", "a", "", "reply"]], "you said apple"));
        tally.saw(event("1", &[["e", "a", "", "reply"]], "you said apple"));
        tally.saw(event(
            "2",
            &[["e", "b", "", "reply"]],
            "I could not answer this message: it took too long.",
        ));
        tally.saw(event("3", &[["e", "d", "", "reply"]], "date"));
        tally.saw(event("4", &[["e", "d", "", "reply"]], "date"));
        let score = tally.score(1.0);
        let figures = (
            score.owed,
            score.answered,
            score.accounted,
            score.lost,
            score.duplicates,
        );
        assert_eq!(figures, (4, 1, 1, 1, 1));
        assert!(!score.is_clean());
    }

    #[test]
    fn a_wrong_reply_is_neither_an_answer_nor_a_notice() {
        let mut tally = tally();
        tally.saw(event("1", &[["e", "a", "", "reply"]], "you said pear"));
        let score = tally.score(1.0);
        assert_eq!((score.answered, score.accounted, score.lost), (0, 0, 4));
        assert_eq!(tally.settled(), 1);
    }

    #[test]
    fn a_reply_in_the_wrong_thread_answers_nothing() {
        let mut tally = Tally::default();
        let root = Some("r".to_owned());
        tally.owe(
            "a".into(),
            Owed {
                word: "apple".into(),
                root,
            },
        );
        tally.saw(event(
            "1",
            &[["e", "x", "", "root"], ["e", "a", "", "reply"]],
            "apple",
        ));
        assert_eq!(tally.score(1.0).lost, 1);
        tally.saw(event(
            "2",
            &[["e", "r", "", "root"], ["e", "a", "", "reply"]],
            "apple",
        ));
        assert_eq!(tally.score(1.0).answered, 1);
    }
}
