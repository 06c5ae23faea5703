//! Catalogue of providers and models with prices and abilities.
//!
//! The list is compressed into the program (`data/models.json` is its source; `data/README.md` describes how to
//! refresh it). Creating a [`Catalogue`] unpacks only an index; the models of a provider are unpacked when it
//! is requested, and belong to the caller. The user's configuration ([`ProviderConfig`]) and the environment
//! ([`Provider::with_environment`]) are applied on top.

mod aim;
mod config;
mod cost;
mod described;
mod effort;
mod fields;
mod merge;
mod packages;
mod packed;
mod rank;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

pub use aim::CallTarget;
pub use config::{ConfigError, ModelConfig, ProviderConfig};
pub use cost::{Price, Prices};
pub use packed::{Catalogue, Entry};

use crate::dialect::{Abilities, Dialect};
use crate::{CallHeaders, Deadlines, Secret};

/// Ollama's id. It is in no list, because its models are those that the user installed.
pub const OLLAMA: &str = "ollama";

/// Ollama's default address.
const OLLAMA_URL: &str = "http://127.0.0.1:11434/v1";

/// Package for servers compatible with `OpenAI`.
const COMPATIBLE: &str = "@ai-sdk/openai-compatible";

/// A provider of models.
#[derive(Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub struct Provider {
    pub id: String,
    /// Name for display to the user.
    pub name: String,
    /// Environment variables with its key and other settings.
    pub env: Vec<String>,
    /// The package that OpenCode would use. It determines the dialect.
    pub npm: String,
    /// Base address; `${NAME}` in it is replaced by an environment variable.
    pub url: Option<String>,
    /// Configured address, which applies to all its models.
    pub base_url: Option<String>,
    /// Models by their id.
    pub models: BTreeMap<String, Model>,
    /// Headers of every call.
    pub headers: CallHeaders,
    /// Query parameters of every call.
    pub query: BTreeMap<String, String>,
    pub key: Option<Secret>,
    /// Timeouts of its calls.
    pub deadlines: Deadlines,
    /// True if calls send a name of the conversation, by which the provider finds its cache.
    pub names_conversations: bool,
    /// True if the configuration lists the models that may be used.
    closed: bool,
    /// True if a loaded plugin authorises the calls, with or without a key.
    pub vouched: bool,
    /// Values of `${NAME}` in addresses.
    names: BTreeMap<String, String>,
    /// True to use `OpenAI`'s older dialect where the package would use the newer one.
    pub completions: bool,
}

/// A model of a provider.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    pub id: String,
    /// The model's name in the provider's API.
    pub api_id: String,
    /// Name for display to the user.
    pub name: String,
    pub family: Option<String>,
    /// Package of this model, for providers with several dialects.
    pub npm: Option<String>,
    /// Address of this model.
    pub url: Option<String>,
    pub limit: Limit,
    pub prices: Prices,
    pub abilities: Abilities,
    pub status: Status,
    /// Release date as `2026-08-14`, or empty.
    pub released: String,
    /// Settings of its calls.
    pub options: Map<String, Value>,
    /// Headers of its calls.
    pub headers: CallHeaders,
    /// Configured variants; `None` disables one. See [`Provider::variants`].
    variants: BTreeMap<String, Option<Map<String, Value>>>,
    /// The field in which its reasoning is sent back.
    pub reasoning_field: Option<String>,
}

impl Model {
    /// A model of which only the name is known.
    pub fn named(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            api_id: id.to_owned(),
            name: id.to_owned(),
            family: None,
            npm: None,
            url: None,
            limit: Limit::default(),
            prices: Prices::default(),
            abilities: Abilities::default(),
            status: Status::Active,
            released: String::new(),
            options: Map::new(),
            headers: CallHeaders::default(),
            variants: BTreeMap::new(),
            reasoning_field: None,
        }
    }
}

/// Limits in tokens. Zero means unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    /// Prompt and answer together.
    pub context: u64,
    /// Prompt alone, if it has a separate limit.
    pub input: Option<u64>,
    pub output: u64,
}

/// Lifecycle of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    Alpha,
    Beta,
    Active,
    Deprecated,
}

impl Provider {
    /// A provider of which nothing is known; assumed to be compatible with `OpenAI`.
    pub fn named(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            name: id.to_owned(),
            env: Vec::new(),
            npm: COMPATIBLE.to_owned(),
            url: None,
            base_url: None,
            models: BTreeMap::new(),
            headers: CallHeaders::default(),
            query: BTreeMap::new(),
            key: None,
            deadlines: Deadlines::default(),
            names_conversations: false,
            closed: false,
            vouched: false,
            names: BTreeMap::new(),
            completions: false,
        }
    }

    /// Ollama on this machine.
    pub fn ollama() -> Self {
        Self { name: "Ollama".to_owned(), url: Some(OLLAMA_URL.to_owned()), ..Self::named(OLLAMA) }
    }

    /// Models to offer: all that are not deprecated, by id.
    pub fn offered(&self) -> impl Iterator<Item = &Model> {
        self.models.values().filter(|model| model.status != Status::Deprecated)
    }

    /// The dialect of a model; `None` if its package is not supported.
    pub fn dialect(&self, model: &Model) -> Option<Dialect> {
        packages::find(self, model).map(|package| package.dialect)
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Addresses may contain a password, and there are hundreds of models.
        f.debug_struct("Provider")
            .field("id", &self.id)
            .field("npm", &self.npm)
            .field("models", &self.models.len())
            .field("headers", &self.headers)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
