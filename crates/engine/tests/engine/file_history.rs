//! An in-memory worktree with saved trees, for tests of reverts.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use engine::ports::{Origins, Undo, Undoing};
use futures::{FutureExt, future};
use protocol::{Extra, Session, part::PatchPart, project::FileDiff};

type Files = BTreeMap<String, String>;

/// The files of a worktree and their earlier states.
#[derive(Default)]
pub(crate) struct FileHistory {
    pub(crate) files: Mutex<Files>,
    trees: Mutex<Vec<Files>>,
    /// Number of remaining `restore` calls that fail.
    failures: AtomicUsize,
    /// True if the next failure comes after half of the files were restored.
    half: AtomicBool,
}

impl FileHistory {
    /// Makes the next `times` calls of `restore` fail, the first of them half-way.
    pub(crate) fn fail(&self, times: usize) {
        self.failures.store(times, Ordering::Relaxed);
        self.half.store(true, Ordering::Relaxed);
    }

    fn keep(&self) -> String {
        let mut trees = self.trees.lock().unwrap();
        trees.push(self.files.lock().unwrap().clone());
        (trees.len() - 1).to_string()
    }

    /// Changes a file, as a step would.
    pub(crate) fn change(&self, file: &str, content: &str) -> PatchPart {
        let hash = self.keep();
        self.files.lock().unwrap().insert(file.to_owned(), content.to_owned());
        PatchPart { hash, files: vec![file.to_owned()], extra: Extra::new() }
    }

    /// The files as one text.
    pub(crate) fn shown(&self) -> String {
        let files = self.files.lock().unwrap();
        files.iter().map(|(file, content)| format!("{file}={content}")).collect::<Vec<_>>().join(" ")
    }

    fn of(&self, tree: &str, file: &str) -> Option<String> {
        let trees = self.trees.lock().unwrap();
        trees[tree.parse::<usize>().unwrap()].get(file).cloned()
    }
}

impl Undo for FileHistory {
    fn save<'a>(&'a self, _: &'a Session) -> Undoing<'a, Option<String>> {
        future::ready(Ok(Some(self.keep()))).boxed()
    }

    fn restore<'a>(&'a self, _: &'a Session, origins: &'a Origins) -> Undoing<'a, ()> {
        let left = self.failures.load(Ordering::Relaxed);
        self.failures.store(left.saturating_sub(1), Ordering::Relaxed);
        let gone = || future::ready(Err("the disk is gone".to_owned())).boxed();
        if left > 0 && !self.half.swap(false, Ordering::Relaxed) {
            return gone();
        }
        for (tree, files) in origins.by_tree() {
            for file in files {
                let content = self.of(tree, file);
                let mut now = self.files.lock().unwrap();
                match content {
                    Some(content) => now.insert(file.to_owned(), content),
                    None => now.remove(file),
                };
                if left > 0 {
                    return gone();
                }
            }
        }
        future::ready(Ok(())).boxed()
    }

    fn compare<'a>(&'a self, _: &'a Session, origins: &'a Origins) -> Undoing<'a, Vec<FileDiff>> {
        let mut diffs = Vec::new();
        for (tree, files) in origins.by_tree() {
            for file in files {
                let (before, now) = (self.of(tree, file), self.files.lock().unwrap().get(file).cloned());
                if before != now {
                    let text = |it: Option<String>| it.unwrap_or_default();
                    let patch = Some(format!("{file}: {} -> {}", text(before), text(now)));
                    let (file, additions) = (Some(file.to_owned()), 1);
                    diffs.push(FileDiff { file, patch, additions, ..FileDiff::default() });
                }
            }
        }
        future::ready(Ok(diffs)).boxed()
    }
}
