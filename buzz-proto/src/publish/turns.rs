//! Whose turn it is: where calls start.
//!
//! What people wait for goes first, then the question for what may be stored, then what is only good
//! to see.

use alloc::vec::Vec;

use super::calls::Call;
use super::job::{Content, Phase, Rank, Row, Sort, dated};
use super::marks::is_mark_job;
use super::outbox::Pick;
use super::part::{Asks, Part, Sent};
use super::{Action, Route};
use crate::ids::{JobId, Ticket};
use crate::quotas::{CallLane, Quotas};
use crate::time::{Now, Why};
use crate::wire::{Event, Filter, query};

/// What a turn has come to.
enum Turn {
    /// Nobody can go.
    Nobody,
    /// A job is nearer to going: it was put in, looked at again, or given to the signer.
    Prepared,
    /// This job can go, as this event.
    Go(JobId, Event),
}

impl Part {
    /// Says on which lanes jobs wait for a call; all are counted on the first of these. Those that
    /// find no place now keep their place in the queue.
    pub(super) fn line_up(&self, quotas: &mut Quotas) {
        let (posts, has_route) = (Pick::Only(Route::Post), !self.has_no_route);
        let mut count = self.waiting();
        for (lane, is_waiting) in [
            (
                CallLane::Reply,
                has_route
                    && (self.has_next(posts, Rank::Durable) || self.reserved(Rank::Durable) > 0),
            ),
            (CallLane::LookUp, self.outbox.unsure().is_some()),
            (
                CallLane::Cosmetic,
                has_route && self.has_next(posts, Rank::Cosmetic),
            ),
        ] {
            if is_waiting {
                quotas.http.wait(lane, core::mem::take(&mut count));
            }
        }
    }

    /// Lets one job take its turn. Whether one did.
    pub(super) fn take_turn(
        &mut self,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        self.send_next(Rank::Durable, now, quotas, out)
            || self.send_next(Rank::Cosmetic, now, quotas, out)
            || self.post_next(Rank::Durable, now, quotas, out)
            || self.look_up_next(now, quotas, out)
            || (!self.is_owed_a_call() && self.post_next(Rank::Cosmetic, now, quotas, out))
    }

    /// Whether what people wait for has a turn to come over HTTP.
    fn is_owed_a_call(&self) -> bool {
        let is_post = !self.has_no_route && self.has_next(Pick::Only(Route::Post), Rank::Durable);
        is_post || self.outbox.unsure().is_some()
    }

    /// Lets one job of a rank take its turn over HTTP. Whether one did.
    fn post_next(
        &mut self,
        rank: Rank,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        if self.has_no_route {
            return false;
        }
        let pick = Pick::Only(Route::Post);
        if !self.has_next(pick, rank) || !quotas.http.has_room(self.reserved(rank), now) {
            return false;
        }
        let (job, event) = match self.prepare(pick, rank, now, out) {
            Turn::Nobody => return false,
            Turn::Prepared => return true,
            Turn::Go(job, event) => (job, event),
        };
        let lane = match rank {
            Rank::Durable => CallLane::Reply,
            Rank::Cosmetic => CallLane::Cosmetic,
        };
        let Some(ticket) = self.start_call(job, Asks::ToStore, lane, now, quotas) else {
            return false;
        };
        self.outbox.enter(job, Phase::Posting { ticket });
        let attempt = self.outbox.row_mut(job).map_or(1, |row| {
            row.history.begin();
            row.history.posts = row.history.posts.saturating_add(1);
            row.history.posts
        });
        out.push(Action::Post {
            ticket,
            attempt,
            event,
        });
        true
    }

