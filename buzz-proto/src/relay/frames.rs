//! What is recorded of each frame.

use alloc::vec::Vec;

use bytes::Bytes;

use super::auth::Verdict;
use super::link::Return;
use super::outbound::MessageStamp;
use super::subs::{Origin, Retry, retry_after};
use super::verify::Source;
use super::{Action, CloseCause, Relay, Sub, SubState, stale};
use crate::gate::Refusal;
use crate::ids::{ConnId, EventId};
use crate::note::{LinkNote, Note, Quota, ReadFailure, RefusedWhy, StaleWhat, SubPhase};
use crate::quotas::Quotas;
use crate::time::{MonoTime, WallClock};
use crate::wire::{self, Event, Excerpt, Reason, ReasonClass, RelayFrame, SubName};

/// What every frame may touch beside the part itself.
pub(super) struct Context<'a> {
    pub(super) now: MonoTime,
    pub(super) quotas: &'a mut Quotas,
    pub(super) out: &'a mut Vec<Action>,
}

impl Relay {
    pub(super) fn frame(&mut self, conn: ConnId, text: &Bytes, context: &mut Context<'_>) {
        if !self.link.heard(conn, context.now) {
            context.out.push(stale(StaleWhat::Connection));
            return;
        }
        let bytes_max = usize::try_from(self.config.limits.frame_bytes_max).unwrap_or(usize::MAX);
        let frame = match wire::decode(text, bytes_max) {
            Ok(frame) => frame,
            Err(error) => {
                context.out.push(Action::Note(Note::BadFrame {
                    text: Excerpt::of(&error),
                }));
                return;
            }
        };
        match frame {
            RelayFrame::Event { sub, event } => self.event(&sub, event.hold(text.len()), context),
            RelayFrame::Ok {
                event: Some(id),
                accepted,
                reason,
            } => {
                self.ok(id, accepted, reason, context);
            }
            RelayFrame::Ok {
                event: None,
                reason,
                ..
            } => {
                context.out.push(Action::Note(Note::Notice { reason }));
            }
            RelayFrame::Eose { sub } => self.eose(&sub, context),
            RelayFrame::Closed { sub, reason } => {
                self.closed_by_relay(&sub, reason, context);
            }
            RelayFrame::Notice { reason } => self.notice(reason, context),
            RelayFrame::Auth { challenge } => self.auth.challenged(challenge),
            RelayFrame::Count { .. } => context.out.push(stale(StaleWhat::Subscription)),
            RelayFrame::SyncRequired { .. } => self.sync.is_due = true,
            RelayFrame::Unknown { verb } => context
                .out
                .push(Action::Note(Note::BadFrame { text: verb })),
        }
    }

    fn event(&mut self, name: &SubName, event: Event, context: &mut Context<'_>) {
        match self.subs.origin(name) {
            Some(Origin::Current(sub)) => self.live_event(sub, event, context),
            Some(Origin::Page(n)) => self.page_event(n, name, event, context),
            Some(Origin::Superseded) => {}
            None => context.out.push(stale(StaleWhat::Subscription)),
        }
    }

    fn live_event(&mut self, sub: Sub, event: Event, context: &mut Context<'_>) {
        if !self.subs.matches(sub, self.me, &event) {
            return not_asked_for(&event, context);
        }
        self.brought_live(event.id());
        let owed = !self.subs.precedes_floor(sub, event.created_at());
        self.subs.brought(sub, &event);
        if self.pending.merge(sub, &event, owed) || self.seen.contains(&event.id()) {
            return;
        }
        let (limits, dated) = (&self.config.limits, event.created_at());
        let source = (owed, Source::Live);
        if self.pending.push(sub, event, source, limits).is_err() && owed {
            let relay_time = self.relay_time_at(context.now);
            let limits = &self.config.limits;
            self.subs
                .could_not_keep(sub, dated, relay_time, context.now, limits);
        }
    }

