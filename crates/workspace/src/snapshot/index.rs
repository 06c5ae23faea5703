//! Copies of a shadow's index, one per operation, and the files to add to them.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Error, MAX_UNTRACKED};

/// The kept index. It knows which files are unchanged, which makes snapshots cheap.
const KEPT: &str = "index";

/// Prefix of copies.
const COPY: &str = "index-";

/// A copy of the index for one operation, removed on drop unless it is kept.
#[derive(Debug)]
pub(super) struct Index {
    directory: PathBuf,
    path: PathBuf,
}

/// Returns true if there is a kept index.
pub(super) fn exists(directory: &Path) -> bool {
    directory.join(KEPT).exists()
}

/// Removes copies left by a dead process. Must be called before any operation starts.
pub(super) async fn sweep(directory: &Path) -> io::Result<()> {
    let mut entries = tokio::fs::read_dir(directory).await?;
    while let Some(entry) = entries.next_entry().await? {
        if entry.file_name().as_encoded_bytes().starts_with(COPY.as_bytes()) {
            tokio::fs::remove_file(entry.path()).await?;
        }
    }
    Ok(())
}

impl Index {
    /// Copies the kept index; empty if there is none.
    pub(super) async fn copy(directory: &Path) -> Result<Self, Error> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("{COPY}{number}"));
        let copy = Self { directory: directory.to_owned(), path };
        let (from, to) = (directory.join(KEPT), copy.path.clone());
        blocking(move || match std::fs::copy(&from, &to) {
            // A file that changed at the moment when the index was written must be read again. Git detects that
            // by the time of the index, so the copy keeps it.
            Ok(_) => {
                std::fs::File::options().write(true).open(&to)?.set_modified(from.metadata()?.modified()?)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        })
        .await?;
        Ok(copy)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the list of paths for git into a file, because it may exceed a command line.
    pub(super) async fn write_list(&self, specs: Vec<u8>) -> Result<String, Error> {
        let list = self.list();
        tokio::fs::write(&list, specs).await?;
        Ok(list.to_string_lossy().into_owned())
    }

    /// Keeps this copy for the next operation.
    pub(super) async fn keep(self) -> Result<(), Error> {
        tokio::fs::rename(&self.path, self.directory.join(KEPT)).await?;
        Ok(())
    }

    fn list(&self) -> PathBuf {
        self.path.with_extension("paths")
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        for file in [self.path.clone(), self.list(), self.path.with_extension("lock")] {
            // The files usually do not exist any more.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Paths to add to the index, from git's list of differences: all but large new files. `None` if there is
/// nothing to add.
pub(super) async fn wanted(worktree: &Path, listed: String) -> Result<Option<Vec<u8>>, Error> {
    if listed.is_empty() {
        return Ok(None);
    }
    let worktree = worktree.to_owned();
    Ok(blocking(move || Ok(choose(&worktree, &listed))).await?)
}

fn choose(worktree: &Path, listed: &str) -> Option<Vec<u8>> {
    let mut specs = b".\0".to_vec();
    let mut any = false;
    for entry in listed.split('\0').filter(|entry| !entry.is_empty()) {
        // Each entry is a letter for its kind, a space and a path.
        let Some((kind, path)) = entry.split_once(' ') else { continue };
        let large = |path: &Path| path.symlink_metadata().is_ok_and(|file| file.len() > MAX_UNTRACKED);
        if kind == "?" && large(&worktree.join(OsStr::new(path))) {
            specs.extend_from_slice(b":(exclude,literal,top)");
            specs.extend_from_slice(path.as_bytes());
            specs.push(0);
        } else {
            any = true;
        }
    }
    any.then_some(specs)
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(io::Error::other(error)),
    }
}
