//! Commits a set of files and nothing else.
//!
//! A commit is built in a separate index that starts as the last commit: changes that the user has staged are
//! neither committed nor lost. The repository's hooks run as for any other commit.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::call::{REDIRECTIONS, for_commit, outcome};
use super::{Error, Repository};
use crate::process::{self, Bounds, Exit, Spec};

/// Most files in one commit.
pub const MAX_FILES: usize = 1_000;

/// Timeout for one git call; hooks of the repository may take long.
const DEADLINE: Duration = Duration::from_secs(20);

/// Number of commits searched for a trailer.
const MAX_BACK: &str = "--max-count=1000";

/// Longest list of names, in bytes.
const MAX_NAMES: usize = 1024 * 1024;

/// Serialises commits: two that start from the same commit would undo each other.
static TURN: Mutex<()> = Mutex::const_new(());

/// A commit to make.
#[derive(Debug, Clone, Copy)]
pub struct NewCommit<'a> {
    /// Absolute paths; those outside the working tree are ignored.
    pub files: &'a BTreeSet<PathBuf>,
    /// The message including its trailers.
    pub message: &'a str,
    /// A trailer of the message that identifies the commit; a second commit with it is never made.
    pub trailer: (&'a str, &'a str),
    /// Environment variables hidden from the repository's hooks.
    pub hidden: &'a [String],
}

/// Result of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Committed {
    Made {
        hash: String,
        /// Files that were omitted because the user has staged a part of them.
        left_out: Vec<String>,
    },
    /// A commit with this trailer already exists.
    Known,
    /// None of the files has changed.
    Nothing,
}

impl Repository {
    /// Commits the files in their current state.
    pub async fn commit(&self, wish: NewCommit<'_>) -> Result<Committed, Error> {
        let _turn = TURN.lock().await;
        let work = Work { repository: self, wish, index: self.common.join("baton-commit.index") };
        let made = work.run().await;
        // The index is left behind only after a crash, and the next commit overwrites it.
        let _ = tokio::fs::remove_file(&work.index).await;
        made
    }
}

struct Work<'a> {
    repository: &'a Repository,
    wish: NewCommit<'a>,
    index: PathBuf,
}

