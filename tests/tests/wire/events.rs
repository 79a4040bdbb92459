//! What an event, a filter and a reason tell.

use buzz_proto::ids::{ChannelId, EventId, PubKey};
use buzz_proto::time::UnixTime;
use buzz_proto::wire::{
    self, DecodeError, Draft, Event, FRAME_BYTES_MAX, Filter, Reason, ReasonClass, RelayFrame,
    SubName, Thread,
};
use bytes::Bytes;

use crate::{decode, event_with, relay_frames, told};

const CHANNEL: &str = "0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501";
const OTHER_CHANNEL: &str = "5ea9b7d4-1183-4c60-8f0e-33a6d2947b10";

#[test]
fn a_thread_a_channel_and_a_profile_are_asked_for_in_one_body_each() {
    let (root, author) = (EventId([0xaa; 32]), PubKey([1; 32]));
    let said = |events| Filter {
        kinds: [9, 40_002].into_iter().collect(),
        channel: Some(channel(CHANNEL)),
        events,
        limit: Some(12),
        ..Filter::default()
    };
    let named = Filter {
        ids: vec![root],
        ..Filter::default()
    };
    let profile = Filter {
        kinds: [0].into_iter().collect(),
        authors: vec![author],
        limit: Some(1),
        ..Filter::default()
    };
    let said_in = format!(r##""kinds":[9,40002],"#h":["{CHANNEL}"]"##);
    for (filters, body) in [
        (
            vec![named, said(vec![root])],
            format!(r##"[{{"ids":["{root}"]}},{{{said_in},"#e":["{root}"],"limit":12}}]"##),
        ),
        (
            vec![said(Vec::new())],
            format!(r#"[{{{said_in},"limit":12}}]"#),
        ),
        (
            vec![profile],
            format!(r#"[{{"authors":["{author}"],"kinds":[0],"limit":1}}]"#),
        ),
    ] {
        assert_eq!(wire::query(&filters), body);
    }
}

#[test]
fn a_thread_is_told_by_its_markers() {
    let (a, b) = (EventId([0xaa; 32]), EventId([0xbb; 32]));
    let root = format!(r#",["e","{a}","","root"]"#);
    let reply = format!(r#",["e","{b}","","reply"]"#);
    let nonsense = r#",["e","zz","","reply"],["e"],[],["e","","","root"]"#;
    for (tags, root, parent) in [
        (String::new(), None, None),
        (root.clone(), None, None),
        (reply.clone(), Some(b), Some(b)),
        (format!("{root}{reply}"), Some(a), Some(b)),
        (format!("{nonsense}{reply}{root}"), Some(a), Some(b)),
        (
            format!(r#",["e","{a}"],["e","{a}","","mention"]"#),
            None,
            None,
        ),
    ] {
        assert_eq!(event(&tags).thread(), Thread { root, parent }, "{tags}");
    }
}

#[test]
fn any_p_tag_mentions_and_the_first_uuid_is_the_channel() {
    let (first, second) = (PubKey([1; 32]), PubKey([2; 32]));
    let tags = format!(
        r#",["p"],["p","zz"],["p","{first}"],["p","{second}","","x"],["h","{OTHER_CHANNEL}"]"#
    );
    let event = event(&tags);
    assert!(event.mentions(&first) && event.mentions(&second));
    assert!(!event.mentions(&PubKey([3; 32])));
    assert_eq!(event.channel(), Some(channel(CHANNEL)));
    let unnamed = without_channel(&format!(r#",["h","general"],["h","{OTHER_CHANNEL}"]"#));
    assert_eq!(unnamed.channel(), Some(channel(OTHER_CHANNEL)));
    assert_eq!(without_channel("").channel(), None);
}

#[test]
fn tags_are_told_as_they_were_written() {
    let event = event(r#" , [ "a\"]," , "b" ,"\ud83d\udc1d" ] ,[] , ["\\"]"#);
    let tags: Vec<Vec<String>> = event
        .tags()
        .map(|tag| tag.values().map(String::from).collect())
        .collect();
    let expected = [
        vec!["h", CHANNEL],
        vec!["a\"],", "b", "🐝"],
        vec![],
        vec!["\\"],
    ];
    assert_eq!(tags, expected);
    let tag = event.tags().nth(1).unwrap();
    assert_eq!(
        (tag.name(), tag.value(2), tag.value(3)),
        ("a\"],".into(), Some("🐝".into()), None)
    );
    assert_eq!(event.tags().nth(2).unwrap().name(), "");
}

#[test]
fn ephemeral_kinds_are_those_of_nip_01() {
    for (kind, is_ephemeral) in [
        ("19999", false),
        ("20000", true),
        ("29999", true),
        ("30000", false),
    ] {
        let text = event_with("", "").replace(r#""kind":9"#, &format!(r#""kind":{kind}"#));
        assert_eq!(
            Event::decode(text.into()).unwrap().is_ephemeral(),
            is_ephemeral
        );
    }
}

#[test]
fn a_filter_matches_what_it_asks_for() {
    let event = answer();
    let key = Some(PubKey([7; 32]));
    for filter in [
        filter(|it| it.ids = vec![event.id()]),
        filter(|it| it.authors = vec![PubKey([7; 32]), event.author()]),
        filter(|it| it.kinds = [7, 9].as_slice().into()),
        filter(|it| it.channel = Some(channel(CHANNEL))),
        filter(|it| it.mention = key),
        filter(|it| it.events = vec![EventId([8; 32])]),
        filter(|it| it.d = vec![channel(OTHER_CHANNEL)]),
        filter(|it| it.since = Some(UnixTime(5))),
        filter(|it| it.until = Some(UnixTime(5))),
        filter(|it| it.limit = Some(0)),
        Filter::default(),
    ] {
        assert!(filter.matches(&event), "{filter:?}");
    }
}

#[test]
fn a_filter_matches_nothing_it_does_not_ask_for() {
    let event = answer();
    for filter in [
        filter(|it| it.ids = vec![EventId([8; 32])]),
        filter(|it| it.authors = vec![PubKey([7; 32])]),
        filter(|it| it.kinds = [7].as_slice().into()),
        filter(|it| it.channel = Some(channel(OTHER_CHANNEL))),
        filter(|it| it.mention = Some(PubKey([9; 32]))),
        filter(|it| it.events = vec![event.id()]),
        filter(|it| it.d = vec![channel(CHANNEL)]),
        filter(|it| it.since = Some(UnixTime(6))),
        filter(|it| it.until = Some(UnixTime(4))),
    ] {
        assert!(!filter.matches(&event), "{filter:?}");
    }
}

#[test]
fn an_event_without_a_channel_is_taken_to_be_in_the_one_asked_for() {
    let filter = filter(|it| it.channel = Some(channel(CHANNEL)));
    assert!(filter.matches(&without_channel("")));
    assert!(!filter.matches(&without_channel(r#",["h","general"]"#)));
}

#[test]
fn json_forms_are_read_back_and_unknown_fields_refused() {
    let filter =
        r##"{"ids":[],"kinds":[9],"#h":["0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501"],"limit":3}"##;
    let read: Filter = serde_json::from_str(filter).unwrap();
    let written = serde_json::to_string(&read).unwrap();
    assert_eq!(written, filter.replace(r#""ids":[],"#, ""));
    for wrong in [r#"{"kind":[9]}"#, r##"{"#h":[]}"##, r#"{"kinds":[-1]}"#] {
        assert!(serde_json::from_str::<Filter>(wrong).is_err());
    }

    let event = event("");
    let written = serde_json::to_string(&event).unwrap();
    assert_eq!(written, serde_json::to_string(&event_with("", "")).unwrap());
    assert_eq!(serde_json::from_str::<Event>(&written).unwrap(), event);
    assert!(serde_json::from_str::<Event>(r#""{}""#).is_err());

    let reason = Reason::new("rate-limited: retry in 7s");
    let written = serde_json::to_string(&reason).unwrap();
    assert_eq!(
        written,
        concat!(
            r#"{"class":"RateLimited","text":"rate-limited: retry in 7s","#,
            r#""hint":{"wait":7000000000,"source":"Text","capped":false}}"#,
        )
    );
    assert_eq!(serde_json::from_str::<Reason>(&written).unwrap(), reason);

    let error = decode("[1]").unwrap_err();
    let written = serde_json::to_string(&error).unwrap();
    assert_eq!(
        written,
        r#"{"kind":{"WrongType":{"what":"Verb"}},"excerpt":"1"}"#
    );
    assert_eq!(
        serde_json::from_str::<DecodeError>(&written).unwrap(),
        error
    );
}

#[test]
fn an_answer_stands_in_the_channel_and_the_thread_of_what_it_answers() {
    let root = EventId([0xaa; 32]);
    let first = event("");
    let before = EventId([0xbb; 32]);
    let below = event(&format!(
        r#",["e","{root}","","root"],["e","{before}","","reply"]"#
    ));
    let private = without_channel("");
    let tags = |event: &Event| Draft::answer(event, "yes", UnixTime(5)).tags;
    let reply = |event: &Event| {
        ["e", &event.id().to_string(), "", "reply"]
            .map(String::from)
            .to_vec()
    };
    let author = |event: &Event| vec!["p".to_owned(), event.author().to_string()];
    let place = vec!["h".to_owned(), CHANNEL.to_owned()];
    let begin = ["e", &root.to_string(), "", "root"]
        .map(String::from)
        .to_vec();

    assert_eq!(tags(&first), [place.clone(), reply(&first), author(&first)]);
    assert_eq!(tags(&below), [place, begin, reply(&below), author(&below)]);
    assert_eq!(tags(&private), [reply(&private), author(&private)]);
}

#[test]
fn a_draft_survives_its_json_form() {
    let draft = Draft {
        kind: 9,
        created_at: UnixTime(5),
        tags: vec![vec!["h".into(), CHANNEL.into()]],
        content: "a \"quoted\" 🐝\n".into(),
    };
    let bytes = draft.to_bytes();
    assert!(bytes.starts_with(br#"{"kind":9,"created_at":5,"tags":[["h","0c6d"#));
    assert_eq!(Draft::decode(&bytes), Ok(draft));
    assert!(Draft::decode(br#"{"kind":9}"#).is_err());
}

#[test]
fn only_the_exact_forms_of_ids_are_our_own() {
    let own = [
        "ch-0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501-0",
        "membership-12",
        "page-18446744073709551615",
    ];
    for text in own {
        let name = SubName::parse(text);
        assert!(!matches!(name, SubName::Other(_)), "{text}");
        assert_eq!(name.to_string(), text);
    }
    for text in [
        "",
        "-",
        "membership-notif",
        "ch-0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501",
        "ch-0C6D1F3A-52b7-4e19-9a84-7f2be0c1d501-1",
        "page-01",
        "page-+1",
        "page--1",
        "page-18446744073709551616",
        "Page-1",
    ] {
        assert!(matches!(SubName::parse(text), SubName::Other(_)), "{text}");
        assert_eq!(SubName::parse(text).to_string(), text);
    }
}

#[test]
fn a_prefix_decides_and_never_a_word_within() {
    for (text, class) in [
        ("rate-limited quota exceeded", ReasonClass::RateLimited),
        ("rate-limited", ReasonClass::RateLimited),
        ("rate-limitedness: no", ReasonClass::Unknown),
        (
            "please note: rate-limited: retry in 5s",
            ReasonClass::Unknown,
        ),
        ("the word restricted: stands here", ReasonClass::Unknown),
        ("duplicate", ReasonClass::Unknown),
        (" duplicate:", ReasonClass::Duplicate),
        ("pow: 28 bits", ReasonClass::Pow),
        ("unsupported: search", ReasonClass::Unsupported),
        ("  ", ReasonClass::Empty),
    ] {
        assert_eq!(Reason::new(text).class, class, "{text}");
    }
    assert_eq!(Reason::new("please note: retry in 5s").hint, None);
}

#[test]
fn an_answer_over_http_is_read_whatever_it_is() {
    let html = b"<html><h1>Too many requests</h1> retry in 9s</html>";
    assert_eq!(wire::body_reason(html).wait().unwrap().as_secs(), 9);
    let swapped = wire::body_reason(br#"{"error":{"code":7},"message":"rate-limited: x"}"#);
    assert!(swapped.is_rate_limit());
    let replay = wire::body_reason(br#"{"error":"NIP-98: replay detected"}"#);
    assert!(replay.is_replay() && !replay.is_replay_check_unavailable());
    let away = wire::body_reason(br#"{"error":"NIP-98: replay check unavailable"}"#);
    assert!(away.is_replay_check_unavailable() && !away.is_replay());
    assert!(wire::body_reason(br#"{"error":"relay: nothing here"}"#).is_about_the_relay());
    assert!(!wire::body_reason(b"\xff\xfe").is_about_the_relay());
    assert_eq!(wire::body_reason(b"").class, ReasonClass::Empty);
    for body in [&b"[]"[..], b"", b"{}", br#"{"accepted":"true"}"#, b"<html>"] {
        assert_eq!(wire::event_answer(body), None);
    }
    let large = wire::body_reason(&b"x".repeat(10_000_000));
    assert!(large.text.as_str().len() <= wire::EXCERPT_BYTES_MAX);
}

#[test]
fn an_element_that_is_no_event_does_not_spoil_an_answer() {
    let good = event_with("", "");
    let body = Bytes::from(format!(r#"[{good},7,{good},{{"id":1}}]"#));
    let answer = wire::decode_events(&body, FRAME_BYTES_MAX).unwrap();
    assert_eq!((answer.events.len(), answer.malformed), (2, 2));
    assert!(answer.first_error.unwrap().to_string().ends_with(": 7"));
    for body in ["{}", "[", "[]x", "null"] {
        assert!(wire::decode_events(&Bytes::from(body), FRAME_BYTES_MAX).is_err());
    }
}

#[test]
fn an_event_of_a_frame_is_a_slice_of_it() {
    let frame = sample_frame();
    let RelayFrame::Event { event, .. } = wire::decode(&frame, FRAME_BYTES_MAX).unwrap() else {
        panic!("not an event");
    };
    assert!(frame.as_ptr_range().contains(&event.raw().as_ptr()));
    let held = event.clone().hold(frame.len());
    assert_eq!(held.raw().as_ptr(), event.raw().as_ptr());
    let held = event.clone().hold(event.raw().len() * 2 + 1);
    assert_ne!(held.raw().as_ptr(), event.raw().as_ptr());
    assert_eq!(held, event);
    assert_eq!(held.content(), event.content());
}

#[test]
fn escapes_change_nothing() {
    let frame = r#"["\u0045OSE","ch-0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501\u002d7"]"#;
    let expected = RelayFrame::Eose {
        sub: SubName::Channel {
            channel: "0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501".parse().unwrap(),
            n: 7,
        },
    };
    assert_eq!(decode(frame), Ok(expected));

    let plain = Event::decode(Bytes::from(event_with("", ""))).unwrap();
    let text = event_with("", "")
        .replace(r#""id":"0"#, r#""\u0069d":"\u0030"#)
        .replace(r#"["h""#, r#"["\u0068""#)
        .replace(r#""hello""#, r#""h\u0065llo""#);
    let escaped = Event::decode(Bytes::from(text)).unwrap();
    assert_eq!(escaped.head(), plain.head());
    assert_eq!(escaped.channel(), plain.channel());
    assert!(plain.channel().is_some());
    assert_eq!(escaped.content(), "hello");
}

#[test]
fn elements_too_many_are_ignored_and_missing_ones_read_as_their_defaults() {
    let id = "0".repeat(64);
    let eose = decode(r#"["EOSE","page-1",{"x":[1]},null,5]"#);
    assert_eq!(eose, decode(r#"["EOSE","page-1"]"#));
    let ok = decode(&format!(r#"["OK","{id}"]"#)).unwrap();
    assert_eq!(told(&ok), "Ok true false Empty");
    let ok = decode(r#"["OK","what?",true,"","more"]"#).unwrap();
    assert_eq!(told(&ok), "Ok false true Empty");
    assert_eq!(told(&decode(r#"["NOTICE"]"#).unwrap()), "Notice Empty");
    assert_eq!(
        told(&decode(r#"["CLOSED","x"]"#).unwrap()),
        "Closed x Empty"
    );
}

fn sample_frame() -> Bytes {
    Bytes::from(relay_frames().find(|text| text.contains("quoted")).unwrap())
}

fn channel(text: &str) -> ChannelId {
    text.parse().unwrap()
}

/// An event in [`CHANNEL`] with further tags.
fn event(tags: &str) -> Event {
    Event::decode(Bytes::from(event_with("", tags))).unwrap()
}

fn without_channel(tags: &str) -> Event {
    let text = event_with("", tags).replacen(r#"["h","#, r#"["x","#, 1);
    Event::decode(Bytes::from(text)).unwrap()
}

/// An event that names a key, an event and a channel it describes.
fn answer() -> Event {
    let (key, answered) = (PubKey([7; 32]), EventId([8; 32]));
    event(&format!(
        r#",["p","{key}"],["e","{answered}"],["d","{OTHER_CHANNEL}"]"#
    ))
}

fn filter(ask: impl FnOnce(&mut Filter)) -> Filter {
    let mut filter = Filter::default();
    ask(&mut filter);
    filter
}
