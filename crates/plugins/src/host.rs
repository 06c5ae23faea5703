//! OpenCode's plugins, unmodified, in a process of their own.
//!
//! [`Host`] is a handle for one directory's plugins. Its process is started when there is a plugin and not earlier; a
//! task of its own loads the plugins one after the other, watches over the process and starts it again when it dies,
//! each time after a longer pause. Nobody waits for any of it without a deadline: while there is no process, hooks
//! change nothing and there are no tools, and turns go on.
//!
//! - [`wire`] is the conversation with the process, [`runtime`] what it runs in, [`install`] where packages come from.
//! - [`open`] starts the process and loads the plugins; [`keep`] watches over it.
//! - [`member`] is one plugin as [`engine::ports::Hooks`]; [`tool`] is what the tools are that plugins bring along.
//! - [`providers`] is what plugins say about providers, [`fetch`] how they call them, [`logins`] how people log in.
//!
//! A plugin is code that the user chose to run with the user's rights. The process keeps its failures away from turns;
//! it does not keep the plugin away from the user's files.

mod ask;
mod fetch;
mod install;
mod keep;
mod logins;
mod member;
mod open;
mod providers;
mod runtime;
mod tool;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use engine::bus::Bus;
use futures::future::BoxFuture;
use protocol::config::Plugin;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

pub use fetch::{Answer, Body, Fetch, Unmade};
pub use logins::Unbegun;
pub use member::Member;
pub use providers::Loaded;
pub use runtime::Runtime;

use open::Running;

/// Things that are told once and remembered. Who fails in more ways than that is not worth listening to.
const MAX_REPORTS: usize = 200;

/// How long things may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A plugin that is loaded, and its `config` hook.
    pub load: Duration,
    /// A hook.
    pub hook: Duration,
    /// Beginning a login, for which somebody may have to be called.
    pub authorize: Duration,
    /// Completing a login, for which a person may have to do something elsewhere.
    pub login: Duration,
    /// The hook that is asked before a turn ends, which may have something to look up.
    pub turn_end: Duration,
    /// A tool. A person can stop it at any time.
    pub tool: Duration,
    /// A sign of life, after something was late; five times that otherwise.
    pub pulse: Duration,
    /// From one look for a sign of life to the next.
    pub rest: Duration,
    /// Saying goodbye.
    pub goodbye: Duration,
    /// The first pause before the process is started again; it doubles with every death.
    pub pause: Duration,
    /// Deaths in a row after which it stays dead.
    pub deaths: u32,
    /// A life after which earlier deaths no longer count.
    pub steady: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            load: Duration::from_secs(20),
            hook: Duration::from_secs(10),
            authorize: Duration::from_secs(30),
            login: Duration::from_mins(10),
            turn_end: Duration::from_secs(30),
            tool: Duration::from_mins(30),
            pulse: Duration::from_secs(2),
            rest: Duration::from_secs(10),
            goodbye: Duration::from_millis(500),
            pause: Duration::from_secs(1),
            deaths: 5,
            steady: Duration::from_mins(1),
        }
    }
}

/// Is told what went wrong, for people.
pub type Reporter = Arc<dyn Fn(&str) + Send + Sync>;

/// Reads the login of a provider at this moment, as it is kept.
pub type Logins = Arc<dyn Fn(&str) -> BoxFuture<'static, Option<Value>> + Send + Sync>;

/// What a host is started with.
pub struct Settings {
    /// What plugins run in; without it there are none.
    pub runtime: Option<Runtime>,
    /// Where packages are kept.
    pub cache: PathBuf,
    /// Environment variables that plugins do not inherit, such as the keys of providers.
    pub hidden: Vec<String>,
    /// The directory it is for.
    pub directory: PathBuf,
    /// The root of its repository.
    pub worktree: PathBuf,
    /// Its project, as clients see it.
    pub project: Value,
    /// Where this server listens.
    pub server_url: String,
    /// The header that lets plugins in, if they need one.
    pub authorization: Option<String>,
    /// The configuration, as plugins are shown it.
    pub config: Value,
    /// The plugins, in order.
    pub plugins: Vec<Plugin>,
    /// Where events come from.
    pub bus: Arc<Bus>,
    /// How long things may take.
    pub limits: Limits,
    /// Told what went wrong, each thing once.
    pub report: Reporter,
    /// Asked for logins by plugins that know how to use them.
    pub logins: Logins,
}

