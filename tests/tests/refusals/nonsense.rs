//! A relay that answers anything at all: nothing panics, and every promise holds.

use buzz_proto::publish::{Input, Verdict};
use buzz_proto::relay::{BrokeCause, HttpAnswer};
use buzz_proto::time::UnixTime;
use bytes::Bytes;
use quickcheck::{Arbitrary, Gen, QuickCheck};

use crate::support::{Call, Outcome, Reply, SECOND, Storm, at, ms, takes};

#[test]
fn whatever_a_relay_answers_each_job_has_one_verdict_by_its_deadline() {
    fn holds(relay: Nonsense) {
        let (mut storm, last) = relay.play();
        assert!(storm.most_open() <= 4);
        storm.wait_until(last);
        let jobs: Vec<_> = storm.verdicts.keys().copied().collect();
        assert_eq!(jobs, (1..=relay.jobs).collect::<Vec<_>>());
        assert!(storm.verdicts.values().all(|(when, _)| *when <= last));
    }
    QuickCheck::new()
        .tests(300)
        .quickcheck(holds as fn(Nonsense));
}

#[test]
fn whatever_a_relay_answered_nothing_waits_for_long_once_it_works() {
    fn holds(relay: Nonsense) {
        let (mut storm, _) = relay.play();
        let healed = storm.now;
        // The longest gate, and calls that nobody answers.
        let soon = healed.after(400 * SECOND);
        storm.run_until(soon, &mut |call: &Call| {
            Some((ms(50), Reply::Answer(takes(call))))
        });
        let jobs = usize::try_from(relay.jobs).expect("a small number");
        assert_eq!(storm.verdicts.len(), jobs, "some wait on");
        let mut late = storm.verdicts.values().filter(|(at, _)| *at > healed);
        assert!(late.all(|(_, verdict)| *verdict != Verdict::Expired));
    }
    QuickCheck::new()
        .tests(300)
        .quickcheck(holds as fn(Nonsense));
}

/// So many jobs, and what becomes of one call after the other.
#[derive(Clone, Debug)]
struct Nonsense {
    seed: u64,
    jobs: u64,
    wall: Option<u64>,
    outcomes: Vec<(u16, Ending)>,
}

#[derive(Clone, Debug)]
enum Ending {
    Answer(HttpAnswer),
    Broke(BrokeCause),
    Silence,
}

impl Nonsense {
    /// Plays it for ten minutes. Gives the deadline of the last job.
    fn play(&self) -> (Storm, buzz_proto::time::MonoTime) {
        let mut storm = Storm::seeded(self.seed);
        if let Some(wall) = self.wall {
            storm.feed(Input::WallClock(UnixTime(wall)));
        }
        let mut outcomes = self.outcomes.iter();
        let mut relay = |_: &Call| -> Outcome {
            let (millis, ending) = outcomes.next()?;
            let reply = match ending.clone() {
                Ending::Answer(answer) => Reply::Answer(answer),
                Ending::Broke(cause) => Reply::Broke(cause),
                Ending::Silence => return None,
            };
            Some((ms(u64::from(*millis)), reply))
        };
        let ttl = 7_200 * SECOND;
        for job in 1..=self.jobs {
            storm.submit(job, Some(ttl));
            let next = storm.now.after(ms(700));
            storm.run_until(next, &mut relay);
        }
        let last = storm.now.after(ttl);
        storm.run_until(at(600), &mut relay);
        (storm, last)
    }
}

impl Arbitrary for Nonsense {
    fn arbitrary(g: &mut Gen) -> Self {
        Self {
            seed: u64::arbitrary(g),
            jobs: u64::arbitrary(g) % 20 + 1,
            wall: Option::arbitrary(g),
            outcomes: (0..40)
                .map(|_| (u16::arbitrary(g) % 20_000, Ending::arbitrary(g)))
                .collect(),
        }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        let whole = self.clone();
        let fewer = self.outcomes.shrink();
        Box::new(fewer.map(move |outcomes| Self {
            outcomes,
            ..whole.clone()
        }))
    }
}

impl Arbitrary for Ending {
    fn arbitrary(g: &mut Gen) -> Self {
        match u8::arbitrary(g) % 12 {
            0 => Self::Silence,
            1 => Self::Broke(BrokeCause::Connect),
            2 => Self::Broke(BrokeCause::TooLarge),
            _ => Self::Answer(HttpAnswer {
                status: arbitrary_status(g),
                retry_after: Option::<bool>::arbitrary(g).map(|_| arbitrary_header(g)),
                date: Option::<u64>::arbitrary(g).map(UnixTime),
                body: arbitrary_body(g),
            }),
        }
    }
}

/// Any but those that tell of a relay without the route: there is no socket here to go by.
fn arbitrary_status(g: &mut Gen) -> u16 {
    let known = [
        200, 201, 204, 301, 400, 401, 403, 408, 413, 425, 429, 500, 502, 503, 504,
    ];
    let status = match bool::arbitrary(g) {
        true => *g.choose(&known).expect("not empty"),
        false => u16::arbitrary(g),
    };
    match status {
        404 | 405 | 426 => 410,
        other => other,
    }
}

fn arbitrary_header(g: &mut Gen) -> Bytes {
    let words = [
        "0",
        "7",
        "-1",
        "1.5",
        "9223372036854775808",
        "123456789012345678901234567890",
        "soon",
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Fri, 31 Dec 9999 23:59:59 GMT",
    ];
    match bool::arbitrary(g) {
        true => Bytes::from_static(g.choose(&words).expect("not empty").as_bytes()),
        false => Vec::<u8>::arbitrary(g).into(),
    }
}

fn arbitrary_body(g: &mut Gen) -> Bytes {
    let words = [
        "",
        "{}",
        "[]",
        "null",
        "<html>429</html>",
        "{\"error\":",
        "{\"error\":null}",
        r#"{"accepted":true,"message":""}"#,
        r#"{"accepted":false,"message":"duplicate: had it"}"#,
        r#"{"accepted":false,"message":"invalid: event timestamp too far from server time"}"#,
        r#"{"error":"rate-limited: quota exceeded; retry in 99999999999999999999s"}"#,
        r#"{"error":"relay: no community is configured for this host"}"#,
        r#"{"error":"NIP-98: replay detected"}"#,
        r#"{"accepted":true,"event_id":"zz","message":7}"#,
    ];
    match u8::arbitrary(g) % 4 {
        0 => Vec::<u8>::arbitrary(g).into(),
        1 => "[".repeat(20_000).into(),
        _ => Bytes::from_static(g.choose(&words).expect("not empty").as_bytes()),
    }
}
