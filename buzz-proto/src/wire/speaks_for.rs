//! For whom an event speaks beside its author. Neither signature is checked here, so that what is
//! read is a claim until its signature is.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{Event, MESSAGE, Tag};
use crate::ids::PubKey;

/// Profile (NIP-01).
const PROFILE: u32 = 0;

/// What a workflow of the relay says of a message: for whom it is written, and to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workflow {
    /// Whose workflow it is.
    pub owner: PubKey,
    /// The keys that it addresses, each once, in the order of the tags.
    pub mentions: Vec<PubKey>,
}

impl Event {
    /// What a message says of the workflow that wrote it, all of it or nothing: what is malformed
    /// in one place is to be trusted in none. It counts only where the relay's own key wrote it.
    #[must_use]
    pub fn workflow(&self) -> Option<Workflow> {
        if self.kind() != MESSAGE {
            return None;
        }
        let (mut is_marked, mut owner) = (false, None);
        let (mut mentions, mut known) = (Vec::new(), BTreeSet::new());
        for tag in self.tags() {
            let is_first = match &*tag.name() {
                "buzz:workflow" => {
                    let [value] = parts(&tag)?;
                    value == "true" && !core::mem::replace(&mut is_marked, true)
                }
                "buzz:workflow-owner" => owner.replace(named(&tag)?).is_none(),
                "buzz:workflow-mention" => {
                    let key = named(&tag)?;
                    mentions.push(key);
                    known.insert(key)
                }
                _ => true,
            };
            if !is_first {
                return None;
            }
        }
        owner
            .filter(|_| is_marked)
            .map(|owner| Workflow { owner, mentions })
    }

    /// Whether a profile says that this owner attests its author (NIP-OA): one `auth` tag, of four
    /// parts.
    #[must_use]
    pub fn names_owner(&self, owner: &PubKey) -> bool {
        let mut tags = self.tags().filter(|tag| tag.name() == "auth");
        let (Some(tag), None) = (tags.next(), tags.next()) else {
            return false;
        };
        let named = parts(&tag).and_then(|[named, _, _]| canonical(&named));
        self.kind() == PROFILE && named == Some(*owner)
    }
}

/// The strings after the name, if there are so many.
fn parts<'a, const N: usize>(tag: &Tag<'a>) -> Option<[alloc::borrow::Cow<'a, str>; N]> {
    let values: Vec<_> = tag.values().skip(1).take(N.saturating_add(1)).collect();
    values.try_into().ok()
}

/// The key that is the only string after the name.
fn named(tag: &Tag<'_>) -> Option<PubKey> {
    let [key] = parts(tag)?;
    canonical(&key)
}

/// A key as it is to be written: in lower case.
fn canonical(text: &str) -> Option<PubKey> {
    let is_upper = text.bytes().any(|letter| letter.is_ascii_uppercase());
    text.parse().ok().filter(|_| !is_upper)
}
