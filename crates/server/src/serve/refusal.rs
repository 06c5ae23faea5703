//! Error responses for connections without a place, written without a router, followed by a close.

use std::{io, time::Duration};

use http::{HeaderValue, Response, StatusCode, header};
use protocol::{
    Rest,
    wire_error::{TaggedError, WireError},
};
use tokio::{io::AsyncWriteExt, net::TcpStream, time::timeout};

use crate::security::OTHER_USER;

/// Timeout for a refused client to send its call and to read the response.
const PATIENCE: Duration = Duration::from_secs(1);
/// Bytes of a refused client that are read and dropped. Closing a socket with unread bytes resets the
/// connection, and the client might lose the response.
const MAX_IGNORED: usize = 1024 * 1024;
/// Value of `Retry-After`, in seconds.
const RETRY_AFTER: u8 = 1;

/// The reason for refusing a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// Another user connected, and no password is set.
    #[error("{OTHER_USER}")]
    OtherUser,
    #[error(
        "all {connections} connections of this server are in use; close some, or start it with a higher limit \
         of open files (ulimit -n)"
    )]
    Full { connections: usize },
    #[error(
        "you hold {connections} connections to this server, the most that one client may hold; close some"
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
        // Serialisation of these shapes cannot fail.
        serde_json::to_vec(&WireError::Tagged(error)).unwrap_or_default()
    }

    /// Turns a response into the refusal. Keeps its other headers, because they tell browsers which page may
    /// read it.
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
            // Some clients do not expect a response before they have sent a call.
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

/// Waits, with a timeout, until a client that received its response has closed its end.
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
    // The result does not matter: the client receives nothing more.
    let _: Result<io::Result<()>, _> = timeout(PATIENCE, drain).await;
}
