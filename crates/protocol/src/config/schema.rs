//! The JSON schema of a configuration.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::Config;

/// The JSON schema (draft 2020-12) of a configuration file, for editors and for whoever reads one.
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let mut schema = generator.into_root_schema_for::<Config>().to_value();
    tidy(&mut schema);
    schema
}

/// Takes out what derived schemas say about absent fields. In a file a field is absent or has a value; `null`
/// is a mistake, and so a schema that allows it would hide one.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            tidy_type(fields);
            tidy_choices(fields);
            // Only `null` and what is empty come out of the derive; they tell a reader nothing.
            fields.remove("default");
            for (name, value) in fields {
                match (name.as_str(), value) {
                    // Here the names are not the schema's own.
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
    fn unknown_keys_are_refused_at_the_top_and_taken_inside_agents() {
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
        sandbox webfetch webhook";

    #[test]
    fn every_key_of_opencode_and_none_but_our_own_besides_is_known_and_described() {
        let schema = schema();
        let properties = schema["properties"].as_object().expect("the configuration is an object");
        for (name, property) in properties {
            assert!(property["description"].is_string(), "{name}");
        }
        let known: BTreeSet<&str> = properties.keys().map(String::as_str).collect();
        assert_eq!(known, OPENCODE.split_whitespace().chain(OWN.split_whitespace()).collect());
    }

    #[test]
    fn nothing_may_be_null() {
        assert!(!schema().to_string().contains("\"null\""));
    }
}
