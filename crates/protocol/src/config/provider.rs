//! Configuration of providers and models: new ones, or changes to those of the catalogue.

use std::{collections::BTreeMap, num::NonZeroU64};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use super::{False, Headers, Secret, Settings};
use crate::{number::Number, provider::ModelStatus};

/// A model provider.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ProviderConfig {
    /// Id, if it differs from the key.
    pub id: Option<String>,
    /// Name that clients display.
    pub name: Option<String>,
    /// Base URL of the API.
    pub api: Option<String>,
    /// Package with which OpenCode calls the provider. It determines the dialect.
    pub npm: Option<String>,
    /// Names of the environment variables that may hold the key.
    pub env: Option<Vec<String>>,
    /// Models to offer; all others are hidden.
    pub whitelist: Option<Vec<String>>,
    /// Models to hide.
    pub blacklist: Option<Vec<String>>,
    /// Connection settings.
    #[serde(default, skip_serializing_if = "ProviderOptions::is_empty")]
    pub options: ProviderOptions,
    /// Additional or changed models, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelConfig>,
}

/// Connection settings of a provider. Baton passes keys that are not listed here on unchanged.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderOptions {
    /// API key. Prefer a login or the provider's environment variable over a key in a file. Clients never receive
    /// it.
    #[serde(skip_serializing)]
    pub api_key: Option<Secret>,
    /// Base URL of the API.
    #[serde(rename = "baseURL")]
    pub base_url: Option<String>,
    /// URL of a company's own installation.
    pub enterprise_url: Option<String>,
    /// True to send a key for the provider's prompt cache.
    pub set_cache_key: Option<bool>,
    /// Timeout of a whole answer in milliseconds, or `false` for none.
    pub timeout: Option<Timeout>,
    /// Timeout until the response headers arrive in milliseconds, or `false` for none.
    pub header_timeout: Option<Timeout>,
    /// Timeout between two chunks of an answer in milliseconds, or `false` for none.
    pub chunk_timeout: Option<Timeout>,
    /// All other settings.
    #[serde(flatten)]
    pub other: Settings,
}

impl ProviderOptions {
    /// Returns true if no setting is present.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A timeout, or `false` for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum Timeout {
    /// Waits without a timeout.
    Never(False),
    Milliseconds(NonZeroU64),
}

/// A model of a provider.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ModelConfig {
    /// Name of the model in the provider's API.
    pub id: Option<String>,
    /// Name that clients display.
    pub name: Option<String>,
    /// Model family, for icons and prompts.
    pub family: Option<String>,
    /// Date as `2026-08-14`.
    pub release_date: Option<String>,
    /// True if the model accepts attachments.
    pub attachment: Option<bool>,
    /// True if the model produces reasoning.
    pub reasoning: Option<bool>,
    /// True if the temperature can be set.
    pub temperature: Option<bool>,
    /// True if the model calls tools.
    pub tool_call: Option<bool>,
    /// True if the model reasons between tool calls, or the field in which requests must return its reasoning.
    pub interleaved: Option<InterleavedConfig>,
    /// Price per million tokens.
    pub cost: Option<CostConfig>,
    /// Context and output limits in tokens.
    pub limit: Option<LimitConfig>,
    /// Content types of input and output.
    pub modalities: Option<ModalitiesConfig>,
    /// True if the model may change or disappear.
    pub experimental: Option<bool>,
    pub status: Option<ModelStatus>,
    /// Package and URL, if they differ from the provider's.
    pub provider: Option<ModelProvider>,
    /// Model settings, passed on unchanged.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub options: Settings,
    /// HTTP headers of requests to the model.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub headers: Headers,
    /// Named sets of settings that users can select. `disabled: true` removes one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variants: BTreeMap<String, Settings>,
}

/// Reasoning between tool calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum InterleavedConfig {
    /// Supported or not.
    Plain(bool),
    /// Supported; requests must return the reasoning in the field of this name.
    Name(String),
    /// The same as `Name`, written as an object.
    Field { field: String },
}

/// Price per million tokens.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct CostConfig {
    pub input: Number,
    pub output: Number,
    /// Tokens read from the cache.
    pub cache_read: Option<Number>,
    /// Tokens written to the cache.
    pub cache_write: Option<Number>,
    /// Price for prompts of more than 200,000 tokens.
    pub context_over_200k: Option<Box<CostConfig>>,
}

/// Context and output limits in tokens.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LimitConfig {
    /// Limit for prompt and answer together.
    pub context: u64,
    /// Limit for the prompt alone, if it has one.
    pub input: Option<u64>,
    /// Limit for the answer.
    pub output: u64,
}

/// Content types of a model's input and output.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ModalitiesConfig {
    pub input: Option<Vec<Modality>>,
    pub output: Option<Vec<Modality>>,
}

/// A content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Modality {
    Text,
    Audio,
    Image,
    Video,
    Pdf,
}

/// Package and URL of a model, if they differ from its provider's.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ModelProvider {
    /// Package with which OpenCode calls the model. It determines the dialect.
    pub npm: Option<String>,
    /// Base URL of the API.
    pub api: Option<String>,
}
