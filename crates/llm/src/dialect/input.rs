//! Arguments of tool calls.

use serde_json::{Map, Value};

/// Parses arguments: an object, or the text itself if it is not one.
///
/// Empty text and null mean no arguments: several models write them for tools without parameters.
pub(super) fn parse(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(Map::new());
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(arguments)) => Value::Object(arguments),
        Ok(Value::Null) => Value::Object(Map::new()),
        _ => Value::String(text.to_owned()),
    }
}

/// Arguments that arrived as JSON instead of text.
pub(super) fn of(value: &Value) -> Value {
    match value {
        Value::Object(_) => value.clone(),
        Value::Null => Value::Object(Map::new()),
        Value::String(text) => parse(text),
        other => Value::String(other.to_string()),
    }
}

/// Arguments in the form that providers accept, which is an object. For others an empty one is sent; the tool's
/// result describes the error.
pub(super) fn arguments(input: &Value) -> Value {
    if input.is_object() { input.clone() } else { Value::Object(Map::new()) }
}

/// A tool's schema with the fields that every provider requires.
pub(super) fn schema(schema: &Value) -> Value {
    let mut schema = match schema {
        Value::Object(schema) => schema.clone(),
        _ => Map::new(),
    };
    schema.shift_remove("$schema");
    if !schema.contains_key("type") {
        schema.insert("type".to_owned(), "object".into());
    }
    if !schema.contains_key("properties") {
        schema.insert("properties".to_owned(), Value::Object(Map::new()));
    }
    Value::Object(schema)
}

/// A call id with characters that every provider accepts. The mapping is deterministic.
pub(super) fn id(id: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-".contains(letter);
    id.chars().map(|letter| if plain(letter) { letter } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_an_object_or_the_text_itself() {
        assert_eq!(parse(r#"{"a":1}"#), json!({ "a": 1 }));
        for nothing in ["", "  ", "null"] {
            assert_eq!(parse(nothing), json!({}), "{nothing:?}");
        }
        for wrong in [r#"{"a":"#, "[1]", "7", r#""a""#] {
            assert_eq!(parse(wrong), json!(wrong));
            assert_eq!(arguments(&parse(wrong)), json!({}));
        }
        assert_eq!(of(&json!({ "a": 1 })), json!({ "a": 1 }));
        assert_eq!(of(&json!(r#"{"a":1}"#)), json!({ "a": 1 }));
        assert_eq!(of(&json!([1])), json!("[1]"));
    }

    #[test]
    fn a_schema_always_describes_an_object() {
        assert_eq!(schema(&Value::Null), json!({ "type": "object", "properties": {} }));
        assert_eq!(
            schema(
                &json!({ "$schema": "x", "type": "object", "properties": { "a": {} }, "required": ["a"] })
            ),
            json!({ "type": "object", "properties": { "a": {} }, "required": ["a"] })
        );
    }

    #[test]
    fn odd_letters_in_ids_are_replaced() {
        assert_eq!(id("functions.read:0"), "functions_read_0");
        assert_eq!(id("toolu_01-x"), "toolu_01-x");
    }
}
