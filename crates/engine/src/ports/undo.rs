//! Restoring files to an earlier state.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{self, BoxFuture, FutureExt};
use protocol::{Session, part::PatchPart, project::FileDiff};

/// Saves and restores the files of a worktree. The engine knows saved trees by name only. Implementations limit the
/// duration of every call and return errors as text for the user.
pub trait Undo: Send + Sync {
    /// Saves the session's worktree as it is now and returns the tree's name; `None` where trees are not saved.
    fn save<'a>(&'a self, session: &'a Session) -> Undoing<'a, Option<String>>;

    /// Restores each file to its state in its tree.
    fn restore<'a>(&'a self, session: &'a Session, origins: &'a Origins) -> Undoing<'a, ()>;

    /// Compares each file with its state in its tree.
    fn compare<'a>(&'a self, session: &'a Session, origins: &'a Origins) -> Undoing<'a, Vec<FileDiff>>;
}

/// Return type of the port's methods.
pub type Undoing<'a, T> = BoxFuture<'a, Result<T, String>>;

/// Files, each with the name of the tree to compare it with or to restore it from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins(BTreeMap<String, String>);

impl Origins {
    /// Files that all come from one tree.
    pub fn all(tree: &str, files: impl IntoIterator<Item = String>) -> Self {
        Self(files.into_iter().map(|file| (file, tree.to_owned())).collect())
    }

    /// Adds a patch's files. A file that is already listed keeps its tree, which is from before the first change.
    pub fn note(&mut self, patch: &PatchPart) {
        for file in &patch.files {
            self.0.entry(file.clone()).or_insert_with(|| patch.hash.clone());
        }
    }

    /// Adds the files that are not listed yet.
    pub fn fill(&mut self, other: Self) {
        for (file, tree) in other.0 {
            self.0.entry(file).or_insert(tree);
        }
    }

    pub fn files(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The files of each tree.
    pub fn by_tree(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut trees: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (file, tree) in &self.0 {
            trees.entry(tree).or_default().insert(file);
        }
        trees
    }
}

/// An implementation that saves and restores nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoUndo;

impl Undo for NoUndo {
    fn save<'a>(&'a self, _: &'a Session) -> Undoing<'a, Option<String>> {
        future::ready(Ok(None)).boxed()
    }

    fn restore<'a>(&'a self, _: &'a Session, _: &'a Origins) -> Undoing<'a, ()> {
        future::ready(Ok(())).boxed()
    }

    fn compare<'a>(&'a self, _: &'a Session, _: &'a Origins) -> Undoing<'a, Vec<FileDiff>> {
        future::ready(Ok(Vec::new())).boxed()
    }
}
