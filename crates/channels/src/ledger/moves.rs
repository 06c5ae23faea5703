//! Places that have become others: a service may give a chat a new name.
//!
//! Everything that is kept for the old place moves along, and whatever is still told under the old name is meant for the
//! new one. What a message was called in the old place means nothing in the new one, and is forgotten.

use rusqlite::{Connection, OptionalExtension, params};

use super::{Error, Ledger, PostId, posts};
use crate::Place;

/// From the first to the second place, which is the third in JSON. What is just being sent is followed up by whoever
/// sends it.
const CHANGES: [&str; 3] = [
    "UPDATE updates SET place = ?2, body = json_remove(json_set(body, '$.place', json(?3)), '$.message')
     WHERE place = ?1",
    "UPDATE asks SET place = ?2, body = json_set(body, '$.place', json(?3)) WHERE place = ?1",
    "UPDATE posts SET place = ?2, at = ?3, body = json_remove(body, '$.reply_to')
     WHERE place = ?1 AND state IN ('waiting', 'held')",
];

impl Ledger {
    /// A place has become another one.
    pub async fn move_place(&self, from: &Place, to: &Place) -> Result<(), Error> {
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
            // A button is chosen where it can be seen.
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
            // Nothing of what was shown there can be reached.
            tables.execute("DELETE FROM shown WHERE place = ?", [&old])?;
            Ok(())
        })
        .await
    }

    /// What a place has become, if it is another one now.
    pub async fn moved_to(&self, place: &Place) -> Result<Option<Place>, Error> {
        let place = place.clone();
        self.with(move |tables| find(tables, &place)).await
    }

    /// A post was refused because its place has become another one: it is due there.
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

/// What waits in a place and was shown there, with the post that showed it.
fn shown_asks(tables: &Connection, place: &str) -> Result<Vec<(i64, String)>, Error> {
    let mut query = tables.prepare(
        "SELECT asks.id, posts.body FROM asks JOIN posts ON posts.id = asks.post
         WHERE asks.place = ? AND is_open AND state NOT IN ('waiting', 'held', 'sending') ORDER BY asks.id",
    )?;
    let rows = query.query_map([place], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// The place itself, or what it has become.
pub(super) fn resolve(tables: &Connection, place: &Place) -> Result<Place, Error> {
    Ok(find(tables, place)?.unwrap_or_else(|| place.clone()))
}

fn find(tables: &Connection, place: &Place) -> Result<Option<Place>, Error> {
    let mut query = tables.prepare_cached("SELECT at FROM moves WHERE place = ?")?;
    let at: Option<String> = query.query_row([place.to_string()], |row| row.get(0)).optional()?;
    Ok(at.map(|at| serde_json::from_str(&at)).transpose()?)
}
