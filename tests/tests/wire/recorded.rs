//! Every recorded frame and answer, read and written.

use buzz_proto::wire::{self, Event, FRAME_BYTES_MAX, Filter, SubName};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{decode, records, relay_frames, said, told};

#[test]
fn recorded_frames_of_a_relay_mean_what_is_known_of_them() {
    let told: Vec<String> = relay_frames()
        .map(|text| told(&decode(text).unwrap()))
        .collect();
    assert_eq!(told, TOLD);
}

#[test]
fn recorded_answers_of_a_relay_mean_what_is_known_of_them() {
    let told: Vec<String> = answers().map(|answer| told_by(&answer)).collect();
    assert_eq!(told, TOLD_BY_HTTP);
}

#[test]
fn events_agree_with_a_generic_reading() {
    let mut count = 0;
    for text in all_events() {
        let event = Event::decode(Bytes::from(text.clone())).unwrap();
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(event.id().to_string(), value["id"]);
        assert_eq!(event.author().to_string(), value["pubkey"]);
        assert_eq!(event.created_at().0, value["created_at"]);
        assert_eq!(event.kind(), value["kind"]);
        assert_eq!(event.content(), value["content"].as_str().unwrap());
        assert_eq!(event.raw(), &text);
        let tags: Vec<Vec<String>> = event
            .tags()
            .map(|tag| tag.values().map(String::from).collect())
            .collect();
        assert_eq!(serde_json::to_value(tags).unwrap(), value["tags"]);
        count += 1;
    }
    assert!(count > 20, "only {count} events");
}

#[test]
fn recorded_requests_of_a_client_are_written_as_they_were() {
    let mut count = 0;
    for record in records().filter(|record| record.direction == "client->relay") {
        let Ok(parts) = serde_json::from_str::<Vec<Value>>(record.frame.get()) else {
            continue;
        };
        let written = match parts[0].as_str().unwrap() {
            "REQ" => wire::req(&sub(&parts[1]), &filter(&parts[2])),
            "CLOSE" => wire::close(&sub(&parts[1])),
            "EVENT" => wire::event(&Bytes::from(parts[1].to_string())),
            "AUTH" => wire::auth(&Bytes::from(parts[1].to_string())),
            "COUNT" => continue,
            other => panic!("a verb of a client: {other}"),
        };
        let written: Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(written, Value::from(parts));
        count += 1;
    }
    assert!(count > 10, "only {count} frames");
}

#[test]
fn recorded_queries_of_a_client_are_written_as_they_were() {
    let mut count = 0;
    for request in requests().filter(|request| request.path == "/query") {
        let value: Value = serde_json::from_str(&request.body.unwrap()).unwrap();
        let filters: Vec<Filter> = serde_json::from_value(value.clone()).unwrap();
        let written: Value = serde_json::from_slice(&wire::query(&filters)).unwrap();
        assert_eq!(written, value);
        count += 1;
    }
    assert!(count > 1, "only {count} queries");
}

#[derive(Deserialize)]
struct Answer {
    status: u16,
    body: String,
}

#[derive(Deserialize)]
struct Request {
    path: String,
    body: Option<String>,
}

fn answers() -> impl Iterator<Item = Answer> {
    records().filter_map(|record| serde_json::from_str(record.frame.get()).ok())
}

fn requests() -> impl Iterator<Item = Request> {
    records().filter_map(|record| serde_json::from_str(record.frame.get()).ok())
}

/// The text of every event in a frame or in a body.
fn all_events() -> Vec<String> {
    let frames = records()
        .filter_map(|record| serde_json::from_str::<Vec<&RawValue>>(record.frame.get()).ok())
        .filter_map(|parts| parts.last().map(|part| part.get().to_owned()));
    let posted = requests().filter_map(|request| request.body);
    let found = answers()
        .filter_map(|answer| serde_json::from_str::<Vec<Value>>(&answer.body).ok())
        .flatten()
        .map(|event| event.to_string());
    let texts = frames.chain(posted).chain(found);
    texts.filter(|text| text.contains("\"sig\"")).collect()
}

