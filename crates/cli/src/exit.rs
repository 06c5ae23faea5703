//! Exit codes for scripts, and error messages with hints for the user.

use std::{fmt, process::ExitCode};

use engine::ports::Unresolved;
pub(crate) use net::chain;
use protocol::EndReason;

use crate::environment;

/// Outcome of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success; for `run`: the turn completed.
    Completed,
    /// The command failed; for `check`: it found a violation.
    Error,
    /// The command line, the configuration or the data directory is unusable.
    Usage,
    /// A permission or a question was refused.
    Blocked,
    /// A user or client aborted the turn.
    Aborted,
    /// The server or this program was stopped during the turn.
    Interrupted,
    /// The turn reached a budget limit.
    Budget,
    /// The other nodes have declared this node dead. A supervisor starts it again.
    Lost,
}

/// Section of `--help` about exit codes.
pub(crate) const CODES: &str = "\
Exit codes:
  0  completed: the command succeeded
  1  error: the command failed, or `check` found a violation
  2  usage: the command line, the configuration or the data directory is unusable
  3  blocked: a permission was denied or a question was skipped
  4  aborted: a user or client stopped the turn
  5  interrupted: the server was stopped during the turn
  6  budget: the turn reached a budget limit
  7  lost: the other nodes have declared this node dead; start it again";

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
            Self::Lost => 7,
        }
    }
}

impl From<EndReason> for Exit {
    fn from(reason: EndReason) -> Self {
        match reason {
            EndReason::Completed => Self::Completed,
            EndReason::Error => Self::Error,
            EndReason::Blocked => Self::Blocked,
            // Another client took the prompt back before it began.
            EndReason::Aborted | EndReason::Withdrawn => Self::Aborted,
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

/// A command's error: its exit code, a sentence and hints.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    sentence: String,
    hints: Vec<String>,
    /// The model that cannot be used, if that is the error.
    unknown_model: Option<String>,
}

impl Failure {
    /// The command failed while it ran.
    pub(crate) fn error(sentence: impl Into<String>) -> Self {
        Self { exit: Exit::Error, sentence: sentence.into(), hints: Vec::new(), unknown_model: None }
    }

    /// The user's input (command line, configuration or data directory) is unusable.
    pub(crate) fn usage(sentence: impl Into<String>) -> Self {
        Self { exit: Exit::Usage, ..Self::error(sentence) }
    }

    /// The other nodes have declared this node dead.
    pub(crate) fn lost(sentence: impl Into<String>) -> Self {
        Self { exit: Exit::Lost, ..Self::error(sentence) }
    }

    /// Adds advice on what to do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }

    /// The model that cannot be used, if that is the error.
    pub(crate) fn unknown_model(&self) -> Option<&str> {
        self.unknown_model.as_deref()
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
            engine::Error::Unresolved(Unresolved::Model { name, .. }) => {
                Self { unknown_model: Some(name.clone()), ..Self::usage(error.to_string()) }
            }
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
            Some(401) => Self::usage(text).hint(match environment::password_variable() {
                Some(name) => format!("the server does not accept the password in {name}"),
                None => "set BATON_PASSWORD to the server's password".to_owned(),
            }),
            Some(400..=499) => Self::usage(text),
            Some(_) => Self::error(text),
            None => Self::error(text).hint("check that the server is running and that the address is right"),
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
        assert!(CODES.contains(&format!("  {}  lost:", Exit::Lost.code())));
    }
}
