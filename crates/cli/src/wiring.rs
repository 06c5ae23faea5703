//! Puts the rooms together: the one place that names a store, a runner and a model.

mod agents;
mod catalog;
mod entry;
mod figures;
mod guidance;
mod options;
mod providers;
mod settings;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ::agents::{Roster, native::Native};
use engine::{
    Parts, Sessions,
    bus::Bus,
    ports::{Clock, NoUndo, Random, SystemClock, SystemRandom},
};
use llm::demo::{self, Demo, Scenarios};
use server::{Facts, Instance, instance::Everywhere};
use store::{
    files::{Places, redacted},
    sqlite::{self, OpenError, Sqlite},
};

use crate::{
    args::Engine as Options,
    environment,
    exit::{Failure, chain},
};
pub(crate) use figures::Counted;
use providers::Providers;
use settings::Settings;

/// The name of a file in the data directory that says where its server listens.
const ADDRESS: &str = "server.url";

/// Everything behind the edge.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) sessions: Sessions,
    pub(crate) facts: Facts,
    pub(crate) instances: Arc<Everywhere>,
    store: Arc<Sqlite>,
    places: Places,
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
    Places::find(options.data_dir.as_deref())
        .map_err(|error| Failure::usage(error.to_string()).hint("--data-dir DIR chooses one"))
}

/// Opens the store, puts an engine on it and repairs what a dead one left behind. Prompts that were waiting
/// are taken up from here on.
pub(crate) async fn engine(options: &Options, directory: &Path) -> Result<Engine, Unavailable> {
    let places = places(options)?;
    let directory = text(directory)?;
    let settings = Arc::new(Settings::read(Path::new(&directory)).await?);
    let demo = demo(options)?;
    let bus = Arc::new(Bus::default());
    let store = open(&places, &bus)?;
    let (clock, random): (Arc<dyn Clock>, Arc<dyn Random>) = (Arc::new(SystemClock), Arc::new(SystemRandom));
    let providers = providers::find(&settings, &places);
    let facts = facts(&places, directory, &settings);
    let instance = instance(&settings, &providers, &demo);
    let sessions = Sessions::new(Parts {
        log: store.clone(),
        reads: store.clone(),
        runners: Arc::new(roster(&settings, &places, &instance, providers, demo, &clock, &random)),
        undo: Arc::new(NoUndo),
        clock,
        random,
        bus,
        limits: options::limits(&settings.loaded.config),
        version: facts.version.clone(),
    });
    let repaired = sessions.recover().await.map_err(|error| {
        Failure::error(format!(
            "sessions that a dead server left behind cannot be repaired: {}",
            chain(&error)
        ))
    })?;
    if repaired > 0 {
        tracing::info!(sessions = repaired, "repaired what the last server left unfinished");
    }
    Ok(Engine { sessions, facts, instances: Arc::new(instance.into()), store, places })
}

impl Engine {
    /// What the store has counted, for metrics.
    pub(crate) fn counted(&self) -> Arc<Counted> {
        Arc::new(Counted(self.store.stats()))
    }

    /// Tells other programs of this user where the server listens. Without it they have to be told.
    pub(crate) fn announce(&self, address: &str) {
        if let Err(error) = std::fs::write(self.places.data.join(ADDRESS), address) {
            tracing::warn!(%error, "the server's address could not be noted");
        }
    }

    /// Ends what is running and closes the store.
    pub(crate) async fn close(&self) {
        self.sessions.shutdown().await;
        // It was never written by a program that did not listen.
        let _ = std::fs::remove_file(self.places.data.join(ADDRESS));
        if let Err(error) = self.store.close().await {
            tracing::error!(%error, "the store was not closed");
        }
    }
}

fn open(places: &Places, bus: &Arc<Bus>) -> Result<Arc<Sqlite>, Unavailable> {
    let opened = Sqlite::open(&places.database(), sqlite::Options::default(), bus.clone());
    opened.map_err(|error| {
        let hint = "--data-dir DIR keeps another set of sessions";
        let failure = Failure::usage(chain(&error)).hint(hint);
        match error {
            OpenError::Locked { .. } => {
                let address = std::fs::read_to_string(places.data.join(ADDRESS)).ok();
                Unavailable::Owned { address, failure }
            }
            _ => Unavailable::Broken(failure),
        }
    })
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

fn roster(
    settings: &Arc<Settings>,
    places: &Places,
    instance: &Instance,
    providers: Providers,
    demo: Demo,
    clock: &Arc<dyn Clock>,
    random: &Arc<dyn Random>,
) -> Roster {
    let hidden = hidden(&providers);
    let default = providers.default_choice();
    let mut models = providers.into_models();
    models.insert(demo::PROVIDER.to_owned(), Arc::new(demo));
    let model = providers::default_model(&settings.loaded.config, default, &models);
    let options = options::native(settings, places, instance.agents.clone(), &models, hidden);
    let native = Native::new(models.clone(), clock.clone(), random.clone(), options);
    Roster { agents: instance.agents.clone(), models, model, runner: Arc::new(native) }
}

/// Nobody's command needs to know how to get into the server that runs it, or to a model.
fn hidden(providers: &Providers) -> Vec<String> {
    let own = environment::PASSWORDS.into_iter().chain(environment::SECRETS).map(str::to_owned);
    own.chain(providers.keys.iter().cloned()).collect()
}

fn facts(places: &Places, directory: String, settings: &Settings) -> Facts {
    let shown = |path: PathBuf| path.to_string_lossy().into_owned();
    Facts {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        home: shown(environment::home()),
        state: shown(places.state.clone()),
        config_path: shown(settings.environment.config_dir().unwrap_or_default()),
        directory,
    }
}

fn instance(settings: &Settings, providers: &Providers, demo: &Demo) -> Instance {
    let config = redacted(&settings.loaded.config);
    let demo_default = (demo::PROVIDER.to_owned(), demo::BATON.to_owned());
    let defaults = providers
        .listed()
        .filter_map(|live| Some((live.provider.id.clone(), live.provider.default_model()?.id.clone())));
    let listed = providers.listed().map(|live| catalog::listed(live, &config));
    Instance {
        providers: listed.chain([catalog::provider(demo)]).collect(),
        default_models: defaults.chain([demo_default]).collect(),
        agents: agents::all(&settings.environment, &settings.loaded.config),
        commands: Vec::new(),
        config,
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
