//! Composition: builds the engine from a store, the runtime of project directories, and webhooks.

pub(crate) mod browsers;
mod channels;
mod figures;
pub(crate) mod node;
mod record;
mod users;

use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ::plugins::webhooks::{Ports, Timeouts, Watch, Webhooks};
use engine::{
    Parts, Sessions,
    bus::Bus,
    ports::{Clock, Observer, Random, SystemClock, SystemRandom},
};
use llm::demo::{self, Demo, Scenarios};
use project::{Directories, Services, WORKTREES, Wakes, services};
use server::Facts;
use store::files::{Environment, Places};
use tokio::task::JoinHandle;

use crate::{
    args::Engine as Options,
    environment,
    exit::{Failure, chain},
};
pub(crate) use channels::{ChannelStates, clock};
pub(crate) use figures::StoreCounters;
use node::Node;
use record::Record;

/// The file in the data directory that holds the address at which its server listens.
const ADDRESS: &str = "server.url";

/// The engine with everything it depends on, ready to be served.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) sessions: Sessions,
    pub(crate) facts: Facts,
    pub(crate) instances: Arc<Directories>,
    store: Record,
    places: Places,
    wakes: Wakes,
    /// Taken by the first call of [`Engine::close`].
    webhooks: Mutex<Option<Webhooks>>,
    /// Time after which unused sessions are deleted, if the user has set one.
    retention: Option<Duration>,
    /// `None` for a server that has its record for itself.
    pub(crate) node: Option<Node>,
}

/// The reason why the engine did not start.
#[derive(Debug)]
pub(crate) enum Unavailable {
    /// Another server owns the data directory. `address` is where it listens, if it has announced that.
    Owned {
        address: Option<String>,
        failure: Failure,
    },
    Broken(Failure),
}

impl From<Failure> for Unavailable {
    fn from(failure: Failure) -> Self {
        Self::Broken(failure)
    }
}

impl From<Unavailable> for Failure {
    fn from(unavailable: Unavailable) -> Self {
        match unavailable {
            Unavailable::Owned { failure, .. } | Unavailable::Broken(failure) => failure,
        }
    }
}

/// Returns the directories for data, state, logs and caches.
pub(crate) fn places(options: &Options) -> Result<Places, Failure> {
    places_in(options.data_dir.as_deref())
}

/// Returns the directories for data, state, logs and caches, all below `data` if it is given.
pub(crate) fn places_in(data: Option<&Path>) -> Result<Places, Failure> {
    Places::find(data).map_err(|error| Failure::usage(error.to_string()).hint("--data-dir DIR chooses one"))
}

/// Reads the address that the server of a data directory has announced.
pub(crate) fn address(places: &Places) -> Option<String> {
    std::fs::read_to_string(places.data.join(ADDRESS)).ok()
}

/// The use of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Runs turns. Sessions that the last server left unfinished are repaired, and prompts that were waiting in the
    /// queue start to run.
    Run,
    /// Only lists and deletes.
    Manage,
}

/// Opens the store and builds the engine on it; with an identity, as a node of a fleet.
pub(crate) async fn engine(
    options: &Options,
    directory: &Path,
    purpose: Purpose,
    identity: Option<&node::Identity>,
) -> Result<Engine, Unavailable> {
    let places = places(options)?;
    let directory = text(directory)?;
    let (clock, random): (Arc<dyn Clock>, Arc<dyn Random>) = (Arc::new(SystemClock), Arc::new(SystemRandom));
    let environment = Environment::capture();
    let joined = match identity {
        Some(identity) => Some(Box::pin(node::join(options, &places, &environment, identity)).await?),
        None => None,
    };
    let member = joined.as_ref().map(|joined| Arc::clone(&joined.member));
    let bus = member.clone().map_or_else(Bus::default, |member| Bus::new(member));
    let bus = Arc::new(bus);
    let services = Services::new(services::Options {
        environment,
        places: places.clone(),
        demo: demo(options)?,
        authorization: environment::credentials().map(|credentials| credentials.header()),
        bus: bus.clone(),
        clock: clock.clone(),
        random: random.clone(),
    });
    let facts = facts(&services, &places, directory);
    let (snapshots, wakes) = (services.snapshots().clone(), services.wakes().clone());
    let directories = Arc::new(Directories::new(services));
    let settings = directories
        .settings(&facts.directory)
        .await
        .map_err(|invalid| Failure::usage(format!("the configuration cannot be used\n{invalid}")))?;
    let user = users::user_config(&settings.environment).await?;
    let receivers = users::receivers(&user, &settings.loaded.config)?;
    let retention = users::retention(&user, &settings.loaded.config);
    let watch = Arc::new(Watch::new(bus.clone()));
    // Without receivers, commits skip the webhook observer and go straight to the bus.
    let observer: Arc<dyn Observer> = if receivers.is_empty() { bus.clone() } else { watch.clone() };
    let store = match joined {
        Some(joined) => Record::open_node(joined, observer).await?,
        None => Record::open(options, &places, observer).await?,
    };
    directories.set_reads(store.reads());
    let ports = Ports { reads: store.reads(), outbox: store.outbox(), clock: clock.clone() };
    let sessions = Sessions::new(Parts {
        log: store.log(),
        reads: store.reads(),
        runners: directories.clone(),
        undo: snapshots,
        clock,
        random,
        bus,
        // Limits of the engine hold for all directories, so they come from the directory it was started in.
        limits: settings.resolved.engine.clone(),
        version: facts.version.clone(),
    });
    wakes.open(sessions.clone());
    let node = match member {
        Some(member) => Some(Node::start(&sessions, member, store.first()).await?),
        None => None,
    };
    if purpose == Purpose::Run && node.is_none() {
        recover(&sessions).await?;
    }
    let webhooks = Mutex::new(Some(Webhooks::start(receivers, &watch, ports, Timeouts::default())));
    Ok(Engine { sessions, facts, instances: directories, store, places, wakes, webhooks, retention, node })
}

