//! What is known about a place.

use protocol::{Millis, SessionId, message::ModelRef};
use rusqlite::{OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::{Error, Ledger};
use crate::Place;

/// What a place remembers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Seat {
    /// The session that is talked to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The model that was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// The agent that was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The last message of a person, in the service's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heard: Option<Millis>,
}

impl Ledger {
    /// What a place remembers; nothing, if nothing was ever said there.
    pub async fn seat(&self, place: &Place) -> Result<Seat, Error> {
        let place = place.to_string();
        self.with(move |tables| {
            let mut query = tables.prepare_cached("SELECT body FROM places WHERE place = ?")?;
            let body: Option<String> = query.query_row([place], |row| row.get(0)).optional()?;
            Ok(body.map(|body| serde_json::from_str(&body)).transpose()?.unwrap_or_default())
        })
        .await
    }

    /// Remembers it.
    pub async fn set_seat(&self, place: &Place, seat: &Seat) -> Result<(), Error> {
        let (place, body) = (place.to_string(), serde_json::to_string(seat)?);
        self.with(move |tables| {
            let change = "INSERT OR REPLACE INTO places (place, body) VALUES (?, ?)";
            tables.prepare_cached(change)?.execute(params![place, body])?;
            Ok(())
        })
        .await
    }
}
