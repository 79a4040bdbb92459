//! The relay's end of each connection: frames leave the send buffer, long histories are queued
//! piece by piece, heartbeats are on time.

use std::time::Duration;

use buzz_dev_relay::rules::queue::{Closing, Outgoing};
use buzz_proto::relay;
use serde_json::Value;

use super::{Line, RelaySide};
use crate::world::happening::{Clock, Due, Fact, Happening, LineKey};

/// Between two batches that a socket takes out of the send buffer.
const WRITE_EVERY: Duration = Duration::from_millis(1);
/// A long history waits this long for room in the send buffer, and then overruns it.
const HISTORY_PATIENCE: Duration = Duration::from_secs(2);
/// Stored events are queued in pieces of this size.
const HISTORY_PIECE: usize = 100;

impl RelaySide {
    /// Whatever the rules have for a connection is on its way from now on.
    pub(super) fn settle(&mut self, clock: &mut Clock) {
        for id in self.rules.take_touched() {
            let touched = self.lines.iter_mut().find(|(_, line)| line.id == id);
            let Some((key, line)) = touched else {
                continue;
            };
            let key = *key;
            if line.history_since.is_none() && self.rules.has_history(id) {
                line.history_since = Some(clock.now());
                clock.plan_in(Duration::ZERO, due(key, Due::History));
            }
            self.write_soon(key, Duration::ZERO, clock);
        }
    }

    pub(super) fn write_soon(&mut self, key: LineKey, wait: Duration, clock: &mut Clock) {
        if let Some(line) = self.lines.get_mut(&key)
            && !line.is_writing
        {
            line.is_writing = true;
            clock.plan_in(wait, due(key, Due::Write));
        }
    }

    pub(super) fn write(&mut self, key: LineKey, clock: &mut Clock) {
        let Some(line) = self.lines.get_mut(&key) else {
            return;
        };
        line.is_writing = false;
        if self.is_stalled && !self.rules.is_closing(line.id) {
            return;
        }
        let batch = self.rules.take(line.id);
        for frame in batch.frames {
            line.send(key, frame, clock);
        }
        if let Some(closing) = batch.closing {
            let conn = key.conn;
            let code = code_of(&closing);
            line.deliver(key, Fact::Closed { conn, code }, clock);
            self.forget(key);
        } else if self.rules.queue_room(line.id) < self.queue_frames {
            self.write_soon(key, WRITE_EVERY, clock);
        }
    }

    pub(super) fn feed_history(&mut self, key: LineKey, clock: &mut Clock) {
        let Some(line) = self.lines.get_mut(&key) else {
            return;
        };
        let Some(since) = line.history_since.take() else {
            return;
        };
        let wanted = HISTORY_PIECE.min(self.queue_frames);
        let is_patient = clock.now() < since.after(HISTORY_PATIENCE);
        if self.rules.queue_room(line.id) < wanted && is_patient {
            line.history_since = Some(since);
            clock.plan_in(WRITE_EVERY, due(key, Due::History));
        } else {
            self.rules.pump_history(line.id);
        }
    }

    pub(super) fn tick_later(&self, key: LineKey, clock: &mut Clock) {
        let deadline = self
            .lines
            .get(&key)
            .and_then(|line| self.rules.deadline(line.id));
        if let Some(deadline) = deadline {
            let wait = deadline.saturating_sub(clock.unix());
            clock.plan_in(wait.max(WRITE_EVERY), due(key, Due::Tick));
        }
    }
}

impl Line {
    fn send(&mut self, key: LineKey, frame: Outgoing, clock: &mut Clock) {
        let conn = key.conn;
        match frame {
            Outgoing::Ping => self.deliver(key, Fact::Pinged { conn }, clock),
            Outgoing::Text(text) => {
                self.observe(&text);
                let text = text.into();
                self.tell(key, relay::Input::Frame { conn, text }, clock);
            }
        }
    }

    /// Keeps the list of what stands.
    fn observe(&mut self, text: &str) {
        if text.starts_with("[\"EVENT\"") {
            return;
        }
        let Ok(Value::Array(parts)) = serde_json::from_str(text) else {
            return;
        };
        match parts.as_slice() {
            [Value::String(verb), Value::String(name), ..] if verb == "EOSE" => {
                self.confirmed.insert(name.clone());
            }
            [Value::String(verb), Value::String(name), ..] if verb == "CLOSED" => {
                self.confirmed.remove(name);
            }
            _ => {}
        }
    }

    pub(super) fn tell(&mut self, key: LineKey, input: relay::Input, clock: &mut Clock) {
        let conn = key.conn;
        self.deliver(key, Fact::OnSocket { conn, input }, clock);
    }

    fn deliver(&mut self, key: LineKey, fact: Fact, clock: &mut Clock) {
        let at = self.down.arrival(clock.now());
        let life = key.life;
        clock.plan(at, Happening::Fact { life, fact });
    }
}

const fn due(line: LineKey, what: Due) -> Happening {
    Happening::Due { line, what }
}

const fn code_of(closing: &Closing) -> Option<u16> {
    match closing {
        Closing::Status { code, .. } => Some(*code),
        Closing::Silent | Closing::Abrupt => None,
    }
}