    /// Asks for one job whether it is stored. Whether one was there to be asked for.
    fn look_up_next(&mut self, now: &mut Now, quotas: &mut Quotas, out: &mut Vec<Action>) -> bool {
        let Some(job) = self.outbox.unsure() else {
            return false;
        };
        let lane = CallLane::LookUp;
        // No draft at the signer is waited for by what has waited longest.
        let reserved = if quotas.http.is_owed(lane) {
            0
        } else {
            self.reserved(Rank::Cosmetic)
        };
        if !quotas.http.has_room(reserved, now) {
            return false;
        }
        let Some(event) = self.event(job) else {
            return false;
        };
        let Some(ticket) = self.start_call(job, Asks::WhetherStored, lane, now, quotas) else {
            return false;
        };
        self.outbox.enter(job, Phase::LookingUp { ticket });
        let head = event.head();
        let body = query(&[Filter {
            ids: [head.id].into(),
            kinds: [head.kind].into_iter().collect(),
            limit: Some(1),
            ..Filter::default()
        }]);
        out.push(Action::Query { ticket, body });
        true
    }

    /// Starts a call if it is the turn of its lane.
    fn start_call(
        &mut self,
        job: JobId,
        asks: Asks,
        lane: CallLane,
        now: &mut Now,
        quotas: &mut Quotas,
    ) -> Option<Ticket> {
        let event = self.outbox.get(job)?.signature()?.0.id();
        let at = quotas.http.start(lane, now)?;
        let (ticket, until) = (self.tickets.take(), now.time().after(self.config.answer));
        let kept = Sent { at, event, asks };
        self.posts.begin(ticket, Call { job, until, kept });
        Some(ticket)
    }

