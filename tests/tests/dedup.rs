//! Properties of the memory of ids: what it keeps, what it lets go of first, and at what cost.

use std::cell::Cell;

use buzz_proto::dedup::{Cursor, Inserted, Seen};
use buzz_proto::ids::EventId;
use buzz_proto::seed::Seed;
use buzz_proto::time::UnixTime;
use buzz_tests::check;

/// What a list would hold: number, owner and date of each id.
type Held = Vec<(u8, u8, u64)>;

#[test]
fn a_memory_of_ids_behaves_like_a_list_that_forgets_what_cannot_come_again_first() {
    fn property(capacity: u8, operations: Vec<(u8, u8, u8, u8)>) -> bool {
        let capacity = usize::from(capacity % 20);
        let mut seen = Seen::new(capacity, Seed(5));
        let mut held = Held::new();
        let mut cursors = [Cursor::Unknown; 4];
        operations
            .into_iter()
            .all(|(operation, number, owner, dated)| {
                let (number, owner, dated) = (number % 32, owner % 4, u64::from(dated % 8));
                let same = match operation % 8 {
                    0 => {
                        let moved = [Cursor::Unknown, Cursor::At(UnixTime(dated)), Cursor::Gone];
                        cursors[usize::from(owner)] = moved[usize::from(number % 3)];
                        true
                    }
                    1 => {
                        let known = held.iter().any(|(other, ..)| *other == number);
                        held.retain(|(other, ..)| *other != number);
                        seen.remove(&id(number)) == known
                    }
                    _ => {
                        let cursor = |owner: u8| cursors[usize::from(owner)];
                        let found = seen.insert(id(number), owner, UnixTime(dated), cursor);
                        let capacity = capacity.max(1);
                        let expected = insert(&mut held, (number, owner, dated), capacity, |id| {
                            (
                                cursor(id.1).is_past(UnixTime(id.2)),
                                seen.contains(&self::id(id.0)),
                            )
                        });
                        Some(found) == expected
                    }
                };
                same && seen.len() == held.len()
                    && seen.is_empty() == held.is_empty()
                    && held.iter().all(|(number, ..)| seen.contains(&id(*number)))
            })
    }
    check(8, property as fn(u8, Vec<(u8, u8, u8, u8)>) -> bool);
}

#[test]
fn nothing_is_short_while_an_id_is_left_that_cannot_come_again() {
    let cursor = |owner| match owner {
        'a' => Cursor::At(UnixTime(100)),
        'b' => Cursor::Gone,
        _ => Cursor::Unknown,
    };
    let mut seen = Seen::new(5, Seed(5));
    let first = [('a', 99), ('a', 100), ('b', 500), ('c', 1), ('c', 2)];
    for ((owner, dated), number) in first.into_iter().zip(0..) {
        seen.insert(id(number), owner, UnixTime(dated), cursor);
    }
    let short = (5..10).map(|number| seen.insert(id(number), 'c', UnixTime(50), cursor));
    let short: Vec<_> = short.map(short_of).collect();
    assert_eq!(short, [None, None, Some(1), Some(2), Some(50)]);
    assert!(seen.contains(&id(1)), "the one of 'a' that may come again");
}

#[test]
fn an_id_older_than_all_others_is_kept_and_the_oldest_of_the_others_goes() {
    let mut seen = Seen::new(3, Seed(5));
    for number in 1..4 {
        seen.insert(id(number), (), UnixTime(10 * u64::from(number)), unknown);
    }
    assert_eq!(
        short_of(seen.insert(id(4), (), UnixTime(1), unknown)),
        Some(10)
    );
    assert_eq!(
        seen.insert(id(4), (), UnixTime(1), unknown),
        Inserted::Already
    );
    assert_eq!(
        short_of(seen.insert(id(5), (), UnixTime(2), unknown)),
        Some(1)
    );
    assert!([2, 3, 5].iter().all(|number| seen.contains(&id(*number))));
}

#[test]
fn making_room_asks_for_few_cursors_however_many_owners_there_are() {
    let asked = Cell::new(0);
    let mut seen = Seen::new(1000, Seed(5));
    for number in 0..5000_u16 {
        seen.insert(
            wide_id(number),
            number % 700,
            UnixTime(number.into()),
            |_| {
                asked.set(asked.get() + 1);
                Cursor::Unknown
            },
        );
    }
    assert!(asked.get() < 20 * 4000, "{}", asked.get());
}

#[test]
fn a_cursor_that_moves_among_many_is_noticed_after_a_16th_part_of_as_many_insertions() {
    let mut seen = Seen::new(1600, Seed(5));
    let mut number = 0..;
    let mut insert = |cursor: &dyn Fn(u16) -> Cursor| {
        let number = number.next().unwrap_or(u16::MAX);
        let owner = number % 1600;
        short_of(seen.insert(wide_id(number), owner, UnixTime(number.into()), cursor))
    };
    while insert(&|_| Cursor::Unknown).is_none() {}
    let moved = |owner| match owner {
        1599 => Cursor::Gone,
        _ => Cursor::Unknown,
    };
    let short = std::iter::from_fn(|| insert(&moved)).count();
    assert_eq!(short, 100);
}

// Support

fn id(number: u8) -> EventId {
    EventId([number; 32])
}

fn wide_id(number: u16) -> EventId {
    let mut bytes = [0; 32];
    bytes[..2].copy_from_slice(&number.to_be_bytes());
    EventId(bytes)
}

fn unknown<K>(_: K) -> Cursor {
    Cursor::Unknown
}

fn short_of(inserted: Inserted) -> Option<u64> {
    match inserted {
        Inserted::New { short } => short.map(|dated| dated.0),
        Inserted::Already => panic!("it was known"),
    }
}

/// What an insertion into a list finds; nothing when the memory forgot what it must not. `fate`
/// tells of an id whether it is past its cursor, and whether the memory has it still: any of
/// several that may go can have gone.
fn insert(
    held: &mut Held,
    new: (u8, u8, u64),
    capacity: usize,
    fate: impl Fn(&(u8, u8, u64)) -> (bool, bool),
) -> Option<Inserted> {
    if held.iter().any(|(number, ..)| *number == new.0) {
        return Some(Inserted::Already);
    }
    let mut short = None;
    if held.len() == capacity {
        let gone = held.iter().position(|id| !fate(id).1)?;
        let oldest = held.iter().map(|(.., dated)| *dated).min()?;
        let any_past = held.iter().any(|id| fate(id).0);
        let gone = held.remove(gone);
        let may_go = if any_past {
            fate(&gone).0
        } else {
            gone.2 == oldest
        };
        short = (!any_past).then_some(UnixTime(gone.2));
        may_go.then_some(())?;
    }
    held.push(new);
    Some(Inserted::New { short })
}
