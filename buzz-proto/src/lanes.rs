//! Who goes next where several wait for one quota.
//!
//! In each round of decisions every lane on which something waits says so, and whether it could send
//! at once. At the end of the round, if a token is there, one of those that could is chosen, and in
//! the next round it takes the token. So the choice is among all that wait, in whatever order they
//! were asked, and what is held up by something else keeps its place in the queue meanwhile.

/// Every so many tokens one goes to the lane that has waited longest, so that a steady stream on
/// the first lanes cannot keep the others out.
const FAIR_EVERY: u32 = 4;

/// Lanes in the order of their right of way, known by their number. The last one is for what is only
/// good to see: it goes when none of the others could.
#[derive(Clone, Debug)]
pub(crate) struct Lanes<const N: usize> {
    rows: [Row; N],
    chosen: Option<usize>,
    /// Tokens taken since the last one that went to the longest wait.
    taken: u32,
    places: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    /// How many wait, as told in this round or, before that, in the last one.
    count: u32,
    /// Whether it was told in this round that they wait.
    is_waiting: bool,
    /// Whether it was told in this round that one of them could go.
    could_go: bool,
    /// Its place among the lanes, by how long each waits for a token. An instant would not do: in
    /// one instant there can be many tokens.
    place: Option<u64>,
}

impl<const N: usize> Lanes<N> {
    /// Nobody waits.
    pub(crate) const fn new() -> Self {
        let row = Row {
            count: 0,
            is_waiting: false,
            could_go: false,
            place: None,
        };
        Self {
            rows: [row; N],
            chosen: None,
            taken: 0,
            places: 0,
        }
    }

    /// So many wait on this lane, whether or not one of them could go.
    pub(crate) fn wait(&mut self, lane: usize, count: u32) {
        let last = self.next_place();
        if let Some(row) = self.rows.get_mut(lane) {
            let before = if row.is_waiting { row.count } else { 0 };
            row.count = before.saturating_add(count);
            row.is_waiting = true;
            row.place.get_or_insert(last);
        }
    }

    /// One of those that [`wait`](Self::wait) on this lane could go. Whether it is its turn: then a
    /// token is there, and [`take`](Self::take) says that it was taken.
    pub(crate) fn ask(&mut self, lane: usize) -> bool {
        let Some(row) = self.rows.get_mut(lane) else {
            return false;
        };
        row.could_go = row.is_waiting;
        row.could_go && self.chosen == Some(lane)
    }

    /// Whether the next token is this lane's because it has waited longest of those that were told
    /// to wait in this round.
    pub(crate) fn is_owed(&self, lane: usize) -> bool {
        self.longest_waiting(|row| row.is_waiting) == Some(lane)
    }

    /// The lane whose turn it is has taken its token.
    pub(crate) fn take(&mut self) {
        let lane = self.chosen.take();
        let last = self.next_place();
        if let Some(row) = lane.and_then(|lane| self.rows.get_mut(lane)) {
            // What waits behind it on the same lane waits from now on.
            row.place = Some(last);
            self.taken = self.taken.saturating_add(1) % FAIR_EVERY;
        }
    }

    /// Ends a round: chooses the lane whose turn it is in the next one. `is_ready` says whether a
    /// token is there, and is asked only if somebody could go. True when a lane was chosen.
    pub(crate) fn choose(&mut self, is_ready: impl FnOnce() -> bool) -> bool {
        self.chosen = None;
        for row in &mut self.rows {
            if !row.is_waiting {
                *row = Row::default();
            }
        }
        let first = self.rows.iter().position(|row| row.could_go);
        let is_ready = first.is_some() && is_ready();
        if is_ready {
            self.chosen = self.longest_waiting(|row| row.could_go).or(first);
        }
        for row in &mut self.rows {
            row.is_waiting = false;
            row.could_go = false;
        }
        is_ready
    }

    /// How many wait on all lanes.
    pub(crate) fn waiting(&self) -> u32 {
        self.rows
            .iter()
            .fold(0, |sum, row| sum.saturating_add(row.count))
    }

    const fn next_place(&mut self) -> u64 {
        self.places = self.places.saturating_add(1);
        self.places
    }

    /// The lane above the last that has waited longest of `those`, if the next token is the fair
    /// one.
    fn longest_waiting(&self, those: impl Fn(&Row) -> bool) -> Option<usize> {
        if self.taken.saturating_add(1) < FAIR_EVERY {
            return None;
        }
        let above_last = self.rows.iter().enumerate().take(N.saturating_sub(1));
        above_last
            .filter(|(_, row)| those(row))
            .min_by_key(|(_, row)| row.place)
            .map(|(lane, _)| lane)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// One waits on this lane and could go. Whether it is its turn.
    fn ask(lanes: &mut Lanes<4>, lane: usize) -> bool {
        lanes.wait(lane, 1);
        lanes.ask(lane)
    }

    /// The lane that gets a token while these wait.
    fn next(lanes: &mut Lanes<4>, waiting: &[usize]) -> Option<usize> {
        for lane in waiting {
            assert!(!ask(lanes, *lane));
        }
        lanes.choose(|| true);
        let turn = waiting
            .iter()
            .filter(|lane| ask(lanes, **lane))
            .copied()
            .last()?;
        lanes.take();
        lanes.choose(|| false);
        Some(turn)
    }

    #[test]
    fn the_first_lane_that_waits_goes_first_in_whatever_order_they_ask() {
        let mut lanes = Lanes::new();
        assert_eq!(next(&mut lanes, &[3, 1, 2]), Some(1));
        assert_eq!(next(&mut lanes, &[3]), Some(3));
        assert_eq!(next(&mut lanes, &[]), None);
    }

    #[test]
    fn every_fourth_token_goes_to_the_longest_wait_above_the_last_lane() {
        let mut lanes = Lanes::new();
        assert_eq!(next(&mut lanes, &[0, 3]), Some(0));
        let turns: Vec<_> = (1..20)
            .filter_map(|_| next(&mut lanes, &[0, 1, 2, 3]))
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
        let mut lanes = Lanes::new();
        assert!(!ask(&mut lanes, 1));
        assert!(lanes.choose(|| true));
        assert!(!ask(&mut lanes, 2));
        assert!(lanes.choose(|| true));
        lanes.wait(1, 4);
        assert!(!ask(&mut lanes, 1));
        assert!(ask(&mut lanes, 2));
        assert_eq!(lanes.waiting(), 6);
    }

    #[test]
    fn a_lane_that_is_held_up_gets_no_token_and_keeps_its_place() {
        let mut lanes = Lanes::new();
        lanes.wait(2, 1);
        assert!(!lanes.choose(|| panic!("nobody could go")));
        for _ in 0..3 {
            lanes.wait(2, 1);
            assert_eq!(next(&mut lanes, &[0, 1]), Some(0));
            lanes.wait(2, 1);
            lanes.choose(|| false);
        }
        lanes.wait(0, 1);
        lanes.wait(2, 1);
        assert!(lanes.is_owed(2) && !lanes.is_owed(0));
        assert_eq!(next(&mut lanes, &[0, 1, 2]), Some(2));
    }

    #[test]
    fn nobody_is_chosen_without_a_token() {
        let mut lanes = Lanes::new();
        assert!(!lanes.choose(|| panic!("nobody waits")));
        assert!(!ask(&mut lanes, 0));
        assert!(!lanes.choose(|| false));
        assert!(!ask(&mut lanes, 0));
    }
}
