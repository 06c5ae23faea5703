//! What can go wrong when the engine is asked for something.

use std::fmt;

use protocol::SessionId;

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
    /// There is no such session, message or part.
    #[error("{kind} not found: {id}")]
    NotFound {
        /// What was looked for.
        kind: &'static str,
        /// Under which id.
        id: String,
    },
    /// There is no such request, or somebody answered it already.
    #[error("{kind} request not found: {id}; it may have been answered or withdrawn")]
    NoRequest {
        /// The kind that the caller asked for.
        kind: RequestKind,
        /// The id that the caller asked for.
        id: String,
    },
    /// It cannot be done while a turn is running.
    #[error("session {0} is busy; abort it or wait until it is idle")]
    Busy(SessionId),
    /// The request names something nobody knows.
    #[error(transparent)]
    Unresolved(#[from] Unresolved),
    /// The request makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// Files could not be brought back to what they were.
    #[error(
        "the files could not be restored: {0}; fork the session to go on from an earlier message without them"
    )]
    Undo(String),
    /// Too much is waiting already.
    #[error("{0}")]
    Overloaded(String),
    /// The server goes down.
    #[error("the server is shutting down")]
    Closing,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] ports::Error),
}

impl Error {
    pub(crate) fn no_session(id: &SessionId) -> Self {
        Self::NotFound { kind: "Session", id: id.to_string() }
    }
}
