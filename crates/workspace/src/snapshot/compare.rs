//! Diffs between two snapshots.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::{Error, SnapshotStore, Tree, within};
use crate::git::Status;

/// Most files in a comparison. Beyond that only the first ones by name are compared.
pub const MAX_COMPARED: usize = 1_000;

/// Largest total of all patches in a comparison, in bytes. Files beyond it have counts but no patch.
pub const MAX_PATCHES: usize = 256 * 1024;

/// Most files with patches, because their names must fit into a command line.
const MAX_SHOWN: usize = 200;

/// Unchanged lines around a change.
const CONTEXT: &str = "-U4";

/// The change of one file between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeDiff {
    /// Path relative to the worktree.
    pub file: String,
    /// Unified diff with an `Index:` line; `None` if it is too large or the file is binary.
    pub patch: Option<String>,
    pub additions: u64,
    pub deletions: u64,
    pub status: Status,
}

impl SnapshotStore {
    /// Files that differ, as absolute paths.
    pub async fn changed(
        &self,
        from: &Tree,
        to: &Tree,
        cancel: &CancellationToken,
    ) -> Result<BTreeSet<PathBuf>, Error> {
        if from == to {
            return Ok(BTreeSet::new());
        }
        let args = ["diff-tree", "-r", "-z", "--no-renames", "--name-only", from.as_str(), to.as_str()];
        let git = self.git.plain(cancel);
        let listed = within(self.timeouts.work, git.read(&args)).await?;
        let names = listed.split('\0').filter(|name| !name.is_empty());
        Ok(names.map(|name| self.git.worktree.join(name)).collect())
    }

    /// Diffs of some files. Unchanged files and those outside the worktree are omitted.
    pub async fn compare(
        &self,
        from: &Tree,
        to: &Tree,
        files: &BTreeSet<PathBuf>,
        cancel: &CancellationToken,
    ) -> Result<Vec<TreeDiff>, Error> {
        if from == to || files.is_empty() {
            return Ok(Vec::new());
        }
        within(self.timeouts.work, self.differences(from, to, files, cancel)).await
    }

    async fn differences(
        &self,
        from: &Tree,
        to: &Tree,
        files: &BTreeSet<PathBuf>,
        cancel: &CancellationToken,
    ) -> Result<Vec<TreeDiff>, Error> {
        let git = self.git.plain(cancel);
        let base = ["diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv"];
        let trees = [from.as_str(), to.as_str()];
        let counted = git.read(&[&base[..], &["-z", "--raw", "--numstat"], &trees].concat()).await?;
        let names: BTreeSet<&str> = files.iter().filter_map(|file| self.name(file)).collect();
        let mut diffs = parse(&counted);
        diffs.retain(|diff| names.contains(diff.file.as_str()));
        diffs.truncate(MAX_COMPARED);
        let shown: Vec<String> =
            diffs.iter().take(MAX_SHOWN).map(|diff| format!(":(literal,top){}", diff.file)).collect();
        if !shown.is_empty() {
            let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
            let args = [&base[..], &["-p", "--no-color", CONTEXT], &trees, &["--"], &shown].concat();
            let output = git.read_some(&args, MAX_PATCHES).await?;
            give_patches(&mut diffs, &output.text(), output.omitted() > 0);
        }
        Ok(diffs)
    }

    /// A path relative to the worktree, as git names it.
    pub(super) fn name<'p>(&self, path: &'p Path) -> Option<&'p str> {
        path.strip_prefix(&self.git.worktree).ok()?.to_str().filter(|name| !name.is_empty())
    }
}

/// Parses `--raw --numstat -z`: first modes, ids, a letter and a name for each file, then the counts and a name
/// for each.
fn parse(counted: &str) -> Vec<TreeDiff> {
    let mut diffs: BTreeMap<&str, TreeDiff> = BTreeMap::new();
    let mut words = counted.split('\0');
    while let Some(word) = words.next() {
        if let Some(facts) = word.strip_prefix(':') {
            let Some(file) = words.next() else { break };
            let status = match facts.rsplit(' ').next() {
                Some("A") => Status::Added,
                Some("D") => Status::Deleted,
                _ => Status::Modified,
            };
            let diff = TreeDiff { file: file.to_owned(), patch: None, additions: 0, deletions: 0, status };
            diffs.insert(file, diff);
        } else if let [additions, deletions, file] = word.splitn(3, '\t').collect::<Vec<_>>()[..]
            && let Some(diff) = diffs.get_mut(file)
        {
            // Binary files have dashes instead of numbers.
            diff.additions = additions.parse().unwrap_or(0);
            diff.deletions = deletions.parse().unwrap_or(0);
        }
    }
    diffs.into_values().collect()
}

/// Assigns each file its section of git's patch, which has the same order. The last section of a truncated
/// patch may be incomplete.
fn give_patches(diffs: &mut [TreeDiff], text: &str, cut: bool) {
    let mut sections: Vec<&str> = Vec::new();
    let mut start = 0;
    // No line in the body of a patch begins like this.
    for (at, _) in text.match_indices("\ndiff --git ") {
        sections.extend(text.get(start..at + 1));
        start = at + 1;
    }
    sections.extend(text.get(start..).filter(|last| !cut && !last.is_empty()));
    for (diff, section) in diffs.iter_mut().zip(sections) {
        let body = section.find("\n@@ ").and_then(|at| section.get(at + 1..));
        let line = "=".repeat(67);
        let file = &diff.file;
        diff.patch = body.map(|body| format!("Index: {file}\n{line}\n--- {file}\t\n+++ {file}\t\n{body}"));
    }
}
