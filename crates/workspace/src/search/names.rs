//! Finds files and directories by a typed part of their name.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use ignore::WalkBuilder;
use parking_lot::Mutex;

use super::fuzzy::{letters, score};
use super::walk::{Stop, entries, is_file};
use super::{Error, SearchScope};

/// Candidates kept before sorting, as a multiple of the limit.
const SLACK: usize = 8;

/// Kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    File,
    Directory,
}

/// Filter of a search by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Restricts the kind.
    pub kind: Option<Kind>,
    /// Largest number of results.
    pub limit: usize,
}

/// A file or directory that matches.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// Relative to the start of the search; a directory ends with a slash.
    pub path: String,
    pub kind: Kind,
}

/// Finds the best matches, best first, without files that git ignores.
pub fn names(query: &str, wanted: Wanted, scope: &SearchScope) -> Result<Vec<Name>, Error> {
    if !scope.path.is_dir() {
        return Err(Error::NotDirectory(scope.path.clone()));
    }
    let (query, stop) = (letters(query), Stop::new(scope));
    let found = Mutex::new(Vec::new());
    entries(&scope.path, &stop, || {
        |entry| {
            let kind = match entry.file_type() {
                Some(kind) if kind.is_dir() => Kind::Directory,
                _ if is_file(entry) => Kind::File,
                _ => return,
            };
            if entry.depth() == 0 || wanted.kind.is_some_and(|wanted| wanted != kind) {
                return;
            }
            let Some(name) = name(&scope.path, entry.path(), kind) else { return };
            let Some(score) = score(&query, &name.path) else { return };
            let mut found = found.lock();
            found.push((Reverse(score), name));
            if found.len() > SLACK * wanted.limit.max(1) {
                best(&mut found, wanted.limit);
            }
        }
    });
    let mut found = found.into_inner();
    best(&mut found, wanted.limit);
    Ok(found.into_iter().map(|(_, name)| name).collect())
}

fn best(found: &mut Vec<(Reverse<i64>, Name)>, limit: usize) {
    found.sort();
    found.truncate(limit);
}

fn name(top: &Path, path: &Path, kind: Kind) -> Option<Name> {
    // A name that is not UTF-8 could not be typed either.
    let path = path.strip_prefix(top).ok()?.to_str()?;
    let slash = if kind == Kind::Directory { "/" } else { "" };
    Some(Name { path: format!("{path}{slash}"), kind })
}

/// Names in a directory that git does not ignore, including the rules of parent directories.
pub fn visible(directory: &Path) -> HashSet<OsString> {
    let walk = WalkBuilder::new(directory)
        .hidden(false)
        .require_git(false)
        .follow_links(false)
        .max_depth(Some(1))
        .filter_entry(|entry| entry.depth() == 0 || entry.file_name() != OsStr::new(".git"))
        .build();
    walk.flatten().filter(|entry| entry.depth() == 1).map(|entry| entry.file_name().to_owned()).collect()
}
