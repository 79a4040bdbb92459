//! What must hold between any two inputs.

use std::collections::BTreeSet;

use buzz_proto::schedule::{Limits, Scope, WorkerId};
use buzz_proto::time::MonoTime;

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
        self.see_holds(has_idle && !is_barred);
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

    /// Nothing is held for longer than the limit beside an idle worker, nor for a session that is
    /// gone, and nothing rests that was not tried.
    fn see_holds(&self, may_start: bool) {
        let view = self.script.scheduler.view();
        let at_work: BTreeSet<WorkerId> = self.workers_at_work().collect();
        let has_reason = |scope: &&Scope| {
            let home = self.directory.get(*scope);
            home.is_some_and(|home| at_work.contains(&home.worker))
        };
        let held = self.held.keys().filter(has_reason).count();
        assert!(view.held <= held, "held for nothing: {:?}", self.held);
        let limit = Limits::default().hold;
        let age = |since: &MonoTime| self.script.now().saturating_since(*since);
        assert!(
            !may_start || self.held.values().all(|since| age(since) < limit),
            "held for too long: {:?}",
            self.held
        );
        let tried = self
            .queued
            .iter()
            .filter(|(event, _)| self.begun.contains(event));
        let tried: BTreeSet<&Scope> = tried.map(|(_, scope)| scope).collect();
        assert!(view.resting <= tried.len(), "what was never tried rests");
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
