//! Audits, what their answers mean: how far a subscription is known to have brought everything,
//! and what it missed.
//!
//! An event that only an audit has brought is handed over at once. When the live subscription does
//! not bring it soon after, that subscription is deaf and is requested anew; when that helps none
//! of several, the connection is.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::time::Duration;

use super::audit::{Found, FoundPhase, Progress};
use super::page::{Page, Via};
use crate::call::Call;
use crate::ids::EventId;
use crate::note::Note;
use crate::quotas::Quotas;
use crate::relay::link::Return;
use crate::relay::sub_row::Phase;
use crate::relay::verify::{Checked, Source, Verdict};
use crate::relay::{Action, BrokeCause, CloseCause, HttpAnswer, Relay, Sub};
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::Event;

/// Pages of one audit of a subscription.
const PAGES_MAX: u32 = 5;
/// Failed reads in a row before a subscription waits for its next audit.
const FAILURES_MAX: u32 = 3;
/// An answer that is larger is not looked at.
const BYTES_MAX: usize = 8 << 20;
/// So long after an audit has brought an event, the live subscription may bring it too.
const LATENESS: Duration = Duration::from_secs(30);
/// So many subscriptions that miss events although they were requested anew, within this time, end
/// the connection.
const REPEATED_MAX: usize = 3;
const REPEATED_SPAN: Duration = Duration::from_secs(600);

/// What follows a page that came to its end.
enum Next {
    /// Nothing is left to be read.
    End,
    Page(Progress),
    /// What is older than this is not read.
    Unread(UnixTime),
}

impl Progress {
    /// What follows a page whose last event is `end`; nothing, when there was room for more.
    fn after(self, end: Option<(UnixTime, EventId)>, by_http: bool) -> Next {
        let Some((dated, id)) = end else {
            return Next::End;
        };
        let pages = self.pages.saturating_add(1);
        // Within one second only HTTP pages on.
        let is_stuck = self.until == Some(dated) && !by_http;
        if is_stuck || pages >= PAGES_MAX {
            return Next::Unread(dated);
        }
        Next::Page(Self {
            until: Some(dated),
            after: (self.until == Some(dated)).then_some(id),
            pages,
            failures: 0,
            ..self
        })
    }
}

impl Relay {
    /// The call under way was answered.
    pub(in crate::relay) fn audit_answered(
        &mut self,
        answer: &HttpAnswer,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        let Some((call, mut pages)) = self.audits.take_call() else {
            return;
        };
        self.route.learn(Some(answer));
        if answer.status == 200 && answer.body.len() > BYTES_MAX {
            return self.audit_too_large(call, &pages, now, quotas, out);
        }
        let measure = self.measure(now);
        let Some(events) = call.answered(answer, measure, quotas, now, out) else {
            return self.audits_failed(&pages, now, out);
        };
        self.audits.resize(None);
        for event in events {
            for (_, page) in &mut pages {
                page.take(event.clone(), now);
            }
        }
        let unclear = self.unclear(&pages);
        for (sub, page) in pages {
            if unclear.contains(&sub) {
                self.audit_alone(sub);
            } else {
                self.audit_page_ended(sub, page, now, out);
            }
        }
    }

    /// The channels to which a new event may belong that does not say which.
    fn unclear(&self, pages: &[(Sub, Page)]) -> BTreeSet<Sub> {
        let channels = || pages.iter().filter(|(sub, _)| *sub != Sub::Membership);
        let is_unclear = |event: &Event| {
            let takers = channels().filter(|(_, page)| page.brought(event.id()));
            event.channel().is_none() && !self.seen.contains(&event.id()) && takers.count() > 1
        };
        let unclear = channels().filter(|(_, page)| page.events().iter().any(is_unclear));
        unclear.map(|(sub, _)| *sub).collect()
    }

    /// The call under way has no answer.
    pub(in crate::relay) fn audit_broke(
        &mut self,
        cause: BrokeCause,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        if cause != BrokeCause::TooLarge {
            return self.audit_unanswered(now, quotas, out);
        }
        if let Some((call, pages)) = self.audits.take_call() {
            self.audit_too_large(call, &pages, now, quotas, out);
        }
    }

    /// The call under way broke, or took too long.
    pub(in crate::relay) fn audit_unanswered(
        &mut self,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        if let Some((call, pages)) = self.audits.take_call() {
            call.broke(quotas, now, out);
            self.route.learn(None);
            self.audits_failed(&pages, now, out);
        }
    }

