//! Providers and their models, as clients see them: without keys.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{Extra, Rest, number::Number, secret};

/// A model provider. OpenCode sends the provider's `key` along. This type has no such field, and [`secret`] removes
/// secrets from the free-form ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Provider {
    pub id: String,
    /// Name that clients display.
    pub name: String,
    pub source: ProviderSource,
    /// Names of the environment variables that may hold the key.
    pub env: Vec<String>,
    /// Settings. Those with secret-like names are not sent to clients.
    #[serde(default, serialize_with = "secret::serialize")]
    pub options: Extra,
    pub models: BTreeMap<String, Model>,
    /// Fields that this version does not know. Those with secret-like names are not sent to clients.
    #[serde(flatten, serialize_with = "secret::serialize")]
    pub extra: Extra,
}

/// Source of a provider's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderSource {
    /// An environment variable with a key.
    Env,
    /// A configuration file.
    Config,
    /// Built in, or from a plugin.
    Custom,
    /// A stored key or login.
    Api,
}

/// A model of a provider.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// Id within the provider.
    pub id: String,
    #[serde(rename = "providerID")]
    pub provider_id: String,
    pub api: ModelApi,
    /// Name that clients display.
    pub name: String,
    /// Model family, for icons and prompts.
    pub family: Option<String>,
    pub capabilities: Capabilities,
    /// Price per million tokens.
    pub cost: ModelCost,
    /// Context and output limits in tokens.
    pub limit: ModelLimit,
    pub status: ModelStatus,
    /// Settings. Those with secret-like names are not sent to clients.
    #[serde(default, serialize_with = "secret::serialize")]
    pub options: Extra,
    /// HTTP headers of requests. Those with secret-like names are not sent to clients.
    #[serde(default, serialize_with = "secret::serialize")]
    pub headers: Extra,
    /// Date as `2026-08-14`, or empty.
    pub release_date: String,
    /// Named sets of settings that users can select, such as reasoning efforts.
    pub variants: Option<BTreeMap<String, Extra>>,
    #[serde(flatten, serialize_with = "secret::serialize")]
    pub extra: Extra,
}

/// API of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelApi {
    /// Name of the model in the provider's API.
    pub id: String,
    /// Base URL of the API.
    pub url: String,
    /// Package with which OpenCode calls the model. It determines the dialect.
    pub npm: String,
    #[serde(flatten)]
    pub extra: Rest,
}

/// Capabilities of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the wire's shape")]
pub struct Capabilities {
    /// True if the temperature can be set.
    pub temperature: bool,
    /// True if the model produces reasoning.
    pub reasoning: bool,
    /// True if the model accepts attachments.
    pub attachment: bool,
    /// True if the model calls tools.
    pub toolcall: bool,
    /// Accepted content types.
    pub input: Modalities,
    /// Produced content types.
    pub output: Modalities,
    /// Reasoning between tool calls.
    pub interleaved: Interleaved,
    #[serde(flatten)]
    pub extra: Rest,
}

/// Content types that a model accepts or produces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the wire's shape")]
pub struct Modalities {
    pub text: bool,
    pub audio: bool,
    pub image: bool,
    pub video: bool,
    pub pdf: bool,
    #[serde(flatten)]
    pub extra: Rest,
}

impl Modalities {
    /// Returns modalities with text only.
    pub fn text() -> Self {
        Self { text: true, ..Self::default() }
    }
}

/// Reasoning between tool calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Interleaved {
    /// Supported or not.
    Plain(bool),
    /// Supported; requests must return the reasoning in the field of this name.
    Field {
        field: String,
        #[serde(flatten)]
        extra: Rest,
    },
}

impl Default for Interleaved {
    fn default() -> Self {
        Self::Plain(false)
    }
}

/// Price per million tokens.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCost {
    pub input: Number,
    pub output: Number,
    pub cache: CacheCost,
    /// Prices for larger contexts.
    pub tiers: Option<Vec<CostTier>>,
    /// Price for prompts of more than 200,000 tokens.
    #[serde(rename = "experimentalOver200K")]
    pub over_200k: Option<Box<ModelCost>>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// Price per million cached tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheCost {
    pub read: Number,
    pub write: Number,
    #[serde(flatten)]
    pub extra: Rest,
}

