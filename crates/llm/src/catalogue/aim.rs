//! From a provider and a request to a call: where to, in which dialect, and with which settings.

use std::borrow::Cow;

use reqwest::Url;
use serde_json::{Map, Value};

use super::packages::{self, Package};
use super::{Model, Provider, effort};
use crate::dialect::{Dialect, Quirks, Target};
use crate::transport::{Endpoint, KeyHeader, is_near};
use crate::{Error, Purpose, Request, Sampling, json};

/// Headers that stand for a key.
const KEY_HEADERS: [&str; 5] =
    ["authorization", "x-api-key", "api-key", "x-goog-api-key", "cf-aig-authorization"];

/// Providers whose cache finds a conversation by its name without being told to.
const NAMING: [&str; 4] = ["openai", "azure", "azure-cognitive-services", "venice"];

/// Names of models by Mistral, wherever they run.
const MISTRALS: [&str; 5] = ["mistral", "ministral", "devstral", "codestral", "magistral"];

/// Everything a call needs besides the request.
#[derive(Debug, Clone)]
pub struct Aim {
    /// Where to call, and as whom.
    pub endpoint: Endpoint,
    /// In which dialect.
    pub dialect: Dialect,
    /// What the dialect has to know.
    pub target: Target,
    /// How daring: what was asked for, else what suits the model.
    pub sampling: Sampling,
}

impl Provider {
    /// Whether a model can be asked for by this name.
    pub fn knows(&self, model: &str) -> bool {
        self.models.contains_key(model) || self.is_open()
    }

    /// Whether it may have models that no list knows: it is on this machine, or nobody ever listed any.
    pub fn is_open(&self) -> bool {
        let unlisted = self.models.is_empty() && self.env.is_empty();
        !self.closed && (unlisted || self.is_local())
    }

    /// Whether it is on this machine.
    pub fn is_local(&self) -> bool {
        let url = self.base_url.as_deref().or(self.url.as_deref());
        url.and_then(|url| Url::parse(url).ok()).is_some_and(|url| is_near(&url))
    }

    /// Whether it can be called with what is known: it has a key, or needs none, or somebody vouches for it.
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
    pub fn aim(&self, request: &Request) -> Result<Aim, Error> {
        let model = self
            .model(&request.model.model)
            .ok_or_else(|| Error::UnknownModel(format!("{}/{}", self.id, request.model.model)))?;
        let package = packages::find(self, &model).ok_or_else(|| {
            let name = packages::name(self, &model);
            Error::Other(format!("{} speaks the dialect of `{name}`, which is not known here", self.name))
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
        Ok(Aim { endpoint, dialect: package.dialect, target, sampling })
    }

    /// Where local servers can be asked for their models.
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

    /// What suits the model, what was configured, and what was chosen, in this order.
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
