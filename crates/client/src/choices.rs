//! Calls about models, agents, trust, chat channels and changed files.

use std::collections::BTreeMap;

use protocol::{
    Extra, SessionId,
    agent::Agent,
    channel::Channel,
    diagnostic::Diagnostic,
    fleet::{FleetNode, FleetWorkspace},
    message::ModelRef,
    project::FileDiff,
    provider::ProviderSource,
    trust::Trust,
};
use reqwest::Method;
use serde::{Deserialize, de::IgnoredAny};

use crate::{CALL_TIMEOUT, Client, Error, connection::answer};

/// The part of the provider list that is read, because servers differ in the rest.
#[derive(Deserialize)]
struct Providers {
    providers: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    id: String,
    #[serde(default)]
    source: Option<ProviderSource>,
    #[serde(default)]
    env: Vec<String>,
    #[expect(clippy::zero_sized_map_values, reason = "only the names are read")]
    #[serde(default)]
    models: BTreeMap<String, IgnoredAny>,
}

/// A provider that can be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    pub id: String,
    /// Source of its key, if the server reports it.
    pub source: Option<ProviderSource>,
    /// Names of the variables that may hold its key.
    pub variables: Vec<String>,
    /// Ids of its models.
    pub models: Vec<String>,
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

    /// The nodes that share the server's database; empty if it is no node. Baton only.
    pub async fn nodes(&self) -> Result<Vec<FleetNode>, Error> {
        self.get(&["baton", "nodes"]).await
    }

    /// The directories of all nodes that share the server's database. Baton only.
    pub async fn workspaces(&self) -> Result<Vec<FleetWorkspace>, Error> {
        self.get(&["baton", "workspaces"]).await
    }

    /// Lets a node take no new sessions and prompts. Baton only.
    pub async fn drain_node(&self, node: &str) -> Result<bool, Error> {
        self.post(&["baton", "nodes", node, "drain"], &Extra::new()).await
    }

    /// Lets a drained node take new work again. Baton only.
    pub async fn resume_node(&self, node: &str) -> Result<bool, Error> {
        self.post(&["baton", "nodes", node, "resume"], &Extra::new()).await
    }

    /// Warnings about the directory's configuration. Baton only.
    pub async fn diagnostics(&self) -> Result<Vec<Diagnostic>, Error> {
        self.get(&["config", "diagnostics"]).await
    }

    /// The available models.
    pub async fn models(&self) -> Result<Vec<ModelRef>, Error> {
        let providers = self.providers().await?;
        let models = providers.iter().flat_map(|provider| {
            provider.models.iter().map(|model| ModelRef::new(provider.id.as_str(), model.as_str()))
        });
        Ok(models.collect())
    }

    /// The providers that can be called, with their models.
    pub async fn providers(&self) -> Result<Vec<Provider>, Error> {
        let list: Providers = self.get(&["config", "providers"]).await?;
        let read = |listed: Listed| Provider {
            id: listed.id,
            source: listed.source,
            variables: listed.env,
            models: listed.models.into_keys().collect(),
        };
        Ok(list.providers.into_iter().map(read).collect())
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_warning_is_one_line_with_its_place() {
        let shown = |value| serde_json::from_value::<Diagnostic>(value).unwrap().to_string();
        assert_eq!(shown(json!({ "kind": "mcp", "message": "gone" })), "gone");
        let placed =
            json!({ "kind": "config", "message": "unknown", "source": "/p/a.json", "line": 2, "column": 5 });
        assert_eq!(shown(placed), "/p/a.json:2:5: unknown");
    }

    #[test]
    fn a_provider_of_another_server_may_lack_fields() {
        let list =
            json!({ "providers": [{ "id": "acme" }, { "id": "b", "source": "env", "env": ["B_KEY"] }] });
        let list: Providers = serde_json::from_value(list).unwrap();
        assert_eq!(
            list.providers.iter().map(|it| it.source).collect::<Vec<_>>(),
            [None, Some(ProviderSource::Env)]
        );
    }
}
