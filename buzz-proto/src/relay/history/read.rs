//! One read of stored events: how it is ordered, and how it is given up.

use alloc::vec::Vec;

use super::page::Via;
use crate::call::Call;
use crate::ids::ConnId;
use crate::quotas::{CallLane, OperationLane, Quotas};
use crate::relay::{Action, Relay};
use crate::time::{MonoTime, Now};
use crate::wire::{self, Filter, SubName};

/// Which way a read goes.
#[derive(Clone, Copy, Debug)]
pub(in crate::relay) enum To {
    /// As a request on this socket.
    Socket(ConnId),
    /// Over HTTP, in this lane.
    Http(CallLane),
}

impl Relay {
    /// Orders one read of stored events: as a request on a socket that is closed at its end, or
    /// over HTTP.
    pub(in crate::relay) fn start_read(
        &mut self,
        to: To,
        filter: &Filter,
        now: &mut Now,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) -> Option<Via> {
        let conn = match to {
            To::Socket(conn) => conn,
            To::Http(lane) => {
                let call = Call::start(lane, quotas, &mut self.tickets, now)?;
                out.push(Action::Query {
                    ticket: call.ticket,
                    body: wire::query(core::slice::from_ref(filter)),
                });
                return Some(Via::Http(call));
            }
        };
        let lane = OperationLane::CatchUp;
        quotas.operations.wait(lane, 1);
        let stamp = quotas.operations.start(lane, now)?;
        let (write, n) = (self.writes.next.take(), self.subs.names.take());
        let text = wire::req(&SubName::Page { n }, filter);
        self.write(conn, write, text, now.time(), out);
        let heard = None;
        Some(Via::Socket {
            n,
            write,
            stamp,
            heard,
        })
    }

    /// An HTTP call took too long: that counts as a failure, and its answer is not awaited.
    pub(in crate::relay) fn call_is_late(
        &mut self,
        call: Call,
        now: MonoTime,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        call.broke(quotas, now, out);
        self.route.learn(None);
        let ticket = call.ticket;
        out.push(Action::Abort { ticket });
    }

    /// Nobody wants the answer to a read any more.
    pub(in crate::relay) fn give_up(
        &mut self,
        via: Via,
        quotas: &mut Quotas,
        out: &mut Vec<Action>,
    ) {
        match via {
            Via::Socket { n, .. } => self.subs.names.supersede_page(n),
            Via::Http(call) => {
                call.abandon(quotas);
                let ticket = call.ticket;
                out.push(Action::Abort { ticket });
            }
        }
    }
}
