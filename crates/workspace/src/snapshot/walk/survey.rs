//! The directories in which a new file would belong to a snapshot.
//!
//! Right after a snapshot, every file outside the index is ignored or too large. That stays so until a directory's
//! list of names changes, which changes the directory's time, or until a rule changes. A survey holds the metadata of
//! all directories that git searches, and of the files outside the index that decide about others. Git says which
//! directories are ignored; this module interprets no rule.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use sha1::{Digest, Sha1};

use super::entries;
use super::stat::{Stat, Time};

/// Most directories in a survey. Git searches larger worktrees.
const MAX_DIRECTORIES: usize = 50_000;

/// Name of the files with rules.
const RULES: &[u8] = b".gitignore";

/// A path relative to the worktree; empty for its top.
pub(super) type Name = Box<[u8]>;

#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Digest of the rules in the index.
    rules: Vec<u8>,
    directories: HashMap<Name, Directory>,
    /// Directories without files in the index: true for those that a rule ignores.
    ignored: HashMap<Name, bool>,
    /// Files with rules outside the index.
    other_rules: HashMap<Name, Stat>,
    /// Files that are too large for a snapshot, which may shrink.
    large: HashMap<Name, Stat>,
}

#[derive(Debug, Clone)]
struct Directory {
    stat: Stat,
    directories: Vec<Name>,
    has_rules: bool,
}

/// The result of one pass over the directories.
#[derive(Debug)]
pub(super) enum Pass {
    Complete(Survey),
    /// Git has to say which of these directories are ignored; then another pass continues.
    Ask(Survey, Vec<Name>),
}

/// The input of a survey.
pub(super) struct Scene<'a> {
    pub(super) worktree: &'a Path,
    /// Content of the index.
    pub(super) index: &'a [u8],
    /// Length of an object id.
    pub(super) id: usize,
    /// Time before git looked at the worktree.
    pub(super) started: Time,
    pub(super) large: &'a [String],
}

/// The directories and rules of an index.
#[derive(Default)]
struct Tracked<'a> {
    directories: HashSet<&'a [u8]>,
    rule_files: HashSet<&'a [u8]>,
    rules: Vec<u8>,
}

impl Survey {
    /// Returns true if no directory and no deciding file has changed.
    pub(super) fn holds(&self, worktree: &Path, mut in_time: impl FnMut() -> bool) -> bool {
        let directories = self.directories.iter().map(|(name, directory)| (name, &directory.stat));
        let mut watched = directories.chain(&self.other_rules).chain(&self.large);
        watched.all(|(name, stat)| in_time() && Stat::of(&path(worktree, name)).is_ok_and(|now| now == *stat))
    }

    /// Adds git's answers: `asked` without `ignored` are searched.
    pub(super) fn answer(&mut self, asked: Vec<Name>, ignored: &HashSet<Name>) {
        self.ignored.extend(asked.into_iter().map(|name| {
            let is_ignored = ignored.contains(&name);
            (name, is_ignored)
        }));
    }

    /// Surveys a worktree. Takes over from an older survey what has not changed. Returns `None` if something has
    /// changed since git looked, or may have.
    pub(super) fn make(scene: &Scene<'_>, old: &Self) -> Option<Pass> {
        let tracked = Tracked::read(scene)?;
        if tracked.rules == old.rules {
            let pass = Self::pass(scene, &tracked, old, &old.ignored)?;
            let (Pass::Complete(new) | Pass::Ask(new, _)) = &pass;
            if new.other_rules == old.other_rules {
                return Some(pass);
            }
        }
        // Rules have changed, so earlier answers do not count.
        Self::pass(scene, &tracked, old, &HashMap::new())
    }

    /// Continues with the directories that an incomplete survey had to ask for.
    pub(super) fn resume(scene: &Scene<'_>, incomplete: &Self) -> Option<Pass> {
        Self::pass(scene, &Tracked::read(scene)?, incomplete, &incomplete.ignored)
    }

