//! Which conversation an event belongs to, and the tags of what is shown there.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use super::{Policy, Scope};
use crate::ids::ChannelId;
use crate::relay::ChannelKind;
use crate::wire::Event;

/// The scope of an event. Derived once, when it comes: what is learnt of the channel later must
/// not split a conversation under way.
pub(super) fn scope_of(
    policy: Policy,
    kind: ChannelKind,
    channel: ChannelId,
    event: &Event,
) -> Scope {
    match (kind, policy) {
        (ChannelKind::Direct, _) | (ChannelKind::Stream, Policy::Channel) => {
            Scope::Conversation(channel)
        }
        (ChannelKind::Stream, Policy::Thread) => {
            Scope::Thread(channel, event.thread().root.unwrap_or_else(|| event.id()))
        }
    }
}

/// The tags of a typing indicator.
pub(super) fn typing_tags(scope: Scope) -> Vec<Vec<String>> {
    let mut tags = vec![tag(["h", &scope.channel().to_string()])];
    if let Scope::Thread(_, root) = scope {
        tags.push(tag(["e", &root.to_string()]));
    }
    tags
}

fn tag<const N: usize>(values: [&str; N]) -> Vec<String> {
    values.iter().map(ToString::to_string).collect()
}
