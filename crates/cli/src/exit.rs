//! How the program ends: a code for scripts, a sentence and hints for people.

use std::{fmt, process::ExitCode};

pub(crate) use net::chain;
use protocol::EndReason;

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All is well; for `run`: the agent said all it had to say.
    Completed,
    /// Something failed; for `check`: a violation was found.
    Error,
    /// The command line, the configuration or the data directory cannot be used.
    Usage,
    /// A permission or a question was refused.
    Blocked,
    /// Somebody stopped the turn.
    Aborted,
    /// The server or this program was stopped during the turn.
    Interrupted,
    /// A budget was used up.
    Budget,
}

/// The table for `--help`.
pub(crate) const CODES: &str = "\
Exit codes:
  0  completed: all is well
  1  error: it failed, or `check` found a violation
  2  usage: the command line, the configuration or the data directory cannot be used
  3  blocked: a permission or a question was refused
  4  aborted: somebody stopped the turn
  5  interrupted: the server was stopped during the turn
  6  budget: a budget was used up";

impl Exit {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Completed => 0,
            Self::Error => 1,
            Self::Usage => 2,
            Self::Blocked => 3,
            Self::Aborted => 4,
            Self::Interrupted => 5,
            Self::Budget => 6,
        }
    }
}

impl From<EndReason> for Exit {
    fn from(reason: EndReason) -> Self {
        match reason {
            EndReason::Completed => Self::Completed,
            EndReason::Error => Self::Error,
            EndReason::Blocked => Self::Blocked,
            EndReason::Aborted => Self::Aborted,
            EndReason::Interrupted => Self::Interrupted,
            EndReason::Budget => Self::Budget,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Why a command could not do what it was asked to.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    sentence: String,
    hints: Vec<String>,
}

impl Failure {
    /// Something went wrong.
    pub(crate) fn error(sentence: impl Into<String>) -> Self {
        Self { exit: Exit::Error, sentence: sentence.into(), hints: Vec::new() }
    }

    /// It was asked for in a way that cannot work.
    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::error(sentence) }
    }

    /// Says what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.sentence)
    }
}

impl From<engine::Error> for Failure {
    fn from(error: engine::Error) -> Self {
        match &error {
            engine::Error::NotFound { .. } | engine::Error::Unresolved(_) | engine::Error::Invalid(_) => {
                Self::usage(error.to_string())
            }
            _ => Self::error(chain(&error)),
        }
    }
}

impl From<client::Error> for Failure {
    fn from(error: client::Error) -> Self {
        let text = chain(&error);
        match error.status() {
            Some(401) => Self::usage(text).hint("set BATON_PASSWORD to the server's password"),
            Some(400..=499) => Self::usage(text),
            Some(_) => Self::error(text),
            None => Self::error(text).hint("is the server running, and is this its address?"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_every_code_there_is() {
        for reason in EndReason::ALL {
            let line = format!("  {}  {}:", Exit::from(reason).code(), reason.as_str());
            assert!(CODES.contains(&line), "{line}");
        }
        assert!(CODES.contains(&format!("  {}  usage:", Exit::Usage.code())));
    }
}
