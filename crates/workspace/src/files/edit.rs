//! Changes to files: whole, or one piece at a time.

use std::fs;
use std::path::Path;

use super::ends::{LineEnds, split_mark};
use super::matching::{self, Miss, Swap};
use super::open::overwrite;
use super::read::{is_binary, load};
use super::{Error, lock};

/// The content of a file before and after a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// `None` for a new file.
    pub before: Option<String>,
    pub after: String,
}

/// A piece of a file and its replacement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacement<'a> {
    /// The text to replace, quoted as accurately as the model could. Empty to create a file.
    pub old: &'a str,
    pub new: &'a str,
    /// True to replace every occurrence. If false, there must be exactly one.
    pub all: bool,
}

/// The content of a file; `None` if there is none. A file that is too large to show counts as empty.
pub fn current(path: &Path) -> Result<Option<String>, Error> {
    match load(path) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(Error::NotFound(_)) => Ok(None),
        Err(Error::TooLarge { .. }) => Ok(Some(String::new())),
        Err(error) => Err(error),
    }
}

/// Writes a whole file and creates its parent directories.
pub fn write(path: &Path, content: &str) -> Result<Change, Error> {
    lock::hold([path], || {
        let before = current(path)?;
        save(path, content)?;
        Ok(Change { before, after: content.to_owned() })
    })
}

/// Replaces a piece of a file. The file is locked against other edits through this module.
pub fn edit(path: &Path, replacement: Replacement<'_>) -> Result<Change, Error> {
    lock::hold([path], || {
        let change = plan(path, replacement)?;
        save(path, &change.after)?;
        Ok(change)
    })
}

/// The result of [`edit`] without writing it.
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
    let before = text(path)?;
    let after = replace(&before, replacement).map_err(|miss| refusal(path, miss))?;
    if after == before {
        return Err(Error::NoChange);
    }
    Ok(Change { before: Some(before), after })
}

/// A file as text that can be changed and written back, so a lossy conversion is not allowed.
pub(crate) fn text(path: &Path) -> Result<String, Error> {
    match String::from_utf8(load(path)?) {
        Ok(text) if !is_binary(text.as_bytes()) => Ok(text),
        _ => Err(Error::Binary(path.to_owned())),
    }
}

/// Keeps the file's line ends and byte order mark, whatever the model wrote.
fn replace(before: &str, replacement: Replacement<'_>) -> Result<String, Miss> {
    let ends = LineEnds::of(before);
    let (mark, body) = split_mark(before);
    let (old, new) = (plain(replacement.old), plain(replacement.new));
    let mut after = String::with_capacity(before.len() + new.len());
    after.push_str(mark);
    let mut done = 0;
    for Swap { span, text } in matching::find(body, &old, &new, replacement.all)? {
        let replaced = body.get(span.clone()).unwrap_or_default();
        let ends = if replaced.contains('\n') { LineEnds::of(replaced) } else { ends };
        after.push_str(body.get(done..span.start).unwrap_or_default());
        after.push_str(&ends.apply(&text));
        done = span.end;
    }
    after.push_str(body.get(done..).unwrap_or_default());
    Ok(after)
}

/// A text with `\n` line ends and without a byte order mark.
fn plain(text: &str) -> String {
    split_mark(text).1.replace("\r\n", "\n")
}

fn refusal(path: &Path, miss: Miss) -> Error {
    let path = path.to_owned();
    match miss {
        Miss::Nowhere => Error::NoMatch(path),
        Miss::Ambiguous { count, lines } => Error::NotUnique { path, count, lines },
        Miss::TooLarge { first, last } => Error::MatchTooLarge { path, first, last },
    }
}

