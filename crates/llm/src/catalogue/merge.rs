//! Applies a configuration and the environment to a provider of the list.

use std::collections::BTreeSet;

use super::config::ModelConfig;
use super::packed::modalities;
use super::{Model, Provider, ProviderConfig};
use crate::dialect::Abilities;
use crate::{Secret, json};

/// Suffixes of variables that hold a key.
const KEY_ENDS: [&str; 5] = ["KEY", "TOKEN", "PAT", "TOKEN_BEDROCK", "SECRET"];

/// Parts of variable names that hold only half of a key.
const NO_KEYS: [&str; 2] = ["ACCESS_KEY", "PUBLIC_KEY"];

impl Provider {
    /// Applies a configuration.
    #[must_use]
    pub fn configured(mut self, config: &ProviderConfig) -> Self {
        let set = |to: &mut String, from: &Option<String>| {
            if let Some(from) = from {
                to.clone_from(from);
            }
        };
        set(&mut self.name, &config.name);
        set(&mut self.npm, &config.npm);
        self.url = config.url.clone().or(self.url);
        self.base_url = config.base_url.clone().or(self.base_url);
        self.env = config.env.clone().unwrap_or(self.env);
        self.key = config.key.clone().or(self.key);
        self.headers.extend(&config.headers);
        if let Some(token) = &config.token {
            self.headers.set("authorization", format!("Bearer {}", token.reveal()));
        }
        self.query.extend(config.query.clone());
        if let Some(total) = config.total {
            self.deadlines.total = total;
        }
        if let Some(headers) = config.header_wait {
            self.deadlines.headers = headers;
        }
        if let Some(chunk) = config.chunk_wait {
            self.deadlines.first_chunk = chunk;
            self.deadlines.next_chunk = chunk;
        }
        self.names_conversations = config.names_conversations.unwrap_or(self.names_conversations);
        self.completions = config.completions.unwrap_or(self.completions);
        for (id, config) in &config.models {
            let model = self.models.remove(id).unwrap_or_else(|| Model::new_configured(id));
            self.models.insert(id.clone(), model.configured(config));
        }
        if let Some(whitelist) = &config.whitelist {
            self.models.retain(|id, _| whitelist.contains(id));
            self.closed = true;
        }
        if let Some(blacklist) = &config.blacklist {
            self.models.retain(|id, _| !blacklist.contains(id));
        }
        self.names.extend(config.names.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        self
    }

    /// Applies the environment: its key and `${NAME}` in its addresses. An existing key stays.
    #[must_use]
    pub fn with_environment(mut self, read: &dyn Fn(&str) -> Option<String>) -> Self {
        let read = |name: &str| read(name).filter(|value| !value.trim().is_empty());
        if self.key.is_none() {
            let keys = self.env.iter().filter(|name| holds_key(name));
            self.key = keys.filter_map(|name| read(name)).map(|key| Secret::new(key.trim())).next();
        }
        for name in self.wanted() {
            if let Some(value) = read(&name) {
                self.names.entry(name).or_insert(value);
            }
        }
        self
    }

    #[must_use]
    pub fn with_key(mut self, key: Secret) -> Self {
        self.key = Some(key);
        self
    }

    /// Variables that hold a key.
    pub fn key_variables(&self) -> impl Iterator<Item = &str> {
        self.env.iter().map(String::as_str).filter(|name| holds_key(name))
    }

    /// Names of placeholders in its addresses, and of variables that are not keys.
    fn wanted(&self) -> BTreeSet<String> {
        let urls = [&self.url, &self.base_url].into_iter().flatten();
        let urls = urls.chain(self.models.values().filter_map(|model| model.url.as_ref()));
        let settings = self.env.iter().filter(|name| !holds_key(name)).cloned();
        urls.flat_map(|url| placeholders(url)).chain(settings).collect()
    }

    /// An address with its placeholders replaced, or the names of unset ones.
    pub(super) fn filled(&self, url: &str) -> Result<String, Vec<String>> {
        let mut url = url.to_owned();
        for (name, value) in &self.names {
            url = url.replace(&format!("${{{name}}}"), value);
        }
        let missing = placeholders(&url);
        if missing.is_empty() { Ok(url) } else { Err(missing) }
    }
}

impl Model {
    /// A model that is in no list, with OpenCode's assumptions about it.
    pub(super) fn new_configured(id: &str) -> Self {
        let text = modalities(&["text"]);
        let abilities = Abilities {
            temperature: false,
            reasoning: false,
            attachment: false,
            tools: true,
            input: text,
            output: text,
        };
        Self { abilities, ..Self::named(id) }
    }

    fn configured(mut self, config: &ModelConfig) -> Self {
        let set = |to: &mut String, from: &Option<String>| {
            if let Some(from) = from {
                to.clone_from(from);
            }
        };
        set(&mut self.api_id, &config.api_id);
        set(&mut self.name, &config.name);
        set(&mut self.released, &config.released);
        self.family = config.family.clone().or(self.family);
        self.npm = config.npm.clone().or(self.npm);
        self.url = config.url.clone().or(self.url);
        self.limit = config.limit(self.limit);
        self.prices.base = config.price.over(self.prices.base);
        if let Some(price) = config.over_200k {
            self.prices.over_200k = Some(price.over(self.prices.over_200k.unwrap_or(self.prices.base)));
        }
        let abilities = &mut self.abilities;
        abilities.temperature = config.temperature.unwrap_or(abilities.temperature);
        abilities.reasoning = config.reasoning.unwrap_or(abilities.reasoning);
        abilities.attachment = config.attachment.unwrap_or(abilities.attachment);
        abilities.tools = config.tools.unwrap_or(abilities.tools);
        abilities.input = config.input.unwrap_or(abilities.input);
        abilities.output = config.output.unwrap_or(abilities.output);
        self.reasoning_field = config.reasoning_field.clone().or(self.reasoning_field);
        self.status = config.status.unwrap_or(self.status);
        json::merge(&mut self.options, &config.options);
        self.headers.extend(&config.headers);
        for (name, settings) in &config.variants {
            self.variants.insert(name.clone(), settings.clone());
        }
        self
    }
}

/// Names of placeholders in an address.
fn placeholders(url: &str) -> Vec<String> {
    let pieces = url.split("${").skip(1);
    pieces.filter_map(|piece| piece.split_once('}')).map(|(name, _)| name.to_owned()).collect()
}

fn holds_key(name: &str) -> bool {
    KEY_ENDS.iter().any(|end| name.ends_with(end)) && !NO_KEYS.iter().any(|part| name.contains(part))
}
