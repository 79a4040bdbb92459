//! How each order is carried out.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use buzz_proto::action::Action;
use buzz_proto::ids::{ConnId, PubKey, Ticket};
use buzz_proto::input::Input;
use buzz_proto::note::Note;
use buzz_proto::publish;
use buzz_proto::relay::{self, HttpAnswer};
use buzz_proto::schedule;
use buzz_proto::time::UnixTime;
use buzz_proto::wire::{Draft, Event};
use bytes::Bytes;
use futures_util::TryFutureExt as _;
use futures_util::future::abortable;

use super::keeping::Batch;
use super::{Call, Dialed, Driver, Message, Part};
use crate::clock::Clock;
use crate::connect::{Delivery, Report};
use crate::dial;
use crate::http::{HttpError, Limits};
use crate::notes;
use crate::runtime::{Runtime, within};
use crate::sign::{self, SignError};

/// RFC 6455 section 7.4.1: the purpose of the connection is fulfilled.
const CLOSE_NORMAL: u16 = 1000;
/// How long a socket that is given up may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(2);
/// An answer to a post is a line of JSON, or a proxy's page.
const POST_ANSWER_BYTES_MAX: usize = 64 << 10;
/// An answer to a query may be as large as the largest frame.
const QUERY_ANSWER_BYTES_MAX: usize = 16 << 20;
/// An information document (NIP-11) is a few KiB.
const INFORMATION_BYTES_MAX: usize = 256 << 10;
const INFORMATION: &str = "application/nostr+json";

impl<R: Runtime> Driver<R> {
    pub(super) fn perform(&mut self, action: Action) {
        match action {
            Action::Relay(action) => self.perform_relay(action),
            Action::Publish(action) => self.perform_publish(action),
            Action::Schedule(action) => self.perform_schedule(action),
            Action::Note(note) => self.tell(note),
            Action::Ended => self.ended = true,
            Action::WakeAt(wake) => self.timer.set(wake),
        }
    }

    fn perform_relay(&mut self, action: relay::Action) {
        use relay::Action as A;
        match action {
            A::Connect { conn, .. } => self.dial(conn),
            A::Close { conn, .. } => self.close(conn),
            A::Send { conn, write, text } => {
                if let Some((open, socket)) = &mut self.socket
                    && *open == conn
                {
                    socket.queue(write, text);
                }
            }
            A::Ping { conn } => {
                if let Some((open, socket)) = &mut self.socket
                    && *open == conn
                {
                    socket.ping();
                }
            }
            A::SignAuth {
                ticket,
                challenge,
                created_at,
            } => {
                self.sign_auth(ticket, &challenge, created_at);
            }
            A::Verify { ticket, event } => self.verify(ticket, &event),
            A::Query { ticket, body } => self.query(ticket, body),
            A::Inform { ticket } => self.inform(ticket),
            A::Persist {
                ticket,
                records,
                forgotten,
            } => {
                self.persist(Batch {
                    ticket,
                    records,
                    forgotten,
                });
            }
            A::Abort { ticket } => {
                self.abort(Part::Relay, ticket);
                self.keeping.abort(ticket);
            }
            A::Deliver { sub, event, lives } => {
                self.deliver(Delivery::Event { sub, event, lives });
            }
            A::Report { sub, state } => self.deliver(Delivery::Subscription { sub, state }),
            A::Channel { channel, state } => self.deliver(Delivery::Channel { channel, state }),
            A::Link { live } => self.deliver(Delivery::Link { live }),
            A::Note(note) => self.tell(note),
            A::Receipt { .. } | A::RelayKey { .. } | A::Ended | A::WakeAt(_) => {}
        }
    }

    fn perform_publish(&mut self, action: publish::Action) {
        use publish::Action as A;
        match action {
            A::Sign { ticket, draft } => self.sign(ticket, draft),
            A::Post { ticket, event, .. } => {
                let (body, limit) = (event.raw().clone(), POST_ANSWER_BYTES_MAX);
                self.call_for_publisher(ticket, "/events", body, limit);
            }
            A::Query { ticket, body } => {
                self.call_for_publisher(ticket, "/query", body, QUERY_ANSWER_BYTES_MAX);
            }
            A::Abort { ticket } => self.abort(Part::Publish, ticket),
            A::Settle { job, verdict } => {
                if let Some(waiting) = self.verdicts.remove(&job) {
                    // Whoever submitted it may have gone.
                    let _gone = waiting.send(verdict);
                }
            }
            A::Note(note) => self.tell(note),
            A::Send { .. } | A::Outbox { .. } | A::Ended | A::WakeAt(_) => {}
        }
    }

