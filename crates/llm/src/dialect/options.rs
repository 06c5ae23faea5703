//! Settings of a call. Users write them as for OpenCode, in camel case and sometimes with other names than the
//! provider's; unknown settings are sent to the provider unchanged.

use serde_json::{Map, Value};

use crate::json;

/// Moves settings to the provider's paths; each pair is a name and a path.
pub(super) fn place(settings: &mut Map<String, Value>, places: &[(&str, &[&str])]) {
    for (name, path) in places {
        if let Some(value) = settings.shift_remove(*name) {
            json::set(settings, path, value);
        }
    }
}

/// Removes settings that concern the client and not the provider.
pub(super) fn forget(settings: &mut Map<String, Value>, names: &[&str]) {
    for name in names {
        settings.shift_remove(*name);
    }
}

/// Converts keys to `snake_case` at every depth.
pub(super) fn snake(settings: Map<String, Value>) -> Map<String, Value> {
    settings.into_iter().map(|(key, value)| (snake_key(&key), snake_value(value))).collect()
}

fn snake_value(value: Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(snake(fields)),
        Value::Array(items) => items.into_iter().map(snake_value).collect(),
        value => value,
    }
}

fn snake_key(key: &str) -> String {
    let mut spelt = String::with_capacity(key.len() + 4);
    let mut was_lower = false;
    for letter in key.chars() {
        if letter.is_ascii_uppercase() && was_lower {
            spelt.push('_');
        }
        was_lower = letter.is_ascii_lowercase() || letter.is_ascii_digit();
        spelt.push(letter.to_ascii_lowercase());
    }
    spelt
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: Value) -> Map<String, Value> {
        let Value::Object(map) = value else { panic!("settings are an object") };
        map
    }

    #[test]
    fn settings_are_moved_to_their_paths() {
        let mut settings =
            map(json!({ "reasoningEffort": "high", "reasoning": { "summary": "auto" }, "x": 1 }));
        place(&mut settings, &[("reasoningEffort", &["reasoning", "effort"]), ("absent", &["a"])]);
        assert_eq!(
            Value::Object(settings),
            json!({ "reasoning": { "summary": "auto", "effort": "high" }, "x": 1 })
        );
    }

    #[test]
    fn keys_are_spelt_in_snake_case_and_values_are_not_touched() {
        let settings = map(
            json!({ "thinking": { "budgetTokens": 1, "type": "enabledNow" }, "top_k": 2, "aB": [{ "cD": 1 }] }),
        );
        assert_eq!(
            Value::Object(snake(settings)),
            json!({ "thinking": { "budget_tokens": 1, "type": "enabledNow" }, "top_k": 2, "a_b": [{ "c_d": 1 }] })
        );
    }
}
