//! Walks a tree on several threads until it ends or is stopped.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime};

use globset::{GlobBuilder, GlobMatcher};
use ignore::{DirEntry, WalkBuilder, WalkState};

use super::{Error, SearchScope};

/// Most threads of one search, because several sessions may search at the same time.
const THREADS: usize = 4;

/// Tells a search to stop at its deadline or on cancellation.
pub(super) struct Stop<'a> {
    scope: &'a SearchScope,
    deadline: Instant,
    stopped: AtomicBool,
}

impl<'a> Stop<'a> {
    pub(super) fn new(scope: &'a SearchScope) -> Self {
        Self { scope, deadline: Instant::now() + scope.deadline, stopped: AtomicBool::new(false) }
    }

    pub(super) fn now(&self) -> bool {
        let stop = self.scope.cancel.is_cancelled() || Instant::now() >= self.deadline;
        if stop {
            self.stopped.store(true, Ordering::Relaxed);
        }
        stop
    }

    /// Returns true if the search was stopped before it was complete.
    pub(super) fn happened(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// Visits every file that git does not ignore. Each thread gets its own visitor.
pub(super) fn files<V: FnMut(&Path) + Send>(path: &Path, stop: &Stop<'_>, visitor: impl Fn() -> V) {
    entries(path, stop, || {
        let mut visit = visitor();
        move |entry: &DirEntry| {
            if is_file(entry) {
                visit(entry.path());
            }
        }
    });
}

/// Visits every entry that git does not ignore, including the directory itself.
pub(super) fn entries<V: FnMut(&DirEntry) + Send>(path: &Path, stop: &Stop<'_>, visitor: impl Fn() -> V) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS);
    let closed = stop.scope.closed.clone();
    let walk = WalkBuilder::new(path)
        .hidden(false)
        // Applies `.gitignore` also before `git init`.
        .require_git(false)
        .follow_links(false)
        .filter_entry(move |entry| {
            entry.depth() == 0 || (entry.file_name() != OsStr::new(".git") && !closed.covers(entry.path()))
        })
        .threads(threads)
        .build_parallel();
    walk.run(|| {
        let mut visit = visitor();
        Box::new(move |entry| {
            if stop.now() {
                return WalkState::Quit;
            }
            // Unreadable entries are skipped.
            if let Ok(entry) = entry {
                visit(&entry);
            }
            WalkState::Continue
        })
    });
}

pub(super) fn is_file(entry: &DirEntry) -> bool {
    let regular = entry.file_type().is_some_and(|kind| kind.is_file());
    // A link to a file that was named explicitly counts as the file.
    regular || (entry.depth() == 0 && entry.path().is_file())
}

/// Modification time of a file; the epoch if it is unknown.
pub(super) fn changed(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|about: Metadata| about.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// A glob pattern for paths.
#[derive(Debug)]
pub(super) struct Pattern {
    matcher: GlobMatcher,
    /// True if it selects everything that does not match.
    negated: bool,
    /// Base of relative patterns; `None` for an absolute pattern.
    base: Option<PathBuf>,
}

impl Pattern {
    /// A name without a slash matches at every depth, a path with one from `base`.
    pub(super) fn new(text: &str, base: &Path) -> Result<Self, Error> {
        let text = text.trim();
        let (text, negated) = text.strip_prefix('!').map_or((text, false), |rest| (rest, true));
        let text = text.strip_prefix("./").unwrap_or(text);
        if text.is_empty() {
            return Err(Error::Pattern("it is empty".to_owned()));
        }
        let absolute = text.starts_with('/');
        let everything = if text.ends_with('/') { "**" } else { "" };
        let anywhere = if text.contains('/') { "" } else { "**/" };
        let glob = GlobBuilder::new(&format!("{anywhere}{text}{everything}"))
            .literal_separator(true)
            .empty_alternates(true)
            .build()
            .map_err(|error| Error::Pattern(error.to_string()))?;
        let base = (!absolute).then(|| base.to_owned());
        Ok(Self { matcher: glob.compile_matcher(), negated, base })
    }

    pub(super) fn fits(&self, path: &Path) -> bool {
        let path = match &self.base {
            Some(base) => path.strip_prefix(base).unwrap_or(path),
            None => path,
        };
        self.matcher.is_match(path) != self.negated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(pattern: &str, path: &str) -> bool {
        Pattern::new(pattern, Path::new("/project")).unwrap().fits(Path::new(path))
    }

    #[test]
    fn patterns_match_as_users_expect() {
        for (pattern, path) in [
            ("*.rs", "/project/main.rs"),
            ("*.rs", "/project/deep/er/main.rs"),
            ("**/*.rs", "/project/main.rs"),
            ("src/*.rs", "/project/src/main.rs"),
            ("./src/*.rs", "/project/src/main.rs"),
            ("src/**/*.{rs,toml}", "/project/src/a/b/Cargo.toml"),
            ("src/", "/project/src/a/b"),
            ("/project/src/*.rs", "/project/src/main.rs"),
            ("main.r[st]", "/project/src/main.rs"),
            ("!*.md", "/project/src/main.rs"),
        ] {
            assert!(fits(pattern, path), "{pattern} {path}");
        }
        for (pattern, path) in [
            ("src/*.rs", "/project/src/deep/main.rs"),
            ("src/*.rs", "/project/other/src/main.rs"),
            ("*.rs", "/project/main.rst"),
            ("!*.rs", "/project/src/main.rs"),
            ("/elsewhere/*.rs", "/project/main.rs"),
        ] {
            assert!(!fits(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn invalid_patterns_are_refused_with_a_reason() {
        for text in ["", "!", "a[", "{a,b"] {
            let error = Pattern::new(text, Path::new("/")).unwrap_err();
            assert!(error.to_string().starts_with("the pattern cannot be understood: "), "{error}");
        }
    }
}
