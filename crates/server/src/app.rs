//! What every handler can reach.

use std::{collections::BTreeMap, sync::Arc};

use engine::Sessions;
use protocol::{agent::Agent, provider::Provider};
use serde_json::Value;
use tokio::time::Instant;

use crate::project::Projects;

/// The state of the router; cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    /// The engine.
    pub sessions: Sessions,
    /// What does not change while the server runs.
    pub facts: Arc<Facts>,
    /// Which project a directory belongs to.
    pub projects: Projects,
    /// When the server started.
    pub started: Instant,
}

impl App {
    /// A server on an engine.
    pub fn new(sessions: Sessions, facts: Facts) -> Self {
        Self { sessions, facts: Arc::new(facts), projects: Projects::default(), started: Instant::now() }
    }
}

/// What the wiring knows and clients ask for. Plain data: the server looks nothing up itself.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The server's version.
    pub version: String,
    /// Providers that can be used.
    pub providers: Vec<Provider>,
    /// The model to use first, by provider.
    pub default_models: BTreeMap<String, String>,
    /// Agents that can be chosen.
    pub agents: Vec<Agent>,
    /// The merged configuration as clients may see it, without secrets.
    pub config: Value,
    /// The user's home.
    pub home: String,
    /// Where state is kept.
    pub state: String,
    /// Where configuration is kept.
    pub config_path: String,
    /// Where the server was started: the directory of calls that name none. Absolute, with links followed.
    pub directory: String,
}
