//! State shared by all handlers.

use std::sync::Arc;

use engine::Sessions;
use tokio::time::Instant;
use workspace::files::Closed;

use crate::{
    Channels, Instances,
    channels::NoChannels,
    fleet::{self, Forwarding},
    listings::Listings,
    project::Projects,
    remote::Remote,
    terminals::Terminals,
    web::Page,
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
    /// `None` for a server that has its record for itself.
    pub(crate) fleet: Option<Forwarding>,
    pub started: Instant,
}

impl App {
    pub fn new(sessions: Sessions, facts: Facts, instances: Arc<dyn Instances>) -> Self {
        let (facts, projects) = (Arc::new(facts), Projects::default());
        let (terminals, remote, listings, page) = Default::default();
        let channels = Arc::new(NoChannels);
        let started = Instant::now();
        let fleet = None;
        Self {
            sessions,
            facts,
            instances,
            channels,
            projects,
            terminals,
            remote,
            listings,
            page,
            fleet,
            started,
        }
    }

    /// Lets clients read the states of a chat gateway's channels.
    #[must_use]
    pub fn with_channels(self, channels: Arc<dyn Channels>) -> Self {
        Self { channels, ..self }
    }

    /// Makes this server a node of a fleet: it passes calls on to the owner of their workspace. Give
    /// [`App::forwarding`] to the access policy, so that calls of other nodes are accepted.
    #[must_use]
    pub fn with_fleet(self, options: fleet::Options) -> Self {
        let fleet = Forwarding::new(options, self.terminals.tickets());
        Self { fleet: Some(fleet), ..self }
    }

    /// The part of a node that talks to the other nodes.
    pub fn forwarding(&self) -> Option<Forwarding> {
        self.fleet.clone()
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
