//! Changes in a working tree.

use std::collections::HashMap;
use std::path::Path;

use super::{
    Error, Repository,
    call::{self, Setting},
};
use crate::files::{self, Closed};

/// Most changed files in a list.
pub const MAX_CHANGED: usize = 2_000;

/// Most untracked files with a patch; each costs a git call.
const MAX_NEW: usize = 200;

/// Longest list of names, in bytes.
const MAX_NAMES: usize = 4 * 1024 * 1024;

/// Largest diff of a whole tree, in bytes.
pub const MAX_DIFF: usize = 8 * 1024 * 1024;

/// Hash of the empty tree, to compare with before the first commit.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// Options for a uniform diff, independent of the user's configuration. Of a submodule only its commit is
/// compared, because reading its files would run programs that its own configuration names.
const PLAIN: [&str; 8] = [
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-renames",
    "--ignore-submodules=dirty",
    "--submodule=short",
    "--src-prefix=a/",
    "--dst-prefix=b/",
];

/// Kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Added,
    Deleted,
    Modified,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// Relative to the top of the working tree.
    pub path: String,
    pub additions: u64,
    pub deletions: u64,
    pub status: Status,
    /// True if git does not track the file yet.
    pub untracked: bool,
}

/// The version to compare a working tree with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// The last commit.
    Head,
    /// The commit where the branch left the default branch.
    Branch,
}

impl Repository {
    /// Changed files by path, at most [`MAX_CHANGED`], without closed ones.
    pub async fn changes(&self, base: Base, closed: &Closed) -> Result<Vec<Changed>, Error> {
        let (filters, base) = self.prepare(base).await?;
        let mut changed = self.all_changes(&filters, &base).await?;
        changed.retain(|file| !closed.covers(&self.worktree.join(&file.path)));
        Ok(changed)
    }

    /// The settings of every call that compares, and the version to compare with.
    async fn prepare(&self, base: Base) -> Result<(Vec<Setting>, String), Error> {
        let (filters, base) = tokio::join!(call::without_filters(&self.worktree), self.base(base));
        Ok((filters?, base))
    }

    async fn all_changes(&self, filters: &[Setting], base: &str) -> Result<Vec<Changed>, Error> {
        let args = ["ls-files", "--others", "--exclude-standard", "-z"];
        let (listing, others) = tokio::try_join!(
            self.diff(filters, &["--raw", "--numstat", "-z"], base, MAX_NAMES),
            call::answer(&self.worktree, &args, MAX_NAMES, &[]),
        )?;
        let mut changed = tracked(&listing);
        let room = MAX_CHANGED.saturating_sub(changed.len());
        changed.extend(pieces(&others).take(room).map(|path| self.untracked(path)));
        changed.sort_by(|one, other| one.path.cmp(&other.path));
        changed.truncate(MAX_CHANGED);
        Ok(changed)
    }

    /// The diff of each file in git's format, with `context` lines around changes. Untracked files come last;
    /// if there are too many or they are too large, their diff is `None`. Closed files are omitted.
    pub async fn patches(
        &self,
        base: Base,
        context: u32,
        closed: &Closed,
    ) -> Result<Vec<(Changed, Option<String>)>, Error> {
        let (filters, base) = self.prepare(base).await?;
        let lines = format!("--unified={context}");
        // Each git compares for itself, so the list and the patches cost no more time than one of them.
        let options = [lines.as_str()];
        let (changed, whole) =
            tokio::join!(self.all_changes(&filters, &base), self.diff(&filters, &options, &base, MAX_DIFF),);
        let changed = changed?;
        let whole = match whole {
            Ok(whole) => whole,
            Err(Error::TooMuch { .. }) => String::new(),
            Err(error) => return Err(error),
        };
        // Both lists come from git, sorted by path.
        let mut parts = split(&whole).into_iter();
        let (mut found, mut new) = (Vec::new(), 0);
        for file in changed {
            let is_closed = closed.covers(&self.worktree.join(&file.path));
            let patch = if file.untracked && is_closed {
                None
            } else if file.untracked {
                new += 1;
                if new > MAX_NEW { None } else { self.addition(&filters, &file.path, &lines).await }
            } else {
                parts.next().map(str::to_owned)
            };
            if !is_closed {
                found.push((file, patch));
            }
        }
        Ok(found)
    }

