//! What the directories of a server share.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::{Duration, UNIX_EPOCH},
};

use ::agents::Snapshots;
use engine::{
    bus::Bus,
    mint::Mint,
    ports::{Clock, Random, Reads},
};
use llm::{
    Client,
    demo::{self, Demo, Scenarios},
};
use store::files::{Environment, Places};
use workspace::files::Closed;
use workspace::output::{RETENTION, Shelf};

use super::closed::closed;
use super::mcp::Announcer;
use super::wakes::Wakes;
use crate::{
    args::Engine as Options,
    environment,
    exit::{Failure, chain},
};

/// Whole outputs of tools, in the data directory.
pub(super) const OUTPUTS: &str = "tool-output";

/// What the files of worktrees were, in the data directory.
const SNAPSHOTS: &str = "snapshot";

/// The same for every directory, and for as long as the program runs.
pub(super) struct Ground {
    pub(super) environment: Environment,
    pub(super) places: Places,
    /// What no client and no model gets to see.
    pub(super) closed: Closed,
    pub(super) demo: Arc<Demo>,
    /// Providers are called through one set of connections.
    pub(super) client: Client,
    pub(super) shelf: Shelf,
    /// Several directories may be in one worktree.
    pub(super) snapshots: Arc<Snapshots>,
    /// How agents that begin to work by themselves get a turn.
    pub(super) wakes: Wakes,
    /// Tells clients what no session tells.
    pub(super) announcer: Announcer,
    /// Where the server listens, once it does. Plugins talk to it.
    pub(super) address: OnceLock<String>,
    /// The header that lets them in, if one is needed.
    pub(super) authorization: Option<String>,
    /// Where sessions are read, once the store is open.
    pub(super) reads: OnceLock<Arc<dyn Reads>>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) random: Arc<dyn Random>,
}

impl Ground {
    pub(super) fn new(
        options: &Options,
        places: Places,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
        bus: &Arc<Bus>,
    ) -> Result<Self, Failure> {
        let environment = Environment::capture();
        let closed = closed(&environment, &places);
        let guarded = closed.clone();
        let environment = environment.guarded(move |path| guarded.covers(path));
        let mint = Arc::new(Mint::new(clock.clone(), random.clone()));
        Ok(Self {
            environment,
            demo: Arc::new(demo(options)?),
            client: Client::default(),
            shelf: shelf(&places, clock.as_ref()),
            snapshots: Arc::new(Snapshots::new(places.data.join(SNAPSHOTS)).without(closed.clone())),
            wakes: Wakes::default(),
            announcer: Announcer { bus: bus.clone(), mint },
            address: OnceLock::new(),
            authorization: environment::credentials().map(|credentials| credentials.header()),
            places,
            closed,
            reads: OnceLock::new(),
            clock,
            random,
        })
    }
}

impl fmt::Debug for Ground {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Ground").field("places", &self.places).finish_non_exhaustive()
    }
}

fn demo(options: &Options) -> Result<Demo, Failure> {
    let broken = |error: demo::ParseError| Failure::usage(chain(&error));
    let mut scenarios = Scenarios::built_in().map_err(broken)?;
    if let Some(file) = &options.scenario_file {
        let unreadable = |error| Failure::usage(format!("{} cannot be read: {error}", file.display()));
        let more = Scenarios::parse(&std::fs::read_to_string(file).map_err(unreadable)?);
        scenarios.extend(more.map_err(|error| {
            Failure::usage(format!("{} is no scenario file: {}", file.display(), chain(&error)))
        })?);
    }
    Ok(Demo::new(scenarios))
}

/// The directory for whole outputs, which is rid of old ones meanwhile.
fn shelf(places: &Places, clock: &dyn Clock) -> Shelf {
    let shelf = Shelf::new(places.data.join(OUTPUTS));
    let old = shelf.clone();
    let now = Duration::from_millis(u64::try_from(clock.now()).unwrap_or(0));
    tokio::task::spawn_blocking(move || {
        if let Err(error) = old.sweep(UNIX_EPOCH + now, RETENTION) {
            tracing::warn!(%error, "old outputs of tools could not be removed");
        }
    });
    shelf
}