    fn pass(
        scene: &Scene<'_>,
        tracked: &Tracked<'_>,
        old: &Self,
        known: &HashMap<Name, bool>,
    ) -> Option<Pass> {
        let mut new = Self { rules: tracked.rules.clone(), ..Self::default() };
        let device = Stat::of(scene.worktree).ok()?.device;
        let (mut waiting, mut asked) = (vec![Name::default()], Vec::new());
        while let Some(name) = waiting.pop() {
            let directory = visit(scene, &name, old)?;
            // Another file system may have other clocks.
            if directory.stat.device != device || new.directories.len() >= MAX_DIRECTORIES {
                return None;
            }
            if directory.has_rules {
                let rules = join(&name, RULES);
                if !tracked.rule_files.contains(rules.as_ref()) {
                    let stat = settled(scene, &rules)?;
                    new.other_rules.insert(rules, stat);
                }
            }
            for inner in &directory.directories {
                if tracked.directories.contains(inner.as_ref()) {
                    waiting.push(inner.clone());
                } else if let Some(is_ignored) = known.get(inner) {
                    new.ignored.insert(inner.clone(), *is_ignored);
                    waiting.extend((!is_ignored).then(|| inner.clone()));
                } else {
                    asked.push(inner.clone());
                }
            }
            new.directories.insert(name, directory);
        }
        for name in scene.large {
            let name = Name::from(name.as_bytes());
            let stat = settled(scene, &name)?;
            new.large.insert(name, stat);
        }
        Some(if asked.is_empty() { Pass::Complete(new) } else { Pass::Ask(new, asked) })
    }
}

impl<'a> Tracked<'a> {
    fn read(scene: &Scene<'a>) -> Option<Self> {
        let mut tracked = Self::default();
        let mut digest = Sha1::new();
        entries::read(scene.index, scene.id, |entry| {
            let mut name = entry.path;
            if is_rules(name) {
                tracked.rule_files.insert(name);
                digest.update(name);
                digest.update(entry.object);
            }
            while let Some(parent) = memchr::memrchr(b'/', name).and_then(|at| name.get(..at)) {
                if !tracked.directories.insert(parent) {
                    break;
                }
                name = parent;
            }
        })?;
        tracked.rules = digest.finalize().to_vec();
        Some(tracked)
    }
}

/// Returns true for a file with rules.
pub(super) fn is_rules(name: &[u8]) -> bool {
    name.strip_suffix(RULES).is_some_and(|before| before.is_empty() || before.ends_with(b"/"))
}

/// The path of a name.
pub(super) fn path(worktree: &Path, name: &[u8]) -> PathBuf {
    if name.is_empty() { worktree.to_owned() } else { worktree.join(OsStr::from_bytes(name)) }
}

fn join(directory: &[u8], name: &[u8]) -> Name {
    if directory.is_empty() { name.into() } else { [directory, b"/", name].concat().into() }
}

/// Metadata of a file that has not changed since git looked.
fn settled(scene: &Scene<'_>, name: &[u8]) -> Option<Stat> {
    Stat::of(&path(scene.worktree, name)).ok().filter(|stat| stat.is_settled(scene.started))
}

fn visit(scene: &Scene<'_>, name: &[u8], old: &Survey) -> Option<Directory> {
    let stat = settled(scene, name).filter(Stat::is_directory)?;
    match old.directories.get(name) {
        Some(known) if known.stat == stat => Some(known.clone()),
        _ => list(scene.worktree, name, stat),
    }
}

fn list(worktree: &Path, name: &[u8], stat: Stat) -> Option<Directory> {
    let mut directory = Directory { stat, directories: Vec::new(), has_rules: false };
    for entry in fs::read_dir(path(worktree, name)).ok()? {
        let entry = entry.ok()?;
        let inner = entry.file_name();
        let inner = inner.as_bytes();
        if inner == RULES {
            directory.has_rules = true;
        } else if inner != b".git" && entry.file_type().ok()?.is_dir() {
            directory.directories.push(join(name, inner));
        }
    }
    Some(directory)
}
