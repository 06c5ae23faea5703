//! The directories this server works in, each with its own setup.
//!
//! A setup is made when somebody first asks for it, by one caller while the others wait, and made again when a
//! file it came from has changed. A turn keeps the setup it began with; the next prompt gets the new one.

use std::{
    collections::{BTreeMap, HashMap},
    error::Error as StdError,
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use engine::{
    bus::Place,
    ports::{Hooks, NoHooks, Reads, Resolved, Runners, Unresolved, Wanted},
};
use futures::future::{BoxFuture, FutureExt, join_all};
use protocol::{
    Session, SessionId,
    login::{Authorization, Login, LoginBegin, LoginComplete, LoginMethod},
    prompt::{CommandInput, PromptInput},
    provider::Provider,
    trust::Trust,
};
use serde_json::{Map, Value};
use server::{
    Instance, Instances, LoginFault,
    instance::{Invalid, Refused, ToolInfo, Unchanged},
};
use store::files::{self, auth::AuthFile, redacted};
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout},
};

use super::{
    ground::Ground,
    kept::Kept,
    plugins, providers,
    settings::{site, unusable},
    setup::Setup,
    trust::{self, Standing},
};

/// Directories whose setup is kept. The one that was not used for longest goes first, unless a turn runs in it.
const MAX_KEPT: usize = 32;
/// How long a directory may take to say what is in it. A dead network share takes for ever.
const DEADLINE: Duration = Duration::from_secs(20);
/// How long somebody waits for plugins to load before going on without them. It may be one of them.
const LOADING: Duration = Duration::from_secs(3);

/// Every directory's setup.
#[derive(Debug)]
pub(crate) struct Directories {
    ground: Ground,
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    /// Held by whoever changes a configuration file.
    changes: Arc<Mutex<()>>,
    /// Counts what was asked for, to tell what was not asked for lately.
    uses: AtomicU64,
    /// What was said in a directory about parts of its configuration that do not count.
    warned: Mutex<HashMap<String, String>>,
    /// Held by whoever changes the list of trusted directories.
    trusting: Arc<Mutex<()>>,
}

/// The place for one directory's setup.
#[derive(Debug, Default)]
struct Slot {
    last_use: AtomicU64,
    /// Locked while it is looked at or made.
    setup: tokio::sync::Mutex<Option<Kept<Arc<Setup>>>>,
    /// What there is without plugins, while they are loading.
    early: Mutex<Option<Arc<Setup>>>,
}

impl Slot {
    /// Whether it would be missed: somebody is making it, or a turn runs on it.
    fn is_busy(&self) -> bool {
        self.setup.try_lock().map_or(true, |setup| setup.as_ref().is_some_and(|kept| kept.made.is_busy()))
    }

    /// The setup as it should be now.
    async fn current(&self, ground: &Ground, directory: &str) -> Result<Arc<Setup>, Invalid> {
        let came = Instant::now();
        let Some(mut kept) = self.turn().await else {
            // It was there a moment ago; if it is gone, so is whoever held the lock.
            return self.early().map_or_else(|| Err(late(&format!("setting up {directory}"))), Ok);
        };
        let is_stale = |setup: Arc<Setup>| async move { setup.is_stale(ground).await };
        let make = |before| async move {
            let early = |setup| *self.lock() = Some(setup);
            let setup = Setup::read(ground, directory, before, early).await;
            *self.lock() = None;
            setup.map(Arc::new)
        };
        Kept::current(&mut kept, came, is_stale, make).await
    }

