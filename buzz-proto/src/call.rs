//! One `POST /query`, and whether the relay has that route.

use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;

use crate::gate::Generation;
use crate::ids::Ticket;
use crate::note::Note;
use crate::publish::settle;
use crate::quotas::{CallLane, Quotas};
use crate::relay::HttpAnswer;
use crate::retry_hint::Hint;
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::{self, Event};

/// A relay that fails to answer so often in a row is taken to have no such route.
const FAILURES_MAX: u32 = 3;

/// A call under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) ticket: Ticket,
    since: MonoTime,
    sent: Generation,
}

/// What an answer is read by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measure {
    /// Our own clock, if it is known.
    pub(crate) wall: Option<UnixTime>,
    /// Bytes of one event.
    pub(crate) bytes_max: usize,
}

impl Call {
    /// Takes what a call needs of the quota, if it is the turn of its lane.
    pub(crate) fn start(
        lane: CallLane,
        quotas: &mut Quotas,
        tickets: &mut Ticket,
        now: &mut Now,
    ) -> Option<Self> {
        quotas.http.wait(lane, 1);
        let sent = quotas.http.start(lane, now)?;
        Some(Self {
            ticket: tickets.take(),
            since: now.time(),
            sent,
        })
    }

    /// Whether it took longer than this.
    pub(crate) fn is_overdue(&self, limit: Duration, now: &mut Now) -> bool {
        now.reached(self.since.after(limit), Why::Answer)
    }

    /// It has no answer.
    pub(crate) fn broke<A: From<Note>>(self, quotas: &mut Quotas, now: MonoTime, out: &mut Vec<A>) {
        self.failed(None, quotas, now, out);
    }

    fn failed<A: From<Note>>(
        self,
        hint: Option<Hint>,
        quotas: &mut Quotas,
        now: MonoTime,
        out: &mut Vec<A>,
    ) {
        let http = &mut quotas.http;
        let refusal = http.fail(hint.map(|hint| hint.wait), self.sent, now);
        let note = http.throttled(refusal, hint, http.waiting(), now);
        out.extend(note.map(A::from));
    }

    /// It was answered, or has no answer. Gives the events of a good answer.
    pub(crate) fn ended<A: From<Note>>(
        self,
        answer: Option<&HttpAnswer>,
        measure: Measure,
        quotas: &mut Quotas,
        now: MonoTime,
        out: &mut Vec<A>,
    ) -> Option<Vec<Event>> {
        let Some(answer) = answer else {
            self.broke(quotas, now, out);
            return None;
        };
        self.answered(answer, measure, quotas, now, out)
    }

    /// It is given up without knowledge of its answer.
    pub(crate) fn abandon(self, quotas: &mut Quotas) {
        quotas.http.abandon(self.sent);
    }

    /// It was answered. Gives the events of a good answer.
    pub(crate) fn answered<A: From<Note>>(
        self,
        answer: &HttpAnswer,
        measure: Measure,
        quotas: &mut Quotas,
        now: MonoTime,
        out: &mut Vec<A>,
    ) -> Option<Vec<Event>> {
        let reason = wire::body_reason(&answer.body);
        if settle::is_relay_failure(answer.status, &reason) {
            let hint = settle::hint(answer, &reason, measure.wall);
            self.failed(hint, quotas, now, out);
        } else {
            quotas.http.succeed(self.sent);
        }
        (answer.status == 200)
            .then(|| read_events(&answer.body, measure.bytes_max))
            .flatten()
    }
}

/// The events of an answer in which nothing is malformed.
fn read_events(body: &Bytes, bytes_max: usize) -> Option<Vec<Event>> {
    let answer = wire::decode_events(body, bytes_max).ok()?;
    (answer.malformed == 0).then_some(answer.events)
}

/// Whether `/query` can be used on this connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Route {
    failures: u32,
}

impl Route {
    pub(crate) const fn is_open(self) -> bool {
        self.failures < FAILURES_MAX
    }

    /// Learns from an answer, or from there being none.
    pub(crate) fn learn(&mut self, answer: Option<&HttpAnswer>) {
        let is_limited = |answer: &HttpAnswer| {
            answer.status == 429 || wire::body_reason(&answer.body).is_rate_limit()
        };
        self.failures = match answer.map(|answer| answer.status) {
            Some(200) => 0,
            // The limiter says nothing of the route, with whatever status.
            _ if answer.is_some_and(is_limited) => self.failures,
            Some(403 | 404 | 405 | 426) => FAILURES_MAX,
            Some(_) | None => self.failures.saturating_add(1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &'static str) -> HttpAnswer {
        HttpAnswer {
            status,
            retry_after: None,
            date: None,
            body: Bytes::from_static(body.as_bytes()),
        }
    }

    #[test]
    fn a_route_is_closed_by_three_failures_that_are_not_the_limiter_s() {
        let mut route = Route::default();
        let limited = r#"{"error":"rate-limited: shared admission unavailable"}"#;
        for _ in 0..5 {
            route.learn(Some(&answer(503, limited)));
            route.learn(Some(&answer(429, "<html>slow down</html>")));
        }
        assert!(route.is_open());
        for is_open in [true, true, false] {
            route.learn(Some(&answer(503, "<html>gone</html>")));
            assert_eq!(route.is_open(), is_open);
        }
        route.learn(Some(&answer(200, "[]")));
        assert!(route.is_open());
        route.learn(Some(&answer(404, "")));
        assert!(!route.is_open());
    }
}
