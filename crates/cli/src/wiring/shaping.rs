//! What plugins make of providers: which models there are, and how a login is used.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use ::plugins::host::{Fetch, Host, Loaded, Unmade};
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

use super::{catalog, providers, settings::Settings};

/// How long plugins may think about one provider. Together with what loading them may take it is less than a setup may.
const PATIENCE: Duration = Duration::from_secs(8);

/// What plugins have said, by provider.
#[derive(Debug, Default)]
pub(super) struct Shaping(BTreeMap<String, Shape>);

/// What plugins have said about one provider.
#[derive(Debug, Clone, Default)]
pub(super) struct Shape {
    /// Its models, if they are others than those of the built-in list.
    models: Option<Value>,
    /// How its login is used, in the order in which it was said.
    loaded: Vec<Loaded>,
}

impl Shaping {
    /// Lets plugins say what they have to about providers that could be used.
    pub(super) async fn ask(host: &Host, settings: &Settings) -> Self {
        let (listed, loadable) = (host.listed(), host.loadable());
        let ids: BTreeSet<&String> = listed.union(&loadable).collect();
        if ids.is_empty() {
            return Self::default();
        }
        let catalogue = match Catalogue::built_in() {
            Ok(catalogue) => catalogue,
            Err(error) => {
                tracing::error!(%error, "there are no providers");
                return Self::default();
            }
        };
        let config = &settings.loaded.config;
        let wanted = ids.into_iter().filter(|id| providers::is_enabled(config, id));
        let shapes = wanted.map(|id| Shape::ask(host, settings, &catalogue, id));
        Self(join_all(shapes).await.into_iter().flatten().collect())
    }

    /// What they have said about a provider.
    pub(super) fn of(&self, id: &str) -> Shape {
        self.0.get(id).cloned().unwrap_or_default()
    }
}

impl Shape {
    async fn ask(
        host: &Host,
        settings: &Settings,
        catalogue: &Catalogue,
        id: &str,
    ) -> Option<(String, Self)> {
        let began = tokio::time::Instant::now();
        let known = catalogue.provider(id).ok()?;
        let login = settings.logins.get(id).map(auth::spelled);
        let mut shape = Self::default();
        // As in OpenCode, only models of providers that are in the list can be listed anew.
        if let Some(provider) = &known {
            let shown = shown(&catalog::other(provider));
            shape.models = host.models(shown, login.as_ref(), PATIENCE).await;
        }
        let written = settings.loaded.config.provider.get(id);
        if login.is_some() && (known.is_some() || written.is_some()) {
            let provider = shape.listed(known.unwrap_or_else(|| Provider::named(id)));
            let provider = match written.map(providers::read_config) {
                Some(Ok(config)) => provider.configured(&config),
                // Whatever is wrong with it is told where the provider is set up.
                Some(Err(_)) => return None,
                None => provider,
            };
            let source = if written.is_some() { ProviderSource::Config } else { ProviderSource::Custom };
            let config = redacted(&settings.loaded.config);
            let left = PATIENCE.saturating_sub(began.elapsed());
            shape.loaded = host.load(&shown(&catalog::shown(&provider, source, &config)), left).await;
        }
        Some((id.to_owned(), shape))
    }

    /// Whether anybody has said how a login is used.
    pub(super) fn is_loaded(&self) -> bool {
        !self.loaded.is_empty()
    }

    /// Whether somebody has said what the key is, even if that is nothing.
    pub(super) fn decides_key(&self) -> bool {
        self.loaded.iter().any(|loaded| loaded.options.get("apiKey").is_some())
    }

    /// The provider with the models that plugins have listed.
    pub(super) fn listed(&self, provider: Provider) -> Provider {
        match &self.models {
            Some(models) => kept(provider, "models", |provider| provider.listing(models)),
            None => provider,
        }
    }

    /// The provider with the options that plugins have given it. What people have configured counts more.
    pub(super) fn opened(&self, mut provider: Provider) -> Provider {
        provider.vouched = self.is_loaded();
        self.loaded.iter().fold(provider, |provider, loaded| {
            let entry = json!({ "options": loaded.options });
            kept(provider, "options", |provider| Ok(provider.configured(&ProviderConfig::read(&entry)?)))
        })
    }

    /// The provider with the prices that plugins have left.
    pub(super) fn priced(&self, provider: Provider) -> Provider {
        self.loaded.iter().fold(provider, |provider, loaded| {
            let costs = Value::Object(loaded.costs.clone());
            kept(provider, "prices", |provider| provider.priced(&costs))
        })
    }

    /// Who makes calls, if a plugin does.
    pub(super) fn carrier(&self) -> Option<Arc<dyn Carrier>> {
        let fetch = self.loaded.iter().rev().find_map(|loaded| loaded.fetch.clone())?;
        Some(Arc::new(Bridge(fetch)))
    }
}

/// A provider as it is after a change, or as it was if the change makes no sense.
fn kept(
    provider: Provider,
    what: &str,
    change: impl FnOnce(Provider) -> Result<Provider, llm::catalogue::ConfigError>,
) -> Provider {
    let before = provider.clone();
    change(provider).unwrap_or_else(|error| {
        tracing::warn!(provider = before.id, %error, "what a plugin says about {what} does not fit");
        before
    })
}

/// A provider as plugins are shown it.
fn shown(provider: &protocol::provider::Provider) -> Value {
    serde_json::to_value(provider).unwrap_or_else(|_| Value::Object(Map::new()))
}

/// Calls that a plugin makes.
struct Bridge(Fetch);

impl Carrier for Bridge {
    fn carry(&self, call: Carried) -> BoxFuture<'static, Result<Reply, Error>> {
        let fetch = self.0.clone();
        async move {
            let headers =
                call.headers.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
            let answer = fetch.call(&call.url, &headers, &call.body).await.map_err(unmade)?;
            let pieces = stream::unfold(answer.body, |mut body| async {
                let piece = body.next().await?;
                // Whatever ended it, it is a connection that was lost, and worth another try.
                Some((piece.map(Into::into).map_err(|_| Error::Dropped), body))
            });
            Ok(Reply { status: answer.status, headers: answer.headers, body: pieces.boxed() })
        }
        .boxed()
    }
}

fn unmade(unmade: Unmade) -> Error {
    match unmade {
        Unmade::Gone | Unmade::Network(_) => Error::Connect(unmade.to_string()),
        Unmade::Refused(why) => Error::Other(format!("a plugin could not make the call: {why}")),
    }
}

impl fmt::Debug for Bridge {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}
