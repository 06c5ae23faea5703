//! Bounded reads of a session's messages. Rows are read one by one and only up to the limits, so that the cost
//! depends on the result's size and not on the session's.

use engine::ports::{Cursor, Direction, PartRecord, Record, Stretch};
use protocol::SessionId;
use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use super::query::{id, limit};

const FORWARD: &str = "SELECT id, created, body FROM message
    WHERE session = ?1 AND (created, id) > (?2, ?3) AND (created, id) < (?4, ?5)
    ORDER BY created, id LIMIT ?6";

const BACKWARD: &str = "SELECT id, created, body FROM message
    WHERE session = ?1 AND (created, id) > (?2, ?3) AND (created, id) < (?4, ?5)
    ORDER BY created DESC, id DESC LIMIT ?6";

pub(super) fn stretch(
    connection: &Connection,
    session: &SessionId,
    stretch: &Stretch,
) -> Result<Vec<Record>> {
    // Messages and their parts must come from the same state.
    let snapshot = connection.unchecked_transaction()?;
    let mut messages = snapshot.prepare_cached(match stretch.direction {
        Direction::Forward => FORWARD,
        Direction::Backward => BACKWARD,
    })?;
    let mut parts = snapshot
        .prepare_cached("SELECT open, body FROM part WHERE session = ?1 AND message = ?2 ORDER BY id")?;
    let (after, before) = (key(stretch.after.as_ref(), i64::MIN), key(stretch.before.as_ref(), i64::MAX));
    let most = limit(Some(stretch.limit));
    let mut rows = messages.query(params![session.as_str(), after.0, after.1, before.0, before.1, most])?;
    let (mut found, mut bytes) = (Vec::new(), 0_usize);
    while let Some(row) = rows.next()? {
        let place = place(row)?;
        let part = |row: &Row<'_>| Ok(PartRecord { open: row.get(0)?, json: row.get(1)? });
        let parts = parts.query_map([session.as_str(), place.id.as_str()], part)?.collect::<Result<_>>()?;
        let record = Record { place, info: row.get(2)?, parts };
        bytes = bytes.saturating_add(record.bytes());
        found.push(record);
        if bytes >= stretch.bytes {
            break;
        }
    }
    Ok(found)
}

pub(super) fn nth_before(
    connection: &Connection,
    session: &SessionId,
    before: Option<&Cursor>,
    count: usize,
) -> Result<Option<Cursor>> {
    let Some(skipped) = count.checked_sub(1) else { return Ok(None) };
    let before = key(before, i64::MAX);
    // The index contains all columns, so no body is read.
    connection
        .prepare_cached(
            "SELECT id, created FROM message WHERE session = ?1 AND (created, id) < (?2, ?3)
             ORDER BY created DESC, id DESC LIMIT 1 OFFSET ?4",
        )?
        .query_row(params![session.as_str(), before.0, before.1, limit(Some(skipped))], place)
        .optional()
}

pub(super) fn nth_after(
    connection: &Connection,
    session: &SessionId,
    after: &Cursor,
    count: usize,
) -> Result<Option<Cursor>> {
    let Some(skipped) = count.checked_sub(1) else { return Ok(None) };
    connection
        .prepare_cached(
            "SELECT id, created FROM message WHERE session = ?1 AND (created, id) > (?2, ?3)
             ORDER BY created, id LIMIT 1 OFFSET ?4",
        )?
        .query_row(params![session.as_str(), after.created, after.id.as_str(), limit(Some(skipped))], place)
        .optional()
}

pub(super) fn newest_summary(connection: &Connection, session: &SessionId) -> Result<Option<Cursor>> {
    // Searching the text is faster than parsing the JSON, which only the few matches need.
    connection
        .prepare_cached(
            "SELECT id, created FROM message
             WHERE session = ?1 AND answers IS NOT NULL AND instr(body, '\"summary\":true') > 0
                 AND body ->> '$.summary' = 1 AND body ->> '$.finish' IS NOT NULL
                 AND body ->> '$.error' IS NULL
             ORDER BY created DESC, id DESC LIMIT 1",
        )?
        .query_row([session.as_str()], place)
        .optional()
}

fn place(row: &Row<'_>) -> Result<Cursor> {
    Ok(Cursor { id: id(row, 0)?, created: row.get(1)? })
}

/// A place as columns; `open` is the time of a missing bound. An empty id sorts before all ids.
fn key(cursor: Option<&Cursor>, open: i64) -> (i64, &str) {
    cursor.map_or((open, ""), |cursor| (cursor.created, cursor.id.as_str()))
}
