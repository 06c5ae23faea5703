//! Finds files by name.

use std::path::PathBuf;

use parking_lot::Mutex;

use super::newest::Newest;
use super::walk::{Pattern, Stop, changed, files};
use super::{Error, MAX_RESULTS, SearchScope};

/// Files whose path matches a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The most recently changed ones, newest first; at most [`MAX_RESULTS`].
    pub paths: Vec<PathBuf>,
    /// Number of all matches.
    pub total: usize,
    /// True if the search ended early, so that there may be more.
    pub unfinished: bool,
}

/// Finds files by name.
pub fn glob(pattern: &str, scope: &SearchScope) -> Result<Found, Error> {
    if !scope.path.exists() {
        return Err(Error::NotFound(scope.path.clone()));
    }
    if !scope.path.is_dir() {
        return Err(Error::NotDirectory(scope.path.clone()));
    }
    let pattern = Pattern::new(pattern, &scope.path)?;
    let stop = Stop::new(scope);
    let found = Mutex::new((0, Newest::new(MAX_RESULTS)));
    files(&scope.path, &stop, || {
        |path| {
            if !pattern.fits(path) {
                return;
            }
            let changed = changed(path);
            let mut found = found.lock();
            found.0 += 1;
            found.1.add(changed, path.to_owned(), 1, ());
        }
    });
    let (total, newest) = found.into_inner();
    let paths = newest.into_sorted().map(|(path, ())| path).collect();
    Ok(Found { paths, total, unfinished: stop.happened() })
}
