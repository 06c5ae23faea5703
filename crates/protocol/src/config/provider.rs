//! Providers and models as people write them: new ones, or changes to those of the catalogue.

use std::{collections::BTreeMap, num::NonZeroU64};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{False, Headers, Secret, Settings};
use crate::{number::Number, provider::ModelStatus};

/// A provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ProviderConfig {
    /// Its id, where that differs from the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Shown name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Base address of its API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
    /// The package OpenCode would call it with; tells the dialect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub npm: Option<String>,
    /// Names of the environment variables that may hold its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub env: Option<Vec<String>>,
    /// Only these models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whitelist: Option<Vec<String>>,
    /// Not these models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blacklist: Option<Vec<String>>,
    /// Settings of its client.
    #[serde(default, skip_serializing_if = "ProviderOptions::is_empty")]
    pub options: ProviderOptions,
    /// Its models, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelConfig>,
}

/// Settings of a provider's client. Keys that are not listed here are passed on as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderOptions {
    /// Its key. Better kept out of files: log in, or set the provider's environment variable.
    #[serde(skip_serializing)]
    pub api_key: Option<Secret>,
    /// Base address of its API.
    #[serde(rename = "baseURL", skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Address of an enterprise's own installation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enterprise_url: Option<String>,
    /// Whether a key for the provider's prompt cache is sent along.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_cache_key: Option<bool>,
    /// Milliseconds for a whole answer, or `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Timeout>,
    /// Milliseconds until an answer begins, or `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header_timeout: Option<Timeout>,
    /// Milliseconds from one piece of an answer to the next, or `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk_timeout: Option<Timeout>,
    /// Everything else.
    #[serde(flatten)]
    pub other: Settings,
}

impl ProviderOptions {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A time to wait, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum Timeout {
    /// No end to it.
    Never(False),
    /// So many milliseconds.
    Milliseconds(NonZeroU64),
}

/// A model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ModelConfig {
    /// The name the provider's API knows it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Shown name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Kinship, for icons and prompts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// `2026-08-14`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release_date: Option<String>,
    /// It takes attachments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachment: Option<bool>,
    /// It thinks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<bool>,
    /// Its temperature can be set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<bool>,
    /// It calls tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_call: Option<bool>,
    /// Whether it thinks between tool calls, or the field its thinking has to be sent back in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interleaved: Option<InterleavedConfig>,
    /// Price of a million tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostConfig>,
    /// How much fits, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitConfig>,
    /// What it takes and gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modalities: Option<ModalitiesConfig>,
    /// It may change or go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experimental: Option<bool>,
    /// Whether it is here to stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<ModelStatus>,
    /// How it is called, where that differs from its provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<ModelProvider>,
    /// Settings, passed on as they are.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub options: Settings,
    /// Headers of its calls.
    #[serde(default, skip_serializing_if = "Headers::is_empty")]
    pub headers: Headers,
    /// Named settings to choose from; `disabled` takes one away.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variants: BTreeMap<String, Settings>,
}

/// Whether a model thinks between tool calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum InterleavedConfig {
    /// Plainly.
    Plain(bool),
    /// Its thinking has to be sent back in a field of this name.
    Name(String),
    /// The same, said at length.
    Field {
        /// The name.
        field: String,
    },
}

/// Price of a million tokens.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct CostConfig {
    /// Prompt.
    pub input: Number,
    /// Answer.
    pub output: Number,
    /// Read from the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<Number>,
    /// Written to the cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Number>,
    /// Another price for prompts of more than 200,000 tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_over_200k: Option<Box<CostConfig>>,
}

/// How much fits, in tokens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LimitConfig {
    /// Prompt and answer together.
    pub context: u64,
    /// Prompt alone, where that has a limit of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<u64>,
    /// Answer.
    pub output: u64,
}

/// What a model takes and gives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ModalitiesConfig {
    /// What it takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Vec<Modality>>,
    /// What it gives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Vec<Modality>>,
}

/// A kind of content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Modality {
    /// Words.
    Text,
    /// Sound.
    Audio,
    /// Pictures.
    Image,
    /// Films.
    Video,
    /// Documents.
    Pdf,
}

/// How a model is called, where that differs from its provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ModelProvider {
    /// The package OpenCode would call it with; tells the dialect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub npm: Option<String>,
    /// Base address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<String>,
}
