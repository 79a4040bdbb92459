//! Scripts over a whole world in virtual time: the machine, a relay with real rules, people.

mod overload;
mod scripts;
