//! Applies the changes that plugins make to a configuration.
//!
//! Plugins receive a configuration without its secrets and change that. So their result does not replace the
//! configuration; instead, the difference is applied to the configuration as it was read.

use std::fmt;

use protocol::config::Config;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Environment, Loaded, normal, redact::redacted};

/// The merged JSON that a configuration was read from, including its secrets.
#[derive(Clone, Default, PartialEq)]
pub struct Raw(pub(super) Map<String, Value>);

impl fmt::Debug for Raw {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Raw(…)")
    }
}

/// The configuration for plugins. OpenCode's plugins rely on the presence of some keys.
pub fn shown(config: &Config) -> Value {
    let mut shown = redacted(config);
    if let Value::Object(shown) = &mut shown {
        for (key, nothing) in
            [("agent", json!({})), ("mode", json!({})), ("command", json!({})), ("plugin", json!([]))]
        {
            shown.entry(key).or_insert(nothing);
        }
    }
    shown
}

/// Applies the changes that plugins made to [`shown`]. Also returns the keys whose changes are invalid.
pub fn amend(loaded: &Loaded, environment: &Environment, changed: &Value) -> (Config, Vec<String>) {
    let before = shown(&loaded.config);
    let mut raw = Value::Object(loaded.raw.0.clone());
    apply(&mut raw, &before, changed);
    let Value::Object(mut whole) = raw else { return (loaded.config.clone(), Vec::new()) };
    tidy(&mut whole, environment);
    if let Ok(config) = Config::deserialize(Value::Object(whole.clone())) {
        return (config, Vec::new());
    }
    // One invalid change must not discard the others.
    let (mut kept, mut wrong) = (loaded.raw.0.clone(), Vec::new());
    let keys: Vec<String> = kept.keys().chain(whole.keys()).cloned().collect();
    for key in keys {
        if kept.get(&key) == whole.get(&key) {
            continue;
        }
        let mut attempt = kept.clone();
        match whole.get(&key) {
            Some(value) => drop(attempt.insert(key.clone(), value.clone())),
            None => drop(attempt.remove(&key)),
        }
        match Config::deserialize(Value::Object(attempt.clone())) {
            Ok(_) => kept = attempt,
            // Serde's message is left out, because it might repeat a secret.
            Err(_) => wrong.push(key),
        }
    }
    let config = Config::deserialize(Value::Object(kept)).unwrap_or_else(|_| loaded.config.clone());
    (config, wrong)
}

/// Applies the difference between two values to a third.
fn apply(target: &mut Value, before: &Value, after: &Value) {
    if before == after {
        return;
    }
    match (target, before, after) {
        (Value::Object(target), Value::Object(before), Value::Object(after)) => {
            target.retain(|name, _| !before.contains_key(name) || after.contains_key(name));
            for (name, value) in after {
                let nothing = if value.is_object() { json!({}) } else { Value::Null };
                match (target.get_mut(name), before.get(name)) {
                    (_, Some(same)) if same == value => {}
                    (Some(target), Some(before)) => apply(target, before, value),
                    (Some(target), None) => apply(target, &nothing, value),
                    (None, _) => drop(target.insert(name.clone(), value.clone())),
                }
            }
        }
        (target, _, after) => *target = after.clone(),
    }
}

/// Converts old and short forms that plugins may have added.
fn tidy(whole: &mut Map<String, Value>, environment: &Environment) {
    normal::layer(whole, environment, &environment.config_dir().unwrap_or_default());
    normal::finish(whole, environment);
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::config::Secret;

    fn loaded(raw: &Value) -> Loaded {
        let Value::Object(map) = raw.clone() else { panic!("a map") };
        Loaded { config: serde_json::from_value(raw.clone()).unwrap(), raw: Raw(map), ..Loaded::default() }
    }

    #[test]
    fn changes_of_plugins_apply_and_hidden_secrets_stay() {
        let before = loaded(&json!({
            "model": "a/b",
            "username": "ada",
            "provider": { "p": { "options": { "apiKey": "secret", "baseURL": "http://x" } } }
        }));
        let mut changed = shown(&before.config);
        assert!(!changed.to_string().contains("secret"));
        assert_eq!(changed["agent"], json!({}), "plugins count on it");
        changed["agent"]["helper"] = json!({ "prompt": "help", "tools": { "bash": false }, "maxTokens": 5 });
        changed["provider"]["p"]["options"]["baseURL"] = json!("http://y");
        changed.as_object_mut().unwrap().remove("username");
        let (config, wrong) = amend(&before, &Environment::default(), &changed);
        assert_eq!(wrong, Vec::<String>::new());
        assert_eq!(config.agent["helper"].prompt.as_deref(), Some("help"));
        assert_eq!(config.username, None);
        let options = &config.provider["p"].options;
        assert_eq!(serde_json::to_value(options).unwrap()["baseURL"], "http://y");
        assert!(format!("{:?}", before.raw).len() < 10);
        assert_eq!(options.api_key.as_ref().map(Secret::reveal), Some("secret"));
    }

    #[test]
    fn an_invalid_change_is_left_out_and_named() {
        let before = loaded(&json!({ "model": "a/b" }));
        let mut changed = shown(&before.config);
        changed["model"] = json!("c/d");
        changed["snapshot"] = json!("perhaps");
        let (config, wrong) = amend(&before, &Environment::default(), &changed);
        assert_eq!(config.model.as_deref(), Some("c/d"));
        assert_eq!((config.snapshot, wrong), (None, vec!["snapshot".to_owned()]));
    }

    #[test]
    fn an_unchanged_value_causes_no_change() {
        let before =
            loaded(&json!({ "model": "a/b", "mcp": { "m": { "type": "local", "command": ["x"] } } }));
        let (config, wrong) = amend(&before, &Environment::default(), &shown(&before.config));
        assert_eq!((config, wrong), (before.config.clone(), Vec::new()));
    }
}
