//! What the end of a read says about what was lost.

use core::time::Duration;

use super::page::{Page, Via};
use crate::dedup::Seen;
use crate::ids::EventId;
use crate::note::{GapWhy, Note};
use crate::relay::Sub;
use crate::relay::sub_row::Row;
use crate::time::{MonoTime, UnixTime};

/// A read that brings nothing is asked again over the socket, then over HTTP; where that is
/// missing, the third one is believed.
const DOUBTS_MAX: u32 = 3;
const SECOND: Duration = Duration::from_secs(1);

/// A read that has ended, however it did.
pub(in crate::relay) struct Read<'a> {
    pub(in crate::relay) page: &'a Page,
    /// Whether the relay said that there is no more of it.
    pub(in crate::relay) is_whole: bool,
    /// Whether it may have been more than the relay could send.
    pub(in crate::relay) was_too_much: bool,
    /// Whether it can be read over HTTP.
    pub(in crate::relay) has_query: bool,
    /// The largest page.
    pub(in crate::relay) limit_max: u32,
    pub(in crate::relay) seen: &'a Seen<Sub>,
    pub(in crate::relay) now: MonoTime,
}

/// What follows from it.
#[derive(Clone, Debug, Default)]
pub(in crate::relay) struct Learnt {
    /// Whether less is owed than before.
    pub(in crate::relay) has_shrunk: bool,
    /// Whether it brought nothing where something is known to be.
    pub(in crate::relay) is_doubted: bool,
    /// What can never be read.
    pub(in crate::relay) gap: Option<Note>,
}

impl Read<'_> {
    /// Whether nothing is what the relay means. Errors are told apart over HTTP.
    fn is_believed(&self, doubts: u32) -> bool {
        let by_http = matches!(self.page.via, Via::Http(_));
        !self.page.is_empty() || by_http || doubts.saturating_add(1) >= DOUBTS_MAX
    }

    /// The end of a read of ids: what a believed answer does not contain, the relay does not have.
    pub(in crate::relay) fn end_ids(&self, row: &mut Row, asked: &[(UnixTime, EventId)]) -> Learnt {
        let mut learnt = Learnt::default();
        for (_, id) in asked.iter().filter(|(_, id)| self.seen.contains(id)) {
            // Another subscription has delivered it.
            learnt.has_shrunk |= row.loss.take(*id).is_some();
        }
        if !self.is_whole || row.loss.ids_len() == 0 {
            return learnt;
        }
        if !self.is_believed(row.loss.doubts.count()) {
            row.loss.doubts.add(self.now);
            learnt.is_doubted = true;
            return learnt;
        }
        row.loss.doubts = super::loss::Doubts::default();
        for (_, id) in asked.iter().filter(|(_, id)| !self.page.brought(*id)) {
            learnt.has_shrunk |= row.loss.give_up(*id);
        }
        learnt
    }

    /// The end of a page of the window that is read.
    pub(in crate::relay) fn end_window(&self, sub: Sub, row: &mut Row) -> Learnt {
        let mut learnt = Learnt::default();
        let Some(window) = row.loss.window_mut() else {
            return learnt;
        };
        if !self.is_whole {
            window.halvings = window.halvings.saturating_add(u32::from(self.was_too_much));
            let run_end = self.page.run_end();
            let is_further = run_end.is_some_and(|end| window.position.is_none_or(|at| end < at));
            if is_further {
                window.position = run_end;
                window.after = None;
                learnt.has_shrunk = true;
            }
            return learnt;
        }
        window.halvings = 0;
        let Some((dated, id)) = self.page.end() else {
            let is_suspect = window.is_known && window.after.is_none();
            if is_suspect && !self.is_believed(window.doubts.count()) {
                window.doubts.add(self.now);
                learnt.is_doubted = true;
            } else {
                row.loss.close_window();
                learnt.has_shrunk = true;
            }
            return learnt;
        };
        learnt.has_shrunk = true;
        window.doubts = super::loss::Doubts::default();
        window.is_known = true;
        if window.position != Some(dated) {
            window.position = Some(dated);
            window.after = None;
            window.is_wide = false;
        } else if self.has_query && window.after.is_none_or(|after| after < id) {
            // All of the page lies in one second: only HTTP pages finer than that, and not the
            // HTTP of every relay.
            window.after = Some(id);
        } else if !(window.is_wide || self.page.has_limit(self.limit_max)) {
            window.is_wide = true;
        } else {
            let why = GapWhy::HistoryLimit;
            learnt.gap = Some(Note::Gap {
                sub,
                count: None,
                from: dated,
                to: dated,
                why,
            });
            window.position = Some(dated.before(SECOND));
            window.after = None;
            window.is_wide = false;
            window.is_known = false;
            if dated == UnixTime::default() {
                row.loss.close_window();
                return learnt;
            }
        }
        let may_know = window.ends_at_known && dated < window.known_below;
        let ends = window.is_read() || (may_know && self.ends_at_known(dated));
        if ends {
            row.loss.close_window();
        }
        learnt
    }

    /// Whether the oldest of what came was delivered before.
    fn ends_at_known(&self, oldest: UnixTime) -> bool {
        let mut oldest = self
            .page
            .events()
            .iter()
            .filter(|event| event.created_at() == oldest);
        oldest.all(|event| self.seen.contains(&event.id()))
    }
}
