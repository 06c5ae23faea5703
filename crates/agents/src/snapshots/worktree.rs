//! A worktree that sessions work in.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::ports::Origins;
use protocol::project::FileDiff;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use workspace::files::Closed;
use workspace::git::Repository;
use workspace::snapshot::{Error, MAX_PATCHES, Shadow, Tree};

use super::ledger::Ledger;
use super::wire;

/// How long nothing is tried in a worktree in which it did not work: a tree that is too large today is too large in
/// a minute, and a turn must not wait for that at every step.
const REST: Duration = Duration::from_mins(10);

/// A worktree, its snapshots and its ledger. There is one for all sessions.
#[derive(Debug)]
pub(crate) struct Worktree {
    place: PathBuf,
    closed: Closed,
    shadow: OnceCell<Shadow>,
    /// Who has changed what.
    pub(crate) ledger: Arc<Ledger>,
    rests_until: Mutex<Option<Instant>>,
}

impl Worktree {
    pub(super) fn new(place: PathBuf, closed: Closed) -> Self {
        let (shadow, ledger, rests_until) = Default::default();
        Self { place, closed, shadow, ledger, rests_until }
    }

    /// Gets ready, unless it is; false if there is no point in trying. Only one at a time does it.
    pub(super) async fn prepare(&self, repository: &Repository) -> bool {
        if self.is_resting() {
            return false;
        }
        let (closed, cancel) = (&self.closed, CancellationToken::new());
        let open = async || Shadow::open(self.place.clone(), repository, closed, &cancel).await;
        match self.shadow.get_or_try_init(open).await {
            Ok(_) => true,
            Err(error) => {
                self.give_up(&error);
                false
            }
        }
    }

    /// Takes a snapshot; nothing if it cannot be had.
    pub(crate) async fn track(&self, cancel: &CancellationToken) -> Option<Tree> {
        let shadow = self.shadow.get().filter(|_| !self.is_resting())?;
        shadow.track(cancel).await.map_err(|error| self.give_up(&error)).ok()
    }

    /// The files that differ between two snapshots.
    pub(crate) async fn changed(
        &self,
        from: &Tree,
        to: &Tree,
        cancel: &CancellationToken,
    ) -> BTreeSet<PathBuf> {
        let Some(shadow) = self.shadow.get() else { return BTreeSet::new() };
        shadow.changed(from, to, cancel).await.unwrap_or_else(|error| {
            self.give_up(&error);
            BTreeSet::new()
        })
    }

    /// Makes files what they were.
    pub(super) async fn restore(&self, origins: &Origins, cancel: &CancellationToken) -> Result<(), String> {
        let shadow = self.shadow.get().ok_or("there are no snapshots of this worktree")?;
        for (tree, files) in trees(origins)? {
            shadow.restore(&tree, &files, cancel).await.map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// How files differ from what they were, in a snapshot. Of a tree that is not kept any more nothing is said.
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
                    tracing::debug!(%error, tree = tree.as_str(), "a snapshot could not be compared");
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

    fn is_resting(&self) -> bool {
        let until = *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// Says what went wrong, and leaves the worktree alone for a while.
    fn give_up(&self, error: &Error) {
        if matches!(error, Error::Stopped) {
            return;
        }
        let minutes = REST.as_secs() / 60;
        tracing::warn!(%error, "no snapshots of a worktree for {minutes} minutes: what happens now cannot be reverted");
        *self.rests_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + REST);
    }
}

/// Origins as the workspace knows them.
fn trees(origins: &Origins) -> Result<Vec<(Tree, BTreeSet<PathBuf>)>, String> {
    let known = |(tree, files): (&str, BTreeSet<&str>)| {
        let tree = Tree::parse(tree).ok_or_else(|| format!("{tree:?} is no snapshot"))?;
        Ok((tree, files.into_iter().map(PathBuf::from).collect()))
    };
    origins.by_tree().into_iter().map(known).collect()
}
