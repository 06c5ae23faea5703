//! The providers that can be called: those of the built-in catalogue that have a key, configured ones, and Ollama on this
//! machine.
//!
//! A key comes from the configuration, else from a plugin, else from `auth.json`, else from the environment. Catalogue
//! entries are compressed, so only those that may be used are unpacked.

mod usable;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use drivers::roster::External;
use llm::{
    Catalogue, Client, HttpModel, Secret,
    catalogue::{self, OLLAMA, Provider},
    demo,
};
use protocol::{
    config::Config,
    diagnostic::{Diagnostic, DiagnosticKind},
    login::Login,
    message::ModelRef,
    provider::ProviderSource,
    secret::is_secret,
};
use store::files::Environment;

use crate::{external, hidden, listing, patches::Patches, settings::Settings};
use usable::Inputs;
pub(crate) use usable::Usable;

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

pub(crate) type Models = BTreeMap<String, Arc<dyn llm::Model>>;

/// All usable providers except the demo.
#[derive(Debug, Default)]
pub(crate) struct Providers {
    usable: Vec<Usable>,
    /// Variables that hold a key of a provider.
    pub(crate) keys: BTreeSet<String>,
    /// A warning for each provider that cannot be used because of its configuration.
    pub(crate) warnings: Vec<Diagnostic>,
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
    for id in candidates(&catalogue, settings, &read) {
        let Some(base) = base(&catalogue, id) else { continue };
        let inputs = Inputs {
            config,
            deadlines: settings.resolved.deadlines,
            login: logins.get(id),
            patch: &patches.of(id),
            read: &read,
        };
        let (usable, keys) = match inputs.decide(base) {
            Ok(decided) => decided,
            Err(error) => {
                found.warnings.push(unusable(id, &error));
                continue;
            }
        };
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

/// Returns the warning about a provider whose configuration is invalid.
fn unusable(id: &str, error: &catalogue::ConfigError) -> Diagnostic {
    let message = format!("cannot use the provider `{id}`; leaving it out: {error}");
    Diagnostic::new(DiagnosticKind::Config, message).at_key(format!("provider.{id}"))
}

/// Returns the providers that have a configuration, a login or a key, and Ollama.
fn candidates<'a>(
    catalogue: &'a Catalogue,
    settings: &'a Settings,
    read: &dyn Fn(&str) -> Option<String>,
) -> Vec<&'a str> {
    let (config, logins) = (&settings.loaded.config, &settings.logins);
    let listed = catalogue.entries().filter(|entry| {
        config.provider.contains_key(&entry.id)
            || logins.contains_key(&entry.id)
            || entry.env.iter().any(|name| read(name).is_some())
    });
    let mut ids: Vec<&str> = listed.map(|entry| entry.id.as_str()).collect();
    let configured = config.provider.keys().map(String::as_str);
    for id in configured.chain([OLLAMA]) {
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    ids.retain(|id| *id != demo::PROVIDER);
    ids
}

/// Unpacks a provider of the catalogue, or creates one that is only configured.
fn base(catalogue: &Catalogue, id: &str) -> Option<Provider> {
    match catalogue.provider(id) {
        Ok(Some(provider)) => Some(provider),
        Ok(None) if id == OLLAMA => Some(Provider::ollama()),
        Ok(None) => Some(Provider::named(id)),
        Err(error) => {
            tracing::warn!(provider = id, %error, "cannot use a provider; leaving it out");
            None
        }
    }
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

/// Explains why an external agent cannot be used. Returns nothing for a provider of another kind.
fn missing_agent(settings: &Settings, id: &str) -> Option<String> {
    let candidates = external::candidates(&settings.environment, &settings.loaded.config).ok()?;
    let agent = candidates.iter().find(|candidate| candidate.id == id)?;
    Some(match &agent.not_executable {
        _ if !agent.is_enabled() => {
            format!("{} is switched off by `enabled` in the configuration", agent.name)
        }
        Some(file) => {
            format!("{} cannot be started, because `{}` is not executable", agent.name, file.display())
        }
        None => {
            format!("{} is not installed; `baton agents` lists the agents that were found", agent.name)
        }
    })
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
    if let Some(reason) = missing_agent(settings, id) {
        return Some(reason);
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
    use super::*;

    #[test]
    fn variables_that_hold_a_key_are_found_by_value() {
        let environment = Environment::of([
            ("A", "sk-0123456789"),
            ("B", "tok-0123456789"),
            ("C", "short"),
            ("D", "other"),
        ]);
        let mut provider = Provider::named("acme").with_key(Secret::new("sk-0123456789"));
        provider.headers.set("authorization", "Bearer tok-0123456789");
        provider.headers.set("x-feature", "other");
        assert_eq!(holders(&provider, &environment), ["A", "B"]);
    }
}
