//! Errors of file operations, worded for the model or client that asked.

use std::io;
use std::path::{Path, PathBuf};

/// A file operation that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("File not found: {}", .0.display())]
    NotFound(PathBuf),
    /// The path is outside the project.
    #[error("{} is outside of {}", .path.display(), .root.display())]
    Outside {
        /// The resolved path.
        path: PathBuf,
        /// Top of the project.
        root: PathBuf,
    },
    /// The path is closed to all clients and models.
    #[error("{} may not be read or changed: it belongs to Baton's own data, to the keys of an agent, or to the kernel (/proc, /sys, /dev)", .0.display())]
    Closed(PathBuf),
    /// A component of the path became a link after the check.
    #[error("{} was replaced by a symbolic link while it was opened: try again", .0.display())]
    Replaced(PathBuf),
    /// The path cannot be resolved: a dangling link, or `..` after a component that does not exist.
    #[error("{} cannot be resolved to a place in the file system", .0.display())]
    Unresolvable(PathBuf),
    /// A directory where a file was expected.
    #[error("{} is a directory, not a file", .0.display())]
    IsDirectory(PathBuf),
    /// A file where a directory was expected.
    #[error("{} is not a directory", .0.display())]
    NotDirectory(PathBuf),
    #[error("Cannot read binary file: {}", .0.display())]
    Binary(PathBuf),
    /// The file exceeds [`MAX_FILE`](super::MAX_FILE).
    #[error("{} is too large ({size} bytes, at most {} are read): use a command such as `head`, `tail` or `grep`", .path.display(), super::MAX_FILE)]
    TooLarge {
        path: PathBuf,
        /// Size of the file in bytes.
        size: u64,
    },
    /// The image or document exceeds [`MAX_MEDIA`](super::MAX_MEDIA).
    #[error("{} ({mime}) is too large to be shown ({size} bytes, at most {})", .path.display(), super::MAX_MEDIA)]
    MediaTooLarge {
        path: PathBuf,
        mime: &'static str,
        /// Size of the file in bytes.
        size: u64,
    },
    /// The requested lines begin after the last line.
    #[error("line {offset} is beyond the end of {} ({lines} lines)", .path.display())]
    BeyondEnd {
        path: PathBuf,
        /// First requested line.
        offset: usize,
        /// Number of lines in the file.
        lines: usize,
    },
    /// Old and new text are equal.
    #[error("oldString and newString are the same: there is nothing to change")]
    NoChange,
    /// The text to replace does not occur.
    #[error("oldString was not found in {}: read the file again and quote it as it is, without line numbers", .0.display())]
    NoMatch(PathBuf),
    /// The text to replace occurs more than once.
    #[error("oldString was found {count} times in {} (at lines {}): add surrounding lines to make it unique, or set replaceAll", .path.display(), list(.lines))]
    NotUnique {
        path: PathBuf,
        count: usize,
        /// First lines of some occurrences.
        lines: Vec<usize>,
    },
    /// Only a much larger text resembles the text to replace.
    #[error("oldString was not found in {}; lines {first} to {last} resemble it, but are much longer: read them again and quote the whole text to replace", .path.display())]
    MatchTooLarge { path: PathBuf, first: usize, last: usize },
    /// An empty old text creates a file, but the file exists.
    #[error("{} exists already: an empty oldString only creates new files", .0.display())]
    Exists(PathBuf),
    /// Any other error of the system.
    #[error("{}: {source}", .path.display())]
    Io { path: PathBuf, source: io::Error },
}

fn list(lines: &[usize]) -> String {
    lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Error {
    /// Adds the path to an error of the system.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound(path.to_owned()),
            _ => Self::Io { path: path.to_owned(), source },
        }
    }
}
