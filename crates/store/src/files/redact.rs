//! Removes secrets from a configuration before clients see it.
//!
//! [`Config`] leaves out fields that are secret by type or name. This module also removes secrets inside other
//! texts: passwords and tokens in addresses, and in the arguments of programs.

use protocol::{config::Config, secret::is_secret};
use serde_json::Value;

/// Replaces a secret.
const HIDDEN: &str = "…";

/// The public form of a configuration, for `GET /config`.
pub fn redacted(config: &Config) -> Value {
    let mut shown = serde_json::to_value(config).unwrap_or_default();
    hide(&mut shown);
    shown
}

fn hide(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(shown) = address(text) {
                *text = shown;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(hide),
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::Array(words) if name == "command" => arguments(words),
                    _ => {}
                }
                hide(field);
            }
        }
        _ => {}
    }
}

/// An address without its password or token; `None` if it has neither.
fn address(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    if scheme.is_empty()
        || !scheme.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
    {
        return None;
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at_checked(end)?;
    let bare = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let (before, query) = path.split_once('?').unwrap_or((path, ""));
    let shown: Vec<String> = query.split('&').map(parameter).collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", shown.join("&")) };
    let shown = format!("{scheme}://{bare}{before}{query}");
    (shown != text).then_some(shown)
}

fn parameter(pair: &str) -> String {
    match pair.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}={HIDDEN}"),
        _ => pair.to_owned(),
    }
}

/// Removes the values of options like `--api-key`.
fn arguments(words: &mut [Value]) {
    let mut follows = false;
    for word in words {
        let Some(text) = word.as_str() else { continue };
        let option = text.starts_with('-') || text.contains('=');
        let name = text.split('=').next().unwrap_or_default();
        let secret = option && is_secret(name);
        if follows && !text.starts_with('-') {
            *word = HIDDEN.into();
            follows = false;
        } else if secret && text.contains('=') {
            *word = format!("{name}={HIDDEN}").into();
        } else {
            follows = secret;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_redacted_configuration_is_valid_again() {
        let config: Config = serde_json::from_value(json!({
            "provider": { "a": { "options": { "apiKey": "sk-1", "timeout": false, "x": { "token": "sk-2" } } } },
            "mcp": { "a": { "type": "remote", "url": "https://u:p@a.test", "oauth": { "clientSecret": "sk-3" } } },
            "plugin": [["a", { "token": "sk-4" }]],
        }))
        .unwrap();
        let shown = redacted(&config);
        let again: Config = serde_json::from_value(shown.clone()).unwrap();
        assert_eq!(redacted(&again), shown);
    }

    #[test]
    fn no_secret_is_left() {
        let config: Config = serde_json::from_value(json!({
            "model": "acme/large",
            "agent": { "token": { "prompt": "see https://docs.test/a?b=c", "options": { "apiKey": "sk-0", "n": 1 } } },
            "provider": { "secret": {
                "api": "https://user:sk-1@acme.test/v1",
                "options": { "apiKey": "sk-2", "baseURL": "https://acme.test?api_key=sk-3&x=1", "region": "eu",
                             "headers": { "Authorization": "sk-4", "x-team": "a" } },
                "models": { "key": { "headers": { "x-api-key": "sk-5" }, "options": { "secretKey": "sk-6" } } },
            } },
            "mcp": {
                "db": { "type": "local", "environment": { "URL": "sk-7" },
                        "command": ["db", "--token", "sk-8", "--api-key=sk-9", "-v", "PASSWORD=sk-10", "--key", "--x", "y"] },
                "web": { "type": "remote", "url": "https://mcp.test/?token=sk-11", "headers": { "Cookie": "sk-12" },
                         "oauth": { "clientId": "me", "clientSecret": "sk-13" } },
            },
            "plugin": [["git+https://sk-14@git.test/p.git", { "token": "sk-15", "level": 2 }]],
            "lsp": { "x": { "command": ["x"], "env": { "A": "sk-16" } } },
            "permission": { "read": { "*.key": "deny" } },
        }))
        .unwrap();
        let shown = redacted(&config);
        assert!(!shown.to_string().contains("sk-"), "{shown}");
        assert!(!format!("{config:?}").contains("sk-2"), "{config:?}");
        assert_eq!(
            shown,
            json!({
                "model": "acme/large",
                "agent": { "token": { "prompt": "see https://docs.test/a?b=c", "options": { "n": 1 } } },
                "provider": { "secret": {
                    "api": "https://acme.test/v1",
                    "options": { "baseURL": "https://acme.test?api_key=…&x=1", "region": "eu", "headers": { "x-team": "a" } },
                    "models": { "key": { "headers": {}, "options": {} } },
                } },
                "mcp": {
                    "db": { "type": "local",
                            "command": ["db", "--token", "…", "--api-key=…", "-v", "PASSWORD=…", "--key", "--x", "y"] },
                    "web": { "type": "remote", "url": "https://mcp.test/?token=…", "headers": {}, "oauth": { "clientId": "me" } },
                },
                "plugin": [["git+https://git.test/p.git", { "level": 2 }]],
                "lsp": { "x": { "command": ["x"] } },
                "permission": { "read": { "*.key": "deny" } },
            })
        );
    }
}
