//! Snapshots of worktrees: they record which session changed which files, and revert the changes.
//!
//! Several sessions may work in one worktree at once, and a user may edit files beside them. A snapshot shows
//! what has changed, but not who changed it. So the author of a change *claims* it in the worktree's
//! [`claims`]:
//!
//! - A tool that writes files knows which, and claims exactly those.
//! - For a command, the trees before and after it are compared. Files that another session has claimed
//!   meanwhile belong to that session. If two commands overlap, the one that ends first gets the files that
//!   changed while both ran: the shorter one is the likelier author. Changes that no session claims (for
//!   example by an editor) while a command runs count as the command's.
//! - A claim of a subagent is also a claim of its parents, because a user who reverts a prompt wants all of
//!   its changes undone.

mod changes;
mod claims;
mod undo;
mod worktree;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use protocol::Session;
use protocol::project::FileDiff;
use tokio::time::timeout;
use workspace::files::Closed;
use workspace::git::{Known, Repository};
use workspace::{
    git::Status,
    snapshot::{SnapshotStore, SnapshotTimeouts, TreeDiff},
};

pub use changes::{BeforeCommand, Changes};
use claims::{Claimant, LogicalTime};
use worktree::Worktree;

/// Maximum number of cached worktrees. When it is reached, worktrees without a turn are dropped from the cache.
const MAX_WORKTREES: usize = 64;

/// The default time that a turn waits for its worktree to be ready.
const OPEN_WAIT: Duration = Duration::from_secs(2);

/// The snapshots of all worktrees, stored in one directory.
pub struct Snapshots {
    base: PathBuf,
    closed: Closed,
    /// The time that a turn waits for its worktree to be ready.
    open_wait: Duration,
    timeouts: SnapshotTimeouts,
    repositories: Known,
    ready: Mutex<HashMap<PathBuf, Arc<Worktree>>>,
}

impl Snapshots {
    /// Stores snapshots in the directory `base`.
    pub fn new(base: PathBuf) -> Self {
        let (closed, timeouts, repositories, ready) = Default::default();
        Self { base, closed, open_wait: OPEN_WAIT, timeouts, repositories, ready }
    }

    /// Leaves these paths out of all snapshots.
    #[must_use]
    pub fn without(self, closed: Closed) -> Self {
        Self { closed, ..self }
    }

    /// Applies one timeout to every wait. Tests use it to be independent of the load of their machine.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { open_wait: timeout, timeouts: SnapshotTimeouts::uniform(timeout), ..self }
    }

    /// Returns the worktree of a session, or `None` if its directory is not in a repository.
    async fn worktree(&self, session: &Session) -> Option<(Arc<Worktree>, Repository)> {
        let repository = self.repositories.find(Path::new(&session.directory)).await?;
        let mut ready = self.ready.lock();
        if ready.len() >= MAX_WORKTREES {
            ready.retain(|_, worktree| Arc::strong_count(worktree) > 1);
        }
        let place = || SnapshotStore::place(&self.base, &session.project_id, &repository.worktree);
        let made = || Arc::new(Worktree::new(place(), self.closed.clone(), self.timeouts));
        let worktree = ready.entry(repository.worktree.clone()).or_insert_with(made);
        Some((Arc::clone(worktree), repository))
    }

    /// Opens the snapshots of a session's worktree. Returns `None` if snapshots are not possible there.
    async fn open(&self, session: &Session) -> Option<Arc<Worktree>> {
        let (worktree, repository) = self.worktree(session).await?;
        worktree.prepare(&repository).await.then_some(worktree)
    }

    /// Like `open`, but waits only for a short time, because a turn must not wait for the first scan of a
    /// large worktree. The scan continues in the background, and a later turn uses its result.
    async fn open_in_time(&self, session: &Session) -> Option<Arc<Worktree>> {
        let (worktree, repository) = self.worktree(session).await?;
        let preparing = Arc::clone(&worktree);
        let ready = tokio::spawn(async move { preparing.prepare(&repository).await });
        let ready = timeout(self.open_wait, ready).await.is_ok_and(|ready| ready.unwrap_or(false));
        ready.then_some(worktree)
    }
}

impl fmt::Debug for Snapshots {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Snapshots").field("base", &self.base).finish_non_exhaustive()
    }
}

/// Converts a difference to the wire format.
fn wire(diff: TreeDiff) -> FileDiff {
    let status = match diff.status {
        Status::Added => "added",
        Status::Deleted => "deleted",
        Status::Modified => "modified",
    };
    FileDiff {
        file: Some(diff.file),
        // Clients expect a string here, even for a file without a patch.
        patch: Some(diff.patch.unwrap_or_default()),
        additions: diff.additions,
        deletions: diff.deletions,
        status: Some(status.to_owned()),
        ..FileDiff::default()
    }
}
