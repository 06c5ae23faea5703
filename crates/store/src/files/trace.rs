//! Records the state of files and directories, to detect later whether they have changed.
//!
//! A file is identified by its size, inode and modification time, a directory by its modification time. Missing
//! paths are recorded too, so that their creation is detected.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The state of the files and directories that something was read from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace(BTreeMap<PathBuf, Option<FileState>>);

/// The state of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileState {
    changed: (i64, i64),
    size: u64,
    number: u64,
    /// Owner and mode, which decide whether a project's file is trusted.
    owner: (u32, u32),
}

impl FileState {
    fn at(path: &Path) -> Option<Self> {
        let facts = fs::metadata(path).ok()?;
        let changed = (facts.mtime(), facts.mtime_nsec());
        let owner = (facts.uid(), facts.mode());
        Some(Self { changed, size: facts.len(), number: facts.ino(), owner })
    }
}

impl Trace {
    /// Records the state of a path. Must be called before the path is read, so that a change in between is
    /// detected.
    pub fn note(&mut self, path: &Path) {
        if !self.0.contains_key(path) {
            self.0.insert(path.to_owned(), FileState::at(path));
        }
    }

    /// Adds the records of another trace.
    pub fn join(&mut self, other: Self) {
        for (path, look) in other.0 {
            self.0.entry(path).or_insert(look);
        }
    }

    /// Returns true if anything has changed. Blocks for one file system call per path.
    pub fn is_stale(&self) -> bool {
        self.0.iter().any(|(path, look)| FileState::at(path) != *look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn created_removed_and_changed_paths_are_detected() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("file"), "one").unwrap();
        let changes: [(&str, &dyn Fn()); 5] = [
            ("written", &|| fs::write(at("file"), "three").unwrap()),
            ("replaced", &|| {
                fs::write(at("other"), "seven").unwrap();
                fs::rename(at("other"), at("file")).unwrap();
            }),
            ("added to", &|| fs::write(at("folder/new"), "").unwrap()),
            ("come", &|| fs::write(at("none"), "").unwrap()),
            ("gone", &|| fs::remove_file(at("file")).unwrap()),
        ];
        for (what, change) in changes {
            let mut trace = Trace::default();
            for name in ["file", "folder", "none"] {
                trace.note(&at(name));
            }
            assert!(!trace.is_stale(), "before it was {what}");
            change();
            assert!(trace.is_stale(), "{what}");
        }
    }

    #[test]
    fn the_first_look_counts() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        let (mut early, mut late) = (Trace::default(), Trace::default());
        early.note(&file);
        fs::write(&file, "x").unwrap();
        early.note(&file);
        late.note(&file);
        early.join(late);
        assert!(early.is_stale());
    }
}
