//! Restores files from a snapshot.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::index::{Index, blocking};
use super::{Error, SnapshotStore, Tree, within};

impl SnapshotStore {
    /// Restores files to their state in the snapshot. Files that did not exist then are removed. Files outside
    /// the worktree and directories stay unchanged.
    pub async fn restore(
        &self,
        tree: &Tree,
        files: &BTreeSet<PathBuf>,
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        if files.is_empty() {
            return Ok(());
        }
        within(self.timeouts.work, self.bring_back(tree, files, cancel)).await
    }

    async fn bring_back(
        &self,
        tree: &Tree,
        files: &BTreeSet<PathBuf>,
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        let index = Index::copy(&self.git.directory, None).await?;
        let git = self.git.on(&index, cancel);
        let listed = git.read(&["ls-tree", "-r", "-z", "--full-tree", "--name-only", tree.as_str()]).await?;
        let there: BTreeSet<&str> = listed.split('\0').collect();
        let (mut specs, mut gone) = (Vec::new(), Vec::new());
        for (file, name) in files.iter().filter_map(|file| Some((file, self.name(file)?))) {
            if there.contains(name) {
                specs.extend_from_slice(b":(literal,top)");
                specs.extend_from_slice(name.as_bytes());
                specs.push(0);
            } else {
                gone.push(file.clone());
            }
        }
        if !specs.is_empty() {
            let list = index.write_list(specs).await?;
            let source = format!("--source={}", tree.as_str());
            let how = ["--worktree", "--overlay", "--pathspec-file-nul", "--pathspec-from-file", &list];
            git.run(&[&["restore", "--quiet", &source], &how[..]].concat(), &[0]).await?;
        }
        let worktree = self.git.worktree.clone();
        Ok(blocking(move || gone.iter().try_for_each(|file| remove(&worktree, file))).await?)
    }
}

/// Removes a file, unless a link in its path leads out of the worktree.
fn remove(worktree: &Path, file: &Path) -> io::Result<()> {
    let parent = match file.parent().map(Path::canonicalize) {
        Some(Ok(parent)) => parent,
        Some(Err(error)) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => return Ok(()),
    };
    let is_file = file.symlink_metadata().is_ok_and(|found| !found.is_dir());
    if is_file && parent.starts_with(worktree.canonicalize()?) { std::fs::remove_file(file) } else { Ok(()) }
}