/// Prices above a context size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CostTier {
    pub input: Number,
    pub output: Number,
    pub cache: CacheCost,
    pub tier: TierBound,
    #[serde(flatten)]
    pub extra: Rest,
}

/// Lower bound of a price tier.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TierBound {
    /// Always `context`.
    pub r#type: String,
    /// Context size in tokens.
    pub size: Number,
    #[serde(flatten)]
    pub extra: Rest,
}

/// Context and output limits in tokens.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelLimit {
    /// Limit for prompt and answer together; 0 if unknown.
    pub context: u64,
    /// Limit for the prompt alone, if it has one.
    pub input: Option<u64>,
    /// Limit for the answer; 0 if unknown.
    pub output: u64,
    #[serde(flatten)]
    pub extra: Rest,
}

/// Release status of a model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelStatus {
    Alpha,
    Beta,
    Deprecated,
    #[default]
    Active,
}

/// The answer of `GET /config/providers`: the providers with a usable credential.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfiguredProviders {
    pub providers: Vec<Provider>,
    /// Default model by provider.
    pub default: BTreeMap<String, String>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// The answer of `GET /provider`: all known providers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AllProviders {
    pub all: Vec<Provider>,
    /// Default model by provider.
    pub default: BTreeMap<String, String>,
    /// Ids of the providers with a usable credential.
    pub connected: Vec<String>,
    #[serde(flatten)]
    pub extra: Rest,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn wire() -> Value {
        json!({
            "id": "acme", "name": "Acme", "source": "env", "env": ["ACME_API_KEY"],
            "options": { "baseURL": "https://acme.test" },
            "models": { "large": {
                "id": "large", "providerID": "acme", "name": "Large", "family": "acme",
                "api": { "id": "large-1", "url": "https://acme.test", "npm": "@ai-sdk/openai-compatible" },
                "capabilities": {
                    "temperature": true, "reasoning": true, "attachment": false, "toolcall": true,
                    "input": { "text": true, "audio": false, "image": true, "video": false, "pdf": false },
                    "output": { "text": true, "audio": false, "image": false, "video": false, "pdf": false },
                    "interleaved": { "field": "reasoning_content" },
                },
                "cost": {
                    "input": 3, "output": 15.5, "cache": { "read": 0.3, "write": 3.75 },
                    "tiers": [{
                        "input": 6, "output": 22.5, "cache": { "read": 0.6, "write": 7.5 },
                        "tier": { "type": "context", "size": 200_000 },
                    }],
                    "experimentalOver200K": { "input": 6, "output": 22.5, "cache": { "read": 0.6, "write": 7.5 } },
                },
                "limit": { "context": 200_000, "output": 64_000 },
                "status": "active", "options": {}, "headers": { "x-feature": "on" },
                "release_date": "2026-01-01", "variants": { "high": { "reasoningEffort": "high" } },
                "xNew": 1,
            } },
            "xNew": [2],
        })
    }

    #[test]
    fn a_provider_survives_a_round_trip() {
        let provider: Provider = serde_json::from_value(wire()).unwrap();
        assert_eq!(serde_json::to_value(&provider).unwrap(), wire());
    }

    #[test]
    fn a_serialized_provider_contains_no_key() {
        let mut leaky = wire();
        leaky["key"] = "sk-1".into();
        leaky["options"]["apiKey"] = "sk-2".into();
        leaky["options"]["headers"] = json!({ "Authorization": "Bearer sk-3" });
        leaky["models"]["large"]["headers"]["x-api-key"] = "sk-4".into();
        leaky["models"]["large"]["options"]["credentials"] = json!({ "secret": "sk-5" });
        let provider: Provider = serde_json::from_value(leaky).unwrap();
        let sent = serde_json::to_string(&provider).unwrap();
        assert!(!sent.contains("sk-"), "{sent}");
    }
}
