//! What every handler can reach.

use std::sync::Arc;

use engine::Sessions;
use tokio::time::Instant;
use workspace::files::Closed;

use crate::{Instances, listings::Listings, project::Projects, remote::Remote, terminals::Terminals};

/// The state of the router; cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    /// The engine.
    pub sessions: Sessions,
    /// What does not change while the server runs.
    pub facts: Arc<Facts>,
    /// What there is in each directory.
    pub instances: Arc<dyn Instances>,
    /// Which project a directory belongs to.
    pub projects: Projects,
    /// Terminals that clients have opened.
    pub terminals: Terminals,
    /// Calls for whoever controls a terminal interface by asking for them.
    pub(crate) remote: Remote,
    /// Lists of all providers.
    pub(crate) listings: Listings,
    /// When the server started.
    pub started: Instant,
}

impl App {
    /// A server on an engine.
    pub fn new(sessions: Sessions, facts: Facts, instances: Arc<dyn Instances>) -> Self {
        let (facts, projects) = (Arc::new(facts), Projects::default());
        let (terminals, remote, listings) = Default::default();
        Self { sessions, facts, instances, projects, terminals, remote, listings, started: Instant::now() }
    }
}

/// What the wiring knows and clients ask for. Plain data: the server looks nothing up itself.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The server's version.
    pub version: String,
    /// The user's home.
    pub home: String,
    /// Where state is kept.
    pub state: String,
    /// Where worktrees are made that clients ask for.
    pub worktrees: String,
    /// What no route shows.
    pub closed: Closed,
    /// Where configuration is kept.
    pub config_path: String,
    /// The person's shell, if they have said which.
    pub shell: Option<String>,
    /// Where the server was started: the directory of calls that name none. Absolute, with links followed.
    pub directory: String,
}
