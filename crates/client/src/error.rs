//! What can go wrong between a client and its server.

use protocol::wire_error::WireError;

/// A call that did not work, or a stream that cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address is not one that can be called.
    #[error("{address:?} is not an http address")]
    Address {
        /// What was given.
        address: String,
    },
    /// The server could not be reached, or the connection broke.
    #[error("failed to talk to the server")]
    Transport(#[source] reqwest::Error),
    /// TLS cannot be set up at all.
    #[error(transparent)]
    Tls(#[from] net::tls::Error),
    /// The server took too long.
    #[error("the server did not answer in time")]
    Timeout,
    /// The server said no, in its own words.
    #[error("the server answered {status} {}: {}", .error.kind(), .error.message().unwrap_or_default())]
    Refused {
        /// The HTTP status.
        status: u16,
        /// What it said.
        error: Box<WireError>,
    },
    /// Something answered that is not an OpenCode-compatible server, or not this route of one.
    #[error("the server answered {status} with something unexpected: {excerpt}")]
    Unexpected {
        /// The HTTP status.
        status: u16,
        /// How the answer begins.
        excerpt: String,
    },
    /// The answer is larger than this client takes.
    #[error("the answer is longer than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// An answer or event that does not fit its type.
    #[error("failed to understand the server")]
    Decode(#[from] serde_json::Error),
    /// A stream that cannot be decoded any further.
    #[error(transparent)]
    Stream(#[from] net::sse::Error),
}

impl Error {
    /// The HTTP status, if the server answered.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } | Self::Unexpected { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Whether the same request may work a little later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Transport(_) | Self::Timeout => true,
            Self::Refused { status, .. } | Self::Unexpected { status, .. } => {
                matches!(status, 408 | 425 | 429 | 500..=599)
            }
            _ => false,
        }
    }
}

impl From<reqwest::Error> for Error {
    fn from(error: reqwest::Error) -> Self {
        if error.is_timeout() { Self::Timeout } else { Self::Transport(error.without_url()) }
    }
}
