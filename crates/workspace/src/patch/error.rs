//! Errors of patches, worded so that a model can act on them.

use std::path::PathBuf;

use crate::files;

/// An error of a patch that was not applied. No file has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Invalid syntax.
    #[error("line {line} of the patch: {message}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        message: String,
    },
    /// The patch contains no operation.
    #[error("the patch changes no file")]
    Empty,
    /// Expected lines do not occur in the file.
    #[error("these lines were not found in {}: read the file again and quote them as they are\n{wanted}", .path.display())]
    NoMatch { path: PathBuf, wanted: String },
    /// The target of a move exists.
    #[error("{} exists already: delete it first or choose another name", .0.display())]
    Exists(PathBuf),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] files::Error),
}
