//! The protocol of one worker, without a runtime: lines and orders in, lines and facts out.
//!
//! A worker is first shaking hands, then idle, opening a session, or working on a prompt. What it
//! sends outside of these belongs to nothing and is ignored; what it asks for is answered at once.
//! Facts leave in the order of the lines around them, so that a session is reported as opened once
//! its prompt is written.

mod response;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol_schema::ProtocolVersion;
use agent_client_protocol_schema::v1::{
    CancelNotification, CloseSessionRequest, ContentBlock, Implementation, InitializeRequest,
    NewSessionRequest, PromptRequest,
};
use buzz_proto::ids::TurnId;
use buzz_proto::schedule::{
    Context, DownCause, Input, OpenCause, Scope, Session, SessionRef, WorkerId,
};
use buzz_proto::time::{MonoTime, Now, UnixTime, Why};
use buzz_proto::wire::{Event, Excerpt};
use serde_json::value::RawValue;

use super::codec::{self, Incoming};
use super::phase::{Noise, Opening, Phase, Prompting, Target};
use super::reply::{Reply, Update};
use super::{AcpSettings, permission, prompt};

/// Signs of life are reported at most this often: the scheduler counts in minutes.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// What the one who holds the process has to do, in order.
#[derive(Debug)]
pub(super) enum Output {
    /// Write this line.
    Write(Vec<u8>),
    /// Write this line, which asks for a turn: what stands behind it supposes that it is written.
    Prompt(Vec<u8>),
    /// Report this.
    Fact(Input),
    /// End the worker, and report this cause.
    End(DownCause),
}

/// An order for one worker.
#[derive(Debug)]
pub(super) enum Order {
    /// Run a turn.
    Start(Box<Turn>),
    /// End a turn early.
    Cancel(TurnId),
    /// Forget a session.
    Close(SessionRef),
}

/// A turn to run.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) turn: TurnId,
    pub(super) session: Session,
    pub(super) scope: Scope,
    pub(super) batch: Vec<Event>,
    pub(super) context: Context,
}

/// When a line was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) time: MonoTime,
    /// Ends of limits are told in this time.
    pub(super) wall: UnixTime,
}

/// One worker's side of the conversation.
#[derive(Debug)]
pub(super) struct Client {
    worker: WorkerId,
    settings: Arc<AcpSettings>,
    phase: Phase,
    sessions: BTreeMap<SessionRef, Arc<str>>,
    can_close: bool,
    next_request: u64,
}

impl Client {
    pub(super) fn new(
        worker: WorkerId,
        settings: Arc<AcpSettings>,
        now: MonoTime,
        out: &mut Vec<Output>,
    ) -> Self {
        let mut client = Self {
            worker,
            settings,
            phase: Phase::Idle,
            sessions: BTreeMap::new(),
            can_close: false,
            next_request: 0,
        };
        let about = Implementation::new("buzz-agent", env!("CARGO_PKG_VERSION"));
        let hello = InitializeRequest::new(ProtocolVersion::V1).client_info(about);
        let request = client.request("initialize", &hello, out);
        client.phase = Phase::Handshaking {
            request,
            since: now,
            noise: Noise::default(),
        };
        client
    }

    pub(super) fn order(&mut self, order: Order, now: MonoTime, out: &mut Vec<Output>) {
        match order {
            Order::Start(turn) => self.start(*turn, now, out),
            Order::Cancel(turn) => self.cancel(turn, out),
            Order::Close(session) => {
                if let Some(acp_session) = self.sessions.remove(&session) {
                    self.close(&acp_session, out);
                }
            }
        }
    }

