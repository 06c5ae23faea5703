//! Changing files: whole, or one exact piece at a time.

use std::fs;
use std::path::Path;

use super::Error;
use super::read::{is_binary, load};

/// What a file said before and says now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Nothing for a new file.
    pub before: Option<String>,
    /// Now.
    pub after: String,
}

/// A piece of a file and what takes its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacement<'a> {
    /// The piece, exactly as it is in the file. Empty to create a file.
    pub old: &'a str,
    /// What takes its place.
    pub new: &'a str,
    /// Whether every occurrence is meant. If not, there has to be exactly one.
    pub all: bool,
}

/// What a file says; nothing if there is none. A file that is too large to be shown counts as empty.
pub fn current(path: &Path) -> Result<Option<String>, Error> {
    match load(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(Error::NotFound(_)) => Ok(None),
        Err(Error::TooLarge { .. }) => Ok(Some(String::new())),
        Err(error) => Err(error),
    }
}

/// Writes a whole file, with the directories above it.
pub fn write(path: &Path, content: &str) -> Result<Change, Error> {
    let before = current(path)?;
    save(path, content)?;
    Ok(Change { before, after: content.to_owned() })
}

/// Replaces a piece of a file.
pub fn edit(path: &Path, replacement: Replacement<'_>) -> Result<Change, Error> {
    let change = plan(path, replacement)?;
    save(path, &change.after)?;
    Ok(change)
}

/// What [`edit`] would do, without doing it.
pub fn plan(path: &Path, replacement: Replacement<'_>) -> Result<Change, Error> {
    if replacement.old == replacement.new {
        return Err(Error::NoChange);
    }
    if replacement.old.is_empty() {
        if path.exists() {
            return Err(Error::Exists(path.to_owned()));
        }
        return Ok(Change { before: None, after: replacement.new.to_owned() });
    }
    let bytes = load(path)?;
    // A lossy conversion must never be written back.
    let before = match String::from_utf8(bytes) {
        Ok(text) if !is_binary(text.as_bytes()) => text,
        _ => return Err(Error::Binary(path.to_owned())),
    };
    let after = replace(path, &before, replacement)?;
    Ok(Change { before: Some(before), after })
}

fn replace(path: &Path, text: &str, replacement: Replacement<'_>) -> Result<String, Error> {
    let Replacement { old, new, all } = replacement;
    // Models write bare newlines; a file with Windows line ends keeps them.
    let windows = text.contains("\r\n") && !old.contains("\r\n");
    let (old, new) = if windows {
        (old.replace('\n', "\r\n"), new.replace("\r\n", "\n").replace('\n', "\r\n"))
    } else {
        (old.to_owned(), new.to_owned())
    };
    match text.matches(&old).count() {
        0 => Err(Error::NoMatch(path.to_owned())),
        count if count > 1 && !all => Err(Error::NotUnique { path: path.to_owned(), count }),
        _ => Ok(text.replace(&old, &new)),
    }
}

fn save(path: &Path, content: &str) -> Result<(), Error> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(Error::io(parent))?;
    }
    fs::write(path, content).map_err(Error::io(path))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn attempt(content: &str, old: &str, new: &str, all: bool) -> Result<String, Error> {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, content).unwrap();
        let change = edit(&path, Replacement { old, new, all })?;
        assert_eq!(change.before.as_deref(), Some(content));
        assert_eq!(fs::read_to_string(&path).unwrap(), change.after);
        Ok(change.after)
    }

    #[test]
    fn one_exact_match_is_replaced() {
        assert_eq!(attempt("a b c", "b", "x", false).unwrap(), "a x c");
        assert_eq!(attempt("a b b", "b", "x", true).unwrap(), "a x x");
    }

    #[test]
    fn no_match_and_several_matches_are_refused() {
        assert!(matches!(attempt("a b c", "B", "x", false), Err(Error::NoMatch(_))));
        assert!(matches!(attempt("a b b", "b", "x", false), Err(Error::NotUnique { count: 2, .. })));
        assert!(matches!(attempt("a", "a", "a", false), Err(Error::NoChange)));
    }

    #[test]
    fn windows_line_ends_survive() {
        assert_eq!(attempt("one\r\ntwo\r\n", "one\ntwo", "1\n2", false).unwrap(), "1\r\n2\r\n");
    }

    #[test]
    fn a_file_that_is_not_text_is_left_alone() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, b"caf\xe9 b").unwrap();
        let result = edit(&path, Replacement { old: "b", new: "c", all: false });
        assert!(matches!(result, Err(Error::Binary(_))));
        assert_eq!(fs::read(&path).unwrap(), b"caf\xe9 b");
    }

    #[test]
    fn writing_creates_directories_and_tells_what_was_there() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("deep/er/file");
        assert_eq!(write(&path, "one").unwrap().before, None);
        assert_eq!(write(&path, "two").unwrap().before.as_deref(), Some("one"));
        assert!(matches!(write(directory.path(), "x"), Err(Error::IsDirectory(_))));
    }

    #[test]
    fn an_empty_old_text_creates_a_file_once() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("file");
        let create = Replacement { old: "", new: "hello", all: false };
        assert_eq!(edit(&path, create).unwrap().before, None);
        assert!(matches!(edit(&path, create), Err(Error::Exists(_))));
    }
}
