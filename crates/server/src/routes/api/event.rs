//! Event stream of all directories: each event in its original shape, followed by its translation to the newer
//! interface.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use engine::{
    Sessions, Stream, StreamItem,
    bus::{Frame, Scope},
    ports::{Clock, SystemClock},
};
use futures::stream;
use protocol::{
    Event, EventBody, PartBody, PartId,
    event::{Connected, PartDelta},
    v2::{self, AnyEvent, Location, Moment, OlderEvent},
};
use serde::Serialize;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::history::translated;
use crate::{
    App, Error,
    openapi::{Class, Route},
    sse::{CutOff, HEADERS, cut_off},
};

/// Interval between heartbeats of an idle stream.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Maximum number of open parts whose kind a stream remembers. Beyond it, the stream drops the lowest id; deltas of
/// that part then arrive without their translation.
const MAX_OPEN: usize = 1_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(Class::Record, "/api/event", "v2.event.subscribe", follow)
            .summary("Follow the events of all directories")
            .streams::<AnyEvent>(),
    ]
}

/// Subscribes before it answers, so that the client misses no event.
async fn follow(State(app): State<App>) -> Result<Response, Error> {
    let stream = app.sessions.subscribe(Scope::default(), None).await?;
    let feed = Feed::new(app.sessions, stream);
    Ok((HEADERS, Body::from_stream(stream::try_unfold(feed, Feed::next))).into_response())
}

/// The event stream of one client.
struct Feed {
    sessions: Sessions,
    stream: Stream,
    open: Open,
    ready: VecDeque<Bytes>,
    heartbeat: Interval,
}

impl Feed {
    fn new(sessions: Sessions, stream: Stream) -> Self {
        let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let hello = sessions.frame(None, EventBody::ServerConnected(Connected::new(None)));
        let ready = older(&hello).iter().map(write).collect();
        Self { sessions, stream, open: Open::default(), ready, heartbeat }
    }

    async fn next(mut self) -> Result<Option<(Bytes, Self)>, CutOff> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Ok(Some((chunk, self)));
            }
            // Both futures are cancel-safe.
            let item = tokio::select! {
                item = self.stream.next() => item,
                _ = self.heartbeat.tick() => {
                    return Ok(Some((Bytes::from_static(b": heartbeat\n\n"), self)));
                }
            };
            match item {
                Ok(StreamItem::Frames(frames)) => {
                    for frame in frames {
                        self.tell(&frame).await;
                    }
                }
                Ok(StreamItem::End) => return Ok(None),
                Ok(StreamItem::Lagged(lagged)) => return Err(cut_off(lagged)),
                Err(error) => return Err(cut_off(error)),
            }
        }
    }

    async fn tell(&mut self, frame: &Frame) {
        self.ready.extend(older(frame).iter().map(write));
        let Ok(event) = serde_json::from_slice::<Event>(frame.json()) else { return };
        let location = location(frame);
        for body in self.translate(&event).await {
            let (id, location) = (event.id.clone(), location.clone());
            self.ready.push_back(write(&v2::Event { id, body, durable: None, location }));
        }
    }

    async fn translate(&mut self, event: &Event) -> Vec<v2::Body> {
        let now = SystemClock.now();
        if let EventBody::PartDelta(delta) = &event.body {
            let moment = Moment { timestamp: event.id.made(now), session_id: delta.session_id.clone() };
            return self.open.delta(moment, delta).into_iter().collect();
        }
        self.open.learn(&event.body);
        translated(&self.sessions, event, now).await
    }
}

fn location(frame: &Frame) -> Option<Location> {
    let directory = frame.directory.as_deref()?.to_owned();
    Some(Location { directory, workspace_id: None })
}

fn older(frame: &Frame) -> Option<OlderEvent> {
    let event: OlderEvent = serde_json::from_slice(frame.json()).ok()?;
    Some(OlderEvent { location: location(frame), ..event })
}

fn write(event: &impl Serialize) -> Bytes {
    format!("data: {}\n\n", serde_json::to_string(event).unwrap_or_default()).into()
}

/// Kind of an open part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Reasoning,
}

/// Kinds of the open parts, because a delta does not tell whether it is text or reasoning.
#[derive(Debug, Default)]
struct Open(BTreeMap<PartId, Kind>);

impl Open {
    fn learn(&mut self, body: &EventBody) {
        let EventBody::PartUpdated(it) = body else { return };
        let (kind, has_ended) = match &it.part.body {
            PartBody::Text(text) => (Kind::Text, text.time.as_ref().is_none_or(|time| time.end.is_some())),
            PartBody::Reasoning(thought) => (Kind::Reasoning, thought.time.end.is_some()),
            _ => return,
        };
        if has_ended {
            self.0.remove(&it.part.id);
            return;
        }
        if self.0.len() >= MAX_OPEN {
            self.0.pop_first();
        }
        self.0.insert(it.part.id.clone(), kind);
    }

    fn delta(&self, moment: Moment, it: &PartDelta) -> Option<v2::Body> {
        let assistant_message_id = it.message_id.clone();
        let (part, delta) = (it.part_id.clone(), it.delta.clone());
        Some(match self.0.get(&it.part_id)? {
            Kind::Text => v2::Body::TextDelta { moment, assistant_message_id, text_id: part, delta },
            Kind::Reasoning => {
                v2::Body::ReasoningDelta { moment, assistant_message_id, reasoning_id: part, delta }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use protocol::event::PartInfo;
    use serde_json::json;

    use super::*;

    fn part(number: usize, end: Option<u64>) -> EventBody {
        let part = json!({
            "id": format!("prt_{number:05}"), "sessionID": "ses_1", "messageID": "msg_1", "type": "text",
            "text": "", "time": { "start": 1, "end": end },
        });
        let info = json!({ "sessionID": "ses_1", "part": part, "time": 1 });
        EventBody::PartUpdated(serde_json::from_value::<PartInfo>(info).unwrap())
    }

    #[test]
    fn the_number_of_remembered_open_parts_is_bounded() {
        let mut open = Open::default();
        for number in 0..=MAX_OPEN {
            open.learn(&part(number, None));
        }
        assert_eq!(open.0.len(), MAX_OPEN);
        assert!(!open.0.contains_key(&"prt_00000".parse::<PartId>().unwrap()));
        open.learn(&part(1, Some(2)));
        assert_eq!(open.0.len(), MAX_OPEN - 1);
    }
}
