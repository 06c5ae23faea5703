//! A worktree that sessions work in, with its snapshots.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use engine::ports::Origins;
use parking_lot::Mutex;
use protocol::project::FileDiff;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use workspace::files::Closed;
use workspace::git::Repository;
use workspace::snapshot::{Error, MAX_PATCHES, SnapshotStore, SnapshotTimeouts, Tree};

use super::claims::Claims;
use super::wire;

/// The pause after a snapshot has failed. A tree that is too large now is still too large a minute later, and
/// a turn must not wait for that at every step.
const PAUSE: Duration = Duration::from_mins(10);

/// A worktree, its snapshots and its claims, shared by all sessions.
#[derive(Debug)]
pub(crate) struct Worktree {
    place: PathBuf,
    closed: Closed,
    timeouts: SnapshotTimeouts,
    shadow: OnceCell<SnapshotStore>,
    pub(crate) claims: Arc<Claims>,
    paused_until: Mutex<Option<Instant>>,
}

impl Worktree {
    pub(super) fn new(place: PathBuf, closed: Closed, timeouts: SnapshotTimeouts) -> Self {
        let (shadow, claims, paused_until) = Default::default();
        Self { place, closed, timeouts, shadow, claims, paused_until }
    }

    /// Opens the snapshots unless they are open. Returns false if that fails or if an earlier failure is too
    /// recent. Concurrent calls share one attempt.
    pub(super) async fn prepare(&self, repository: &Repository) -> bool {
        if self.is_paused() {
            return false;
        }
        let (closed, timeouts, cancel) = (&self.closed, self.timeouts, CancellationToken::new());
        let open =
            async || SnapshotStore::open(self.place.clone(), repository, closed, timeouts, &cancel).await;
        match self.shadow.get_or_try_init(open).await {
            Ok(_) => true,
            Err(error) => {
                self.pause(&error);
                false
            }
        }
    }

    /// Takes a snapshot. Returns `None` if that fails.
    pub(crate) async fn track(&self, cancel: &CancellationToken) -> Option<Tree> {
        let shadow = self.shadow.get().filter(|_| !self.is_paused())?;
        shadow.track(cancel).await.map_err(|error| self.pause(&error)).ok()
    }

    /// Returns the files that differ between two snapshots, or an empty set if the comparison fails.
    pub(crate) async fn changed(
        &self,
        from: &Tree,
        to: &Tree,
        cancel: &CancellationToken,
    ) -> BTreeSet<PathBuf> {
        let Some(shadow) = self.shadow.get() else { return BTreeSet::new() };
        shadow.changed(from, to, cancel).await.unwrap_or_else(|error| {
            self.pause(&error);
            BTreeSet::new()
        })
    }

    /// Restores files to their earlier contents.
    pub(super) async fn restore(&self, origins: &Origins, cancel: &CancellationToken) -> Result<(), String> {
        let shadow =
            self.shadow.get().ok_or("this worktree has no snapshots; see the server log for the cause")?;
        for (tree, files) in trees(origins)? {
            shadow.restore(&tree, &files, cancel).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Compares the earlier contents of files with a snapshot. Files are left out if their earlier tree is no
    /// longer stored. Patches beyond the size limit are empty.
    pub(crate) async fn compare(
        &self,
        origins: &Origins,
        to: &Tree,
        cancel: &CancellationToken,
    ) -> Vec<FileDiff> {
        let (Some(shadow), Ok(trees)) = (self.shadow.get(), trees(origins)) else { return Vec::new() };
        let mut diffs = Vec::new();
        for (tree, files) in trees {
            match shadow.compare(&tree, to, &files, cancel).await {
                Ok(found) => diffs.extend(found.into_iter().map(wire)),
                Err(error) => {
                    tracing::debug!(%error, tree = tree.as_str(), "cannot compare a snapshot; leaving its files out");
                }
            }
        }
        diffs.sort_by(|one, other| one.file.cmp(&other.file));
        let mut room = MAX_PATCHES;
        for patch in diffs.iter_mut().filter_map(|diff| diff.patch.as_mut()) {
            match room.checked_sub(patch.len()) {
                Some(left) => room = left,
                None => patch.clear(),
            }
        }
        diffs
    }

    fn is_paused(&self) -> bool {
        let until = *self.paused_until.lock();
        until.is_some_and(|until| Instant::now() < until)
    }

    /// Logs an error and takes no snapshots of the worktree for [`PAUSE`].
    fn pause(&self, error: &Error) {
        if matches!(error, Error::Stopped) {
            return;
        }
        let minutes = PAUSE.as_secs() / 60;
        tracing::warn!(%error, "cannot take a snapshot of a worktree; retrying in {minutes} minutes, changes until then cannot be reverted");
        *self.paused_until.lock() = Some(Instant::now() + PAUSE);
    }
}

/// Parses the tree ids and paths of origins.
fn trees(origins: &Origins) -> Result<Vec<(Tree, BTreeSet<PathBuf>)>, String> {
    let known = |(tree, files): (&str, BTreeSet<&str>)| {
        let tree = Tree::parse(tree).ok_or_else(|| format!("{tree:?} is not a snapshot id"))?;
        Ok((tree, files.into_iter().map(PathBuf::from).collect()))
    };
    origins.by_tree().into_iter().map(known).collect()
}
