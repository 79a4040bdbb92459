//! Marks: which reaction of the agent each message is to bear, and which it bears.
//!
//! A wish is a state, not an order: only the newest counts, and what was not begun cancels out. One
//! step is under way at a time in all. What is stored, or may be, is deleted before another mark is
//! added, so that no message bears two.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use super::job::{Content, Signature};
use super::{Config, Mark, Verdict};
use crate::ids::{EventId, JobId, PubKey};
use crate::time::UnixTime;
use crate::wire::Draft;

/// Deletion (NIP-09).
const DELETION: u32 = 5;
/// Reaction (NIP-25).
const REACTION: u32 = 7;
/// The steps have the uppermost 2⁵⁶ numbers of jobs: far above those that are counted up to.
const FIRST_JOB: JobId = JobId(0xFF << 56);
const SECOND: Duration = Duration::from_secs(1);
/// Steps for one wish that end without an answer, or without a signature. Each lasts as long as a
/// job that is only good to see may, so what fails more often will not be missed.
const TRIES_MAX: u8 = 3;

/// Whether a job is a step of ours. No caller may use these numbers.
pub(super) const fn is_mark_job(job: JobId) -> bool {
    job.0 >= FIRST_JOB.0
}

#[derive(Clone, Debug)]
pub(super) struct Marks {
    rows_max: usize,
    seen: String,
    waiting: String,
    rows: BTreeMap<EventId, Row>,
    /// Rows with a step to take, the one whose wish changed longest ago first.
    turns: BTreeSet<(u64, EventId)>,
    places: u64,
    /// The earliest date of a reaction: after every one that was removed. Of the same second it
    /// would be the same event, which the relay has deleted.
    since: UnixTime,
    step: Option<UnderWay>,
    next_job: JobId,
    /// Whether nothing is added any more.
    is_closing: bool,
}

/// One message.
#[derive(Clone, Debug)]
struct Row {
    author: PubKey,
    wanted: Option<Mark>,
    shown: Option<Shown>,
    /// Steps for the present wish that ended without an answer, or without a signature.
    tries: u8,
    /// Whether nothing is tried until the wish changes.
    is_given_up: bool,
    place: u64,
}

/// A reaction that is stored, or may be.
#[derive(Clone, Debug)]
struct Shown {
    mark: Mark,
    reaction: EventId,
    dated: UnixTime,
    doubt: Option<Doubt>,
}

/// What was sent to a relay that did not answer. It is sent again as it is, so that it cannot be
/// there twice.
#[derive(Clone, Debug)]
enum Doubt {
    Adding(Signature),
    Removing(Signature),
}

/// The step under way.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    job: JobId,
    message: EventId,
    step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Add(Mark),
    Remove,
}

/// A step to be submitted.
#[derive(Clone, Debug)]
pub(super) struct Next {
    pub(super) content: Content,
    /// Whether it was sent before and may be stored.
    pub(super) is_doubtful: bool,
}

/// How a step ended.
#[derive(Clone, Debug)]
pub(super) struct Ending {
    pub(super) verdict: Verdict,
    /// The event, if it was signed.
    pub(super) signed: Option<Signature>,
    /// Whether it may be stored, for all that is known.
    pub(super) may_be_stored: bool,
}

