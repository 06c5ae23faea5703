//! What can be chosen for a session, and what it has changed.

use std::collections::BTreeMap;

use protocol::{SessionId, agent::Agent, message::ModelRef, project::FileDiff};
use serde::{Deserialize, de::IgnoredAny};

use crate::{Client, Error};

/// What is read of the list of providers: names, and nothing that servers spell differently.
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
    /// The models that can be asked.
    pub async fn models(&self) -> Result<Vec<ModelRef>, Error> {
        let list: Providers = self.get(&["config", "providers"]).await?;
        let models = list.providers.iter().flat_map(|provider| {
            provider.models.keys().map(|model| ModelRef::new(provider.id.as_str(), model.as_str()))
        });
        Ok(models.collect())
    }

    /// The agents that there are, hidden ones and subagents included.
    pub async fn agents(&self) -> Result<Vec<Agent>, Error> {
        self.get(&["agent"]).await
    }

    /// What a session has changed, file by file.
    pub async fn diff(&self, id: &SessionId) -> Result<Vec<FileDiff>, Error> {
        self.get(&["session", id.as_str(), "diff"]).await
    }
}
