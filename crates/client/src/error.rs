//! Errors between a client and its server.

use protocol::wire_error::WireError;

/// A failed call, or the end of a stream.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("{address:?} is not an http address")]
    Address {
        /// The given address.
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
    /// The server refused the call.
    #[error("the server answered {status} {}: {}", .error.kind(), .error.message().unwrap_or_default())]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The server's error.
        error: Box<WireError>,
    },
    /// The answer does not come from an OpenCode-compatible server, or the server does not have this route.
    #[error("the server answered {status} with unexpected content: {excerpt}")]
    Unexpected {
        /// The HTTP status.
        status: u16,
        /// The beginning of the answer.
        excerpt: String,
    },
    /// The answer is longer than this client accepts.
    #[error("the answer is longer than {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// An answer or event does not fit its type.
    #[error("failed to parse the server's answer")]
    Decode(#[from] serde_json::Error),
    /// The event stream cannot be decoded any further.
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

    /// Returns true if the same call may succeed a little later.
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
