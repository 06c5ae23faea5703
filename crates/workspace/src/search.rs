//! Finds files by name and lines by content, built on ripgrep's crates.
//!
//! Files that git ignores and `.git` are excluded; hidden files are included. Links are not followed, so a
//! search stays in its tree. Results prefer the files that changed last, since those usually matter most; they
//! do not depend on the order of the walk.
//!
//! All functions block; call them from a blocking task. A search ends at its deadline or on cancellation at any
//! point and then reports that it is incomplete.

mod error;
mod fuzzy;
mod glob;
mod grep;
mod names;
mod newest;
mod walk;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::files::Closed;

pub use error::Error;
pub use glob::{Found, glob};
pub use grep::{Line, MAX_SPANS, Matched, Matches, grep};
pub use names::{Kind, Name, Wanted, names, visible};

/// Most files or lines in a result.
pub const MAX_RESULTS: usize = 100;

/// Longest excerpt of a line, in characters; longer lines show the part around the match.
pub const MAX_EXCERPT: usize = 500;

/// Default timeout of a search.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Place and limits of a search.
#[derive(Clone)]
pub struct SearchScope {
    /// The directory or, for [`grep`](fn@grep), also a single file.
    pub path: PathBuf,
    pub cancel: CancellationToken,
    /// Timeout, counted from the start.
    pub deadline: Duration,
    /// Paths that are neither listed nor searched.
    pub closed: Closed,
    /// Returns true for files whose content must not be shown.
    pub withheld: Arc<dyn Fn(&Path) -> bool + Send + Sync>,
}

impl SearchScope {
    /// The whole directory with default limits.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            cancel: CancellationToken::new(),
            deadline: DEADLINE,
            closed: Closed::default(),
            withheld: Arc::new(|_| false),
        }
    }
}

impl fmt::Debug for SearchScope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SearchScope")
            .field("path", &self.path)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
