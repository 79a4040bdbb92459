//! What the worker's answers to requests say.

use std::sync::Arc;

use buzz_proto::schedule::{FailureClass, Input, OpenCause, TurnEnd};
use buzz_proto::time::UnixTime;
use serde_json::value::RawValue;

use super::super::codec::RpcError;
use super::super::phase::{Opening, Phase, Prompting, Target, finished};
use super::super::{answer, failure};
use super::{Client, Moment, Output, no_handshake};

impl Client {
    pub(super) fn response(
        &mut self,
        id: u64,
        outcome: Result<Option<&RawValue>, RpcError>,
        at: Moment,
        out: &mut Vec<Output>,
    ) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Handshaking { request, .. } if request == id => self.greeted(outcome, out),
            Phase::Opening(opening) if opening.request == id => {
                self.opened(opening, outcome, at, out);
            }
            Phase::Prompting(prompting) if prompting.request == id => {
                self.finished(prompting, outcome, at.wall, out);
            }
            // The answer to something that is over: a close, or an opening past its limit.
            phase @ (Phase::Handshaking { .. }
            | Phase::Idle
            | Phase::Opening(_)
            | Phase::Prompting(_)) => {
                self.phase = phase;
                if let Ok(result) = outcome
                    && let Some(acp_session) = answer::session_id(result)
                {
                    self.close(&acp_session, out);
                }
            }
        }
    }

    fn greeted(&mut self, outcome: Result<Option<&RawValue>, RpcError>, out: &mut Vec<Output>) {
        match answer::greeting(outcome) {
            Ok(can_close) => {
                self.can_close = can_close;
                let worker = self.worker;
                out.push(Output::Fact(Input::WorkerUp { worker }));
            }
            Err(text) => out.push(Output::End(no_handshake(&text))),
        }
    }

    fn opened(
        &mut self,
        opening: Opening,
        outcome: Result<Option<&RawValue>, RpcError>,
        at: Moment,
        out: &mut Vec<Output>,
    ) {
        let acp_session = match outcome {
            Err(error) => return out.push(Output::Fact(opening.refused(&error, at.wall))),
            Ok(result) => answer::session_id(result),
        };
        match acp_session {
            None => {
                let fact = opening.failed("the answer to session/new names no session");
                out.push(Output::Fact(fact));
            }
            Some(acp_session) if opening.is_cancelled => {
                self.close(&acp_session, out);
                out.push(Output::Fact(finished(opening.turn, TurnEnd::Cancelled)));
            }
            Some(acp_session) => {
                let Opening {
                    turn,
                    session,
                    prompt,
                    ..
                } = opening;
                self.sessions.insert(session, Arc::clone(&acp_session));
                let target = Target {
                    turn,
                    session,
                    acp_session,
                };
                self.prompt(target, prompt, at.time, out);
                if let Phase::Prompting(prompting) = &mut self.phase {
                    prompting.announce(out);
                }
            }
        }
    }

    fn finished(
        &mut self,
        mut prompting: Prompting,
        outcome: Result<Option<&RawValue>, RpcError>,
        wall: UnixTime,
        out: &mut Vec<Output>,
    ) {
        let turn = prompting.target.turn;
        let end = match outcome {
            Ok(result) => answer::turn_end(result, prompting.reply),
            Err(error) => {
                let class = failure::class(&error, &prompting.target.acp_session, wall);
                let is_gone = class == FailureClass::SessionGone;
                if is_gone {
                    self.sessions.remove(&prompting.target.session);
                }
                if prompting.is_cancelled {
                    TurnEnd::Cancelled
                } else if is_gone && !prompting.is_announced {
                    let cause = OpenCause::Unknown;
                    return out.push(Output::Fact(Input::SessionFailed { turn, cause }));
                } else {
                    answer::failure(class, &error)
                }
            }
        };
        if !prompting.is_announced {
            prompting.is_announced = true;
            out.push(Output::Fact(Input::SessionOpened { turn }));
        }
        out.push(Output::Fact(finished(turn, end)));
    }
}
