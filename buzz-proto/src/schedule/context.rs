//! What was said before: a fresh session is told the latest messages of its conversation, if the
//! relay gives them soon enough. Nobody waits long for it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec;
use alloc::vec::Vec;

use super::part::Part;
use super::queue::Waiting;
use super::turn::Phase as TurnPhase;
use super::{Action, Context, Scope};
use crate::call::{Call, Measure};
use crate::ids::{EventId, Ticket, TurnId};
use crate::note::Note;
use crate::quotas::{CallLane, Quotas};
use crate::relay::HttpAnswer;
use crate::time::{MonoTime, Now, Why};
use crate::wire::{self, Event, Filter, MESSAGE};

/// A query without an answer is repeated once.
const TRIES_MAX: u8 = 2;
/// Bytes of one event that is told.
const EVENT_BYTES_MAX: usize = 64 << 10;

#[derive(Clone, Debug, Default)]
pub(super) struct Contexts {
    rows: BTreeMap<TurnId, Row>,
    /// Checks under way: of which turn, and which of its events.
    checks: BTreeMap<Ticket, (TurnId, EventId)>,
}

#[derive(Clone, Debug)]
struct Row {
    /// Past this the turn starts without.
    until: MonoTime,
    tries: u8,
    phase: Phase,
}

#[derive(Clone, Debug)]
enum Phase {
    /// To be asked.
    Due,
    Asked(Call),
    /// The answer is there, oldest first; so many of its events are not checked yet.
    Checking {
        events: Vec<Event>,
        open: usize,
    },
    /// Known now.
    Over(Context),
}

impl Contexts {
    /// Whether this call is under way.
    pub(super) fn awaits(&self, ticket: Ticket) -> bool {
        self.turn_of(ticket).is_some()
    }

    fn turn_of(&self, ticket: Ticket) -> Option<TurnId> {
        let is_it = |row: &Row| matches!(row.phase, Phase::Asked(call) if call.ticket == ticket);
        let mut rows = self.rows.iter();
        rows.find(|(_, row)| is_it(row)).map(|(turn, _)| *turn)
    }

    /// An event was checked. Whether that was awaited.
    pub(super) fn checked(&mut self, ticket: Ticket, genuine: bool) -> bool {
        let Some((turn, id)) = self.checks.remove(&ticket) else {
            return false;
        };
        let Some(row) = self.rows.get_mut(&turn) else {
            return true;
        };
        if let Phase::Checking { events, open } = &mut row.phase {
            *open = open.saturating_sub(1);
            if !genuine {
                events.retain(|event| event.id() != id);
            }
            if *open == 0 {
                row.phase = Phase::Over(Context::Before(core::mem::take(events)));
            }
        }
        true
    }

    fn forget(&mut self, turn: TurnId) -> Option<Row> {
        self.checks.retain(|_, (of, _)| *of != turn);
        self.rows.remove(&turn)
    }
}

impl Part {
    /// Whether a turn in a fresh session waits for what was said before: not where its batch begins
    /// the thread.
    pub(super) fn wants_context(
        &mut self,
        turn: TurnId,
        scope: Scope,
        batch: &[Waiting],
        now: MonoTime,
    ) -> bool {
        let limits = &self.config.limits;
        let begins = |root: EventId| batch.iter().any(|waiting| waiting.event.id() == root);
        let is_known = match scope {
            Scope::Thread(_, root) => begins(root),
            Scope::Conversation(_) => false,
        };
        if is_known || limits.context_max == 0 {
            return false;
        }
        let row = Row {
            until: now.after(limits.context),
            tries: 0,
            phase: Phase::Due,
        };
        self.contexts.rows.insert(turn, row);
        true
    }

    /// Asks for what is due, and starts the turns that have it, or have waited long enough; whether
    /// anything moved.
    pub(super) fn pump_contexts(
        &mut self,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let mut moved = false;
        let turns: Vec<TurnId> = self.contexts.rows.keys().copied().collect();
        for turn in turns {
            let is_gathering = self
                .turns
                .get(&turn)
                .is_some_and(|turn| turn.phase == TurnPhase::Gathering);
            if !is_gathering {
                self.drop_context(turn, quotas, out);
                moved = true;
            } else if let Some(context) = self.next_context(turn, now, quotas, out) {
                self.drop_context(turn, quotas, out);
                self.start_with(turn, context, now.time(), out);
                moved = true;
            }
        }
        moved
    }