    fn perform_schedule(&mut self, action: schedule::Action) {
        use schedule::Action as A;
        match action {
            A::Query { ticket, body } => self.query_for_scheduler(ticket, body),
            A::Verify {
                ticket,
                event,
                owner,
            } => self.verify_for_scheduler(ticket, &event, owner),
            A::Abort { ticket } => self.abort(Part::Schedule, ticket),
            order @ (A::Spawn { .. }
            | A::Kill { .. }
            | A::Start { .. }
            | A::CancelTurn { .. }
            | A::CloseSession { .. }) => {
                if let Some(workers) = &mut self.workers {
                    workers.perform(order);
                }
            }
            A::Note(note) => self.tell(note),
            A::Left { .. }
            | A::Dispose { .. }
            | A::Started { .. }
            | A::Publish(_)
            | A::ShutdownRequested
            | A::Ended
            | A::WakeAt(_) => {}
        }
    }

    fn dial(&mut self, conn: ConnId) {
        let (url, tls, inbox) = (self.url.clone(), self.tls.clone(), self.sender.clone());
        // A dial has no limit of its own: given up but not aborted it would keep its socket.
        let (dial, handle) = abortable(async move { dial::connect::<R>(&url, &tls).await });
        if let Some((_, former)) = self.dialing.replace((conn, handle)) {
            former.abort();
        }
        R::spawn(async move {
            let Ok(result) = dial.await else { return };
            let result = Box::new(result);
            let _gone = inbox.unbounded_send(Message::Dialed { conn, result });
        });
    }

    pub(super) fn dialed(&mut self, conn: ConnId, result: Dialed<R::Stream>) {
        if !self.is_dialing(conn) {
            return;
        }
        self.dialing = None;
        match result {
            Ok((socket, date)) => {
                self.socket = Some((conn, socket));
                self.tell_wall();
                self.feed(Input::Relay(relay::Input::Connected { conn, date }));
            }
            Err(error) => {
                let cause = error.cause();
                (self.report)(Report::DialFailed(error));
                self.feed(Input::Relay(relay::Input::ConnectFailed { conn, cause }));
            }
        }
    }

    fn is_dialing(&self, conn: ConnId) -> bool {
        self.dialing
            .as_ref()
            .is_some_and(|(dialed, _)| *dialed == conn)
    }

    fn close(&mut self, conn: ConnId) {
        if self.is_dialing(conn)
            && let Some((_, dial)) = self.dialing.take()
        {
            dial.abort();
        }
        let Some((open, mut socket)) = self.socket.take() else {
            return;
        };
        if open != conn {
            self.socket = Some((open, socket));
            return;
        }
        socket.close(CLOSE_NORMAL);
        R::spawn(async move {
            let goodbye = async { while socket.next().await.is_some() {} };
            let _late = within::<R, _>(GOODBYE, goodbye).await;
        });
    }

    fn sign_auth(&self, ticket: Ticket, challenge: &str, created_at: UnixTime) {
        let relay = self.url.relay_tag();
        let draft = sign::auth_draft(&relay, challenge, self.attestation.as_deref(), created_at);
        let (signer, inbox) = (Arc::clone(&self.signer), self.sender.clone());
        R::spawn(async move {
            let fact = match signer.sign(draft).await {
                Ok(event) => relay::Input::Signed { ticket, event },
                Err(_) => relay::Input::SignFailed { ticket },
            };
            let _gone = inbox.unbounded_send(Message::Fact(Input::Relay(fact)));
        });
    }

    fn sign(&mut self, ticket: Ticket, draft: Draft) {
        let signer = Arc::clone(&self.signer);
        let call = async move {
            Input::Publish(match signer.sign(draft).await {
                Ok(event) => publish::Input::Signed { ticket, event },
                Err(_) => publish::Input::SignFailed { ticket },
            })
        };
        self.begin((Part::Publish, ticket), call);
    }

    fn verify(&self, ticket: Ticket, event: &Event) {
        let (raw, verifier) = (event.raw().clone(), Arc::clone(&self.verifier));
        let fact = move |genuine| Input::Relay(relay::Input::Verified { ticket, genuine });
        self.check(move || verifier.is_genuine(&raw), fact);
    }

    fn verify_for_scheduler(&self, ticket: Ticket, event: &Event, owner: Option<PubKey>) {
        let (event, verifier) = (event.clone(), Arc::clone(&self.verifier));
        let check = move || {
            let is_of_owner = owner.is_none_or(|owner| sign::attested_owner(&event) == Some(owner));
            is_of_owner && verifier.is_genuine(event.raw())
        };
        let fact = move |genuine| Input::Schedule(schedule::Input::Verified { ticket, genuine });
        self.check(check, fact);
    }

    /// Computes a verdict beside the driver; one that cannot be computed is bad.
    fn check(
        &self,
        verdict: impl FnOnce() -> bool + Send + 'static,
        fact: impl FnOnce(bool) -> Input + Send + 'static,
    ) {
        let inbox = self.sender.clone();
        R::spawn(async move {
            let verdict = R::spawn_blocking(verdict).await.unwrap_or(false);
            let _gone = inbox.unbounded_send(Message::Fact(fact(verdict)));
        });
    }

