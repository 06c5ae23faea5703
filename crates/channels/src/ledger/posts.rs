//! Posts, from the moment they are due until the service has them.
//!
//! A post is marked before it is sent. If a crash or a broken connection comes between the mark and the answer, nobody
//! knows whether it was seen, and it is not sent again: the same thing said twice is worse than a note that it may be
//! missing.
//!
//! Some services let one speak only for a while after a person has written. What comes too late for that is held, and
//! is due again as soon as they write.

use protocol::Millis;
use rusqlite::{Connection, OptionalExtension, params};

use super::{Error, Ledger, moves};
use crate::{Place, Post, Sent, words};

/// How long what was said is remembered.
const REMEMBERED: Millis = 24 * 60 * 60 * 1_000;

/// How long a post is held for somebody who does not write.
const HELD: Millis = 30 * 24 * 60 * 60 * 1_000;

/// A post's number. A later one is larger.
pub type PostId = i64;

/// A post that is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Its number.
    pub id: PostId,
    /// What to say.
    pub post: Post,
    /// How often it was tried in vain.
    pub attempts: u32,
    /// Before this it is not to be tried.
    pub due: Millis,
    /// Whether it was being sent when the gateway stopped, so that nobody knows what became of it.
    pub is_uncertain: bool,
}

/// What becomes of a post that was sent and not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// It is said again when the person writes.
    Yes,
    /// The person has written meanwhile: it is to be said now.
    Due,
    /// Something is being sent in this place: it may be this, and it is not known yet under which name.
    TooEarly,
    /// There is no such post, or not any more.
    Unknown,
}

impl Ledger {
    /// Says something, in order, when the service takes it. Returns the numbers.
    pub async fn say(&self, place: &Place, posts: Vec<Post>) -> Result<Vec<PostId>, Error> {
        let (place, now) = (place.clone(), self.now());
        self.with(move |tables| insert(tables, &place, &posts, now)).await
    }

    /// What is to be said next in a place.
    pub async fn next_post(&self, place: &Place) -> Result<Option<Outgoing>, Error> {
        let place = place.to_string();
        self.with(move |tables| {
            let mut query = tables.prepare_cached(
                "SELECT id, body, attempts, due, state = 'sending' FROM posts
                 WHERE place = ? AND state IN ('waiting', 'sending') ORDER BY id LIMIT 1",
            )?;
            let row = query.query_row([place], |row| {
                let row: (PostId, String, u32, Millis, bool) =
                    (row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?);
                Ok(row)
            });
            let Some((id, body, attempts, due, is_uncertain)) = row.optional()? else {
                return Ok(None);
            };
            let post = serde_json::from_str(&body)?;
            Ok(Some(Outgoing { id, post, attempts, due, is_uncertain }))
        })
        .await
    }

    /// A post is about to be sent.
    pub async fn sending(&self, id: PostId) -> Result<(), Error> {
        self.mark(id, "sending", None).await
    }

    /// The service has it.
    pub async fn sent(&self, id: PostId, sent: Sent) -> Result<(), Error> {
        self.mark(id, "sent", Some(sent.0)).await
    }

    /// Nobody knows whether the service has it. It will not be sent again; that is said, in this post.
    pub async fn uncertain(&self, id: PostId, place: &Place, note: Option<Post>) -> Result<(), Error> {
        let (place, now) = (place.clone(), self.now());
        self.with(move |tables| {
            mark(tables, id, "uncertain", None, now)?;
            insert(tables, &place, note.as_slice(), now).map(drop)
        })
        .await
    }

    /// The service will never have it.
    pub async fn refused(&self, id: PostId) -> Result<(), Error> {
        self.mark(id, "refused", None).await
    }

    /// The service certainly does not have it, and takes it only after the person has written. `since` is when it was
    /// tried: if they have written meanwhile, it is due at once.
    pub async fn hold(&self, id: PostId, since: Millis) -> Result<(), Error> {
        self.with(move |tables| {
            let change = format!("UPDATE posts SET state = {HELD_UNLESS_HEARD} WHERE id = ?");
            tables.prepare_cached(&change)?.execute(params![since, id])?;
            Ok(())
        })
        .await
    }

