//! The arguments of tool calls, as models write them.

use serde_json::{Map, Value};

/// What a model wrote as arguments: an object, or the text itself if it is none.
///
/// Nothing and null mean no arguments: several models write them for tools that need none.
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

/// Arguments that came as JSON rather than as its text.
pub(super) fn of(value: &Value) -> Value {
    match value {
        Value::Object(_) => value.clone(),
        Value::Null => Value::Object(Map::new()),
        Value::String(text) => parse(text),
        other => Value::String(other.to_string()),
    }
}

/// Arguments as they are told to a provider, which takes nothing but an object. What was wrong with others is
/// in the tool's answer.
pub(super) fn told(input: &Value) -> Value {
    if input.is_object() { input.clone() } else { Value::Object(Map::new()) }
}

/// A tool's schema with what every provider insists on.
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

/// A call's id in letters that every provider takes. The same id always becomes the same one.
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
            assert_eq!(told(&parse(wrong)), json!({}));
        }
        assert_eq!(of(&json!({ "a": 1 })), json!({ "a": 1 }));
        assert_eq!(of(&json!(r#"{"a":1}"#)), json!({ "a": 1 }));
        assert_eq!(of(&json!([1])), json!("[1]"));
    }

    #[test]
    fn a_schema_is_always_one_of_an_object() {
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
