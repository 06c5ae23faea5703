//! Calls that chat services make to us.
//!
//! One listener serves all channels: `POST /telegram` is for the adapter `telegram`, and so on. It reads the body, up
//! to a limit, before it looks at anything; signatures are made over bytes.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};

/// The longest body that is read. What services send is far smaller; files are fetched separately.
pub const MAX_BODY: usize = 1 << 20;

/// One call.
#[derive(Debug, Clone)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// What comes after the question mark, as it was sent.
    pub query: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, as it was sent.
    pub body: Bytes,
}

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: StatusCode,
    /// The media type of the body.
    pub mime: &'static str,
    /// The body.
    pub body: String,
}

impl Reply {
    /// Everything is well, and there is nothing to say.
    pub fn done() -> Self {
        Self::text(StatusCode::OK, "")
    }

    /// There is nobody here.
    pub fn absent() -> Self {
        Self::text(StatusCode::NOT_FOUND, "no webhook is configured here\n")
    }

    /// The call is not genuine. It is not said why.
    pub fn refused() -> Self {
        Self::text(StatusCode::UNAUTHORIZED, "the signature or secret is wrong\n")
    }

    /// The call makes no sense.
    pub fn malformed() -> Self {
        Self::text(StatusCode::BAD_REQUEST, "the body is not what this webhook expects\n")
    }

    /// The update could not be stored. The service will send it again.
    pub fn failed() -> Self {
        Self::text(StatusCode::SERVICE_UNAVAILABLE, "could not be stored; send it again\n")
    }

    /// Plain words.
    pub fn text(status: StatusCode, body: impl Into<String>) -> Self {
        Self { status, mime: "text/plain; charset=utf-8", body: body.into() }
    }
}
