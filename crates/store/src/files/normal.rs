//! Converts old and short forms of a configuration to the current ones.
//!
//! Each layer is converted before it is merged, so that a short form in one file and a long form in another
//! combine: `"permission": "ask"` below `"permission": { "edit": "allow" }` gives a rule for everything and one for
//! editing. [`finish`] does the conversions that OpenCode does only after merging.

use std::path::Path;

use protocol::request::Action;
use serde_json::{Map, Value, json};

use super::{Environment, merge::merge_value, permission, plugin};

/// Keys of an agent that are not options for its model.
const AGENT_KEYS: [&str; 12] = [
    "model",
    "variant",
    "temperature",
    "top_p",
    "prompt",
    "description",
    "mode",
    "hidden",
    "disable",
    "color",
    "steps",
    "permission",
];

/// Keys of OpenCode's terminal interface.
const TERMINAL_KEYS: [&str; 3] = ["theme", "keybinds", "tui"];

/// Converts one layer. Paths in it are relative to `from`.
pub(super) fn layer(layer: &mut Map<String, Value>, environment: &Environment, from: &Path) {
    for key in TERMINAL_KEYS {
        layer.remove(key);
    }
    for key in ["permission", "permission_final"] {
        if let Some(written) = layer.get_mut(key) {
            full_permission(written);
        }
    }
    for key in ["agent", "mode"] {
        let agents = layer.get_mut(key).and_then(Value::as_object_mut);
        agents.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut).for_each(agent);
    }
    if let Some(references) = layer.remove("reference") {
        merge_value(layer.entry("references").or_insert_with(|| json!({})), references);
    }
    if let Some(plugins) = layer.get_mut("plugin") {
        plugin::resolve(plugins, environment, from);
    }
}

/// Converts one agent: old switches become permissions, `maxSteps` becomes `steps`, and unknown keys become options
/// for its model.
pub(super) fn agent(agent: &mut Map<String, Value>) {
    agent.remove("name");
    let mut allowed = switches(agent.remove("tools"));
    if let Some(mut written) = agent.remove("permission") {
        full_permission(&mut written);
        if let Value::Object(written) = written {
            allowed.extend(written);
        }
    }
    if let Some(steps) = agent.remove("maxSteps") {
        agent.entry("steps").or_insert(steps);
    }
    let mut options = match agent.remove("options") {
        Some(Value::Object(options)) => options,
        _ => Map::new(),
    };
    let others: Vec<String> =
        agent.keys().filter(|key| !AGENT_KEYS.contains(&key.as_str())).cloned().collect();
    for key in others {
        if let Some(value) = agent.remove(&key) {
            options.insert(key, value);
        }
    }
    if !options.is_empty() {
        agent.insert("options".into(), Value::Object(options));
    }
    if !allowed.is_empty() {
        agent.insert("permission".into(), Value::Object(allowed));
    }
}

/// Converts the merged configuration.
pub(super) fn finish(config: &mut Map<String, Value>, environment: &Environment) {
    if let Some(Value::Object(modes)) = config.remove("mode") {
        let agents = config.entry("agent").or_insert_with(|| json!({}));
        for (name, mut mode) in modes {
            merge_value(&mut mode, json!({ "mode": "primary" }));
            merge_value(agents, json!({ name: mode }));
        }
    }
    let mut allowed = Value::Object(switches(config.remove("tools")));
    if allowed != json!({}) {
        // `permission` is the newer form, so it overrides `tools`.
        if let Some(written) = config.remove("permission") {
            merge_value(&mut allowed, written);
        }
        config.insert("permission".into(), allowed);
    }
    if config.remove("autoshare") == Some(Value::Bool(true)) {
        config.entry("share").or_insert_with(|| "auto".into());
    }
    let user = environment.text("USER").or_else(|| environment.text("LOGNAME"));
    if let Some(user) = user {
        config.entry("username").or_insert_with(|| user.into());
    }
    for (variable, key) in [("OPENCODE_DISABLE_AUTOCOMPACT", "auto"), ("OPENCODE_DISABLE_PRUNE", "prune")] {
        if environment.is_on(variable) {
            let compaction = config.entry("compaction").or_insert_with(|| json!({}));
            merge_value(compaction, json!({ key: false }));
        }
    }
}

