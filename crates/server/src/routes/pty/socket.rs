//! A terminal through a WebSocket: text to the client, text or bytes from it.
//!
//! The server first sends the output since the client's cursor, then one binary frame, a zero byte and `{"cursor":
//! position}`, which marks the end of past output. When the program ends, the server closes the connection.

use std::{future::pending, sync::Arc, time::Duration};

use axum::{
    extract::{
        FromRequestParts, State, WebSocketUpgrade,
        ws::{CloseFrame, Message, WebSocket, close_code},
    },
    response::{IntoResponse, Response},
};
use futures::{SinkExt, StreamExt, stream::SplitSink, stream::SplitStream};
use http::request::Parts;
use protocol::{PtyId, wire_error::BadRequestKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;
use workspace::pty::{Screen, Terminal};

use super::forbidden;
use crate::{
    App, Error,
    error::Fault,
    extract::{Directory, Params, Query},
    openapi::{Gives, Operation, Takes},
    terminals::MAX_VIEWERS,
};

/// Maximum size of a client's message in bytes.
const MAX_MESSAGE: usize = 1024 * 1024;
/// Time without output after which the server sends a ping. Writing to a dead client then blocks and fails.
const QUIET: Duration = Duration::from_secs(30);
/// Timeout for sending the close frame.
const FAREWELL: Duration = Duration::from_secs(5);
/// The cursor of a client that wants no past output.
const NOW: i64 = -1;

/// Query of a terminal connection.
#[derive(Debug, Deserialize, JsonSchema)]
pub(in crate::routes) struct ConnectQuery {
    /// Number of UTF-16 units that the client has seen, or -1 to skip past output. Default: 0.
    cursor: Option<i64>,
    /// Ticket from `connect-token`, instead of a password.
    ticket: Option<String>,
}

pub(in crate::routes) async fn connect(
    State(app): State<App>,
    Params(id): Params<PtyId>,
    directory: Directory,
    Query(query): Query<ConnectQuery>,
    Socket(socket): Socket,
) -> Result<Connected, Error> {
    let entry = app.terminals.find(&directory.path, &id)?;
    if query.ticket.is_some_and(|ticket| !app.terminals.tickets().redeem(&ticket, &id)) {
        return Err(forbidden("the ticket is used, older than a minute, or for another terminal".into()));
    }
    let Ok(place) = Arc::clone(&entry.viewers).try_acquire_owned() else {
        let message = format!("This terminal already has the maximum of {MAX_VIEWERS} connections.");
        return Err(Error::plain(Fault::Overloaded, message));
    };
    let screen = entry.terminal.screen();
    let end = screen.end();
    let cursor = match query.cursor.unwrap_or_default() {
        NOW => end,
        cursor => u64::try_from(cursor).unwrap_or_default().min(end),
    };
    let socket = socket.max_message_size(MAX_MESSAGE).max_frame_size(MAX_MESSAGE);
    Ok(Connected(socket.on_upgrade(async move |socket| {
        talk(socket, &entry.terminal, screen, cursor).await;
        drop(place);
    })))
}

async fn talk(socket: WebSocket, terminal: &Terminal, screen: Screen, cursor: u64) {
    let (mut out, input) = socket.split();
    let ended = tokio::select! {
        shown = show(&mut out, screen, cursor) => shown.is_ok(),
        () = listen(input, terminal) => false,
    };
    if ended {
        let frame = CloseFrame { code: close_code::NORMAL, reason: "the program has ended".into() };
        let _ = timeout(FAREWELL, out.send(Message::Close(Some(frame)))).await;
    }
}

/// Sends past output and then new output, until the program ends.
async fn show(
    out: &mut SplitSink<WebSocket, Message>,
    mut screen: Screen,
    mut cursor: u64,
) -> Result<(), axum::Error> {
    let present = screen.end();
    while cursor < present {
        let (text, after) = screen.read(cursor);
        out.send(Message::text(text)).await?;
        cursor = after;
    }
    let mark = [b"\0", json!({ "cursor": cursor }).to_string().as_bytes()].concat();
    out.send(Message::binary(mark)).await?;
    loop {
        match timeout(QUIET, screen.next(cursor)).await {
            Ok(Some((text, after))) => {
                out.send(Message::text(text)).await?;
                cursor = after;
            }
            Ok(None) => return Ok(()),
            Err(_) => out.send(Message::Ping(bytes::Bytes::new())).await?,
        }
    }
}

/// Writes the client's messages to the terminal until the client disconnects. A program that does not read does not
/// end the connection.
async fn listen(mut input: SplitStream<WebSocket>, terminal: &Terminal) {
    while let Some(Ok(message)) = input.next().await {
        let typed = match &message {
            Message::Text(text) => terminal.write(text.as_bytes()).await,
            Message::Binary(bytes) => terminal.write(bytes).await,
            Message::Close(_) => return,
            Message::Ping(_) | Message::Pong(_) => Ok(()),
        };
        if let Err(error) = typed {
            if terminal.screen().exit().is_some() {
                // Its last output is still being sent; `show` closes the connection afterwards.
                return pending().await;
            }
            tracing::debug!(%error, "terminal input was lost");
        }
    }
}

/// A connection that can become a WebSocket.
pub(in crate::routes) struct Socket(WebSocketUpgrade);

impl FromRequestParts<App> for Socket {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let socket = WebSocketUpgrade::from_request_parts(parts, app).await;
        socket.map(Self).map_err(|rejection| {
            let message = format!("this route requires a WebSocket: {}", rejection.body_text());
            Error::bad_request(BadRequestKind::Headers, message)
        })
    }
}

impl Takes for Socket {
    fn describe(operation: &mut Operation) {
        operation.takes_socket();
        operation.fails(Fault::BadRequest);
    }
}

/// The response that switches to the WebSocket protocol.
pub(in crate::routes) struct Connected(Response);

impl IntoResponse for Connected {
    fn into_response(self) -> Response {
        self.0
    }
}

/// Declares the answer of OpenCode's document, which no client receives.
impl Gives for Connected {
    fn describe(operation: &mut Operation) {
        operation.gives::<bool>(&[]);
    }
}
