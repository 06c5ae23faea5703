//! The queries behind [`engine::ports::Reads`], one function each.

use std::{collections::HashMap, str::FromStr};

use bytes::Bytes;
use engine::ports::{Listing, OpenPrompt, Page, Span, Stored};
use protocol::{
    Message, MessageId, MessageWithParts, Part, PartId, Rest, Session, SessionId, SessionStatus, Todo,
    WorkspaceId,
    request::{Approval, Request},
};
use rusqlite::{Connection, OptionalExtension, Result, Row, ToSql, params, params_from_iter, types::Type};
use serde::de::DeserializeOwned;

use super::project;
use crate::change::PERMISSION;

/// Reads JSON from a column.
fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

/// Reads an id from a column.
pub(super) fn id<T: FromStr<Err = E>, E: std::error::Error + Send + Sync + 'static>(
    row: &Row<'_>,
    column: usize,
) -> Result<T> {
    let text = row.get_ref(column)?.as_str()?;
    text.parse()
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

/// SQLite's integers are signed; larger values never occur.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn limit(wanted: Option<usize>) -> i64 {
    wanted.map_or(i64::MAX, |limit| number(limit as u64))
}

pub(super) fn session(connection: &Connection, id: &SessionId) -> Result<Option<(Session, u64)>> {
    connection
        .prepare_cached("SELECT body, seen, head FROM session WHERE id = ?1")?
        .query_row([id.as_str()], |row| Ok((read_session(row)?, row.get(2)?)))
        .optional()
}

pub(super) fn workspace(connection: &Connection, session: &SessionId) -> Result<Option<WorkspaceId>> {
    connection
        .prepare_cached("SELECT workspace FROM session WHERE id = ?1")?
        .query_row([session.as_str()], |row| id(row, 0))
        .optional()
}

/// A session from its body and its mark, which has a column of its own.
fn read_session(row: &Row<'_>) -> Result<Session> {
    Ok(Session { seen: row.get(1)?, ..json(row, 0)? })
}

pub(super) fn sessions(connection: &Connection, listing: &Listing) -> Result<Vec<Session>> {
    fn value<T: ToSql>(wish: Option<&T>) -> Option<&dyn ToSql> {
        wish.map(|wish| wish as _)
    }
    let search = listing.search.as_ref().map(|search| search.to_lowercase());
    let parent = listing.parent.as_ref().map(SessionId::as_str);
    let workspace = listing.workspace.as_ref().map(WorkspaceId::as_str);
    let roots = listing.roots.then_some(true);
    let unarchived = listing.unarchived.then_some(true);
    let most = limit(listing.limit);
    let conditions = [
        ("project = ?", value(listing.project.as_ref())),
        ("workspace = ?", value(workspace.as_ref())),
        (
            "path IS NOT NULL AND (? = '' OR path = ? OR substr(path, 1, length(?) + 1) = ? || '/')",
            value(listing.path.as_ref()),
        ),
        ("parent = ?", value(parent.as_ref())),
        ("(parent IS NULL) = ?", value(roots.as_ref())),
        ("updated >= ?", value(listing.updated_since.as_ref())),
        ("updated < ?", value(listing.updated_before.as_ref())),
        ("(body ->> '$.time.archived' IS NULL) = ?", value(unarchived.as_ref())),
        ("instr(title, ?) > 0", value(search.as_ref())),
    ];
    // Only the conditions that are set, so that SQLite can choose an index for them.
    let mut sql = String::from("SELECT body, seen FROM session WHERE TRUE");
    let mut values: Vec<&dyn ToSql> = Vec::new();
    for (condition, value) in conditions {
        if let Some(value) = value {
            values.push(value);
            sql.push_str(" AND ");
            sql.push_str(&condition.replace('?', &format!("?{}", values.len())));
        }
    }
    values.push(&most);
    sql.push_str(" ORDER BY updated DESC, id LIMIT ?");
    sql.push_str(&values.len().to_string());
    let mut statement = connection.prepare_cached(&sql)?;
    statement.query_map(params_from_iter(values), read_session)?.collect()
}

pub(super) fn messages(
    connection: &Connection,
    session: &SessionId,
    page: &Page,
) -> Result<Vec<MessageWithParts>> {
    let most = limit(page.limit);
    match &page.before {
        Some(before) => with_parts(
            connection,
            "SELECT id, created, body FROM message WHERE session = ?1 AND (created, id) < (?2, ?3)
             ORDER BY created DESC, id DESC LIMIT ?4",
            params![session.as_str(), before.created, before.id.as_str(), most],
        ),
        None => with_parts(
            connection,
            "SELECT id, created, body FROM message WHERE session = ?1
             ORDER BY created DESC, id DESC LIMIT ?2",
            params![session.as_str(), most],
        ),
    }
}

