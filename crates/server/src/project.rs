//! Finds the project of a directory by OpenCode's rules, so that both agree on the same repository.

use std::{
    collections::HashMap,
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use engine::Home;
use parking_lot::Mutex;
use sha1::{Digest, Sha1};
use tokio::{sync::OnceCell, time::Instant};
use workspace::git::{self, Repository};

/// Most directories in the cache. Beyond that it is cleared.
const MAX_KNOWN: usize = 1_024;
/// Lifetime of a cache entry: a directory may become a repository or get a remote.
const FRESH: Duration = Duration::from_mins(1);
/// Project id of directories outside any repository.
const GLOBAL: &str = "global";
/// Longest id that OpenCode stored in a repository.
const MAX_ID: usize = 200;

/// Project and repository of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedDirectory {
    pub directory: String,
    pub project: String,
    /// Top of the worktree; `/` outside any repository.
    pub worktree: String,
    /// `None` outside any repository.
    pub repository: Option<Repository>,
}

impl ResolvedDirectory {
    /// Home of a new session in this directory.
    pub fn home(&self) -> Home {
        Home {
            directory: self.directory.clone(),
            project: self.project.clone(),
            path: relative(&self.worktree, &self.directory),
        }
    }
}

/// Cache of directories and their projects, because asking git takes milliseconds.
#[derive(Debug, Clone, Default)]
pub struct Projects {
    known: Arc<Mutex<HashMap<String, Known>>>,
}

#[derive(Debug, Clone)]
struct Known {
    since: Instant,
    /// Filled by the first caller; concurrent callers wait for it.
    place: Arc<OnceCell<ResolvedDirectory>>,
}

impl Projects {
    /// Finds the place of a directory.
    pub async fn find(&self, directory: &str) -> ResolvedDirectory {
        let cell = self.cell(directory);
        cell.get_or_init(|| resolve(directory)).await.clone()
    }

    /// Drops a directory that has just changed from the cache.
    pub fn forget(&self, directory: &str) {
        self.known.lock().remove(directory);
    }

    fn cell(&self, directory: &str) -> Arc<OnceCell<ResolvedDirectory>> {
        let now = Instant::now();
        let mut known = self.known.lock();
        if let Some(entry) = known.get(directory).filter(|entry| now - entry.since < FRESH) {
            return Arc::clone(&entry.place);
        }
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        let place = Arc::default();
        known.insert(directory.to_owned(), Known { since: now, place: Arc::clone(&place) });
        place
    }
}

async fn resolve(directory: &str) -> ResolvedDirectory {
    let directory = directory.to_owned();
    let Some(repository) = Repository::find(Path::new(&directory)).await else {
        return ResolvedDirectory {
            directory,
            project: GLOBAL.into(),
            worktree: "/".into(),
            repository: None,
        };
    };
    let project = identify(&repository).await.unwrap_or_else(|| GLOBAL.into());
    let worktree = repository.worktree.to_string_lossy().into_owned();
    ResolvedDirectory { directory, project, worktree, repository: Some(repository) }
}

/// Identifies a project by its remote, else by the id that OpenCode stored, else by the first commit.
async fn identify(repository: &Repository) -> Option<String> {
    if let Some(remote) = repository.origin().await.as_deref().and_then(git::remote_path) {
        return Some(hash(&format!("git-remote:{remote}")));
    }
    match noted(repository.common.join("opencode")).await {
        Some(id) => Some(id),
        None => repository.root_commit().await,
    }
}

async fn noted(file: PathBuf) -> Option<String> {
    let facts = tokio::fs::metadata(&file).await.ok()?;
    if !facts.is_file() || facts.len() > MAX_ID as u64 {
        return None;
    }
    let id = tokio::fs::read_to_string(&file).await.ok()?.trim().to_owned();
    let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    (plain && !id.is_empty()).then_some(id)
}