impl Marks {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            rows_max: usize::try_from(config.marks_max).unwrap_or(usize::MAX),
            seen: config.seen.clone(),
            waiting: config.waiting.clone(),
            rows: BTreeMap::new(),
            turns: BTreeSet::new(),
            places: 0,
            since: UnixTime::default(),
            step: None,
            next_job: FIRST_JOB,
            is_closing: false,
        }
    }

    /// A wish. Whether there is room for it.
    #[must_use]
    pub(super) fn want(&mut self, message: EventId, author: PubKey, wanted: Option<Mark>) -> bool {
        if self.is_closing && wanted.is_some() {
            return true;
        }
        let before = self.rows.get(&message).map(|row| row.wanted);
        if before.unwrap_or_default() == wanted {
            return true;
        }
        if before.is_none() && !self.make_room() {
            return false;
        }
        let place = self.next_place();
        self.unindex(message);
        let row = self.rows.entry(message).or_insert(Row {
            author,
            wanted,
            shown: None,
            tries: 0,
            is_given_up: false,
            place,
        });
        (row.wanted, row.place) = (wanted, place);
        (row.tries, row.is_given_up) = (0, false);
        self.index(message);
        true
    }

    /// Whether a step waits for its turn.
    pub(super) fn is_next(&self) -> bool {
        self.step.is_none() && !self.turns.is_empty()
    }

    /// The next step, without beginning it.
    pub(super) fn next(&self) -> Option<Next> {
        if self.step.is_some() {
            return None;
        }
        let (_, message) = self.turns.first()?;
        let row = self.rows.get(message)?;
        let (draft, doubt) = match (self.step_of(row)?, &row.shown) {
            (Step::Add(mark), shown) => {
                let doubt = shown.as_ref().and_then(|shown| shown.doubt.as_ref());
                (self.reaction(*message, row.author, mark), doubt)
            }
            (Step::Remove, Some(shown)) => {
                let doubt = shown.doubt.as_ref();
                (
                    deletion(shown.reaction),
                    doubt.filter(|doubt| doubt.is_removing()),
                )
            }
            (Step::Remove, None) => return None,
        };
        let signed = doubt.map(|doubt| doubt.signature().clone());
        Some(Next {
            is_doubtful: signed.is_some(),
            content: Content::Draft { draft, signed },
        })
    }

    /// The next step begins, as this job.
    pub(super) fn begin(&mut self) -> Option<JobId> {
        let (_, message) = *self.turns.first()?;
        let step = self.step_of(self.rows.get(&message)?)?;
        let job = self.next_job.take();
        self.step = Some(UnderWay { job, message, step });
        Some(job)
    }

    /// The job of the step under way.
    pub(super) fn job(&self) -> Option<JobId> {
        self.step.map(|under_way| under_way.job)
    }

    /// Whether the step under way still leads to what is wanted. A removal that may have been done
    /// always does: only its answer tells what is shown.
    pub(super) fn is_current(&self, may_be_stored: bool) -> bool {
        let Some(UnderWay { message, step, .. }) = self.step else {
            return false;
        };
        let Some(row) = self.rows.get(&message) else {
            return false;
        };
        match step {
            Step::Add(mark) => !self.is_closing && row.wanted == Some(mark),
            Step::Remove => {
                let shown = row.shown.as_ref();
                let doubt = shown.and_then(|shown| shown.doubt.as_ref());
                may_be_stored
                    || doubt.is_some_and(Doubt::is_removing)
                    || row.wanted != shown.map(|shown| shown.mark)
            }
        }
    }

    /// The step under way has ended. Whether what is wanted is not tried any more.
    #[must_use]
    pub(super) fn end(&mut self, ending: Ending) -> bool {
        let is_current = self.is_current(ending.may_be_stored);
        let place = self.next_place();
        let Some(UnderWay { message, step, .. }) = self.step.take() else {
            return false;
        };
        self.unindex(message);
        let mut is_given_up = false;
        if let Some(row) = self.rows.get_mut(&message) {
            if let (Step::Remove, Some(shown)) = (step, &row.shown) {
                self.since = self.since.max(shown.dated.after(SECOND));
            }
            let is_open = matches!(ending.verdict, Verdict::Unknown | Verdict::Expired);
            // A relay that takes no more now will take it later: what it bears is not left there.
            let is_put_off = ending.verdict == Verdict::Expired && ending.signed.is_some();
            is_given_up = match step {
                Step::Add(mark) => row.end_add(mark, ending),
                Step::Remove => row.end_remove(ending),
            };
            if is_open {
                row.place = place;
                row.tries = row
                    .tries
                    .saturating_add(u8::from(is_current && !is_put_off));
                is_given_up |= row.tries >= TRIES_MAX;
            }
            is_given_up &= is_current;
            row.is_given_up |= is_given_up;
        }
        self.index(message);
        is_given_up
    }

    /// From now on nothing is added, and only what is shown against its wish is removed.
    pub(super) fn close(&mut self) {
        self.is_closing = true;
        let messages: BTreeSet<EventId> = self.turns.iter().map(|(_, message)| *message).collect();
        for message in messages {
            self.unindex(message);
            self.index(message);
        }
    }

    /// Gives up what there is.
    pub(super) fn clear(&mut self) {
        self.rows.clear();
        self.turns.clear();
        self.step = None;
    }

    /// Whether there is anything to be done.
    pub(super) fn has_work(&self) -> bool {
        self.step.is_some() || !self.turns.is_empty()
    }

    /// Messages whose mark is wanted, or shown.
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Makes room for a row. One whose mark could not be removed, after all tries, may go.
    fn make_room(&mut self) -> bool {
        if self.rows.len() < self.rows_max {
            return true;
        }
        let is_over = |row: &Row| row.is_given_up && row.wanted.is_none();
        let over = self.rows.iter().find(|(_, row)| is_over(row));
        let Some(message) = over.map(|(message, _)| *message) else {
            return false;
        };
        self.rows.remove(&message).is_some()
    }

    fn step_of(&self, row: &Row) -> Option<Step> {
        if row.is_given_up {
            return None;
        }
        match (row.wanted, &row.shown) {
            (wanted, Some(shown)) if wanted == Some(shown.mark) => match shown.doubt {
                None => None,
                Some(Doubt::Adding(_)) => (!self.is_closing).then_some(Step::Add(shown.mark)),
                Some(Doubt::Removing(_)) => Some(Step::Remove),
            },
            (_, Some(_)) => Some(Step::Remove),
            (Some(mark), None) => (!self.is_closing).then_some(Step::Add(mark)),
            (None, None) => None,
        }
    }

    const fn next_place(&mut self) -> u64 {
        self.places = self.places.saturating_add(1);
        self.places
    }

    /// Puts a row where it belongs; one that says nothing goes.
    fn index(&mut self, message: EventId) {
        let Some(row) = self.rows.get(&message) else {
            return;
        };
        let is_under_way = self.step.is_some_and(|step| step.message == message);
        let says_nothing = row.wanted.is_none() || self.is_closing;
        if row.shown.is_none() && says_nothing && !is_under_way {
            self.rows.remove(&message);
        } else if self.step_of(row).is_some() {
            self.turns.insert((row.place, message));
        }
        debug_assert!(self.turns.len() <= self.rows.len());
        debug_assert!(self.rows.len() <= self.rows_max);
    }

    fn unindex(&mut self, message: EventId) {
        if let Some(row) = self.rows.get(&message) {
            self.turns.remove(&(row.place, message));
        }
    }

    fn reaction(&self, message: EventId, author: PubKey, mark: Mark) -> Draft {
        let content = match mark {
            Mark::Seen => &self.seen,
            Mark::Waiting => &self.waiting,
        };
        Draft {
            kind: REACTION,
            created_at: self.since,
            tags: vec![tag("e", message.to_string()), tag("p", author.to_string())],
            content: content.clone(),
        }
    }
}

