//! Which providers and models there are, what they cost and what they can do.
//!
//! The list is built into the program, compressed (`data/models.json` is its source, and `data/README.md` says how
//! to refresh it). Only an index is unpacked when a [`Catalogue`] is made; the models of a provider are unpacked
//! when that provider is asked for, and belong to who asked. On top of it lies what a person configured
//! ([`ProviderConfig`]) and what the environment knows ([`Provider::with_environment`]).

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

pub use aim::Aim;
pub use config::{ConfigError, ModelConfig, ProviderConfig};
pub use cost::{Price, Prices};
pub use packed::{Catalogue, Entry};

use crate::dialect::{Abilities, Dialect};
use crate::{CallHeaders, Deadlines, Secret};

/// Ollama's id. It is in no list, because its models are those somebody installed.
pub const OLLAMA: &str = "ollama";

/// Where Ollama listens unless it was told otherwise.
const OLLAMA_URL: &str = "http://127.0.0.1:11434/v1";

/// The package for servers that imitate `OpenAI`.
const COMPATIBLE: &str = "@ai-sdk/openai-compatible";

/// Who serves models.
#[derive(Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "they have nothing to do with each other")]
pub struct Provider {
    /// Its id.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// The environment variables it may be set up by.
    pub env: Vec<String>,
    /// The package OpenCode would call it with. It decides the dialect.
    pub npm: String,
    /// Its address; `${NAME}` in it stands for a variable of the environment.
    pub url: Option<String>,
    /// An address that somebody configured, which applies to all its models.
    pub base_url: Option<String>,
    /// Its models, by id.
    pub models: BTreeMap<String, Model>,
    /// Headers for its calls.
    pub headers: CallHeaders,
    /// Added to the address of every call.
    pub query: BTreeMap<String, String>,
    /// Its key.
    pub key: Option<Secret>,
    /// How long its calls may take.
    pub deadlines: Deadlines,
    /// Whether its calls name the conversation, so that its cache finds it.
    pub names_conversations: bool,
    /// Whether somebody listed the models that may be used.
    closed: bool,
    /// Whether somebody sees to it that its calls are let in, with or without a key.
    pub vouched: bool,
    /// Values for `${NAME}` in addresses.
    names: BTreeMap<String, String>,
    /// Whether the older of `OpenAI`'s dialects is spoken where the package would have the newer.
    pub completions: bool,
}

/// One of a provider's models.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Its id.
    pub id: String,
    /// The name the provider's API knows it by.
    pub api_id: String,
    /// Its name for people.
    pub name: String,
    /// Kinship.
    pub family: Option<String>,
    /// A package of its own, for providers that serve several dialects.
    pub npm: Option<String>,
    /// An address of its own.
    pub url: Option<String>,
    /// How much fits.
    pub limit: Limit,
    /// What it costs.
    pub prices: Prices,
    /// What it can do.
    pub abilities: Abilities,
    /// Whether it is here to stay.
    pub status: Status,
    /// `2026-08-14`, or empty.
    pub released: String,
    /// Settings for its calls.
    pub options: Map<String, Value>,
    /// Headers for its calls.
    pub headers: CallHeaders,
    /// Named settings that were configured, or switched off; see [`Provider::variants`].
    variants: BTreeMap<String, Option<Map<String, Value>>>,
    /// The field in which its reasoning goes back.
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

/// How much fits, in tokens. Zero means unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    /// Prompt and answer together.
    pub context: u64,
    /// Prompt alone, where that has a limit of its own.
    pub input: Option<u64>,
    /// Answer.
    pub output: u64,
}

/// Whether a model is here to stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// Fresh.
    Alpha,
    /// Nearly there.
    Beta,
    /// Here.
    Active,
    /// Going.
    Deprecated,
}

impl Provider {
    /// A provider of which nothing is known but that it imitates `OpenAI`.
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

    /// Ollama, on this machine.
    pub fn ollama() -> Self {
        Self { name: "Ollama".to_owned(), url: Some(OLLAMA_URL.to_owned()), ..Self::named(OLLAMA) }
    }

    /// The models to choose from: those that are not on their way out, by id.
    pub fn offered(&self) -> impl Iterator<Item = &Model> {
        self.models.values().filter(|model| model.status != Status::Deprecated)
    }

    /// How a model is spoken to, if that is known here.
    pub fn dialect(&self, model: &Model) -> Option<Dialect> {
        packages::find(self, model).map(|package| package.dialect)
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Addresses may hold a password, and there are hundreds of models.
        f.debug_struct("Provider")
            .field("id", &self.id)
            .field("npm", &self.npm)
            .field("models", &self.models.len())
            .field("headers", &self.headers)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
