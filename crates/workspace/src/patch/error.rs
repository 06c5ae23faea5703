//! Why a patch cannot be applied, in words a model can act on.

use std::path::PathBuf;

use crate::files;

/// A patch that was not applied. No file has changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not written as a patch.
    #[error("line {line} of the patch: {message}")]
    Syntax {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// It does nothing.
    #[error("the patch changes no file")]
    Empty,
    /// Lines it expects are not in the file.
    #[error("these lines were not found in {}: read the file again and quote them as they are\n{wanted}", .path.display())]
    NoMatch {
        /// The file.
        path: PathBuf,
        /// The lines.
        wanted: String,
    },
    /// A file would be moved onto another one.
    #[error("{} exists already: delete it first or choose another name", .0.display())]
    Exists(PathBuf),
    /// A file that cannot be read, written or found.
    #[error(transparent)]
    File(#[from] files::Error),
}
