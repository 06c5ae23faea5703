//! The models of a provider that is called over HTTP.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};

use crate::catalogue::{self, Provider};
use crate::{Client, Error, EventStream, Model, Request};

/// A provider, ready to be asked.
///
/// ```
/// use llm::{Catalogue, Client, HttpModel, Model, Secret};
///
/// let catalogue = Catalogue::built_in()?;
/// let provider = catalogue.provider("anthropic")?.expect("it is in the list");
/// let model = HttpModel::new(Client::default(), provider.with_key(Secret::new("sk-ant-...")));
/// assert!(model.knows("claude-haiku-4-5"));
/// # Ok::<(), llm::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct HttpModel {
    client: Client,
    provider: Arc<Provider>,
}

impl HttpModel {
    /// The models of a provider. Clients are to be shared.
    pub fn new(client: Client, provider: Provider) -> Self {
        Self { client, provider: Arc::new(provider) }
    }

    /// The provider.
    pub fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Asks the provider which models it has, if it is one that can be asked. Meant for servers on this machine,
    /// whose models are those somebody installed.
    pub async fn installed(&self) -> Result<Vec<String>, Error> {
        match self.provider.endpoint() {
            Some(endpoint) => self.client.list(&endpoint).await,
            None => Ok(Vec::new()),
        }
    }
}

impl Model for HttpModel {
    fn knows(&self, model: &str) -> bool {
        self.provider.knows(model)
    }

    fn about(&self, model: &str) -> Option<&catalogue::Model> {
        self.provider.models.get(model)
    }

    fn stream(&self, request: Request) -> BoxFuture<'static, Result<EventStream, Error>> {
        let Self { client, provider } = self.clone();
        async move {
            let aim = provider.aim(&request)?;
            let request = Request { sampling: aim.sampling, ..request };
            let call = aim.dialect.encode(&request, &aim.target);
            let step = request.messages.len();
            drop(request);
            client.stream(&aim.endpoint, aim.dialect, &call, step).await
        }
        .boxed()
    }
}
