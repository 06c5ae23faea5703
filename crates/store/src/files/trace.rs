//! What was looked at, so that it can be told later whether it would look different now.
//!
//! A file is known by its size, its number and when it was changed; a directory, by when something was put into
//! it or taken out. What is not there is noted too, so that it is noticed when it comes.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The looks of the files and directories something was read from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace(BTreeMap<PathBuf, Option<Look>>);

/// How a file or directory looked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    changed: (i64, i64),
    size: u64,
    number: u64,
    /// Whose it is and who may write to it: this decides whether a project's file is trusted.
    owner: (u32, u32),
}

impl Look {
    fn at(path: &Path) -> Option<Self> {
        let facts = fs::metadata(path).ok()?;
        let changed = (facts.mtime(), facts.mtime_nsec());
        let owner = (facts.uid(), facts.mode());
        Some(Self { changed, size: facts.len(), number: facts.ino(), owner })
    }
}

impl Trace {
    /// Notes how a place looks. To be called before it is read: what changes in between is then noticed.
    pub fn note(&mut self, path: &Path) {
        if !self.0.contains_key(path) {
            self.0.insert(path.to_owned(), Look::at(path));
        }
    }

    /// Takes over what somebody else has noted.
    pub fn join(&mut self, other: Self) {
        for (path, look) in other.0 {
            self.0.entry(path).or_insert(look);
        }
    }

    /// Whether anything looks different now. Asks the file system once for each place, and so may block.
    pub fn is_stale(&self) -> bool {
        self.0.iter().any(|(path, look)| Look::at(path) != *look)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_goes_or_changes_is_noticed() {
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
