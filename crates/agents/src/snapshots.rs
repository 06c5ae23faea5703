//! What sessions do to the files of a worktree: remembered, told apart, and taken back.
//!
//! Several sessions may work in one worktree at once, and a person in an editor beside them. A snapshot shows what has
//! changed, not who changed it; so every change is *claimed* by whoever made it, in the worktree's [`Ledger`]:
//!
//! - A tool that writes files knows which, and claims exactly those.
//! - For a command, the tree is compared before and after. What somebody else has claimed meanwhile is theirs. So of
//!   two commands that overlap, the one that ends first gets what changed while both ran: the shorter one is the likelier
//!   author. Changes that nobody claims (an editor) while a command runs look like the command's.
//! - What a subagent claims, its parents have claimed, too: whoever takes back a prompt wants all of it undone.

mod changes;
mod ledger;
mod undo;
mod worktree;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use protocol::Session;
use protocol::project::FileDiff;
use tokio::time::timeout;
use workspace::files::Closed;
use workspace::git::Repository;
use workspace::{
    git::Status,
    snapshot::{Shadow, TreeDiff},
};

pub(crate) use changes::{Around, Changes};
pub(crate) use ledger::{Moment, Visit};
pub(crate) use worktree::Worktree;

/// Worktrees to keep ready. Beyond that, those that nobody is working in are let go.
const MAX_READY: usize = 64;

/// How long a turn waits for its worktree to be ready.
const PATIENCE: Duration = Duration::from_secs(2);

/// The snapshots of all worktrees, kept in one directory.
pub struct Snapshots {
    base: PathBuf,
    closed: Closed,
    ready: Mutex<HashMap<PathBuf, Arc<Worktree>>>,
}

impl Snapshots {
    /// Snapshots that are kept here.
    pub fn new(base: PathBuf) -> Self {
        Self { base, closed: Closed::default(), ready: Mutex::default() }
    }

    /// The same without these places.
    #[must_use]
    pub fn without(self, closed: Closed) -> Self {
        Self { closed, ..self }
    }

    /// The worktree of a session, if it is in a repository.
    async fn worktree(&self, session: &Session) -> Option<(Arc<Worktree>, Repository)> {
        let repository = Repository::find(Path::new(&session.directory)).await?;
        let mut ready = self.ready.lock().unwrap_or_else(PoisonError::into_inner);
        if ready.len() >= MAX_READY {
            ready.retain(|_, worktree| Arc::strong_count(worktree) > 1);
        }
        let place = || Shadow::place(&self.base, &session.project_id, &repository.worktree);
        let made = || Arc::new(Worktree::new(place(), self.closed.clone()));
        let worktree = ready.entry(repository.worktree.clone()).or_insert_with(made);
        Some((Arc::clone(worktree), repository))
    }

    /// The snapshots of a session's worktree; nothing if there are none to be had.
    async fn open(&self, session: &Session) -> Option<Arc<Worktree>> {
        let (worktree, repository) = self.worktree(session).await?;
        worktree.prepare(&repository).await.then_some(worktree)
    }

    /// The same for a turn, which does not wait long: the first look into every file of a large worktree goes on
    /// behind its back, and a later turn has the use of it.
    pub(crate) async fn open_soon(&self, session: &Session) -> Option<Arc<Worktree>> {
        let (worktree, repository) = self.worktree(session).await?;
        let preparing = Arc::clone(&worktree);
        let ready = tokio::spawn(async move { preparing.prepare(&repository).await });
        let ready = timeout(PATIENCE, ready).await.is_ok_and(|ready| ready.unwrap_or(false));
        ready.then_some(worktree)
    }
}

impl fmt::Debug for Snapshots {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Snapshots").field("base", &self.base).finish_non_exhaustive()
    }
}

/// A difference as clients show it.
fn wire(diff: TreeDiff) -> FileDiff {
    let status = match diff.status {
        Status::Added => "added",
        Status::Deleted => "deleted",
        Status::Modified => "modified",
    };
    FileDiff {
        file: Some(diff.file),
        // Clients expect a text here.
        patch: Some(diff.patch.unwrap_or_default()),
        additions: diff.additions,
        deletions: diff.deletions,
        status: Some(status.to_owned()),
        ..FileDiff::default()
    }
}
