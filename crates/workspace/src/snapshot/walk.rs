//! Compares the worktree with the last snapshot by its metadata, so that git is started only after a change.
//!
//! The file system's own clock makes the comparison exact. Before git looks at the worktree, the copy of the index is
//! written; every change that git may have missed is at least as new as that copy. A file or directory that is older,
//! and whose metadata has not changed since, is therefore in the state that git saw. Anything else is for git to
//! decide: a change within the same tick of the clock, an index with submodules, a file system without a local clock,
//! a directory that cannot be read, or a walk that takes too long.
//!
//! The ignore file of the user's git configuration is not watched. A change of it counts from the next change in the
//! worktree on.

mod entries;
mod stat;
mod survey;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::command::{Git, Onto};
use super::index::{KEPT, blocking};
use super::{Error, Tree};
use entries::{Comparison, Entry};
use parking_lot::Mutex;
pub(super) use stat::{Identity, Time, changed};
use stat::{Stat, is_local};
use survey::{Name, Pass, Scene, Survey};

/// Longest walk. Git looks at a worktree for which it is too short.
const WALK: Duration = Duration::from_millis(500);

/// Number of files between two looks at the clock.
const CLOCK_EVERY: usize = 256;

/// Number of files for which another thread is worth its start.
const FILES_PER_THREAD: usize = 4_096;

/// Most threads of one walk.
const MAX_THREADS: usize = 4;

/// Most changed files that git is told by name. Beyond that it searches by itself.
const MAX_NAMED: usize = 1_000;

/// Most files whose metadata differs from the index although their content does not.
const MAX_VERIFIED: usize = 10_000;

/// Most directories that one question about ignored ones names, because they must fit into a command line.
const MAX_ASKED: usize = 500;

/// Most questions about ignored directories after a snapshot. Directories are nested; each level is a question.
const MAX_QUESTIONS: usize = 8;

/// The last snapshot of a worktree, and the metadata that proves that it still holds.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// False if file times cannot be trusted.
    usable: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Arc<Last>>,
    /// The newest survey, for reuse. It may not hold any more.
    survey: Arc<Survey>,
}

/// A snapshot.
#[derive(Debug)]
struct Last {
    /// The index that the tree was written from.
    index: Identity,
    tree: Tree,
    /// Time before git looked at the worktree.
    started: Time,
    /// Metadata of files that differs from the index although git found the same content.
    verified: HashMap<Name, Stat>,
    /// `None` if a directory may have changed while git looked at it.
    survey: Option<Arc<Survey>>,
}

/// The differences between the worktree and the last snapshot.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// The last snapshot, if the index is still its own.
    last: Option<Arc<Last>>,
    /// Files whose content may differ from the index.
    files: HashMap<Name, Stat>,
    /// Verified files that have not changed.
    verified: HashMap<Name, Stat>,
    /// The oldest modification time, in seconds, of the files that git would take for unchanged.
    hidden_since: Option<i64>,
    /// True if nothing but the content of `files` can have changed.
    only_files: bool,
}

/// A snapshot that git has just taken.
pub(super) struct Taken {
    pub(super) tree: Tree,
    pub(super) index: Identity,
    pub(super) started: Time,
    /// Files that were too large.
    pub(super) large: Vec<String>,
    pub(super) differences: Differences,
}

impl Differences {
    /// The tree of the last snapshot if nothing has changed.
    pub(super) fn unchanged(&self) -> Option<Tree> {
        let unchanged = self.only_files && self.files.is_empty();
        self.last.as_ref().filter(|_| unchanged).map(|last| last.tree.clone())
    }

    /// The tree that the index with this identity was written as.
    pub(super) fn tree_of(&self, index: Identity) -> Option<Tree> {
        self.last.as_ref().filter(|last| last.index == index).map(|last| last.tree.clone())
    }

    /// The names of the changed files, if these are all that git has to look at.
    pub(super) fn changed_files(&self) -> Option<Vec<&[u8]>> {
        let named = self.only_files && self.files.len() <= MAX_NAMED;
        named.then(|| self.files.keys().map(AsRef::as_ref).collect())
    }

    /// The time of the index, in seconds, that makes git compare the contents of all changed files.
    pub(super) fn hidden_since(&self) -> Option<i64> {
        self.hidden_since
    }
}

impl Walk {
    /// Prepares walks through a worktree whose shadow is in `directory`.
    pub(super) fn new(directory: &Path, worktree: &Path) -> Self {
        Self { usable: is_local(directory) && is_local(worktree), state: Mutex::default() }
    }

    /// Leaves every comparison to git.
    #[cfg(test)]
    pub(super) fn disable(&mut self) {
        self.usable = false;
    }

    /// Compares the worktree with the last snapshot.
    pub(super) async fn look(&self, git: &Git) -> Differences {
        let Some(last) = self.state.lock().last.clone() else { return Differences::default() };
        let git = git.clone();
        let found = blocking(move || Ok(look(&git, last))).await;
        found.ok().flatten().unwrap_or_default()
    }

    /// Remembers a snapshot, so that the next walk can compare the worktree with it. `complete` is false if git could
    /// not add every file.
    pub(super) async fn remember(&self, git: &Onto<'_>, taken: Taken, complete: bool) {
        if !self.usable {
            return;
        }
        let Taken { tree, index, started, large, mut differences } = taken;
        let survey = match (&differences.last, complete) {
            (_, false) => None,
            (Some(last), true) if differences.only_files => last.survey.clone(),
            (_, true) => self.survey(git, &tree, started, large).await,
        };
        differences.verified.extend(differences.files);
        let verified = differences.verified;
        let survey = survey.filter(|_| verified.len() <= MAX_VERIFIED);
        let mut state = self.state.lock();
        if let Some(survey) = &survey {
            state.survey = Arc::clone(survey);
        }
        state.last = Some(Arc::new(Last { index, tree, started, verified, survey }));
    }

