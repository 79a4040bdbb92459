//! Channels that are archived and brought back while the agent runs.

use buzz_proto::relay::{ChannelKind, Config};
use buzz_sim::relay::{URL, unaudited};
use buzz_sim::toy::{Toy, channel};

use crate::support::{answer, channels, joined, left, next_query, settled_with};

#[test]
fn an_archived_channel_is_left_when_two_reads_agree_and_joined_again_at_the_next_after_it_is_back()
{
    let mut relay = settled_with(unaudited(Config::new(URL)));
    let mut sweep = |tag: [&str; 2]| {
        let ticket = next_query(&mut relay);
        let described = Toy::metadata(2, channel(1)).tag(&tag);
        answer(
            &mut relay,
            ticket,
            &[Toy::members(1, channel(1))],
            &[described],
        );
        channels(&mut relay)
    };
    let (open, archived) = (["t", "stream"], ["archived", "true"]);
    for _ in 0..2 {
        assert_eq!(sweep(open), [joined(1, ChannelKind::Stream)]);
        assert_eq!(sweep(open), []);
        assert_eq!(sweep(archived), []);
        assert_eq!(sweep(open), [], "one read proves nothing");
        assert_eq!(sweep(archived), []);
        assert_eq!(sweep(archived), [left(1)]);
        assert_eq!(sweep(archived), []);
    }
}