pub(super) fn message(
    connection: &Connection,
    session: &SessionId,
    id: &MessageId,
) -> Result<Option<MessageWithParts>> {
    let found = with_parts(
        connection,
        "SELECT id, created, body FROM message WHERE session = ?1 AND id = ?2",
        params![session.as_str(), id.as_str()],
    )?;
    Ok(found.into_iter().next())
}

pub(super) fn part(
    connection: &Connection,
    session: &SessionId,
    message: &MessageId,
    id: &PartId,
) -> Result<Option<Part>> {
    connection
        .prepare_cached("SELECT body FROM part WHERE session = ?1 AND message = ?2 AND id = ?3")?
        .query_row([session.as_str(), message.as_str(), id.as_str()], |row| json(row, 0))
        .optional()
}

pub(super) fn open(connection: &Connection, session: &SessionId) -> Result<Vec<MessageWithParts>> {
    with_parts(
        connection,
        "SELECT id, created, body FROM message WHERE session = ?1 AND id IN (
             SELECT id FROM message WHERE session = ?1 AND open = 1
             UNION SELECT message FROM part WHERE session = ?1 AND open = 1)",
        params![session.as_str()],
    )
}

pub(super) fn last_answer(
    connection: &Connection,
    session: &SessionId,
    prompt: Option<&MessageId>,
) -> Result<Option<MessageWithParts>> {
    let found = with_parts(
        connection,
        "SELECT id, created, body FROM message
         WHERE session = ?1 AND answers IS NOT NULL AND answers = ifnull(?2, answers)
         ORDER BY created DESC, id DESC LIMIT 1",
        params![session.as_str(), prompt.map(MessageId::as_str)],
    )?;
    Ok(found.into_iter().next())
}

/// Messages of one session with their parts, oldest first, in two queries for any number of messages. `which`
/// selects `id, created, body` of the messages; its first parameter is the session.
fn with_parts(connection: &Connection, which: &str, values: &[&dyn ToSql]) -> Result<Vec<MessageWithParts>> {
    // Both queries must see the same state.
    let snapshot = connection.unchecked_transaction()?;
    let mut found: Vec<MessageWithParts> = snapshot
        .prepare_cached(which)?
        .query_map(values, |row| {
            Ok(MessageWithParts { info: json::<Message>(row, 2)?, parts: Vec::new(), extra: Rest::NONE })
        })?
        .collect::<Result<_>>()?;
    found.sort_by(|left, right| left.info.order().cmp(&right.info.order()));
    let mut parts_of: HashMap<MessageId, Vec<Part>> = HashMap::with_capacity(found.len());
    let mut statement = snapshot.prepare_cached(&format!(
        "SELECT part.message, part.body FROM ({which}) AS wanted
         CROSS JOIN part ON part.session = ?1 AND part.message = wanted.id"
    ))?;
    let mut rows = statement.query(values)?;
    while let Some(row) = rows.next()? {
        parts_of.entry(id(row, 0)?).or_default().push(json(row, 1)?);
    }
    for message in &mut found {
        message.parts = parts_of.remove(message.info.id()).unwrap_or_default();
        // Rows usually come in this order; an ORDER BY would make SQLite copy all bodies.
        message.parts.sort_by(|left, right| left.id.cmp(&right.id));
    }
    Ok(found)
}

pub(super) fn todos(connection: &Connection, session: &SessionId) -> Result<Vec<Todo>> {
    let found = connection
        .prepare_cached("SELECT body FROM todo WHERE session = ?1")?
        .query_row([session.as_str()], |row| json(row, 0))
        .optional()?;
    Ok(found.unwrap_or_default())
}

pub(super) fn statuses(
    connection: &Connection,
    workspace: Option<&WorkspaceId>,
) -> Result<Vec<(SessionId, SessionStatus)>> {
    connection
        .prepare_cached(
            "SELECT session.id, status.body FROM status JOIN session ON session.id = status.session
             WHERE session.workspace = ifnull(?1, session.workspace) ORDER BY session.id",
        )?
        .query_map([workspace.map(WorkspaceId::as_str)], |row| Ok((id(row, 0)?, json(row, 1)?)))?
        .collect()
}

pub(super) fn status(connection: &Connection, session: &SessionId) -> Result<Option<SessionStatus>> {
    connection
        .prepare_cached("SELECT body FROM status WHERE session = ?1")?
        .query_row([session.as_str()], |row| json(row, 0))
        .optional()
}