impl Engine {
    /// Returns the store's counters, for metrics.
    pub(crate) fn counted(&self) -> Arc<StoreCounters> {
        Arc::new(StoreCounters(self.store.stats()))
    }

    /// Returns the states of the chat channels of this data directory.
    pub(crate) fn channels(&self) -> Arc<ChannelStates> {
        Arc::new(ChannelStates { data: self.places.data.clone() })
    }

    /// Connects to the MCP servers of the directory that the server was started in. Returns the warning for the user if
    /// parts of the directory's configuration are withheld.
    pub(crate) async fn begin(&self) -> Option<String> {
        self.instances.begin(&self.facts.directory).await
    }

    /// Starts to delete sessions that have reached the retention time, now and once a day.
    pub(crate) fn start_pruning(&self) -> Option<JoinHandle<Infallible>> {
        Some(tokio::spawn(self.sessions.clone().prune_daily(self.retention?)))
    }

    /// Tells plugins the address of the server. Other programs do not learn it.
    pub(crate) fn admit_plugins(&self, address: &str) {
        self.instances.set_address(address);
    }

    /// Tells plugins the address of the server, and writes it into the data directory for other programs of this user.
    pub(crate) fn announce(&self, address: &str) {
        self.admit_plugins(address);
        if let Err(error) = std::fs::write(self.places.data.join(ADDRESS), address) {
            tracing::warn!(%error, "cannot write the server's address into the data directory");
        }
    }

    /// Removes the server's address from the data directory.
    pub(crate) fn withdraw(&self) {
        // The file is missing if the program never listened.
        let _ = std::fs::remove_file(self.places.data.join(ADDRESS));
    }

    /// Ends running turns and processes, and closes the store.
    pub(crate) async fn close(&self) {
        self.sessions.shutdown().await;
        self.wakes.close();
        self.instances.close().await;
        let webhooks = self.webhooks.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(webhooks) = webhooks {
            webhooks.close().await;
        }
        if let Some(node) = &self.node {
            node.close().await;
        }
        self.withdraw();
        if let Err(error) = self.store.close().await {
            tracing::error!(%error, "cannot close the store");
        }
    }
}

async fn recover(sessions: &Sessions) -> Result<(), Failure> {
    let unfinished = sessions.recover().await.map_err(|error| {
        Failure::error(format!("the sessions in the database cannot be read: {}", chain(&error)))
    })?;
    if unfinished > 0 {
        let left = sessions.stats().unfinished;
        tracing::info!(
            repaired = unfinished - left.min(unfinished),
            left,
            "the last server left sessions unfinished"
        );
    }
    Ok(())
}

/// The scripted demo provider, with the scenarios of `--scenario-file`.
fn demo(options: &Options) -> Result<Demo, Failure> {
    let broken = |error: demo::ParseError| Failure::usage(chain(&error));
    let mut scenarios = Scenarios::built_in().map_err(broken)?;
    if let Some(file) = &options.scenario_file {
        let unreadable = |error| Failure::usage(format!("{} cannot be read: {error}", file.display()));
        let more = Scenarios::parse(&std::fs::read_to_string(file).map_err(unreadable)?);
        scenarios.extend(more.map_err(|error| {
            Failure::usage(format!("{} is not a scenario file: {}", file.display(), chain(&error)))
        })?);
    }
    Ok(Demo::new(scenarios))
}

fn facts(services: &Services, places: &Places, directory: String) -> Facts {
    let shown = |path: PathBuf| path.to_string_lossy().into_owned();
    Facts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        home: shown(environment::home()),
        state: shown(places.state.clone()),
        worktrees: shown(places.data.join(WORKTREES)),
        closed: services.closed().clone(),
        config_path: shown(services.environment().config_dir().unwrap_or_default()),
        shell: environment::shell(),
        directory,
    }
}

fn text(directory: &Path) -> Result<String, Failure> {
    let real = directory.canonicalize();
    let real =
        real.map_err(|error| Failure::usage(format!("{} cannot be used: {error}", directory.display())))?;
    real.into_os_string()
        .into_string()
        .map_err(|path| Failure::usage(format!("{} has a name that is not UTF-8", path.to_string_lossy())))
}
