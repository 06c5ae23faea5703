//! Turns a provider and a request into a call: address, dialect and settings.

use std::borrow::Cow;

use reqwest::Url;
use serde_json::{Map, Value};

use super::packages::{self, Package};
use super::{Model, Provider, effort};
use crate::dialect::{Dialect, Quirks, Target};
use crate::transport::{Endpoint, KeyHeader, is_near};
use crate::{Error, Purpose, Request, Sampling, json};

/// Headers that can carry a key.
const KEY_HEADERS: [&str; 5] =
    ["authorization", "x-api-key", "api-key", "x-goog-api-key", "cf-aig-authorization"];

/// Providers that use a name of the conversation for their cache by default.
const NAMING: [&str; 4] = ["openai", "azure", "azure-cognitive-services", "venice"];

/// Substrings in the names of Mistral's models, wherever they run.
const MISTRALS: [&str; 5] = ["mistral", "ministral", "devstral", "codestral", "magistral"];

/// Everything a call needs besides the request.
#[derive(Debug, Clone)]
pub struct CallTarget {
    pub endpoint: Endpoint,
    pub dialect: Dialect,
    /// Model-specific input of the dialect.
    pub target: Target,
    /// Requested sampling, else the model's default.
    pub sampling: Sampling,
}

impl Provider {
    /// Returns true if this model can be called.
    pub fn knows(&self, model: &str) -> bool {
        self.models.contains_key(model) || self.is_open()
    }

    /// Returns true if the provider may have models that no list contains: it runs on this machine, or no
    /// models were ever listed.
    pub fn is_open(&self) -> bool {
        let unlisted = self.models.is_empty() && self.env.is_empty();
        !self.closed && (unlisted || self.is_local())
    }

    /// Returns true if the provider runs on this machine.
    pub fn is_local(&self) -> bool {
        let url = self.base_url.as_deref().or(self.url.as_deref());
        url.and_then(|url| Url::parse(url).ok()).is_some_and(|url| is_near(&url))
    }

    /// Returns true if the provider can be called: it has a key, needs none, or another component authorises
    /// its calls.
    pub fn is_usable(&self) -> bool {
        self.key.is_some() || self.vouched || !self.needs_key()
    }

    fn needs_key(&self) -> bool {
        let sent = KEY_HEADERS.iter().any(|name| self.headers.get(name).is_some());
        !self.env.is_empty() && !sent && !self.is_local()
    }

    fn model(&self, id: &str) -> Option<Cow<'_, Model>> {
        match self.models.get(id) {
            Some(model) => Some(Cow::Borrowed(model)),
            None => self.is_open().then(|| Cow::Owned(Model::named(id))),
        }
    }

    /// The call for a request.
    pub fn aim(&self, request: &Request) -> Result<CallTarget, Error> {
        let model = self
            .model(&request.model.model)
            .ok_or_else(|| Error::UnknownModel(format!("{}/{}", self.id, request.model.model)))?;
        let package = packages::find(self, &model).ok_or_else(|| {
            let name = packages::name(self, &model);
            Error::Other(format!("{} needs the package `{name}`, which Baton does not support", self.name))
        })?;
        if !self.is_usable() {
            let keys: Vec<String> = self.key_variables().map(str::to_owned).collect();
            return Err(self.missing(&keys));
        }
        let endpoint = Endpoint {
            url: self.address(&model, package)?,
            query: self.query.clone(),
            key: self.key.clone().map(|key| (package.key, key)),
            deadlines: self.deadlines,
        };
        let mut headers = self.headers.clone();
        headers.extend(&model.headers);
        let target = Target {
            model: model.api_id.clone(),
            options: self.settings(&model, package.dialect, request),
            headers,
            output_limit: Some(model.limit.output).filter(|limit| *limit > 0),
            abilities: model.abilities,
            quirks: self.quirks(&model, &endpoint, package),
        };
        let sampling = effort::sampling(&model, request.sampling);
        Ok(CallTarget { endpoint, dialect: package.dialect, target, sampling })
    }

    /// Endpoint of local servers for listing their models.
    pub fn endpoint(&self) -> Option<Endpoint> {
        let url = self.base_url.as_deref().or(self.url.as_deref())?;
        Some(Endpoint {
            url: self.filled(url).ok()?,
            query: self.query.clone(),
            key: self.key.clone().map(|key| (KeyHeader::Bearer, key)),
            deadlines: self.deadlines,
        })
    }

    fn address(&self, model: &Model, package: Package) -> Result<String, Error> {
        let url = self.base_url.as_deref().or(model.url.as_deref()).or(self.url.as_deref()).or(package.url);
        let url = url.ok_or_else(|| {
            Error::Other(format!("{} has no address; set `options.baseURL` of the provider", self.name))
        })?;
        self.filled(url).map_err(|names| self.missing(&names))
    }

    fn missing(&self, names: &[String]) -> Error {
        let message = match names {
            [] => format!("{} needs a key", self.name),
            names => format!("{} is not set up: set {}", self.name, names.join(" or ")),
        };
        Error::Auth { provider: self.id.clone(), message }
    }

    /// Merges the model's defaults, its configuration and the request's choice, in this order.
    fn settings(&self, model: &Model, dialect: Dialect, request: &Request) -> Map<String, Value> {
        let mut settings = effort::defaults(self, model, dialect);
        json::merge(&mut settings, &model.options);
        let variants = self.variants(model);
        match request.variant.as_ref().and_then(|name| variants.get(name)) {
            Some(variant) => json::merge(&mut settings, variant),
            None if request.purpose == Purpose::Title => {
                json::merge(&mut settings, &effort::least(dialect, &variants));
            }
            None => {}
        }
        if let Some(key) = &request.cache_key
            && (self.names_conversations || NAMING.contains(&self.id.as_str()))
        {
            settings.entry("promptCacheKey").or_insert_with(|| key.clone().into());
        }
        settings
    }

    fn quirks(&self, model: &Model, endpoint: &Endpoint, package: Package) -> Quirks {
        let npm = packages::name(self, model);
        let named = model.api_id.to_lowercase();
        Quirks {
            router: npm.starts_with("@openrouter/") || endpoint.url.contains("openrouter.ai"),
            max_completion_tokens: package.dialect == Dialect::Chat
                && matches!(npm, "@ai-sdk/openai" | "@ai-sdk/azure" | "@ai-sdk/github-copilot"),
            mistral: MISTRALS.iter().any(|name| named.contains(name)),
            strict: npm == "@ai-sdk/mistral",
            reasoning_field: model.reasoning_field.clone(),
        }
    }
}
