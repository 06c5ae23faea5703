//! Errors of invalid searches.

use std::path::PathBuf;

/// The reason why a search cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Invalid pattern.
    #[error("the pattern cannot be understood: {0}")]
    Pattern(String),
    /// The path does not exist.
    #[error("No such file or directory: {}", .0.display())]
    NotFound(PathBuf),
    /// A file where a directory was expected.
    #[error("{} is not a directory", .0.display())]
    NotDirectory(PathBuf),
}
