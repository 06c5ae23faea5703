//! Taking back what was done to files.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{self, BoxFuture, FutureExt};
use protocol::{Session, part::PatchPart, project::FileDiff};

/// Knows what files looked like, and can make them look so again. The engine knows trees by name only. Every call
/// comes to an end by itself, and says what went wrong in words for people.
pub trait Undo: Send + Sync {
    /// Remembers the files of a session's worktree as they are now. Nothing where nothing is remembered.
    fn save<'a>(&'a self, session: &'a Session) -> Undoing<'a, Option<String>>;

    /// Makes files what they were.
    fn restore<'a>(&'a self, session: &'a Session, origins: &'a Origins) -> Undoing<'a, ()>;

    /// How files differ from what they were.
    fn compare<'a>(&'a self, session: &'a Session, origins: &'a Origins) -> Undoing<'a, Vec<FileDiff>>;
}

/// What the port returns.
pub type Undoing<'a, T> = BoxFuture<'a, Result<T, String>>;

/// Files, each with the tree that has what it is compared with or restored to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins(BTreeMap<String, String>);

impl Origins {
    /// Files that all come from one tree.
    pub fn all(tree: &str, files: impl IntoIterator<Item = String>) -> Self {
        Self(files.into_iter().map(|file| (file, tree.to_owned())).collect())
    }

    /// Notes a patch. What an earlier one said about a file stays: that is how the file was before all of them.
    pub fn note(&mut self, patch: &PatchPart) {
        for file in &patch.files {
            self.0.entry(file.clone()).or_insert_with(|| patch.hash.clone());
        }
    }

    /// Adds the files that are not here yet.
    pub fn fill(&mut self, other: Self) {
        for (file, tree) in other.0 {
            self.0.entry(file).or_insert(tree);
        }
    }

    /// The files.
    pub fn files(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The files by tree.
    pub fn by_tree(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut trees: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (file, tree) in &self.0 {
            trees.entry(tree).or_default().insert(file);
        }
        trees
    }
}

/// Where files are nobody's business.
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
