//! Decides whether one provider is usable, and with which key.

use std::sync::Arc;

use llm::{
    Carrier, Deadlines, Secret,
    catalogue::{ConfigError, Model, OLLAMA, Provider},
};
use protocol::{
    config::{Config, ProviderConfig},
    login::Login,
    provider::ProviderSource,
};

use super::SHARED_KEYS;
use crate::{patches::Patch, revealed::revealed};

/// A provider that can be called.
#[derive(Debug)]
pub(crate) struct Usable {
    pub(crate) provider: Provider,
    pub(crate) source: ProviderSource,
    /// True if its model may be the default model.
    pub(super) is_default_candidate: bool,
    /// True if clients list it.
    pub(super) is_listed: bool,
    /// The plugin that makes the calls, if one does.
    pub(super) carrier: Option<Arc<dyn Carrier>>,
}

/// The inputs that decide about one provider.
pub(super) struct Inputs<'a> {
    pub(super) config: &'a Config,
    pub(super) deadlines: Deadlines,
    pub(super) login: Option<&'a Login>,
    pub(super) patch: &'a Patch,
    /// Reads a variable of the environment.
    pub(super) read: &'a dyn Fn(&str) -> Option<String>,
}

impl Inputs<'_> {
    /// Applies patches, configuration and key to a provider. Returns the provider if it is usable, and the variables that
    /// may hold its key. Fails if the configuration is invalid.
    pub(super) fn decide(&self, base: Provider) -> Result<(Option<Usable>, Vec<String>), ConfigError> {
        let id = base.id.clone();
        let written = self.config.provider.get(&id);
        // A provider whose models were all filtered out is unusable; one that never listed any accepts every model.
        let had_models = !base.models.is_empty() || written.is_some_and(|written| !written.models.is_empty());
        let provider = self.with_login(self.configured(base, written)?);
        let source = self.source(&provider, written.is_some());
        let keys: Vec<String> = provider.key_variables().map(str::to_owned).collect();
        let has_key = written.is_some() || provider.key.is_some() || provider.vouched;
        let is_default_candidate = has_key || keys.iter().any(|name| self.is_own_key(name));
        let provider = with_supported_models(self.with_environment(provider, &keys));
        let has_models =
            !provider.models.is_empty() || (!had_models && provider.dialect(&Model::named("any")).is_some());
        let has_key = written.is_some() || provider.key.is_some() || provider.vouched || id == OLLAMA;
        let is_usable = has_models && has_key && provider.is_usable();
        if !is_usable {
            tracing::debug!(provider = id, "provider is not usable");
        }
        let is_listed = written.is_some() || id != OLLAMA;
        let carrier = self.patch.carrier();
        let usable = Usable { provider, source, is_default_candidate, is_listed, carrier };
        Ok((is_usable.then_some(usable), keys))
    }

    fn configured(&self, base: Provider, written: Option<&ProviderConfig>) -> Result<Provider, ConfigError> {
        let mut provider = self.patch.opened(self.patch.listed(base));
        // Timeouts in the provider's own configuration replace these.
        provider.deadlines = self.deadlines;
        if let Some(written) = written {
            provider = provider.configured(&revealed(written))?;
        }
        Ok(self.patch.priced(provider))
    }

    fn with_login(&self, provider: Provider) -> Provider {
        match self.login {
            Some(Login::Api { key, .. }) if provider.key.is_none() && !self.patch.decides_key() => {
                provider.with_key(Secret::new(key.reveal()))
            }
            Some(Login::Oauth { .. }) if provider.key.is_none() && !self.patch.is_loaded() => {
                let id = &provider.id;
                tracing::warn!(
                    provider = id,
                    "no plugin handles the login of this provider; set a key instead"
                );
                provider
            }
            _ => provider,
        }
    }

    fn source(&self, provider: &Provider, is_configured: bool) -> ProviderSource {
        match self.login {
            _ if is_configured => ProviderSource::Config,
            Some(Login::Api { .. }) if provider.key.is_some() => ProviderSource::Api,
            _ if self.patch.is_loaded() => ProviderSource::Custom,
            _ => ProviderSource::Env,
        }
    }

    /// Takes the key and other settings from the environment, except a key that a plugin decides.
    fn with_environment(&self, provider: Provider, keys: &[String]) -> Provider {
        let is_decided = |name: &str| self.patch.decides_key() && keys.iter().any(|key| key == name);
        provider.with_environment(&|name| (self.read)(name).filter(|_| !is_decided(name)))
    }

    /// Returns true for a variable that is set and serves no other purpose than to hold this key.
    fn is_own_key(&self, name: &str) -> bool {
        (self.read)(name).is_some() && !SHARED_KEYS.contains(&name)
    }
}

/// Removes the models whose dialect Baton does not speak.
fn with_supported_models(mut provider: Provider) -> Provider {
    let mut models = std::mem::take(&mut provider.models);
    models.retain(|_, model| provider.dialect(model).is_some());
    provider.models = models;
    provider
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;
    use store::files::Environment;

    use super::*;

    fn is_usable(base: Provider, config: serde_json::Value, variables: &[(&str, &str)]) -> bool {
        let environment = Environment::of(variables.iter().copied());
        let inputs = Inputs {
            config: &serde_json::from_value(config).unwrap(),
            deadlines: Deadlines::default(),
            login: None,
            patch: &Patch::default(),
            read: &|name| environment.text(name).map(str::to_owned),
        };
        inputs.decide(base).is_ok_and(|(usable, _)| usable.is_some())
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
        assert!(is_usable(Provider::named("mine"), near, &[]), "no key, and every model");
    }
}
