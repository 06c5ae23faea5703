//! Updates, from the moment they are received until they are answered or set aside.

use std::collections::BTreeSet;

use protocol::{MessageId, Millis, SessionId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Error, Ledger, moves, posts};
use crate::{Accepted, Place, Post, Update};

/// How long what is done is remembered, so that a late repetition is known: longer than any service repeats.
const REMEMBERED: Millis = 8 * 24 * 60 * 60 * 1_000;

/// An update's number. A later one is larger.
pub type UpdateId = i64;

/// An update that is not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Its number.
    pub id: UpdateId,
    /// What a person did.
    pub update: Update,
    /// When it was received.
    pub received: Millis,
    /// How far it is.
    pub state: State,
    /// How often it was tried in vain.
    pub attempts: u32,
    /// Before this it is not to be tried again.
    pub due: Millis,
}

/// How far an update is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Nothing happened yet.
    Waiting,
    /// A prompt was made of it, which the server may or may not have.
    Running(Run),
}

/// The prompt that was made of an update. Its id was chosen before it was sent, so that after a crash one can ask the
/// server whether it has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The session.
    pub session: SessionId,
    /// The prompt.
    pub prompt: MessageId,
}

impl Ledger {
    /// Stores an update, unless it or its alias is known.
    pub async fn accept(&self, update: Update) -> Result<Accepted, Error> {
        let now = self.now();
        self.with(move |tables| {
            let place = moves::resolve(tables, &update.place)?;
            insert(tables, &Update { place, ..update }, now)
        })
        .await
    }

    /// Stores updates that were delivered together, all or none of them. Says where something is new.
    pub async fn accept_all(&self, updates: Vec<Update>) -> Result<BTreeSet<Place>, Error> {
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

    /// What is not done in a place, oldest first.
    pub async fn open_updates(&self, place: &Place) -> Result<Vec<Kept>, Error> {
        let place = place.to_string();
        self.with(move |tables| {
            let mut query = tables.prepare_cached(
                "SELECT id, body, received, state, attempts, due, session, prompt FROM updates
                 WHERE place = ? AND state IN ('waiting', 'running') ORDER BY id",
            )?;
            let rows = query.query_map([place], |row| Ok(kept(row)))?;
            rows.map(|row| row?).collect()
        })
        .await
    }

    /// Where something is not done, or not said, or shown that is over.
    pub async fn open_places(&self) -> Result<Vec<Place>, Error> {
        self.with(|tables| {
            // What was being sent in a place that has moved is due, or doubted, where it is now.
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

    /// Notes which prompt is made of an update, before it is sent.
    pub async fn run(&self, id: UpdateId, run: Run) -> Result<(), Error> {
        self.with(move |tables| {
            let change = "UPDATE updates SET state = 'running', session = ?, prompt = ? WHERE id = ?";
            tables.execute(change, params![run.session.as_str(), run.prompt.as_str(), id])?;
            Ok(())
        })
        .await
    }

    /// An update is done, and this is to be said about it: both, or neither.
    pub async fn done(&self, id: UpdateId, place: &Place, posts: Vec<Post>) -> Result<(), Error> {
        self.end(id, place, posts, "done").await
    }

    /// An update is given up, and this is to be said about it.
    pub async fn set_aside(&self, id: UpdateId, place: &Place, posts: Vec<Post>) -> Result<(), Error> {
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

    /// It did not work; it is to be tried again, but not before `due`. Says how often it was tried.
    pub async fn retry(&self, id: UpdateId, due: Millis) -> Result<u32, Error> {
        self.with(move |tables| {
            let change =
                "UPDATE updates SET attempts = attempts + 1, due = ? WHERE id = ? RETURNING attempts";
            let attempts = tables.query_row(change, params![due, id], |row| row.get(0)).optional()?;
            Ok(attempts.unwrap_or_default())
        })
        .await
    }

    /// What was set aside, newest first: place, when it was received, and what was said.
    pub async fn aside(&self) -> Result<Vec<Kept>, Error> {
        self.with(|tables| {
            let mut query = tables.prepare(
                "SELECT id, body, received, 'waiting', attempts, due, session, prompt FROM updates
                 WHERE state = 'aside' ORDER BY id DESC LIMIT 100",
            )?;
            let rows = query.query_map([], |row| Ok(kept(row)))?;
            rows.map(|row| row?).collect()
        })
        .await
    }

    /// What an adapter remembers of where it is.
    pub async fn bookmark(&self, channel: &str) -> Result<Option<String>, Error> {
        let channel = channel.to_owned();
        self.with(move |tables| {
            let query = "SELECT value FROM bookmarks WHERE channel = ?";
            Ok(tables.query_row(query, [channel], |row| row.get(0)).optional()?)
        })
        .await
    }

    /// Remembers it.
    pub async fn set_bookmark(&self, channel: &str, value: String) -> Result<(), Error> {
        let channel = channel.to_owned();
        self.with(move |tables| {
            tables.execute("INSERT OR REPLACE INTO bookmarks VALUES (?, ?)", [channel, value])?;
            Ok(())
        })
        .await
    }
}

/// Stores an update, unless it is known. A person has written: what was held for them is due.
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

fn kept(row: &Row<'_>) -> Result<Kept, Error> {
    let state: String = row.get(3)?;
    let session: Option<String> = row.get(6)?;
    let prompt: Option<String> = row.get(7)?;
    let run = session.zip(prompt).and_then(|(session, prompt)| {
        Some(Run { session: session.parse().ok()?, prompt: prompt.parse().ok()? })
    });
    Ok(Kept {
        id: row.get(0)?,
        update: serde_json::from_str(&row.get::<_, String>(1)?)?,
        received: row.get(2)?,
        state: run.filter(|_| state == "running").map_or(State::Waiting, State::Running),
        attempts: row.get(4)?,
        due: row.get(5)?,
    })
}
