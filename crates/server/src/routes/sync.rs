//! The log, for whoever keeps a copy of it.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use engine::ports::Listing;
use protocol::{Event, EventId, Extra, SessionId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{App, Error, extract::Body, openapi::Route};

/// Events in an answer. Whoever gets so many asks again, and says what it has by then.
const MAX_EVENTS: usize = 1_000;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post("/sync/history", "sync.history.list", history)
            .summary("List what happened in sessions after the places that are known, at most 1000 events"),
    ]
}

/// An event of a session's log.
#[derive(Debug, Serialize, JsonSchema)]
struct SyncEvent {
    /// Its id.
    id: EventId,
    /// The session.
    aggregate_id: SessionId,
    /// Its number in the session.
    seq: u64,
    /// What happened, and the version of its form.
    r#type: String,
    /// To what.
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

/// The number of the last event that is known, by session. Of sessions that are not in it, nothing is known.
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
