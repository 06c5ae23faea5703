//! What a server says about itself: its configuration and its health.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Extra, Rest, secret};

/// The answer of `GET /config`: the merged configuration as clients may see it. Only what Baton itself acts
/// on is named here; the rest of OpenCode's many keys pass through `extra`, secrets excepted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Config {
    /// The model to use when nothing else says so, as `provider/model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model for titles and other small jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub small_model: Option<String>,
    /// The agent to use when nothing else says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_agent: Option<String>,
    /// All other keys; secrets are left out when they are sent.
    #[serde(flatten, serialize_with = "secret::serialize")]
    pub extra: Extra,
}

/// The answer of `GET /global/health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// It answers, so it is.
    pub healthy: bool,
    /// Version of the server.
    pub version: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_configuration_passes_through_without_its_secrets() {
        let config: Config = serde_json::from_value(json!({
            "model": "acme/large", "username": "ada",
            "provider": { "acme": { "options": { "apiKey": "sk-1", "baseURL": "https://acme.test" } } },
            "mcp": { "db": { "type": "local", "environment": { "URL": "postgres://u:sk-2@db" } } },
        }))
        .unwrap();
        assert_eq!(
            serde_json::to_value(config).unwrap(),
            json!({
                "model": "acme/large", "username": "ada",
                "provider": { "acme": { "options": { "baseURL": "https://acme.test" } } },
                "mcp": { "db": { "type": "local" } },
            })
        );
    }
}
