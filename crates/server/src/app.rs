//! State shared by all handlers.

use std::sync::Arc;

use engine::Sessions;
use tokio::time::Instant;
use workspace::files::Closed;

use crate::{
    Channels, Instances, channels::NoChannels, listings::Listings, project::Projects, remote::Remote,
    terminals::Terminals, web::Page,
};

/// State of the router; cheap to clone.
#[derive(Debug, Clone)]
pub struct App {
    pub sessions: Sessions,
    /// Facts that do not change while the server runs.
    pub facts: Arc<Facts>,
    /// Providers, agents and configuration of each directory.
    pub instances: Arc<dyn Instances>,
    /// States of chat channels.
    pub(crate) channels: Arc<dyn Channels>,
    /// Finds the project of a directory.
    pub projects: Projects,
    /// Terminals that clients have opened.
    pub terminals: Terminals,
    /// Calls that wait for a client that controls a terminal interface by polling.
    pub(crate) remote: Remote,
    /// Cache of the compressed lists of all providers.
    pub(crate) listings: Listings,
    /// The web page at `/`.
    pub(crate) page: Arc<Page>,
    pub started: Instant,
}

impl App {
    pub fn new(sessions: Sessions, facts: Facts, instances: Arc<dyn Instances>) -> Self {
        let (facts, projects) = (Arc::new(facts), Projects::default());
        let (terminals, remote, listings, page) = Default::default();
        let channels = Arc::new(NoChannels);
        let started = Instant::now();
        Self { sessions, facts, instances, channels, projects, terminals, remote, listings, page, started }
    }

    /// Lets clients read the states of a chat gateway's channels.
    #[must_use]
    pub fn with_channels(self, channels: Arc<dyn Channels>) -> Self {
        Self { channels, ..self }
    }

    /// Serves this page at `/`.
    #[must_use]
    pub fn with_page(self, page: Page) -> Self {
        Self { page: Arc::new(page), ..self }
    }
}

/// Constants of this process that clients can read. The caller of [`App::new`] supplies them, so the server
/// looks up nothing itself.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub version: String,
    /// Home directory of the user.
    pub home: String,
    /// Directory for state.
    pub state: String,
    /// Directory for worktrees that clients create.
    pub worktrees: String,
    /// Paths that no route may read.
    pub closed: Closed,
    /// Directory of the user's configuration.
    pub config_path: String,
    /// The user's shell, if the environment names one.
    pub shell: Option<String>,
    /// Directory in which the server was started, used for calls that name none. Absolute, with links resolved.
    pub directory: String,
}
