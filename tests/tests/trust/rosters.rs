//! A relay that names channels without end.

use buzz_proto::ids::ChannelId;
use buzz_proto::note::Note;
use buzz_proto::relay::{Action, Config, Relay, SubState};
use buzz_sim::relay::{URL, script};
use buzz_sim::script::Script;
use buzz_sim::toy::{self, START, Toy};

const MAX: u32 = 8;
const ADDED: u32 = 44_100;
const REMOVED: u32 = 44_101;

fn channel(n: u64) -> ChannelId {
    let mut bytes = [0x55; 16];
    let (head, _) = bytes.split_at_mut(8);
    head.copy_from_slice(&n.to_be_bytes());
    ChannelId(bytes)
}

/// A relay part that follows few channels at most, and whose roster is not answered.
fn live() -> Script<Relay> {
    let mut config = Config::new(URL);
    config.limits.subscriptions_max = MAX;
    let mut relay = script(config);
    relay.live_with_auth().orders();
    relay.written();
    relay.frame(toy::eose("membership-1")).orders();
    relay.notes();
    relay
}

/// A genuine notice comes. Gives what is ordered.
fn noticed(relay: &mut Script<Relay>, n: u64, kind: u32) -> Vec<Action> {
    let dated = START.after(std::time::Duration::from_secs(u64::from(kind == REMOVED)));
    let notice = Toy::notice(2 * n + u64::from(kind == REMOVED), kind, channel(n)).dated(dated);
    relay.frame(toy::event_frame("membership-1", &notice));
    let mut orders = Vec::new();
    for order in relay.orders() {
        if let Action::Verify { ticket, .. } = order {
            orders.extend(relay.verified(ticket, true).orders());
        } else {
            orders.push(order);
        }
    }
    orders
}

#[test]
fn channels_beyond_the_most_that_are_kept_are_told_as_refused_up_to_that_number() {
    let mut relay = live();
    let mut refused = 0;
    for n in 0..2000 {
        let orders = noticed(&mut relay, n, ADDED);
        let is_refusal = |it: &&Action| {
            let Action::Report { state, .. } = it else {
                return false;
            };
            matches!(state, SubState::Refused { .. })
        };
        refused += orders.iter().filter(is_refusal).count();
    }
    assert_eq!(refused, MAX as usize);
    let view = relay.part().view();
    assert!(view.subscriptions <= MAX as usize, "{view:?}");
    let notes = relay.notes();
    assert!(notes.len() <= MAX as usize, "{notes:?}");
}

#[test]
fn channels_that_are_named_and_taken_back_are_forgotten() {
    let mut relay = live();
    for n in 0..2000 {
        let mut orders = noticed(&mut relay, n, ADDED);
        orders.extend(noticed(&mut relay, n, REMOVED));
        orders.retain(|it| !matches!(it, Action::Query { .. }));
        assert_eq!(orders, [], "channel {n}");
    }
    assert_eq!(relay.part().view().subscriptions, 1);
    assert!(
        !relay
            .notes()
            .iter()
            .any(|it| matches!(it, Note::Joined { .. }))
    );
}