    /// Content of a file at the last commit, if it existed and is not too large.
    pub async fn committed(&self, path: &Path) -> Option<String> {
        let path = path.strip_prefix(&self.worktree).ok()?.to_str()?;
        let args = ["show", "--no-textconv", &format!("HEAD:{path}")];
        let most = usize::try_from(files::MAX_FILE).unwrap_or(usize::MAX);
        call::answer(&self.worktree, &args, most, &[]).await.ok()
    }

    /// Applies a patch to the working tree, completely or not at all.
    pub async fn apply(&self, patch: &Path) -> Result<(), Error> {
        let args = ["apply", "--whitespace=nowarn", "--", &patch.to_string_lossy()];
        call::run(&self.worktree, &args, super::DEADLINE).await.map(drop)
    }

    async fn base(&self, base: Base) -> String {
        let known = async |name: &str| {
            call::ask(&self.worktree, &["rev-parse", "--verify", "--quiet", name]).await.is_some()
        };
        if base == Base::Branch
            && let Some(branch) = self.default_branch().await
        {
            for name in [format!("origin/{branch}"), branch] {
                let args = ["merge-base", "HEAD", &name];
                if let Some(commit) = call::ask(&self.worktree, &args).await {
                    return commit.trim().to_owned();
                }
            }
        }
        if known("HEAD^{commit}").await { "HEAD".to_owned() } else { EMPTY_TREE.to_owned() }
    }

    async fn diff(
        &self,
        filters: &[Setting],
        options: &[&str],
        base: &str,
        most: usize,
    ) -> Result<String, Error> {
        let args = [&["diff"], PLAIN.as_slice(), options, &[base, "--"]].concat();
        call::compare(&self.worktree, &args, filters, most, &[]).await
    }

    /// The diff that adds a file.
    async fn addition(&self, filters: &[Setting], path: &str, lines: &str) -> Option<String> {
        let args = [&["diff", "--no-index"], PLAIN.as_slice(), &[lines, "--", "/dev/null", path]].concat();
        // Exit code 1 means that they differ.
        call::compare(&self.worktree, &args, filters, MAX_DIFF, &[1]).await.ok()
    }

    fn untracked(&self, path: &str) -> Changed {
        let bytes = files::load(&self.worktree.join(path)).unwrap_or_default();
        let text = if files::is_binary(&bytes) { Vec::new() } else { bytes };
        let ends = memchr::memchr_iter(b'\n', &text).count();
        let rest = text.last().is_some_and(|last| *last != b'\n');
        let additions = (ends + usize::from(rest)) as u64;
        Changed { path: path.to_owned(), additions, deletions: 0, status: Status::Added, untracked: true }
    }
}

/// The non-empty pieces between NUL bytes.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split('\0').filter(|piece| !piece.is_empty())
}

/// Reads the output of `git diff --raw --numstat -z`: the state of every file, then the counts.
fn tracked(listing: &str) -> Vec<Changed> {
    let mut pieces = pieces(listing).peekable();
    let mut changed = Vec::new();
    while let Some(raw) = pieces.next_if(|piece| piece.starts_with(':')) {
        let Some(path) = pieces.next() else { break };
        let status = match raw.rsplit(' ').next() {
            Some("A") => Status::Added,
            Some("D") => Status::Deleted,
            _ => Status::Modified,
        };
        changed.push(Changed { path: path.to_owned(), additions: 0, deletions: 0, status, untracked: false });
    }
    let counts: HashMap<&str, (u64, u64)> = pieces.filter_map(counts).collect();
    for file in &mut changed {
        (file.additions, file.deletions) = counts.get(file.path.as_str()).copied().unwrap_or_default();
    }
    changed
}

