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
//! - Every operation has a deadline: after it the caller gets [`Error::Late`], and nothing was changed.
//! - Trees that were not accessed for [`RETENTION`] are removed.

mod command;
mod compare;
mod index;
mod restore;
#[cfg(test)]
mod tests;
mod upkeep;

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
use command::Git;
use index::Index;
use upkeep::{Cleaning, Maintenance};

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
}

/// The snapshots of one worktree.
#[derive(Debug)]
pub struct SnapshotStore {
    git: Git,
    taken: AtomicU32,
    /// True if old snapshots should be removed.
    tidy_due: Arc<AtomicBool>,
    upkeep: Maintenance,
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
        cancel: &CancellationToken,
    ) -> Result<Self, Error> {
        let git = Git { directory, worktree: repository.worktree.clone() };
        timeout(OPEN, prepare(&git, repository, closed, cancel))
            .await
            .map_err(|_| Error::Late { after: OPEN })??;
        Ok(Self { git, taken: AtomicU32::new(0), tidy_due: Arc::default(), upkeep: Maintenance::default() })
    }

    /// Top of the worktree.
    pub fn worktree(&self) -> &Path {
        &self.git.worktree
    }

    pub async fn track(&self, cancel: &CancellationToken) -> Result<Tree, Error> {
        let tree = timeout(TRACK, self.take(cancel)).await.map_err(|_| Error::Late { after: TRACK })??;
        if self.taken.fetch_add(1, Ordering::Relaxed).is_multiple_of(TIDY_EVERY) {
            self.tidy_due.store(true, Ordering::Relaxed);
        }
        self.tidy();
        Ok(tree)
    }

    async fn take(&self, cancel: &CancellationToken) -> Result<Tree, Error> {
        let _work = self.upkeep.work().await;
        let index = Index::copy(&self.git.directory).await?;
        let git = self.git.on(&index, cancel);
        let listed = git.read(&["ls-files", "-z", "-t", "-m", "-o", "--exclude-standard"]).await?;
        if let Some(specs) = index::wanted(&self.git.worktree, listed).await? {
            let list = index.write_list(specs).await?;
            // A file that vanishes or cannot be read must not prevent the snapshot of the others.
            let add = ["add", "--all", "--ignore-errors", "--pathspec-file-nul", "--pathspec-from-file"];
            git.run(&[&add[..], &[&list]].concat(), &[0, 1]).await?;
        }
        let tree = git.read(&["write-tree", "--missing-ok"]).await?;
        index.keep().await?;
        Tree::parse(tree.trim()).ok_or_else(|| Error::odd("write-tree"))
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
    let index = Index::copy(&git.directory).await?;
    let onto = git.on(&index, cancel);
    if let Some(head) = repository.head_tree().await {
        onto.run(&["read-tree", &head], &[0]).await?;
        onto.run(&["update-index", "-q", "--refresh"], &[0, 1]).await?;
        index.keep().await?;
    }
    Ok(())
}
