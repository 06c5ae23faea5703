//! Remembers the repositories of directories, so that git is asked again only after a change.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::Repository;

/// Most directories that are remembered. One more forgets them all, because finding them again is cheap.
const MAX_DIRECTORIES: usize = 256;

/// The repositories of directories.
#[derive(Debug, Default)]
pub struct Known(Mutex<HashMap<PathBuf, Found>>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    /// `None` if the directory is in no repository.
    repository: Option<Repository>,
    /// One for each place where git looks for a repository, and one for the configuration, which can move the worktree.
    marks: Vec<Option<Mark>>,
}

/// Identifies a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mark {
    device: u64,
    inode: u64,
    /// Size and modification time of a file. The time of a directory changes with every file in it.
    content: Option<(u64, i64, i64)>,
}

impl Known {
    /// Finds the repository of a directory. Git answers the first time, and when something that its answer depends on
    /// has changed.
    pub async fn find(&self, directory: &Path) -> Option<Repository> {
        let known = self.0.lock().get(directory).cloned();
        if let Some(Found { repository, marks: known }) = known
            && marks(directory, repository.clone()).await == Some(known)
        {
            return repository;
        }
        let repository = Repository::find(directory).await;
        let marks = marks(directory, repository.clone()).await;
        let mut known = self.0.lock();
        known.remove(directory);
        if known.len() >= MAX_DIRECTORIES {
            known.clear();
        }
        if let Some(marks) = marks {
            known.insert(directory.to_owned(), Found { repository: repository.clone(), marks });
        }
        repository
    }
}

async fn marks(directory: &Path, repository: Option<Repository>) -> Option<Vec<Option<Mark>>> {
    let directory = directory.to_owned();
    tokio::task::spawn_blocking(move || look(&directory, repository.as_ref())).await.ok().flatten()
}

/// Returns `None` if git's answer must not be remembered: a link leads to the directory, or git rejects a repository
/// that is there, which its configuration can change.
fn look(directory: &Path, repository: Option<&Repository>) -> Option<Vec<Option<Mark>>> {
    if directory.canonicalize().ok()? != directory {
        return None;
    }
    let top = repository.map_or(Path::new("/"), |repository| &repository.worktree);
    let places = directory.ancestors().take_while(|place| place.starts_with(top));
    let mut marks: Vec<Option<Mark>> = places.map(|place| Mark::of(&place.join(".git"))).collect();
    match repository {
        Some(repository) => marks.push(Mark::of(&repository.common.join("config"))),
        None if marks.iter().any(Option::is_some) => return None,
        None => {}
    }
    (!marks.is_empty()).then_some(marks)
}

impl Mark {
    fn of(path: &Path) -> Option<Self> {
        let found = path.symlink_metadata().ok()?;
        let content = (!found.is_dir()).then(|| (found.size(), found.mtime(), found.mtime_nsec()));
        Some(Self { device: found.dev(), inode: found.ino(), content })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    #[tokio::test]
    async fn a_repository_is_found_again_until_something_changes() {
        let base = TempDir::new().unwrap();
        let top = base.path().canonicalize().unwrap();
        let inner = top.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let known = Known::default();
        assert_eq!(known.find(&inner).await, None);
        assert_eq!(known.0.lock().len(), 1, "that there is none is remembered, too");
        assert_eq!(known.find(&inner).await, None);
        Repository::init(&top).await.unwrap();
        let found = known.find(&inner).await.unwrap();
        assert_eq!(found.worktree, top);
        assert_eq!(known.find(&inner).await, Some(found));
        assert_eq!(known.0.lock().len(), 1);
        Repository::init(&top.join("a")).await.unwrap();
        assert_eq!(known.find(&inner).await.unwrap().worktree, top.join("a"), "a nearer one");
        fs::remove_dir_all(top.join("a/.git")).unwrap();
        assert_eq!(known.find(&inner).await.unwrap().worktree, top);
        fs::remove_dir_all(top.join(".git")).unwrap();
        assert_eq!(known.find(&inner).await, None);
    }
}
