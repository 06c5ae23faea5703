//! Committing some files and nothing else.
//!
//! A commit is made from an index of its own that begins as the last commit: whatever a person has staged is neither
//! committed nor lost. Hooks of the repository run as for any other commit.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::call::{REDIRECTIONS, for_commit, outcome};
use super::{Error, Repository};
use crate::process::{self, Bounds, Exit, Spec};

/// Files of one commit.
pub const MAX_FILES: usize = 1_000;

/// How long one call may take; hooks of the repository may have something to build.
const DEADLINE: Duration = Duration::from_secs(20);

/// Commits in which a trailer is looked for.
const MAX_BACK: &str = "--max-count=1000";

/// Largest list of names, in bytes.
const MAX_NAMES: usize = 1024 * 1024;

/// One at a time: two commits that begin with the same one would undo each other.
static TURN: Mutex<()> = Mutex::const_new(());

/// Which files to commit, and how.
#[derive(Debug, Clone, Copy)]
pub struct Wish<'a> {
    /// Absolute paths; those outside of the working tree do not count.
    pub files: &'a BTreeSet<PathBuf>,
    /// The message, with its trailers.
    pub message: &'a str,
    /// A trailer of the message, with its value, by which a commit is known: there is never a second one with it.
    pub trailer: (&'a str, &'a str),
    /// Environment variables that hooks of the repository do not get to see.
    pub hidden: &'a [String],
}

/// What became of a wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Committed {
    /// There is a commit now.
    Made {
        /// Its hash.
        hash: String,
        /// Files that were left out, because a person has staged a part of them.
        left_out: Vec<String>,
    },
    /// It was made before.
    Known,
    /// There is nothing to commit.
    Nothing,
}

impl Repository {
    /// Commits these files as they are now.
    pub async fn commit(&self, wish: Wish<'_>) -> Result<Committed, Error> {
        let _turn = TURN.lock().await;
        let work = Work { repository: self, wish, index: self.common.join("baton-commit.index") };
        let made = work.run().await;
        // It is left behind by nobody who was not killed, and written anew by the next one.
        let _ = tokio::fs::remove_file(&work.index).await;
        made
    }
}

struct Work<'a> {
    repository: &'a Repository,
    wish: Wish<'a>,
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
        // The person's own index still has these files as they were.
        self.run_git(&with(&["reset", "--quiet", "HEAD", "--"], &names), None).await?;
        Ok(Committed::Made { hash, left_out })
    }

    /// The files as git knows them, at most [`MAX_FILES`].
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

    /// Files of which a person has staged something else than there is now.
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

    /// The names that git answers with.
    async fn list(&self, args: &[&str], index: Option<&Path>) -> Result<Vec<String>, Error> {
        let said = self.read(args, index, &[]).await?;
        Ok(said.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// What git answers; these codes are no failure.
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
            // A name is a name, whatever signs are in it.
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
