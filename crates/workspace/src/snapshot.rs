//! Snapshots of a worktree, and how to restore them.
//!
//! Each worktree gets a *shadow*: a separate git directory elsewhere that points at the same files. A snapshot
//! is the tree that git writes there of all files that are not ignored. The repository itself is only read: its
//! objects are borrowed, so that a snapshot costs only what changed since the last commit, and its index and
//! references never change.
//!
//! - Bytes are stored unchanged. No attribute, filter or line ending of the repository applies, because a
//!   restored file must equal the original.
//! - Uncommitted files larger than [`MAX_UNTRACKED`] are omitted.
//! - Several snapshots may be taken concurrently: each works on a copy of the shadow's index, and the last one
//!   to finish keeps its copy for the next.
//! - Git runs only after a change: [`walk`] compares metadata first, and the last tree is returned if nothing differs.
//! - Every operation has a deadline: after it the caller gets [`Error::Late`], and nothing was changed.
//! - Trees that were not accessed for [`RETENTION`] are removed.

mod command;
mod compare;
mod index;
mod restore;
#[cfg(test)]
mod tests;
mod upkeep;
mod walk;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use sha1::{Digest, Sha1};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::files::Closed;
use crate::git::Repository;
use command::{Git, Onto};
use index::{Index, Source, Wanted};
use upkeep::{Cleaning, Maintenance};
use walk::{Differences, Taken, Walk};

pub use command::Error;
pub use compare::{MAX_COMPARED, MAX_PATCHES, TreeDiff};

/// Largest uncommitted file in a snapshot, in bytes.
pub const MAX_UNTRACKED: u64 = 2 * 1024 * 1024;

/// Timeout of one snapshot.
pub const TRACK: Duration = Duration::from_secs(5);

/// Timeout for preparing the first snapshot, which reads every file.
pub const OPEN: Duration = Duration::from_secs(30);

/// Timeout for comparing two snapshots or restoring files.
pub const WORK: Duration = Duration::from_secs(30);

/// The timeouts of a worktree's snapshots.
#[derive(Debug, Clone, Copy)]
pub struct SnapshotTimeouts {
    open: Duration,
    track: Duration,
    work: Duration,
}

impl SnapshotTimeouts {
    /// The same timeout for every operation. Tests use it to be independent of the load of their machine.
    pub fn uniform(timeout: Duration) -> Self {
        Self { open: timeout, track: timeout, work: timeout }
    }
}

impl Default for SnapshotTimeouts {
    fn default() -> Self {
        Self { open: OPEN, track: TRACK, work: WORK }
    }
}

/// Lifetime of a snapshot, in git's notation.
pub const RETENTION: &str = "7.days.ago";

/// Number of snapshots between two removals of old ones.
const TIDY_EVERY: u32 = 1_000;

/// Timeout for removing old snapshots. No caller waits for it.
const TIDY: Duration = Duration::from_mins(2);

/// Disables attributes that would change bytes on their way in or out, for every file.
const VERBATIM: &str = "* -text !eol -ident -filter !working-tree-encoding\n";

/// A snapshot: the id of a git tree.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Tree(String);

impl Tree {
    /// Parses a stored id; `None` if it is invalid.
    pub fn parse(text: &str) -> Option<Self> {
        let is_id = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Length of an object id of the same repository, in bytes.
    fn id_length(&self) -> usize {
        self.0.len() / 2
    }
}

/// The snapshots of one worktree.
#[derive(Debug)]
pub struct SnapshotStore {
    git: Git,
    timeouts: SnapshotTimeouts,
    taken: AtomicU32,
    /// True if old snapshots should be removed.
    tidy_due: Arc<AtomicBool>,
    upkeep: Maintenance,
    walk: Walk,
}

impl SnapshotStore {
    /// Directory of a worktree's shadow below the directory for all of them.
    pub fn place(base: &Path, project: &str, worktree: &Path) -> PathBuf {
        let digest = Sha1::digest(worktree.as_os_str().as_encoded_bytes());
        let name = digest.iter().fold(String::new(), |mut name, byte| {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
            name
        });
        base.join(project).join(name)
    }

    /// Prepares snapshots of a repository's worktree, stored in `directory`. Closed paths are excluded, so that
    /// no diff shows their content.
    pub async fn open(
        directory: PathBuf,
        repository: &Repository,
        closed: &Closed,
        timeouts: SnapshotTimeouts,
        cancel: &CancellationToken,
    ) -> Result<Self, Error> {
        let git = Git { directory, worktree: repository.worktree.clone() };
        within(timeouts.open, prepare(&git, repository, closed, cancel)).await?;
        let walk = Walk::new(&git.directory, &git.worktree);
        Ok(Self {
            git,
            timeouts,
            walk,
            taken: AtomicU32::new(0),
            tidy_due: Arc::default(),
            upkeep: Maintenance::default(),
        })
    }

    /// Top of the worktree.
    pub fn worktree(&self) -> &Path {
        &self.git.worktree
    }

    pub async fn track(&self, cancel: &CancellationToken) -> Result<Tree, Error> {
        let tree = within(self.timeouts.track, self.take(cancel)).await?;
        if self.taken.fetch_add(1, Ordering::Relaxed).is_multiple_of(TIDY_EVERY) {
            self.tidy_due.store(true, Ordering::Relaxed);
        }
        self.tidy();
        Ok(tree)
    }

