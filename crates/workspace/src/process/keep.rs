//! Restores files that a program must not change.
//!
//! Landlock can let a program write to a whole tree, but cannot exclude a part of it. So the excluded files are
//! saved before the program starts and restored after it and all its descendants have ended.
//!
//! Concurrent programs share the saved state: one that starts after another has changed a file must not save
//! the change as the original. The price is that an edit by the user during that time is undone, too.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};

use parking_lot::Mutex;

/// Most files and directories saved for one program.
pub const MAX_KEPT_FILES: usize = 2000;

/// Most bytes saved for one program.
pub const MAX_KEPT_BYTES: u64 = 8 * 1024 * 1024;

/// Directory whose content is not saved: installed packages would exceed every limit.
const PACKAGES: &str = "node_modules";

/// Permission bits of a file.
const MODE: u32 = 0o7777;

/// A path to restore after the program.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SavedPath {
    /// A real path, except for its last component. If it does not exist, it is removed afterwards.
    pub path: PathBuf,
    /// True to include the content of a directory.
    pub contents: bool,
}

/// A path that the program changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restored {
    pub path: PathBuf,
    pub outcome: RestoreOutcome,
}

/// Result of restoring a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestoreOutcome {
    PutBack,
    /// It was new and was removed.
    Removed,
    /// It is still changed, for this reason.
    Failed(String),
}

/// The reason why files cannot be saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// They exceed the limits.
    #[error(
        "`{}` has more than {MAX_KEPT_FILES} files or {} MiB, too much to restore after a command",
        .0.display(), MAX_KEPT_BYTES / 1024 / 1024
    )]
    TooMuch(PathBuf),
    /// A file cannot be read.
    #[error("cannot read `{}`, so changes to it could not be undone: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
}

/// Saved state of a path.
#[derive(Debug)]
enum Before {
    Absent,
    File {
        bytes: Vec<u8>,
        mode: u32,
    },
    Link(PathBuf),
    Directory {
        mode: u32,
        entries: Option<BTreeMap<OsString, Before>>,
    },
    /// A socket or a pipe, which has no content to restore.
    Other,
}

#[derive(Debug)]
struct SavedState {
    kept: SavedPath,
    before: Before,
    files: usize,
    bytes: u64,
}

/// All saved paths of running programs. Locked while paths are read and restored, so that no program starts
/// from a state that another is about to restore.
static TABLE: LazyLock<Mutex<HashMap<SavedPath, Weak<SavedState>>>> = LazyLock::new(Mutex::default);

/// Saved paths of one program. Dropping it also restores them.
#[derive(Debug)]
pub(super) struct SavedPaths {
    places: Vec<Arc<SavedState>>,
}

impl SavedPaths {
    /// Saves paths, and the targets of links in them where the program may write.
    pub(super) fn new(kept: Vec<SavedPath>, writable: &[PathBuf]) -> Result<Self, SaveError> {
        let mut table = TABLE.lock();
        table.retain(|_, place| place.strong_count() > 0);
        let mut places = Vec::new();
        let (mut known, mut waiting) = (BTreeSet::new(), VecDeque::from(kept));
        let (mut files, mut bytes) = (0_usize, 0_u64);
        while let Some(kept) = waiting.pop_front() {
            if !known.insert(kept.clone()) {
                continue;
            }
            if known.len() > MAX_KEPT_FILES {
                return Err(SaveError::TooMuch(kept.path));
            }
            let place = match table.get(&kept).and_then(Weak::upgrade) {
                Some(place) => place,
                None => Arc::new(SavedState::read(kept.clone())?),
            };
            files += place.files;
            bytes += place.bytes;
            if files > MAX_KEPT_FILES || bytes > MAX_KEPT_BYTES {
                return Err(SaveError::TooMuch(kept.path));
            }
            let targets = place.before.targets(&kept.path).into_iter();
            let reachable = targets.filter(|path| writable.iter().any(|writable| path.starts_with(writable)));
            waiting.extend(reachable.map(|path| SavedPath { path, contents: kept.contents }));
            table.insert(kept, Arc::downgrade(&place));
            places.push(place);
        }
        Ok(Self { places })
    }

    /// Restores everything and returns the changed paths. The program and all its descendants must have ended.
    pub(super) fn restore(&mut self) -> Vec<Restored> {
        let _held = TABLE.lock();
        let mut restored = Vec::new();
        for place in self.places.drain(..) {
            place.restore(&mut restored);
        }
        restored
    }
}

