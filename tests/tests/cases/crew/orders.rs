//! How orders are carried out.

use buzz_proto::ids::Ticket;
use buzz_proto::publish;
use buzz_proto::relay::BrokeCause;
use buzz_proto::schedule::{Action, DownCause, Input, OpenCause, TurnEnd, WorkerId};
use buzz_proto::wire::Excerpt;

use super::{Conduct, Crew, LATENCY, Work, nothing_found, number};

impl Crew {
    /// Carries out orders until there are none.
    pub(super) fn settle(&mut self) {
        loop {
            let orders = self.script.orders();
            self.script.notes();
            if orders.is_empty() {
                return;
            }
            for order in orders {
                if let Some(fact) = self.carry_out(order) {
                    let rest = self.script.timed_orders();
                    self.script.input(fact);
                    self.script.put_back(rest);
                }
            }
        }
    }

    fn carry_out(&mut self, order: Action) -> Option<Input> {
        match order {
            Action::Spawn { worker } => self.spawn(worker),
            Action::Kill { worker } => {
                if self.kills == Conduct::Works {
                    let cause = DownCause::Killed;
                    self.starting.remove(&worker);
                    self.over
                        .extend(self.works.extract_if(.., |work| work.worker == worker));
                    return Some(Input::WorkerDown { worker, cause });
                }
                self.ending.insert(worker);
                None
            }
            Action::Start {
                turn,
                session,
                batch,
                ..
            } => {
                let work = Work {
                    turn,
                    worker: session.reference().worker,
                    batch: batch.iter().map(|event| number(event.id())).collect(),
                    is_open: self.opens == Conduct::Works,
                };
                self.open(work)
            }
            Action::CancelTurn { turn } if self.cancels == Conduct::Works => {
                let is_it = |work: &mut Work| work.turn == turn;
                self.over.extend(self.works.extract_if(.., is_it));
                let end = TurnEnd::Cancelled;
                Some(Input::Finished { turn, end })
            }
            Action::Dispose { event, how } => {
                if !self.owed.remove(&event) {
                    self.script.fail(&format!("{event} ended twice, {how:?}"));
                }
                None
            }
            Action::Publish(command) => {
                self.publish(&command);
                None
            }
            Action::Query { ticket, .. } => self.query(ticket),
            Action::Ended => {
                self.is_over = true;
                None
            }
            Action::Verify { ticket, .. } => {
                let genuine = true;
                Some(Input::Verified { ticket, genuine })
            }
            Action::CancelTurn { .. }
            | Action::CloseSession { .. }
            | Action::Left { .. }
            | Action::Started { .. }
            | Action::Abort { .. }
            | Action::ShutdownRequested
            | Action::Note(_)
            | Action::WakeAt(_) => None,
        }
    }

    fn query(&self, ticket: Ticket) -> Option<Input> {
        match self.queries {
            Conduct::Works => {
                let answer = nothing_found();
                Some(Input::Answered { ticket, answer })
            }
            Conduct::Fails => {
                let cause = BrokeCause::Connection;
                Some(Input::Broke { ticket, cause })
            }
            Conduct::ByHand => None,
        }
    }

    fn spawn(&mut self, worker: WorkerId) -> Option<Input> {
        self.lives.insert(worker.slot, worker);
        match self.starts {
            Conduct::Works => Some(Input::WorkerUp { worker }),
            Conduct::Fails => {
                let text = Excerpt::new("no such model");
                let cause = DownCause::NoHandshake { text };
                Some(Input::WorkerDown { worker, cause })
            }
            Conduct::ByHand => {
                self.starting.insert(worker);
                None
            }
        }
    }

    fn open(&mut self, work: Work) -> Option<Input> {
        let turn = work.turn;
        match self.opens {
            Conduct::Works => {
                if let Some(end) = self.prompts.clone() {
                    self.over.push(work);
                    self.soon(Input::Finished { turn, end });
                } else {
                    self.works.push(work);
                }
                Some(Input::SessionOpened { turn })
            }
            Conduct::Fails => {
                self.over.push(work);
                let text = Excerpt::new("no session for you");
                let cause = OpenCause::Refused { text };
                Some(Input::SessionFailed { turn, cause })
            }
            Conduct::ByHand => {
                self.works.push(work);
                None
            }
        }
    }

    /// Everything that is published is stored a moment later.
    fn publish(&mut self, command: &publish::Command) {
        if let publish::Command::Submit { job, .. } = command {
            let (job, verdict) = (*job, self.verdict.clone());
            self.soon(Input::Settled { job, verdict });
        }
    }

    fn soon(&mut self, fact: Input) {
        self.facts += 1;
        let at = self.script.now().after(LATENCY);
        self.due.insert((at, self.facts), fact);
    }
}