/// The plugins of one directory. Cheap to clone; when the last clone is gone, so is the process.
#[derive(Clone)]
pub struct Host(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    task: Mutex<Option<JoinHandle<()>>>,
    stop: CancellationToken,
}

/// What the task and the handles have in common.
struct Shared {
    settings: Settings,
    state: watch::Sender<State>,
    reported: Mutex<HashSet<String>>,
    /// Processes there have been.
    lives: AtomicU64,
    /// How often the process has ended while this was asked of this plugin.
    endings: Mutex<HashMap<(usize, &'static str), u32>>,
}

/// How it is with the process.
#[derive(Clone)]
enum State {
    Starting,
    Running(Arc<Running>),
    /// It is dead, for now or for good.
    Dead,
}

impl Host {
    /// Starts a host, and does not wait for it.
    pub fn start(settings: Settings) -> Self {
        let state = watch::Sender::new(State::Starting);
        let shared = Shared {
            settings,
            state,
            reported: Mutex::default(),
            lives: AtomicU64::new(1),
            endings: Mutex::default(),
        };
        let shared = Arc::new(shared);
        let stop = CancellationToken::new();
        let task = tokio::spawn(keep::keep(Arc::clone(&shared), stop.clone()));
        Self(Arc::new(Inner { shared, task: Mutex::new(Some(task)), stop }))
    }

    /// Waits until it is clear how it is with the process; whether it runs.
    pub async fn settled(&self, patience: Duration) -> bool {
        let mut state = self.0.shared.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, State::Starting));
        matches!(timeout(patience, settled).await, Ok(Ok(state)) if matches!(*state, State::Running(_)))
    }

    /// Whether it is not clear yet how it is with the process.
    pub fn is_starting(&self) -> bool {
        matches!(*self.0.shared.state.borrow(), State::Starting)
    }

    /// Which process it is at this moment, if its plugins are loaded.
    pub fn life(&self) -> Option<u64> {
        self.0.shared.running().map(|running| running.life)
    }

    /// The configuration as the plugins' `config` hooks have left it.
    pub fn config(&self) -> Option<Value> {
        self.0.shared.running().map(|running| running.config.clone())
    }

    /// The plugins, in order, as hooks.
    pub fn members(&self) -> Vec<Member> {
        let plugins = self.0.shared.settings.plugins.iter().enumerate();
        plugins.map(|(number, plugin)| Member::new(self.clone(), number, plugin)).collect()
    }

    /// Lets plugins say goodbye and ends the process.
    pub async fn close(&self) {
        let task = lock(&self.0.task).take();
        let Some(mut task) = task else { return };
        self.0.stop.cancel();
        let grace = self.0.shared.settings.limits.goodbye * 2;
        if timeout(grace, &mut task).await.is_err() {
            // What it holds is dropped, and so its process is killed.
            task.abort();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // The task says goodbye by itself.
        self.stop.cancel();
    }
}

impl Shared {
    fn running(&self) -> Option<Arc<Running>> {
        match &*self.state.borrow() {
            State::Running(running) => Some(Arc::clone(running)),
            State::Starting | State::Dead => None,
        }
    }

    /// Tells something about a plugin, or about the host, once.
    fn report(&self, plugin: Option<usize>, at: &str, why: &str) {
        let spec = plugin.and_then(|number| self.settings.plugins.get(number)).map(|plugin| &plugin.spec);
        let who = spec.map_or_else(|| "the plugin host".to_owned(), |spec| format!("the plugin {spec}"));
        let mut reported = lock(&self.reported);
        if reported.len() < MAX_REPORTS && reported.insert(format!("{who} {at}")) {
            drop(reported);
            (self.settings.report)(&format!("{who} {at}: {why}"));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is a whole one, so a panic elsewhere leaves nothing half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for Host {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Host").field(&self.0.shared.settings).finish()
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Settings")
            .field("directory", &self.directory)
            .field("plugins", &self.plugins.iter().map(|plugin| &plugin.spec).collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
