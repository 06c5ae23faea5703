//! Services that every directory of a server shares: connections, snapshots, the bus, the clock.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::{Duration, UNIX_EPOCH},
};

use drivers::external::IdlePool;
use engine::{
    bus::Bus,
    mint::Mint,
    ports::{Clock, Random, Reads},
};
use llm::{Client, demo::Demo};
use store::files::{Environment, Places};
use supervision::Snapshots;
use workspace::{
    files::Closed,
    output::{OutputDirectory, RETENTION},
};

use crate::{announcer::Announcer, closed::closed, wakes::Wakes};

/// The directory below the data directory in which the worktrees are made that clients ask for.
pub const WORKTREES: &str = "worktrees";

/// The directory below the data directory that keeps complete tool outputs.
pub(crate) const OUTPUTS: &str = "tool-output";

/// The directory below the data directory that keeps the snapshots of worktrees.
const SNAPSHOTS: &str = "snapshot";

/// The values from which [`Services`] are built.
pub struct Options {
    /// The environment from which configuration and keys are read.
    pub environment: Environment,
    pub places: Places,
    pub demo: Demo,
    /// The `Authorization` header that plugins need to call the server, if it has a password.
    pub authorization: Option<String>,
    pub bus: Arc<Bus>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
}

/// Shared by every directory for as long as the server runs.
pub struct Services {
    pub(crate) environment: Environment,
    pub(crate) places: Places,
    /// Paths that no client and no model may read.
    pub(crate) closed: Closed,
    pub(crate) demo: Demo,
    /// One connection pool for all providers.
    pub(crate) client: Client,
    pub(crate) output_directory: OutputDirectory,
    /// Shared because several directories may be in one worktree.
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) wakes: Wakes,
    /// The idle processes of external agents, which share one limit.
    pub(crate) idle: IdlePool,
    pub(crate) announcer: Announcer,
    /// The address at which the server listens. Plugins start once it is set, because they call the server.
    pub(crate) address: OnceLock<String>,
    pub(crate) authorization: Option<String>,
    /// The stored sessions. Set once the store is open, which is after the first configuration was read.
    pub(crate) reads: OnceLock<Arc<dyn Reads>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
}

impl Services {
    /// Builds the services and starts to remove old tool outputs in the background. Needs a Tokio runtime.
    pub fn new(options: Options) -> Self {
        let Options { environment, places, demo, authorization, bus, clock, random } = options;
        let closed = closed(&environment, &places);
        let guarded = closed.clone();
        let environment = environment.guarded(move |path| guarded.covers(path));
        let mint = Arc::new(Mint::new(clock.clone(), random.clone()));
        Self {
            environment,
            demo,
            client: Client::default(),
            output_directory: output_directory(&places, clock.as_ref()),
            snapshots: Arc::new(Snapshots::new(places.data.join(SNAPSHOTS)).without(closed.clone())),
            wakes: Wakes::default(),
            idle: IdlePool::default(),
            announcer: Announcer { bus, mint },
            address: OnceLock::new(),
            authorization,
            places,
            closed,
            reads: OnceLock::new(),
            clock,
            random,
        }
    }

    /// The environment, which refuses to read closed files into a configuration.
    pub fn environment(&self) -> &Environment {
        &self.environment
    }

    /// The paths that no client and no model may read.
    pub fn closed(&self) -> &Closed {
        &self.closed
    }

    pub fn snapshots(&self) -> &Arc<Snapshots> {
        &self.snapshots
    }

    /// The handle through which agents that start to work on their own open a turn.
    pub fn wakes(&self) -> &Wakes {
        &self.wakes
    }
}

impl fmt::Debug for Services {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Services").field("places", &self.places).finish_non_exhaustive()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Options").field("places", &self.places).finish_non_exhaustive()
    }
}

/// Opens the store of tool outputs and removes outputs older than [`RETENTION`] in the background.
fn output_directory(places: &Places, clock: &dyn Clock) -> OutputDirectory {
    let output_directory = OutputDirectory::new(places.data.join(OUTPUTS));
    let old = output_directory.clone();
    let now = Duration::from_millis(u64::try_from(clock.now()).unwrap_or(0));
    tokio::task::spawn_blocking(move || {
        if let Err(error) = old.sweep(UNIX_EPOCH + now, RETENTION) {
            tracing::warn!(%error, "cannot remove old tool outputs");
        }
    });
    output_directory
}