impl Row {
    /// Whether the mark is to be given up.
    fn end_add(&mut self, mark: Mark, ending: Ending) -> bool {
        let Ending {
            verdict,
            signed,
            may_be_stored,
        } = ending;
        let shown = |signed: Signature, doubt: Option<Doubt>| Shown {
            mark,
            reaction: signed.0.id(),
            dated: signed.0.created_at(),
            doubt,
        };
        match verdict {
            Verdict::Stored => {
                self.tries = 0;
                self.shown = signed.map(|signed| shown(signed, None));
                false
            }
            Verdict::Unknown | Verdict::Evicted | Verdict::Cancelled if may_be_stored => {
                self.shown = signed.map(|signed| {
                    let doubt = Doubt::Adding(signed.clone());
                    shown(signed, Some(doubt))
                });
                false
            }
            Verdict::Unknown | Verdict::Evicted | Verdict::Cancelled => {
                self.shown = None;
                false
            }
            Verdict::Rejected { .. } | Verdict::Expired => {
                self.shown = None;
                true
            }
        }
    }

    /// Whether the removal is to be given up.
    fn end_remove(&mut self, ending: Ending) -> bool {
        match (ending.verdict, &mut self.shown) {
            (Verdict::Stored, _) => {
                self.tries = 0;
                self.shown = None;
                false
            }
            (Verdict::Rejected { .. }, Some(shown)) => {
                shown.doubt = None;
                // The relay has said its last word: what nobody wants is not held on to.
                if self.wanted.is_none() {
                    self.shown = None;
                }
                true
            }
            (Verdict::Unknown | Verdict::Evicted | Verdict::Cancelled, Some(shown))
                if ending.may_be_stored =>
            {
                let doubt = ending.signed.map(Doubt::Removing);
                shown.doubt = doubt.or_else(|| shown.doubt.take());
                false
            }
            (_, _) => false,
        }
    }
}

impl Doubt {
    const fn is_removing(&self) -> bool {
        matches!(self, Self::Removing(_))
    }

    const fn signature(&self) -> &Signature {
        match self {
            Self::Adding(signature) | Self::Removing(signature) => signature,
        }
    }
}

fn deletion(reaction: EventId) -> Draft {
    Draft {
        kind: DELETION,
        created_at: UnixTime::default(),
        tags: vec![
            tag("e", reaction.to_string()),
            tag("k", REACTION.to_string()),
        ],
        content: String::new(),
    }
}

fn tag(name: &str, value: String) -> Vec<String> {
    vec![name.to_string(), value]
}
