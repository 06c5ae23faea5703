//! Which providers can be asked: those of the built-in list that have a key, those that were configured, Ollama
//! on this machine, and the demo.
//!
//! A key is taken from the configuration, else from a plugin, else from `auth.json`, else from the environment. Only
//! providers that have a chance to be used are unpacked.

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

use super::{
    catalog, entry, hidden,
    settings::Settings,
    shaping::{Shape, Shaping},
};

/// Keys that people have for other reasons. Who has one can ask such a provider, but it is not chosen for them,
/// and their commands keep it.
pub(super) const FOR_OTHER_REASONS: [&str; 7] = [
    "AWS_BEARER_TOKEN_BEDROCK",
    "CLOUDFLARE_API_KEY",
    "CLOUDFLARE_API_TOKEN",
    "DATABRICKS_TOKEN",
    "DIGITALOCEAN_ACCESS_TOKEN",
    "GITHUB_TOKEN",
    "GITLAB_TOKEN",
];

type Models = BTreeMap<String, Arc<dyn llm::Model>>;

/// A provider that can be asked.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) provider: Provider,
    pub(super) source: ProviderSource,
    /// Whether it may be chosen for somebody who chose none.
    is_meant: bool,
    /// Whether clients are told about it.
    is_listed: bool,
    /// Who makes its calls, if a plugin does.
    carrier: Option<Arc<dyn Carrier>>,
}

/// All that can be asked, besides the demo.
#[derive(Debug, Default)]
pub(super) struct Providers {
    live: Vec<Live>,
    /// Variables that hold a key.
    pub(super) keys: BTreeSet<String>,
}

/// Finds out who can be asked, with what plugins have said about it.
pub(super) fn find(settings: &Settings, shaping: &Shaping) -> Providers {
    let catalogue = match Catalogue::built_in() {
        Ok(catalogue) => catalogue,
        Err(error) => {
            tracing::error!(%error, "there are no providers");
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
                tracing::warn!(provider = id, %error, "a provider is left out");
                continue;
            }
        };
        let shape = shaping.of(id);
        let Some((live, keys)) = set_up(base, config, logins.get(id), &shape, &read) else { continue };
        found.keys.extend(keys);
        let Some(live) = live else { continue };
        found.keys.extend(holders(&live.provider, &settings.environment));
        if is_enabled(config, id) {
            found.live.push(live);
        }
    }
    found.keys.retain(|name| !FOR_OTHER_REASONS.contains(&name.as_str()));
    // Who was configured, or logged in to, comes before who merely has a key lying about.
    found.live.sort_by_key(|live| match live.source {
        ProviderSource::Config => 0,
        ProviderSource::Api => 1,
        ProviderSource::Env | ProviderSource::Custom => 2,
    });
    found
}

