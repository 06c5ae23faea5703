//! The providers that can be called: those of the built-in catalogue that have a key, configured ones, and Ollama on this
//! machine.
//!
//! A key comes from the configuration, else from a plugin, else from `auth.json`, else from the environment. Catalogue
//! entries are compressed, so only those that may be used are unpacked.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ::agents::roster::{External, known};
use llm::{
    Carrier, Catalogue, Client, HttpModel, Secret,
    catalogue::{self, Model, OLLAMA, Provider},
    demo,
};
use protocol::{
    config::{Config, Positive},
    login::Login,
    message::ModelRef,
    provider::ProviderSource,
    secret::is_secret,
};
use store::files::Environment;

use crate::{
    hidden, listing,
    patches::{Patch, Patches},
    revealed,
    settings::Settings,
};

/// Keys that users have for other purposes, too. A provider with such a key can be called but is not chosen as the
/// default, and commands inherit the key.
pub(crate) const SHARED_KEYS: [&str; 7] = [
    "AWS_BEARER_TOKEN_BEDROCK",
    "CLOUDFLARE_API_KEY",
    "CLOUDFLARE_API_TOKEN",
    "DATABRICKS_TOKEN",
    "DIGITALOCEAN_ACCESS_TOKEN",
    "GITHUB_TOKEN",
    "GITLAB_TOKEN",
];

type Models = BTreeMap<String, Arc<dyn llm::Model>>;

/// A provider that can be called.
#[derive(Debug)]
pub(crate) struct Usable {
    pub(crate) provider: Provider,
    pub(crate) source: ProviderSource,
    /// True if its model may be the default model.
    is_default_candidate: bool,
    /// True if clients list it.
    is_listed: bool,
    /// The plugin that makes the calls, if one does.
    carrier: Option<Arc<dyn Carrier>>,
}

/// All usable providers except the demo.
#[derive(Debug, Default)]
pub(crate) struct Providers {
    usable: Vec<Usable>,
    /// Variables that hold a key of a provider.
    pub(crate) keys: BTreeSet<String>,
}

/// Finds the usable providers and applies the patches of plugins.
pub(crate) fn find(settings: &Settings, patches: &Patches) -> Providers {
    let catalogue = match Catalogue::built_in() {
        Ok(catalogue) => catalogue,
        Err(error) => {
            tracing::error!(%error, "cannot read the built-in catalogue of providers");
            return Providers::default();
        }
    };
    let (config, logins) = (&settings.loaded.config, &settings.logins);
    let read = |name: &str| read(&settings.environment, logins, name);
    let mut found = Providers::default();
    let listed = catalogue.entries().filter(|entry| {
        config.provider.contains_key(&entry.id)
            || logins.contains_key(&entry.id)
            || entry.env.iter().any(|name| read(name).is_some())
    });
    let listed: Vec<&str> = listed.map(|entry| entry.id.as_str()).collect();
    let others = config.provider.keys().map(String::as_str).filter(|id| !listed.contains(id));
    let mut ids: Vec<&str> =
        listed.iter().copied().chain(others).filter(|id| *id != demo::PROVIDER).collect();
    if !ids.contains(&OLLAMA) {
        ids.push(OLLAMA);
    }
    for id in ids {
        let base = match catalogue.provider(id) {
            Ok(Some(provider)) => provider,
            Ok(None) if id == OLLAMA => Provider::ollama(),
            Ok(None) => Provider::named(id),
            Err(error) => {
                tracing::warn!(provider = id, %error, "cannot use a provider; leaving it out");
                continue;
            }
        };
        let patch = patches.of(id);
        let Some((usable, keys)) = set_up(base, config, logins.get(id), &patch, &read) else { continue };
        found.keys.extend(keys);
        let Some(usable) = usable else { continue };
        found.keys.extend(holders(&usable.provider, &settings.environment));
        if is_enabled(config, id) {
            found.usable.push(usable);
        }
    }
    found.keys.retain(|name| !SHARED_KEYS.contains(&name.as_str()));
    // The default model comes from a configured provider first, then from a login, then from a key in the environment.
    found.usable.sort_by_key(|usable| match usable.source {
        ProviderSource::Config => 0,
        ProviderSource::Api => 1,
        ProviderSource::Env | ProviderSource::Custom => 2,
    });
    found
}

