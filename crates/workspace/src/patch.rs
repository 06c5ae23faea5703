//! Patches of several files, in the format some models were taught:
//!
//! ```text
//! *** Begin Patch
//! *** Add File: notes.txt
//! +a line
//! *** Update File: src/main.rs
//! *** Move to: src/app.rs
//! @@ fn main() {
//!      unchanged();
//! -    old();
//! +    new();
//! *** Delete File: obsolete.rs
//! *** End Patch
//! ```
//!
//! A patch is applied whole or not at all: [`prepare`] works everything out on the files as they are, and
//! [`apply`] does that again while it holds the files, writes, and puts everything back if something cannot be
//! written. Everything here blocks; call it from a blocking task.

mod apply;
mod error;
mod hunks;
mod parse;

use std::path::PathBuf;

pub use apply::{Outcome, apply, prepare};
pub use error::Error;
pub use parse::parse;

/// What a patch does to one file. `P` is how the file is named: by the model as text, then as a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation<P = PathBuf> {
    /// Writes a whole file.
    Add {
        /// The file.
        path: P,
        /// All of it.
        content: String,
    },
    /// Removes a file.
    Delete {
        /// The file.
        path: P,
    },
    /// Changes a file in places, moves it, or both.
    Update {
        /// The file.
        path: P,
        /// Where it is from now on, if not there.
        target: Option<P>,
        /// The changes, in the order of the file.
        hunks: Vec<Hunk>,
    },
}

impl<P> Operation<P> {
    /// The files it is about.
    pub fn paths(&self) -> impl Iterator<Item = &P> {
        let (path, target) = match self {
            Self::Add { path, .. } | Self::Delete { path } => (path, None),
            Self::Update { path, target, .. } => (path, target.as_ref()),
        };
        std::iter::once(path).chain(target)
    }

    /// The same with its files named differently.
    pub fn map<Q>(self, mut name: impl FnMut(P) -> Q) -> Operation<Q> {
        match self {
            Self::Add { path, content } => Operation::Add { path: name(path), content },
            Self::Delete { path } => Operation::Delete { path: name(path) },
            Self::Update { path, target, hunks } => {
                Operation::Update { path: name(path), target: target.map(name), hunks }
            }
        }
    }
}

/// A change in one place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hunk {
    /// Lines that stand somewhere above the place, outermost first.
    pub above: Vec<String>,
    /// The place, line by line.
    pub lines: Vec<Line>,
    /// Whether the place is the end of the file.
    pub at_end: bool,
}

/// A line of a hunk, without its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// There, and stays.
    Keep(String),
    /// There, and goes.
    Remove(String),
    /// New.
    Insert(String),
}

#[cfg(test)]
mod tests;
