//! Answers to connections that get no place: a sentence, written without a router, and a close.

use std::{io, time::Duration};

use http::{HeaderValue, Response, StatusCode, header};
use protocol::{
    Rest,
    wire_error::{TaggedError, WireError},
};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

use crate::security::OTHER_USER;

/// How long a refused client may take to send its call and to read the answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of a refused client that are read and dropped. Closing a socket with unread bytes resets the
/// connection, and the client might lose the answer.
const MAX_IGNORED: usize = 1024 * 1024;
/// When to try again, in seconds.
const RETRY_AFTER: u8 = 1;

/// The reason why a connection is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// Another user, and there is no password.
    #[error("{OTHER_USER}")]
    OtherUser,
    #[error(
        "all {connections} connections of this server are in use; close some, or start it with a higher limit \
         of open files (ulimit -n)"
    )]
    Full { connections: usize },
    #[error(
        "you hold {connections} connections to this server, which is as many as one client may; close some"
    )]
    Share { connections: usize },
    #[error(
        "this server has no place for another event stream (one client may hold {streams}); close some, or \
         start it with a higher limit of open files (ulimit -n)"
    )]
    Streams { streams: usize },
}

impl Refusal {
    fn status(self) -> StatusCode {
        match self {
            Self::OtherUser => StatusCode::UNAUTHORIZED,
            Self::Full { .. } | Self::Share { .. } | Self::Streams { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn body(self) -> Vec<u8> {
        let (message, extra) = (self.to_string(), Rest::NONE);
        let error = match self {
            Self::OtherUser => TaggedError::Unauthorized { message, extra },
            _ => TaggedError::ServiceUnavailable { message, service: None, extra },
        };
        // These shapes have nothing that JSON cannot say.
        serde_json::to_vec(&WireError::Tagged(error)).unwrap_or_default()
    }

    /// Turns a response into the refusal. Other headers stay: they say which page may read it.
    pub(super) fn replace<B>(self, response: Response<B>) -> Response<axum::body::Body> {
        let (mut parts, _) = response.into_parts();
        parts.status = self.status();
        parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        parts.headers.insert(header::RETRY_AFTER, HeaderValue::from(u16::from(RETRY_AFTER)));
        parts.headers.remove(header::CONTENT_LENGTH);
        Response::from_parts(parts, self.body().into())
    }

    /// Answers the first call of a connection and closes it.
    pub(super) async fn answer(self, mut stream: TcpStream) {
        let (status, body) = (self.status(), self.body());
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             {}connection: close\r\n\r\n",
            body.len(),
            match self {
                Self::OtherUser => "www-authenticate: Basic realm=\"Secure Area\"\r\n".to_owned(),
                _ => format!("retry-after: {RETRY_AFTER}\r\n"),
            },
        );
        let answer = async {
            // Some clients do not expect an answer before they have asked.
            stream.readable().await?;
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(&body).await?;
            stream.shutdown().await
        };
        if matches!(timeout(PATIENCE, answer).await, Ok(Ok(()))) {
            linger(&stream).await;
        }
    }
}

/// Waits, for a bounded time, until a client that was answered has closed its end.
pub(super) async fn linger(stream: &TcpStream) {
    let drain = async {
        let (mut buffer, mut read) = ([0; 4096], 0);
        while read < MAX_IGNORED {
            stream.readable().await?;
            match stream.try_read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => read += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    };
    // The client gets nothing more either way.
    let _: Result<io::Result<()>, _> = timeout(PATIENCE, drain).await;
}