/// Applies configuration, patches and key to a provider. Returns the provider if it is usable, and the variables that may
/// hold its key. Returns nothing if the configuration is invalid.
fn set_up(
    base: Provider,
    config: &Config,
    login: Option<&Login>,
    patch: &Patch,
    read: &dyn Fn(&str) -> Option<String>,
) -> Option<(Option<Usable>, Vec<String>)> {
    let id = base.id.clone();
    let written = config.provider.get(&id);
    // A provider whose models were all filtered out is unusable; one that never listed any accepts every model.
    let had_models = !base.models.is_empty() || written.is_some_and(|written| !written.models.is_empty());
    let mut provider = patch.opened(patch.listed(base));
    if let Some(limits) = &config.limits {
        let waits = &mut provider.deadlines;
        waits.first_chunk = limits.first_chunk_seconds.map_or(waits.first_chunk, Positive::seconds);
        waits.next_chunk = limits.next_chunk_seconds.map_or(waits.next_chunk, Positive::seconds);
    }
    if let Some(written) = written {
        match read_config(written) {
            Ok(config) => provider = provider.configured(&config),
            Err(error) => {
                tracing::warn!(provider = id, %error, "cannot use a provider; leaving it out");
                return None;
            }
        }
    }
    provider = patch.priced(provider);
    match login {
        Some(Login::Api { key, .. }) if provider.key.is_none() && !patch.decides_key() => {
            provider = provider.with_key(Secret::new(key.reveal()));
        }
        Some(Login::Oauth { .. }) if provider.key.is_none() && !patch.is_loaded() => {
            tracing::warn!(provider = id, "no plugin handles the login of this provider; set a key instead");
        }
        _ => {}
    }
    let source = match login {
        _ if written.is_some() => ProviderSource::Config,
        Some(Login::Api { .. }) if provider.key.is_some() => ProviderSource::Api,
        _ if patch.is_loaded() => ProviderSource::Custom,
        _ => ProviderSource::Env,
    };
    let had_key = provider.key.is_some() || provider.vouched;
    let keys: Vec<String> = provider.key_variables().map(str::to_owned).collect();
    provider = provider.with_environment(&|name| {
        read(name).filter(|_| !(patch.decides_key() && keys.iter().any(|key| key == name)))
    });
    let is_own = |name: &&String| read(name).is_some() && !SHARED_KEYS.contains(&name.as_str());
    let is_default_candidate = written.is_some() || had_key || keys.iter().any(|name| is_own(&name));
    let mut models = std::mem::take(&mut provider.models);
    models.retain(|_, model| provider.dialect(model).is_some());
    provider.models = models;
    let speaks =
        !provider.models.is_empty() || (!had_models && provider.dialect(&Model::named("any")).is_some());
    let is_known = written.is_some() || provider.key.is_some() || provider.vouched || id == OLLAMA;
    let is_listed = written.is_some() || id != OLLAMA;
    let is_usable = speaks && is_known && provider.is_usable();
    if !is_usable {
        tracing::debug!(provider = id, "provider is not usable");
    }
    let carrier = patch.carrier();
    let usable = Usable { provider, source, is_default_candidate, is_listed, carrier };
    Some((is_usable.then_some(usable), keys))
}

/// Converts a provider's configuration into the form that `llm` reads.
pub(crate) fn read_config(
    written: &protocol::config::ProviderConfig,
) -> Result<catalogue::ProviderConfig, catalogue::ConfigError> {
    catalogue::ProviderConfig::read(&revealed::revealed(written))
}

impl Providers {
    /// Returns the best model of the first provider that may be the default.
    pub(crate) fn default_choice(&self) -> Option<ModelRef> {
        self.listed()
            .filter(|usable| usable.is_default_candidate)
            .find_map(|usable| Some(ModelRef::new(&usable.provider.id, &usable.provider.default_model()?.id)))
    }

    /// Returns the providers that clients list.
    pub(crate) fn listed(&self) -> impl Iterator<Item = &Usable> {
        self.usable.iter().filter(|usable| usable.is_listed)
    }

    /// Returns a model client for each provider, by id. All use the connections of `client`.
    pub(crate) fn into_models(self, client: &Client) -> Models {
        let model = |usable: Usable| {
            let (id, client) = (usable.provider.id.clone(), client.clone());
            let client = usable.carrier.into_iter().fold(client, Client::through);
            (id, Arc::new(HttpModel::new(client, usable.provider)) as Arc<dyn llm::Model>)
        };
        self.usable.into_iter().map(model).collect()
    }
}

/// Returns the variables that hold a secret which is sent to the provider.
fn holders(provider: &Provider, environment: &Environment) -> Vec<String> {
    let headers = provider.headers.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value);
    let secrets = headers.chain(provider.key.as_ref().map(Secret::reveal)).map(ToOwned::to_owned);
    hidden::holding(secrets, environment).collect()
}

/// Lists the catalogue providers that could be used with a key. Unpacks all of them.
pub(crate) fn others<'l>(
    config: &Config,
    is_usable: impl Fn(&str) -> bool + 'l,
) -> Result<Vec<protocol::provider::Provider>, llm::Error> {
    let catalogue = Catalogue::built_in()?;
    let wanted = catalogue.entries().filter(|entry| !is_usable(&entry.id) && is_enabled(config, &entry.id));
    let unpacked = wanted.map(|entry| Ok(listing::catalogue_provider(&entry.unpack()?)));
    unpacked.collect()
}

