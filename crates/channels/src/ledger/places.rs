//! State stored per place.

use protocol::{Millis, SessionId, message::ModelRef};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::{Error, Ledger, moves};
use crate::Place;

/// Stored state of a place.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlaceState {
    /// The place's current session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// Model chosen with `/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Agent chosen with `/agent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The service's id of the last message from a user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Time at which that message was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heard: Option<Millis>,
    /// Sessions as last listed by `/sessions`, for choosing one by number.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub listed: Vec<SessionId>,
}

impl Ledger {
    /// Reads a place's state; the default if the place is new.
    pub(crate) async fn place_state(&self, place: &Place) -> Result<PlaceState, Error> {
        let place = place.clone();
        self.with(move |tables| read(tables, &moves::resolve(tables, &place)?.to_string())).await
    }

    /// The place whose turn runs in this session, or else the last active place with this session.
    pub(crate) async fn place_of(&self, session: &SessionId) -> Result<Option<Place>, Error> {
        let session = session.clone();
        self.with(move |tables| {
            let mut query = tables.prepare_cached(
                "SELECT place FROM (
                     SELECT place, 1 AS is_working, id AS latest FROM updates
                     WHERE state = 'running' AND session = ?1
                     UNION ALL SELECT place, 0, json_extract(body, '$.heard') FROM places
                     WHERE json_extract(body, '$.session') = ?1
                 ) ORDER BY is_working DESC, latest DESC LIMIT 1",
            )?;
            let place: Option<String> = query.query_row([session.as_str()], |row| row.get(0)).optional()?;
            Ok(place.as_deref().and_then(Place::parse))
        })
        .await
    }

    /// Changes a place's state in one transaction.
    pub(crate) async fn change_place_state(
        &self,
        place: &Place,
        change: impl FnOnce(&mut PlaceState) + Send + 'static,
    ) -> Result<(), Error> {
        let place = place.clone();
        self.with(move |tables| {
            let place = moves::resolve(tables, &place)?.to_string();
            let mut state = read(tables, &place)?;
            change(&mut state);
            let body = serde_json::to_string(&state)?;
            let change = "INSERT OR REPLACE INTO places (place, body) VALUES (?, ?)";
            tables.prepare_cached(change)?.execute(params![place, body])?;
            Ok(())
        })
        .await
    }
}

fn read(tables: &Connection, place: &str) -> Result<PlaceState, Error> {
    let mut query = tables.prepare_cached("SELECT body FROM places WHERE place = ?")?;
    let body: Option<String> = query.query_row([place], |row| row.get(0)).optional()?;
    Ok(body.map(|body| serde_json::from_str(&body)).transpose()?.unwrap_or_default())
}
