//! Refusals: what a publisher and a whole machine do while a relay asks for less, fails or says
//! nothing, played in virtual time and seen from outside.

mod answers;
mod attempts;
mod crowd;
mod desk;
mod episode;
mod hints;
mod ladder;
mod late;
mod nonsense;
mod notes;
mod probe;
mod reasons;
mod reasons_of_pages;
mod socket;
mod socket_gates;
mod support;
