//! Models of a provider that is called over HTTP.

use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};

use crate::catalogue::{self, Provider};
use crate::{Client, Error, EventStream, Model, Request};

/// A provider with a client.
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
    /// Models of a provider. The client should be shared.
    pub fn new(client: Client, provider: Provider) -> Self {
        Self { client, provider: Arc::new(provider) }
    }

    pub fn provider(&self) -> &Provider {
        &self.provider
    }

    /// Lists the provider's models, if it supports that. Meant for servers on this machine, whose models are
    /// those that the user installed.
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
