//! The projects of a server, by directory.
//!
//! The first caller that needs a directory builds its project while other callers wait. Before each use the project is
//! revalidated: if a file that it was read from has changed, it is built again. A turn keeps the project that it started
//! with; the next prompt uses the new one.

mod entry;
mod instances;
mod runners;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use engine::{bus::Place, ports::Reads};
use futures::future::join_all;
use parking_lot::Mutex;
use protocol::Session;
use server::instance::Invalid;
use tokio::time::timeout;

use crate::{project::Project, services::Services, settings::Settings};
use entry::Entry;

/// Cached directories. The least recently used one is evicted first, except while a turn runs in it.
const MAX_CACHED: usize = 32;
/// Reading a directory ends with an error after this time, because a dead network share never answers.
const DEADLINE: Duration = Duration::from_secs(20);

/// The subject of a warning about a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Topic {
    Trust,
    Plugins,
}

/// A cache of projects by directory.
#[derive(Debug)]
pub struct Directories {
    services: Services,
    entries: Mutex<HashMap<String, Arc<Entry>>>,
    /// Counts uses, so that eviction can tell the least recently used entry.
    uses: AtomicU64,
    /// The last warnings about withheld parts of the configuration and about missing plugins, by directory.
    warned: Mutex<HashMap<(String, Topic), String>>,
    /// Serialises changes of configuration files.
    changes: Arc<Mutex<()>>,
    /// Serialises changes of the list of trusted directories.
    trusting: Arc<Mutex<()>>,
}

impl Directories {
    pub fn new(services: Services) -> Self {
        Self {
            services,
            entries: Mutex::default(),
            uses: AtomicU64::default(),
            warned: Mutex::default(),
            changes: Arc::default(),
            trusting: Arc::default(),
        }
    }

    /// Sets where sessions are read. Hooks that need them, such as auto-commit, work from then on. Only the first call
    /// counts.
    pub fn set_reads(&self, reads: Arc<dyn Reads>) {
        let _ = self.services.reads.set(reads);
    }

    /// Sets the address at which the server listens. Plugins start from then on. Only the first call counts.
    pub fn set_address(&self, address: &str) {
        let _ = self.services.address.set(address.to_owned());
    }

    /// Returns the settings of a directory.
    pub async fn settings(&self, directory: &str) -> Result<Arc<Settings>, Invalid> {
        Ok(Arc::clone(&self.project(directory).await?.settings))
    }

    /// Returns true if the directory has plugins, which need a server to call.
    pub async fn want_server(&self, directory: &str) -> bool {
        self.project(directory).await.is_ok_and(|project| project.plugins.are_wanted())
    }

    /// Connects to the MCP servers of a directory, as a turn there would. Returns the warning for the user if parts of the
    /// directory's configuration are withheld.
    pub async fn begin(&self, directory: &str) -> Option<String> {
        let project = self.project(directory).await.ok()?;
        project.mcp.start();
        project.warning()
    }

    /// Ends the processes of all cached projects. A project that is being built has not started any.
    pub async fn close(&self) {
        let entries: Vec<Arc<Entry>> = self.entries.lock().drain().map(|(_, entry)| entry).collect();
        let projects: Vec<Arc<Project>> = entries.iter().filter_map(|entry| entry.peek()).collect();
        let servers = join_all(projects.iter().map(|project| project.mcp.close()));
        let agents = projects.iter().flat_map(|project| &project.roster.external);
        let agents = join_all(agents.map(|agent| agent.close()));
        let plugins = join_all(projects.iter().map(|project| project.plugins.close()));
        tokio::join!(servers, agents, plugins);
    }

    /// Returns the project of a directory, built from the configuration as it is now.
    async fn project(&self, directory: &str) -> Result<Arc<Project>, Invalid> {
        let entry = self.entry(directory);
        let mut reading = pin!(entry.current(&self.services, directory));
        match timeout(DEADLINE, &mut reading).await {
            Ok(read) => read,
            // Slow plugins do not fail a call: the interim project exists as long as the future that builds.
            Err(_) => {
                entry.interim().ok_or_else(|| late(&format!("reading the configuration of {directory}")))
            }
        }
    }

    fn place(&self, session: &Session) -> Place {
        self.services.announcer.bus.place(session.directory.as_str(), session.project_id.as_str())
    }

    /// Warns about withheld parts of a directory's configuration and about plugins that are not loaded yet, once and
    /// again when they change.
    fn warn(&self, session: &Session, project: &Project) {
        let warnings = [(Topic::Trust, project.warning()), (Topic::Plugins, project.plugins.warning())];
        let mut warned = self.warned.lock();
        for (topic, text) in warnings {
            let key = (session.directory.clone(), topic);
            match text {
                None => drop(warned.remove(&key)),
                Some(text) if warned.get(&key) == Some(&text) => {}
                Some(text) => {
                    self.services.announcer.error(&self.place(session), &text);
                    warned.insert(key, text);
                }
            }
        }
    }

    /// Returns the cache entry of a directory and marks it as used.
    fn entry(&self, directory: &str) -> Arc<Entry> {
        let mut entries = self.entries.lock();
        if !entries.contains_key(directory) {
            evict(&mut entries);
        }
        let entry = entries.entry(directory.to_owned()).or_default();
        entry.used(self.uses.fetch_add(1, Ordering::Relaxed));
        Arc::clone(entry)
    }

    /// Returns every cached project that is not being built right now.
    fn built(&self) -> Vec<Arc<Project>> {
        self.entries.lock().values().filter_map(|entry| entry.peek()).collect()
    }
}

/// Removes the least recently used entry if the cache is full and not all entries are busy.
fn evict(entries: &mut HashMap<String, Arc<Entry>>) {
    if entries.len() < MAX_CACHED {
        return;
    }
    let free = entries.iter().filter(|(_, entry)| !entry.is_busy());
    let oldest = free.min_by_key(|(_, entry)| entry.last_use());
    if let Some(directory) = oldest.map(|(directory, _)| directory.clone()) {
        entries.remove(&directory);
    }
}

fn late(what: &str) -> Invalid {
    Invalid { path: None, message: format!("{what} takes longer than {} s", DEADLINE.as_secs()) }
}