    /// Waits for its turn; but not for plugins that are loading, since they might be waiting for us.
    async fn turn(&self) -> Option<tokio::sync::MutexGuard<'_, Option<Kept<Arc<Setup>>>>> {
        loop {
            match timeout(LOADING, self.setup.lock()).await {
                Ok(kept) => return Some(kept),
                Err(_) if self.early().is_some() => return None,
                Err(_) => {}
            }
        }
    }

    /// What there is while plugins are loading.
    fn early(&self) -> Option<Arc<Setup>> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Setup>>> {
        self.early.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Directories {
    pub(super) fn new(ground: Ground) -> Self {
        Self {
            ground,
            slots: Mutex::default(),
            changes: Arc::default(),
            uses: AtomicU64::default(),
            warned: Mutex::default(),
            trusting: Arc::default(),
        }
    }

    /// The store is open.
    pub(super) fn read_from(&self, reads: Arc<dyn Reads>) {
        // It is opened once.
        let _ = self.ground.reads.set(reads);
    }

    /// What there is in a directory, as of now.
    pub(super) async fn setup(&self, directory: &str) -> Result<Arc<Setup>, Invalid> {
        let slot = self.slot(directory);
        let read = timeout(DEADLINE, slot.current(&self.ground, directory)).await;
        read.unwrap_or_else(|_| Err(late(&format!("reading the configuration of {directory}"))))
    }

    /// What there is in a session's directory.
    async fn of(&self, session: &Session) -> Result<Arc<Setup>, Unresolved> {
        let directory = &session.directory;
        self.setup(directory).await.map_err(|invalid| Unresolved::Configuration {
            directory: directory.clone(),
            message: invalid.message,
        })
    }

    /// Whether there are plugins in a directory, which need a server to talk to.
    pub(crate) async fn want_server(&self, directory: &str) -> bool {
        self.setup(directory).await.is_ok_and(|setup| setup.plugins.are_wanted())
    }

    /// The server listens: whoever needs it can be started.
    pub(super) fn open(&self, address: &str) {
        // It listens once.
        let _ = self.ground.address.set(address.to_owned());
    }

    /// Says once, and again when it changes, which parts of a directory's configuration do not count.
    fn warn(&self, session: &Session, setup: &Setup) {
        let Some(text) = setup.warning() else { return };
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.get(&session.directory) == Some(&text) {
            return;
        }
        plugins::complain(&self.ground.announcer, &place(session), &text);
        warned.insert(session.directory.clone(), text);
    }

    /// Connects to the MCP servers of the directory that the server was started in, as a turn there would. Says which
    /// parts of its configuration do not count.
    pub(crate) async fn begin(&self, directory: &str) -> Option<String> {
        let setup = self.setup(directory).await.ok()?;
        setup.mcp.start();
        setup.warning()
    }

    /// Ends what setups have started. Whoever is making one meanwhile has started nothing yet.
    pub(super) async fn close(&self) {
        let slots: Vec<Arc<Slot>> = self.lock().drain().map(|(_, slot)| slot).collect();
        let setups: Vec<Arc<Setup>> = slots
            .iter()
            .filter_map(|slot| Some(slot.setup.try_lock().ok()?.as_ref()?.made.clone()))
            .collect();
        let servers = join_all(setups.iter().map(|setup| setup.mcp.close()));
        let agents = setups.iter().flat_map(|setup| &setup.roster.external);
        let agents = join_all(agents.map(|agent| agent.close()));
        let plugins = join_all(setups.iter().map(|setup| setup.plugins.close()));
        tokio::join!(servers, agents, plugins);
    }

    fn slot(&self, directory: &str) -> Arc<Slot> {
        let mut slots = self.lock();
        if !slots.contains_key(directory) {
            make_room(&mut slots);
        }
        let slot = slots.entry(directory.to_owned()).or_default();
        slot.last_use.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Arc::clone(slot)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Slot>>> {
        // Every change is a whole one, so a panic elsewhere leaves nothing half done.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn make_room(slots: &mut HashMap<String, Arc<Slot>>) {
    if slots.len() < MAX_KEPT {
        return;
    }
    let free = slots.iter().filter(|(_, slot)| !slot.is_busy());
    let oldest = free.min_by_key(|(_, slot)| slot.last_use.load(Ordering::Relaxed));
    if let Some(directory) = oldest.map(|(directory, _)| directory.clone()) {
        slots.remove(&directory);
    }
}

fn place(session: &Session) -> Place {
    Place { directory: session.directory.as_str().into(), project: session.project_id.as_str().into() }
}

fn late(what: &str) -> Invalid {
    Invalid { path: None, message: format!("{what} takes longer than {} s", DEADLINE.as_secs()) }
}

fn unchanged(error: &files::Unchanged) -> Unchanged {
    match error {
        files::Unchanged::Invalid(invalid) => {
            Invalid { message: error.to_string(), ..unusable(invalid) }.into()
        }
        _ => refused(error).into(),
    }
}

fn refused(error: &(dyn StdError + 'static)) -> Refused {
    let is_full =
        |error: &io::Error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
    let (mut cause, mut full) = (Some(error), false);
    while let Some(error) = cause {
        full |= error.downcast_ref().is_some_and(is_full);
        cause = error.source();
    }
    if full { Refused::Full(error.to_string()) } else { Refused::Unfit(error.to_string()) }
}

impl Instances for Directories {
    fn find<'a>(&'a self, directory: &'a str) -> BoxFuture<'a, Result<Arc<Instance>, Invalid>> {
        async move { Ok(Arc::clone(&self.setup(directory).await?.shown)) }.boxed()
    }

    fn others<'a>(&'a self, directory: &'a str) -> BoxFuture<'a, Result<Vec<Provider>, Invalid>> {
        async move {
            let setup = self.setup(directory).await?;
            let others = spawn_blocking(move || {
                let is_live = |id: &str| setup.shown.providers.iter().any(|live| live.id == id);
                providers::others(&setup.settings.loaded.config, is_live)
            });
            match others.await {
                Ok(Ok(others)) => Ok(others),
                Ok(Err(error)) => Err(Invalid { path: None, message: error.to_string() }),
                Err(error) => Err(Invalid { path: None, message: error.to_string() }),
            }
        }
        .boxed()
    }

    fn tools<'a>(
        &'a self,
        directory: &'a str,
        model: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<ToolInfo>, Invalid>> {
        async move {
            let info = |tool: llm::Tool| ToolInfo {
                id: tool.name,
                description: tool.description,
                parameters: tool.schema,
            };
            Ok(self.setup(directory).await?.native.tools(model).into_iter().map(info).collect())
        }
        .boxed()
    }

    fn login_methods<'a>(
        &'a self,
        directory: &'a str,
    ) -> BoxFuture<'a, Result<BTreeMap<String, Vec<LoginMethod>>, Invalid>> {
        async move { Ok(self.setup(directory).await?.plugins.login_methods()) }.boxed()
    }

    fn begin_login<'a>(
        &'a self,
        directory: &'a str,
        provider: &'a str,
        how: LoginBegin,
    ) -> BoxFuture<'a, Result<Option<Authorization>, LoginFault>> {
        async move { self.setup(directory).await?.plugins.begin_login(provider, how).await }.boxed()
    }

    fn complete_login<'a>(
        &'a self,
        directory: &'a str,
        provider: &'a str,
        how: LoginComplete,
    ) -> BoxFuture<'a, Result<Option<Login>, LoginFault>> {
        async move { self.setup(directory).await?.plugins.complete_login(provider, how).await }.boxed()
    }

    fn hooks<'a>(&'a self, place: &'a Place) -> BoxFuture<'a, Arc<dyn Hooks>> {
        async move {
            match self.setup(&place.directory).await {
                Ok(setup) => setup.hooks(&self.ground, || place.clone()),
                // Whatever is wrong with the configuration is told to those who need it.
                Err(_) => NoHooks::shared(),
            }
        }
        .boxed()
    }

    fn forget(&self, directory: Option<&str>) {
        let mut slots = self.lock();
        match directory {
            Some(directory) => drop(slots.remove(directory)),
            None => slots.clear(),
        }
    }

    fn user_config(&self) -> BoxFuture<'_, Result<Value, Invalid>> {
        let environment = self.ground.environment.clone();
        let read = spawn_blocking(move || files::load_user(&environment));
        async move {
            match timeout(DEADLINE, read).await {
                Ok(Ok(Ok(loaded))) => Ok(redacted(&loaded.config)),
                Ok(Ok(Err(invalid))) => Err(unusable(&invalid)),
                Ok(Err(error)) => Err(Invalid { path: None, message: error.to_string() }),
                Err(_) => Err(late("reading the user's configuration")),
            }
        }
        .boxed()
    }

    fn configure<'a>(
        &'a self,
        directory: Option<&'a str>,
        change: Map<String, Value>,
    ) -> BoxFuture<'a, Result<Value, Unchanged>> {
        async move {
            let site = match directory {
                Some(directory) => Some(site(directory.into()).await),
                None => None,
            };
            let (environment, changes) = (self.ground.environment.clone(), Arc::clone(&self.changes));
            let data = self.ground.places.data.clone();
            let changed = spawn_blocking(move || {
                // Nothing is guarded but the order, so there is nothing that a panic could have spoiled.
                let _held = changes.lock().unwrap_or_else(PoisonError::into_inner);
                let site = site.map(|site| {
                    let logins = AuthFile::new(&environment, &data).read().map(|auth| auth.entries);
                    let guard = Standing::read(&data, &site, logins.unwrap_or_default().keys()).guard;
                    (site, guard)
                });
                files::change(&environment, site.as_ref().map(|(site, guard)| (site, guard)), &change)
            });
            match timeout(DEADLINE, changed).await {
                Ok(Ok(Ok(loaded))) => Ok(redacted(&loaded.config)),
                Ok(Ok(Err(error))) => Err(unchanged(&error)),
                Ok(Err(error)) => Err(refused(&error).into()),
                Err(_) => Err(late("changing the configuration").into()),
            }
        }
        .boxed()
    }

    fn trust<'a>(&'a self, directory: &'a str) -> BoxFuture<'a, Result<Trust, Invalid>> {
        async move {
            let setup = self.setup(directory).await?;
            let settings = &setup.settings;
            Ok(settings.standing.told(&settings.site.directory, &settings.loaded.withheld))
        }
        .boxed()
    }

    fn set_trust<'a>(&'a self, directory: &'a str, trusted: bool) -> BoxFuture<'a, Result<(), Refused>> {
        let (data, path) = (self.ground.places.data.clone(), PathBuf::from(directory));
        let trusting = Arc::clone(&self.trusting);
        let kept = spawn_blocking(move || {
            // Nothing is guarded but the order, so there is nothing that a panic could have spoiled.
            let _held = trusting.lock().unwrap_or_else(PoisonError::into_inner);
            trust::set(&data, &path, trusted)
        });
        async move {
            match timeout(DEADLINE, kept).await {
                Ok(Ok(Ok(_))) => Ok(()),
                Ok(Ok(Err(error))) => {
                    let message = format!("the list of trusted directories cannot be written: {error}");
                    Err(if error.kind() == io::ErrorKind::StorageFull {
                        Refused::Full(message)
                    } else {
                        Refused::Unfit(message)
                    })
                }
                Ok(Err(error)) => Err(Refused::Unfit(error.to_string())),
                Err(_) => Err(Refused::Unfit(late("writing the list of trusted directories").message)),
            }
        }
        .boxed()
    }

    fn log_in<'a>(&'a self, provider: &'a str, login: Option<Login>) -> BoxFuture<'a, Result<(), Refused>> {
        let auth = AuthFile::new(&self.ground.environment, &self.ground.places.data);
        let provider = provider.to_owned();
        let kept = spawn_blocking(move || match login {
            Some(login) => auth.set(&provider, &login),
            None => auth.remove(&provider),
        });
        async move {
            match kept.await {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(refused(&error)),
                Err(error) => Err(refused(&error)),
            }
        }
        .boxed()
    }
}

impl Runners for Directories {
    fn resolve<'a>(&'a self, wanted: Wanted<'a>) -> BoxFuture<'a, Result<Resolved, Unresolved>> {
        async move {
            let setup = self.of(wanted.session).await?;
            self.warn(wanted.session, &setup);
            let hooks = setup.hooks(&self.ground, || place(wanted.session));
            Ok(Resolved { hooks, ..setup.roster.resolve(wanted).await? })
        }
        .boxed()
    }

    fn forget<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, ()> {
        let slots: Vec<Arc<Slot>> = self.lock().values().cloned().collect();
        async move {
            let setups =
                slots.iter().filter_map(|slot| Some(slot.setup.try_lock().ok()?.as_ref()?.made.clone()));
            let agents: Vec<_> = setups.flat_map(|setup| setup.roster.external.clone()).collect();
            join_all(agents.iter().map(|agent| agent.forget(session))).await;
        }
        .boxed()
    }

    fn command<'a>(
        &'a self,
        session: &'a Session,
        input: &'a CommandInput,
    ) -> BoxFuture<'a, Result<PromptInput, Unresolved>> {
        async move { self.of(session).await?.roster.command(session, input).await }.boxed()
    }
}