    async fn take(&self, cancel: &CancellationToken) -> Result<Tree, Error> {
        let _work = self.upkeep.work().await;
        let differences = self.walk.look(&self.git).await;
        if cancel.is_cancelled() {
            return Err(Error::Stopped);
        }
        if let Some(tree) = differences.unchanged() {
            return Ok(tree);
        }
        let index = Index::copy(&self.git.directory, differences.hidden_since()).await?;
        let git = self.git.on(&index, cancel);
        let wanted = self.wanted(&git, &differences).await?;
        let has_added = wanted.specs.is_some();
        let complete = match wanted.specs {
            Some(specs) => add(&git, &index, specs).await?,
            None => true,
        };
        let source = index.source();
        let known = source.and_then(|source| differences.tree_of(source.identity));
        let (tree, identity) = match known.zip(source) {
            Some((tree, source)) if !has_added => (tree, source.identity),
            _ => (write_tree(&git).await?, index.keep().await?),
        };
        if let Some(Source { copied: started, .. }) = source {
            let taken =
                Taken { tree: tree.clone(), index: identity, started, large: wanted.large, differences };
            self.walk.remember(&self.git.plain(cancel), taken, complete).await;
        }
        Ok(tree)
    }

    /// The files to add: those that the walk has found, or else those that git finds.
    async fn wanted(&self, git: &Onto<'_>, differences: &Differences) -> Result<Wanted, Error> {
        if let Some(files) = differences.changed_files() {
            return Ok(Wanted { specs: Some(index::literally(&files)), ..Wanted::default() });
        }
        let listed = git.read(&["ls-files", "-z", "-t", "-m", "-o", "--exclude-standard"]).await?;
        index::wanted(&self.git.worktree, listed).await
    }

    /// Removes old snapshots if it is time and no operation is running; otherwise the next snapshot tries
    /// again.
    fn tidy(&self) {
        if !self.tidy_due.load(Ordering::Relaxed) {
            return;
        }
        if let Some(cleaning) = self.upkeep.clean() {
            tokio::spawn(prune(self.git.clone(), cleaning, Arc::clone(&self.tidy_due)));
        }
    }
}

/// Stops an operation that takes too long.
async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    timeout(limit, work).await.map_err(|_| Error::Late { after: limit })?
}

/// Adds files to the index. Returns false if some could not be added: a file that vanishes or cannot be read must not
/// prevent the snapshot of the others.
async fn add(git: &Onto<'_>, index: &Index, specs: Vec<u8>) -> Result<bool, Error> {
    let list = index.write_list(specs).await?;
    let add = ["add", "--all", "--ignore-errors", "--pathspec-file-nul", "--pathspec-from-file"];
    Ok(git.run(&[&add[..], &[&list]].concat(), &[0, 1]).await? == 0)
}

async fn write_tree(git: &Onto<'_>) -> Result<Tree, Error> {
    let tree = git.read(&["write-tree", "--missing-ok"]).await?;
    Tree::parse(tree.trim()).ok_or_else(|| Error::odd("write-tree"))
}

/// Removes old trees in the background. Objects shared with newer trees stay.
async fn prune(git: Git, cleaning: Cleaning, due: Arc<AtomicBool>) {
    let args = ["prune", "--expire", RETENTION];
    let pruned = timeout(TIDY, git.plain(&cleaning.stop).run(&args, &[0])).await;
    if matches!(pruned, Ok(Err(Error::Stopped))) {
        return;
    }
    due.store(false, Ordering::Relaxed);
    if !matches!(pruned, Ok(Ok(_))) {
        tracing::debug!(directory = %git.directory.display(), ?pruned, "cannot remove old snapshots");
    }
}

/// Escapes a path for git's patterns.
fn literal(path: &Path) -> String {
    let mut text = String::new();
    for letter in path.to_string_lossy().chars() {
        if matches!(letter, '\\' | '*' | '?' | '[' | ' ') {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

/// Creates the shadow if it does not exist. Every step is repeatable, since a crash may come between any two.
async fn prepare(
    git: &Git,
    repository: &Repository,
    closed: &Closed,
    cancel: &CancellationToken,
) -> Result<(), Error> {
    if !git.directory.join("HEAD").exists() {
        tokio::fs::create_dir_all(&git.directory).await?;
        let format = repository.object_format().await.unwrap_or_else(|| "sha1".to_owned());
        let format = format!("--object-format={format}");
        git.plain(cancel).run(&["init", "--quiet", "--template=", &format], &[0]).await?;
    }
    for directory in ["objects/info", "info"] {
        tokio::fs::create_dir_all(git.directory.join(directory)).await?;
    }
    let objects = repository.common.join("objects");
    let borrowed = [objects.as_os_str().as_encoded_bytes(), b"\n"].concat();
    tokio::fs::write(git.directory.join("objects/info/alternates"), borrowed).await?;
    tokio::fs::write(git.directory.join("info/attributes"), VERBATIM).await?;
    let mut excluded = tokio::fs::read(repository.common.join("info/exclude")).await.unwrap_or_default();
    // Excludes the shadow itself and closed paths.
    let itself = git.directory.strip_prefix(&git.worktree).ok();
    for inside in itself.into_iter().chain(closed.below(&git.worktree)) {
        excluded.extend_from_slice(format!("\n/{}\n", literal(inside)).as_bytes());
    }
    tokio::fs::write(git.directory.join("info/exclude"), excluded).await?;
    index::sweep(&git.directory).await?;
    if index::exists(&git.directory) {
        return Ok(());
    }
    // Reads the committed files into the index, so that the size limit does not apply to them.
    let index = Index::copy(&git.directory, None).await?;
    let onto = git.on(&index, cancel);
    if let Some(head) = repository.head_tree().await {
        onto.run(&["read-tree", &head], &[0]).await?;
        onto.run(&["update-index", "-q", "--refresh"], &[0, 1]).await?;
        index.keep().await?;
    }
    Ok(())
}
