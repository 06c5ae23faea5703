//! Calls about models, agents, trust, chat channels and changed files.

use std::collections::BTreeMap;

use protocol::{
    Extra, SessionId, agent::Agent, channel::Channel, message::ModelRef, project::FileDiff, trust::Trust,
};
use reqwest::Method;
use serde::{Deserialize, de::IgnoredAny};

use crate::{CALL_TIMEOUT, Client, Error, connection::answer};

/// The part of the provider list that is read: names only, because servers differ in the rest.
#[derive(Deserialize)]
struct Providers {
    providers: Vec<Provider>,
}

#[derive(Deserialize)]
struct Provider {
    id: String,
    #[expect(clippy::zero_sized_map_values, reason = "only the names are read")]
    #[serde(default)]
    models: BTreeMap<String, IgnoredAny>,
}

impl Client {
    /// The directory's trust, and the parts of its configuration that are withheld. Baton only.
    pub async fn trust(&self) -> Result<Trust, Error> {
        self.get(&["trust"]).await
    }

    /// Trusts the directory and everything below it. Baton only.
    pub async fn grant_trust(&self) -> Result<Trust, Error> {
        self.post(&["trust"], &Extra::new()).await
    }

    /// Revokes the trust in the directory. Baton only.
    pub async fn revoke_trust(&self) -> Result<Trust, Error> {
        answer(self.request(Method::DELETE, &["trust"]).timeout(CALL_TIMEOUT)).await
    }

    /// The chat channels of the gateway that shares the server's data directory. Baton only.
    pub async fn channels(&self) -> Result<Vec<Channel>, Error> {
        self.get(&["channel"]).await
    }

    /// The available models.
    pub async fn models(&self) -> Result<Vec<ModelRef>, Error> {
        let list: Providers = self.get(&["config", "providers"]).await?;
        let models = list.providers.iter().flat_map(|provider| {
            provider.models.keys().map(|model| ModelRef::new(provider.id.as_str(), model.as_str()))
        });
        Ok(models.collect())
    }

    /// All agents, including hidden ones and subagents.
    pub async fn agents(&self) -> Result<Vec<Agent>, Error> {
        self.get(&["agent"]).await
    }

    /// The changes of a session, by file.
    pub async fn diff(&self, id: &SessionId) -> Result<Vec<FileDiff>, Error> {
        self.get(&["session", id.as_str(), "diff"]).await
    }
}