/// A path with its added and deleted lines. Git prints a dash for binary files.
fn counts(line: &str) -> Option<(&str, (u64, u64))> {
    let mut fields = line.splitn(3, '\t');
    let mut number = || Some(fields.next()?.parse().unwrap_or(0));
    let counts = (number()?, number()?);
    Some((fields.next()?, counts))
}

/// Splits a diff into the diffs of single files.
fn split(whole: &str) -> Vec<&str> {
    const OPENING: &str = "diff --git ";
    let mut starts: Vec<usize> = whole.match_indices(OPENING).map(|(at, _)| at).collect();
    // Every content line begins with a sign, so only a header can begin like this.
    starts.retain(|at| *at == 0 || whole.as_bytes().get(at - 1) == Some(&b'\n'));
    let ends = starts.iter().copied().skip(1).chain([whole.len()]);
    starts.iter().zip(ends).filter_map(|(start, end)| whole.get(*start..end)).collect()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::super::tests::git;
    use super::*;

    async fn repository() -> (TempDir, Repository) {
        let directory = TempDir::new().unwrap();
        let top = directory.path().canonicalize().unwrap();
        git(&top, "init -q -b main").await;
        for (name, text) in [("kept", "a\nb\nc\n"), ("gone", "x\n"), (".gitignore", "*.log\n")] {
            std::fs::write(top.join(name), text).unwrap();
        }
        (directory, Repository::find(&top).await.unwrap())
    }

    fn shown(changed: &[Changed]) -> Vec<(&str, u64, u64, Status)> {
        changed.iter().map(|it| (it.path.as_str(), it.additions, it.deletions, it.status)).collect()
    }

    #[tokio::test]
    async fn changes_are_counted_before_and_after_the_first_commit() {
        let (_directory, repository) = repository().await;
        let all = repository.changes(Base::Head, &Closed::default()).await.unwrap();
        assert_eq!(shown(&all)[1..], [("gone", 1, 0, Status::Added), ("kept", 3, 0, Status::Added)]);
        git(&repository.worktree, "add -A").await;
        git(&repository.worktree, "commit -q -m first").await;
        assert_eq!(repository.changes(Base::Head, &Closed::default()).await.unwrap(), []);

        std::fs::write(repository.worktree.join("kept"), "a\nB\nc\nd\n").unwrap();
        std::fs::write(repository.worktree.join("new ä"), "one\ntwo").unwrap();
        std::fs::write(repository.worktree.join("noise.log"), "x").unwrap();
        std::fs::remove_file(repository.worktree.join("gone")).unwrap();
        let all = repository.changes(Base::Head, &Closed::default()).await.unwrap();
        let expected = [
            ("gone", 0, 1, Status::Deleted),
            ("kept", 2, 1, Status::Modified),
            ("new ä", 2, 0, Status::Added),
        ];
        assert_eq!(shown(&all), expected);
    }

    /// Configures git to run a program that creates a file of this name.
    async fn trap(top: &Path, name: &str, key: &str) {
        use std::os::unix::fs::PermissionsExt;
        let script = top.join(format!(".git/{name}.sh"));
        let text = format!("#!/bin/sh\ntouch {}\ncat\n", top.join(".git").join(name).display());
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        git(top, &format!("config {key} {}", script.display())).await;
    }

    #[tokio::test]
    async fn reading_a_repository_runs_none_of_its_programs() {
        let (_directory, repository) = repository().await;
        let top = repository.worktree.clone();
        git(&top, "add -A").await;
        git(&top, "commit -q -m first").await;
        let traps = [
            ("monitor", "core.fsmonitor"),
            ("external", "diff.external"),
            ("textconv", "diff.odd.textconv"),
            ("driver", "diff.odd.command"),
            ("clean", "filter.odd=name.clean"),
            ("process", "filter.other.process"),
            ("signature", "gpg.program"),
        ];
        for (name, key) in traps {
            trap(&top, name, key).await;
        }
        for key in ["filter.odd=name.required", "filter.other.required", "log.showSignature"] {
            git(&top, &format!("config {key} true")).await;
        }
        let attributes = "kept diff=odd filter=odd=name\ngone filter=other\n";
        std::fs::write(top.join(".git/info/attributes"), attributes).unwrap();
        std::fs::write(top.join("kept"), "a\nB\nc\n").unwrap();
        std::fs::write(top.join("gone"), "y\n").unwrap();
        std::fs::write(top.join("new"), "z\n").unwrap();
        let patches = repository.patches(Base::Head, 3, &Closed::default()).await.unwrap();
        assert_eq!(patches.len(), 3);
        assert_eq!(repository.committed(&top.join("kept")).await.as_deref(), Some("a\nb\nc\n"));
        repository.worktrees().await.unwrap();
        repository.root_commit().await.unwrap();
        let run: Vec<&str> =
            traps.iter().map(|(name, _)| *name).filter(|name| top.join(".git").join(name).exists()).collect();
        assert_eq!(run, [""; 0], "these were run");
    }

    #[tokio::test]
    async fn a_directory_that_resembles_a_bare_repository_is_not_treated_as_one() {
        let (_directory, repository) = repository().await;
        let bare = repository.worktree.join("bare");
        std::fs::create_dir(&bare).unwrap();
        git(&bare, "init -q --bare .").await;
        git(&bare, "config core.bare false").await;
        git(&bare, "config core.worktree /").await;
        assert_eq!(Repository::find(&bare).await.map(|found| found.worktree), None);
    }

    #[tokio::test]
    async fn patches_are_git_s_and_can_be_applied_elsewhere() {
        let (_directory, repository) = repository().await;
        git(&repository.worktree, "add -A").await;
        git(&repository.worktree, "commit -q -m first").await;
        std::fs::write(repository.worktree.join("kept"), "a\nB\nc\n").unwrap();
        std::fs::write(repository.worktree.join("new"), "one\n").unwrap();
        let patches = repository.patches(Base::Head, 0, &Closed::default()).await.unwrap();
        let text: String = patches.iter().filter_map(|(_, patch)| patch.as_deref()).collect();
        assert!(text.contains("@@ -2 +2 @@ a\n-b\n+B\n") && text.contains("+++ b/new\n"), "{text}");
        assert_eq!(
            repository.committed(&repository.worktree.join("kept")).await.as_deref(),
            Some("a\nb\nc\n")
        );
        assert_eq!(repository.committed(&repository.worktree.join("new")).await, None);

        let file = repository.common.join("test.patch");
        let whole = repository.patches(Base::Head, 3, &Closed::default()).await.unwrap();
        let whole: String = whole.into_iter().filter_map(|(_, patch)| patch).collect();
        std::fs::write(&file, whole).unwrap();
        git(&repository.worktree, "checkout -q -- kept").await;
        std::fs::remove_file(repository.worktree.join("new")).unwrap();
        repository.apply(&file).await.unwrap();
        assert_eq!(std::fs::read_to_string(repository.worktree.join("new")).unwrap(), "one\n");
        assert!(repository.apply(&file).await.is_err(), "the patch is already applied");
    }

    #[tokio::test]
    async fn a_branch_is_compared_with_its_fork_point() {
        let (_directory, repository) = repository().await;
        git(&repository.worktree, "add -A").await;
        git(&repository.worktree, "commit -q -m first").await;
        git(&repository.worktree, "checkout -q -b side").await;
        std::fs::write(repository.worktree.join("kept"), "a\n").unwrap();
        git(&repository.worktree, "commit -q -am second").await;
        assert_eq!(repository.changes(Base::Head, &Closed::default()).await.unwrap(), []);
        let branch = repository.changes(Base::Branch, &Closed::default()).await.unwrap();
        assert_eq!(shown(&branch), [("kept", 0, 2, Status::Modified)]);
    }
}
