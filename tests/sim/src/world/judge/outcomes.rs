//! What became of each event that was accepted.

use std::collections::{BTreeMap, BTreeSet};

use buzz_proto::ids::{EventId, TurnId};
use buzz_proto::note::TurnOutcome;
use buzz_proto::schedule::Scope;

use super::Verdict;
use crate::world::Said;
use crate::world::crew::ANSWER;

#[derive(Clone, Debug, Default)]
pub(super) struct Outcomes {
    accepted: BTreeMap<EventId, Scope>,
    /// What each turn was given, by the id that the worker knows and by the one that notes name.
    given: BTreeMap<TurnId, Vec<EventId>>,
    claimed: BTreeMap<TurnId, Vec<EventId>>,
    ended: Vec<(TurnId, TurnOutcome)>,
    discarded: BTreeSet<EventId>,
    handed_back: BTreeMap<Scope, u64>,
}

/// The ends of one event.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    answers: u64,
    notices: u64,
    discards: u64,
}

impl Outcomes {
    /// Whether it is news.
    pub(super) fn accept(&mut self, event: EventId, scope: Scope) -> bool {
        self.accepted.insert(event, scope).is_none()
    }

    pub(super) fn claim(&mut self, told: TurnId, batch: Vec<EventId>) {
        self.claimed.insert(told, batch);
    }

    /// Whether no other turn has this id.
    pub(super) fn give(&mut self, turn: TurnId, batch: Vec<EventId>) -> bool {
        self.given.insert(turn, batch).is_none()
    }

    pub(super) fn batch(&self, told: TurnId) -> Vec<EventId> {
        self.claimed.get(&told).cloned().unwrap_or_default()
    }

    pub(super) fn end(&mut self, told: TurnId, outcome: TurnOutcome) {
        if outcome == TurnOutcome::Discarded {
            self.discarded.extend(self.batch(told));
        }
        self.ended.push((told, outcome));
    }

    pub(super) fn discard(&mut self, events: Vec<EventId>) {
        self.discarded.extend(events);
    }

    pub(super) fn hand_back(&mut self, scope: Scope, count: u32) {
        let back = self.handed_back.entry(scope).or_default();
        *back = back.saturating_add(u64::from(count));
    }

    /// Counts, from what the relay stores and what the machine told at its end.
    pub(super) fn close(&self, said: &[Said], verdict: &mut Verdict) {
        let mut ends: BTreeMap<EventId, Ends> = BTreeMap::new();
        self.count_answers(said, &mut ends, verdict);
        self.count_notices(said, &mut ends, verdict);
        for event in &self.discarded {
            ends.entry(*event).or_default().discards = 1;
        }
        let mut open: BTreeMap<Scope, u64> = BTreeMap::new();
        for (event, scope) in &self.accepted {
            verdict.accepted = verdict.accepted.saturating_add(1);
            let Ends {
                answers,
                notices,
                discards,
            } = ends.get(event).copied().unwrap_or_default();
            let count = match (answers, notices, discards) {
                (0, 0, 0) => open.entry(*scope).or_default(),
                (1, 0, 0) => &mut verdict.answered,
                (0, 1, 0) => &mut verdict.notices,
                (0, 0, 1) => &mut verdict.discarded,
                _ => {
                    verdict.faults.push(format!(
                        "{event} has {answers} answers, {notices} notices, {discards} discards"
                    ));
                    &mut verdict.doubled
                }
            };
            add(count);
        }
        self.settle_rest(open, verdict);
    }

    fn count_answers(
        &self,
        said: &[Said],
        ends: &mut BTreeMap<EventId, Ends>,
        verdict: &mut Verdict,
    ) {
        for said in said {
            let Some(turn) = said.words.strip_prefix(ANSWER) else {
                continue;
            };
            let turn = turn.parse().ok().map(TurnId);
            let batch = turn.and_then(|turn| self.given.get(&turn));
            let Some(batch) = batch.filter(|batch| batch.last().copied() == said.to) else {
                let words = format!("{:?} answers {:?}, as no turn does", said.words, said.to);
                verdict.faults.push(words);
                continue;
            };
            for event in batch {
                add(&mut ends.entry(*event).or_default().answers);
            }
        }
    }

    fn count_notices(
        &self,
        said: &[Said],
        ends: &mut BTreeMap<EventId, Ends>,
        verdict: &mut Verdict,
    ) {
        let is_notice = |it: &&Said| !it.words.starts_with(ANSWER);
        let notices: BTreeSet<_> = said.iter().filter(is_notice).map(|it| it.to).collect();
        let mut reported = BTreeSet::new();
        for (told, outcome) in &self.ended {
            let batch = self.batch(*told);
            let is_said = batch.iter().any(|event| notices.contains(&Some(*event)));
            match outcome {
                TurnOutcome::Reported { .. } if !reported.insert(*told) => {}
                TurnOutcome::Reported { .. } if is_said => {
                    for event in batch {
                        add(&mut ends.entry(event).or_default().notices);
                    }
                }
                TurnOutcome::Reported { .. } | TurnOutcome::Unreported { .. } => {
                    let words = format!("{outcome:?} of turn {}: there is no notice", told.0);
                    verdict.faults.push(words);
                }
                TurnOutcome::Answered => {
                    let answers = |event| ends.get(event).map_or(0, |ends: &Ends| ends.answers);
                    if batch.iter().any(|event| answers(event) == 0) {
                        let words = format!("turn {} is told as answered, and is not", told.0);
                        verdict.faults.push(words);
                    }
                }
                TurnOutcome::Discarded => {}
            }
        }
    }

    /// What has no outcome is handed back, or lost.
    fn settle_rest(&self, mut open: BTreeMap<Scope, u64>, verdict: &mut Verdict) {
        for (scope, told) in &self.handed_back {
            let own = open.remove(scope).unwrap_or(0);
            verdict.handed_back = verdict.handed_back.saturating_add(own.min(*told));
            verdict.lost = verdict.lost.saturating_add(own.saturating_sub(*told));
            if own < *told {
                let words = format!("{scope}: {told} are told as handed back, and {own} are open");
                verdict.faults.push(words);
            }
        }
        let lost: u64 = open.values().sum();
        verdict.lost = verdict.lost.saturating_add(lost);
        for (scope, count) in open {
            verdict
                .faults
                .push(format!("{scope}: {count} have no outcome"));
        }
    }
}

const fn add(count: &mut u64) {
    *count = count.saturating_add(1);
}
