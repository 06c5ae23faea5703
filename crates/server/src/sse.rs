//! Event streams: `GET /event` for one directory, `GET /global/event` for all.
//!
//! A stream begins with `server.connected`, replays what the client missed, reports sessions that are not idle, running
//! countdowns to continuations and pending requests, sends the text of open parts and `server.ready`, and then follows
//! the bus. It ends in one of two ways. On shutdown it ends cleanly. A client that did not keep up is cut off with an
//! error instead, because OpenCode's client takes a clean end as final and reconnects (with its cursor) only after an
//! error.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use bytes::{Bytes, BytesMut};
use engine::{
    Sessions, Stream, StreamItem,
    bus::{Frame, Scope},
};
use futures::stream;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use protocol::{
    EventBody, Extra, SessionId,
    event::{Connected, Ready},
    wire_error::BadRequestKind,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::{
    App, Error,
    extract::{Directory, Query},
};

/// Interval between heartbeats.
pub const HEARTBEAT: Duration = Duration::from_secs(10);

/// Size up to which small frames that are ready together are sent in one write, for instance a hundred deltas
/// at once. Copying them costs less than sending them one by one: measured with a hundred subscribers, it
/// delivers two to six times as many deltas per second.
pub const CHUNK: usize = 64 * 1024;

/// Size from which a frame is sent without copying.
const LARGE: usize = 16 * 1024;

/// Headers that keep proxies from storing, changing or buffering the stream.
pub(crate) const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
    (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
];

/// Position from which a client resumes, and the deltas that it wants. The header `Last-Event-ID` has the same meaning
/// as `after`, which takes precedence.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub struct Resume {
    /// The `id:` of the last event the client received; all later durable events are sent again.
    #[serde(default, deserialize_with = "cursor_in_query")]
    pub after: Option<u64>,
    /// Ids of the sessions whose `message.part.delta` events are sent, separated by commas, or `none`. All other events
    /// are sent in any case. Default: all sessions (Baton's addition).
    #[serde(default)]
    pub deltas: Option<String>,
}

impl Resume {
    /// The sessions whose deltas the client wants; `None` for all.
    fn deltas(&self) -> Result<Option<Arc<HashSet<SessionId>>>, Error> {
        let Some(wanted) = &self.deltas else { return Ok(None) };
        if wanted == "none" {
            return Ok(Some(Arc::default()));
        }
        let ids = wanted.split(',').map(|id| id.trim().parse()).collect::<Result<HashSet<SessionId>, _>>();
        ids.map(|ids| Some(Arc::new(ids))).map_err(|error| {
            let message = format!("deltas: {error}; list session ids, separated by commas, or write `none`");
            Error::bad_request(BadRequestKind::Query, message)
        })
    }
}

/// Events of the call's directory.
pub async fn event(
    State(app): State<App>,
    directory: Directory,
    Query(resume): Query<Resume>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let scope = Scope { deltas: resume.deltas()?, workspace: Some(directory.workspace(&app.sessions)) };
    respond(app.sessions, scope, Frame::plain, cursor(&resume, &headers)?).await
}

/// Events of all directories, each with the directory it happened in.
pub(crate) async fn global_event(
    State(app): State<App>,
    Query(resume): Query<Resume>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let scope = Scope { workspace: None, deltas: resume.deltas()? };
    respond(app.sessions, scope, Frame::global, cursor(&resume, &headers)?).await
}

fn cursor(resume: &Resume, headers: &HeaderMap) -> Result<Option<u64>, Error> {
    if resume.after.is_some() {
        return Ok(resume.after);
    }
    let Some(value) = headers.get("last-event-id").filter(|value| !value.is_empty()) else { return Ok(None) };
    let number = value.to_str().ok().and_then(|text| text.trim().parse().ok());
    let refuse = || Error::bad_request(BadRequestKind::Headers, format!("Last-Event-ID {NOT_A_CURSOR}"));
    number.map(Some).ok_or_else(refuse)
}

const NOT_A_CURSOR: &str = "must be a number: the id of the last event the client received";

fn cursor_in_query<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(|_| de::Error::custom(format_args!("after {NOT_A_CURSOR}")))
}

/// Subscribes before it responds, so that no event is missed in between.
async fn respond(
    sessions: Sessions,
    scope: Scope,
    form: fn(&Frame) -> Bytes,
    cursor: Option<u64>,
) -> Result<Response, Error> {
    let stream = sessions.subscribe(scope, cursor).await?;
    let feed = Feed::new(sessions, stream, form);
    Ok((HEADERS, Body::from_stream(stream::try_unfold(feed, Feed::next))).into_response())
}

/// The reason why a stream was cut off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CutOff {
    #[error(transparent)]
    Lagged(#[from] engine::bus::Lagged),
    #[error(transparent)]
    Engine(#[from] engine::Error),
}

/// State of one client's stream.
struct Feed {
    sessions: Sessions,
    stream: Stream,
    /// Encodes a frame.
    form: fn(&Frame) -> Bytes,
    ready: VecDeque<Bytes>,
    /// True once the client was told that live events follow.
    is_caught_up: bool,
    heartbeat: Interval,
}

impl Feed {
    fn new(sessions: Sessions, stream: Stream, form: fn(&Frame) -> Bytes) -> Self {
        let connected = Connected::new(Some(stream.cursor()));
        let hello = form(&sessions.frame(None, EventBody::ServerConnected(connected)));
        let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { sessions, stream, form, ready: VecDeque::from([hello]), is_caught_up: false, heartbeat }
    }

    async fn next(mut self) -> Result<Option<(Bytes, Self)>, CutOff> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Ok(Some((chunk, self)));
            }
            if !self.is_caught_up
                && let Some(cursor) = self.stream.caught_up()
            {
                self.is_caught_up = true;
                let ready = self.sessions.frame(None, EventBody::ServerReady(Ready::new(cursor)));
                return Ok(Some(((self.form)(&ready), self)));
            }
            // Both futures can be dropped at any await without losing anything.
            let item = tokio::select! {
                item = self.stream.next() => item,
                _ = self.heartbeat.tick() => {
                    let beat = self.sessions.frame(None, EventBody::ServerHeartbeat(Extra::new()));
                    Ok(StreamItem::Frames(vec![beat]))
                }
            };
            match item {
                Ok(StreamItem::Frames(frames)) => self.ready = pack(&frames, self.form),
                Ok(StreamItem::End) => return Ok(None),
                Ok(StreamItem::Lagged(lagged)) => return Err(cut_off(lagged)),
                Err(error) => return Err(cut_off(error)),
            }
        }
    }
}

pub(crate) fn cut_off(why: impl Into<CutOff>) -> CutOff {
    let why = why.into();
    tracing::warn!(%why, "cut off an event stream");
    why
}

/// Packs frames into few chunks.
fn pack(frames: &[Arc<Frame>], form: fn(&Frame) -> Bytes) -> VecDeque<Bytes> {
    if let [frame] = frames {
        return VecDeque::from([form(frame)]);
    }
    let mut chunks = VecDeque::new();
    let mut open = BytesMut::new();
    for frame in frames {
        let frame = form(frame);
        let is_large = frame.len() >= LARGE;
        if !open.is_empty() && (is_large || open.len() + frame.len() > CHUNK) {
            chunks.push_back(open.split().freeze());
        }
        if is_large {
            chunks.push_back(frame);
        } else {
            open.extend_from_slice(&frame);
        }
    }
    if !open.is_empty() {
        chunks.push_back(open.freeze());
    }
    chunks
}

#[cfg(test)]
mod tests;