    /// Takes one line of the worker, without its end.
    pub(super) fn line(&mut self, line: &[u8], at: Moment, out: &mut Vec<Output>) {
        let slot = self.worker.slot;
        let text = codec::mended(line);
        let incoming = Incoming::read(text.as_bytes());
        match &incoming {
            Incoming::Blank => return,
            Incoming::NotJson => {
                tracing::debug!(
                    slot,
                    text = %Excerpt::from_bytes(line),
                    "a worker wrote a line that is not JSON"
                );
                return self.noise(line, out);
            }
            // The last word on a turn says nothing of whether anything moved before.
            Incoming::Response { id, .. } if self.phase.awaits(*id) => {}
            Incoming::Other
            | Incoming::Response { .. }
            | Incoming::Request { .. }
            | Incoming::Notification { .. } => self.progress(at.time, out),
        }
        match incoming {
            Incoming::Blank | Incoming::NotJson => {}
            Incoming::Other => tracing::debug!(slot, "a worker wrote JSON that is no message"),
            Incoming::Response { id, outcome } => self.response(id, outcome, at, out),
            Incoming::Request { id, method, params } => {
                out.push(Output::Write(self.reply_to(id, &method, params)));
            }
            Incoming::Notification { method, params } => {
                if method == "session/update" {
                    self.update(params, out);
                }
            }
        }
    }

    /// Acts on limits of time, and arms the next one.
    pub(super) fn advance(&mut self, now: &mut Now, out: &mut Vec<Output>) {
        let limits = &self.settings.limits;
        match &mut self.phase {
            Phase::Idle => {}
            Phase::Handshaking { since, .. } => {
                if now.reached(since.after(limits.start), Why::Worker) {
                    let text = format!("no answer to initialize within {:?}", limits.start);
                    out.push(Output::End(no_handshake(&text)));
                    self.phase = Phase::Idle;
                }
            }
            Phase::Opening(opening) => {
                if now.reached(opening.since.after(limits.session_open), Why::SessionOpen) {
                    let text = format!("no answer to session/new within {:?}", limits.session_open);
                    out.push(Output::Fact(opening.failed(&text)));
                    self.phase = Phase::Idle;
                }
            }
            Phase::Prompting(prompting) => {
                let settled = prompting.since.after(limits.resume_settle);
                if !prompting.is_announced && now.reached(settled, Why::SessionOpen) {
                    prompting.announce(out);
                }
            }
        }
    }

    /// A program that speaks no ACP is known by what it writes before the handshake.
    fn noise(&mut self, line: &[u8], out: &mut Vec<Output>) {
        if let Phase::Handshaking { noise, .. } = &mut self.phase
            && noise.is_too_much_with(line)
        {
            let line = Excerpt::from_bytes(line);
            let text = format!(
                "it does not speak ACP: it writes lines like {:?}",
                line.as_str()
            );
            out.push(Output::End(no_handshake(&text)));
            self.phase = Phase::Idle;
        }
    }

    fn start(&mut self, order: Turn, now: MonoTime, out: &mut Vec<Output>) {
        let Turn {
            turn,
            session,
            scope,
            batch,
            context,
        } = order;
        if !matches!(self.phase, Phase::Idle) {
            let text = Excerpt::new("the worker is not free");
            let cause = OpenCause::Refused { text };
            return out.push(Output::Fact(Input::SessionFailed { turn, cause }));
        }
        match session {
            Session::Resume(session) => {
                let Some(acp_session) = self.sessions.get(&session).cloned() else {
                    let cause = OpenCause::Unknown;
                    return out.push(Output::Fact(Input::SessionFailed { turn, cause }));
                };
                let blocks = prompt::render(None, scope, &context, &batch);
                let target = Target {
                    turn,
                    session,
                    acp_session,
                };
                self.prompt(target, blocks, now, out);
            }
            Session::Fresh(session) => {
                let preamble = self.settings.preamble.as_deref();
                let prompt = prompt::render(preamble, scope, &context, &batch);
                let cwd = PathBuf::from(self.settings.cwd.to_string_lossy().into_owned());
                let request = self.request("session/new", &NewSessionRequest::new(cwd), out);
                self.phase = Phase::Opening(Opening {
                    request,
                    since: now,
                    turn,
                    session,
                    prompt,
                    is_cancelled: false,
                });
            }
        }
    }

