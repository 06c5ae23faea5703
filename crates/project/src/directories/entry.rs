//! The cache entry of one directory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use server::instance::Invalid;
use tokio::time::{Instant, timeout};

use super::late;
use crate::{
    cached::Cached,
    lease::{Lease, Leases},
    project::Project,
    services::Services,
};

/// A caller waits this long for another caller that is building the project. After that it uses the interim project, if
/// there is one: the caller may be a plugin that is still loading, and the builder waits for it.
const LOADING: Duration = Duration::from_secs(3);

/// Holds the project of one directory and builds it when it is missing or stale.
#[derive(Debug, Default)]
pub(super) struct Entry {
    last_use: AtomicU64,
    /// Locked while the project is revalidated or built.
    project: tokio::sync::Mutex<Cached<Arc<Project>>>,
    /// The project without plugins, or the one before, while plugins are loading.
    interim: Mutex<Option<Arc<Project>>>,
    /// Held by turns, also by those that started with an earlier project of this directory.
    leases: Leases,
}

impl Entry {
    /// Keeps the entry in the cache until the lease is dropped.
    pub(super) fn lease(&self) -> Lease {
        self.leases.acquire()
    }

    pub(super) fn used(&self, at: u64) {
        self.last_use.store(at, Ordering::Relaxed);
    }

    pub(super) fn last_use(&self) -> u64 {
        self.last_use.load(Ordering::Relaxed)
    }

    /// An entry is busy while its project is being built or a turn holds a lease.
    pub(super) fn is_busy(&self) -> bool {
        self.leases.are_open() || self.project.try_lock().is_err()
    }

    /// Returns the cached project, unless it is missing or being built.
    pub(super) fn peek(&self) -> Option<Arc<Project>> {
        self.project.try_lock().ok()?.peek().cloned()
    }

    /// Returns the project, built from the configuration as it is now.
    pub(super) async fn current(
        &self,
        services: &Services,
        directory: &str,
    ) -> Result<Arc<Project>, Invalid> {
        let asked = Instant::now();
        let Some(mut cached) = self.turn().await else {
            // The interim project disappears when the caller that builds finishes or is dropped.
            return self.interim().map_or_else(|| Err(late(&format!("setting up {directory}"))), Ok);
        };
        let is_stale = |project: Arc<Project>| async move { project.is_stale(services).await };
        let build = |before| async move {
            let _clear = ClearInterim(self);
            let interim = |project| *self.interim.lock() = Some(project);
            Project::read(services, directory, before, interim).await.map(Arc::new)
        };
        cached.current(asked, is_stale, build).await
    }

    /// Waits for the lock. Returns nothing once the wait has exceeded [`LOADING`] and there is an interim project.
    async fn turn(&self) -> Option<tokio::sync::MutexGuard<'_, Cached<Arc<Project>>>> {
        loop {
            match timeout(LOADING, self.project.lock()).await {
                Ok(cached) => return Some(cached),
                Err(_) if self.interim().is_some() => return None,
                Err(_) => {}
            }
        }
    }

    /// Returns the project that answers calls while plugins are loading.
    pub(super) fn interim(&self) -> Option<Arc<Project>> {
        self.interim.lock().clone()
    }
}

/// Removes the interim project when the build ends, also when its future is dropped.
struct ClearInterim<'a>(&'a Entry);

impl Drop for ClearInterim<'_> {
    fn drop(&mut self) {
        *self.0.interim.lock() = None;
    }
}