pub(crate) fn save(path: &Path, content: &str) -> Result<(), Error> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(Error::io(parent))?;
    }
    overwrite(path, content.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::super::temporary;
    use super::*;

    fn attempt(content: &str, old: &str, new: &str, all: bool) -> Result<String, Error> {
        let directory = temporary::directory();
        let path = directory.path().join("file");
        fs::write(&path, content).unwrap();
        let change = edit(&path, Replacement { old, new, all })?;
        assert_eq!(change.before.as_deref(), Some(content));
        assert_eq!(fs::read_to_string(&path).unwrap(), change.after);
        Ok(change.after)
    }

    #[test]
    fn one_match_is_replaced() {
        assert_eq!(attempt("a b c", "b", "x", false).unwrap(), "a x c");
        assert_eq!(attempt("a b b", "b", "x", true).unwrap(), "a x x");
    }

    #[test]
    fn no_match_and_several_matches_are_refused() {
        assert!(matches!(attempt("a b c", "B", "x", false), Err(Error::NoMatch(_))));
        assert!(matches!(attempt("a", "a", "a", false), Err(Error::NoChange)));
        let error = attempt("a b\nb", "b", "x", false).unwrap_err().to_string();
        assert!(error.contains("found 2 times") && error.contains("at lines 1, 2"), "{error}");
    }

    #[test]
    fn an_edit_without_a_change_is_refused() {
        assert!(matches!(attempt("a\r\nb\r\n", "a\nb", "a\r\nb", false), Err(Error::NoChange)));
    }

    #[test]
    fn windows_line_ends_survive() {
        assert_eq!(attempt("one\r\ntwo\r\n", "one\ntwo", "1\n2", false).unwrap(), "1\r\n2\r\n");
        assert_eq!(attempt("one\r\ntwo\r\n", "one\r\ntwo", "1\n2", false).unwrap(), "1\r\n2\r\n");
        assert_eq!(attempt("one\r\ntwo\r\n", "two", "2\n3", false).unwrap(), "one\r\n2\r\n3\r\n");
        assert_eq!(attempt("  one\r\n  two\r\n", "one \ntwo", "1\n2", false).unwrap(), "  1\r\n  2\r\n");
        assert_eq!(attempt("one\ntwo\n", "one\r\ntwo", "1\r\n2", false).unwrap(), "1\n2\n");
    }

    #[test]
    fn with_mixed_line_ends_the_replaced_lines_decide() {
        let mixed = "a\r\nb\r\nc\nd\n";
        assert_eq!(attempt(mixed, "a\nb", "1\n2", false).unwrap(), "1\r\n2\r\nc\nd\n");
        assert_eq!(attempt(mixed, "c\nd", "1\n2", false).unwrap(), "a\r\nb\r\n1\n2\n");
        assert_eq!(attempt(mixed, "b\nc", "1\n2", false).unwrap(), "a\r\n1\r\n2\nd\n");
    }

    #[test]
    fn a_byte_order_mark_survives() {
        assert_eq!(attempt("\u{feff}one\ntwo", "one", "1", false).unwrap(), "\u{feff}1\ntwo");
        assert_eq!(attempt("\u{feff}one\ntwo", "\u{feff}one", "1", false).unwrap(), "\u{feff}1\ntwo");
        assert_eq!(attempt("\u{feff}  one\ntwo", "one \ntwo", "1", false).unwrap(), "\u{feff}  1");
    }

    #[test]
    fn edits_of_one_file_do_not_lose_each_other() {
        let directory = temporary::directory();
        let path = directory.path().join("file");
        let words: Vec<String> = (0..64).map(|number| format!("<{number}>")).collect();
        fs::write(&path, words.join("\n")).unwrap();
        let place = path.as_path();
        std::thread::scope(|scope| {
            for part in words.chunks(8) {
                scope.spawn(move || {
                    for word in part {
                        edit(place, Replacement { old: word, new: "done", all: false }).unwrap();
                    }
                });
            }
        });
        assert_eq!(fs::read_to_string(&path).unwrap(), vec!["done"; 64].join("\n"));
    }

    #[test]
    fn a_large_file_is_edited_quickly() {
        let line = "    let value = compute(first, second); // and some words to make it longer\n";
        let mut content = line.repeat(10 * 1024 * 1024 / line.len());
        content.push_str("    if needle {\n        found();\n    }\n");
        for old in [
            "needle {\n        found();",
            "if needle {\nfound();\n}",
            "if needle { found(); }",
            "not there\nat all",
        ] {
            let start = std::time::Instant::now();
            let _ = replace(&content, Replacement { old, new: "x", all: false });
            assert!(start.elapsed().as_millis() < 1500, "{old}: {:?}", start.elapsed());
        }
        assert!(
            replace(&content, Replacement { old: "if needle { found(); }", new: "x", all: false }).is_ok()
        );
    }

    #[test]
    fn a_file_that_is_not_text_is_not_changed() {
        let directory = temporary::directory();
        let path = directory.path().join("file");
        fs::write(&path, b"caf\xe9 b").unwrap();
        let result = edit(&path, Replacement { old: "b", new: "c", all: false });
        assert!(matches!(result, Err(Error::Binary(_))));
        assert_eq!(fs::read(&path).unwrap(), b"caf\xe9 b");
    }

    #[test]
    fn writing_creates_directories_and_returns_the_old_content() {
        let directory = temporary::directory();
        let path = directory.path().join("deep/er/file");
        assert_eq!(write(&path, "one").unwrap().before, None);
        assert_eq!(write(&path, "two").unwrap().before.as_deref(), Some("one"));
        assert!(matches!(write(directory.path(), "x"), Err(Error::IsDirectory(_))));
    }

    #[test]
    fn an_empty_old_text_creates_a_file_once() {
        let directory = temporary::directory();
        let path = directory.path().join("file");
        let create = Replacement { old: "", new: "hello", all: false };
        assert_eq!(edit(&path, create).unwrap().before, None);
        assert!(matches!(edit(&path, create), Err(Error::Exists(_))));
    }
}