    fn prompt(
        &mut self,
        target: Target,
        blocks: Vec<ContentBlock>,
        now: MonoTime,
        out: &mut Vec<Output>,
    ) {
        let params = PromptRequest::new(Arc::clone(&target.acp_session), blocks);
        let (request, line) = self.numbered("session/prompt", &params);
        out.push(Output::Prompt(line));
        self.phase = Phase::Prompting(Prompting {
            request,
            since: now,
            target,
            reply: Reply::new(self.settings.limits.reply_bytes_max),
            is_announced: false,
            is_cancelled: false,
            progressed: None,
        });
    }

    fn cancel(&mut self, turn: TurnId, out: &mut Vec<Output>) {
        match &mut self.phase {
            Phase::Opening(opening) if opening.turn == turn => opening.is_cancelled = true,
            Phase::Prompting(prompting)
                if prompting.target.turn == turn && !prompting.is_cancelled =>
            {
                prompting.is_cancelled = true;
                let params = CancelNotification::new(Arc::clone(&prompting.target.acp_session));
                out.push(Output::Write(codec::notification(
                    "session/cancel",
                    &params,
                )));
                // The scheduler's grace runs from the moment the session is known to exist.
                prompting.announce(out);
            }
            // Its end is under way already.
            Phase::Handshaking { .. } | Phase::Idle | Phase::Opening(_) | Phase::Prompting(_) => {}
        }
    }

    fn update(&mut self, params: Option<&RawValue>, out: &mut Vec<Output>) {
        let Phase::Prompting(prompting) = &mut self.phase else {
            return;
        };
        let Some(update) = Update::read(params) else {
            return;
        };
        if update.session != *prompting.target.acp_session {
            return;
        }
        if let Some(chunk) = update.chunk {
            prompting.announce(out);
            prompting.reply.add(chunk);
        }
    }

    fn reply_to(&self, id: &RawValue, method: &str, params: Option<&RawValue>) -> Vec<u8> {
        if method != "session/request_permission" {
            return codec::refusal(id, codec::METHOD_NOT_FOUND, "Method not found");
        }
        let answer = match &self.phase {
            Phase::Prompting(prompting) if !prompting.is_cancelled => {
                permission::answer(self.settings.permissions, params)
            }
            Phase::Prompting(_) | Phase::Handshaking { .. } | Phase::Idle | Phase::Opening(_) => {
                permission::cancelled()
            }
        };
        codec::response(id, &answer)
    }

    fn progress(&mut self, now: MonoTime, out: &mut Vec<Output>) {
        let Phase::Prompting(prompting) = &mut self.phase else {
            return;
        };
        let is_due = prompting
            .progressed
            .is_none_or(|last| now.saturating_since(last) >= PROGRESS_EVERY);
        if prompting.is_announced && is_due {
            prompting.progressed = Some(now);
            let turn = prompting.target.turn;
            out.push(Output::Fact(Input::Progressed { turn }));
        }
    }

    /// Tells the agent to let a session go, if it can be told. The answer means nothing here.
    fn close(&mut self, acp_session: &Arc<str>, out: &mut Vec<Output>) {
        if self.can_close {
            let params = CloseSessionRequest::new(Arc::clone(acp_session));
            self.request("session/close", &params, out);
        }
    }

    fn request(
        &mut self,
        method: &str,
        params: &impl serde::Serialize,
        out: &mut Vec<Output>,
    ) -> u64 {
        let (id, line) = self.numbered(method, params);
        out.push(Output::Write(line));
        id
    }

    fn numbered(&mut self, method: &str, params: &impl serde::Serialize) -> (u64, Vec<u8>) {
        let id = self.next_request;
        self.next_request = id.wrapping_add(1);
        (id, codec::request(id, method, params))
    }
}

fn no_handshake(text: &str) -> DownCause {
    DownCause::NoHandshake {
        text: Excerpt::new(text),
    }
}
