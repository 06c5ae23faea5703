//! Updates, from the moment they are received until they are answered or set aside.

use std::collections::BTreeSet;

use protocol::{MessageId, Millis, SessionId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Error, Ledger, moves, posts};
use crate::{Accepted, Place, Post, Update};

/// Time for which finished updates are kept to recognise late redeliveries; longer than any service redelivers.
const REMEMBERED: Millis = 8 * 24 * 60 * 60 * 1_000;

/// Number of an update, in ascending order.
pub type UpdateId = i64;

/// An update that is not finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingUpdate {
    pub id: UpdateId,
    pub update: Update,
    pub received: Millis,
    pub state: State,
    /// Number of failed attempts.
    pub attempts: u32,
    /// Earliest time of the next attempt.
    pub due: Millis,
}

/// Progress of an update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Not handled yet.
    Waiting,
    /// Turned into a prompt, which the server may or may not have.
    Running(Run),
}

/// The prompt made from an update. Its id is chosen before it is sent, so that after a crash the gateway can ask
/// the server whether it has the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub session: SessionId,
    pub prompt: MessageId,
}

impl Ledger {
    /// Stores an update unless its id or alias is known.
    pub async fn accept(&self, update: Update) -> Result<Accepted, Error> {
        let now = self.now();
        self.with(move |tables| {
            let place = moves::resolve(tables, &update.place)?;
            insert(tables, &Update { place, ..update }, now)
        })
        .await
    }

    /// Stores updates that were delivered together, all or none. Returns the places with new updates.
    pub(crate) async fn accept_all(&self, updates: Vec<Update>) -> Result<BTreeSet<Place>, Error> {
        let now = self.now();
        self.with(move |tables| {
            let mut places = BTreeSet::new();
            for mut update in updates {
                update.place = moves::resolve(tables, &update.place)?;
                if insert(tables, &update, now)? == Accepted::New {
                    places.insert(update.place);
                }
            }
            Ok(places)
        })
        .await
    }

    /// Unfinished updates of a place, oldest first.
    pub async fn open_updates(&self, place: &Place) -> Result<Vec<PendingUpdate>, Error> {
        let place = place.to_string();
        self.with(move |tables| {
            let mut query = tables.prepare_cached(
                "SELECT id, body, received, state, attempts, due, session, prompt FROM updates
                 WHERE place = ? AND state IN ('waiting', 'running') ORDER BY id",
            )?;
            let rows = query.query_map([place], |row| Ok(pending(row)))?;
            rows.map(|row| row?).collect()
        })
        .await
    }

