//! What a script needs to know about the machine or a part of it.

use std::fmt::Debug;

use buzz_proto::machine::Machine;
use buzz_proto::note::Note;
use buzz_proto::publish::{self, Publisher};
use buzz_proto::relay::{self, Relay};
use buzz_proto::schedule::{self, Scheduler};
use buzz_proto::time::{MonoTime, Why};
use buzz_proto::{action, input};

/// The machine, or one of its parts: facts go in, orders come out, and one deadline stands.
pub trait Part: Clone {
    /// A fact.
    type Input: Clone + Debug;
    /// An order.
    type Action: Clone + Debug + PartialEq;

    /// Takes one fact in.
    fn handle_input(&mut self, input: Self::Input, now: MonoTime) -> Vec<Self::Action>;
    /// When a tick is wanted.
    fn next_deadline(&self) -> Option<(MonoTime, Why)>;
    /// The fact that time has passed.
    fn tick() -> Self::Input;
    /// The wake that an action announces, if it announces one.
    fn wake(action: &Self::Action) -> Option<Option<MonoTime>>;
    /// The note that an action carries, if it carries one.
    fn note(action: &Self::Action) -> Option<&Note>;
}

macro_rules! part {
    ($part:ty, $($input:ident)::+, $($action:ident)::+) => {
        impl Part for $part {
            type Input = $($input)::+;
            type Action = $($action)::+;

            fn handle_input(&mut self, input: Self::Input, now: MonoTime) -> Vec<Self::Action> {
                Self::handle_input(self, input, now)
            }

            fn next_deadline(&self) -> Option<(MonoTime, Why)> {
                Self::next_deadline(self)
            }

            fn tick() -> Self::Input {
                $($input)::+::Tick
            }

            fn wake(action: &Self::Action) -> Option<Option<MonoTime>> {
                if let $($action)::+::WakeAt(at) = action {
                    return Some(*at);
                }
                None
            }

            fn note(action: &Self::Action) -> Option<&Note> {
                if let $($action)::+::Note(note) = action {
                    return Some(note);
                }
                None
            }
        }
    };
}

part!(Machine, input::Input, action::Action);
part!(Relay, relay::Input, relay::Action);
part!(Publisher, publish::Input, publish::Action);
part!(Scheduler, schedule::Input, schedule::Action);
