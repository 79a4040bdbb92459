//! Who goes next where several wait for one quota.
//!
//! In each round of decisions every lane that has something to send says so. At the end of the
//! round, if a token is there, one of them is chosen, and in the next round it takes the token. So
//! the choice is among all that wait, in whatever order they were asked.

use crate::time::MonoTime;

/// Every so many tokens one goes to the lane that has waited longest, so that a steady stream on
/// the first lanes cannot keep the others out.
const FAIR_EVERY: u32 = 4;

/// Lanes in the order of their right of way, known by their place. The last one is for what is only
/// good to see: it goes when nobody else waits.
#[derive(Clone, Debug)]
pub(crate) struct Lanes<const N: usize> {
    rows: [Row; N],
    chosen: Option<usize>,
    /// Tokens taken since the last one that went to the longest wait.
    taken: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    /// How many wait, as told in this round or, before it is asked, in the last one.
    count: u32,
    has_asked: bool,
    /// Since when it waits for a token.
    since: Option<MonoTime>,
}

impl<const N: usize> Lanes<N> {
    /// Nobody waits.
    pub(crate) const fn new() -> Self {
        let row = Row {
            count: 0,
            has_asked: false,
            since: None,
        };
        Self {
            rows: [row; N],
            chosen: None,
            taken: 0,
        }
    }

    /// So many wait on this lane. Whether it is its turn: then a token is there, and
    /// [`take`](Self::take) says that it was taken.
    pub(crate) fn ask(&mut self, lane: usize, count: u32, now: MonoTime) -> bool {
        let Some(row) = self.rows.get_mut(lane) else {
            return false;
        };
        let before = if row.has_asked { row.count } else { 0 };
        row.count = before.saturating_add(count);
        row.has_asked = true;
        row.since.get_or_insert(now);
        self.chosen == Some(lane)
    }

    /// The lane whose turn it is has taken its token.
    pub(crate) fn take(&mut self, now: MonoTime) {
        let lane = self.chosen.take();
        if let Some(row) = lane.and_then(|lane| self.rows.get_mut(lane)) {
            // What waits behind it on the same lane waits from now on.
            row.since = Some(now);
            self.taken = self.taken.saturating_add(1) % FAIR_EVERY;
        }
    }

    /// Ends a round: chooses the lane whose turn it is in the next one. `is_ready` says whether a
    /// token is there, and is asked only if somebody waits. True when a lane was chosen.
    pub(crate) fn choose(&mut self, is_ready: impl FnOnce() -> bool) -> bool {
        self.chosen = None;
        for row in &mut self.rows {
            if !row.has_asked {
                *row = Row::default();
            }
        }
        let first = self.rows.iter().position(|row| row.has_asked);
        let is_ready = first.is_some() && is_ready();
        if is_ready {
            self.chosen = self.longest_waiting().or(first);
        }
        for row in &mut self.rows {
            row.has_asked = false;
        }
        is_ready
    }

    /// How many wait on all lanes.
    pub(crate) fn waiting(&self) -> u32 {
        self.rows
            .iter()
            .fold(0, |sum, row| sum.saturating_add(row.count))
    }

    /// The lane above the last that has waited longest, if the next token is the fair one.
    fn longest_waiting(&self) -> Option<usize> {
        if self.taken.saturating_add(1) < FAIR_EVERY {
            return None;
        }
        let above_last = self.rows.iter().enumerate().take(N.saturating_sub(1));
        above_last
            .filter(|(_, row)| row.has_asked)
            .min_by_key(|(lane, row)| (row.since, *lane))
            .map(|(lane, _)| lane)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const fn at(n: u64) -> MonoTime {
        MonoTime::from_nanos(n)
    }

    /// The lane that gets a token while these wait.
    fn next(lanes: &mut Lanes<4>, waiting: &[usize], now: u64) -> Option<usize> {
        for lane in waiting {
            assert!(!lanes.ask(*lane, 1, at(now)));
        }
        lanes.choose(|| true);
        let turn = waiting
            .iter()
            .filter(|lane| lanes.ask(**lane, 1, at(now)))
            .copied()
            .last()?;
        lanes.take(at(now));
        lanes.choose(|| false);
        Some(turn)
    }

    #[test]
    fn the_first_lane_that_waits_goes_first_in_whatever_order_they_ask() {
        let mut lanes = Lanes::new();
        assert_eq!(next(&mut lanes, &[3, 1, 2], 0), Some(1));
        assert_eq!(next(&mut lanes, &[3], 0), Some(3));
        assert_eq!(next(&mut lanes, &[], 0), None);
    }

    #[test]
    fn every_fourth_token_goes_to_the_longest_wait_above_the_last_lane() {
        let mut lanes = Lanes::new();
        assert_eq!(next(&mut lanes, &[0, 3], 0), Some(0));
        let turns: Vec<_> = (1..20)
            .filter_map(|now| next(&mut lanes, &[0, 1, 2, 3], now))
            .collect();
        let others = |turn: &&usize| **turn != 0;
        assert_eq!(
            turns.iter().filter(others).collect::<Vec<_>>(),
            [&1, &2, &1, &2, &1]
        );
        assert_eq!(turns[..8], [0, 0, 1, 0, 0, 0, 2, 0]);
    }

    #[test]
    fn a_lane_that_stops_asking_loses_its_place_and_its_turn() {
        let mut lanes = Lanes::<4>::new();
        assert!(!lanes.ask(1, 5, at(0)));
        assert!(lanes.choose(|| true));
        assert!(!lanes.ask(2, 7, at(1)));
        assert!(lanes.choose(|| true));
        assert!(!lanes.ask(1, 5, at(2)));
        assert!(lanes.ask(2, 7, at(2)));
        assert_eq!(lanes.waiting(), 12);
    }

    #[test]
    fn nobody_is_chosen_without_a_token() {
        let mut lanes = Lanes::<4>::new();
        assert!(!lanes.choose(|| panic!("nobody waits")));
        assert!(!lanes.ask(0, 1, at(0)));
        assert!(!lanes.choose(|| false));
        assert!(!lanes.ask(0, 1, at(1)));
    }
}
