//! Tools for proving the machine: scripts in which time and order are visible, toy peers, and
//! facts drawn from bytes.
//!
//! Nothing here reads a clock or opens a socket. A [`Script`](script::Script) feeds one part by
//! hand and checks the contract of every call; a [`Bench`](bench::Bench) carries out what the relay
//! part orders, beside a relay that stores events; [`toy`] makes the events and frames of a peer;
//! [`machine`] holds ordinary settings of the whole; [`chaos`] turns bytes into facts, for
//! properties and fuzzing; a [`ledger`] keeps books of what is owed; [`fuzz`] holds the bodies of the
//! fuzz targets. A [`World`](world::World) puts the whole machine against a relay with
//! real rules, a [`Fleet`](fleet::Fleet) puts thousands of them behind one quota, and a [`scenario`]
//! is a story in either that ends in figures.

pub mod bench;
pub mod chaos;
pub mod fleet;
pub mod fuzz;
pub mod ledger;
pub mod machine;
pub mod obliging;
pub mod part;
pub mod relay;
pub mod scenario;
pub mod script;
pub mod toy;
pub mod world;