    fn query_for_scheduler(&mut self, ticket: Ticket, body: Bytes) {
        let call = self.request("/query", body, QUERY_ANSWER_BYTES_MAX);
        self.call(Part::Schedule, ticket, call, move |result| match result {
            Ok(answer) => Input::Schedule(schedule::Input::Answered { ticket, answer }),
            Err(error) => Input::Schedule(schedule::Input::Broke {
                ticket,
                cause: error.cause(),
            }),
        });
    }

    fn query(&mut self, ticket: Ticket, body: Bytes) {
        let call = self.request("/query", body, QUERY_ANSWER_BYTES_MAX);
        self.call_for_relay(ticket, call);
    }

    /// The information document stands where the WebSocket does, and is for everyone.
    fn inform(&mut self, ticket: Ticket) {
        let http = Arc::clone(&self.http);
        let limits = Limits {
            time_max: self.call_time_max,
            body_bytes_max: INFORMATION_BYTES_MAX,
        };
        let call = async move { http.get("", INFORMATION, limits).await };
        self.call_for_relay(ticket, call.map_err(CallError::Http));
    }

    fn call_for_relay(
        &mut self,
        ticket: Ticket,
        call: impl Future<Output = Result<HttpAnswer, CallError>> + Send + 'static,
    ) {
        self.call(Part::Relay, ticket, call, move |result| match result {
            Ok(answer) => Input::Relay(relay::Input::Answered { ticket, answer }),
            Err(error) => Input::Relay(relay::Input::Broke {
                ticket,
                cause: error.cause(),
            }),
        });
    }

    fn call_for_publisher(
        &mut self,
        ticket: Ticket,
        endpoint: &'static str,
        body: Bytes,
        answer_bytes_max: usize,
    ) {
        let call = self.request(endpoint, body, answer_bytes_max);
        self.call(Part::Publish, ticket, call, move |result| match result {
            Ok(answer) => Input::Publish(publish::Input::Answered { ticket, answer }),
            Err(error) => Input::Publish(publish::Input::Broke {
                ticket,
                cause: error.cause(),
            }),
        });
    }

    /// One HTTP request, its NIP-98 header signed when it starts.
    fn request(
        &self,
        endpoint: &'static str,
        body: Bytes,
        body_bytes_max: usize,
    ) -> impl Future<Output = Result<HttpAnswer, CallError>> + Send + use<R> {
        let (http, signer) = (Arc::clone(&self.http), Arc::clone(&self.signer));
        let (url, attestation) = (self.url.http(endpoint), self.attestation.clone());
        let limits = Limits {
            time_max: self.call_time_max,
            body_bytes_max,
        };
        async move {
            let now = Clock::wall();
            let authorization = sign::http_auth(&*signer, &url, "POST", Some(&body), now).await;
            let authorization = authorization.map_err(CallError::Sign)?;
            let owner = attestation.map(|attestation| attestation.header());
            let mut headers = vec![("authorization", authorization.as_str())];
            headers.extend(owner.as_deref().map(|owner| ("x-auth-tag", owner)));
            http.post(endpoint, &headers, body, limits)
                .await
                .map_err(CallError::Http)
        }
    }

    /// Makes a call beside the driver; what comes of it is a fact.
    fn call(
        &mut self,
        part: Part,
        ticket: Ticket,
        call: impl Future<Output = Result<HttpAnswer, CallError>> + Send + 'static,
        fact: impl FnOnce(Result<HttpAnswer, CallError>) -> Input + Send + 'static,
    ) {
        let call = async move {
            let result = call.await;
            if let Err(error) = &result {
                tracing::debug!(%error, "an HTTP call has no answer");
            }
            fact(result)
        };
        self.begin((part, ticket), call);
    }

    /// Runs a call until its fact is there, unless it is aborted.
    fn begin(&mut self, call: Call, work: impl Future<Output = Input> + Send + 'static) {
        let (work, handle) = abortable(work);
        self.calls.insert(call, handle);
        let inbox = self.sender.clone();
        R::spawn(async move {
            let Ok(fact) = work.await else { return };
            let _gone = inbox.unbounded_send(Message::Fact(fact));
        });
    }

    fn abort(&mut self, part: Part, ticket: Ticket) {
        if let Some(handle) = self.calls.remove(&(part, ticket)) {
            handle.abort();
        }
    }

    fn tell(&mut self, note: Note) {
        notes::trace(&note);
        (self.report)(Report::Note(note));
    }

    fn deliver(&mut self, delivery: Delivery) {
        let Some(deliveries) = &self.deliveries else {
            return;
        };
        if deliveries.send(delivery).is_err() {
            self.deliveries = None;
        }
    }
}

/// Why a call has no answer.
enum CallError {
    Sign(SignError),
    Http(HttpError),
}

impl CallError {
    const fn cause(&self) -> relay::BrokeCause {
        match self {
            Self::Sign(_) => relay::BrokeCause::Connect,
            Self::Http(error) => error.cause(),
        }
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sign(error) => error.fmt(f),
            Self::Http(error) => error.fmt(f),
        }
    }
}