fn sub(value: &Value) -> SubName {
    SubName::parse(value.as_str().unwrap())
}

fn filter(value: &Value) -> Filter {
    serde_json::from_value(value.clone()).unwrap()
}

fn told_by(answer: &Answer) -> String {
    let body = Bytes::from(answer.body.clone());
    if let Ok(answer) = wire::decode_events(&body, FRAME_BYTES_MAX) {
        return format!(
            "{} events, {} malformed",
            answer.events.len(),
            answer.malformed
        );
    }
    if let Some(answer) = wire::event_answer(&body) {
        return format!("accepted {} {}", answer.accepted, said(&answer.reason));
    }
    let reason = wire::body_reason(&body);
    format!("{} {}", answer.status, said(&reason))
}

/// By line: whether the id was one, whether it was accepted, and why; or the subscription and the
/// kind of its event.
const TOLD: &[&str] = &[
    "Auth 64",
    "Ok true true Empty",
    "Ok true false AuthRequired(VerificationFailed)",
    "Ok true false AuthRequired(AlreadyFailed)",
    "Ok true false AuthRequired(AlreadyAuthenticated)",
    "Ok true false Restricted(NotARelayMember)",
    "Ok true false Blocked",
    "Ok true false AuthRequired(NotAuthenticated)",
    "Notice AuthRequired(Other)",
    "Closed membership-notif AuthRequired(NotAuthenticated)",
    "Event membership-notif 44100",
    "Eose membership-notif",
    "Event ch-0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501 9",
    "Event ch-0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501 9",
    "Event ch-0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501 9",
    "Eose ch-0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501",
    "Event ch-0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501 40007",
    "Event ch-0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501 9",
    "Event ch-all-kinds 40099",
    "Ok true true Empty",
    "Ok true true Empty",
    "Ok true true Duplicate",
    "Ok true false Invalid(Other)",
    "Ok true false Duplicate",
    "Ok true false Restricted(NotAChannelMember)",
    "Ok true false Restricted(TimedOut)",
    "Ok true false Invalid(TimestampTooFar)",
    "Ok true false Error(Internal)",
    "Notice RateLimited 17s",
    "Ok true false RateLimited 17s",
    "Closed ch-0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501 RateLimited 1s",
    "Notice RateLimited",
    "Event agent-observer-control 24200",
    "Ok true false Restricted(Other)",
    "Count cnt-1 42",
    "Closed cnt-1 Restricted(Other)",
    "Closed old-sub Empty",
    "Closed ch-5ea9b7d4-1183-4c60-8f0e-33a6d2947b10 Restricted(NotAChannelMember)",
    "Closed ch-0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501 Restricted(AccessRevoked)",
    "Event membership-notif 44101",
    "Closed everything Restricted(Other)",
    "Closed sub-1025 Error(TooManySubscriptions)",
    "Closed s-mixed Error(Other)",
    "Closed s-many Restricted(TooManyChannels)",
    "Closed ch-0c6d1f3a-52b7-4e19-9a84-7f2be0c1d501 Error(Database)",
    "Notice Unknown",
    "SyncRequired backpressure",
    "Event relay-members 13534",
];

const TOLD_BY_HTTP: &[&str] = &[
    "1 events, 0 malformed",
    "1 events, 0 malformed",
    "accepted true Empty",
    "accepted false Duplicate",
    "400 Restricted(NotAChannelMember)",
    "400 Invalid(Other)",
    "401 HttpAuth(ReplayDetected)",
    "401 Unknown",
    "403 Restricted(NotARelayMember)",
    "404 Relay",
    "429 RateLimited 41s",
    "503 RateLimited",
    "0 events, 0 malformed",
    "200 Unknown",
    "200 Unknown",
];
