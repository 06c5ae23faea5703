//! Places whose id has changed: a service may give a chat a new id.
//!
//! Everything stored for the old place moves to the new one, and updates that still carry the old id are
//! redirected. Message ids of the old place are not valid in the new one and are removed.

use rusqlite::{Connection, OptionalExtension, params};

use super::{Error, Ledger, PostId, posts};
use crate::Place;

/// Parameters: the old place, the new place, and the new place as JSON. A post that is being sent is left to its
/// courier, which moves it when the service refuses it.
const CHANGES: [&str; 3] = [
    "UPDATE updates SET place = ?2, body = json_remove(json_set(body, '$.place', json(?3)), '$.message')
     WHERE place = ?1",
    "UPDATE asks SET place = ?2, body = json_set(body, '$.place', json(?3)) WHERE place = ?1",
    "UPDATE posts SET place = ?2, at = ?3, body = json_remove(body, '$.reply_to')
     WHERE place = ?1 AND state IN ('waiting', 'held')",
];

impl Ledger {
    /// Moves a place to a new id.
    pub(crate) async fn move_place(&self, from: &Place, to: &Place) -> Result<(), Error> {
        let (from, to, now) = (from.clone(), to.clone(), self.now());
        self.with(move |tables| {
            if from == to {
                return Ok(());
            }
            let (old, old_at) = (from.to_string(), serde_json::to_string(&from)?);
            let (new, at) = (to.to_string(), serde_json::to_string(&to)?);
            tables.execute("DELETE FROM moves WHERE place = ?", [&new])?;
            tables.execute("UPDATE moves SET at = ? WHERE at = ?", [&at, &old_at])?;
            tables.execute("INSERT OR REPLACE INTO moves VALUES (?, ?)", [&old, &at])?;
            // Buttons must be visible in the new place, so open requests are posted again.
            for (ask, body) in shown_asks(tables, &old)? {
                let posts = posts::insert(tables, &to, &[serde_json::from_str(&body)?], now)?;
                tables.execute("UPDATE asks SET post = ? WHERE id = ?", params![posts.first(), ask])?;
            }
            for change in CHANGES {
                tables.execute(change, [&old, &new, &at])?;
            }
            let change = "UPDATE OR REPLACE places SET place = ?2, body = json_remove(body, '$.message')
                          WHERE place = ?1";
            tables.execute(change, [&old, &new])?;
            // Message ids of the old place are not valid any more.
            tables.execute("DELETE FROM shown WHERE place = ?", [&old])?;
            Ok(())
        })
        .await
    }

    /// The new place, if this place has moved.
    pub(crate) async fn moved_to(&self, place: &Place) -> Result<Option<Place>, Error> {
        let place = place.clone();
        self.with(move |tables| find(tables, &place)).await
    }

    /// Queues a post again at the new place after the service refused it at the old one.
    pub async fn follow(&self, id: PostId, to: &Place) -> Result<(), Error> {
        let (name, at) = (to.to_string(), serde_json::to_string(to)?);
        self.with(move |tables| {
            let change = "UPDATE posts SET state = 'waiting', due = 0, place = ?, at = ?,
                          body = json_remove(body, '$.reply_to') WHERE id = ?";
            tables.execute(change, params![name, at, id])?;
            Ok(())
        })
        .await
    }
}

/// Open requests of a place that were already shown, with the post that showed them.
fn shown_asks(tables: &Connection, place: &str) -> Result<Vec<(i64, String)>, Error> {
    let mut query = tables.prepare(
        "SELECT asks.id, posts.body FROM asks JOIN posts ON posts.id = asks.post
         WHERE asks.place = ? AND is_open AND state NOT IN ('waiting', 'held', 'sending') ORDER BY asks.id",
    )?;
    let rows = query.query_map([place], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The place itself, or its new id if it has moved.
pub(super) fn resolve(tables: &Connection, place: &Place) -> Result<Place, Error> {
    Ok(find(tables, place)?.unwrap_or_else(|| place.clone()))
}

fn find(tables: &Connection, place: &Place) -> Result<Option<Place>, Error> {
    let mut query = tables.prepare_cached("SELECT at FROM moves WHERE place = ?")?;
    let at: Option<String> = query.query_row([place.to_string()], |row| row.get(0)).optional()?;
    Ok(at.map(|at| serde_json::from_str(&at)).transpose()?)
}
