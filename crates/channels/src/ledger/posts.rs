//! Posts, from the moment they are queued until the service has them.
//!
//! A post is marked as sending before it is sent. If a crash or a broken connection comes between the mark and the
//! service's answer, the result is unknown, and the post is not sent again: a duplicate is worse than a note that a
//! message may be missing. A post that [may be repeated](crate::Post::may_repeat), such as that note, is sent until the
//! service confirms it.
//!
//! Some services only deliver messages for a while after the user has written. A post that comes too late is held
//! and is due again as soon as the user writes.

use protocol::Millis;
use rusqlite::{Connection, OptionalExtension, params};

use super::{Error, Ledger, moves};
use crate::{Place, Post, Sent, words};

/// Time for which sent posts are kept.
const REMEMBERED: Millis = 24 * 60 * 60 * 1_000;

/// Time for which a post is held for a user who does not write.
const HELD: Millis = 30 * 24 * 60 * 60 * 1_000;

/// Number of a post, in ascending order.
pub type PostId = i64;

/// A post to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    pub id: PostId,
    pub post: Post,
    /// Number of failed attempts.
    pub attempts: u32,
    /// Earliest time of the next attempt.
    pub due: Millis,
    /// True if the gateway stopped while sending it, so that the service may or may not have it.
    pub is_uncertain: bool,
}

/// Result of holding a post that the service accepted but did not deliver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// The post is sent again when the user writes.
    Yes,
    /// The user has written in the meantime: the post is due now.
    Due,
    /// A post is being sent in this place. It may be this one, whose id is not stored yet.
    TooEarly,
    /// There is no such post, or no longer.
    Unknown,
}

impl Ledger {
    /// Queues posts in order. Returns their numbers.
    pub async fn say(&self, place: &Place, posts: Vec<Post>) -> Result<Vec<PostId>, Error> {
        let (place, now) = (place.clone(), self.now());
        self.with(move |tables| insert(tables, &place, &posts, now)).await
    }

    /// The text of a message in a place, by the service's id: a sent post or a user's message that is still stored.
    pub async fn text_of(&self, place: &Place, id: &str) -> Result<Option<String>, Error> {
        let (channel, place, id) = (place.channel.clone(), place.to_string(), id.to_owned());
        self.with(move |tables| {
            let query = "SELECT json_extract(body, '$.text') FROM posts WHERE place = ?1 AND sent = ?2
                UNION ALL
                SELECT json_extract(body, '$.content.text') FROM updates
                WHERE place = ?1 AND channel = ?3 AND name = ?2
                LIMIT 1";
            let mut query = tables.prepare_cached(query)?;
            let text = query.query_row(params![place, id, channel], |row| row.get::<_, Option<String>>(0));
            Ok(text.optional()?.flatten().filter(|text| !text.trim().is_empty()))
        })
        .await
    }

    /// The next post to send in a place.
    pub(crate) async fn next_post(&self, place: &Place) -> Result<Option<Outgoing>, Error> {
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

    /// Marks a post as being sent.
    pub async fn sending(&self, id: PostId) -> Result<(), Error> {
        self.mark(id, "sending", None).await
    }

    /// Marks a post as sent, with the service's message id.
    pub async fn sent(&self, id: PostId, sent: Sent) -> Result<(), Error> {
        self.mark(id, "sent", Some(sent.0)).await
    }

    /// Marks a post whose delivery is unknown. It is not sent again; `note` tells the user so. A note that is still
    /// queued covers this post as well.
    pub(crate) async fn uncertain(&self, id: PostId, place: &Place, note: Post) -> Result<(), Error> {
        let (place, now) = (place.clone(), self.now());
        self.with(move |tables| {
            mark(tables, id, "uncertain", None, now)?;
            if is_queued(tables, &moves::resolve(tables, &place)?, &note)? {
                return Ok(());
            }
            insert(tables, &place, &[note], now).map(drop)
        })
        .await
    }

    /// Marks a post that the service refuses permanently.
    pub async fn refused(&self, id: PostId) -> Result<(), Error> {
        self.mark(id, "refused", None).await
    }

    /// Holds a post that the service will only accept after the user has written. `since` is the time of the
    /// attempt: if the user has written since then, the post is due at once.
    pub async fn hold(&self, id: PostId, since: Millis) -> Result<(), Error> {
        self.with(move |tables| {
            let change = format!("UPDATE posts SET state = {HELD_UNLESS_HEARD} WHERE id = ?");
            tables.prepare_cached(&change)?.execute(params![since, id])?;
            Ok(())
        })
        .await
    }

    /// Holds a sent post that the service reported as undelivered at `since`, because the user has to write first.
    pub(crate) async fn hold_sent(&self, place: &Place, sent: &Sent, since: Millis) -> Result<Held, Error> {
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

    /// Queues a post for another attempt, not before `due`. Only for posts that the service certainly does not
    /// have.
    pub async fn postpone(&self, id: PostId, due: Millis) -> Result<(), Error> {
        self.with(move |tables| {
            let change = "UPDATE posts SET state = 'waiting', attempts = attempts + 1, due = ? WHERE id = ?";
            tables.execute(change, params![due, id])?;
            Ok(())
        })
        .await
    }

    /// The service's message id of a post, if it was sent.
    pub(crate) async fn sent_id(&self, id: PostId) -> Result<Option<Sent>, Error> {
        self.with(move |tables| {
            let query = "SELECT sent FROM posts WHERE id = ?";
            let sent: Option<Option<String>> = tables.query_row(query, [id], |row| row.get(0)).optional()?;
            Ok(sent.flatten().map(Sent))
        })
        .await
    }
}

/// The state 'held', or 'waiting' if an update arrived in the post's place since the given time.
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

/// True if the same post already waits in this place.
fn is_queued(tables: &Connection, place: &Place, post: &Post) -> Result<bool, Error> {
    let query = "SELECT EXISTS (SELECT 1 FROM posts WHERE place = ? AND state = 'waiting' AND body = ?)";
    let body = serde_json::to_string(post)?;
    Ok(tables.prepare_cached(query)?.query_row(params![place.to_string(), body], |row| row.get(0))?)
}

/// Queues all held posts of a place after a note that explains the delay, because the user has written.
pub(super) fn release(tables: &Connection, place: &Place, now: Millis) -> Result<(), Error> {
    let mut query =
        tables.prepare_cached("SELECT id, body FROM posts WHERE place = ? AND state = 'held' ORDER BY id")?;
    let rows = query.query_map([place.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let held: Vec<(PostId, String)> = rows.collect::<Result<_, _>>()?;
    if held.is_empty() {
        return Ok(());
    }
    insert(tables, place, &[Post::text(words::LATE)], now)?;
    // Posts are sent in the order of their numbers, so they get new ones after the note's.
    for (id, body) in held {
        let posts = insert(tables, place, &[serde_json::from_str(&body)?], now)?;
        tables.execute("UPDATE asks SET post = ? WHERE post = ?", params![posts.first(), id])?;
        tables.execute("DELETE FROM posts WHERE id = ?", [id])?;
    }
    Ok(())
}

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
