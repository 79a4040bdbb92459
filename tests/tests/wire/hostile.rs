//! What no honest peer sends: refused with its reason or ignored, never a panic.

use buzz_proto::wire::{
    self, DecodeErrorKind, Event, EventPart, FRAME_BYTES_MAX, FramePart, ReasonClass, RelayFrame,
};
use bytes::Bytes;
use quickcheck::{QuickCheck, TestResult};
use serde_json::Value;

use crate::{decode, event_with, relay_frames};

#[test]
fn frames_of_the_wrong_form_are_refused_with_their_reason() {
    use DecodeErrorKind as Kind;
    let wrong = |what| Kind::WrongType { what };
    for (frame, kind) in [
        ("", Kind::NotJson),
        ("[", Kind::NotJson),
        (r#"["EOSE","x"]]"#, Kind::NotJson),
        ("{}", Kind::NotAnArray),
        ("7", Kind::NotAnArray),
        (r#""EOSE""#, Kind::NotAnArray),
        ("[]", Kind::Empty),
        ("[1]", wrong(FramePart::Verb)),
        ("[null,1]", wrong(FramePart::Verb)),
        (r#"["\ud800"]"#, wrong(FramePart::Verb)),
        (r#"["EOSE"]"#, wrong(FramePart::Subscription)),
        (r#"["EOSE",7]"#, wrong(FramePart::Subscription)),
        (r#"["CLOSED",[]]"#, wrong(FramePart::Subscription)),
        (r#"["CLOSED","x",7]"#, wrong(FramePart::Message)),
        (r#"["NOTICE","\udc00"]"#, wrong(FramePart::Message)),
        (r#"["OK",7]"#, wrong(FramePart::EventId)),
        (r#"["OK","x","true"]"#, wrong(FramePart::Flag)),
        (r#"["EVENT","x"]"#, wrong(FramePart::Event)),
        (r#"["EVENT","x",[]]"#, wrong(FramePart::Event)),
        (r#"["AUTH",{}]"#, wrong(FramePart::Challenge)),
        (r#"["COUNT","x",{"count":-1}]"#, wrong(FramePart::Count)),
        (r#"["COUNT","x",[7]]"#, wrong(FramePart::Count)),
        (
            r#"["COUNT","x",{"count":18446744073709551616}]"#,
            wrong(FramePart::Count),
        ),
    ] {
        assert_eq!(decode(frame).unwrap_err().kind, kind, "{frame}");
    }
    let challenge = format!(r#"["AUTH","{}"]"#, "x".repeat(1025));
    assert_eq!(
        decode(&challenge).unwrap_err().kind,
        wrong(FramePart::Challenge)
    );
    let error = wire::decode(&Bytes::from_static(b"[\"NOTICE\",\"\xff\"]"), 100).unwrap_err();
    assert_eq!(error.kind, Kind::NotUtf8);
    let error = wire::decode(&Bytes::from_static(b"[\"NOTICE\"]"), 9).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"10 bytes received where 9 are allowed: ["NOTICE"]"#
    );
}

#[test]
fn events_of_the_wrong_form_are_refused_with_their_reason() {
    use EventPart as Part;
    let good = event_with("", "");
    assert!(Event::decode(Bytes::from(good.clone())).is_ok());
    let zeros = "0".repeat(64);
    for (from, to, what) in [
        (r#""kind":9"#, r#""kind":-1"#, Part::Shape),
        (r#""kind":9"#, r#""kind":4294967296"#, Part::Shape),
        (r#""kind":9"#, r#""kind":9.0"#, Part::Shape),
        (r#""kind":9"#, r#""kind":9,"kind":9"#, Part::Shape),
        (r#""kind":9"#, r#""kind":9,"k\u0069nd":7"#, Part::Shape),
        (r#""kind":9,"#, "", Part::Shape),
        (
            r#""created_at":5"#,
            r#""created_at":18446744073709551616"#,
            Part::Shape,
        ),
        (r#""created_at":5"#, r#""created_at":-5"#, Part::Shape),
        (r#""created_at":5"#, r#""created_at":1e3"#, Part::Shape),
        (
            r#""content":"hello""#,
            r#""content":"hello","content":"bye""#,
            Part::Shape,
        ),
        (r#""content":"hello""#, r#""content":null"#, Part::Content),
        (
            r#""content":"hello""#,
            r#""content":"\ud800""#,
            Part::Content,
        ),
        (
            r#""content":"hello""#,
            r#""content":["hello"]"#,
            Part::Content,
        ),
        (r#""tags":[["#, r#""tags":[7,["#, Part::Tags),
        (r#""tags":[["#, r#""tags":[[["x"],"#, Part::Tags),
        (r#""tags":[["#, r#""tags":[[null,"#, Part::Tags),
        (r#""tags":[["#, r#""tags":[["\udfff","#, Part::Tags),
        (zeros.as_str(), &zeros[1..], Part::Id),
        (&"1".repeat(64), &"g".repeat(64), Part::Author),
        (&"2".repeat(128), &"2".repeat(127), Part::Signature),
        (&"2".repeat(128), &"é".repeat(64), Part::Signature),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good);
        let error = Event::decode(Bytes::from(text)).unwrap_err();
        assert_eq!(
            error.kind,
            DecodeErrorKind::BadEvent { what },
            "{to}: {error}"
        );
    }
    for text in [&good[1..], "[]", "", "\"\""] {
        assert!(Event::decode(Bytes::from(text.to_owned())).is_err());
    }
}

#[test]
fn keys_nobody_knows_are_ignored_whatever_they_hold() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for extra in ["null", "1e999", r#"{"a":1,"a":1}"#, r#""\ud800""#, &deep] {
        let text = event_with(&format!(r#""extra":{extra},"#), "");
        let event = Event::decode(Bytes::from(text)).unwrap();
        assert_eq!(event.content(), "hello");
    }
}

#[test]
fn nesting_without_end_is_refused_or_ignored() {
    let open = "[".repeat(100_000);
    let closed = format!("{open}{}", "]".repeat(100_000));
    let objects = r#"{"a":"#.repeat(100_000);
    for bomb in [&open, &closed, &objects] {
        assert!(decode(bomb).is_err());
        assert!(decode(&format!(r#"["EVENT","x",{bomb}]"#)).is_err());
        assert!(decode(&format!(r#"["EVENT",{bomb}]"#)).is_err());
        let good = event_with("", "");
        for field in [
            r#""tags":"#,
            r#""content":"#,
            r#""kind":"#,
            r#""id":"#,
            r#""tags":[["#,
        ] {
            let text = good.replacen(field, &format!("{field}{bomb},"), 1);
            assert!(decode(&format!(r#"["EVENT","x",{text}]"#)).is_err());
        }
        let reason = wire::body_reason(format!(r#"{{"error":{bomb}}}"#).as_bytes());
        assert_eq!(reason.class, ReasonClass::Unknown);
    }
    let eose = decode(&format!(r#"["EOSE","page-1",{closed}]"#));
    assert_eq!(eose, decode(r#"["EOSE","page-1"]"#));
}

#[test]
fn errors_show_little_of_what_a_peer_wrote_and_nothing_that_moves_a_cursor() {
    let text = format!("[\"\\u001b\u{1b}[2J{}", "é".repeat(10_000));
    let error = decode(&text).unwrap_err();
    assert!(error.excerpt.as_str().len() <= wire::EXCERPT_BYTES_MAX);
    assert!(error.to_string().chars().all(|letter| !letter.is_control()));
    let kind = format!(r#""kind":"{}\u001b""#, "x".repeat(10_000));
    let text = event_with("", "").replacen(r#""kind":9"#, &kind, 1);
    let error = Event::decode(Bytes::from(text)).unwrap_err();
    assert!(
        error.excerpt.as_str().len() <= wire::EXCERPT_BYTES_MAX,
        "{error}"
    );
}

#[test]
fn every_truncation_is_refused() {
    for text in relay_frames() {
        for end in 0..text.len() {
            let cut = Bytes::copy_from_slice(&text.as_bytes()[..end]);
            assert!(wire::decode(&cut, FRAME_BYTES_MAX).is_err());
        }
    }
}

#[test]
fn mutated_frames_never_panic() {
    fn property(place: usize, changes: Vec<(u16, u8)>, body: bool) -> TestResult {
        let frames: Vec<&str> = relay_frames().collect();
        let mut bytes = frames[place % frames.len()].as_bytes().to_vec();
        for (at, byte) in changes {
            let at = usize::from(at) % bytes.len();
            bytes[at] = byte;
        }
        let bytes = Bytes::from(bytes);
        if body {
            let _ = wire::decode_events(&bytes, FRAME_BYTES_MAX);
            let _ = wire::body_reason(&bytes);
            let _ = wire::event_answer(&bytes);
        }
        if let Ok(RelayFrame::Event { event, .. }) = wire::decode(&bytes, FRAME_BYTES_MAX) {
            let value: Value = serde_json::from_slice(event.raw()).unwrap();
            assert_eq!(
                event.tags().count(),
                value["tags"].as_array().unwrap().len()
            );
            assert_eq!(event.content(), value["content"].as_str().unwrap());
            let _ = (event.channel(), event.thread());
        }
        TestResult::passed()
    }
    QuickCheck::new()
        .tests(3000)
        .quickcheck(property as fn(usize, Vec<(u16, u8)>, bool) -> TestResult);
}