    /// What a turn is told, once that is known.
    fn next_context(
        &mut self,
        turn: TurnId,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> Option<Context> {
        let has_query = self.has_query(now.time());
        let row = self.contexts.rows.get_mut(&turn)?;
        if let Phase::Over(context) = &row.phase {
            return Some(context.clone());
        }
        if now.reached(row.until, Why::Context) {
            return Some(Context::Unread);
        }
        if !matches!(row.phase, Phase::Due) {
            return None;
        }
        let left = row.until.saturating_since(now.time());
        let is_vain = !has_query || quotas.http.shut_for(now.time()) > left;
        if row.tries >= TRIES_MAX || is_vain {
            return Some(Context::Unread);
        }
        let call = Call::start(CallLane::LookUp, quotas, &mut self.tickets, now)?;
        row.tries = row.tries.saturating_add(1);
        row.phase = Phase::Asked(call);
        let scope = self.turns.get(&turn)?.scope;
        out.push(Action::Query {
            ticket: call.ticket,
            body: wire::query(&self.filters(scope)),
        });
        None
    }

    fn start_with(&mut self, turn: TurnId, context: Context, now: MonoTime, out: &mut Vec<Action>) {
        if context == Context::Unread
            && let Some(row) = self.turns.get(&turn)
        {
            let (turn, scope) = (row.told, row.scope);
            out.push(Action::Note(Note::ContextUnread { turn, scope }));
        }
        self.order_start(turn, context, now, out);
    }

    /// The relay's answer, or that there is none.
    pub(super) fn context_answered(
        &mut self,
        ticket: Ticket,
        answer: Option<&HttpAnswer>,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        let measure = Measure {
            wall: self.wall.map(|wall| wall.at(now)),
            bytes_max: EVENT_BYTES_MAX,
        };
        let Some(turn) = self.contexts.turn_of(ticket) else {
            return;
        };
        let Some(row) = self.contexts.rows.get_mut(&turn) else {
            return;
        };
        let Phase::Asked(call) = row.phase else {
            return;
        };
        row.phase = Phase::Due;
        if let Some(events) = call.ended(answer, measure, quotas, now, out) {
            self.check_context(turn, events, out);
        }
    }

    /// Has the events checked that belong to the conversation of a turn.
    fn check_context(&mut self, turn: TurnId, events: Vec<Event>, out: &mut Vec<Action>) {
        let Some(of) = self.turns.get(&turn) else {
            return;
        };
        let filters = self.filters(of.scope);
        let mut seen: BTreeSet<EventId> =
            of.batch.iter().map(|waiting| waiting.event.id()).collect();
        let mut fitting: Vec<Event> = events
            .into_iter()
            .filter(|event| event.channel() == Some(of.scope.channel()))
            .filter(|event| filters.iter().any(|filter| filter.matches(event)))
            .filter(|event| seen.insert(event.id()))
            .collect();
        fitting.sort_by_key(|event| (event.created_at(), event.id()));
        let most = usize::try_from(self.config.limits.context_max).unwrap_or(usize::MAX);
        let mut left_out = fitting.len().saturating_sub(most);
        let root = match of.scope {
            Scope::Thread(_, root) => Some(root),
            Scope::Conversation(_) => None,
        };
        fitting.retain(|event| {
            // What a thread is about is said at its beginning, however long it became.
            let is_kept = root == Some(event.id()) || left_out == 0;
            left_out = left_out.saturating_sub(usize::from(!is_kept));
            is_kept
        });
        for event in &fitting {
            let ticket = self.tickets.take();
            self.contexts.checks.insert(ticket, (turn, event.id()));
            out.push(Action::Verify {
                ticket,
                event: event.clone(),
                owner: None,
            });
        }
        let phase = match fitting.len() {
            0 => Phase::Over(Context::Before(fitting)),
            open => Phase::Checking {
                events: fitting,
                open,
            },
        };
        if let Some(row) = self.contexts.rows.get_mut(&turn) {
            row.phase = phase;
        }
    }

    fn drop_context(&mut self, turn: TurnId, quotas: &mut Quotas, out: &mut Vec<Action>) {
        if let Some(Row {
            phase: Phase::Asked(call),
            ..
        }) = self.contexts.forget(turn)
        {
            call.abandon(quotas);
            let ticket = call.ticket;
            out.push(Action::Abort { ticket });
        }
    }

    /// The latest messages of a scope; of a thread its root as well.
    fn filters(&self, scope: Scope) -> Vec<Filter> {
        let kinds = self.config.kinds.iter().copied();
        let kinds = kinds.filter(|kind| *kind != MESSAGE);
        let latest = Filter {
            kinds: core::iter::once(MESSAGE).chain(kinds).collect(),
            channel: Some(scope.channel()),
            limit: Some(self.config.limits.context_max),
            ..Filter::default()
        };
        match scope {
            Scope::Conversation(_) => vec![latest],
            Scope::Thread(_, root) => {
                let root_itself = Filter {
                    ids: vec![root],
                    ..Filter::default()
                };
                let events = vec![root];
                vec![root_itself, Filter { events, ..latest }]
            }
        }
    }
}
