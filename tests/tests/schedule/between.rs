//! What must hold between any two inputs.

use std::collections::BTreeSet;

use buzz_proto::schedule::{Scope, WorkerId};

use crate::watch::{Standing, Watch};

impl Watch {
    /// Every message that has no outcome bears a mark since it was let in, and no other does.
    pub(super) fn see_marks(&self) {
        let mut bare = self
            .queued
            .keys()
            .filter(|id| !self.marked.contains_key(id));
        assert_eq!(bare.next(), None, "it waits and bears no mark");
        let mut over = self.marked.keys().filter(|id| !self.owed.contains_key(id));
        assert_eq!(over.next(), None, "it has its outcome and bears a mark");
    }

    /// Nothing waits beside an idle worker, and nothing waits without an end.
    pub(super) fn see_waits(&self) {
        let busy: BTreeSet<WorkerId> = self.workers_at_work().collect();
        let mut up = self.workers.iter().filter(|(_, is)| **is == Standing::Up);
        let has_idle = up.any(|(worker, _)| !busy.contains(worker));
        let waiting: BTreeSet<Scope> = self
            .queued
            .values()
            .filter(|scope| !self.is_running(**scope))
            .copied()
            .collect();
        let view = self.script.scheduler.view();
        let is_barred = view.is_usage_limited || self.is_half_full;
        assert!(
            !has_idle || is_barred || waiting.len() == view.held + view.resting,
            "one of {waiting:?} waits beside an idle worker: {view:?}"
        );
        let is_moving = self.workers.values().any(|is| *is != Standing::Up);
        let wants_a_wake = !busy.is_empty()
            || is_moving
            || self.workers.len() < 2
            || !self.calls.queries.is_empty()
            || (!waiting.is_empty() && !self.is_half_full);
        assert!(
            !wants_a_wake || self.script.scheduler.next_deadline().is_some(),
            "nothing ends this wait: {view:?}"
        );
    }

    pub(super) fn workers_at_work(&self) -> impl Iterator<Item = WorkerId> {
        let given = self.turns.values();
        let given = given.map(|turn| turn.session.reference().worker);
        given.chain(self.reserved.values().map(|(_, worker)| *worker))
    }

    pub(super) fn is_running(&self, scope: Scope) -> bool {
        self.reserved.contains_key(&scope) || self.turns.values().any(|turn| turn.scope == scope)
    }
}
