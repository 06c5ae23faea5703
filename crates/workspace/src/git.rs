//! What git knows about a directory, and what it can do there.
//!
//! Asks the `git` program, so that its configuration, worktrees and object formats all just work. A directory
//! that is not in a repository, and a machine without git, are both answered with nothing.

mod call;
mod changes;
mod commit;
mod worktree;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use call::Error;
use call::ask;
pub use changes::{Base, Changed, MAX_CHANGED, MAX_DIFF, Status};
pub use commit::{Committed, MAX_FILES, Wish};
pub use worktree::{Worktree, worktrees_of};

/// How long one question to git may take. The root commit of a very large history is the slow one.
const DEADLINE: Duration = Duration::from_secs(10);

/// Longest file that says where another directory is.
const MAX_LINK: u64 = 8 * 1024;

/// A working tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    /// The top of the working tree.
    pub worktree: PathBuf,
    /// The directory with the history, shared by all worktrees of the repository.
    pub common: PathBuf,
}

impl Repository {
    /// The repository a directory is in.
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

    /// The tree of the commit that is checked out; nothing before the first one.
    pub async fn head_tree(&self) -> Option<String> {
        one_line(&ask(&self.worktree, &["rev-parse", "--verify", "--quiet", "HEAD^{tree}"]).await?)
    }

    /// The kind of hash that names objects.
    pub async fn object_format(&self) -> Option<String> {
        one_line(&ask(&self.worktree, &["rev-parse", "--show-object-format"]).await?)
    }

    /// Where `origin` is.
    pub async fn origin(&self) -> Option<String> {
        one_line(&ask(&self.worktree, &["config", "--get", "remote.origin.url"]).await?)
    }

    /// Makes a directory a repository.
    pub async fn init(directory: &Path) -> Result<(), Error> {
        call::run(directory, &["init", "--quiet"], DEADLINE).await.map(drop)
    }

    /// The branch that work starts from: what the remote says, else a name that is usual and exists.
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

    /// The branch that is checked out; nothing on a detached head.
    pub async fn branch(&self) -> Option<String> {
        one_line(&ask(&self.worktree, &["symbolic-ref", "--quiet", "--short", "HEAD"]).await?)
    }
}

/// The repository of a linked worktree, which is where git keeps what belongs to the worktree, too; nothing for a
/// directory that has its history inside.
///
/// Whoever can write into the worktree can put any path into its `.git` file. So the other side has to agree: it must
/// know of a worktree that is this one.
pub fn repository_of(worktree: &Path) -> Option<PathBuf> {
    let link = worktree.join(".git");
    let own = directory_of(worktree)?;
    let back = own.join(short_file(&own.join("gitdir"))?.trim()).canonicalize().ok()?;
    let siblings = own.parent().filter(|siblings| siblings.ends_with("worktrees"))?;
    if back == link.canonicalize().ok()? { siblings.parent().map(Path::to_owned) } else { None }
}

/// The git directory that a worktree's file `.git` leads to; nothing if `.git` is the directory itself.
pub fn directory_of(worktree: &Path) -> Option<PathBuf> {
    let link = short_file(&worktree.join(".git"))?;
    worktree.join(link.strip_prefix("gitdir:")?.trim()).canonicalize().ok()
}

/// What is in a file that should hold one path.
fn short_file(path: &Path) -> Option<String> {
    let about = path.symlink_metadata().ok()?;
    if about.is_file() && about.len() <= MAX_LINK { std::fs::read_to_string(path).ok() } else { None }
}

/// `host/path` of a remote's address, the same for every way to write it; nothing for a local path.
///
/// Names a project independently of the protocol, the account and a trailing `.git`.
pub fn remote_path(address: &str) -> Option<String> {
    let address = address.trim();
    let (host, path) = match address.split_once("://") {
        Some(("file", _)) => return None,
        Some((_, rest)) => {
            let (host, path) = rest.split_once('/')?;
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            (host.split_once(':').map_or(host, |(host, _port)| host), path)
        }
        // `user@host:path`, but not a path that happens to contain a colon.
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
    async fn a_repository_tells_its_root_branch_and_origin() {
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
    async fn a_linked_worktree_knows_its_repository_if_that_knows_the_worktree() {
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

        // What somebody could write who wants to get at the history of another project.
        git(&other, "worktree add -q ../third -b side").await;
        for lie in [other.join(".git"), other.join(".git/worktrees/third"), top.clone()] {
            std::fs::write(linked.join(".git"), format!("gitdir: {}\n", lie.display())).unwrap();
            assert_eq!(repository_of(&linked), None, "{lie:?}");
        }
    }

    #[test]
    fn every_way_to_write_a_remote_names_the_same_project() {
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
