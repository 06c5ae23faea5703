//! Applies the environment to a provider: its key, and the placeholders in its addresses.

use std::collections::BTreeSet;

use super::Provider;
use crate::Secret;

/// Suffixes of variables that hold a key.
const KEY_ENDS: [&str; 5] = ["KEY", "TOKEN", "PAT", "TOKEN_BEDROCK", "SECRET"];

/// Parts of variable names that hold only half of a key.
const NO_KEYS: [&str; 2] = ["ACCESS_KEY", "PUBLIC_KEY"];

impl Provider {
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

/// Names of placeholders in an address.
fn placeholders(url: &str) -> Vec<String> {
    let pieces = url.split("${").skip(1);
    pieces.filter_map(|piece| piece.split_once('}')).map(|(name, _)| name.to_owned()).collect()
}

fn holds_key(name: &str) -> bool {
    KEY_ENDS.iter().any(|end| name.ends_with(end)) && !NO_KEYS.iter().any(|part| name.contains(part))
}