/// A provider with its settings and key, if it can be asked, and the variables that hold its key. Nothing if its
/// configuration makes no sense.
fn set_up(
    base: Provider,
    config: &Config,
    login: Option<&Login>,
    shape: &Shape,
    read: &dyn Fn(&str) -> Option<String>,
) -> Option<(Option<Live>, Vec<String>)> {
    let id = base.id.clone();
    let written = config.provider.get(&id);
    // Who has no models left is not the same as who never listed any and so may have every model.
    let had_models = !base.models.is_empty() || written.is_some_and(|written| !written.models.is_empty());
    let mut provider = shape.opened(shape.listed(base));
    if let Some(limits) = &config.limits {
        let waits = &mut provider.deadlines;
        waits.first_chunk = limits.first_chunk_seconds.map_or(waits.first_chunk, Positive::seconds);
        waits.next_chunk = limits.next_chunk_seconds.map_or(waits.next_chunk, Positive::seconds);
    }
    if let Some(written) = written {
        match read_config(written) {
            Ok(config) => provider = provider.configured(&config),
            Err(error) => {
                tracing::warn!(provider = id, %error, "a provider is left out");
                return None;
            }
        }
    }
    provider = shape.priced(provider);
    match login {
        Some(Login::Api { key, .. }) if provider.key.is_none() && !shape.decides_key() => {
            provider = provider.with_key(Secret::new(key.reveal()));
        }
        Some(Login::Oauth { .. }) if provider.key.is_none() && !shape.is_loaded() => {
            tracing::warn!(provider = id, "no plugin says how its login is used; set a key instead");
        }
        _ => {}
    }
    let source = match login {
        _ if written.is_some() => ProviderSource::Config,
        Some(Login::Api { .. }) if provider.key.is_some() => ProviderSource::Api,
        _ if shape.is_loaded() => ProviderSource::Custom,
        _ => ProviderSource::Env,
    };
    let had_key = provider.key.is_some() || provider.vouched;
    let keys: Vec<String> = provider.key_variables().map(str::to_owned).collect();
    provider = provider.with_environment(&|name| {
        read(name).filter(|_| !(shape.decides_key() && keys.iter().any(|key| key == name)))
    });
    let meant = |name: &&String| read(name).is_some() && !FOR_OTHER_REASONS.contains(&name.as_str());
    let is_meant = written.is_some() || had_key || keys.iter().any(|name| meant(&name));
    let mut models = std::mem::take(&mut provider.models);
    models.retain(|_, model| provider.dialect(model).is_some());
    provider.models = models;
    let speaks =
        !provider.models.is_empty() || (!had_models && provider.dialect(&Model::named("any")).is_some());
    let is_known = written.is_some() || provider.key.is_some() || provider.vouched || id == OLLAMA;
    let is_listed = written.is_some() || id != OLLAMA;
    let live = speaks && is_known && provider.is_usable();
    if !live {
        tracing::debug!(provider = id, "cannot be asked");
    }
    let carrier = shape.carrier();
    Some((live.then_some(Live { provider, source, is_meant, is_listed, carrier }), keys))
}

/// What people have written about a provider.
pub(super) fn read_config(
    written: &protocol::config::ProviderConfig,
) -> Result<catalogue::ProviderConfig, catalogue::ConfigError> {
    catalogue::ProviderConfig::read(&entry::revealed(written))
}

impl Providers {
    /// The best model of the first provider that may be chosen for somebody.
    pub(super) fn default_choice(&self) -> Option<ModelRef> {
        self.listed()
            .filter(|live| live.is_meant)
            .find_map(|live| Some(ModelRef::new(&live.provider.id, &live.provider.default_model()?.id)))
    }

    /// The providers clients are told about.
    pub(super) fn listed(&self) -> impl Iterator<Item = &Live> {
        self.live.iter().filter(|live| live.is_listed)
    }

    /// Ready to be asked, by id. They share their connections.
    pub(super) fn into_models(self, client: &Client) -> Models {
        let ready = |live: Live| {
            let (id, client) = (live.provider.id.clone(), client.clone());
            let client = live.carrier.into_iter().fold(client, Client::through);
            (id, Arc::new(HttpModel::new(client, live.provider)) as Arc<dyn llm::Model>)
        };
        self.live.into_iter().map(ready).collect()
    }
}

/// Variables that hold what a provider is sent in confidence.
fn holders(provider: &Provider, environment: &Environment) -> Vec<String> {
    let headers = provider.headers.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value);
    let secrets = headers.chain(provider.key.as_ref().map(Secret::reveal)).map(ToOwned::to_owned);
    hidden::holding(secrets, environment).collect()
}

/// Providers of the built-in list that cannot be asked now, but could with a key. Unpacks all of them.
pub(super) fn others<'l>(
    config: &Config,
    is_live: impl Fn(&str) -> bool + 'l,
) -> Result<Vec<protocol::provider::Provider>, llm::Error> {
    let catalogue = Catalogue::built_in()?;
    let wanted = catalogue.entries().filter(|entry| !is_live(&entry.id) && is_enabled(config, &entry.id));
    let unpacked = wanted.map(|entry| Ok(catalog::other(&entry.unpack()?)));
    unpacked.collect()
}

