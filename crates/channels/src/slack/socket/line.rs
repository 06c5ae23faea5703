//! One Socket Mode connection.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures::{SinkExt, StreamExt};
use reqwest::Url;
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::{TlsConnector, rustls::pki_types::ServerName};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{Message, protocol::WebSocketConfig},
};

use crate::{AdapterError, slack::wire::Frame};

/// Timeouts for connecting and for Slack's hello.
const CONNECT: Duration = Duration::from_secs(15);
const HELLO: Duration = Duration::from_secs(15);
/// Slack sends pings all the time; after this much silence, Baton sends one.
const SILENCE: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(10);
const WRITE: Duration = Duration::from_secs(10);
const CLOSE: Duration = Duration::from_secs(1);
/// Maximum length of a frame; a longer one ends the connection.
const MAX_FRAME: usize = 8 << 20;

/// The transport of a WebSocket.
trait Duplex: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Duplex for T {}

/// A connection on which Slack has sent its hello.
pub(super) struct Line {
    socket: WebSocketStream<Pin<Box<dyn Duplex>>>,
}

impl Line {
    /// Connects. The address works like a password and must not appear in errors or logs.
    pub(super) async fn open(address: &str) -> Result<Self, AdapterError> {
        let socket = timeout(CONNECT, connect(address))
            .await
            .map_err(|_| AdapterError::Unreachable("no connection within 15 s".to_owned()))?
            .map_err(AdapterError::Unreachable)?;
        let mut line = Self { socket };
        timeout(HELLO, line.greeted())
            .await
            .map_err(|_| AdapterError::Unreachable("no hello within 15 s".to_owned()))?
            .map_err(AdapterError::Unreachable)?;
        Ok(line)
    }

    async fn greeted(&mut self) -> Result<(), String> {
        let text = self.next().await?;
        let frame: Frame = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        match frame.kind.as_str() {
            "hello" => Ok(()),
            "disconnect" => Err(format!("Slack closed the connection: {}", frame.reason.unwrap_or_default())),
            _ => Err("the first frame is not a hello".to_owned()),
        }
    }

    /// The next text frame, or the reason for the end of the connection. Answers pings.
    pub(super) async fn next(&mut self) -> Result<String, String> {
        let mut patience = SILENCE;
        loop {
            let Ok(message) = timeout(patience, self.socket.next()).await else {
                if patience == ANSWER {
                    return Err("Slack stopped answering".to_owned());
                }
                self.write(Message::Ping(Vec::new().into())).await?;
                patience = ANSWER;
                continue;
            };
            patience = SILENCE;
            match message {
                Some(Ok(Message::Text(text))) => return Ok(text.as_str().to_owned()),
                Some(Ok(Message::Close(_))) | None => return Err("closed by Slack".to_owned()),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.to_string()),
            }
        }
    }

    /// Acknowledges an envelope.
    pub(super) async fn acknowledge(&mut self, envelope: &str) -> Result<(), String> {
        self.write(Message::text(json!({"envelope_id": envelope}).to_string())).await
    }

    async fn write(&mut self, message: Message) -> Result<(), String> {
        let written = timeout(WRITE, self.socket.send(message)).await;
        written.map_err(|_| "sending to Slack timed out".to_owned())?.map_err(|error| error.to_string())
    }

    /// Closes the connection if it is still open.
    pub(super) async fn close(mut self) {
        let _ = timeout(CLOSE, self.socket.close(None)).await;
    }
}

async fn connect(address: &str) -> Result<WebSocketStream<Pin<Box<dyn Duplex>>>, String> {
    let url = Url::parse(address).map_err(|error| format!("invalid address of the connection: {error}"))?;
    let host = url.host_str().ok_or("the address of the connection has no host")?.to_owned();
    let is_secure = match url.scheme() {
        "wss" => true,
        "ws" => false,
        other => return Err(format!("{other} is not the scheme of a WebSocket")),
    };
    let port = url.port().unwrap_or(if is_secure { 443 } else { 80 });
    let plain =
        TcpStream::connect((host.trim_matches(['[', ']']), port)).await.map_err(|error| error.to_string())?;
    let stream: Pin<Box<dyn Duplex>> =
        if is_secure { Box::pin(secured(plain, host).await?) } else { Box::pin(plain) };
    let config = WebSocketConfig::default().max_message_size(Some(MAX_FRAME)).max_frame_size(Some(MAX_FRAME));
    let upgraded = client_async_with_config(url.as_str(), stream, Some(config)).await;
    upgraded.map(|(socket, _)| socket).map_err(|error| error.to_string())
}

/// A TLS connection that trusts the system's root certificates.
async fn secured(
    plain: TcpStream,
    host: String,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, String> {
    let mut config = net::tls::config().map_err(|error| error.to_string())?;
    // A WebSocket begins as a call of HTTP/1.1.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from(host).map_err(|error| error.to_string())?;
    TlsConnector::from(Arc::new(config)).connect(name, plain).await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use tokio::{io::DuplexStream, time::Instant};
    use tokio_tungstenite::tungstenite::protocol::Role;

    use super::*;

    async fn pair() -> (Line, WebSocketStream<DuplexStream>) {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let ours: Pin<Box<dyn Duplex>> = Box::pin(ours);
        let socket = WebSocketStream::from_raw_socket(ours, Role::Client, None).await;
        (Line { socket }, WebSocketStream::from_raw_socket(theirs, Role::Server, None).await)
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_is_given_up() {
        let (mut line, _theirs) = pair().await;
        let began = Instant::now();
        assert_eq!(line.next().await, Err("Slack stopped answering".to_owned()));
        assert_eq!(began.elapsed(), SILENCE + ANSWER);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_answers_pings_is_kept() {
        let (mut line, mut theirs) = pair().await;
        let answering = tokio::spawn(async move { while theirs.next().await.is_some() {} });
        assert!(timeout(Duration::from_mins(10), line.next()).await.is_err());
        answering.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_frame_must_be_hello() {
        for (frame, is_fine) in [
            (r#"{"type": "hello"}"#, true),
            (r#"{"type": "disconnect", "reason": "link_disabled"}"#, false),
            (r#"{"envelope_id": "e", "type": "events_api"}"#, false),
            ("nonsense", false),
        ] {
            let (mut line, mut theirs) = pair().await;
            theirs.send(Message::text(frame)).await.unwrap();
            assert_eq!(line.greeted().await.is_ok(), is_fine, "{frame}");
        }
    }
}