/// A single action applies to everything.
pub(super) fn full_permission(written: &mut Value) {
    if written.is_string() {
        *written = json!({ "*": written.take() });
    }
}

/// Converts old switches of tools to permissions.
fn switches(tools: Option<Value>) -> Map<String, Value> {
    let tools = match tools {
        Some(Value::Object(tools)) => tools,
        _ => Map::new(),
    };
    let permission = |(tool, on): (String, Value)| {
        let action = match permission::switched(on.as_bool().unwrap_or_default()) {
            Action::Allow => "allow",
            Action::Deny => "deny",
            Action::Ask => "ask",
        };
        (permission::permission_of(&tool).to_owned(), Value::from(action))
    };
    tools.into_iter().map(permission).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turned(written: Value) -> Value {
        let Value::Object(mut map) = written else { panic!("a map") };
        layer(&mut map, &Environment::default(), Path::new("/p"));
        Value::Object(map)
    }

    fn finished(written: Value, variables: &[(&str, &str)]) -> Value {
        let Value::Object(mut map) = written else { panic!("a map") };
        finish(&mut map, &Environment::of(variables.iter().copied()));
        Value::Object(map)
    }

    #[test]
    fn short_and_old_forms_of_a_layer_become_long() {
        let cases = [
            (json!({ "permission": "ask" }), json!({ "permission": { "*": "ask" } })),
            (json!({ "theme": "x", "keybinds": {}, "tui": {}, "model": "m" }), json!({ "model": "m" })),
            (
                json!({ "reference": { "a": "1", "b": "1" }, "references": { "c": "3" } }),
                json!({ "references": { "c": "3", "a": "1", "b": "1" } }),
            ),
            (json!({ "plugin": ["./a.ts"] }), json!({ "plugin": ["file:///p/a.ts"] })),
            (
                json!({ "agent": { "a": { "tools": { "bash": false, "write": true }, "permission": { "edit": "ask" } } } }),
                json!({ "agent": { "a": { "permission": { "bash": "deny", "edit": "ask" } } } }),
            ),
            (
                json!({ "agent": { "a": { "maxSteps": 3 }, "b": { "maxSteps": 3, "steps": 4 } } }),
                json!({ "agent": { "a": { "steps": 3 }, "b": { "steps": 4 } } }),
            ),
            (
                json!({ "mode": { "a": { "effort": "high", "options": { "effort": "low", "x": 1 }, "name": "A" } } }),
                json!({ "mode": { "a": { "options": { "effort": "high", "x": 1 } } } }),
            ),
        ];
        for (written, expected) in cases {
            assert_eq!(turned(written).to_string(), expected.to_string());
        }
    }

    #[test]
    fn the_merged_configuration_is_converted() {
        let none: &[(&str, &str)] = &[];
        let cases = [
            (
                json!({ "agent": { "a": { "prompt": "x" } }, "mode": { "a": { "mode": "all" }, "b": {} } }),
                none,
                json!({ "agent": { "a": { "prompt": "x", "mode": "primary" }, "b": { "mode": "primary" } } }),
            ),
            (
                json!({ "tools": { "bash": false, "patch": false }, "permission": { "edit": "allow", "read": "ask" } }),
                none,
                json!({ "permission": { "bash": "deny", "edit": "allow", "read": "ask" } }),
            ),
            (json!({ "autoshare": true }), none, json!({ "share": "auto" })),
            (json!({ "autoshare": true, "share": "disabled" }), none, json!({ "share": "disabled" })),
            (json!({}), &[("USER", "ada")], json!({ "username": "ada" })),
            (
                json!({ "compaction": { "auto": true, "reserved": 5 } }),
                &[("OPENCODE_DISABLE_AUTOCOMPACT", "1"), ("OPENCODE_DISABLE_PRUNE", "true")],
                json!({ "compaction": { "auto": false, "reserved": 5, "prune": false } }),
            ),
        ];
        for (written, variables, expected) in cases {
            assert_eq!(finished(written, variables), expected);
        }
    }
}
