//! Where records go that outlive the process.

use std::io;

use buzz_proto::relay::{Record, Sub};

/// Keeps, for the next life, how far the events of each subscription have their outcomes. What is
/// kept comes back as [`relay::Config::records`](buzz_proto::relay::Config::records).
///
/// The driver calls it on a thread that may block, one call at a time and in order. It reports a
/// failure and tries nothing again: the machine orders a later batch, which holds all that was not
/// kept so far.
pub trait Keeper: Send + 'static {
    /// Takes out the records of `forgotten`, then puts `records` in the place of those of the same
    /// subscriptions. All of it or nothing, whatever happens meanwhile; when this returns, it
    /// outlives a loss of power.
    ///
    /// # Errors
    /// Nothing was changed, or it is not known to last: what was kept before, or all of this,
    /// comes back.
    fn keep(&mut self, records: Vec<Record>, forgotten: Vec<Sub>) -> io::Result<()>;
}
