//! Changes that plugins make to providers: their models, options, prices, and who calls them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use ::plugins::host::{Fetch, FetchError, Host, Loaded};
use futures::{
    future::{BoxFuture, FutureExt, join_all},
    stream::{self, StreamExt},
};
use llm::{
    Carried, Carrier, Catalogue, Error, Reply,
    catalogue::{Provider, ProviderConfig},
};
use protocol::provider::ProviderSource;
use serde_json::{Map, Value, json};
use store::files::{auth, redacted};

use crate::{listing, providers, settings::Settings};

/// Plugins may take this long for one provider. Together with the time to load plugins it is below the time to build a
/// project.
const TIMEOUT: Duration = Duration::from_secs(8);

/// The patches of plugins, by provider.
#[derive(Debug, Default)]
pub(crate) struct Patches(BTreeMap<String, Patch>);

/// The patches of plugins to one provider.
#[derive(Debug, Clone, Default)]
pub(crate) struct Patch {
    /// A replacement for the models of the built-in catalogue.
    models: Option<Value>,
    /// Results of `auth.loader`, in the order of the plugins.
    loaded: Vec<Loaded>,
}

impl Patches {
    /// Asks plugins about the providers that are enabled.
    pub(crate) async fn ask(host: &Host, settings: &Settings) -> Self {
        let (listed, loadable) = (host.listed(), host.loadable());
        let ids: BTreeSet<&String> = listed.union(&loadable).collect();
        if ids.is_empty() {
            return Self::default();
        }
        let catalogue = match Catalogue::built_in() {
            Ok(catalogue) => catalogue,
            Err(error) => {
                tracing::error!(%error, "cannot read the built-in catalogue of providers");
                return Self::default();
            }
        };
        let config = &settings.loaded.config;
        let wanted = ids.into_iter().filter(|id| providers::is_enabled(config, id));
        let patches = wanted.map(|id| Patch::ask(host, settings, &catalogue, id));
        Self(join_all(patches).await.into_iter().flatten().collect())
    }

    pub(crate) fn of(&self, id: &str) -> Patch {
        self.0.get(id).cloned().unwrap_or_default()
    }
}

impl Patch {
    async fn ask(
        host: &Host,
        settings: &Settings,
        catalogue: &Catalogue,
        id: &str,
    ) -> Option<(String, Self)> {
        let began = tokio::time::Instant::now();
        let known = catalogue.provider(id).ok()?;
        let login = settings.logins.get(id).map(auth::spelled);
        let mut patch = Self::default();
        // As in OpenCode, plugins can replace the models of catalogue providers only.
        if let Some(provider) = &known {
            let shown = shown(&listing::catalogue_provider(provider));
            patch.models = host.models(shown, login.as_ref(), TIMEOUT).await;
        }
        let written = settings.loaded.config.provider.get(id);
        if login.is_some() && (known.is_some() || written.is_some()) {
            let provider = patch.listed(known.unwrap_or_else(|| Provider::named(id)));
            let provider = match written.map(providers::read_config) {
                Some(Ok(config)) => provider.configured(&config),
                // `providers::find` reports the mistake.
                Some(Err(_)) => return None,
                None => provider,
            };
            let source = if written.is_some() { ProviderSource::Config } else { ProviderSource::Custom };
            let config = redacted(&settings.loaded.config);
            let left = TIMEOUT.saturating_sub(began.elapsed());
            patch.loaded = host.load(&shown(&listing::provider(&provider, source, &config)), left).await;
        }
        Some((id.to_owned(), patch))
    }

    /// Returns true if a plugin handles the provider's login.
    pub(crate) fn is_loaded(&self) -> bool {
        !self.loaded.is_empty()
    }

    /// Returns true if a plugin decides the key, even if it decides that there is none.
    pub(crate) fn decides_key(&self) -> bool {
        self.loaded.iter().any(|loaded| loaded.options.get("apiKey").is_some())
    }

    /// Replaces the provider's models by those of plugins.
    pub(crate) fn listed(&self, provider: Provider) -> Provider {
        match &self.models {
            Some(models) => changed_or_same(provider, "models", |provider| provider.listing(models)),
            None => provider,
        }
    }

    /// Adds the options of plugins. The configuration is applied later and overrides them.
    pub(crate) fn opened(&self, mut provider: Provider) -> Provider {
        provider.vouched = self.is_loaded();
        self.loaded.iter().fold(provider, |provider, loaded| {
            let entry = json!({ "options": loaded.options });
            changed_or_same(provider, "options", |provider| {
                Ok(provider.configured(&ProviderConfig::read(&entry)?))
            })
        })
    }

    /// Replaces the prices that plugins have changed.
    pub(crate) fn priced(&self, provider: Provider) -> Provider {
        self.loaded.iter().fold(provider, |provider, loaded| {
            let costs = Value::Object(loaded.costs.clone());
            changed_or_same(provider, "prices", |provider| provider.priced(&costs))
        })
    }

    /// Returns the plugin's `fetch`, if a plugin makes the calls to the provider.
    pub(crate) fn carrier(&self) -> Option<Arc<dyn Carrier>> {
        let fetch = self.loaded.iter().rev().find_map(|loaded| loaded.fetch.clone())?;
        Some(Arc::new(PluginCarrier(fetch)))
    }
}

/// Applies a change to a provider, or returns the provider unchanged if the change is invalid.
fn changed_or_same(
    provider: Provider,
    what: &str,
    change: impl FnOnce(Provider) -> Result<Provider, llm::catalogue::ConfigError>,
) -> Provider {
    let before = provider.clone();
    change(provider).unwrap_or_else(|error| {
        tracing::warn!(provider = before.id, %error, "ignoring invalid {what} from a plugin");
        before
    })
}

/// Returns the provider as JSON, for plugins.
fn shown(provider: &protocol::provider::Provider) -> Value {
    serde_json::to_value(provider).unwrap_or_else(|_| Value::Object(Map::new()))
}

/// Sends calls to a provider through a plugin's `fetch`.
struct PluginCarrier(Fetch);

impl Carrier for PluginCarrier {
    fn carry(&self, call: Carried) -> BoxFuture<'static, Result<Reply, Error>> {
        let fetch = self.0.clone();
        async move {
            let headers =
                call.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let answer = fetch.call(&call.url, &headers, &call.body).await.map_err(unmade)?;
            let pieces = stream::unfold(answer.body, |mut body| async {
                let piece = body.next().await?;
                // Every early end is treated as a lost connection, which the caller retries.
                Some((piece.map(Into::into).map_err(|_| Error::Dropped), body))
            });
            Ok(Reply { status: answer.status, headers: answer.headers, body: pieces.boxed() })
        }
        .boxed()
    }
}

fn unmade(unmade: FetchError) -> Error {
    match unmade {
        FetchError::Gone | FetchError::Network(_) => Error::Connect(unmade.to_string()),
        FetchError::Refused(why) => Error::Other(format!("a plugin could not make the call: {why}")),
    }
}

impl fmt::Debug for PluginCarrier {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}
