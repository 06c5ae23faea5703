//! Finding files by name and lines by content, on ripgrep's crates.
//!
//! What git ignores is left out, hidden files are not, and the repository's own files always are. Links are not
//! followed, so a search stays in the tree it was started in. Results belong to the files that changed last, since
//! those are usually the ones that matter; which they are does not depend on the order of the walk.
//!
//! Everything here blocks; call it from a blocking task. A search ends at its deadline or when it is cancelled,
//! whatever it is doing, and then says that it did not see everything.

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

/// Longest excerpt of a line, in characters; of longer ones the part around the match is shown.
pub const MAX_EXCERPT: usize = 500;

/// The longest a search takes.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Where to search, and for how long.
#[derive(Clone)]
pub struct Scope {
    /// The directory, or for [`grep`] also a single file.
    pub path: PathBuf,
    /// Stops the search.
    pub cancel: CancellationToken,
    /// When it is given up, counted from its start.
    pub deadline: Duration,
    /// What is neither named nor looked into.
    pub closed: Closed,
    /// Files whose content must not be shown.
    pub withheld: Arc<dyn Fn(&Path) -> bool + Send + Sync>,
}

impl Scope {
    /// All of a directory.
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

impl fmt::Debug for Scope {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Scope")
            .field("path", &self.path)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
