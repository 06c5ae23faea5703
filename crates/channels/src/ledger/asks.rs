//! Requests of agents that are shown in a place and wait for an answer.

use std::collections::BTreeSet;

use protocol::{
    Millis,
    request::{PermissionRequest, QuestionRequest},
};
use rusqlite::{OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};

use super::{Error, Ledger, PostId, UpdateId, moves, posts};
use crate::{Place, Post};

/// A request that is open in a place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    /// The place that shows the request.
    pub place: Place,
    pub asked: Asked,
    /// Answers so far: one list for each answered question.
    #[serde(default)]
    pub answers: Vec<Vec<String>>,
    /// Options of the current question that the user has marked, for questions with several choices.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub marked: BTreeSet<usize>,
    /// Time at which the request is given up.
    pub expires: Millis,
}

/// The kinds of requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "request", rename_all = "lowercase")]
pub enum Asked {
    Permission(PermissionRequest),
    Question(QuestionRequest),
}

impl Asked {
    pub fn id(&self) -> &str {
        match self {
            Self::Permission(request) => request.id.as_str(),
            Self::Question(request) => request.id.as_str(),
        }
    }
}

impl Ledger {
    /// Stores a request and the posts that show it, unless it was shown before. `posts` receives the number of the
    /// stored request, which the buttons of the last post carry. Returns true if the request is new.
    pub async fn ask(
        &self,
        mut ask: Ask,
        posts: impl FnOnce(i64) -> Vec<Post> + Send + 'static,
    ) -> Result<bool, Error> {
        let now = self.now();
        self.with(move |tables| {
            ask.place = moves::resolve(tables, &ask.place)?;
            let added = tables
                .prepare_cached(
                    "INSERT INTO asks (request, place, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                )?
                .execute(params![ask.asked.id(), ask.place.to_string(), serde_json::to_string(&ask)?])?;
            if added == 0 {
                return Ok(false);
            }
            let number = tables.last_insert_rowid();
            let posts = posts::insert(tables, &ask.place, &posts(number), now)?;
            let change = "UPDATE asks SET post = ? WHERE id = ?";
            tables.execute(change, params![posts.last(), number])?;
            Ok(true)
        })
        .await
    }

    /// Updates an open request, for instance after one of its questions was answered, and adds a post, such as the
    /// next question. Marks the answering update as done in the same commit, so that it cannot answer the next
    /// question too.
    pub async fn advance(&self, number: i64, ask: Ask, post: Post, by: UpdateId) -> Result<(), Error> {
        let now = self.now();
        self.with(move |tables| {
            let posts = posts::insert(tables, &ask.place, &[post], now)?;
            let change = "UPDATE asks SET body = ?, post = ? WHERE id = ? AND is_open";
            tables.execute(change, params![serde_json::to_string(&ask)?, posts.first(), number])?;
            tables.execute("UPDATE updates SET state = 'done' WHERE id = ?", [by])?;
            Ok(())
        })
        .await
    }

    /// Updates the marked options of an open request. Marks the tap as done in the same commit, so that it is not
    /// applied twice.
    pub(crate) async fn mark_choice(&self, number: i64, ask: Ask, by: UpdateId) -> Result<(), Error> {
        self.with(move |tables| {
            let change = "UPDATE asks SET body = ? WHERE id = ? AND is_open";
            tables.execute(change, params![serde_json::to_string(&ask)?, number])?;
            tables.execute("UPDATE updates SET state = 'done' WHERE id = ?", [by])?;
            Ok(())
        })
        .await
    }

    /// Open requests of a place, oldest first: number, request, and the post that shows it.
    pub(crate) async fn open_asks(&self, place: &Place) -> Result<Vec<(i64, Ask, Option<PostId>)>, Error> {
        let place = place.to_string();
        self.with(move |tables| {
            let mut query = tables
                .prepare_cached("SELECT id, body, post FROM asks WHERE place = ? AND is_open ORDER BY id")?;
            let rows = query.query_map([place], |row| Ok(ask(row)))?;
            rows.map(|row| row?).collect()
        })
        .await
    }

    /// All open requests: the request's id and the place that shows it.
    pub(crate) async fn all_open_asks(&self) -> Result<Vec<(String, Place)>, Error> {
        self.with(|tables| {
            let mut query =
                tables.prepare("SELECT request, json_extract(body, '$.place') FROM asks WHERE is_open")?;
            let rows = query.query_map([], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
            rows.map(|row| {
                let (request, place) = row?;
                Ok((request, serde_json::from_str(&place)?))
            })
            .collect()
        })
        .await
    }

    /// Closes a request. Returns the post that showed it, if the request was open.
    pub async fn settle(&self, request: &str) -> Result<Option<PostId>, Error> {
        let request = request.to_owned();
        self.with(move |tables| {
            let change = "UPDATE asks SET is_open = 0 WHERE request = ? AND is_open RETURNING post";
            let post: Option<Option<PostId>> =
                tables.query_row(change, [request], |row| row.get(0)).optional()?;
            // The newest closed requests are kept, so that a late tap can be answered.
            tables.execute(
                "DELETE FROM asks WHERE NOT is_open AND id < (SELECT max(id) FROM asks) - 1000",
                [],
            )?;
            Ok(post.flatten())
        })
        .await
    }
}

fn ask(row: &Row<'_>) -> Result<(i64, Ask, Option<PostId>), Error> {
    Ok((row.get(0)?, serde_json::from_str(&row.get::<_, String>(1)?)?, row.get(2)?))
}
