//! Whose a read of stored events is, and what its end means to them.

use alloc::vec::Vec;

use super::page::Page;
use crate::note::ReadFailure;
use crate::quotas::Quotas;
use crate::relay::{Action, Relay};
use crate::time::MonoTime;

/// Who waits for a read. Each has one under way at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::relay) enum Reader {
    Recovery,
    Answers,
    Audits,
    Roster,
}

const READERS: [Reader; 4] = [
    Reader::Recovery,
    Reader::Answers,
    Reader::Audits,
    Reader::Roster,
];

impl Relay {
    /// The read under way of this reader.
    pub(in crate::relay) fn page_of(&mut self, reader: Reader) -> Option<&mut Page> {
        match reader {
            Reader::Recovery => self.recovery.page_mut(),
            Reader::Answers => self.answers.page_mut(),
            Reader::Audits => self.audits.page_mut(),
            Reader::Roster => self.roster.page_mut(),
        }
    }

    /// The read under way that is wanted, and whose it is.
    pub(in crate::relay) fn reader_of(
        &mut self,
        is_wanted: impl Fn(&Page) -> bool,
    ) -> Option<Reader> {
        let has_it = |reader: &Reader| self.page_of(*reader).is_some_and(|page| is_wanted(page));
        READERS.into_iter().find(has_it)
    }

    /// The read under way that is wanted, whoever asked for it.
    pub(in crate::relay) fn page_if(
        &mut self,
        is_wanted: impl Fn(&Page) -> bool,
    ) -> Option<&mut Page> {
        let reader = self.reader_of(is_wanted)?;
        self.page_of(reader)
    }

    /// A read has come to its end, by the relay's word.
    pub(in crate::relay) fn read_ended(
        &mut self,
        reader: Reader,
        quotas: &mut Quotas,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        if let Some(stamp) = self.page_of(reader).and_then(|page| page.stamp()) {
            quotas.operations.pace.succeed(stamp);
        }
        match reader {
            Reader::Recovery => self.page_ended(now, out),
            Reader::Answers => {
                if let Some(n) = self.page_of(reader).and_then(|page| page.n()) {
                    self.subs.names.supersede_page(n);
                }
                self.answers.page_ended(&mut self.tickets, out);
            }
            Reader::Audits => self.audit_eose(now, out),
            Reader::Roster => self.roster_read_ended(now, out),
        }
    }

    /// A read is over without its end.
    pub(in crate::relay) fn read_failed(
        &mut self,
        reader: Reader,
        why: ReadFailure,
        now: MonoTime,
        out: &mut Vec<Action>,
    ) {
        match reader {
            Reader::Recovery => self.page_broke(why, now, out),
            Reader::Answers => {
                // Where the route is gone, the next read goes another way at once.
                let by_http = matches!(why, ReadFailure::Http { .. });
                let rests = !by_http || self.route.is_open();
                self.answers.page_broke(rests.then_some(now));
            }
            Reader::Audits => self.audit_page_broke(now, out),
            Reader::Roster => self.roster_read_failed(&why, now, out),
        }
    }
}
