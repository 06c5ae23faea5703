//! Parsing and encoding of lines, and of lines that are not messages.

use proptest::prelude::*;
use serde_json::{Value, json};
use testkit::dice::Dice;

use crate::{Dialect, ErrorObject, Id, Malformed, Message};

fn parse(line: &str) -> Message {
    Message::parse(line.as_bytes()).unwrap()
}

#[test]
fn both_dialects_are_read() {
    let expected =
        Message::Request { id: Id::Number(3), method: "turn/start".into(), params: json!({"a": 1}) };
    assert_eq!(parse(r#"{"id":3,"method":"turn/start","params":{"a":1}}"#), expected);
    assert_eq!(parse(r#"{"jsonrpc":"2.0","id":3,"method":"turn/start","params":{"a":1}}"#), expected);
}

#[test]
fn each_kind_of_message_is_recognised_by_its_fields() {
    let told = |method: &str| Message::Notification { method: method.into(), params: Value::Null };
    let cases = [
        (r#"{"method":"initialized"}"#, told("initialized")),
        (r#"{"method":"initialized","id":null}"#, told("initialized")),
        (r#"{"id":0,"result":null}"#, Message::Response { id: Some(Id::Number(0)), result: Ok(Value::Null) }),
        (
            r#"{"id":"a","result":{"x":[]}}"#,
            Message::Response { id: Some(Id::Text("a".into())), result: Ok(json!({"x": []})) },
        ),
        (
            r#"{"id":1,"error":{"code":-32601,"message":"no"}}"#,
            Message::Response { id: Some(Id::Number(1)), result: Err(ErrorObject::new(-32601, "no")) },
        ),
        (
            r#"{"id":null,"error":{"code":-32700,"message":"parse"}}"#,
            Message::Response { id: None, result: Err(ErrorObject::new(-32700, "parse")) },
        ),
    ];
    for (line, expected) in cases {
        assert_eq!(parse(line), expected, "{line}");
    }
}

#[test]
fn the_error_of_an_invalid_line_names_the_reason_without_its_content() {
    let cases: [(&[u8], &str); 7] = [
        (b"sk-secret is not JSON", "a line is not a JSON-RPC message: it is not JSON (column 1)"),
        (b"{\"id\":1,\"res", "it is incomplete (column 12)"),
        (b"{\"id\":1.5,\"result\":0}", "a field has the wrong type"),
        (b"[\"2.0\", 1, \"m\"]", "it is not an object"),
        (b"{\"method\":\"\xff\"}", "it is not JSON"),
        (b"{}", "it has neither a method nor an answer"),
        (b"{\"result\":1}", "it has neither a method nor an answer"),
    ];
    for (line, expected) in cases {
        let error = Message::<Value>::parse(line).unwrap_err().to_string();
        assert!(error.contains(expected), "{error:?} for {:?}", String::from_utf8_lossy(line));
    }
}

#[test]
fn only_the_standard_dialect_names_the_version() {
    let said = || Message::Notification { method: "initialized".into(), params: Value::Null };
    assert_eq!(said().value(Dialect::Bare).to_string(), r#"{"method":"initialized"}"#);
    assert_eq!(said().value(Dialect::Standard).to_string(), r#"{"jsonrpc":"2.0","method":"initialized"}"#);
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn id() -> impl Strategy<Value = Id> {
    prop_oneof![any::<i64>().prop_map(Id::Number), any::<String>().prop_map(Id::Text)]
}

pub(super) fn message() -> impl Strategy<Value = Message> {
    let fault = (any::<i64>(), any::<String>()).prop_map(|(code, message)| ErrorObject::new(code, message));
    prop_oneof![
        (id(), any::<String>(), json()).prop_map(|(id, method, params)| Message::Request {
            id,
            method,
            params
        }),
        (any::<String>(), json()).prop_map(|(method, params)| Message::Notification { method, params }),
        (id(), json()).prop_map(|(id, result)| Message::Response { id: Some(id), result: Ok(result) }),
        (prop::option::of(id()), fault).prop_map(|(id, fault)| Message::Response { id, result: Err(fault) }),
    ]
}

proptest! {
    #[test]
    fn every_message_is_one_line_and_survives_a_round_trip(message in message(), bare in any::<bool>()) {
        let dialect = if bare { Dialect::Bare } else { Dialect::Standard };
        let line = message.clone().value(dialect).to_string();
        prop_assert!(!line.contains(['\n', '\r']));
        prop_assert_eq!(Message::read(serde_json::from_str(&line).unwrap()).unwrap(), message.clone());
        prop_assert_eq!(Message::parse(line.as_bytes()).unwrap(), message);
    }
}

#[test]
fn every_line_is_a_message_or_an_error() {
    let seeds: [&[u8]; 4] = [
        br#"{"id":3,"method":"turn/start","params":{"threadId":"t","input":[{"type":"text","text":"hi"}]}}"#,
        br#"{"jsonrpc":"2.0","id":"a","result":{"stopReason":"end_turn"}}"#,
        br#"{"id":7,"error":{"code":-32603,"message":"no","data":[1,2,{"x":null}]}}"#,
        br#"{"method":"item/agentMessage/delta","params":{"delta":"\u00e4\ud83d\ude00"}}"#,
    ];
    let (mut understood, mut refused) = (0_u32, 0_u32);
    for seed in 0..20_000 {
        let mut dice = Dice::new(seed);
        let line = spoil(seeds[usize::try_from(seed).unwrap() % seeds.len()], &mut dice);
        match Message::<Value>::parse(&line) {
            // A parsed message survives a round trip.
            Ok(message) => {
                let again =
                    Message::parse(message.clone().value(Dialect::Bare).to_string().as_bytes()).unwrap();
                assert_eq!(again, message, "seed {seed}");
                understood += 1;
            }
            Err(Malformed(why)) => {
                assert!(!why.is_empty(), "seed {seed}");
                refused += 1;
            }
        }
    }
    assert!(understood > 1_000 && refused > 1_000, "{understood} understood, {refused} refused");
}

#[test]
fn a_line_that_is_nested_too_deep_is_refused() {
    let line = format!("{{\"method\":\"m\",\"params\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(Message::<Value>::parse(line.as_bytes()).is_err());
}

/// A line with a few bytes changed, removed, doubled or cut off.
fn spoil(line: &[u8], dice: &mut Dice) -> Vec<u8> {
    let mut line = line.to_vec();
    for _ in 0..=dice.roll(3) {
        let place = usize::try_from(dice.roll(line.len() as u64)).unwrap();
        match dice.roll(5) {
            0 => line[place] = u8::try_from(dice.roll(256)).unwrap(),
            1 => drop(line.remove(place)),
            2 => line.insert(place, line[place]),
            3 => line[place] = b"{}[]\",:0n\\"[usize::try_from(dice.roll(10)).unwrap()],
            _ if place > 0 && dice.roll(3) == 0 => line.truncate(place),
            _ => {}
        }
        if line.is_empty() {
            line.push(b' ');
        }
    }
    line
}
