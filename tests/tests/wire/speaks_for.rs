//! For whom an event speaks beside its author.

use buzz_proto::ids::PubKey;
use buzz_proto::wire::{Event, Workflow};
use buzz_sim::toy::{Toy, key};
use quickcheck::quickcheck;

const MARK: [&str; 2] = ["buzz:workflow", "true"];
const OWNER: &str = "buzz:workflow-owner";
const MENTION: &str = "buzz:workflow-mention";
const AUTH: &str = "auth";

#[test]
fn a_post_of_a_workflow_names_its_owner_and_whom_it_addresses() {
    let (owner, a, b) = (hex(1), hex(2), hex(3));
    let tags: [&[&str]; 6] = [
        &["h", "general"],
        &[MENTION, &b],
        &MARK,
        &["buzz:workflow-run", "7", "8"],
        &[OWNER, &owner],
        &[MENTION, &a],
    ];
    let expected = Workflow {
        owner: key(1),
        mentions: vec![key(3), key(2)],
    };
    assert_eq!(post(&tags).workflow(), Some(expected));
    let nobody = Workflow {
        owner: key(1),
        mentions: Vec::new(),
    };
    assert_eq!(post(&[&MARK, &[OWNER, &owner]]).workflow(), Some(nobody));
}

#[test]
fn a_post_of_a_workflow_that_is_malformed_anywhere_is_none() {
    let (owner, other) = (hex(1), hex(2));
    let (upper, long) = ("AB".repeat(32), format!("{owner}0"));
    let owned: &[&str] = &[OWNER, &owner];
    let cases: [&[&[&str]]; 19] = [
        &[],
        &[&MARK],
        &[owned],
        &[&MARK, &MARK, owned],
        &[&["buzz:workflow"], owned],
        &[&["buzz:workflow", "false"], owned],
        &[&["buzz:workflow", "True"], owned],
        &[&["buzz:workflow", "true", ""], owned],
        &[&MARK, owned, &["buzz:workflow", "false"]],
        &[&MARK, owned, owned],
        &[&MARK, owned, &[OWNER, &other]],
        &[&MARK, &[OWNER]],
        &[&MARK, &[OWNER, &upper]],
        &[&MARK, &[OWNER, &long]],
        &[&MARK, &[OWNER, &owner, ""]],
        &[&MARK, owned, &[OWNER, "nobody"]],
        &[&MARK, owned, &[MENTION]],
        &[&MARK, owned, &[MENTION, &upper]],
        &[&MARK, owned, &[MENTION, &other], &[MENTION, &other]],
    ];
    for tags in cases {
        assert_eq!(post(tags).workflow(), None, "{tags:?}");
    }
    let of_another_kind = toy(&[&MARK, owned]).kind(40_002).event();
    assert_eq!(of_another_kind.workflow(), None);
}

#[test]
fn a_profile_names_the_owner_of_its_one_auth_tag() {
    let (owner, signature) = (hex(1), "f".repeat(128));
    let whole: &[&str] = &[AUTH, &owner, "", &signature];
    let upper = "AB".repeat(32);
    assert!(names(&[&["p", &owner], whole], key(1)));
    assert!(names(&[&[AUTH, &owner, "kind=1", "unchecked"]], key(1)));
    let cases: [&[&[&str]]; 6] = [
        &[],
        &[&[AUTH]],
        &[&[AUTH, &owner, ""]],
        &[&[AUTH, &owner, "", &signature, ""]],
        &[whole, whole],
        &[whole, &[AUTH]],
    ];
    for tags in cases {
        assert!(!names(tags, key(1)), "{tags:?}");
    }
    assert!(!names(&[whole], key(2)));
    assert!(!names(&[&[AUTH, &upper, "", &signature]], key(0xab)));
    assert!(!toy(&[whole]).kind(9).event().names_owner(&key(1)));
}

quickcheck! {
    fn any_tags_are_read_without_harm(tags: Vec<(u8, Vec<u8>)>) -> bool {
        let values = [MARK[0], MARK[1], OWNER, MENTION, AUTH, "", "\u{1f41d}\""];
        let keys = [hex(1), hex(2)];
        let mut toy = Toy::new(1);
        for (name, rest) in tags {
            let pick = |n: u8| match usize::from(n) % (values.len() + keys.len()) {
                place if place < values.len() => values[place],
                place => keys[place - values.len()].as_str(),
            };
            let tag: Vec<&str> = [name].iter().chain(&rest).map(|n| pick(*n)).collect();
            toy = toy.tag(&tag);
        }
        let (post, profile) = (toy.clone().event(), toy.kind(0).event());
        let _: bool = profile.names_owner(&key(1));
        post.workflow().is_none_or(|workflow| {
            let mut mentions = workflow.mentions.clone();
            mentions.sort_unstable();
            mentions.dedup();
            mentions.len() == workflow.mentions.len() && profile.workflow().is_none()
        })
    }
}

fn hex(n: u8) -> String {
    key(n).to_string()
}

fn toy(tags: &[&[&str]]) -> Toy {
    tags.iter().fold(Toy::new(1), |toy, tag| toy.tag(tag))
}

fn post(tags: &[&[&str]]) -> Event {
    toy(tags).event()
}

fn names(tags: &[&[&str]], owner: PubKey) -> bool {
    toy(tags).kind(0).event().names_owner(&owner)
}
