//! Copies of a shadow's index, one per operation, and the files to add to them.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::walk::{Identity, Time, changed};
use super::{Error, MAX_UNTRACKED};

/// The kept index. It knows which files are unchanged, which makes snapshots cheap.
pub(super) const KEPT: &str = "index";

/// Prefix of copies.
const COPY: &str = "index-";

/// A copy of the index for one operation, removed on drop unless it is kept.
#[derive(Debug)]
pub(super) struct Index {
    directory: PathBuf,
    path: PathBuf,
    source: Option<Source>,
}

/// The kept index that a copy was made of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Source {
    pub(super) identity: Identity,
    /// Time of the copy, by the clock of the file system. Whatever changes later is at least as new.
    pub(super) copied: Time,
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
    ///
    /// Git reads a file again if it is as new as the index. The copy therefore has the time of the original, or the
    /// earlier time `since`, in seconds, which makes git read more files.
    pub(super) async fn copy(directory: &Path, since: Option<i64>) -> Result<Self, Error> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("{COPY}{number}"));
        let mut copy = Self { directory: directory.to_owned(), path, source: None };
        let (from, to) = (directory.join(KEPT), copy.path.clone());
        copy.source = blocking(move || copy_file(&from, &to, since)).await?;
        Ok(copy)
    }

    /// The index that this is a copy of; `None` if there was none.
    pub(super) fn source(&self) -> Option<Source> {
        self.source
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
    pub(super) async fn keep(self) -> Result<Identity, Error> {
        let identity = Identity::from(&tokio::fs::metadata(&self.path).await?);
        tokio::fs::rename(&self.path, self.directory.join(KEPT)).await?;
        Ok(identity)
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

fn copy_file(from: &Path, to: &Path, since: Option<i64>) -> io::Result<Option<Source>> {
    let mut original = match File::open(from) {
        Ok(original) => original,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let about = original.metadata()?;
    let mut copy = File::create_new(to)?;
    io::copy(&mut original, &mut copy)?;
    let earlier = since.and_then(|since| u64::try_from(since).ok()).map(Duration::from_secs);
    let earlier = earlier.map(|since| SystemTime::UNIX_EPOCH + since);
    let written = about.modified()?;
    // New kernels give a finer time to a file whose time was read before.
    copy.metadata()?;
    copy.set_modified(earlier.map_or(written, |earlier| earlier.min(written)))?;
    Ok(Some(Source { identity: Identity::from(&about), copied: changed(&copy.metadata()?) }))
}

/// The files that a snapshot adds to the index.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Git's patterns for them; `None` if there is nothing to add.
    pub(super) specs: Option<Vec<u8>>,
    /// New files that are too large.
    pub(super) large: Vec<String>,
}

/// Chooses the files to add, from git's list of differences: all but large new files.
pub(super) async fn wanted(worktree: &Path, listed: String) -> Result<Wanted, Error> {
    if listed.is_empty() {
        return Ok(Wanted::default());
    }
    let worktree = worktree.to_owned();
    Ok(blocking(move || Ok(choose(&worktree, &listed))).await?)
}

fn choose(worktree: &Path, listed: &str) -> Wanted {
    let mut wanted = Wanted::default();
    let mut specs = b".\0".to_vec();
    for entry in listed.split('\0').filter(|entry| !entry.is_empty()) {
        // Each entry is a letter for its kind, a space and a path.
        let Some((kind, path)) = entry.split_once(' ') else { continue };
        let large = |path: &Path| path.symlink_metadata().is_ok_and(|file| file.len() > MAX_UNTRACKED);
        if kind == "?" && large(&worktree.join(OsStr::new(path))) {
            specs.extend_from_slice(b":(exclude,literal,top)");
            specs.extend_from_slice(path.as_bytes());
            specs.push(0);
            wanted.large.push(path.to_owned());
        } else {
            wanted.specs = Some(Vec::new());
        }
    }
    wanted.specs = wanted.specs.map(|_| specs);
    wanted
}

/// Git's patterns for exactly these files.
pub(super) fn literally(names: &[&[u8]]) -> Vec<u8> {
    names.iter().flat_map(|name| [b":(literal,top)", *name, b"\0"].concat()).collect()
}

pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => Err(io::Error::other(error)),
    }
}
