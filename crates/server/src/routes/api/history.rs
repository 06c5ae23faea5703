//! The history of a session, and how to follow it.
//!
//! An event of the log becomes up to two of this wire's, so the places of the log are doubled here: the first of
//! event 7 is at 14, the second at 15. A client that goes on after either misses nothing and gets nothing twice.

use std::{collections::VecDeque, sync::Arc, time::Duration};

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
    next::{Location, Mark, NextBody, NextEvent, Reason},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::{message::wanted_by, number};
use crate::{
    App, Error,
    error::Fault,
    extract::{Params, Query},
    openapi::Route,
    sse::HEADERS,
};

/// Events in a page, if the client does not say.
const PAGE: u64 = 50;
/// Events in a page at most.
const MAX_PAGE: u64 = 100;
/// Events of the log that are read at a time.
pub(super) const READ: usize = 100;
/// How often a stream that has nothing to say says so.
const HEARTBEAT: Duration = Duration::from_secs(15);

pub(super) fn routes() -> Vec<Route> {
    let missing = &[Fault::NotFound];
    vec![
        Route::get("/api/session/{sessionID}/history", "v2.session.history", history)
            .summary("List what happened in a session, page by page")
            .faults(missing),
        Route::get("/api/session/{sessionID}/event", "v2.session.events", follow)
            .summary("Follow what happens in a session, from any place of its history on")
            .faults(missing)
            .streams::<NextEvent>(),
    ]
}

/// The place after everything that the log's event `number` became.
pub(super) fn place(number: u64) -> u64 {
    number.saturating_mul(2).saturating_add(1)
}

/// Which events to list.
#[derive(Debug, Deserialize, JsonSchema)]
struct HistoryQuery {
    /// How many; 50 if nobody says.
    limit: Option<String>,
    /// Only what came after this place.
    after: Option<String>,
}

/// A stretch of a session's history.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct History {
    /// What happened.
    data: Vec<NextEvent>,
    /// Whether more has happened since.
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

/// Where to begin.
#[derive(Debug, Deserialize, JsonSchema)]
struct FollowQuery {
    /// After this place of the history; from its beginning, if nobody says.
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
    // Subscribed before the first look, so that nothing can happen in between unseen.
    let bell = reader.bell().await?;
    let feed = Feed { reader, bell, ready: VecDeque::new() };
    Ok((HEADERS, Body::from_stream(stream::try_unfold(feed, Feed::next))).into_response())
}

/// Reads a session's history on.
struct Reader {
    sessions: Sessions,
    session: Session,
    /// The last event of the log that was read.
    read: u64,
    /// Nothing up to here is wanted.
    after: u64,
}

impl Reader {
    fn new(sessions: Sessions, session: Session, after: Option<u64>) -> Self {
        // A place between the two halves of an event: it is read again and its first half left out.
        let (after, read) = after.map_or((0, 0), |after| (after, after.saturating_sub(1) / 2));
        Self { sessions, session, read, after }
    }

    /// What happened next; none if nothing has, yet.
    async fn read(&mut self) -> Result<Option<Vec<NextEvent>>, engine::Error> {
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

    /// Rings when something happens in the session's directory.
    async fn bell(&self) -> Result<Stream, engine::Error> {
        let directory: Arc<str> = self.session.directory.as_str().into();
        self.sessions.subscribe(Scope { directory: Some(directory) }, None).await
    }

    fn mark(&self, event: &Event, seq: u64, body: NextBody) -> NextEvent {
        let aggregate_id = self.session.id.clone();
        let durable = Some(Mark { aggregate_id, seq, version: body.version() });
        let location = Location {
            directory: self.session.directory.clone(),
            workspace_id: self.session.workspace_id.clone(),
        };
        NextEvent { id: event.id.clone(), body, durable, location: Some(location) }
    }
}

/// An event in this wire's words. `near` is a time within a year of when it happened.
pub(super) async fn translated(sessions: &Sessions, event: &Event, near: Millis) -> Vec<NextBody> {
    let message = match (NextBody::needs(event), event.body.session_id()) {
        // A message that was removed since is told without its words.
        (Some(id), Some(session)) => sessions.message(session, id).await.ok(),
        _ => None,
    };
    let reason = match &message {
        Some(message) => wanted_by(sessions, message).await,
        None => Reason::Auto,
    };
    NextBody::of(event, event.id.made(near), message.as_ref(), reason)
}

/// What one client is sent. The bus only rings: what happened is read from the log, so that a slow client costs
/// nobody a queue.
struct Feed {
    reader: Reader,
    bell: Stream,
    ready: VecDeque<NextEvent>,
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
                // It rang so often that it was cut off: the log still has everything.
                Ok(Ok(StreamItem::Lagged(_))) => self.bell = self.reader.bell().await?,
                Ok(Ok(StreamItem::Frames(_))) => {}
                Ok(Err(error)) => return Err(error),
            }
        }
    }
}

fn frame(event: &NextEvent) -> Bytes {
    let json = serde_json::to_string(event).unwrap_or_default();
    let place = event.durable.as_ref().map_or(0, |mark| mark.seq);
    format!("id: {place}\ndata: {json}\n\n").into()
}
