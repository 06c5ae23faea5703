//! What is wrong with a file, where, and what would be right.

use std::{fmt, path::PathBuf};

/// A place in a text, counted from 1; columns are characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character in it.
    pub column: usize,
}

/// Where a text came from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Variable(&'static str),
    /// All of them together.
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

/// One thing that is wrong, or odd. The message never repeats a value: it could be a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// In which text.
    pub source: Source,
    /// Where in it, if that is known.
    pub at: Option<Position>,
    /// Which key, as a path (`agent.build.mode`); empty if it is about the whole.
    pub key: String,
    /// What is wrong, as a sentence.
    pub message: String,
    /// What would be right, where that is a list.
    pub allowed: Vec<String>,
}

impl Problem {
    /// About a text as a whole, or no key in particular.
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

/// Files that cannot be used: everything that is wrong with them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.problems))]
pub struct Invalid {
    /// At least one, in the order in which the texts were read.
    pub problems: Vec<Problem>,
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
