//! Paths whose files no client and no model may read, from any project.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Error;
use super::root::follow;

/// Kernel file systems, which expose devices and the memory and environment of processes.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

/// Shared memory below `/dev`, which holds ordinary files.
const SHARED_MEMORY: &str = "/dev/shm";

/// The closed paths. The composition root supplies them; `/proc`, `/sys` and `/dev` are always closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed(Arc<Vec<(PathBuf, Access)>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Closed,
    Open,
}

impl Closed {
    /// Closes files and directories with everything below them, except paths at or below one of `open`. The
    /// paths need not exist yet.
    pub fn new(closed: impl IntoIterator<Item = PathBuf>, open: impl IntoIterator<Item = PathBuf>) -> Self {
        let kernel = KERNEL.map(PathBuf::from);
        let closed = kernel.into_iter().chain(closed).map(|path| (path, Access::Closed));
        let open = [PathBuf::from(SHARED_MEMORY)].into_iter().chain(open).map(|path| (path, Access::Open));
        let mut places = Vec::new();
        for (path, access) in closed.chain(open) {
            // Paths are compared with their links resolved. A dangling link keeps its own name.
            let path = std::path::absolute(&path).unwrap_or(path);
            let real = follow(&path).unwrap_or(path);
            places.push((real, access));
        }
        Self(Arc::new(places))
    }

    /// Returns true if a path, with its links resolved, is closed. The deepest entry that contains it decides.
    pub fn covers(&self, path: &Path) -> bool {
        let containing = self.0.iter().filter(|(place, _)| path.starts_with(place));
        let deepest = containing.max_by_key(|(place, _)| place.components().count());
        deepest.is_some_and(|(_, access)| *access == Access::Closed)
    }

    /// Returns an error for a closed path.
    pub fn check(&self, path: &Path) -> Result<(), Error> {
        if self.covers(path) { Err(Error::Closed(path.to_owned())) } else { Ok(()) }
    }

    /// Closed paths below a directory, relative to it.
    pub(crate) fn below(&self, directory: &Path) -> impl Iterator<Item = &Path> {
        let closed = self.0.iter().filter(|(_, access)| *access == Access::Closed);
        closed.filter_map(move |(place, _)| place.strip_prefix(directory).ok())
    }
}

impl Default for Closed {
    fn default() -> Self {
        Self::new([], [])
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    #[test]
    fn the_deepest_entry_decides() {
        let closed = Closed::new(
            ["/h/data", "/h/.codex/auth.json"].map(PathBuf::from),
            ["/h/data/worktrees"].map(PathBuf::from),
        );
        for path in
            ["/h/data", "/h/data/auth.json", "/h/data/worktrees2", "/h/.codex/auth.json", "/proc/1/environ"]
        {
            assert!(closed.covers(Path::new(path)), "{path}");
        }
        for path in [
            "/",
            "/h",
            "/h/database",
            "/h/data/worktrees/a/b",
            "/h/.codex/config.toml",
            "/dev/shm/x",
            "/device",
        ] {
            assert!(!closed.covers(Path::new(path)), "{path}");
        }
        assert_eq!(
            closed.below(Path::new("/h")).collect::<Vec<_>>(),
            ["data", ".codex/auth.json"].map(Path::new)
        );
    }

    #[test]
    fn closed_links_close_their_targets() {
        let directory = TempDir::new().unwrap();
        let top = directory.path().canonicalize().unwrap();
        fs::create_dir(top.join("real")).unwrap();
        symlink(top.join("real"), top.join("link")).unwrap();
        let closed = Closed::new([top.join("link/data")], []);
        assert!(closed.covers(&top.join("real/data/auth.json")));
    }
}
