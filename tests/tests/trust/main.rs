//! Trust: what a lying relay says has no effect, and what is genuine is delivered once.

mod answers;
mod commands;
mod copies;
mod desk;
mod filters;
mod floods;
mod forgeries;
mod rosters;
mod support;
