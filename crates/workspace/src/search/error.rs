//! Why a search cannot even begin.

use std::path::PathBuf;

/// A search that makes no sense.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pattern is no pattern.
    #[error("the pattern cannot be understood: {0}")]
    Pattern(String),
    /// There is nothing at that path.
    #[error("No such file or directory: {}", .0.display())]
    NotFound(PathBuf),
    /// A file where a directory was expected.
    #[error("{} is not a directory", .0.display())]
    NotDirectory(PathBuf),
}
