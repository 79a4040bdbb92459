//! The connection: one at a time, each under a number of its own.

use std::collections::BTreeSet;

use buzz_proto::action::Action;
use buzz_proto::ids::{ConnId, WriteId};
use buzz_proto::input::Input;
use buzz_proto::relay;

use super::Fault;

#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    open: Option<ConnId>,
    /// Whether the dial has succeeded.
    is_up: bool,
    last: Option<ConnId>,
    writes: BTreeSet<WriteId>,
}

impl Line {
    pub(super) fn learn(&mut self, input: &Input) {
        let Input::Relay(input) = input else {
            return;
        };
        match input {
            relay::Input::Connected { conn, .. } if self.open == Some(*conn) => self.is_up = true,
            relay::Input::ConnectFailed { conn, .. } if !self.is_up => self.end(*conn),
            relay::Input::Closed { conn, .. } => self.end(*conn),
            _ => {}
        }
    }

    pub(super) fn order(&mut self, action: &Action) -> Result<(), Fault> {
        use relay::Action as A;
        let Action::Relay(action) = action else {
            return Ok(());
        };
        match action {
            A::Connect { conn, .. } => {
                if self.open.is_some() {
                    return Err("a dial while another connection stands".to_owned());
                }
                if self.last.is_some_and(|last| last >= *conn) {
                    return Err("a dial under a number that was used".to_owned());
                }
                (self.open, self.last, self.is_up) = (Some(*conn), Some(*conn), false);
            }
            A::Close { conn, .. } => {
                if self.open != Some(*conn) {
                    return Err("a connection is closed that does not stand".to_owned());
                }
                self.end(*conn);
            }
            A::Send { conn, write, .. } => {
                self.is_usable(*conn)?;
                if !self.writes.insert(*write) {
                    return Err("a write under a number that was used".to_owned());
                }
            }
            A::Ping { conn } => self.is_usable(*conn)?,
            _ => {}
        }
        Ok(())
    }

    fn is_usable(&self, conn: ConnId) -> Result<(), Fault> {
        if self.open == Some(conn) && self.is_up {
            return Ok(());
        }
        Err("something is sent on a connection that is not up".to_owned())
    }

    fn end(&mut self, conn: ConnId) {
        self.open.take_if(|open| *open == conn);
    }
}
