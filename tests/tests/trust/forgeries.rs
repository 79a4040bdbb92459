//! Every way to forge an event, with real signatures and the verifier of the adapters.

use buzz_dev_relay::keys::Keys;
use buzz_dev_relay::rules::event::Event as Signed;
use buzz_proto::note::{Note, RefusedWhy};
use buzz_sim::toy::START;

use crate::support::{decoded, delivered, frame, judged, live, mention, sub};

type Forge = fn(&mut Signed, &Signed);

/// Each changes one thing, and takes what it needs of another event by the same author.
const FORGERIES: [(&str, Forge); 9] = [
    ("words", |event, _| event.content.push('!')),
    ("date", |event, _| event.created_at += 1),
    ("kind", |event, _| event.kind = 40_007),
    ("a tag more", |event, _| {
        event.tags.push(vec!["t".to_owned()]);
    }),
    ("author", |event, _| {
        Keys::generate().public().clone_into(&mut event.pubkey);
    }),
    ("id of another", |event, other| {
        other.id.clone_into(&mut event.id);
    }),
    ("signature of another", |event, other| {
        other.sig.clone_into(&mut event.sig);
    }),
    ("no signature", |event, _| event.sig = "0".repeat(128)),
    ("everything but the words of another", |event, other| {
        let content = std::mem::take(&mut event.content);
        *event = Signed {
            content,
            ..other.clone()
        };
    }),
];

#[test]
fn a_forged_event_is_refused_and_leaves_nothing_behind() {
    let author = Keys::generate();
    for (what, forge) in FORGERIES {
        let mut relay = live();
        let genuine = mention(&author, "hello", START);
        let other = mention(&author, "something else", START);
        let mut forged = genuine.clone();
        forge(&mut forged, &other);
        relay.frame(frame(&sub(), &forged));
        assert_eq!(judged(&mut relay), [], "{what}");
        let refused = Note::Refused {
            event: decoded(&forged).id(),
            why: RefusedWhy::NotGenuine,
        };
        assert_eq!(relay.notes(), [refused], "{what}");
        for event in [&genuine, &other] {
            relay.frame(frame(&sub(), event));
            assert_eq!(delivered(judged(&mut relay)), [decoded(event)]);
        }
    }
}

#[test]
fn a_forged_event_in_the_history_of_a_request_is_refused() {
    let author = Keys::generate();
    let mut relay = buzz_sim::relay::script(buzz_sim::relay::given(&[1]));
    relay.live_with_auth();
    assert_eq!(relay.requested(), [sub()]);
    relay.written().notes();
    let genuine = mention(&author, "hello", START);
    let mut forged = genuine.clone();
    forged.content.push('!');
    let mut found = Vec::new();
    for event in [&forged, &genuine, &forged] {
        relay.frame(frame(&sub(), event));
        found.extend(delivered(judged(&mut relay)));
    }
    assert_eq!(found, [decoded(&genuine)]);
}