/// Explains why a provider is not usable and what to do. Returns nothing for an unknown provider.
pub(crate) fn missing(settings: &Settings, id: &str) -> Option<String> {
    let config = &settings.loaded.config;
    if !is_enabled(config, id) {
        return Some(format!(
            "{id} is switched off by `disabled_providers` or `enabled_providers` in the configuration"
        ));
    }
    if config.provider.contains_key(id) {
        return Some(format!("{id} is configured, but its key, its address or a usable model is missing"));
    }
    if let Some(agent) = known::find(id) {
        return Some(format!(
            "{} is not installed or is switched off; `baton agents` lists the agents that were found",
            agent.name
        ));
    }
    let catalogue = Catalogue::built_in().ok()?;
    let entry = catalogue.entries().find(|entry| entry.id == id)?;
    let variables = match entry.env.as_slice() {
        [] => String::new(),
        names => format!("set {} and restart the server, or ", names.join(" and ")),
    };
    Some(format!("{} has no key: {variables}store one with PUT /auth/{id} or in `auth.json`", entry.name))
}

/// Returns the model for prompts that name none: the configured one, else `best`, else the demo. A configured model that
/// does not exist stays the default: its prompts are refused, because the user did not choose another one.
pub(crate) fn default_model(config: &Config, best: Option<ModelRef>) -> ModelRef {
    match config.model.as_deref().map(|written| written.split_once('/').unwrap_or((written, ""))) {
        Some((provider, model)) => ModelRef::new(provider, model),
        None => best.unwrap_or_else(|| ModelRef::new(demo::PROVIDER, demo::BATON)),
    }
}

/// Finds a model written as `provider/model` among the usable ones.
pub(crate) fn known(written: &str, models: &Models) -> Option<ModelRef> {
    let (provider, model) = written.split_once('/')?;
    models.get(provider)?.knows(model).then(|| ModelRef::new(provider, model))
}

/// Finds a model written as `provider/model` among those of external agents.
pub(crate) fn run_elsewhere(written: &str, external: &[Arc<dyn External>]) -> Option<ModelRef> {
    let (provider, model) = written.split_once('/')?;
    let about = external.iter().map(|external| external.about()).find(|about| about.id == provider)?;
    about.knows(model).then(|| ModelRef::new(provider, model))
}

pub(crate) fn is_enabled(config: &Config, id: &str) -> bool {
    let names = |list: &Vec<String>| list.iter().any(|name| name == id);
    config.enabled_providers.as_ref().is_none_or(names)
        && !config.disabled_providers.as_ref().is_some_and(names)
}

/// Reads a variable from the environment, else from a login that an organisation's site has handed out.
fn read(environment: &Environment, logins: &BTreeMap<String, Login>, name: &str) -> Option<String> {
    let handed_out = || {
        logins.values().find_map(|login| match login {
            Login::WellKnown { key, token } if key == name => Some(token.reveal().to_owned()),
            _ => None,
        })
    };
    environment.text(name).map(str::to_owned).or_else(handed_out).filter(|value| !value.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_usable(base: Provider, config: serde_json::Value, variables: &[(&str, &str)]) -> bool {
        let environment = Environment::of(variables.iter().copied());
        let read = |name: &str| environment.text(name).map(str::to_owned);
        let config = serde_json::from_value(config).unwrap();
        set_up(base, &config, None, &Patch::default(), &read).is_some_and(|(usable, _)| usable.is_some())
    }

    fn acme() -> Provider {
        let mut acme = Provider::named("acme");
        acme.env = vec!["ACME_KEY".into()];
        acme.models = BTreeMap::from([("large".to_owned(), Model::named("large"))]);
        acme
    }

    #[test]
    fn a_provider_is_usable_with_a_key_a_dialect_and_a_model() {
        let key = [("ACME_KEY", "sk-1")];
        assert!(is_usable(acme(), json!({}), &key));
        assert!(!is_usable(acme(), json!({}), &[]));
        assert!(!is_usable(acme(), json!({ "provider": { "acme": { "name": "A" } } }), &[]), "still no key");
        assert!(is_usable(acme(), json!({ "provider": { "acme": { "options": { "apiKey": "k" } } } }), &[]));
        assert!(!is_usable(acme(), json!({ "provider": { "acme": { "whitelist": ["none"] } } }), &key));
        assert!(!is_usable(acme(), json!({ "provider": { "acme": { "npm": "unheard-of" } } }), &key));
        let near =
            json!({ "provider": { "mine": { "options": { "baseURL": "http://localhost:8080/v1" } } } });
        assert!(is_usable(Provider::named("mine"), near, &[]), "no key, and whatever models it has");
    }

    #[test]
    fn variables_that_hold_a_key_are_found_by_value() {
        let environment = Environment::of([
            ("A", "sk-0123456789"),
            ("B", "tok-0123456789"),
            ("C", "short"),
            ("D", "other"),
        ]);
        let mut provider = acme().with_key(Secret::new("sk-0123456789"));
        provider.headers.set("authorization", "Bearer tok-0123456789");
        provider.headers.set("x-feature", "other");
        assert_eq!(holders(&provider, &environment), ["A", "B"]);
    }
}