/// What a provider that cannot be asked would need; nothing if nobody has heard of it.
pub(super) fn missing(settings: &Settings, id: &str) -> Option<String> {
    let config = &settings.loaded.config;
    if !is_enabled(config, id) {
        return Some(format!(
            "{id} is switched off by `disabled_providers` or `enabled_providers` of the configuration"
        ));
    }
    if config.provider.contains_key(id) {
        return Some(format!("{id} is configured, but has no key, no address or no model that can be asked"));
    }
    if let Some(agent) = known::find(id) {
        return Some(format!(
            "{} is not installed or switched off; `baton agents` shows what was found",
            agent.name
        ));
    }
    let catalogue = Catalogue::built_in().ok()?;
    let entry = catalogue.entries().find(|entry| entry.id == id)?;
    let variables = match entry.env.as_slice() {
        [] => String::new(),
        names => format!("set {} and start the server again, or ", names.join(" and ")),
    };
    Some(format!("{} has no key: {variables}keep one with PUT /auth/{id} or in `auth.json`", entry.name))
}

/// The model for who names none: the configured one, else the best there is, else the demo. A configured model
/// that cannot be asked is not replaced by one of somebody else's.
pub(super) fn default_model(
    config: &Config,
    best: Option<ModelRef>,
    models: &Models,
    external: &[Arc<dyn External>],
) -> ModelRef {
    let demo = ModelRef::new(demo::PROVIDER, demo::BATON);
    let Some(written) = &config.model else { return best.unwrap_or(demo) };
    known(written, models).or_else(|| run_elsewhere(written, external)).unwrap_or_else(|| {
        tracing::warn!(model = written, "the configured model is not known; using {}", catalog::name(&demo));
        demo
    })
}

/// A model that was written as `provider/model`, if it can be asked.
pub(super) fn known(written: &str, models: &Models) -> Option<ModelRef> {
    let (provider, model) = written.split_once('/')?;
    models.get(provider)?.knows(model).then(|| ModelRef::new(provider, model))
}

/// A model that was written as `provider/model`, if somebody else's agent runs it.
pub(super) fn run_elsewhere(written: &str, external: &[Arc<dyn External>]) -> Option<ModelRef> {
    let (provider, model) = written.split_once('/')?;
    let about = external.iter().map(|external| external.about()).find(|about| about.id == provider)?;
    about.knows(model).then(|| ModelRef::new(provider, model))
}

pub(super) fn is_enabled(config: &Config, id: &str) -> bool {
    let names = |list: &Vec<String>| list.iter().any(|name| name == id);
    config.enabled_providers.as_ref().is_none_or(names)
        && !config.disabled_providers.as_ref().is_some_and(names)
}

/// A variable; some organisations' sites hand out what would be in it.
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

    fn is_live(base: Provider, config: serde_json::Value, variables: &[(&str, &str)]) -> bool {
        let environment = Environment::of(variables.iter().copied());
        let read = |name: &str| environment.text(name).map(str::to_owned);
        let config = serde_json::from_value(config).unwrap();
        set_up(base, &config, None, &Shape::default(), &read).is_some_and(|(live, _)| live.is_some())
    }

    fn acme() -> Provider {
        let mut acme = Provider::named("acme");
        acme.env = vec!["ACME_KEY".into()];
        acme.models = BTreeMap::from([("large".to_owned(), Model::named("large"))]);
        acme
    }

    #[test]
    fn a_provider_is_alive_with_a_key_a_dialect_and_a_model() {
        let key = [("ACME_KEY", "sk-1")];
        assert!(is_live(acme(), json!({}), &key));
        assert!(!is_live(acme(), json!({}), &[]));
        assert!(!is_live(acme(), json!({ "provider": { "acme": { "name": "A" } } }), &[]), "still no key");
        assert!(is_live(acme(), json!({ "provider": { "acme": { "options": { "apiKey": "k" } } } }), &[]));
        assert!(!is_live(acme(), json!({ "provider": { "acme": { "whitelist": ["none"] } } }), &key));
        assert!(!is_live(acme(), json!({ "provider": { "acme": { "npm": "unheard-of" } } }), &key));
        let near =
            json!({ "provider": { "mine": { "options": { "baseURL": "http://localhost:8080/v1" } } } });
        assert!(is_live(Provider::named("mine"), near, &[]), "no key, and whatever models it has");
    }

    #[test]
    fn a_key_is_found_wherever_it_came_from() {
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
