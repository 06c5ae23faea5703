//! The JSON schema of a configuration.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::Config;

/// Returns the JSON schema (draft 2020-12) of a configuration file, for editors and for validation.
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let mut schema = generator.into_root_schema_for::<Config>().to_value();
    tidy(&mut schema);
    schema
}

/// Removes `null` from the derived schemas of optional fields. In a file, a field is absent or has a value; a
/// schema that allows `null` would hide a mistake.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            tidy_type(fields);
            tidy_choices(fields);
            // The derive only produces `null` and empty defaults, which carry no information.
            fields.remove("default");
            for (name, value) in fields {
                match (name.as_str(), value) {
                    // The keys of these maps are user-defined names, not schema keywords.
                    ("properties" | "$defs", Value::Object(named)) => named.values_mut().for_each(tidy),
                    (_, value) => tidy(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        _ => {}
    }
}

fn tidy_type(fields: &mut Map<String, Value>) {
    if let Some(Value::Array(kinds)) = fields.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [kind] = kinds.as_slice() {
            let kind = kind.clone();
            fields.insert("type".into(), kind);
        }
    }
}

fn tidy_choices(fields: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = fields.get_mut("anyOf") else { return };
    choices.retain(|choice| choice.get("type").is_none_or(|kind| kind != "null"));
    if let [Value::Object(only)] = choices.as_slice() {
        let only = only.clone();
        fields.remove("anyOf");
        for (name, value) in only {
            fields.entry(name).or_insert(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn unknown_keys_are_rejected_at_the_top_level_and_accepted_in_agents() {
        let schema = schema();
        assert_eq!(schema["additionalProperties"], false);
        assert_eq!(schema["$defs"]["AgentConfig"].get("additionalProperties"), None);
        assert_eq!(schema["$defs"]["ProviderOptions"]["additionalProperties"], true);
        assert_eq!(schema["$defs"]["CommandConfig"]["required"], serde_json::json!(["template"]));
    }

    /// The keys of OpenCode 1.18.33.
    const OPENCODE: &str = "$schema shell logLevel server command skills references reference watcher snapshot \
        plugin share autoshare autoupdate disabled_providers enabled_providers model small_model default_agent \
        subagent_depth username mode agent provider mcp formatter lsp instructions layout permission tools \
        attachment enterprise tool_output compaction experimental";

    /// Baton's own keys.
    const OWN: &str = "acp agents auto_commit budget channels continuation limits permission_final \
        sandbox sessions webfetch webhook";

    #[test]
    fn the_schema_has_exactly_the_keys_of_opencode_and_baton_and_describes_them() {
        let schema = schema();
        let properties = schema["properties"].as_object().expect("the configuration is an object");
        for (name, property) in properties {
            assert!(property["description"].is_string(), "{name}");
        }
        let known: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
        assert_eq!(known, OPENCODE.split_whitespace().chain(OWN.split_whitespace()).collect());
    }

    #[test]
    fn no_key_accepts_null() {
        assert!(!schema().to_string().contains("\"null\""));
    }
}
