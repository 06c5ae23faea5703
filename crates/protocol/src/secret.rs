//! Keeps keys and tokens out of what clients are sent.
//!
//! OpenCode answers `GET /provider` and `GET /config` with the keys in them. Baton's answers are built from
//! the same free-form maps, so the rule sits where they are written: an entry whose name says that it holds
//! a secret does not leave the server, whoever put it there.

use serde::Serializer;
use serde_json::Value;

use crate::Extra;

/// Ends of words that give a secret away (`apiKey`, `OPENAI_API_KEY`, `apikey`; but not `maxTokens`).
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

/// Holds whatever a person needs a program to know, often an address with a password in it.
const OPAQUE: &str = "environment";

/// Holds patterns as names and `allow`, `ask` or `deny` as values.
const HARMLESS: &str = "permission";

/// Whether text under this name is kept from clients.
pub fn is_secret(name: &str) -> bool {
    name == OPAQUE || words(name).any(|word| TELLTALES.iter().any(|telltale| word.ends_with(telltale)))
}

/// The words of a name in any of the usual spellings, in lower case.
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

/// The same value without the entries that hold secrets, at any depth.
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

/// For `#[serde(serialize_with = …)]` on maps that clients are sent.
pub fn serialize<S: Serializer>(fields: &Extra, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(&visible(fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_that_hold_secrets_are_known() {
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
    fn secrets_are_dropped_at_any_depth() {
        let config =
            json!({ "mcp": [{ "headers": { "Authorization": "Bearer x", "Accept": "y" } }], "apiKey": "z" });
        assert_eq!(without_secrets(&config), json!({ "mcp": [{ "headers": { "Accept": "y" } }] }));
    }

    #[test]
    fn switches_and_rules_are_no_secrets() {
        let config = json!({ "setCacheKey": true, "permission": { "read": { "*.key": "deny" } } });
        assert_eq!(without_secrets(&config), config);
    }
}
