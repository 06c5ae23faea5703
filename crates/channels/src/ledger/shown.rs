//! The progress message of each place, stored so that a restarted gateway can remove it.

use rusqlite::{OptionalExtension, params};

use super::{Error, Ledger};
use crate::{Place, Sent};

impl Ledger {
    /// The progress message shown in a place, if there is one.
    pub async fn shown(&self, place: &Place) -> Result<Option<Sent>, Error> {
        let place = place.to_string();
        self.with(move |tables| {
            let mut query = tables.prepare_cached("SELECT sent FROM shown WHERE place = ?")?;
            Ok(query.query_row([place], |row| row.get(0).map(Sent)).optional()?)
        })
        .await
    }

    /// Stores the progress message shown in a place.
    pub(crate) async fn set_shown(&self, place: &Place, sent: &Sent) -> Result<(), Error> {
        let (name, at, sent) = (place.to_string(), serde_json::to_string(place)?, sent.0.clone());
        self.with(move |tables| {
            let change = "INSERT OR REPLACE INTO shown VALUES (?, ?, ?)";
            tables.prepare_cached(change)?.execute(params![name, at, sent])?;
            Ok(())
        })
        .await
    }

    /// Forgets the progress message after it was deleted or became a permanent one.
    pub(crate) async fn forget_shown(&self, place: &Place) -> Result<(), Error> {
        let place = place.to_string();
        self.with(move |tables| {
            tables.prepare_cached("DELETE FROM shown WHERE place = ?")?.execute([place])?;
            Ok(())
        })
        .await
    }
}
