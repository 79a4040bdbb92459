//! Typing and presence: shown while there is a connection, lost without harm.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use super::part::Part;
use super::scope::typing_tags;
use super::{Action, Config, Scope};
use crate::bucket::Bucket;
use crate::ids::JobId;
use crate::publish::{self, Body, Class, LatestKey, Route};
use crate::time::{MonoTime, Now, UnixTime, Why};
use crate::wire::Draft;

/// Presence (Buzz, ephemeral).
const PRESENCE: u32 = 20_001;
/// Typing (Buzz, ephemeral).
const TYPING: u32 = 20_002;

/// Cosmetic jobs have the upper quarter of the numbers, so that their verdicts, which nobody waits
/// for, are told from stale ones without a table.
const FIRST_JOB: JobId = JobId(3 << 62);

/// Typing indicators a minute over all scopes. The relay takes 60 messages a minute of one author,
/// and answers go the same way where it has no HTTP.
const TYPING_PER_MINUTE: u32 = 20;
const TYPING_BURST: u32 = 4;

/// A typing indicator that comes later than this shows what is over.
const TYPING_TTL: Duration = Duration::from_secs(5);

#[derive(Clone, Debug)]
pub(super) struct Cosmetics {
    is_on: bool,
    /// When presence is due, while there is a connection.
    presence_at: Option<MonoTime>,
    bucket: Bucket,
    /// The newest typing indicator of a turn under way, while it has no verdict.
    typing: BTreeMap<Scope, JobId>,
    next_job: JobId,
}

impl Cosmetics {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            is_on: config.cosmetics,
            presence_at: None,
            bucket: Bucket::new(TYPING_PER_MINUTE, Duration::from_secs(60), TYPING_BURST),
            typing: BTreeMap::new(),
            next_job: FIRST_JOB,
        }
    }

    pub(super) fn linked(&mut self, live: bool, now: MonoTime) {
        self.presence_at = (live && self.is_on).then_some(now);
    }

    /// A job has its verdict. Whether it is one of these.
    pub(super) fn settled(&mut self, job: JobId) -> bool {
        self.typing.retain(|_, shown| *shown != job);
        (FIRST_JOB..self.next_job).contains(&job)
    }

    /// Takes back the typing indicator of a turn that has ended: shown now, it would be wrong.
    pub(super) fn end_typing(&mut self, scope: Scope, out: &mut Vec<Action>) {
        let job = self.typing.remove(&scope);
        out.extend(job.map(|job| Action::Publish(publish::Command::Cancel { job })));
    }

    pub(super) fn say_offline(&mut self, dated: UnixTime, out: &mut Vec<Action>) {
        if self.presence_at.take().is_some() {
            self.say_presence("offline", dated, out);
        }
        self.is_on = false;
    }

    fn say_presence(&mut self, content: &str, dated: UnixTime, out: &mut Vec<Action>) {
        let draft = Draft {
            kind: PRESENCE,
            created_at: dated,
            tags: Vec::new(),
            content: content.to_string(),
        };
        out.push(self.submit(LatestKey::Presence, draft, None));
    }

    fn submit(&mut self, key: LatestKey, draft: Draft, ttl: Option<Duration>) -> Action {
        Action::Publish(publish::Command::Submit {
            job: self.next_job.take(),
            class: Class::Latest(key),
            route: Route::Socket,
            body: Body::SignWhenSent(draft),
            ttl,
        })
    }
}

impl Part {
    /// Says what is due; whether anything was.
    pub(super) fn pump_cosmetics(
        &mut self,
        now: &mut Now,
        dated: UnixTime,
        out: &mut Vec<Action>,
    ) -> bool {
        let Some(presence_at) = self.cosmetics.presence_at else {
            return false;
        };
        let is_due = now.reached(presence_at, Why::Cosmetic);
        if is_due {
            let next = now.time().after(self.config.limits.presence);
            self.cosmetics.presence_at = Some(next);
            self.cosmetics.say_presence("online", dated, out);
        }
        let is_typing = self.pump_typing(now, dated, out);
        is_due || is_typing
    }

    fn pump_typing(&mut self, now: &mut Now, dated: UnixTime, out: &mut Vec<Action>) -> bool {
        let mut moved = false;
        loop {
            // The one that has waited longest, so that a few turns cannot use up all tokens.
            let next = self
                .turns
                .values_mut()
                .filter(|turn| turn.is_at_work())
                .min_by_key(|turn| turn.typing_at);
            let Some(turn) = next else {
                break;
            };
            let is_due = now.reached(turn.typing_at, Why::Cosmetic)
                && self.cosmetics.bucket.take(now, Why::Cosmetic);
            if !is_due {
                break;
            }
            turn.typing_at = now.time().after(self.config.limits.typing);
            let draft = Draft {
                kind: TYPING,
                created_at: dated,
                tags: typing_tags(turn.scope),
                content: String::new(),
            };
            let key = LatestKey::Typing(turn.scope);
            self.cosmetics
                .typing
                .insert(turn.scope, self.cosmetics.next_job);
            out.push(self.cosmetics.submit(key, draft, Some(TYPING_TTL)));
            moved = true;
        }
        moved
    }
}