impl Work<'_> {
    async fn run(&self) -> Result<Committed, Error> {
        let mut names = self.names();
        if names.is_empty() {
            return Ok(Committed::Nothing);
        }
        let born = self.read(&["rev-parse", "--verify", "--quiet", "HEAD"], None, &[1]).await?;
        let born = !born.trim().is_empty();
        if born && self.is_known().await? {
            return Ok(Committed::Known);
        }
        let left_out = self.half_staged(&names, born).await?;
        names.retain(|name| !left_out.contains(name));
        let index = Some(self.index.as_path());
        self.run_git(&["read-tree", if born { "HEAD" } else { "--empty" }], index).await?;
        let ignored = ["ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--"];
        let ignored = self.list(&with(&ignored, &names), index).await?;
        names.retain(|name| !ignored.contains(name));
        let tracked = self.list(&with(&["ls-files", "-z", "--"], &names), index).await?;
        let top = &self.repository.worktree;
        names.retain(|name| tracked.contains(name) || top.join(name).symlink_metadata().is_ok());
        if names.is_empty() {
            return Ok(Committed::Nothing);
        }
        self.run_git(&with(&["add", "--all", "--"], &names), index).await?;
        if self.is_unchanged(born).await? {
            return Ok(Committed::Nothing);
        }
        self.run_git(&["commit", "--quiet", "--message", self.wish.message], index).await?;
        let hash = self.read(&["rev-parse", "HEAD"], None, &[]).await?.trim().to_owned();
        // Updates the user's own index, which still has these files in their old state.
        self.run_git(&with(&["reset", "--quiet", "HEAD", "--"], &names), None).await?;
        Ok(Committed::Made { hash, left_out })
    }

    /// Paths relative to the working tree, at most [`MAX_FILES`].
    fn names(&self) -> Vec<String> {
        let within = |file: &PathBuf| {
            let name = file.strip_prefix(&self.repository.worktree).ok()?;
            let plain = name.components().all(|part| matches!(part, Component::Normal(_)));
            name.to_str().filter(|name| plain && !name.is_empty()).map(str::to_owned)
        };
        self.wish.files.iter().filter_map(within).take(MAX_FILES).collect()
    }

    async fn is_known(&self) -> Result<bool, Error> {
        let (name, value) = self.wish.trailer;
        let format = format!("--format=%(trailers:key={name},valueonly)");
        let known = self.read(&["log", MAX_BACK, &format, "HEAD"], None, &[]).await?;
        Ok(known.lines().any(|line| line.trim() == value))
    }

    /// Files in which the staged content differs from the current one.
    async fn half_staged(&self, names: &[String], born: bool) -> Result<Vec<String>, Error> {
        if !born {
            return Ok(Vec::new());
        }
        let staged = ["diff", "--cached", "--name-only", "--no-renames", "-z", "HEAD", "--"];
        let staged = self.list(&with(&staged, names), None).await?;
        let changed = ["diff", "--name-only", "--no-renames", "-z", "--"];
        let changed = self.list(&with(&changed, names), None).await?;
        Ok(staged.into_iter().filter(|name| changed.contains(name)).collect())
    }

    async fn is_unchanged(&self, born: bool) -> Result<bool, Error> {
        let index = Some(self.index.as_path());
        let names = if born {
            self.list(&["diff", "--cached", "--name-only", "-z", "HEAD"], index).await?
        } else {
            self.list(&["ls-files", "-z"], index).await?
        };
        Ok(names.is_empty())
    }

    /// Names in git's output.
    async fn list(&self, args: &[&str], index: Option<&Path>) -> Result<Vec<String>, Error> {
        let said = self.read(args, index, &[]).await?;
        Ok(said.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// Git's output. The exit codes `fine` are no failure.
    async fn read(&self, args: &[&str], index: Option<&Path>, fine: &[i32]) -> Result<String, Error> {
        let mut spec = self.spec(args, index);
        spec.mute_errors = true;
        let done = process::run(spec, &CancellationToken::new(), |_| {}).await?;
        match done.exit {
            Exit::Code(code) if fine.contains(&code) => Ok(done.output.text()),
            _ => outcome(&done, args, DEADLINE),
        }
    }

    async fn run_git(&self, args: &[&str], index: Option<&Path>) -> Result<(), Error> {
        let done = process::run(self.spec(args, index), &CancellationToken::new(), |_| {}).await?;
        outcome(&done, args, DEADLINE).map(drop)
    }

    fn spec(&self, args: &[&str], index: Option<&Path>) -> Spec {
        let mut spec = Spec::new("git", &self.repository.worktree, DEADLINE)
            .args(args)
            .hide(REDIRECTIONS)
            .hide(self.wish.hidden);
        spec.bounds = Bounds { head: MAX_NAMES, tail: 0 };
        let set = |name: &str, value: &str| (OsString::from(name), OsString::from(value));
        spec.environment = vec![
            // Takes paths literally, whatever special characters they contain.
            set("GIT_LITERAL_PATHSPECS", "1"),
            set("GIT_TERMINAL_PROMPT", "0"),
            set("GIT_EDITOR", "true"),
            set("LC_ALL", "C"),
        ];
        spec.environment.extend(for_commit());
        spec.environment.extend(index.map(|index| ("GIT_INDEX_FILE".into(), index.into())));
        spec
    }
}

fn with<'a>(args: &[&'a str], names: &'a [String]) -> Vec<&'a str> {
    args.iter().copied().chain(names.iter().map(String::as_str)).collect()
}

#[cfg(test)]
mod tests;
