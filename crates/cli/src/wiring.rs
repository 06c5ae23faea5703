//! Puts the rooms together: the one place that names a store, a runner and a model.

mod agents;
mod catalog;
mod closed;
mod directories;
mod entry;
pub(crate) mod external;
mod figures;
mod ground;
mod guidance;
mod hidden;
mod hooks;
mod kept;
mod logins;
mod mcp;
mod options;
mod plugins;
mod providers;
mod settings;
mod setup;
mod shaping;
pub(crate) mod trust;
mod wakes;
mod webhooks;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use ::plugins::webhooks::{Patience, Ports, Watch, Webhooks};
use engine::{
    Parts, Sessions,
    bus::Bus,
    ports::{Clock, Observer, Random, SystemClock, SystemRandom},
};
use server::Facts;
use store::{
    files::Places,
    sqlite::{self, OpenError, Sqlite},
};

use crate::{
    args::Engine as Options,
    environment,
    exit::{Failure, chain},
};
pub(crate) use directories::Directories;
pub(crate) use figures::Counted;
use ground::Ground;
use wakes::Wakes;

/// The name of a file in the data directory that says where its server listens.
const ADDRESS: &str = "server.url";
/// Where worktrees are made that clients ask for, in the data directory.
const WORKTREES: &str = "worktrees";

/// Everything behind the edge.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) sessions: Sessions,
    pub(crate) facts: Facts,
    pub(crate) instances: Arc<Directories>,
    store: Arc<Sqlite>,
    places: Places,
    wakes: Wakes,
    /// Taken by whoever closes.
    webhooks: Mutex<Option<Webhooks>>,
}

/// Why there is no engine.
#[derive(Debug)]
pub(crate) enum Unavailable {
    /// Another server owns the data directory; here it listens, if it says so.
    Owned { address: Option<String>, failure: Failure },
    /// Anything else.
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

/// Where things are kept.
pub(crate) fn places(options: &Options) -> Result<Places, Failure> {
    places_in(options.data_dir.as_deref())
}

/// Where things are kept, in a directory of one's own choice if there is one.
pub(crate) fn places_in(data: Option<&Path>) -> Result<Places, Failure> {
    Places::find(data).map_err(|error| Failure::usage(error.to_string()).hint("--data-dir DIR chooses one"))
}

/// Where the server of a data directory listens, if it says so.
pub(crate) fn address(places: &Places) -> Option<String> {
    std::fs::read_to_string(places.data.join(ADDRESS)).ok()
}

/// Opens the store, puts an engine on it and repairs what a dead one left behind. Prompts that were waiting
/// are taken up from here on.
pub(crate) async fn engine(options: &Options, directory: &Path) -> Result<Engine, Unavailable> {
    let places = places(options)?;
    let directory = text(directory)?;
    let (clock, random): (Arc<dyn Clock>, Arc<dyn Random>) = (Arc::new(SystemClock), Arc::new(SystemRandom));
    let bus = Arc::new(Bus::default());
    let ground = Ground::new(options, places.clone(), clock.clone(), random.clone(), &bus)?;
    let facts = facts(&ground, directory);
    let (snapshots, wakes) = (ground.snapshots.clone(), ground.wakes.clone());
    let directories = Arc::new(Directories::new(ground));
    let here = directories
        .setup(&facts.directory)
        .await
        .map_err(|invalid| Failure::usage(format!("the configuration cannot be used\n{invalid}")))?;
    let receivers = webhooks::receivers(&here.settings.environment, &here.settings.loaded.config).await?;
    let watch = Arc::new(Watch::new(bus.clone()));
    // Nobody looks at commits for the sake of nobody.
    let observer: Arc<dyn Observer> = if receivers.is_empty() { bus.clone() } else { watch.clone() };
    let store = open(&places, observer)?;
    directories.read_from(store.clone());
    let ports = Ports { reads: store.clone(), outbox: store.clone(), clock: clock.clone() };
    let sessions = Sessions::new(Parts {
        log: store.clone(),
        reads: store.clone(),
        runners: directories.clone(),
        undo: snapshots,
        clock,
        random,
        bus,
        // One engine has one set of bounds: those of where it was started.
        limits: options::limits(&here.settings.loaded.config),
        version: facts.version.clone(),
    });
    wakes.open(sessions.clone());
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
    let webhooks = Mutex::new(Some(Webhooks::start(receivers, &watch, ports, Patience::default())));
    Ok(Engine { sessions, facts, instances: directories, store, places, wakes, webhooks })
}

impl Engine {
    /// What the store has counted, for metrics.
    pub(crate) fn counted(&self) -> Arc<Counted> {
        Arc::new(Counted(self.store.stats()))
    }

    /// Begins to work in the directory that the server was started in. Returns what its user is told about parts of the
    /// configuration that do not count.
    pub(crate) async fn begin(&self) -> Option<String> {
        self.instances.begin(&self.facts.directory).await
    }

    /// Tells plugins where the server listens, and nobody else.
    pub(crate) fn admit_plugins(&self, address: &str) {
        self.instances.open(address);
    }

    /// Tells other programs of this user where the server listens, too. Without it they have to be told.
    pub(crate) fn announce(&self, address: &str) {
        self.admit_plugins(address);
        if let Err(error) = std::fs::write(self.places.data.join(ADDRESS), address) {
            tracing::warn!(%error, "the server's address could not be noted");
        }
    }

    /// Ends what is running and closes the store.
    pub(crate) async fn close(&self) {
        self.sessions.shutdown().await;
        self.wakes.close();
        self.instances.close().await;
        let webhooks = self.webhooks.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(webhooks) = webhooks {
            webhooks.close().await;
        }
        // It was never written by a program that did not listen.
        let _ = std::fs::remove_file(self.places.data.join(ADDRESS));
        if let Err(error) = self.store.close().await {
            tracing::error!(%error, "the store was not closed");
        }
    }
}

fn open(places: &Places, observer: Arc<dyn Observer>) -> Result<Arc<Sqlite>, Unavailable> {
    let opened = Sqlite::open(&places.database(), sqlite::Options::default(), observer);
    opened.map_err(|error| {
        let hint = "--data-dir DIR keeps another set of sessions";
        let failure = Failure::usage(chain(&error)).hint(hint);
        match error {
            OpenError::Locked { .. } => {
                let address = address(places);
                Unavailable::Owned { address, failure }
            }
            _ => Unavailable::Broken(failure),
        }
    })
}

fn facts(ground: &Ground, directory: String) -> Facts {
    let shown = |path: PathBuf| path.to_string_lossy().into_owned();
    Facts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        home: shown(environment::home()),
        state: shown(ground.places.state.clone()),
        worktrees: shown(ground.places.data.join(WORKTREES)),
        closed: ground.closed.clone(),
        config_path: shown(ground.environment.config_dir().unwrap_or_default()),
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
