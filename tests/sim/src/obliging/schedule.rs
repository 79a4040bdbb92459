//! How orders of the scheduler are carried out.

use buzz_proto::publish::{Command as Job, Verdict};
use buzz_proto::relay::BrokeCause;
use buzz_proto::schedule::{Action, DownCause, Input, Scheduler, StopReason, TurnEnd, View};

use buzz_proto::time::UnixTime;

use super::relay::answer;
use super::{Oblige, World};
use crate::toy;

impl Oblige for Scheduler {
    fn greet(wall: UnixTime) -> Vec<Input> {
        let (live, is_half_full) = (true, false);
        vec![
            Input::WallClock(wall),
            Input::Link { live },
            Input::Outbox { is_half_full },
        ]
    }

    fn is_sure(order: &Action) -> bool {
        matches!(order, Action::Publish(_))
    }

    fn oblige(order: Action, world: &mut World) -> Vec<Input> {
        match order {
            Action::Spawn { worker } => vec![Input::WorkerUp { worker }],
            Action::Kill { worker } => {
                let cause = DownCause::Killed;
                vec![Input::WorkerDown { worker, cause }]
            }
            Action::Start { turn, .. } => {
                let (reply, stop) = ("done".to_owned(), StopReason::EndTurn);
                let end = TurnEnd::Answered { reply, stop };
                vec![Input::SessionOpened { turn }, Input::Finished { turn, end }]
            }
            Action::CancelTurn { turn } => {
                let end = TurnEnd::Cancelled;
                vec![Input::Finished { turn, end }]
            }
            Action::Publish(Job::Submit { job, .. }) => {
                let verdict = Verdict::Stored;
                vec![Input::Settled { job, verdict }]
            }
            Action::Query { ticket, .. } if world.silence.queries => {
                let cause = BrokeCause::Connection;
                vec![Input::Broke { ticket, cause }]
            }
            Action::Query { ticket, .. } => {
                let answer = answer(toy::events(&[]));
                vec![Input::Answered { ticket, answer }]
            }
            Action::Verify { ticket, .. } => {
                let genuine = true;
                vec![Input::Verified { ticket, genuine }]
            }
            Action::Publish(Job::React { .. } | Job::Cancel { .. } | Job::Shutdown { .. })
            | Action::CloseSession { .. }
            | Action::Left { .. }
            | Action::Started { .. }
            | Action::Dispose { .. }
            | Action::Abort { .. }
            | Action::ShutdownRequested
            | Action::Ended
            | Action::Note(_)
            | Action::WakeAt(_) => Vec::new(),
        }
    }

    fn unsettled(&self) -> Option<String> {
        unsettled(&self.view())
    }

    fn is_over(&self) -> bool {
        self.view().is_ended
    }

    fn is_desertion(_fact: &Input) -> bool {
        false
    }
}

/// What is still to be settled.
pub(super) fn unsettled(view: &View) -> Option<String> {
    let is_settled = view.queued == 0 && view.running == 0 && view.answering == 0;
    (!is_settled).then(|| format!("{view:?}"))
}