    /// The service took a post and said at a time that it was not shown after all, because the person has to write
    /// first.
    pub async fn hold_sent(&self, place: &Place, sent: &Sent, since: Millis) -> Result<Held, Error> {
        let (place, sent) = (place.to_string(), sent.0.clone());
        self.with(move |tables| {
            let change = format!(
                "UPDATE posts SET state = {HELD_UNLESS_HEARD} WHERE place = ? AND sent = ? AND state = 'sent'
                 RETURNING state = 'waiting'"
            );
            let mut change = tables.prepare_cached(&change)?;
            let is_due = change.query_row(params![since, place, sent], |row| row.get(0)).optional()?;
            if let Some(is_due) = is_due {
                return Ok(if is_due { Held::Due } else { Held::Yes });
            }
            let query = "SELECT EXISTS (SELECT 1 FROM posts WHERE place = ? AND state = 'sending')";
            let is_sending: bool = tables.prepare_cached(query)?.query_row([place], |row| row.get(0))?;
            Ok(if is_sending { Held::TooEarly } else { Held::Unknown })
        })
        .await
    }

    async fn mark(&self, id: PostId, state: &'static str, sent: Option<String>) -> Result<(), Error> {
        let now = self.now();
        self.with(move |tables| mark(tables, id, state, sent.as_deref(), now)).await
    }

    /// The service certainly does not have it; it is to be tried again, but not before `due`.
    pub async fn postpone(&self, id: PostId, due: Millis) -> Result<(), Error> {
        self.with(move |tables| {
            let change = "UPDATE posts SET state = 'waiting', attempts = attempts + 1, due = ? WHERE id = ?";
            tables.execute(change, params![due, id])?;
            Ok(())
        })
        .await
    }

    /// Where a post is, if the service has it.
    pub async fn whereabouts(&self, id: PostId) -> Result<Option<Sent>, Error> {
        self.with(move |tables| {
            let query = "SELECT sent FROM posts WHERE id = ?";
            let sent: Option<Option<String>> = tables.query_row(query, [id], |row| row.get(0)).optional()?;
            Ok(sent.flatten().map(Sent))
        })
        .await
    }
}

/// Held, unless something was received in the post's place at or after a time.
const HELD_UNLESS_HEARD: &str =
    "CASE WHEN EXISTS (SELECT 1 FROM updates WHERE updates.place = posts.place AND received >= ?)
     THEN 'waiting' ELSE 'held' END";

fn mark(tables: &Connection, id: PostId, state: &str, sent: Option<&str>, now: Millis) -> Result<(), Error> {
    tables
        .prepare_cached("UPDATE posts SET state = ?, sent = coalesce(?, sent) WHERE id = ?")?
        .execute(params![state, sent, id])?;
    let old = "DELETE FROM posts WHERE state NOT IN ('waiting', 'sending') AND created < ?
               AND (state <> 'held' OR created < ?)
               AND id NOT IN (SELECT post FROM asks WHERE is_open AND post IS NOT NULL)";
    tables.prepare_cached(old)?.execute([now - REMEMBERED, now - HELD])?;
    Ok(())
}

/// What is held in a place is due: the person has written. They are told why it comes now.
pub(super) fn release(tables: &Connection, place: &Place, now: Millis) -> Result<(), Error> {
    let mut query =
        tables.prepare_cached("SELECT id, body FROM posts WHERE place = ? AND state = 'held' ORDER BY id")?;
    let rows = query.query_map([place.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let held: Vec<(PostId, String)> = rows.collect::<Result<_, _>>()?;
    if held.is_empty() {
        return Ok(());
    }
    insert(tables, place, &[Post::text(words::LATE)], now)?;
    // What is said first has the smaller number, so they get new ones.
    for (id, body) in held {
        let posts = insert(tables, place, &[serde_json::from_str(&body)?], now)?;
        tables.execute("UPDATE asks SET post = ? WHERE post = ?", params![posts.first(), id])?;
        tables.execute("DELETE FROM posts WHERE id = ?", [id])?;
    }
    Ok(())
}

/// Adds posts to what is to be said.
pub(super) fn insert(
    tables: &Connection,
    place: &Place,
    posts: &[Post],
    now: Millis,
) -> Result<Vec<PostId>, Error> {
    let place = moves::resolve(tables, place)?;
    let (name, at) = (place.to_string(), serde_json::to_string(&place)?);
    let mut insertion =
        tables.prepare_cached("INSERT INTO posts (place, at, body, created) VALUES (?, ?, ?, ?)")?;
    posts
        .iter()
        .map(|post| Ok(insertion.insert(params![name, at, serde_json::to_string(post)?, now])?))
        .collect()
}