fn hash(text: &str) -> String {
    let mut hex = String::new();
    for byte in Sha1::digest(text.as_bytes()) {
        // Writing into memory cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// A directory relative to the top of its worktree; empty for the top itself.
fn relative(worktree: &str, directory: &str) -> String {
    Path::new(directory)
        .strip_prefix(worktree)
        .map_or_else(|_| directory.into(), Path::to_string_lossy)
        .into_owned()
}

/// Top of the worktree for a directory and its relative path.
pub(crate) fn worktree_of(directory: &str, path: &str) -> String {
    let top = directory.strip_suffix(path).unwrap_or(directory).trim_end_matches('/');
    if top.is_empty() { "/".into() } else { top.into() }
}

/// The main worktree of the repository at `here`, and all others. Reads files and blocks.
pub fn worktrees(here: &str) -> (String, Vec<String>) {
    let top = Path::new(here);
    let common = git::repository_of(top).unwrap_or_else(|| top.join(".git"));
    let main = common.parent().filter(|_| common.ends_with(".git")).unwrap_or(top);
    let text = |path: &Path| path.to_string_lossy().into_owned();
    (text(main), git::worktrees_of(&common).iter().map(|path| text(path)).collect())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio_util::sync::CancellationToken;
    use workspace::process::{self, Spec};

    use super::*;

    async fn git(directory: &Path, command: &str) {
        let command = format!("-c user.name=Test -c user.email=test@example.com {command}");
        let spec = Spec::new("git", directory, Duration::from_secs(10)).args(command.split(' '));
        process::run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
    }

    fn top(tree: &tempfile::TempDir) -> String {
        tree.path().canonicalize().unwrap().to_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn a_plain_directory_belongs_to_the_global_project() {
        let tree = tempfile::tempdir().unwrap();
        let place = Projects::default().find(&top(&tree)).await;
        assert_eq!((place.project.as_str(), place.worktree.as_str()), ("global", "/"));
        assert_eq!(place.home().path, top(&tree).trim_start_matches('/'));
    }

    #[tokio::test]
    async fn a_repository_is_identified_by_remote_stored_id_or_first_commit() {
        let tree = tempfile::tempdir().unwrap();
        let top = top(&tree);
        git(tree.path(), "init -q").await;
        assert_eq!(resolve(&top).await.project, "global");
        git(tree.path(), "commit -q --allow-empty -m first").await;
        assert_eq!(resolve(&top).await.project.len(), 40);
        std::fs::write(tree.path().join(".git/opencode"), "noted-id\n").unwrap();
        assert_eq!(resolve(&top).await.project, "noted-id");
        git(tree.path(), "remote add origin git@example.com:team/thing.git").await;
        let place = resolve(&top).await;
        assert_eq!(place.project, hash("git-remote:example.com/team/thing"));
        assert_eq!((place.home().path, place.worktree), (String::new(), top));
    }

    #[tokio::test]
    async fn all_worktrees_of_a_repository_agree_on_the_main_one() {
        let tree = tempfile::tempdir().unwrap();
        let top = top(&tree);
        let (main, other) = (format!("{top}/main"), format!("{top}/other"));
        git(tree.path(), "init -q main").await;
        assert_eq!(worktrees(&main), (main.clone(), Vec::new()));
        git(main.as_ref(), "commit -q --allow-empty -m first").await;
        git(main.as_ref(), "worktree add -q ../other").await;
        for here in [&main, &other] {
            assert_eq!(worktrees(here), (main.clone(), vec![other.clone()]));
        }
        assert_eq!(worktrees("/no/such/place"), ("/no/such/place".into(), Vec::new()));
    }

    #[tokio::test(start_paused = true)]
    async fn places_are_cached_for_a_limited_time() {
        let projects = Projects::default();
        let first = projects.cell("/a");
        assert!(Arc::ptr_eq(&first, &projects.cell("/a")));
        tokio::time::advance(FRESH).await;
        assert!(!Arc::ptr_eq(&first, &projects.cell("/a")));
        for number in 0..2 * MAX_KNOWN {
            projects.cell(&format!("/{number}"));
        }
        assert!(projects.known.lock().len() <= MAX_KNOWN);
    }

    #[test]
    fn the_worktree_follows_from_directory_and_path() {
        for (worktree, directory) in [("/a/b", "/a/b"), ("/a", "/a/b/c"), ("/", "/a/b")] {
            assert_eq!(worktree_of(directory, &relative(worktree, directory)), worktree);
        }
    }
}
