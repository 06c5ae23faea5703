//! Finds and reads files, within limits.
//!
//! The searched directories belong to users and may contain anything: circular links, pipes that never deliver,
//! huge checkouts. Nothing here follows, waits or reads forever.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Read},
    path::{Component, Path, PathBuf},
};

use super::Trace;

/// Maximum depth of a search.
pub(super) const MAX_DEPTH: usize = 16;

/// Maximum number of entries in one search.
const MAX_ENTRIES: usize = 20_000;

/// Directories with third-party files.
const FOREIGN: [&str; 2] = [".git", "node_modules"];

/// Reads a text file of at most `max` bytes. `None` if it does not exist.
pub(super) fn read(path: &Path, max: u64) -> io::Result<Option<String>> {
    let bytes = match read_bytes(path, max) {
        Ok(bytes) => bytes,
        Err(error) if is_absence(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let text = String::from_utf8(bytes).map_err(|_| io::Error::other("it is not valid UTF-8"))?;
    // Some editors begin a file with a byte order mark.
    Ok(Some(text.strip_prefix('\u{feff}').map(ToOwned::to_owned).unwrap_or(text)))
}

/// Reads the beginning of a text file, whatever its encoding. Returns true if there is more.
pub(super) fn read_beginning(path: &Path, max: usize) -> io::Result<(String, bool)> {
    check_file(path)?;
    let limit = u64::try_from(max).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    let more = bytes.len() > max;
    bytes.truncate(max);
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if more {
        // The cut may have split a character.
        text.truncate(text.trim_end_matches('\u{fffd}').len());
    }
    Ok((text, more))
}

fn read_bytes(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    check_file(path)?;
    let mut bytes = Vec::new();
    File::open(path)?.take(max.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > max {
        return Err(io::Error::other(format!("it has more than {max} bytes")));
    }
    Ok(bytes)
}

/// Checks the type first, because opening a pipe waits for a writer.
fn check_file(path: &Path) -> io::Result<()> {
    if fs::metadata(path)?.is_file() { Ok(()) } else { Err(io::Error::other("it is not a file")) }
}

/// Returns true if the error means that the path does not exist.
pub(super) fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// An error as the end of a sentence.
pub(super) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".into(),
        io::ErrorKind::PermissionDenied => "permission was denied".into(),
        _ => error.to_string(),
    }
}

/// The files below a directory that `wanted` accepts, sorted; those directly in it are at depth 1. Links are
/// followed, but no directory is entered twice.
pub(super) fn files(directory: &Path, depth: usize, wanted: &dyn Fn(&Path) -> bool) -> Vec<PathBuf> {
    traced_files(directory, depth, wanted, &mut Trace::default())
}

/// Like [`files`], and records the searched directories in `trace`.
pub(super) fn traced_files(
    directory: &Path,
    depth: usize,
    wanted: &dyn Fn(&Path) -> bool,
    trace: &mut Trace,
) -> Vec<PathBuf> {
    let mut search = Search { found: Vec::new(), entered: BTreeSet::new(), left: MAX_ENTRIES, trace };
    search.enter(directory, depth.min(MAX_DEPTH), wanted);
    search.found.sort();
    search.found
}

struct Search<'t> {
    found: Vec<PathBuf>,
    entered: BTreeSet<PathBuf>,
    left: usize,
    trace: &'t mut Trace,
}

impl Search<'_> {
    fn enter(&mut self, directory: &Path, depth: usize, wanted: &dyn Fn(&Path) -> bool) {
        self.trace.note(directory);
        let Ok(real) = directory.canonicalize() else { return };
        let Ok(entries) = fs::read_dir(directory) else { return };
        if depth == 0 || !self.entered.insert(real) {
            return;
        }
        for entry in entries.flatten() {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            let path = entry.path();
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let foreign = entry.file_name().to_str().is_some_and(|name| FOREIGN.contains(&name));
            if metadata.is_dir() && !foreign {
                self.enter(&path, depth - 1, wanted);
            } else if metadata.is_file() && wanted(&path) {
                self.found.push(path);
            }
        }
    }
}

/// A directory and its ancestors, up to and including `last`. If `last` is not an ancestor, up to the root.
pub(super) fn upwards<'p>(directory: &'p Path, last: &'p Path) -> impl Iterator<Item = &'p Path> {
    let mut done = false;
    directory.ancestors().take_while(move |path| {
        let go_on = !done;
        done = *path == last;
        go_on
    })
}

/// A path without `.` and `..`, resolved textually: links are not followed.
pub(super) fn clean(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                cleaned.pop();
            }
            other => cleaned.push(other),
        }
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn circular_links_pipes_and_third_party_directories_are_skipped() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("a/b")).unwrap();
        fs::create_dir_all(at("node_modules/x")).unwrap();
        for file in ["a/b/2.md", "1.md", "3.txt", "node_modules/x/4.md"] {
            fs::write(at(file), "x").unwrap();
        }
        std::os::unix::fs::symlink(root.path(), at("a/circle")).unwrap();
        std::os::unix::fs::symlink(at("1.md"), at("link.md")).unwrap();
        std::os::unix::fs::symlink(at("nowhere"), at("broken.md")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe.md"), rustix::fs::Mode::RUSR).unwrap();
        let found = files(root.path(), MAX_DEPTH, &|path| path.extension().is_some_and(|end| end == "md"));
        assert_eq!(found, [at("1.md"), at("a/b/2.md"), at("link.md")]);
        assert_eq!(files(root.path(), 1, &|_| true), [at("1.md"), at("3.txt"), at("link.md")]);
        assert!(read(&at("pipe.md"), 10).is_err());
    }

    #[test]
    fn reading_is_bounded() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        fs::write(&path, "\u{feff}grün").unwrap();
        assert_eq!(read(&path, 100).unwrap().as_deref(), Some("grün"));
        assert!(read(&path, 3).unwrap_err().to_string().contains("more than 3 bytes"));
        assert_eq!(read(&root.path().join("none"), 3).unwrap(), None);
        assert_eq!(read(&path.join("none"), 3).unwrap(), None);
        fs::write(&path, "grün").unwrap();
        assert_eq!(read_beginning(&path, 3).unwrap(), ("gr".to_owned(), true));
        assert_eq!(read_beginning(&path, 5).unwrap(), ("grün".to_owned(), false));
    }

    #[test]
    fn the_walk_upwards_ends_at_the_given_directory() {
        let up = |last: &str| {
            upwards(Path::new("/a/b/c"), Path::new(last)).map(Path::to_path_buf).collect::<Vec<_>>()
        };
        assert_eq!(up("/a/b"), [PathBuf::from("/a/b/c"), "/a/b".into()]);
        assert_eq!(up("/x").len(), 4);
    }

    #[test]
    fn a_clean_path_has_no_dots() {
        assert_eq!(clean(Path::new("/a/./b/../c/../../../d")), Path::new("/d"));
    }
}
