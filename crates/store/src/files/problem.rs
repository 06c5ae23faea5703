//! An error or a warning about a file, with its position and the allowed values.

use std::{fmt, path::PathBuf};

/// A position in a text, counted from 1; columns are characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

/// The origin of a text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    File(PathBuf),
    Variable(&'static str),
    /// All layers together.
    Merged,
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(out),
            Self::Variable(name) => name.fmt(out),
            Self::Merged => "the merged configuration".fmt(out),
        }
    }
}

/// An error or a warning. The message never repeats a value, which could be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub source: Source,
    /// `None` if the position is unknown.
    pub at: Option<Position>,
    /// The key as a path (`agent.build.mode`); empty if the problem concerns the whole text.
    pub key: String,
    /// A complete sentence.
    pub message: String,
    /// The allowed values, if there is a list.
    pub allowed: Vec<String>,
}

impl Problem {
    /// A problem that concerns a whole text, or no key in particular.
    pub(super) fn about(source: &Source, at: Option<Position>, message: impl Into<String>) -> Self {
        Self { source: source.clone(), at, key: String::new(), message: message.into(), allowed: Vec::new() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:", self.source)?;
        if let Some(Position { line, column }) = self.at {
            write!(out, "{line}:{column}:")?;
        }
        write!(out, " {}", self.message)
    }
}

/// Files that cannot be used, with all their errors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.problems))]
pub struct Invalid {
    /// At least one, in the order in which the texts were read.
    pub problems: Vec<Problem>,
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
