//! Patches of several files, in the format that some models are trained on:
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
//! A patch is applied completely or not at all: [`prepare`] computes the result from the current files;
//! [`apply`](fn@apply) does that again while it holds their locks, writes, and restores everything if a file cannot be
//! written. All functions block; call them from a blocking task.

mod apply;
mod error;
mod hunks;
mod parse;

use std::path::PathBuf;

pub use apply::{PatchedFile, apply, prepare};
pub use error::Error;
pub use parse::parse;

/// The change of one file. `P` names the file: first as the model's text, then as a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation<P = PathBuf> {
    /// Writes a whole file.
    Add { path: P, content: String },
    /// Removes a file.
    Delete { path: P },
    /// Changes ranges of a file, moves it, or both.
    Update {
        path: P,
        /// New path, if the file moves.
        target: Option<P>,
        /// The changes, in file order.
        hunks: Vec<Hunk>,
    },
}

impl<P> Operation<P> {
    /// The files concerned.
    pub fn paths(&self) -> impl Iterator<Item = &P> {
        let (path, target) = match self {
            Self::Add { path, .. } | Self::Delete { path } => (path, None),
            Self::Update { path, target, .. } => (path, target.as_ref()),
        };
        std::iter::once(path).chain(target)
    }

    /// Converts the file names.
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

/// A change in one place of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hunk {
    /// Lines that occur somewhere above the place, outermost first.
    pub above: Vec<String>,
    pub lines: Vec<Line>,
    /// True if the place is the end of the file.
    pub at_end: bool,
}

/// A line of a hunk without its line end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// An unchanged line.
    Keep(String),
    /// A removed line.
    Remove(String),
    /// An added line.
    Insert(String),
}

#[cfg(test)]
mod tests;
