//! Keys, ids and signatures that are made up: they look like real ones, cost little, and whoever
//! knows how they are made reads from an id whose event it is.

use buzz_proto::ids::{EventId, PubKey};
use buzz_proto::wire::Draft;
use bytes::Bytes;

/// The key of an agent.
pub(super) fn key(number: u32) -> PubKey {
    let mut key = [0xa5; 32];
    let [.., a, b, c, d] = &mut key;
    [*a, *b, *c, *d] = number.to_be_bytes();
    PubKey(key)
}

/// The id of a post: its date, and the number of its job.
pub(super) fn id(dated: u64, job: u32) -> EventId {
    let mut id = [0xe5; 32];
    let (date, rest) = id.split_at_mut(8);
    date.copy_from_slice(&dated.to_be_bytes());
    if let [.., a, b, c, d] = rest {
        [*a, *b, *c, *d] = job.to_be_bytes();
    }
    EventId(id)
}

/// The job of a post.
pub(super) const fn job_of(id: EventId) -> u32 {
    let [.., a, b, c, d] = id.0;
    u32::from_be_bytes([a, b, c, d])
}

/// The date of a post.
pub(super) const fn date_of(id: EventId) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = id.0;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// A signed event, as JSON. The words of the draft are the number of its job.
pub(super) fn event(author: u32, draft: &Draft) -> Bytes {
    let dated = draft.created_at.0;
    let job = draft.content.parse().unwrap_or(u32::MAX);
    let tags = serde_json::to_string(&draft.tags).unwrap_or_default();
    let key = key(author);
    let (id, key) = (hex(&id(dated, job).0), hex(&key.0));
    let kind = draft.kind;
    format!(
        "{{\"id\":\"{id}\",\"pubkey\":\"{key}\",\"created_at\":{dated},\"kind\":{kind},\
         \"tags\":{tags},\"content\":\"{job}\",\"sig\":\"{key}{key}\"}}",
    )
    .into()
}

/// The digits of a key or an id. A fleet writes hundreds of thousands, so they are looked up.
pub(super) fn hex(bytes: &[u8; 32]) -> String {
    const DIGITS: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    let digit = |half: u8| DIGITS.get(usize::from(half)).copied();
    let mut text = String::with_capacity(64);
    for byte in bytes {
        text.extend(digit(byte >> 4));
        text.extend(digit(byte & 15));
    }
    text
}

#[cfg(test)]
mod tests {
    use buzz_proto::time::UnixTime;
    use buzz_proto::wire::Event;

    use super::*;

    #[test]
    fn a_made_up_event_is_well_formed_and_tells_its_author_its_job_and_its_date() {
        let draft = Draft {
            kind: 9,
            created_at: UnixTime(1_800_000_007),
            tags: vec![vec!["t".to_owned(), "\"".to_owned()]],
            content: "77".to_owned(),
        };

        let event = Event::decode(event(5, &draft)).expect("it is well-formed");

        assert_eq!(event.author(), key(5));
        assert_eq!(hex(&event.id().0), event.id().to_string());
        assert_eq!((event.kind(), event.created_at()), (9, draft.created_at));
        assert_eq!(
            (job_of(event.id()), date_of(event.id())),
            (77, 1_800_000_007)
        );
        assert_eq!(event.content(), "77");
    }
}
