//! History of a session, page by page and as a stream.
//!
//! One event of the log becomes up to two events here, so positions are doubled: the first translation of event 7
//! has position 14, the second 15. A client that resumes after either misses nothing and gets nothing twice.

use std::{collections::VecDeque, time::Duration};

use axum::{
    Json,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use engine::{Sessions, Stream, StreamItem, bus::Scope};
use futures::stream;
use protocol::{
    Event, Millis, Session, SessionId,
    v2::{self, Location, Mark, Reason},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{message::wanted_by, number};
use crate::{
    App, Error,
    error::Fault,
    extract::{Params, Query},
    openapi::{Class, Route},
    sse::HEADERS,
};

/// Default number of events per page.
const PAGE: u64 = 50;
/// Maximum number of events per page.
const MAX_PAGE: u64 = 100;
/// Number of log events per read.
pub(super) const READ: usize = 100;
/// Interval between heartbeats of an idle stream.
const HEARTBEAT: Duration = Duration::from_secs(15);

pub(super) fn routes() -> Vec<Route> {
    let missing = &[Fault::NotFound];
    vec![
        Route::get(Class::Record, "/api/session/{sessionID}/history", "v2.session.history", history)
            .summary("List the events of a session, page by page")
            .faults(missing),
        Route::get(Class::Record, "/api/session/{sessionID}/event", "v2.session.events", follow)
            .summary("Follow the events of a session, from any position in its history")
            .faults(missing)
            .streams::<v2::Event>(),
    ]
}

/// Returns the position after all translations of log event `number`.
pub(super) fn place(number: u64) -> u64 {
    number.saturating_mul(2).saturating_add(1)
}

/// Query of a history page.
#[derive(Debug, Deserialize, JsonSchema)]
struct HistoryQuery {
    /// Maximum number of events, up to 100. Default: 50.
    limit: Option<String>,
    /// Returns only events after this position (`durable.seq`).
    after: Option<String>,
}

/// A page of a session's history.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct History {
    data: Vec<v2::Event>,
    /// True if there are more events after this page.
    has_more: bool,
}

async fn history(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Query(query): Query<HistoryQuery>,
) -> Result<Json<History>, Error> {
    let limit = number("limit", query.limit.as_deref())?.unwrap_or(PAGE).clamp(1, MAX_PAGE);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let session = app.sessions.get(&id).await?;
    let mut reader = Reader::new(app.sessions, session, number("after", query.after.as_deref())?);
    let mut data = Vec::new();
    while data.len() <= limit {
        let more = reader.read().await?;
        let Some(more) = more else { break };
        data.extend(more);
    }
    let has_more = data.len() > limit;
    data.truncate(limit);
    Ok(Json(History { data, has_more }))
}

/// Query of a history stream.
#[derive(Debug, Deserialize, JsonSchema)]
struct FollowQuery {
    /// Position to start after (`durable.seq`). Default: the beginning.
    after: Option<String>,
}

async fn follow(
    State(app): State<App>,
    Params(id): Params<SessionId>,
    Query(query): Query<FollowQuery>,
) -> Result<Response, Error> {
    let session = app.sessions.get(&id).await?;
    let after = number("after", query.after.as_deref())?;
    let reader = Reader::new(app.sessions, session, after);
    // Subscribe before the first read, so that the client misses no event.
    let bell = reader.bell().await?;
    let feed = Feed { reader, bell, ready: VecDeque::new() };
    Ok((HEADERS, Body::from_stream(stream::try_unfold(feed, Feed::next))).into_response())
}

/// Reads a session's history in order.
struct Reader {
    sessions: Sessions,
    session: Session,
    /// Number of the last log event that was read.
    read: u64,
    /// Position after which the client wants events.
    after: u64,
}

impl Reader {
    fn new(sessions: Sessions, session: Session, after: Option<u64>) -> Self {
        // A position between two translations of an event: read the event again and skip the first translation.
        let (after, read) = after.map_or((0, 0), |after| (after, after.saturating_sub(1) / 2));
        Self { sessions, session, read, after }
    }

    /// Returns the next events, or `None` at the end of the log.
    async fn read(&mut self) -> Result<Option<Vec<v2::Event>>, engine::Error> {
        let events = self.sessions.events(&self.session.id, self.read, READ).await?;
        let Some((last, _)) = events.last() else { return Ok(None) };
        self.read = *last;
        let mut found = Vec::new();
        for (number, event) in events {
            let bodies = translated(&self.sessions, &event, self.session.time.updated).await;
            let places = number.saturating_mul(2)..;
            let marked = places.zip(bodies).filter(|(seq, _)| *seq > self.after);
            found.extend(marked.map(|(seq, body)| self.mark(&event, seq, body)));
        }
        Ok(Some(found))
    }

    /// Subscribes to the events of the session's workspace, as a signal to read on.
    async fn bell(&self) -> Result<Stream, engine::Error> {
        let workspace = Some(self.sessions.workspace_of(&self.session.id).await?);
        self.sessions.subscribe(Scope { workspace, ..Scope::default() }, None).await
    }

    fn mark(&self, event: &Event, seq: u64, body: v2::Body) -> v2::Event {
        let aggregate_id = self.session.id.clone();
        let durable = Some(Mark { aggregate_id, seq, version: body.version() });
        let location = Location {
            directory: self.session.directory.clone(),
            workspace_id: self.session.workspace_id.clone(),
        };
        v2::Event { id: event.id.clone(), body, durable, location: Some(location) }
    }
}

/// Translates an event to the newer interface. `near` is a time within a year of the event.
pub(super) async fn translated(sessions: &Sessions, event: &Event, near: Millis) -> Vec<v2::Body> {
    let message = match (v2::Body::needs(event), event.body.session_id()) {
        // A message that was removed since is translated without its text.
        (Some(id), Some(session)) => sessions.message(session, id).await.ok(),
        _ => None,
    };
    let reason = match &message {
        Some(message) => wanted_by(sessions, message).await,
        None => Reason::Auto,
    };
    v2::Body::of(event, event.id.made(near), message.as_ref(), reason)
}

/// The event stream of one client. The bus only signals new events and the log provides them, so a slow client
/// needs no queue.
struct Feed {
    reader: Reader,
    bell: Stream,
    ready: VecDeque<v2::Event>,
}

impl Feed {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, engine::Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some((frame(&event), self)));
            }
            if let Some(events) = self.reader.read().await? {
                self.ready.extend(events);
                continue;
            }
            match timeout(HEARTBEAT, self.bell.next()).await {
                Err(_) => return Ok(Some((Bytes::from_static(b": heartbeat\n\n"), self))),
                Ok(Ok(StreamItem::End)) => return Ok(None),
                // The bus cut the subscription off because signals piled up. The log still has every event, so
                // subscribe again.
                Ok(Ok(StreamItem::Lagged(_))) => self.bell = self.reader.bell().await?,
                Ok(Ok(StreamItem::Frames(_))) => {}
                Ok(Err(error)) => return Err(error),
            }
        }
    }
}

fn frame(event: &v2::Event) -> Bytes {
    let json = serde_json::to_string(event).unwrap_or_default();
    let place = event.durable.as_ref().map_or(0, |mark| mark.seq);
    format!("id: {place}\ndata: {json}\n\n").into()
}
