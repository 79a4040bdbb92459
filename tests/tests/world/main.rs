//! Scripts over a whole world in virtual time: the machine, a relay with real rules, people.

mod chaos;
mod crew;
mod faults;
mod fleet;
mod hold;
mod judge;
mod lives;
mod outages;
mod overload;
mod refusals;
mod room;
mod scripts;
mod storm;
mod strangers;
mod support;
