//! The wire format against recordings of OpenCode: every recorded event and answer parses and survives a round
//! trip.

#![allow(clippy::doc_markdown, reason = "OpenCode is a name, not an item")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "wire/examples.rs"]
mod examples;

use std::{fs, path::Path};

use proptest::{prelude::*, sample::Index};
use protocol::{
    Event, EventBody, Message, MessageError, MessageWithParts, Part, PartBody, Session, SessionStatus,
    part::ToolState,
    prompt::{PromptInput, SessionInput},
    request::{PermissionRequest, QuestionRequest},
    wire_error::WireError,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

/// A line of a recording, with its file and line number.
struct Line {
    place: String,
    body: Value,
}

impl Line {
    fn kind(&self) -> &str {
        self.body["k"].as_str().unwrap()
    }

    /// The event of an `event` or `gevent` line. OpenCode repeats durable events as `sync` events, which only its
    /// own replicator reads.
    fn event(&self) -> Option<&Value> {
        let event = match self.kind() {
            "event" => &self.body["d"],
            "gevent" => &self.body["d"]["payload"],
            _ => return None,
        };
        (event["type"] != "sync").then_some(event)
    }
}

fn recordings() -> Vec<Line> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/opencode");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    assert_eq!(files.len(), 60, "a recording is missing or was added");
    let mut lines = Vec::new();
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        for (number, text) in fs::read_to_string(&file).unwrap().lines().enumerate() {
            let place = format!("{name}:{}", number + 1);
            lines.push(Line { place, body: serde_json::from_str(text).unwrap() });
        }
    }
    lines
}

/// Parses the text form of the JSON, as a client would, and asserts that serialising returns the same JSON.
fn round_trip<T: Serialize + DeserializeOwned>(place: &str, wire: &Value) -> T {
    let parsed: T =
        serde_json::from_str(&wire.to_string()).unwrap_or_else(|error| panic!("{place}: {error}\n{wire:#}"));
    assert_eq!(&serde_json::to_value(&parsed).unwrap(), wire, "{place}");
    parsed
}

fn assert_part_is_typed(place: &str, part: &Part) {
    match &part.body {
        PartBody::Other(_) => panic!("{place}: part {} was not understood", part.id),
        PartBody::Tool(tool) => {
            if let ToolState::Completed(state) = &tool.state {
                state.attachments.iter().flatten().for_each(|file| assert_part_is_typed(place, file));
            }
        }
        _ => {}
    }
}

fn assert_error_is_typed(place: &str, error: Option<&MessageError>) {
    if let Some(MessageError::Other { name, .. }) = error {
        panic!("{place}: error {name} was not understood");
    }
}

fn assert_message_is_typed(place: &str, message: &Message) {
    if let Message::Assistant(message) = message {
        assert_error_is_typed(place, message.error.as_ref());
    }
}

fn assert_listed_is_typed(place: &str, message: &MessageWithParts) {
    assert_message_is_typed(place, &message.info);
    for part in &message.parts {
        assert_part_is_typed(place, part);
    }
}

/// Asserts that a known event is fully typed. The fallbacks are for unknown events and must not hide a wrong type.
fn assert_event_is_typed(place: &str, event: &Event) {
    match &event.body {
        EventBody::Other { kind, properties } => {
            assert!(
                !EventBody::KINDS.contains(&kind.as_str()),
                "{place}: {kind} is known but was not understood\n{properties:#}"
            );
        }
        EventBody::PartUpdated(it) => assert_part_is_typed(place, &it.part),
        EventBody::MessageUpdated(it) => assert_message_is_typed(place, &it.info),
        EventBody::SessionError(it) => assert_error_is_typed(place, it.error.as_ref()),
        _ => {}
    }
}

#[test]
fn every_recorded_event_survives_a_round_trip() {
    let lines = recordings();
    let mut count = 0;
    for line in &lines {
        if let Some(wire) = line.event() {
            let event: Event = round_trip(&line.place, wire);
            assert_event_is_typed(&line.place, &event);
            assert_eq!(event.body.kind(), wire["type"], "{}", line.place);
            count += 1;
        }
    }
    assert!(count > 3_000, "only {count} events were found");
}

