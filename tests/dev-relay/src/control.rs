//! The switchboard of faults of a running relay.

use core::fmt;

use crate::faults::{CannedReply, Fault, Target};
use crate::rules::Generation;
use crate::rules::http::RetryAfter;
use crate::rules::queue::Closing;
use crate::rules::quota::Quotas;
use crate::shared::Shared;

/// Arms, switches and lifts faults. Everything takes effect at once.
#[derive(Clone, Copy)]
pub struct FaultControl<'a> {
    shared: &'a Shared,
}

impl<'a> FaultControl<'a> {
    pub(crate) const fn new(shared: &'a Shared) -> Self {
        Self { shared }
    }

    /// Arms a fault against everybody for the next `times` occasions.
    pub fn arm(&self, fault: Fault, times: u64) {
        self.arm_for(fault, Target::Everyone, times);
    }

    /// Arms a fault against a target for the next `times` occasions.
    ///
    /// What happens before a connection has proven its key (the upgrade, the challenge) is struck
    /// by [`Target::Everyone`] only. Over HTTP the claimed key decides.
    pub fn arm_for(&self, fault: Fault, target: Target, times: u64) {
        self.shared
            .with_faults(|rules| rules.faults.arm(fault, target, times));
    }

    /// Lifts all faults, armed and switched; settings such as quotas, date and generation stay.
    pub fn clear(&self) {
        self.shared.with_faults(|rules| rules.faults.clear());
    }

    /// The next `times` EVENT frames are refused with this text.
    pub fn refuse_events(&self, times: u64, text: &str) {
        self.arm(Fault::RefuseEvent(text.to_owned()), times);
    }

    /// The next `times` REQ frames are refused with this text.
    pub fn refuse_reqs(&self, times: u64, text: &str) {
        self.arm(Fault::RefuseReq(text.to_owned()), times);
    }

    /// The next `times` `POST /events` are answered by this.
    pub fn fail_events_posts(&self, times: u64, reply: CannedReply) {
        self.arm(Fault::FailEvents(reply), times);
    }

    /// The next `times` `POST /query` are answered by this.
    pub fn fail_query_posts(&self, times: u64, reply: CannedReply) {
        self.arm(Fault::FailQuery(reply), times);
    }

    /// The next `times` HTTP requests of any kind are answered by this.
    pub fn fail_http(&self, times: u64, reply: CannedReply) {
        self.arm(Fault::FailHttp(reply), times);
    }

    /// The next `times` OKs of EVENT frames are lost.
    pub fn swallow_oks(&self, times: u64) {
        self.arm(Fault::SwallowOk, times);
    }

    /// The next `times` EOSEs are lost.
    pub fn swallow_eoses(&self, times: u64) {
        self.arm(Fault::SwallowEose, times);
    }

    /// Names of the requests that were ignored since faults were lifted, oldest first.
    #[must_use]
    pub fn ignored(&self) -> Vec<String> {
        self.shared.with(|rules, _| rules.faults.ignored.clone())
    }

    /// The next `times` live events are not delivered, counted per connection.
    pub fn withhold_live(&self, target: Target, times: u64) {
        self.arm_for(Fault::WithholdLive, target, times);
    }

    /// The next `times` histories break off after so many events, without EOSE.
    pub fn cut_histories(&self, times: u64, after: usize) {
        self.arm(Fault::CutHistory(after), times);
    }

    /// The next `times` histories are empty and end with EOSE.
    pub fn empty_histories(&self, times: u64) {
        self.arm(Fault::EmptyHistory, times);
    }

    /// Whether sockets are left unread.
    pub fn stop_reading(&self, target: &Target, on: bool) {
        self.shared
            .with_faults(|rules| rules.faults.unread.set(target, on));
    }

    /// Nothing is written to sockets and HTTP answers are held, or all that is released.
    pub fn stall(&self, target: &Target, on: bool) {
        self.shared
            .with_faults(|rules| rules.faults.stalled.set(target, on));
    }

    /// Ends connections.
    pub fn disconnect(&self, target: &Target, closing: &Closing) {
        self.shared
            .with_faults(|rules| rules.disconnect(closing, &|key| target.includes(key)));
    }

    /// Ends subscriptions whose id starts with `prefix` by CLOSED with this text.
    pub fn close_subscriptions(&self, target: &Target, prefix: &str, text: &str) {
        self.shared.with(|rules, _| {
            rules.close_subscriptions(prefix, text, &|key| target.includes(key));
        });
    }

    /// Sends a raw text frame.
    pub fn inject(&self, target: &Target, text: &str) {
        self.shared
            .with(|rules, _| rules.inject(text, &|key| target.includes(key)));
    }

    /// Sends a WebSocket ping, besides those of the heartbeat.
    pub fn ping(&self, target: &Target) {
        self.shared
            .with(|rules, _| rules.ping(&|key| target.includes(key)));
    }

    /// Sends the proposed gap signal, `["BUZZ_SYNC_REQUIRED","backpressure"]`.
    pub fn require_sync(&self, target: &Target) {
        self.inject(target, r#"["BUZZ_SYNC_REQUIRED","backpressure"]"#);
    }

    /// Replaces the quotas and opens fresh windows.
    pub fn set_quotas(&self, quotas: Quotas) {
        self.shared.with(|rules, _| rules.set_quotas(quotas));
    }

    /// Switches the quotas on or off and opens fresh windows.
    pub fn enable_quotas(&self, enabled: bool) {
        self.shared.with(|rules, _| {
            let quotas = Quotas {
                enabled,
                ..rules.settings.quotas
            };
            rules.set_quotas(quotas);
        });
    }

    /// Whether the quota store can be reached; without it every metered frame is refused.
    pub fn set_admission_available(&self, available: bool) {
        self.shared
            .with(|rules, _| rules.admission_available = available);
    }

    /// Plays another generation from now on.
    pub fn set_generation(&self, generation: Generation) {
        self.shared
            .with(|rules, _| rules.settings.generation = generation);
    }

    /// Whether a 429 for quota carries a `Retry-After` header.
    pub fn set_retry_after(&self, retry_after: RetryAfter) {
        self.shared.with(|rules, _| rules.retry_after = retry_after);
    }

    /// Takes `/events`, `/query` and `/count` away, answering this status, or gives them back.
    pub fn set_bridge_absent(&self, status: Option<u16>) {
        self.shared.with(|rules, _| rules.bridge_absent = status);
    }

    /// Moves the relay's wall clock by so many seconds, `Date` headers included.
    pub fn set_clock_skew(&self, seconds: i64) {
        self.shared.with(|rules, _| rules.clock_skew = seconds);
    }
}

impl fmt::Debug for FaultControl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultControl").finish_non_exhaustive()
    }
}
