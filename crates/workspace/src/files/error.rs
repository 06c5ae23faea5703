//! What can go wrong with a file, in words that help whoever asked for it.

use std::io;
use std::path::{Path, PathBuf};

/// A file operation that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such file.
    #[error("File not found: {}", .0.display())]
    NotFound(PathBuf),
    /// The path leads out of the project.
    #[error("{} is outside of {}", .path.display(), .root.display())]
    Outside {
        /// Where it leads.
        path: PathBuf,
        /// The project.
        root: PathBuf,
    },
    /// The path leads to a place that is shown to nobody.
    #[error("{} may not be read or changed: it belongs to Baton's own data, to the keys of an agent, or to the kernel (/proc, /sys, /dev)", .0.display())]
    Closed(PathBuf),
    /// A part of the path became a link after the path was checked.
    #[error("{} was replaced by a symbolic link while it was opened: try again", .0.display())]
    Replaced(PathBuf),
    /// The path cannot be resolved: a link into nowhere, or `..` through something that does not exist.
    #[error("{} cannot be resolved to a place in the file system", .0.display())]
    Unresolvable(PathBuf),
    /// A directory where a file was expected.
    #[error("{} is a directory, not a file", .0.display())]
    IsDirectory(PathBuf),
    /// A file where a directory was expected.
    #[error("{} is not a directory", .0.display())]
    NotDirectory(PathBuf),
    /// Not text.
    #[error("Cannot read binary file: {}", .0.display())]
    Binary(PathBuf),
    /// Too much of it.
    #[error("{} is too large ({size} bytes, at most {} are read): use a command such as `head`, `tail` or `grep`", .path.display(), super::MAX_FILE)]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
    /// Too much of an image or a document.
    #[error("{} ({mime}) is too large to be looked at ({size} bytes, at most {})", .path.display(), super::MAX_MEDIA)]
    MediaTooLarge {
        /// The file.
        path: PathBuf,
        /// What it is.
        mime: &'static str,
        /// Its size in bytes.
        size: u64,
    },
    /// A window that begins after the last line.
    #[error("line {offset} is beyond the end of {} ({lines} lines)", .path.display())]
    BeyondEnd {
        /// The file.
        path: PathBuf,
        /// The first line that was asked for.
        offset: usize,
        /// How many there are.
        lines: usize,
    },
    /// Nothing to change.
    #[error("oldString and newString are the same: there is nothing to change")]
    NoChange,
    /// The text to replace is not there.
    #[error("oldString was not found in {}: read the file again and quote it as it is, without line numbers", .0.display())]
    NoMatch(PathBuf),
    /// The text to replace is there more than once.
    #[error("oldString was found {count} times in {} (at lines {}): add surrounding lines to make it unique, or set replaceAll", .path.display(), list(.lines))]
    NotUnique {
        /// The file.
        path: PathBuf,
        /// How often.
        count: usize,
        /// Where the first of them begin.
        lines: Vec<usize>,
    },
    /// Only something much larger is like the text to replace.
    #[error("oldString was not found in {}; lines {first} to {last} are like it but much more: read them again and quote all that is to be replaced", .path.display())]
    MatchTooLarge {
        /// The file.
        path: PathBuf,
        /// Where it begins.
        first: usize,
        /// Where it ends.
        last: usize,
    },
    /// An empty text to replace creates files and this one exists.
    #[error("{} exists already: an empty oldString only creates new files", .0.display())]
    Exists(PathBuf),
    /// Anything else the system says.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn list(lines: &[usize]) -> String {
    lines.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl Error {
    /// Gives an error of the system the path it is about.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound(path.to_owned()),
            _ => Self::Io { path: path.to_owned(), source },
        }
    }
}