    /// Too much was asked for at once; the relay is not to blame.
    fn audit_too_large(
        &mut self,
        call: Call,
        pages: &[(Sub, Page)],
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        call.abandon(quotas);
        if !pages.is_empty() {
            self.audits.resize(Some(pages.len()));
        }
        match pages {
            [(sub, page)] => self.halve_audit(*sub, page, now, out),
            _ => {
                for (sub, _) in pages {
                    if let Some((turn, progress)) = self.audits.reading(*sub) {
                        self.audits.goes_on(*sub, turn, Some(progress));
                    }
                }
            }
        }
    }

    /// One subscription alone is too large for an answer: its next page is half as long.
    fn halve_audit(&mut self, sub: Sub, page: &Page, now: MonoTime, out: &mut Vec<Action>) {
        let Some((turn, progress)) = self.audits.reading(sub) else {
            return;
        };
        if page.filter.limit.is_none_or(|limit| limit <= 1) {
            return self.audit_failed(sub, now, out);
        }
        let halvings = progress.halvings.saturating_add(1);
        let progress = Progress {
            halvings,
            ..progress
        };
        self.audits.goes_on(sub, turn, Some(progress));
    }

    /// The page on the socket has come to its end.
    pub(in crate::relay) fn audit_eose(&mut self, now: MonoTime, out: &mut Vec<Action>) {
        if let Some((sub, page)) = self.take_audit_page() {
            self.audit_page_ended(sub, page, now, out);
        }
    }

    /// The page on the socket is over without its end.
    pub(in crate::relay) fn audit_page_broke(&mut self, now: MonoTime, out: &mut Vec<Action>) {
        if let Some((sub, _)) = self.take_audit_page() {
            self.audit_failed(sub, now, out);
        }
    }

    /// The page on the socket brings more than is held.
    pub(in crate::relay) fn audit_page_too_large(&mut self, now: MonoTime, out: &mut Vec<Action>) {
        if let Some((sub, page)) = self.take_audit_page() {
            self.halve_audit(sub, &page, now, out);
        }
    }

    fn take_audit_page(&mut self) -> Option<(Sub, Page)> {
        let (sub, page) = self.audits.take_page()?;
        if let Via::Socket { n, .. } = page.via {
            self.subs.names.supersede_page(n);
        }
        Some((sub, page))
    }

    fn audits_failed(&mut self, pages: &[(Sub, Page)], now: MonoTime, out: &mut Vec<Action>) {
        for (sub, _) in pages {
            self.audit_failed(*sub, now, out);
        }
    }

    /// A read said nothing of a subscription.
    fn audit_failed(&mut self, sub: Sub, now: MonoTime, out: &mut Vec<Action>) {
        let Some((turn, progress)) = self.audits.reading(sub) else {
            return;
        };
        let failures = progress.failures.saturating_add(1);
        if failures >= FAILURES_MAX {
            let before = progress.until.unwrap_or(progress.begun);
            return self.end_audit(sub, &progress, Some(before), now, out);
        }
        let progress = Progress {
            failures,
            ..progress
        };
        self.audits.retry(sub, turn, progress, now);
    }

    /// Events of a subscription do not name their channel: it is read again, alone.
    fn audit_alone(&mut self, sub: Sub) {
        if let Some((turn, progress)) = self.audits.reading(sub) {
            self.audits.goes_on(sub, turn, Some(progress));
        }
        if let Some(row) = self.audits.rows.get_mut(&sub) {
            row.is_alone = true;
        }
    }

    /// A page of a subscription came to its end: what it brought is compared with what was seen.
    fn audit_page_ended(&mut self, sub: Sub, page: Page, now: MonoTime, out: &mut Vec<Action>) {
        let Some((turn, mut progress)) = self.audits.reading(sub) else {
            return;
        };
        let Some(row) = self.subs.row(sub) else {
            return self.audits.forget(sub);
        };
        if !matches!(row.phase, Phase::Live { .. }) {
            return self.audits.rest(sub);
        }
        if !row.loss.is_empty() {
            // What the live subscription brought meanwhile may be among what is owed.
            return self.audits.goes_on(sub, turn, None);
        }
        let by_http = page.call().is_some();
        let is_known = row.known >= Some(progress.since) || progress.until.is_some();
        if page.is_empty() && is_known && !by_http {
            // A relay whose database fails answers so too.
            return self.audit_failed(sub, now, out);
        }
        progress.is_whole &= row.interest.kinds == page.filter.kinds || sub == Sub::Membership;
        let next = progress.after(page.end(), by_http);
        let is_whole = self.compare(sub, page, &mut progress);
        match next {
            Next::Page(next) => {
                let next = Progress {
                    is_whole,
                    has_found: progress.has_found,
                    ..next
                };
                self.audits.goes_on(sub, turn, Some(next));
            }
            Next::Unread(before) => self.end_audit(sub, &progress, Some(before), now, out),
            Next::End => self.end_audit(sub, &progress, None, now, out),
        }
    }