#[test]
fn no_recorded_event_is_of_an_unknown_type() {
    for line in &recordings() {
        if let Some(wire) = line.event() {
            let kind = wire["type"].as_str().unwrap();
            assert!(EventBody::KINDS.contains(&kind), "{}: {kind}", line.place);
        }
    }
}

#[test]
fn every_session_event_names_its_session() {
    for line in &recordings() {
        if let Some(wire) = line.event() {
            let event: Event = round_trip(&line.place, wire);
            let said = event.body.session_id().map(|id| Value::from(id.as_str()));
            assert_eq!(said.as_ref(), wire["properties"].get("sessionID"), "{}", line.place);
        }
    }
}

/// Replaces ids in a path and removes the query: `/session/{id}/message`.
fn route(path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    let is_id =
        |segment: &str| ["ses_", "msg_", "per_", "que_"].iter().any(|prefix| segment.starts_with(prefix));
    path.split('/').map(|segment| if is_id(segment) { "{id}" } else { segment }).collect::<Vec<_>>().join("/")
}

#[test]
fn every_recorded_request_body_parses() {
    let mut count = 0;
    for line in recordings().iter().filter(|line| line.kind() == "req") {
        let (place, body) = (&line.place, &line.body["body"]);
        match (line.body["m"].as_str().unwrap(), route(line.body["p"].as_str().unwrap()).as_str()) {
            ("POST", "/session") => drop(round_trip::<SessionInput>(place, body)),
            ("POST", "/session/{id}/message" | "/session/{id}/prompt_async") => {
                if body.get("parts").is_none() {
                    serde_json::from_value::<PromptInput>(body.clone()).expect_err("OpenCode answered 400");
                } else {
                    round_trip::<PromptInput>(place, body);
                }
            }
            _ => continue,
        }
        count += 1;
    }
    assert!(count > 100, "only {count} bodies were found");
}

#[test]
fn every_recorded_answer_parses() {
    let lines = recordings();
    let mut method = "";
    let mut count = 0;
    for line in &lines {
        if line.kind() == "req" {
            method = line.body["m"].as_str().unwrap();
        }
        if line.kind() != "res" {
            continue;
        }
        let (place, body) = (&line.place, &line.body["body"]);
        if line.body["status"].as_u64().unwrap() >= 400 {
            round_trip::<WireError>(place, body);
            continue;
        }
        match (method, route(line.body["p"].as_str().unwrap()).as_str()) {
            ("POST", "/session") | ("GET", "/session/{id}") => drop(round_trip::<Session>(place, body)),
            ("GET", "/session/status") => {
                round_trip::<std::collections::BTreeMap<String, SessionStatus>>(place, body);
            }
            ("GET", "/session/{id}/message") => {
                for message in &round_trip::<Vec<MessageWithParts>>(place, body) {
                    assert_listed_is_typed(place, message);
                }
            }
            ("POST", "/session/{id}/message" | "/session/{id}/shell") => {
                assert_listed_is_typed(place, &round_trip(place, body));
            }
            ("GET", "/permission") => drop(round_trip::<Vec<PermissionRequest>>(place, body)),
            ("GET", "/question") => drop(round_trip::<Vec<QuestionRequest>>(place, body)),
            (_, _) if body.is_null() || body == &Value::Bool(true) => continue,
            (method, path) => panic!("{place}: what does {method} {path} answer?"),
        }
        count += 1;
    }
    assert!(count > 200, "only {count} answers were found");
}

#[test]
fn recorded_lists_are_in_the_order_of_messages() {
    for line in recordings().iter().filter(|line| line.kind() == "res") {
        if let Ok(listed) = serde_json::from_value::<Vec<MessageWithParts>>(line.body["body"].clone()) {
            assert!(listed.is_sorted_by(|a, b| a.info.order() <= b.info.order()), "{}", line.place);
            for message in &listed {
                assert!(message.parts.is_sorted_by(|a, b| a.id < b.id), "{}", line.place);
            }
        }
    }
}

