//! What tells the program to stop.

use std::io;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Programs that stop others, such as `timeout`, signal a process and then its group: signals this
/// close together are one request.
const ONE_REQUEST: Duration = Duration::from_secs(1);
/// The same of interrupts, which people repeat in haste.
const ONE_INTERRUPT: Duration = Duration::from_millis(100);

/// Signals that ask for the end: SIGINT, SIGTERM, and SIGHUP unless it was ignored at the start,
/// which is what `nohup` does.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Option<Signal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Interrupt,
    Other,
}

impl Signals {
    /// From now on signals do not end the program by themselves.
    pub(crate) fn new() -> io::Result<Self> {
        let hang_up = if is_hang_up_ignored() {
            None
        } else {
            Some(signal(SignalKind::hangup())?)
        };
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up,
        })
    }

    /// Waits for a request to end.
    pub(crate) async fn first(&mut self) {
        self.next().await;
    }

    /// Waits for a request besides the one that came at `first`, if there was one.
    pub(crate) async fn another(&mut self, first: Option<Instant>) {
        loop {
            let kind = self.next().await;
            if first.is_none_or(|first| !is_same_request(kind, first.elapsed())) {
                return;
            }
        }
    }

    async fn next(&mut self) -> Kind {
        let hang_up = async {
            match &mut self.hang_up {
                Some(hang_up) => hang_up.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Kind::Interrupt,
            _ = self.terminate.recv() => Kind::Other,
            _ = hang_up => Kind::Other,
        }
    }
}

fn is_same_request(kind: Kind, since_first: Duration) -> bool {
    since_first
        < match kind {
            Kind::Interrupt => ONE_INTERRUPT,
            Kind::Other => ONE_REQUEST,
        }
}

/// Where this cannot be known the signal is left to the system.
fn is_hang_up_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").ok();
    status.is_none_or(|status| ignores_hang_up(&status))
}

/// Reads proc(5): `SigIgn` is a mask of signals in hex, and SIGHUP is the first.
fn ignores_hang_up(status: &str) -> bool {
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_none_or(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_to_a_process_and_its_group_are_one_request() {
        let at = Duration::from_millis;
        assert!(is_same_request(Kind::Other, at(0)));
        assert!(is_same_request(Kind::Other, at(999)));
        assert!(!is_same_request(Kind::Other, at(1000)));
        assert!(is_same_request(Kind::Interrupt, at(0)));
        assert!(!is_same_request(Kind::Interrupt, at(100)));
    }

    #[test]
    fn an_ignored_hang_up_is_read_from_the_mask() {
        assert!(ignores_hang_up("Name:\tx\nSigIgn:\t0000000000001001\n"));
        assert!(!ignores_hang_up("Name:\tx\nSigIgn:\t0000000000001000\n"));
    }
}