    /// Lets one job of a rank take its turn on the socket. Whether one did.
    fn send_next(
        &mut self,
        rank: Rank,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> bool {
        let pick = if self.has_no_route {
            Pick::Any
        } else {
            Pick::Only(Route::Socket)
        };
        if !self.is_live
            || !self.has_next(pick, rank)
            || !self.has_place(rank)
            || !quotas.messages.is_open(now)
        {
            return false;
        }
        let (job, event) = match self.prepare(pick, rank, now, out) {
            Turn::Nobody => return false,
            Turn::Prepared => return true,
            Turn::Go(job, event) => (job, event),
        };
        let (ticket, until) = (self.tickets.take(), now.time().after(self.config.receipt));
        let kept = ();
        self.sends.begin(ticket, Call { job, until, kept });
        self.outbox.enter(job, Phase::Sending { ticket });
        if let Some(row) = self.outbox.row_mut(job) {
            row.history.begin();
        }
        out.push(Action::Send {
            ticket,
            durable: rank == Rank::Durable,
            event,
        });
        true
    }

    fn has_next(&self, pick: Pick, rank: Rank) -> bool {
        self.outbox.next(pick, rank, false).is_some()
            || (takes_marks(pick, rank) && self.is_mark_next())
    }

    /// Makes the job whose turn it is ready to go.
    fn prepare(&mut self, pick: Pick, rank: Rank, now: &mut Now, out: &mut Vec<Action>) -> Turn {
        if takes_marks(pick, rank) && self.begin_mark(now) {
            return Turn::Prepared;
        }
        let Some(job) = self.choose(pick, rank, now) else {
            return Turn::Nobody;
        };
        if self.is_aged(job, now) || self.sign(job, now, out) {
            return Turn::Prepared;
        }
        let event = self.event(job);
        event.map_or(Turn::Nobody, |event| Turn::Go(job, event))
    }

    /// Whether a step towards a mark may begin: a call may outlive its step, and there is one at a
    /// time.
    fn is_mark_next(&self) -> bool {
        self.marks.is_next() && !self.posts.jobs().any(is_mark_job)
    }

    /// Puts the next step towards a mark into the outbox, behind what is there, when its turn has
    /// come: its time runs from here. Whether there was one, and room for it.
    fn begin_mark(&mut self, now: &Now) -> bool {
        if !self.is_mark_next() {
            return false;
        }
        let Some(next) = self.marks.next() else {
            return false;
        };
        let expires = now.time().after(self.config.latest_ttl);
        let mut row = Row::new(Sort::Mark, Route::Post, next.content, expires, self.stored);
        row.history.is_doubtful = next.is_doubtful;
        if !self.outbox.has_room(&row) {
            return false;
        }
        let job = self.marks.begin();
        job.map(|job| self.outbox.insert(job, row)).is_some()
    }

    /// Drafts at the signer that come back for a place over HTTP, and go before this rank.
    fn reserved(&self, rank: Rank) -> u32 {
        let rows = self.signs.jobs().filter_map(|job| self.outbox.get(job));
        count(rows.filter(|row| !self.goes_by_socket(row) && row.sort.rank() <= rank))
    }

    /// Whether there is a place on the socket. What is only good to see leaves one for what people
    /// wait for, if there is more than one, so that it cannot fill the socket while it waits there.
    fn has_place(&self, rank: Rank) -> bool {
        let signs = self.signs.jobs().filter_map(|job| self.outbox.get(job));
        let signs = signs.filter(|row| self.goes_by_socket(row));
        let sends = self.sends.jobs().filter_map(|job| self.outbox.get(job));
        let rows = signs.chain(sends);
        let max = self.config.in_flight_max;
        let cosmetic_max = max.saturating_sub(1).max(1);
        let cosmetic = |row: &&Row| row.sort.rank() == Rank::Cosmetic;
        count(rows.clone()) < max
            && (rank == Rank::Durable || count(rows.filter(cosmetic)) < cosmetic_max)
    }

    pub(super) fn goes_by_socket(&self, row: &Row) -> bool {
        self.has_no_route || row.route == Route::Socket
    }

    /// The job whose turn it is. While the signer rests it is one that needs no signature.
    fn choose(&self, pick: Pick, rank: Rank, now: &mut Now) -> Option<JobId> {
        let job = self.outbox.next(pick, rank, false)?;
        let needs_signer = self.event(job).is_none();
        if needs_signer
            && self
                .signer
                .rests_until
                .is_some_and(|at| !now.reached(at, Why::Retry))
        {
            return self.outbox.next(pick, rank, true);
        }
        Some(job)
    }

    /// Whether a job whose turn has come is too old to go as it is. An event surely not stored loses
    /// its signature, if it can be signed anew. One that may be stored is looked up first: with another
    /// id it could be there twice, and under its own the relay may refuse it for its age.
    fn is_aged(&mut self, job: JobId, now: &Now) -> bool {
        let can_look_up = self.around(job, true).can_look_up;
        let Some(row) = self.outbox.get(job) else {
            return false;
        };
        let Some((_, at)) = row.signature() else {
            return false;
        };
        // Asked of a present of its own: growing old is no reason to wake up.
        let mut present = Now::new(now.time());
        if !present.reached(at.after(self.config.signature_age), Why::Sign) {
            return false;
        }
        if row.may_be_stored() {
            let is_unsure = can_look_up && row.history.may_look_up();
            if is_unsure {
                self.outbox.enter(job, Phase::Unsure);
            }
            return is_unsure;
        }
        let is_draft = row.is_draft();
        if is_draft {
            self.outbox.unsign(job);
        }
        is_draft
    }

    /// Sends a job without a signature to the signer. Whether it was one.
    fn sign(&mut self, job: JobId, now: &Now, out: &mut Vec<Action>) -> bool {
        let draft = match self.outbox.get(job).map(|row| &row.content) {
            Some(Content::Draft {
                draft,
                signed: None,
            }) => draft,
            Some(
                Content::Draft {
                    signed: Some(_), ..
                }
                | Content::Signed(..),
            )
            | None => {
                return false;
            }
        };
        let wall = self.wall.map(|wall| wall.at(now.time()));
        let draft = dated(draft, wall);
        let (ticket, until) = (self.tickets.take(), now.time().after(self.config.sign));
        self.signs.begin(
            ticket,
            Call {
                job,
                until,
                kept: now.time(),
            },
        );
        self.outbox.enter(job, Phase::Signing { ticket });
        out.push(Action::Sign { ticket, draft });
        true
    }

    fn event(&self, job: JobId) -> Option<Event> {
        let (event, _) = self.outbox.get(job)?.signature()?;
        Some(event.clone())
    }
}

/// Whether what waits includes the steps towards marks, which go where posts go.
fn takes_marks(pick: Pick, rank: Rank) -> bool {
    rank == Rank::Cosmetic && pick != Pick::Only(Route::Socket)
}

fn count<'a>(rows: impl Iterator<Item = &'a Row>) -> u32 {
    u32::try_from(rows.count()).unwrap_or(u32::MAX)
}