    /// An event of a read of stored events, held until the end of the read.
    fn page_event(&mut self, n: u64, name: &SubName, event: Event, context: &mut Context<'_>) {
        let Some(page) = self.page_if(|page| page.is_n(n)) else {
            return self.subs.names.brought(n, name);
        };
        if !page.take(event.clone(), context.now) {
            not_asked_for(&event, context);
        }
    }

    fn ok(&mut self, id: EventId, accepted: bool, reason: Reason, context: &mut Context<'_>) {
        match self.auth.answered(id, accepted, &reason) {
            Some(Verdict::Accepted) => {
                // The relay checked our date against its clock.
                self.relay_time = self
                    .wall_at(context.now)
                    .map(|wall| WallClock::new(wall, context.now));
                self.subs.rearm_waiting();
                return;
            }
            Some(Verdict::Outdated) => return,
            Some(Verdict::Refused(reason)) => {
                self.auth_refused(reason, context);
                return;
            }
            None => {}
        }
        let refused = (!accepted).then(|| reason.clone());
        let Some(stamp) = self.outbound.answered(id, accepted, reason) else {
            context.out.push(stale(StaleWhat::Receipt));
            return;
        };
        let Some(reason) = refused else {
            stamp.succeed(context.quotas);
            return;
        };
        if matches!(reason.class, ReasonClass::AuthRequired(_)) {
            self.auth.required(context.now);
        }
        if reason.is_rate_limit() {
            let refusal = stamp.refuse(context.quotas, reason.wait(), context.now);
            self.throttled(Quota::Messages, refusal, &reason, context);
        } else {
            stamp.succeed(context.quotas);
        }
    }

    fn auth_refused(&mut self, reason: Reason, context: &mut Context<'_>) {
        let back = match reason.class {
            ReasonClass::Blocked | ReasonClass::Restricted(_) => Return::Slow,
            ReasonClass::Empty
            | ReasonClass::Duplicate
            | ReasonClass::RateLimited
            | ReasonClass::AuthRequired(_)
            | ReasonClass::Invalid(_)
            | ReasonClass::Error(_)
            | ReasonClass::Pow
            | ReasonClass::Unsupported
            | ReasonClass::Relay
            | ReasonClass::HttpAuth(_)
            | ReasonClass::Unknown => Return::Ladder,
        };
        context
            .out
            .push(Action::Note(Note::Link(LinkNote::AuthRefused { reason })));
        self.doomed = Some((CloseCause::AuthRefused, back));
    }

    fn eose(&mut self, name: &SubName, context: &mut Context<'_>) {
        let sub = match self.subs.origin(name) {
            Some(Origin::Current(sub)) => sub,
            Some(Origin::Page(n)) => return self.page_eose(n, name, context),
            Some(Origin::Superseded) => return,
            None => return context.out.push(stale(StaleWhat::Subscription)),
        };
        self.answered_otherwise(sub, context);
        let (most, limits) = (self.inform.limit_max(), &self.config.limits);
        if !self.subs.confirmed(sub, most, limits, context.now) {
            return;
        }
        self.ledger.touch();
        self.audits.is_live(sub, context.now);
        context.out.push(Action::Note(Note::Subscription {
            sub,
            phase: SubPhase::Live,
        }));
        self.reports.push_back((sub, SubState::Live));
    }

    fn page_eose(&mut self, n: u64, name: &SubName, context: &mut Context<'_>) {
        match self.reader_of(|page| page.is_n(n)) {
            Some(reader) => self.read_ended(reader, context.quotas, context.now, context.out),
            None => self.subs.names.brought(n, name),
        }
    }

    /// A read of stored events was refused: what it was for stays to be read.
    fn page_closed(&mut self, n: u64, reason: Reason, context: &mut Context<'_>) {
        let Some(reader) = self.reader_of(|page| page.is_n(n)) else {
            return;
        };
        let Some(stamp) = self.page_of(reader).and_then(|page| page.stamp()) else {
            return;
        };
        let operations = &mut context.quotas.operations.pace;
        if reason.is_rate_limit() {
            let refusal = operations.refuse(reason.wait(), stamp, context.now);
            self.throttled(Quota::Operations, refusal, &reason, context);
        } else {
            operations.succeed(stamp);
        }
        if matches!(reason.class, ReasonClass::AuthRequired(_)) {
            self.auth.required(context.now);
        }
        let why = ReadFailure::Refused { reason };
        self.read_failed(reader, why, context.now, context.out);
    }

