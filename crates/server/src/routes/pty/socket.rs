//! A terminal through a WebSocket: text out, text or bytes in.
//!
//! First comes what was written since the client's cursor, then one binary frame, a zero byte and `{"cursor": place}`,
//! which says where the past ends and the present begins. When the program ends, so does the connection.

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

/// The longest message a client may send: more than anybody pastes.
const MAX_MESSAGE: usize = 1024 * 1024;
/// After so long without output the client is asked whether it is there; a dead one then blocks a write.
const QUIET: Duration = Duration::from_secs(30);
/// How long a client may take to see that the connection ends.
const FAREWELL: Duration = Duration::from_secs(5);
/// The cursor of a client that wants nothing of the past.
const NOW: i64 = -1;

/// Where to begin, and what opens the door.
#[derive(Debug, Deserialize, JsonSchema)]
pub(in crate::routes) struct ConnectQuery {
    /// How many UTF-16 units the client has seen, 0 if nothing is said; -1 for none of what was written before.
    cursor: Option<i64>,
    /// From `connect-token`; instead of a password.
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
        return Err(forbidden(
            "the ticket was used before, is older than a minute, or is for another terminal".into(),
        ));
    }
    let Ok(place) = Arc::clone(&entry.viewers).try_acquire_owned() else {
        let message = format!("{MAX_VIEWERS} connections to this terminal are open, and no more can be.");
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

/// Sends the past and then the present, until the program ends.
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

/// Types what the client sends, until it leaves. A program that does not read does not end the connection.
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
                // The program's last words are on their way; `show` ends the connection after them.
                return pending().await;
            }
            tracing::debug!(%error, "something typed was lost");
        }
    }
}

/// The connection, as long as it can still become a WebSocket.
pub(in crate::routes) struct Socket(WebSocketUpgrade);

impl FromRequestParts<App> for Socket {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Error> {
        let socket = WebSocketUpgrade::from_request_parts(parts, app).await;
        socket.map(Self).map_err(|rejection| {
            let message = format!("a WebSocket has to be opened here: {}", rejection.body_text());
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

/// It has become one.
pub(in crate::routes) struct Connected(Response);

impl IntoResponse for Connected {
    fn into_response(self) -> Response {
        self.0
    }
}

/// What OpenCode's document says, though nobody ever sees it.
impl Gives for Connected {
    fn describe(operation: &mut Operation) {
        operation.gives::<bool>(&[]);
    }
}
