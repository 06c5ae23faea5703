//! Providers and their models, as clients see them: everything but the keys.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Extra, Rest, number::Number, secret};

/// Somebody who runs models. OpenCode sends the provider's `key` along; here it has no field, and
/// [`secret`] keeps it out of the free-form ones.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Provider {
    /// Its id.
    pub id: String,
    /// Shown name.
    pub name: String,
    /// How it came to be known.
    pub source: ProviderSource,
    /// Names of the environment variables that may hold its key.
    pub env: Vec<String>,
    /// Settings; secrets are left out when they are sent.
    #[serde(default, serialize_with = "secret::serialize")]
    pub options: Extra,
    /// Its models, by id.
    pub models: BTreeMap<String, Model>,
    /// Fields this version does not know; secrets are left out when they are sent.
    #[serde(flatten, serialize_with = "secret::serialize")]
    pub extra: Extra,
}

/// How a provider came to be known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderSource {
    /// A key in the environment.
    Env,
    /// A configuration file.
    Config,
    /// Built in, or a plugin's.
    Custom,
    /// A stored key or login.
    Api,
}

/// A model of a provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// Its id within the provider.
    pub id: String,
    /// The provider.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// How it is called.
    pub api: ModelApi,
    /// Shown name.
    pub name: String,
    /// Kinship, for icons and prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// What it can do.
    pub capabilities: Capabilities,
    /// What it costs.
    pub cost: ModelCost,
    /// How much fits.
    pub limit: ModelLimit,
    /// Whether it is here to stay.
    pub status: ModelStatus,
    /// Settings; secrets are left out when they are sent.
    #[serde(default, serialize_with = "secret::serialize")]
    pub options: Extra,
    /// Headers of its calls; secrets are left out when they are sent.
    #[serde(default, serialize_with = "secret::serialize")]
    pub headers: Extra,
    /// `2026-08-14`, or empty.
    pub release_date: String,
    /// Named settings to choose from, such as efforts of reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variants: Option<BTreeMap<String, Extra>>,
    /// Fields this version does not know.
    #[serde(flatten, serialize_with = "secret::serialize")]
    pub extra: Extra,
}

/// How a model is called.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelApi {
    /// The name the provider's API knows it by.
    pub id: String,
    /// Base address.
    pub url: String,
    /// The package OpenCode would call it with; tells the dialect.
    pub npm: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// What a model can do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the wire's shape")]
pub struct Capabilities {
    /// Its temperature can be set.
    pub temperature: bool,
    /// It thinks.
    pub reasoning: bool,
    /// It takes attachments.
    pub attachment: bool,
    /// It calls tools.
    pub toolcall: bool,
    /// What it takes.
    pub input: Modalities,
    /// What it gives.
    pub output: Modalities,
    /// Whether it thinks between tool calls.
    pub interleaved: Interleaved,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// Kinds of content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the wire's shape")]
pub struct Modalities {
    /// Words.
    pub text: bool,
    /// Sound.
    pub audio: bool,
    /// Pictures.
    pub image: bool,
    /// Films.
    pub video: bool,
    /// Documents.
    pub pdf: bool,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

impl Modalities {
    /// Words and nothing else.
    pub fn text() -> Self {
        Self { text: true, ..Self::default() }
    }
}

/// Whether a model thinks between tool calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Interleaved {
    /// Plainly.
    Plain(bool),
    /// Its thinking has to be sent back in a field of this name.
    Field {
        /// The name.
        field: String,
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: Rest,
    },
}

impl Default for Interleaved {
    fn default() -> Self {
        Self::Plain(false)
    }
}

/// Price of a million tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelCost {
    /// Prompt.
    pub input: Number,
    /// Answer.
    pub output: Number,
    /// Cache.
    pub cache: CacheCost,
    /// Other prices for larger contexts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tiers: Option<Vec<CostTier>>,
    /// Another price for prompts of more than 200,000 tokens.
    #[serde(rename = "experimentalOver200K", default, skip_serializing_if = "Option::is_none")]
    pub over_200k: Option<Box<ModelCost>>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// Price of a million cached tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheCost {
    /// Read.
    pub read: Number,
    /// Written.
    pub write: Number,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// Prices above a size of context.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CostTier {
    /// Prompt.
    pub input: Number,
    /// Answer.
    pub output: Number,
    /// Cache.
    pub cache: CacheCost,
    /// Above which size.
    pub tier: TierBound,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// Where a price begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TierBound {
    /// `context`.
    pub r#type: String,
    /// Tokens.
    pub size: Number,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// How much fits, in tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelLimit {
    /// Prompt and answer together; 0 if unknown.
    pub context: u64,
    /// Prompt alone, where that has a limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Answer; 0 if unknown.
    pub output: u64,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// Whether a model is here to stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ModelStatus {
    /// Fresh.
    Alpha,
    /// Nearly there.
    Beta,
    /// Going.
    Deprecated,
    /// Here.
    #[default]
    Active,
}

/// The answer of `GET /config/providers`: what can be used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfiguredProviders {
    /// Providers that can be used.
    pub providers: Vec<Provider>,
    /// The model to use first, by provider.
    pub default: BTreeMap<String, String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// The answer of `GET /provider`: what there is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AllProviders {
    /// Every known provider.
    pub all: Vec<Provider>,
    /// The model to use first, by provider.
    pub default: BTreeMap<String, String>,
    /// Ids of the providers that can be used.
    pub connected: Vec<String>,
    /// Fields this version does not know.
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
    fn a_provider_comes_back_the_same() {
        let provider: Provider = serde_json::from_value(wire()).unwrap();
        assert_eq!(serde_json::to_value(&provider).unwrap(), wire());
    }

    #[test]
    fn no_key_leaves_in_a_provider() {
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
