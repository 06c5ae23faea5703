//! Lenient JSON access and merging. Providers differ from their documentation, so values that are absent, null
//! or of another type count as missing.

use serde_json::{Map, Value};

/// The value at the end of a path of keys.
pub(crate) fn at<'v>(value: &'v Value, path: &[&str]) -> &'v Value {
    path.iter().fold(value, |value, key| value.get(key).unwrap_or(&Value::Null))
}

/// A text; empty if missing.
pub(crate) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A non-empty text.
pub(crate) fn maybe<'v>(value: &'v Value, key: &str) -> Option<&'v str> {
    value.get(key).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// A list; empty if missing.
pub(crate) fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A count. Some servers send counts as floating-point numbers; negative and infinite ones are ignored.
pub(crate) fn count(value: &Value, key: &str) -> Option<u64> {
    let number = value.get(key)?;
    number.as_u64().or_else(|| {
        let number = number.as_f64().filter(|number| number.is_finite() && *number >= 0.0)?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked, and casts saturate"
        )]
        Some(number.round() as u64)
    })
}

/// Merges `from` into `into`: objects at every depth; other values are replaced.
pub(crate) fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => merge(old, new),
            _ => {
                into.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Sets the value at the end of a path of keys and creates the objects on the way.
pub(crate) fn set(map: &mut Map<String, Value>, path: &[&str], value: Value) {
    match path {
        [] => {}
        [key] => {
            map.insert((*key).to_owned(), value);
        }
        [key, rest @ ..] => {
            let entry = map.entry(*key).or_insert(Value::Null);
            if !entry.is_object() {
                *entry = Value::Object(Map::new());
            }
            if let Value::Object(inner) = entry {
                set(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_the_wrong_type_count_as_missing() {
        let value = json!({ "a": { "b": "c" }, "n": 3.0, "minus": -1, "list": null });
        assert_eq!(text(at(&value, &["a"]), "b"), "c");
        assert_eq!(text(at(&value, &["n", "x", "y"]), "b"), "");
        assert_eq!(maybe(&value, "n"), None);
        assert_eq!(count(&value, "n"), Some(3));
        assert_eq!(count(&value, "minus"), None);
        assert!(list(&value, "list").is_empty());
    }

    #[test]
    fn only_objects_are_merged() {
        let mut into = json!({ "a": { "x": 1, "y": [1, 2] }, "b": 1 });
        let from = json!({ "a": { "y": [3], "z": 2 }, "b": { "c": 1 } });
        if let (Value::Object(into), Value::Object(from)) = (&mut into, &from) {
            merge(into, from);
            set(into, &["b", "d"], json!(2));
        }
        assert_eq!(into, json!({ "a": { "x": 1, "y": [3], "z": 2 }, "b": { "c": 1, "d": 2 } }));
    }
}