pub(super) fn requests(connection: &Connection, workspace: Option<&WorkspaceId>) -> Result<Vec<Request>> {
    connection
        .prepare_cached(
            "SELECT request.kind, request.body FROM request JOIN session ON session.id = request.session
             WHERE session.workspace = ifnull(?1, session.workspace) ORDER BY request.asked",
        )?
        .query_map([workspace.map(WorkspaceId::as_str)], |row| request(row, 0))?
        .collect()
}

pub(super) fn requests_of(connection: &Connection, session: &SessionId) -> Result<Vec<Request>> {
    connection
        .prepare_cached("SELECT kind, body FROM request WHERE session = ?1 ORDER BY asked")?
        .query_map([session.as_str()], |row| request(row, 0))?
        .collect()
}

/// A request from two columns, the first of which is its kind.
fn request(row: &Row<'_>, kind: usize) -> Result<Request> {
    Ok(if row.get_ref(kind)?.as_str()? == PERMISSION {
        Request::Permission(json(row, kind + 1)?)
    } else {
        Request::Question(json(row, kind + 1)?)
    })
}

pub(super) fn approvals(connection: &Connection, workspace: Option<&WorkspaceId>) -> Result<Vec<Approval>> {
    connection
        .prepare_cached("SELECT body FROM approval WHERE workspace = ifnull(?1, workspace) ORDER BY number")?
        .query_map([workspace.map(WorkspaceId::as_str)], |row| json(row, 0))?
        .collect()
}

pub(super) fn prompts(connection: &Connection, session: &SessionId) -> Result<Vec<OpenPrompt>> {
    connection
        .prepare_cached("SELECT message, delivery, started FROM prompt WHERE session = ?1 ORDER BY accepted")?
        .query_map([session.as_str()], |row| {
            Ok(OpenPrompt { message: id(row, 0)?, delivery: json(row, 1)?, started: row.get(2)? })
        })?
        .collect()
}

pub(super) fn is_withdrawn(connection: &Connection, session: &SessionId, prompt: &MessageId) -> Result<bool> {
    connection
        .prepare_cached("SELECT 1 FROM withdrawn WHERE session = ?1 AND message = ?2")?
        .exists([session.as_str(), prompt.as_str()])
}

pub(super) fn unfinished(connection: &Connection, workspace: Option<&WorkspaceId>) -> Result<Vec<SessionId>> {
    connection
        .prepare_cached(
            "SELECT session.id FROM (SELECT session FROM status UNION SELECT session FROM prompt) AS busy
             JOIN session ON session.id = busy.session
             WHERE session.workspace = ifnull(?1, session.workspace) ORDER BY session.id",
        )?
        .query_map([workspace.map(WorkspaceId::as_str)], |row| id(row, 0))?
        .collect()
}

pub(super) fn replay(connection: &Connection, span: &Span) -> Result<Vec<Stored>> {
    let most = limit(Some(span.limit));
    let (after, upto) = (number(span.after), number(span.upto));
    let stored = |row: &Row<'_>| {
        Ok(Stored {
            position: row.get(0)?,
            workspace: id(row, 1)?,
            directory: row.get(2)?,
            project: row.get(3)?,
            json: row.get_ref(4)?.as_str()?.as_bytes().to_vec().into(),
        })
    };
    match &span.workspace {
        Some(workspace) => connection
            .prepare_cached(
                "SELECT position, workspace, directory, project, body FROM log
                 WHERE workspace = ?1 AND position > ?2 AND position <= ?3 ORDER BY position LIMIT ?4",
            )?
            .query_map(params![workspace.as_str(), after, upto, most], stored)?
            .collect(),
        None => connection
            .prepare_cached(
                "SELECT position, workspace, directory, project, body FROM log
                 WHERE position > ?1 AND position <= ?2 ORDER BY position LIMIT ?3",
            )?
            .query_map(params![after, upto, most], stored)?
            .collect(),
    }
}

pub(super) fn events(
    connection: &Connection,
    session: &SessionId,
    after: u64,
    most: usize,
) -> Result<Vec<(u64, Bytes)>> {
    connection
        .prepare_cached("SELECT seq, body FROM log WHERE session = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3")?
        .query_map(params![session.as_str(), number(after), limit(Some(most))], |row| {
            Ok((row.get(0)?, row.get_ref(1)?.as_str()?.as_bytes().to_vec().into()))
        })?
        .collect()
}

pub(super) fn count(connection: &Connection) -> Result<u64> {
    connection.prepare_cached("SELECT COUNT(*) FROM session")?.query_row([], |row| row.get(0))
}

pub(super) fn bounds(connection: &Connection) -> Result<(u64, u64)> {
    let snapshot = connection.unchecked_transaction()?;
    let trimmed: u64 =
        snapshot.prepare_cached("SELECT trimmed FROM retention")?.query_row([], |row| row.get(0))?;
    Ok((trimmed + 1, project::newest(&snapshot)?))
}
