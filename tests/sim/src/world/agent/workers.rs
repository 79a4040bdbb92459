//! How each order of the scheduler is carried out.

use buzz_dev_relay::rules::event::Event as Posted;
use buzz_proto::ids::PubKey;
use buzz_proto::input::Input;
use buzz_proto::schedule::{self, WorkerId};
use buzz_proto::wire::Event;

use super::Agent;
use crate::world::OWNER;
use crate::world::crew::{Doing, Given, Then};
use crate::world::happening::{Call, Clock, Fact, Part};
use crate::world::people::{Role, is_genuine, keys_of};

impl Agent {
    pub(super) fn perform_schedule(&mut self, action: schedule::Action, clock: &mut Clock) {
        use schedule::Action as A;
        match action {
            A::Spawn { worker } => {
                let then = self.crew.spawn(worker);
                self.follow(then, clock);
            }
            A::Kill { worker } => {
                let then = self.crew.kill(worker);
                self.follow(then, clock);
            }
            A::Start {
                turn,
                session,
                batch,
                ..
            } => {
                let events = batch.iter().map(Event::id).collect();
                let then = self.crew.start(&Given {
                    turn,
                    session,
                    events,
                });
                self.follow(then, clock);
            }
            A::CancelTurn { turn } => {
                let then = self.crew.cancel(turn);
                self.follow(then, clock);
            }
            A::CloseSession { session } => self.crew.close(session),
            A::Query { ticket, body } => {
                let part = Part::Schedule;
                self.post(Call { part, ticket }, "/query", body.to_vec(), clock);
            }
            A::Verify {
                ticket,
                event,
                owner,
            } => {
                let is_true = owner.is_none_or(|owner| is_word_of(owner, &event));
                let genuine = is_genuine(event.raw()) && is_true;
                let input = schedule::Input::Verified { ticket, genuine };
                self.compute(Input::Schedule(input), clock);
            }
            A::Abort { ticket } => self.abort(Part::Schedule, ticket),
            A::Note(note) => self.notes.push((clock.now(), note)),
            A::Left { .. }
            | A::Started { .. }
            | A::Dispose { .. }
            | A::Publish(_)
            | A::ShutdownRequested
            | A::Ended
            | A::WakeAt(_) => {}
        }
    }

    pub(super) fn work(&mut self, worker: WorkerId, doing: Doing, clock: &mut Clock) {
        let then = self.crew.act(worker, doing, clock.wall());
        self.follow(then, clock);
    }

    fn follow(&mut self, then: Then, clock: &mut Clock) {
        for (wait, worker, doing) in then.later {
            self.plan(wait, Fact::Worker { worker, doing }, clock);
        }
        if let Some(input) = then.says {
            self.feed(Input::Schedule(input), clock);
        }
    }
}

/// Whether an event bears this owner's word for its author (NIP-OA). Signatures in a world repeat,
/// so the word is made anew and compared; nobody but [`OWNER`] gives it.
fn is_word_of(owner: PubKey, event: &Event) -> bool {
    let Ok(keys) = keys_of(Role::Person(OWNER)) else {
        return false;
    };
    let Ok(posted) = serde_json::from_slice::<Posted>(event.raw()) else {
        return false;
    };
    let is_word = |tag: &&Vec<String>| tag.first().is_some_and(|name| name == "auth");
    let mut words = posted.tags.iter().filter(is_word);
    match (words.next().map(Vec::as_slice), words.next()) {
        (Some(word @ [_, _, conditions, _]), None) => {
            keys.public() == owner.to_string() && keys.attest(&posted.pubkey, conditions) == word
        }
        (Some(_) | None, _) => false,
    }
}
