//! The log, for clients that keep a copy of it.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use engine::ports::Listing;
use protocol::{Event, EventId, Extra, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    App, Error,
    extract::Body,
    openapi::{Class, Route},
};

/// Maximum number of events per answer. A client that receives this many calls again with its new positions.
const MAX_EVENTS: usize = 1_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(Class::Record, "/sync/history", "sync.history.list", history)
            .summary("List the events of sessions after the given positions, at most 1000"),
    ]
}

/// An event of a session's log.
#[derive(Debug, Serialize, JsonSchema)]
struct SyncEvent {
    id: EventId,
    /// Id of the session.
    aggregate_id: SessionId,
    /// Sequence number of the event.
    seq: u64,
    /// Event type and the version of its shape, such as `session.updated.1`.
    r#type: String,
    /// Properties of the event.
    data: Extra,
}

impl SyncEvent {
    fn new(session: &SessionId, seq: u64, event: &Event) -> Option<Self> {
        #[derive(Deserialize)]
        struct Wire {
            properties: Extra,
        }
        let data = Wire::deserialize(serde_json::to_value(event).ok()?).ok()?.properties;
        let r#type = format!("{}.1", event.body.kind());
        Some(Self { id: event.id.clone(), aggregate_id: session.clone(), seq, r#type, data })
    }
}

/// Sequence number of the last known event, by session id. A missing session starts at the beginning.
type Places = BTreeMap<String, u64>;

async fn history(State(app): State<App>, Body(known): Body<Places>) -> Result<Json<Vec<SyncEvent>>, Error> {
    let mut found = Vec::new();
    for session in app.sessions.list(Listing::default()).await? {
        let after = known.get(session.id.as_str()).copied().unwrap_or(0);
        let events = app.sessions.events(&session.id, after, MAX_EVENTS - found.len()).await?;
        found.extend(events.iter().filter_map(|(seq, event)| SyncEvent::new(&session.id, *seq, event)));
        if found.len() >= MAX_EVENTS {
            break;
        }
    }
    Ok(Json(found))
}
