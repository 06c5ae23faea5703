//! A provider's configuration as JSON that includes its secrets.
//!
//! [`ProviderConfig`] serialises without secrets, so that no route or log shows them. `llm` needs them to call the provider.

use protocol::config::{InterleavedConfig, ModelConfig, ProviderConfig};
use serde_json::{Map, Value, json};

/// Returns the entry as the user wrote it.
pub(crate) fn revealed(config: &ProviderConfig) -> Value {
    let mut entry = object(serde_json::to_value(config));
    let mut options = object(serde_json::to_value(&config.options));
    options.extend(config.options.other.0.clone());
    if let Some(key) = &config.options.api_key {
        options.insert("apiKey".to_owned(), key.reveal().into());
    }
    entry.insert("options".to_owned(), options.into());
    let models: Map<String, Value> =
        config.models.iter().map(|(id, config)| (id.clone(), model(config))).collect();
    entry.insert("models".to_owned(), models.into());
    entry.into()
}

fn model(config: &ModelConfig) -> Value {
    let mut entry = object(serde_json::to_value(config));
    entry.insert("options".to_owned(), config.options.0.clone().into());
    entry.insert("headers".to_owned(), json!(config.headers.0));
    let variants: Map<String, Value> =
        config.variants.iter().map(|(name, variant)| (name.clone(), variant.0.clone().into())).collect();
    entry.insert("variants".to_owned(), variants.into());
    if let Some(InterleavedConfig::Name(field)) = &config.interleaved {
        entry.insert("interleaved".to_owned(), json!({ "field": field }));
    }
    entry.into()
}

fn object(value: serde_json::Result<Value>) -> Map<String, Value> {
    match value {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configured_value_is_revealed() {
        let written = json!({
            "npm": "@ai-sdk/openai-compatible",
            "options": {
                "apiKey": "sk-1", "baseURL": "http://u:p@acme.test", "authToken": "t", "timeout": false,
                "headers": { "Authorization": "sk-2" },
            },
            "models": { "large": {
                "headers": { "x-api-key": "sk-3" }, "options": { "apiKey": "sk-4" },
                "variants": { "fast": { "token": "sk-5" } },
            } },
        });
        let config: ProviderConfig = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(revealed(&config), written);
    }
}
