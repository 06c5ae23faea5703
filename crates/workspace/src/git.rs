//! Queries and operations on the git repository of a directory.
//!
//! Runs the `git` program, so that its configuration, worktrees and object formats all work. Queries return
//! `None` for a directory outside a repository and on a machine without git.

mod call;
mod changes;
mod commit;
mod known;
mod worktree;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use call::Error;
use call::ask;
pub use changes::{Base, Changed, MAX_CHANGED, MAX_DIFF, Status};
pub use commit::{Committed, MAX_FILES, NewCommit};
pub use known::Known;
pub use worktree::{Worktree, worktrees_of};

/// Timeout for one git query. The slowest is the root commit of a very large history.
const DEADLINE: Duration = Duration::from_secs(10);

/// Longest file that contains the path of another directory, in bytes.
const MAX_LINK: u64 = 8 * 1024;

/// A repository with its working tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// Top of the working tree.
    pub worktree: PathBuf,
    /// Directory with the history, shared by all worktrees of the repository.
    pub common: PathBuf,
}

impl Repository {
    /// Finds the repository of a directory.
    pub async fn find(directory: &Path) -> Option<Self> {
        let answer =
            ask(directory, &["rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir"])
                .await?;
        let mut lines = answer.lines();
        let worktree = PathBuf::from(lines.next().filter(|line| !line.is_empty())?);
        let common = PathBuf::from(lines.next().filter(|line| !line.is_empty())?);
        Some(Self { worktree, common })
    }

    /// The first commit of the history; of several, the one whose hash sorts first.
    pub async fn root_commit(&self) -> Option<String> {
        let answer = ask(&self.worktree, &["rev-list", "--max-parents=0", "HEAD"]).await?;
        answer.lines().map(str::trim).filter(|line| !line.is_empty()).min().map(str::to_owned)
    }

    /// The tree of the checked-out commit; `None` before the first one.
    pub(crate) async fn head_tree(&self) -> Option<String> {
        one_line(&ask(&self.worktree, &["rev-parse", "--verify", "--quiet", "HEAD^{tree}"]).await?)
    }

    /// Hash algorithm of object names.
    pub(crate) async fn object_format(&self) -> Option<String> {
        one_line(&ask(&self.worktree, &["rev-parse", "--show-object-format"]).await?)
    }

    /// Address of the remote `origin`.
    pub async fn origin(&self) -> Option<String> {
        one_line(&ask(&self.worktree, &["config", "--get", "remote.origin.url"]).await?)
    }

    /// Turns a directory into a repository.
    pub async fn init(directory: &Path) -> Result<(), Error> {
        call::run(directory, &["init", "--quiet"], DEADLINE).await.map(drop)
    }

    /// The default branch: the remote's, else a common name that exists.
    pub async fn default_branch(&self) -> Option<String> {
        let top = &self.worktree;
        let head = ask(top, &["symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD"]).await;
        if let Some(branch) = head.as_deref().and_then(one_line) {
            return Some(branch.strip_prefix("origin/").unwrap_or(&branch).to_owned());
        }
        let configured = ask(top, &["config", "--get", "init.defaultBranch"]).await;
        let configured = configured.as_deref().and_then(one_line);
        for branch in configured.into_iter().chain(["main".to_owned(), "master".to_owned()]) {
            let name = format!("refs/heads/{branch}");
            if ask(top, &["show-ref", "--verify", "--quiet", &name]).await.is_some() {
                return Some(branch);
            }
        }
        None
    }

    /// The checked-out branch; `None` on a detached head.
    pub async fn branch(&self) -> Option<String> {
        one_line(&ask(&self.worktree, &["symbolic-ref", "--quiet", "--short", "HEAD"]).await?)
    }
}

/// The repository of a linked worktree, which also holds the worktree's own git data; `None` for a directory
/// with its own history.
///
/// Any process that can write into the worktree can put any path into its `.git` file. So the repository must
/// confirm it by listing this worktree.
pub fn repository_of(worktree: &Path) -> Option<PathBuf> {
    let link = worktree.join(".git");
    let own = directory_of(worktree)?;
    let back = own.join(short_file(&own.join("gitdir"))?.trim()).canonicalize().ok()?;
    let siblings = own.parent().filter(|siblings| siblings.ends_with("worktrees"))?;
    if back == link.canonicalize().ok()? { siblings.parent().map(Path::to_owned) } else { None }
}

/// The git directory that a worktree's `.git` file points to; `None` if `.git` is the directory itself.
pub fn directory_of(worktree: &Path) -> Option<PathBuf> {
    let link = short_file(&worktree.join(".git"))?;
    worktree.join(link.strip_prefix("gitdir:")?.trim()).canonicalize().ok()
}

/// Reads a file that should contain one path.
fn short_file(path: &Path) -> Option<String> {
    let about = path.symlink_metadata().ok()?;
    if about.is_file() && about.len() <= MAX_LINK { std::fs::read_to_string(path).ok() } else { None }
}

