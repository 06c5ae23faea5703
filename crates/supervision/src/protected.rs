//! Protected files, which decide what an agent may do: configuration of Baton and OpenCode, and of git, which runs
//! the programs that its configuration and hooks name. An agent that changes one of them changes its own rules, so
//! the user is asked about such a change even where edits are allowed in general.
//!
//! Protected are
//!
//! - `opencode.json`, `opencode.jsonc`, `baton.json` and `baton.jsonc` in any directory, everything in a directory
//!   `.opencode`, and the user's `.config/opencode`
//! - everything named `.git`, file or directory, with its contents
//! - directories that git would take for a bare repository, and each write that helps to make one: git discovers
//!   such a directory by itself and reads its configuration
//! - every file that is one of these under another name, because of a link or a file system that ignores case

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use workspace::files::Root;
use workspace::git;
use workspace::process::SavedPath;

/// Configuration files, in any directory.
pub(super) const FILES: [&str; 4] = ["opencode.json", "opencode.jsonc", "baton.json", "baton.jsonc"];

/// The directory with a project's configuration, agents, commands and plugins.
pub(super) const DIRECTORY: &str = ".opencode";

/// Git's directory, or the file that points to it.
pub(super) const GIT: &str = ".git";

/// The condition under which a rule allows a change of a protected file. A rule for all files never meets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protection {
    /// The rule's pattern has each of these names as a component of its own, as `.opencode/*` has `.opencode`.
    Named(BTreeSet<String>),
    /// The rule's pattern is the file's path, without a wildcard.
    Exact,
}

impl Protection {
    /// Returns true if a rule whose pattern matches the file was written for it.
    pub(crate) fn is_named_by(&self, pattern: &str) -> bool {
        if !has_wildcard(pattern) {
            return true;
        }
        match self {
            Self::Exact => false,
            Self::Named(names) => {
                let components: BTreeSet<String> = pattern.split('/').map(folded).collect();
                names.is_subset(&components)
            }
        }
    }
}

pub(crate) fn has_wildcard(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}

/// Returns the guard of a file, if it is protected. `written` is the path as the agent wrote it, `path` the
/// resolved one. Reads the file system, so it may block for a moment.
pub fn guard(root: &Root, written: &str, path: &Path) -> Option<Protection> {
    let top = root.top();
    let mut names = names(path.strip_prefix(top).unwrap_or(path));
    let written = Path::new(written);
    names.extend(self::names(written.strip_prefix(top).unwrap_or(written)));
    let mut exact = false;
    for directory in directories_above(path, top) {
        if is_in_repository(directory, path) {
            match directory.file_name().filter(|_| directory != top) {
                Some(name) => drop(names.insert(folded(&name.to_string_lossy()))),
                None => exact = true,
            }
        }
    }
    if exact || (names.is_empty() && is_alias(root, path)) {
        return Some(Protection::Exact);
    }
    (!names.is_empty()).then_some(Protection::Named(names))
}

/// Returns the components of a path that are protected regardless of the files on disk.
fn names(path: &Path) -> BTreeSet<String> {
    let normal = |component: Component<'_>| match component {
        Component::Normal(name) => Some(folded(&name.to_string_lossy())),
        _ => None,
    };
    let components: Vec<String> = path.components().filter_map(normal).collect();
    let users = components.windows(2).any(|pair| pair == [".config", "opencode"]);
    let protected = |name: &String| {
        name == DIRECTORY || name == GIT || FILES.contains(&name.as_str()) || (users && name == "opencode")
    };
    components.into_iter().filter(protected).collect()
}

/// Normalises a name like a file system that ignores case. Some also ignore invisible characters.
fn folded(name: &str) -> String {
    let shown = |character: &char| !matches!(character, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}');
    name.chars().filter(shown).flat_map(char::to_lowercase).collect()
}

/// Returns the directories above a file, the nearest first. Stops at the project's top if the file is in the
/// project.
fn directories_above<'p>(path: &'p Path, top: &'p Path) -> impl Iterator<Item = &'p Path> {
    let inside = path.starts_with(top);
    path.ancestors().skip(1).take_while(move |directory| !inside || directory.starts_with(top))
}

/// Returns true if git takes a directory for a repository, or would after a file in it is written. An agent gains
/// nothing by the order in which it writes the files: `HEAD` is always protected, and the others as soon as one of
/// them exists.
fn is_in_repository(directory: &Path, file: &Path) -> bool {
    let Ok(inner) = file.strip_prefix(directory) else { return false };
    let mut components = inner.components().map(Component::as_os_str);
    let first = components.next().map(|name| folded(&name.to_string_lossy())).unwrap_or_default();
    let is_deeper = components.next().is_some();
    let has = |name: &str| directory.join(name).symlink_metadata().is_ok();
    let is_repository = || has("HEAD") && (has("commondir") || (has("objects") && has("refs")));
    let helps = match first.as_str() {
        "head" => !is_deeper,
        "config" | "config.worktree" | "commondir" if !is_deeper => {
            has("HEAD") || has("objects") || has("refs")
        }
        "objects" | "refs" | "hooks" if is_deeper => has("HEAD") || directory.join("config").is_file(),
        _ => false,
    };
    helps || is_repository()
}

/// Returns true if a file, or a directory above it, is a protected file of this project under another name.
fn is_alias(root: &Root, path: &Path) -> bool {
    let identity = |about: Metadata| (about.dev(), about.ino());
    let found = |path: PathBuf| fs::metadata(path).ok().map(identity);
    let protected: BTreeSet<(u64, u64)> =
        configuration_directories(root).flat_map(protected_paths).filter_map(found).collect();
    let path_and_parents = std::iter::once(path).chain(directories_above(path, root.top()));
    path_and_parents.filter_map(|path| found(path.to_owned())).any(|it| protected.contains(&it))
}

/// Returns the directories that are searched for a session's configuration, the nearest first.
pub(super) fn configuration_directories(root: &Root) -> impl Iterator<Item = &Path> {
    root.directory().ancestors().take_while(|directory| directory.starts_with(root.top()))
}

/// Git's files that name programs, or name the directory where git finds those.
const GIT_FILES: [&str; 5] = ["config", "config.worktree", "commondir", "gitdir", "hooks"];

/// Returns the files that a sandboxed command must not change although it may write to the project: configuration
/// in every directory that is searched for it, and git files that make git run programs. Objects, references, the
/// index and logs are not among them, so commits work. Reads the file system, so it may block for a moment.
pub(super) fn kept(root: &Root) -> Vec<SavedPath> {
    let mut kept = Vec::new();
    let whole = |path: PathBuf| SavedPath { path, contents: true };
    for directory in configuration_directories(root) {
        for path in protected_paths(directory) {
            if path.ends_with(GIT) && path.symlink_metadata().is_ok_and(|about| about.is_dir()) {
                kept.extend(GIT_FILES.map(|name| whole(path.join(name))));
                kept.push(SavedPath { path, contents: false });
            } else {
                kept.push(whole(path));
            }
        }
        let repositories = git::directory_of(directory).into_iter().chain(git::repository_of(directory));
        kept.extend(repositories.flat_map(|git| GIT_FILES.map(|name| whole(git.join(name)))));
    }
    // A directory comes before its contents.
    kept.sort();
    kept
}

fn protected_paths(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let names = FILES.into_iter().chain([DIRECTORY, GIT]).map(OsStr::new);
    let directory = directory.to_owned();
    names.map(move |name| directory.join(name))
}

#[cfg(test)]
mod tests;
