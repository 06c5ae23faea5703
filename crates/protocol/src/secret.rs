//! Removes keys and tokens from answers to clients.
//!
//! OpenCode includes keys in the answers of `GET /provider` and `GET /config`. Baton builds these answers from the
//! same free-form maps, so serialisation applies the rule: an entry with a secret-like name does not leave the
//! server.

use serde::Serializer;
use serde_json::Value;

use crate::Extra;

/// Word endings that indicate a secret (`apiKey`, `OPENAI_API_KEY`, `apikey`; but not `maxTokens`).
const TELLTALES: &[&str] = &[
    "key",
    "keys",
    "token",
    "secret",
    "secrets",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "credentials",
    "authorization",
    "cookie",
    "bearer",
];

/// A map of environment variables. Any of them may be a secret, such as a URL with a password.
const OPAQUE: &str = "environment";

/// A map from patterns to `allow`, `ask` or `deny`. A pattern may look like a secret's name.
const HARMLESS: &str = "permission";

/// Returns true if text under this name must not reach clients.
pub fn is_secret(name: &str) -> bool {
    name == OPAQUE || words(name).any(|word| TELLTALES.iter().any(|telltale| word.ends_with(telltale)))
}

/// Splits a name in any common notation into lower-case words.
fn words(name: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || (letter.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = letter.is_lowercase();
        if let Some(word) = words.last_mut() {
            word.extend(letter.to_lowercase().filter(|letter| letter.is_alphanumeric()));
        }
    }
    words.into_iter()
}

/// Returns the value without the entries that hold secrets, at any depth.
pub fn without_secrets(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(visible(fields)),
        Value::Array(items) => items.iter().map(without_secrets).collect(),
        other => other.clone(),
    }
}

fn visible(fields: &Extra) -> Extra {
    let mut shown = Extra::new();
    for (name, value) in fields {
        if name == HARMLESS {
            shown.insert(name.clone(), value.clone());
        } else if !is_secret(name) || value.is_boolean() || value.is_number() {
            shown.insert(name.clone(), without_secrets(value));
        }
    }
    shown
}

/// For `#[serde(serialize_with = …)]` on maps that clients receive.
pub fn serialize<S: Serializer>(fields: &Extra, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(&visible(fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secret_like_names_are_recognized() {
        for name in ["key", "apiKey", "apikey", "APIKey", "OPENAI_API_KEY", "x-api-key", "Authorization"] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["sessionToken", "secretAccessKey", "clientSecret", "Set-Cookie", "environment"] {
            assert!(is_secret(name), "{name}");
        }
        for name in
            ["baseURL", "timeout", "keybinds", "maxTokens", "reasoningEffort", "anthropic-beta", "env"]
        {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn secrets_are_removed_at_any_depth() {
        let config =
            json!({ "mcp": [{ "headers": { "Authorization": "Bearer x", "Accept": "y" } }], "apiKey": "z" });
        assert_eq!(without_secrets(&config), json!({ "mcp": [{ "headers": { "Accept": "y" } }] }));
    }

    #[test]
    fn booleans_and_permission_rules_are_kept() {
        let config = json!({ "setCacheKey": true, "permission": { "read": { "*.key": "deny" } } });
        assert_eq!(without_secrets(&config), config);
    }
}
