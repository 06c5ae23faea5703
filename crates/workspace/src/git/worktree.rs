//! The working trees of a repository.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Repository, call, repository_of, short_file};
use crate::git::Error;

/// Timeout for git to create or remove a working tree.
const DEADLINE: Duration = Duration::from_mins(2);

/// Most working trees in a list.
const MAX_WORKTREES: usize = 1_000;

/// One working tree of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    pub path: PathBuf,
    /// The checked-out branch; `None` on a detached head.
    pub branch: Option<String>,
}

impl Repository {
    /// All working trees, the main one first.
    pub async fn worktrees(&self) -> Result<Vec<Worktree>, Error> {
        let text = call::run(&self.worktree, &["worktree", "list", "--porcelain"], DEADLINE).await?;
        Ok(parse(&text))
    }

    /// Creates a working tree on a new branch.
    pub async fn add_worktree(&self, path: &Path, branch: &str) -> Result<(), Error> {
        let path = path.to_string_lossy();
        let args = ["worktree", "add", "-b", branch, "--", &path];
        call::run(&self.worktree, &args, DEADLINE).await.map(drop)
    }

    /// Removes a working tree with all its files.
    pub async fn remove_worktree(&self, path: &Path) -> Result<(), Error> {
        let path = path.to_string_lossy();
        call::run(&self.worktree, &["worktree", "remove", "--force", "--", &path], DEADLINE).await.map(drop)
    }

    /// Removes a branch, merged or not.
    pub async fn remove_branch(&self, branch: &str) -> Result<(), Error> {
        call::run(&self.worktree, &["branch", "-D", "--", branch], DEADLINE).await.map(drop)
    }

    /// Resets a working tree to a branch of this repository. Removes all untracked files, including ignored
    /// ones.
    pub async fn reset_worktree(&self, path: &Path, to: &str) -> Result<(), Error> {
        call::run(path, &["reset", "--hard", "--quiet", to, "--"], DEADLINE).await?;
        call::run(path, &["clean", "-ffdxq"], DEADLINE).await.map(drop)
    }
}

/// Linked working trees of the repository at `common`, sorted. Only reads files, so it is cheap for many
/// repositories.
pub fn worktrees_of(common: &Path) -> Vec<PathBuf> {
    let Ok(common) = common.canonicalize() else { return Vec::new() };
    let entries = std::fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .take(MAX_WORKTREES)
        .filter_map(|entry| Some(PathBuf::from(short_file(&entry.path().join("gitdir"))?.trim())))
        .filter_map(|link| link.parent()?.canonicalize().ok())
        .filter(|worktree| repository_of(worktree).as_ref() == Some(&common))
        .collect();
    found.sort();
    found
}

fn parse(text: &str) -> Vec<Worktree> {
    let mut found: Vec<Worktree> = Vec::new();
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("worktree ") {
            found.push(Worktree { path: path.into(), branch: None });
        } else if let (Some(branch), Some(last)) = (line.strip_prefix("branch refs/heads/"), found.last_mut())
        {
            last.branch = Some(branch.to_owned());
        }
    }
    found.truncate(MAX_WORKTREES);
    found
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::super::tests::git;
    use super::*;

    #[test]
    fn a_list_is_parsed() {
        let text = "worktree /a b\nHEAD 1\nbranch refs/heads/main\n\nworktree /c\nHEAD 2\ndetached\n\n";
        let tree = |path: &str, branch: Option<&str>| Worktree {
            path: path.into(),
            branch: branch.map(str::to_owned),
        };
        assert_eq!(parse(text), [tree("/a b", Some("main")), tree("/c", None)]);
    }

    #[tokio::test]
    async fn a_worktree_is_created_reset_and_removed() {
        let directory = TempDir::new().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let (main, other) = (top.join("main"), top.join("other"));
        std::fs::create_dir(&main).unwrap();
        git(&main, "init -q -b trunk").await;
        std::fs::write(main.join("file"), "one\n").unwrap();
        git(&main, "add file").await;
        git(&main, "commit -q -m first").await;
        let repository = Repository::find(&main).await.unwrap();

        repository.add_worktree(&other, "side").await.unwrap();
        let paths: Vec<_> = repository.worktrees().await.unwrap().into_iter().map(|it| it.path).collect();
        assert_eq!(paths, [main.clone(), other.clone()]);
        assert_eq!(worktrees_of(&repository.common), std::slice::from_ref(&other));
        let again = repository.add_worktree(&other, "side").await.unwrap_err().to_string();
        assert!(again.starts_with("git worktree: ") && again.contains("already exists"), "{again}");

        std::fs::write(other.join("file"), "two\n").unwrap();
        std::fs::write(other.join("stray"), "").unwrap();
        repository.reset_worktree(&other, "trunk").await.unwrap();
        assert_eq!(std::fs::read_to_string(other.join("file")).unwrap(), "one\n");
        assert!(!other.join("stray").exists());

        std::fs::write(other.join("file"), "three\n").unwrap();
        repository.remove_worktree(&other).await.unwrap();
        repository.remove_branch("side").await.unwrap();
        assert!(!other.exists());
        assert_eq!(repository.worktrees().await.unwrap().len(), 1);
        assert!(worktrees_of(&repository.common).is_empty());
    }
}
