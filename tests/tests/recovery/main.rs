//! Recovery: what found no room, or was missed, is read again; how much that costs; and what is
//! said of what cannot be read.

mod chance;
mod clocks;
mod failures;
mod outages;
mod overload;
mod owed;
mod pace;
mod records;
