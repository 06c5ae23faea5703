//! Errors of the engine's public calls.

use std::fmt;

use protocol::{MessageId, SessionId, continuation::StopReason};

use crate::ports::{self, Unresolved};

/// The two kinds of requests, as errors name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    Permission,
    Question,
}

impl fmt::Display for RequestKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Permission => "Permission",
            Self::Question => "Question",
        })
    }
}

/// The engine's answer when it cannot do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{kind} not found: {id}")]
    NotFound {
        /// `Session`, `Message`, `Part`, `Prompt` or `Turn`.
        kind: &'static str,
        id: String,
    },
    /// The request does not exist, or a client has already answered it.
    #[error("{kind} request not found: {id}; it may have been answered or withdrawn")]
    NoRequest {
        /// The kind that the caller asked for.
        kind: RequestKind,
        /// The id that the caller asked for.
        id: String,
    },
    /// The operation is not possible while a turn is running.
    #[error("session {0} is busy; abort it or wait until it is idle")]
    Busy(SessionId),
    /// The prompt cannot be changed any more: a turn has taken it up, or it has ended.
    #[error("prompt {0} no longer waits; a turn has taken it up")]
    Started(MessageId),
    /// The prompt was withdrawn, so it has no answer, and its id cannot be used again.
    #[error("prompt {0} was withdrawn while it waited; submit it again with a new messageID")]
    Withdrawn(MessageId),
    /// The call names an agent, model or command that does not exist.
    #[error(transparent)]
    Unresolved(#[from] Unresolved),
    /// The call's arguments are invalid.
    #[error("{0}")]
    Invalid(String),
    /// The workspace files could not be restored to their earlier state.
    #[error(
        "the files could not be restored: {0}; fork the session to go on from an earlier message without them"
    )]
    Undo(String),
    /// A plugin wants to continue a session that does not continue until the user's next prompt.
    #[error("this session does not continue before the user's next prompt: {}", .0.because())]
    Held(StopReason),
    /// A queue is full.
    #[error("{0}")]
    Overloaded(String),
    #[error("the server is shutting down")]
    Closing,
    /// The node is about to stop, or a user has asked it to take no new work.
    #[error("this node is draining: it takes no new sessions and prompts; try again when it is back")]
    Draining,
    #[error(transparent)]
    Store(#[from] ports::Error),
}

impl Error {
    pub(crate) fn no_session(id: &SessionId) -> Self {
        Self::NotFound { kind: "Session", id: id.to_string() }
    }
}