    fn closed_by_relay(&mut self, name: &SubName, reason: Reason, context: &mut Context<'_>) {
        let sub = match self.subs.origin_of_closed(name) {
            Some(Origin::Current(sub)) => sub,
            Some(Origin::Page(n)) => return self.page_closed(n, reason, context),
            Some(Origin::Superseded) => return,
            None => return context.out.push(stale(StaleWhat::Subscription)),
        };
        let retry = retry_after(&reason);
        if retry != Retry::Gate {
            self.answered_otherwise(sub, context);
        }
        match retry {
            Retry::Gate => {
                let stamp = self
                    .subs
                    .stamp(sub)
                    .unwrap_or_else(|| context.quotas.operations.pace.generation());
                let refusal =
                    context
                        .quotas
                        .operations
                        .pace
                        .refuse(reason.wait(), stamp, context.now);
                self.throttled(Quota::Operations, refusal, &reason, context);
            }
            Retry::Later => {
                if matches!(reason.class, ReasonClass::AuthRequired(_)) {
                    self.auth.required(context.now);
                }
                self.reports.push_back((sub, SubState::Waiting));
                let phase = SubPhase::Waiting { reason };
                context
                    .out
                    .push(Action::Note(Note::Subscription { sub, phase }));
            }
            Retry::Never => {
                let state = SubState::Refused {
                    reason: reason.clone(),
                };
                self.reports.push_back((sub, state));
                let phase = SubPhase::Refused { reason };
                context
                    .out
                    .push(Action::Note(Note::Subscription { sub, phase }));
            }
        }
        self.subs.refused(sub, retry, context.now);
    }

    /// A request was answered, and not because there were too many.
    fn answered_otherwise(&self, sub: Sub, context: &mut Context<'_>) {
        if let Some(stamp) = self.subs.stamp(sub) {
            context.quotas.operations.pace.succeed(stamp);
        }
    }

    /// A notice names no frame, so it ends no connection; what it may be about has limits of its own.
    fn notice(&mut self, reason: Reason, context: &mut Context<'_>) {
        if reason.is_rate_limit() {
            // It names no frame. A refused REQ gets its CLOSED as well, so it is about an EVENT.
            let stamp = self
                .outbound
                .take_back()
                .unwrap_or_else(|| MessageStamp::present(context.quotas));
            let refusal = stamp.refuse(context.quotas, reason.wait(), context.now);
            self.throttled(Quota::Messages, refusal, &reason, context);
            return;
        }
        context.out.push(Action::Note(Note::Notice { reason }));
    }

    fn throttled(
        &self,
        quota: Quota,
        refusal: Refusal,
        reason: &Reason,
        context: &mut Context<'_>,
    ) {
        if refusal == Refusal::Known {
            return;
        }
        let (sent, unsent) = self.outbound.counts();
        let requests = u32::try_from(self.subs.unanswered()).unwrap_or(u32::MAX);
        let operations = &context.quotas.operations;
        let (pace, in_flight, waiting) = match quota {
            Quota::Operations => {
                let in_flight = requests.saturating_add(sent);
                (&operations.pace, in_flight, operations.waiting())
            }
            Quota::Messages | Quota::Http => (&context.quotas.messages, sent, unsent),
        };
        context.out.push(Action::Note(Note::Throttled {
            quota,
            source: reason.hint.map(|hint| hint.source),
            capped: reason.hint.is_some_and(|hint| hint.capped),
            wait: pace.wait(context.now),
            in_flight,
            waiting,
            attempt: pace.attempt(),
        }));
    }
}

fn not_asked_for(event: &Event, context: &mut Context<'_>) {
    let (event, why) = (event.id(), RefusedWhy::NoMatch);
    let refused = Note::Refused { event, why };
    context.out.push(Action::Note(refused));
}