    /// Places with an unfinished update, an unsent post, an open request or a leftover progress message.
    pub(crate) async fn open_places(&self) -> Result<Vec<Place>, Error> {
        self.with(|tables| {
            // A post that was being sent in a place that has since moved belongs to the new place.
            tables.execute(
                "UPDATE posts SET at = moves.at, place = (SELECT json_extract(moves.at, '$.channel') || '/' ||
                 json_extract(moves.at, '$.chat')) FROM moves WHERE moves.place = posts.place AND state = 'sending'",
                [],
            )?;
            let mut query = tables.prepare(
                "SELECT json_extract(body, '$.place') FROM updates WHERE state IN ('waiting', 'running')
                 UNION SELECT at FROM posts WHERE state IN ('waiting', 'sending')
                 UNION SELECT json_extract(body, '$.place') FROM asks WHERE is_open
                 UNION SELECT at FROM shown",
            )?;
            let rows = query.query_map([], |row| row.get::<_, String>(0))?;
            rows.map(|row| Ok(serde_json::from_str(&row?)?)).collect()
        })
        .await
    }

    /// Stores the prompt made from an update, before the prompt is sent.
    pub async fn run(&self, id: UpdateId, run: Run) -> Result<(), Error> {
        self.run_all(vec![id], run).await
    }

    /// Stores the prompt made from the updates of an album, before the prompt is sent.
    pub async fn run_all(&self, ids: Vec<UpdateId>, run: Run) -> Result<(), Error> {
        self.with(move |tables| {
            let change = "UPDATE updates SET state = 'running', session = ?, prompt = ? WHERE id = ?";
            for id in ids {
                tables.execute(change, params![run.session.as_str(), run.prompt.as_str(), id])?;
            }
            Ok(())
        })
        .await
    }

    /// Finishes an update and queues posts about it, in one commit.
    pub async fn done(&self, id: UpdateId, place: &Place, posts: Vec<Post>) -> Result<(), Error> {
        self.end(id, place, posts, "done").await
    }

    /// Gives up an update and queues posts about it, in one commit.
    pub(crate) async fn set_aside(&self, id: UpdateId, place: &Place, posts: Vec<Post>) -> Result<(), Error> {
        self.end(id, place, posts, "aside").await
    }

    async fn end(
        &self,
        id: UpdateId,
        place: &Place,
        posts: Vec<Post>,
        state: &'static str,
    ) -> Result<(), Error> {
        let (place, now) = (place.clone(), self.now());
        self.with(move |tables| {
            let change = "UPDATE updates SET state = ? WHERE id = ? AND state IN ('waiting', 'running')";
            let is_first = tables.execute(change, params![state, id])? == 1;
            if is_first {
                posts::insert(tables, &place, &posts, now)?;
            }
            tables.execute(
                "DELETE FROM updates WHERE state IN ('done', 'aside') AND received < ?",
                [now - REMEMBERED],
            )?;
            Ok(())
        })
        .await
    }

    /// Schedules another attempt, not before `due`. Returns the number of failed attempts.
    pub async fn retry(&self, id: UpdateId, due: Millis) -> Result<u32, Error> {
        self.with(move |tables| {
            let change =
                "UPDATE updates SET attempts = attempts + 1, due = ? WHERE id = ? RETURNING attempts";
            let attempts = tables.query_row(change, params![due, id], |row| row.get(0)).optional()?;
            Ok(attempts.unwrap_or_default())
        })
        .await
    }

    /// Updates that were set aside, newest first.
    pub async fn aside(&self) -> Result<Vec<PendingUpdate>, Error> {
        self.with(|tables| {
            let mut query = tables.prepare(
                "SELECT id, body, received, 'waiting', attempts, due, session, prompt FROM updates
                 WHERE state = 'aside' ORDER BY id DESC LIMIT 100",
            )?;
            let rows = query.query_map([], |row| Ok(pending(row)))?;
            rows.map(|row| row?).collect()
        })
        .await
    }

    /// The stored read position of an adapter.
    pub(crate) async fn bookmark(&self, channel: &str) -> Result<Option<String>, Error> {
        let channel = channel.to_owned();
        self.with(move |tables| {
            let query = "SELECT value FROM bookmarks WHERE channel = ?";
            Ok(tables.query_row(query, [channel], |row| row.get(0)).optional()?)
        })
        .await
    }

    /// Stores an adapter's read position.
    pub(crate) async fn set_bookmark(&self, channel: &str, value: String) -> Result<(), Error> {
        let channel = channel.to_owned();
        self.with(move |tables| {
            tables.execute("INSERT OR REPLACE INTO bookmarks VALUES (?, ?)", [channel, value])?;
            Ok(())
        })
        .await
    }
}

/// Stores an update unless it is known, and releases posts held until the user wrote.
fn insert(tables: &Connection, update: &Update, now: Millis) -> Result<Accepted, Error> {
    let (body, place) = (serde_json::to_string(update)?, update.place.to_string());
    let mut insertion = tables.prepare_cached(
        "INSERT INTO updates (channel, name, alias, place, body, received) VALUES (?, ?, ?, ?, ?, ?)
         ON CONFLICT DO NOTHING",
    )?;
    let row = params![update.place.channel, update.id, update.alias, place, body, now];
    if insertion.execute(row)? == 0 {
        return Ok(Accepted::Known);
    }
    posts::release(tables, &update.place, now)?;
    Ok(Accepted::New)
}

fn pending(row: &Row<'_>) -> Result<PendingUpdate, Error> {
    let state: String = row.get(3)?;
    let session: Option<String> = row.get(6)?;
    let prompt: Option<String> = row.get(7)?;
    let run = session.zip(prompt).and_then(|(session, prompt)| {
        Some(Run { session: session.parse().ok()?, prompt: prompt.parse().ok()? })
    });
    Ok(PendingUpdate {
        id: row.get(0)?,
        update: serde_json::from_str(&row.get::<_, String>(1)?)?,
        received: row.get(2)?,
        state: run.filter(|_| state == "running").map_or(State::Waiting, State::Running),
        attempts: row.get(4)?,
        due: row.get(5)?,
    })
}