/// `host/path` of a remote's address in any notation; `None` for a local path.
///
/// Identifies a project independently of protocol, account and a trailing `.git`.
pub fn remote_path(address: &str) -> Option<String> {
    let address = address.trim();
    let (host, path) = match address.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => {
            let (host, path) = rest.split_once('/')?;
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            (host.split_once(':').map_or(host, |(host, _port)| host), path)
        }
        // `user@host:path`, but not a local path that contains a colon.
        None => {
            let (host, path) = address.split_once(':')?;
            if host.contains('/') {
                return None;
            }
            (host.rsplit_once('@').map_or(host, |(_, host)| host), path)
        }
    };
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    (!host.is_empty() && !path.is_empty()).then(|| format!("{}/{path}", host.to_ascii_lowercase()))
}

fn one_line(answer: &str) -> Option<String> {
    answer.lines().next().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::process::{self, Exit, Spec};

    pub(super) async fn git(directory: &Path, command: &str) {
        let args = format!("-c user.name=Test -c user.email=test@example.com {command}");
        let spec = Spec::new("git", directory, DEADLINE).args(args.split(' ')).hide(call::REDIRECTIONS);
        let done = process::run(spec, &CancellationToken::new(), |_| {}).await.unwrap();
        assert_eq!(done.exit, Exit::Code(0), "{}", done.output.text());
    }

    #[tokio::test]
    async fn a_plain_directory_has_no_repository() {
        let directory = TempDir::new().unwrap();
        assert_eq!(Repository::find(directory.path()).await, None);
    }

    #[tokio::test]
    async fn a_repository_has_a_root_commit_branch_and_origin() {
        let directory = TempDir::new().unwrap();
        let top = directory.path().canonicalize().unwrap();
        git(&top, "init -q -b trunk").await;
        let repository = Repository::find(&top).await.unwrap();
        assert_eq!(repository.root_commit().await, None);
        assert_eq!(repository.origin().await, None);
        assert_eq!(repository.branch().await.as_deref(), Some("trunk"));
        assert_eq!(repository.default_branch().await, None);

        git(&top, "commit -q --allow-empty -m first").await;
        git(&top, "commit -q --allow-empty -m second").await;
        git(&top, "remote add origin git@example.com:team/thing.git").await;
        std::fs::create_dir(top.join("inside")).unwrap();
        let repository = Repository::find(&top.join("inside")).await.unwrap();
        assert_eq!(repository, Repository { worktree: top.clone(), common: top.join(".git") });
        assert_eq!(repository.root_commit().await.unwrap().len(), 40);
        assert_eq!(repository.origin().await.as_deref(), Some("git@example.com:team/thing.git"));

        git(&top, "branch master").await;
        assert_eq!(repository.default_branch().await.as_deref(), Some("master"));
        git(&top, "symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/release/1").await;
        assert_eq!(repository.default_branch().await.as_deref(), Some("release/1"));
    }

    #[tokio::test]
    async fn a_directory_becomes_a_repository() {
        let directory = TempDir::new().unwrap();
        Repository::init(directory.path()).await.unwrap();
        assert!(Repository::find(directory.path()).await.is_some());
    }

    #[tokio::test]
    async fn a_linked_worktree_finds_its_repository_if_that_lists_the_worktree() {
        let directory = TempDir::new().unwrap();
        let top = directory.path().canonicalize().unwrap();
        let (main, linked, other) = (top.join("main"), top.join("linked"), top.join("other"));
        for repository in [&main, &other] {
            std::fs::create_dir(repository).unwrap();
            git(repository, "init -q -b trunk").await;
            git(repository, "commit -q --allow-empty -m first").await;
        }
        git(&main, "worktree add -q ../linked -b side").await;
        assert_eq!(repository_of(&linked), Some(main.join(".git")));
        assert_eq!(repository_of(&main), None);
        assert_eq!(repository_of(&top), None);

        // Forged links that would expose the history of another project.
        git(&other, "worktree add -q ../third -b side").await;
        for lie in [other.join(".git"), other.join(".git/worktrees/third"), top.clone()] {
            std::fs::write(linked.join(".git"), format!("gitdir: {}\n", lie.display())).unwrap();
            assert_eq!(repository_of(&linked), None, "{lie:?}");
        }
    }

    #[test]
    fn every_notation_of_a_remote_identifies_the_same_project() {
        for address in [
            "git@Example.com:team/thing.git",
            "https://example.com/team/thing",
            "https://someone:secret@example.com/team/thing.git",
            "ssh://git@example.com:2222/team/thing.git/",
        ] {
            assert_eq!(remote_path(address).as_deref(), Some("example.com/team/thing"), "{address}");
        }
        for address in ["/srv/thing.git", "../thing", "file:///srv/thing.git", "", "./odd:name/x"] {
            assert_eq!(remote_path(address), None, "{address}");
        }
    }
}