/// Adds a field to each object that `choose` selects, except for an error's `{name, data}`, which consists of a tag
/// and its content only.
fn inject(value: &mut Value, name: &str, choose: &mut impl FnMut() -> bool) -> usize {
    match value {
        Value::Object(fields) => {
            let mut added: usize = fields.values_mut().map(|field| inject(field, name, choose)).sum();
            let is_error = fields.len() == 2 && fields.contains_key("name") && fields.contains_key("data");
            if !is_error && choose() {
                // A string, because some maps only hold strings (`responseHeaders`).
                fields.insert(name.into(), "from the future".into());
                added += 1;
            }
            added
        }
        Value::Array(items) => items.iter_mut().map(|item| inject(item, name, choose)).sum(),
        _ => 0,
    }
}

#[test]
fn unknown_fields_at_every_level_of_every_event_survive() {
    for line in &recordings() {
        if let Some(wire) = line.event() {
            let mut wire = wire.clone();
            assert!(inject(&mut wire, "xNew", &mut || true) >= 2);
            let event: Event = round_trip(&line.place, &wire);
            assert_event_is_typed(&line.place, &event);
        }
    }
}

#[test]
fn unknown_fields_in_listings_survive() {
    for line in recordings().iter().filter(|line| line.kind() == "res") {
        let mut body = line.body["body"].clone();
        if serde_json::from_value::<Vec<MessageWithParts>>(body.clone()).is_ok() {
            inject(&mut body, "xNew", &mut || true);
            round_trip::<Vec<MessageWithParts>>(&line.place, &body);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn unknown_fields_anywhere_survive(
        index: Index,
        name in "x[A-Za-z_.-]{0,12}",
        choices in proptest::collection::vec(any::<bool>(), 1..40),
    ) {
        thread_local! {
            static EVENTS: Vec<Value> = recordings().iter().filter_map(Line::event).cloned().collect();
        }
        let mut wire = EVENTS.with(|events| index.get(events).clone());
        let mut choices = choices.iter().copied().cycle();
        inject(&mut wire, &name, &mut || choices.next().unwrap_or_default());
        let event: Event = round_trip("a recorded event", &wire);
        assert_event_is_typed("a recorded event", &event);
    }

    #[test]
    fn an_event_of_any_unknown_type_survives(kind in "[a-z]{1,8}(\\.[a-z]{1,8}){1,3}", field in ".{0,20}") {
        prop_assume!(!EventBody::KINDS.contains(&kind.as_str()));
        let mut wire = Map::new();
        wire.insert("id".into(), "evt_1".into());
        wire.insert("type".into(), kind.clone().into());
        wire.insert("properties".into(), serde_json::json!({ "field": field }));
        let event: Event = round_trip("made up", &Value::Object(wire));
        let is_other = matches!(event.body, EventBody::Other { .. });
        prop_assert!(is_other);
        prop_assert_eq!(event.body.kind(), kind);
    }
}

#[test]
fn a_known_type_in_an_unknown_shape_survives_a_round_trip() {
    let wire = serde_json::json!({ "id": "evt_1", "type": "session.status", "properties": { "status": 7 } });
    let event: Event = round_trip("made up", &wire);
    assert!(matches!(event.body, EventBody::Other { .. }));
    assert_eq!(event.body.session_id(), None);
}

#[test]
fn the_schema_lists_known_fields_and_allows_others() {
    let schema = schemars::schema_for!(SessionStatus).to_value();
    insta::assert_snapshot!(schema["oneOf"][1], @r#"{"type":"object","additionalProperties":true,"properties":{"type":{"type":"string","const":"busy"}},"required":["type"],"description":"A turn is running."}"#);
    let events = schemars::schema_for!(Event).to_value().to_string();
    for kind in EventBody::KINDS {
        assert!(events.contains(&format!("\"{kind}\"")), "{kind}");
    }
}