    async fn survey(
        &self,
        git: &Onto<'_>,
        tree: &Tree,
        started: Time,
        large: Vec<String>,
    ) -> Option<Arc<Survey>> {
        let (id, large) = (tree.id_length(), Arc::new(large));
        let mut old = Arc::clone(&self.state.lock().survey);
        for question in 0..MAX_QUESTIONS {
            let (place, large) = (git.git.clone(), Arc::clone(&large));
            let pass = blocking(move || {
                let index = std::fs::read(place.directory.join(KEPT))?;
                let scene = Scene { worktree: &place.worktree, index: &index, id, started, large: &large };
                Ok(if question == 0 { Survey::make(&scene, &old) } else { Survey::resume(&scene, &old) })
            });
            match pass.await.ok()?? {
                Pass::Complete(survey) => return Some(Arc::new(survey)),
                Pass::Ask(mut survey, asked) => {
                    let ignored = ignored(git, &asked).await.ok()?;
                    survey.answer(asked, &ignored);
                    old = Arc::new(survey);
                }
            }
        }
        None
    }
}

/// Asks git which directories are ignored. Directories that cannot be asked for count as searched, which is safe.
async fn ignored(git: &Onto<'_>, names: &[Name]) -> Result<HashSet<Name>, Error> {
    let mut ignored = HashSet::new();
    let plain: Vec<&str> = names.iter().filter_map(|name| plain(name)).collect();
    for some in plain.chunks(MAX_ASKED) {
        let output = git.read_any(&[&["check-ignore", "--"], some].concat(), &[0, 1]).await?;
        ignored.extend(output.lines().map(|line| Name::from(line.as_bytes())));
    }
    Ok(ignored)
}

/// Returns a name that git prints as it is.
fn plain(name: &[u8]) -> Option<&str> {
    let quoted = |letter: char| letter.is_control() || matches!(letter, '"' | '\\');
    std::str::from_utf8(name).ok().filter(|name| !name.contains(quoted))
}

fn look(git: &Git, last: Arc<Last>) -> Option<Differences> {
    let deadline = Deadline(Instant::now() + WALK);
    let mut kept = File::open(git.directory.join(KEPT)).ok()?;
    if Identity::from(&kept.metadata().ok()?) != last.index {
        return None;
    }
    let mut index = Vec::new();
    kept.read_to_end(&mut index).ok()?;
    let mut entries = Vec::new();
    entries::read(&index, last.tree.id_length(), |entry| entries.push(entry))?;
    let mut found = compare_files(&git.worktree, &entries, &last, deadline);
    let survey = last.survey.as_ref().filter(|_| found.only_files);
    found.only_files = survey.is_some_and(|survey| survey.holds(&git.worktree, deadline.check()));
    found.last = Some(last);
    Some(found)
}

/// The end of a walk.
#[derive(Clone, Copy)]
struct Deadline(Instant);

impl Deadline {
    /// Returns a function that returns false once the time is over. It reads the clock rarely.
    fn check(self) -> impl FnMut() -> bool {
        let mut checked = 0_usize;
        move || {
            checked += 1;
            !checked.is_multiple_of(CLOCK_EVERY) || Instant::now() < self.0
        }
    }
}

/// Compares files with their entries, on several threads if there are many.
fn compare_files(worktree: &Path, entries: &[Entry<'_>], last: &Last, deadline: Deadline) -> Differences {
    let threads = entries.len().div_ceil(FILES_PER_THREAD).clamp(1, MAX_THREADS);
    let mut shares = entries.chunks(entries.len().div_ceil(threads).max(1));
    let own = shares.next().unwrap_or_default();
    std::thread::scope(|scope| {
        let compare = |share| move || Differences::of(worktree, share, last, deadline);
        let others: Vec<_> = shares.map(|share| scope.spawn(compare(share))).collect();
        let mut found = compare(own)();
        for other in others {
            // Git looks at everything if a thread has failed.
            found.merge(other.join().unwrap_or_default());
        }
        found
    })
}

impl Differences {
    fn of(worktree: &Path, entries: &[Entry<'_>], last: &Last, deadline: Deadline) -> Self {
        let mut found = Self { only_files: true, ..Self::default() };
        let mut in_time = deadline.check();
        for entry in entries {
            if !in_time() {
                found.only_files = false;
                break;
            }
            found.compare(worktree, entry, last);
        }
        found
    }

    fn merge(&mut self, other: Self) {
        self.files.extend(other.files);
        self.verified.extend(other.verified);
        self.hidden_since = self.hidden_since.into_iter().chain(other.hidden_since).min();
        self.only_files &= other.only_files;
    }

    fn compare(&mut self, worktree: &Path, entry: &Entry<'_>, last: &Last) {
        let Ok(file) = Stat::of(&survey::path(worktree, entry.path)) else {
            self.only_files = false;
            return;
        };
        let is_settled = file.is_settled(last.started);
        let comparison = entry.compare(&file);
        if is_settled && comparison == Comparison::Same {
            return;
        }
        if is_settled && last.verified.get(entry.path) == Some(&file) {
            self.verified.insert(entry.path.into(), file);
            return;
        }
        if comparison != Comparison::Different {
            let since = self.hidden_since.unwrap_or(i64::MAX);
            self.hidden_since = Some(since.min(file.modified.seconds));
        }
        // Rules decide about other files.
        self.only_files &= !survey::is_rules(entry.path);
        self.files.insert(entry.path.into(), file);
    }
}
