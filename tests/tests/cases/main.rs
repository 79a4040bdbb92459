//! Public bug reports of agents and clients, each as the sequence of facts that shows the fault.
//!
//! A test bears the name of its report: owner, repository, number. Every sequence is played as
//! reported, and again with other traffic, one more loss of the connection, and the facts of one
//! instant in other orders. What must happen is asserted of the first, what never may of all.

mod auth;
mod bounds;
mod conservation;
mod cosmetics;
mod crew;
mod dedup;
mod hold;
mod hold_ends;
mod hold_table;
mod house;
mod http_limits;
mod interrupted;
mod jobs;
mod ladder;
mod membership;
mod noise;
mod outages;
mod outcomes;
mod player;
mod polite;
mod publish;
mod reconnect;
mod recovery;
mod replies;
mod sessions;
mod signatures;
mod socket_limits;
mod stopped;
mod transcript;
mod trust;
mod turns;
mod usage;
mod whole;
mod workers;
