//! NIP-42: judging AUTH frames.

use std::time::Duration;

use super::frame::{self, Submission};
use super::queue::{Closing, Outgoing};
use super::session::{Standing, attested_owner, proof_fails};
use super::{ConnectionId, Rules};
use crate::faults::Fault;

const VERIFICATION_FAILED: &str = "auth-required: verification failed";
pub(super) const BANNED: &str = "blocked: you are banned from this community";

impl Rules {
    pub(super) fn learn_owner(&mut self, agent: &str, owner: &str) -> bool {
        self.owners
            .entry(agent.to_owned())
            .or_insert_with(|| owner.to_owned())
            == owner
    }

    pub(super) fn is_relay_member(&self, key: &str, owner: Option<&str>) -> bool {
        !self.settings.membership_required
            || self.relay_members.contains(key)
            || (self.settings.attested_agents_admitted
                && owner.is_some_and(|owner| self.relay_members.contains(owner)))
    }

    pub(super) fn receive_auth(
        &mut self,
        id: ConnectionId,
        submission: &Submission,
        now: Duration,
    ) {
        let event = &submission.event;
        let outcome = self.judge_auth(id, submission, now);
        let Some(session) = self.sessions.get_mut(&id) else {
            return;
        };
        let (accepted, text) = match outcome {
            Ok(owner) => {
                session.standing = Standing::Proven(event.pubkey.clone());
                session.auth_deadline = None;
                session.is_agent = owner.is_some();
                (true, String::new())
            }
            Err(text) => {
                if session.standing == Standing::Unknown {
                    session.standing = Standing::Failed;
                }
                (false, text)
            }
        };
        self.ledger.note(Some(&event.pubkey), |stats| {
            stats.auths += u64::from(accepted);
            stats.auths_refused += u64::from(!accepted);
        });
        let answer = frame::ok(&event.id, accepted, &text);
        if text == BANNED {
            if let Some(session) = self.sessions.get_mut(&id) {
                session.queue.push_control(Outgoing::Text(answer));
                session.queue.close(Closing::Silent);
            }
            self.touched.insert(id);
        } else if !self
            .faults
            .strikes(Some(&event.pubkey), &Fault::SwallowAuthOk)
        {
            self.send(id, answer);
        }
    }

    /// The proven owner, if any, or the text of the refusal.
    fn judge_auth(
        &mut self,
        id: ConnectionId,
        submission: &Submission,
        now: Duration,
    ) -> Result<Option<String>, String> {
        let event = &submission.event;
        let now = self.unix_seconds(now);
        let scheme = if self.settings.tls_in_front {
            "wss"
        } else {
            "ws"
        };
        let Some(session) = self.sessions.get(&id) else {
            return Err(VERIFICATION_FAILED.to_owned());
        };
        match session.standing {
            Standing::Unknown => {}
            Standing::Failed => {
                return Err("auth-required: authentication already failed".to_owned());
            }
            Standing::Proven(_) | Standing::Anonymous => {
                return Err("auth-required: already authenticated".to_owned());
            }
        }
        if submission.forgery.is_some() || proof_fails(event, session, scheme, now) {
            return Err(VERIFICATION_FAILED.to_owned());
        }
        let refusal = self.faults.take(Some(&event.pubkey), |fault| {
            let Fault::RefuseAuth(text) = fault else {
                return None;
            };
            Some(text.clone())
        });
        if let Some(text) = refusal {
            return Err(text);
        }
        let owner = attested_owner(&event.tags, &event.pubkey);
        let is_banned = |key: &str| self.banned.contains(key);
        if is_banned(&event.pubkey) || owner.as_deref().is_some_and(is_banned) {
            return Err(BANNED.to_owned());
        }
        if !self.is_relay_member(&event.pubkey, owner.as_deref()) {
            return Err("restricted: not a relay member".to_owned());
        }
        // A key already bound to another owner keeps its binding and enters without an owner.
        Ok(owner.filter(|owner| self.learn_owner(&event.pubkey, owner)))
    }
}