    /// Has what was not seen verified. False when something of it was left out.
    fn compare(&mut self, sub: Sub, page: Page, progress: &mut Progress) -> bool {
        let limits = &self.config.limits;
        for event in page.into_events() {
            let (id, dated) = (event.id(), event.created_at());
            let is_forgotten = self.forgotten.is_some_and(|forgotten| dated <= forgotten);
            let owed = self.subs.is_owed_of_page(sub, id, dated);
            let is_known =
                is_forgotten || self.seen.contains(&id) || self.pending.merge(sub, &event, owed);
            if is_known {
                continue;
            }
            progress.has_found = true;
            let source = (owed, Source::Audit);
            if self.pending.push(sub, event, source, limits).is_err() {
                progress.is_whole = false;
                continue;
            }
            let phase = FoundPhase::Verifying;
            self.audits.found.entry(id).or_insert(Found { sub, phase });
        }
        progress.is_whole
    }

    /// The audit of a subscription is over. What is older than `unread` was not read.
    fn end_audit(
        &mut self,
        sub: Sub,
        progress: &Progress,
        unread: Option<UnixTime>,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        self.audits.next_round(sub, now);
        let forgotten = self.forgotten.filter(|dated| *dated >= progress.since);
        if let Some(before) = unread.max(forgotten) {
            out.push(Action::Note(Note::Unaudited { sub, before }));
        }
        if unread.is_some() || !progress.is_whole {
            return;
        }
        if let Some(row) = self.audits.rows.get_mut(&sub) {
            row.is_renewed &= progress.has_found;
        }
        if let Some(row) = self.subs.row_mut(sub) {
            row.move_cursor(progress.begun, &self.config.limits);
            self.ledger.touch();
        }
    }

    /// For an event of an audit that has its verdict: whether nothing else has brought it.
    pub(in crate::relay) fn found_by_audit(&self, checked: &Checked) -> Option<(EventId, bool)> {
        let id = checked.event.id();
        let is_genuine = checked.verdict == Verdict::Genuine;
        let is_found = is_genuine && checked.owed && !self.seen.contains(&id);
        (checked.source == Source::Audit).then_some((id, is_found))
    }

    /// What an audit has found was handed over: from now on the live subscription is waited for.
    pub(in crate::relay) fn await_found(&mut self, found: Option<(EventId, bool)>, now: MonoTime) {
        let Some((id, is_found)) = found else { return };
        let Some(found) = self.audits.found.get_mut(&id) else {
            return;
        };
        if found.phase != FoundPhase::Verifying {
            return;
        }
        if is_found {
            let until = now.after(LATENESS);
            found.phase = FoundPhase::Awaited(until);
            self.audits.awaited.insert((until, id));
        } else {
            self.audits.found.remove(&id);
        }
    }

    /// A live subscription brought an event.
    pub(in crate::relay) fn brought_live(&mut self, id: EventId) {
        if let Some(found) = self.audits.found.remove(&id)
            && let FoundPhase::Awaited(until) = found.phase
        {
            self.audits.awaited.remove(&(until, id));
        }
    }

    /// Requests anew what did not bring what the relay stores.
    pub(in crate::relay) fn tell_missed(&mut self, now: &mut Now, out: &mut Vec<Action>) -> bool {
        let mut missed = BTreeSet::new();
        let mut moved = false;
        while let Some((until, id)) = self.audits.awaited.first().copied() {
            if !now.reached(until, Why::Audit) {
                break;
            }
            moved = true;
            self.audits.awaited.remove(&(until, id));
            let Some(Found { sub, .. }) = self.audits.found.remove(&id) else {
                continue;
            };
            let row = self.subs.row(sub);
            if row.is_some_and(|row| matches!(row.phase, Phase::Live { .. })) {
                let event = id;
                out.push(Action::Note(Note::Missed { sub, event }));
                missed.insert(sub);
            }
        }
        for sub in missed {
            self.renew(sub, now);
        }
        moved
    }

    fn renew(&mut self, sub: Sub, now: &mut Now) {
        if let Some(row) = self.subs.row_mut(sub) {
            let superseded = row.phase.name(sub);
            row.phase = Phase::Wanted;
            self.subs.names.supersede(superseded);
        }
        self.audits.rest(sub);
        let Some(row) = self.audits.rows.get_mut(&sub) else {
            return;
        };
        if !core::mem::replace(&mut row.is_renewed, true) {
            return;
        }
        let repeated = &mut self.audits.repeated;
        repeated.insert(sub, now.time());
        repeated.retain(|_, at| !now.reached(at.after(REPEATED_SPAN), Why::Audit));
        if repeated.len() >= REPEATED_MAX {
            self.doomed = Some((CloseCause::Lossy, Return::Ladder));
        }
    }
}