impl Drop for SavedPaths {
    fn drop(&mut self) {
        for Restored { path, outcome } in self.restore() {
            tracing::warn!(path = %path.display(), ?outcome, "an interrupted command had changed a protected file");
        }
    }
}

impl SavedState {
    fn read(kept: SavedPath) -> Result<Self, SaveError> {
        let mut reading = Reading { root: &kept.path, files: 0, bytes: 0 };
        let before = reading.read(&kept.path, kept.contents)?;
        let (files, bytes) = (reading.files, reading.bytes);
        Ok(Self { kept, before, files, bytes })
    }

    fn restore(&self, out: &mut Vec<Restored>) {
        let path = &self.kept.path;
        let parent = path.parent().unwrap_or(path);
        match real_parent(parent, matches!(self.before, Before::Absent)) {
            Ok(true) => restore(path, &self.before, out),
            Ok(false) => {}
            Err(error) => {
                out.push(Restored { path: path.clone(), outcome: RestoreOutcome::Failed(error.to_string()) });
            }
        }
    }
}

impl Before {
    /// Targets of links, one step each.
    fn targets(&self, path: &Path) -> Vec<PathBuf> {
        match self {
            Self::Link(target) => {
                let from = path.parent().unwrap_or(path);
                // The parent is resolved to a real path; the name itself may be a link again.
                let target = from.join(target);
                let directory = target.parent().and_then(|directory| directory.canonicalize().ok());
                directory
                    .zip(target.file_name())
                    .map(|(directory, name)| directory.join(name))
                    .into_iter()
                    .collect()
            }
            Self::Directory { entries: Some(entries), .. } => {
                entries.iter().flat_map(|(name, before)| before.targets(&path.join(name))).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Reads paths within the limits.
struct Reading<'p> {
    root: &'p Path,
    files: usize,
    bytes: u64,
}

impl Reading<'_> {
    fn read(&mut self, path: &Path, contents: bool) -> Result<Before, SaveError> {
        let unreadable = |source| SaveError::Unreadable { path: path.to_owned(), source };
        let about = match path.symlink_metadata() {
            Ok(about) => about,
            Err(error) if is_absence(&error) => return Ok(Before::Absent),
            Err(error) => return Err(unreadable(error)),
        };
        self.files += 1;
        let mode = about.permissions().mode() & MODE;
        if about.is_symlink() {
            return fs::read_link(path).map(Before::Link).map_err(unreadable);
        }
        if about.is_dir() {
            let entries = if contents { Some(self.entries(path)?) } else { None };
            return Ok(Before::Directory { mode, entries });
        }
        if !about.is_file() {
            return Ok(Before::Other);
        }
        let mut bytes = Vec::new();
        let left = MAX_KEPT_BYTES.saturating_sub(self.bytes);
        let file = fs::File::open(path).map_err(unreadable)?;
        file.take(left + 1).read_to_end(&mut bytes).map_err(unreadable)?;
        self.bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.check()?;
        Ok(Before::File { bytes, mode })
    }

    fn entries(&mut self, path: &Path) -> Result<BTreeMap<OsString, Before>, SaveError> {
        let unreadable = |source| SaveError::Unreadable { path: path.to_owned(), source };
        let mut entries = BTreeMap::new();
        for entry in fs::read_dir(path).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            let before = self.read(&path.join(&name), name != PACKAGES)?;
            self.check()?;
            entries.insert(name, before);
        }
        Ok(entries)
    }

    fn check(&self) -> Result<(), SaveError> {
        if self.files > MAX_KEPT_FILES || self.bytes > MAX_KEPT_BYTES {
            return Err(SaveError::TooMuch(self.root.to_owned()));
        }
        Ok(())
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Checks that the parent of a path is still the real directory and not a link; otherwise restored files would
/// be written wherever the program wants. Returns false if there is no such directory; creates it if it is
/// needed.
fn real_parent(parent: &Path, is_absent: bool) -> io::Result<bool> {
    let Some(found) = parent.ancestors().find(|path| path.symlink_metadata().is_ok()) else {
        return Ok(false);
    };
    if found.canonicalize()? != found {
        let message = format!("`{}` has become a link to another directory", found.display());
        return Err(io::Error::other(message));
    }
    if found == parent {
        return Ok(true);
    }
    if is_absent {
        return Ok(false);
    }
    fs::create_dir_all(parent).map(|()| true)
}

/// Restores a path. Its directory is known to be real.
fn restore(path: &Path, before: &Before, out: &mut Vec<Restored>) {
    let mut done = |outcome: io::Result<RestoreOutcome>| {
        let outcome = outcome.unwrap_or_else(|error| RestoreOutcome::Failed(error.to_string()));
        out.push(Restored { path: path.to_owned(), outcome });
    };
    match before {
        Before::Absent => match path.symlink_metadata() {
            Err(error) if is_absence(&error) => {}
            _ => done(remove(path).map(|()| RestoreOutcome::Removed)),
        },
        Before::Link(target) => {
            if fs::read_link(path).ok().as_ref() != Some(target) {
                done(remove(path).and_then(|()| symlink(target, path)).map(|()| RestoreOutcome::PutBack));
            }
        }
        Before::File { bytes, mode } => {
            if !is_same_file(path, bytes, *mode) {
                done(put_file(path, bytes, *mode).map(|()| RestoreOutcome::PutBack));
            }
        }
        Before::Directory { mode, entries } => {
            match put_directory(path, *mode) {
                Ok(true) => {}
                Ok(false) => done(Ok(RestoreOutcome::PutBack)),
                Err(error) => return done(Err(error)),
            }
            if let Some(entries) = entries {
                restore_entries(path, entries, out);
            }
        }
        Before::Other => {
            let is_plain = |about: fs::Metadata| about.is_file() || about.is_dir() || about.is_symlink();
            if path.symlink_metadata().is_ok_and(is_plain) {
                done(remove(path).map(|()| RestoreOutcome::Removed));
            }
        }
    }
}

fn restore_entries(path: &Path, entries: &BTreeMap<OsString, Before>, out: &mut Vec<Restored>) {
    let now: BTreeSet<OsString> = match fs::read_dir(path) {
        Ok(now) => now.flatten().map(|entry| entry.file_name()).collect(),
        Err(error) => {
            return out.push(Restored {
                path: path.to_owned(),
                outcome: RestoreOutcome::Failed(error.to_string()),
            });
        }
    };
    for name in now.iter().filter(|name| !entries.contains_key(*name)) {
        restore(&path.join(name), &Before::Absent, out);
    }
    for (name, before) in entries {
        restore(&path.join(name), before, out);
    }
}

fn is_same_file(path: &Path, bytes: &[u8], mode: u32) -> bool {
    let Ok(about) = path.symlink_metadata() else { return false };
    let is_alike = about.is_file()
        && about.permissions().mode() & MODE == mode
        && usize::try_from(about.len()).is_ok_and(|length| length == bytes.len());
    is_alike && fs::read(path).is_ok_and(|now| now == bytes)
}

/// Replaces whatever is at the path with a file. Readers see either version, never a half-written one.
fn put_file(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let new = beside(path);
    let written =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).and_then(|mut file| {
            file.write_all(bytes)?;
            file.set_permissions(Permissions::from_mode(mode))
        });
    let is_directory = path.symlink_metadata().is_ok_and(|about| about.is_dir());
    let cleared = written.and_then(|()| if is_directory { remove(path) } else { Ok(()) });
    let put = cleared.and_then(|()| fs::rename(&new, path));
    if put.is_err() {
        let _ = fs::remove_file(&new);
    }
    put
}

/// Ensures that a directory with this mode exists. Returns true if it already did.
fn put_directory(path: &Path, mode: u32) -> io::Result<bool> {
    match path.symlink_metadata() {
        Ok(about) if about.is_dir() => {
            let is_same = about.permissions().mode() & MODE == mode;
            if !is_same {
                fs::set_permissions(path, Permissions::from_mode(mode))?;
            }
            return Ok(is_same);
        }
        Ok(_) => remove(path)?,
        Err(error) if is_absence(&error) => {}
        Err(error) => return Err(error),
    }
    fs::DirBuilder::new().mode(mode).create(path).map(|()| false)
}

/// Removes whatever is at a path. A directory is renamed first, because a program can create one that cannot
/// easily be emptied, and it must lose its name all the same.
fn remove(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Err(error) if is_absence(&error) => Ok(()),
        Err(error) => Err(error),
        Ok(about) if about.is_dir() => {
            let renamed = beside(path);
            fs::rename(path, &renamed)?;
            if let Err(error) = fs::remove_dir_all(&renamed) {
                tracing::warn!(path = %renamed.display(), %error, "a removed directory could not be emptied");
            }
            Ok(())
        }
        Ok(_) => fs::remove_file(path),
    }
}

/// An unused name in the same directory.
fn beside(path: &Path) -> PathBuf {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!(".baton-kept-{}-{number}", std::process::id()))
}

#[cfg(test)]
mod tests;
