//! The queries behind [`engine::ports::Reads`], one function each. Each is a single statement, which sees a single state.

use std::str::FromStr;

use bytes::Bytes;
use engine::ports::{Listing, OpenPrompt, Span, Stored};
use protocol::{
    MessageId, Part, PartId, Session, SessionId, SessionStatus, Todo, WorkspaceId,
    request::{Approval, Request},
};
use serde::de::DeserializeOwned;
use tokio_postgres::{
    Client, Row,
    types::{FromSql, ToSql, Type},
};

use super::{failure::Fault, text::storable};
use crate::change::PERMISSION;

pub(super) type Found<T> = Result<T, Fault>;

/// Reads a column.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Found<T> {
    row.try_get(at).map_err(|error| Fault::Odd(net::chain(&error)))
}

/// Reads JSON from a column.
pub(super) fn json<T: DeserializeOwned>(row: &Row, at: usize) -> Found<T> {
    serde_json::from_str(column(row, at)?)
        .map_err(|error| Fault::Odd(format!("a row cannot be read: {error}")))
}

/// Reads an id from a column.
pub(super) fn id<T: FromStr<Err = E>, E: std::error::Error>(row: &Row, at: usize) -> Found<T> {
    let text: &str = column(row, at)?;
    text.parse().map_err(|error| Fault::Odd(format!("\"{text}\" is not an id: {error}")))
}

/// Reads a number that is never negative.
pub(super) fn count(row: &Row, at: usize) -> Found<u64> {
    let number: i64 = column(row, at)?;
    u64::try_from(number).map_err(|_| Fault::Odd(format!("{number} is not a count")))
}

/// Postgres's integers are signed; larger values never occur.
pub(super) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn limit(wanted: Option<usize>) -> i64 {
    wanted.map_or(i64::MAX, |limit| number(limit as u64))
}

fn body(row: &Row, at: usize) -> Found<Bytes> {
    Ok(Bytes::copy_from_slice(column::<&str>(row, at)?.as_bytes()))
}

pub(super) async fn session(client: &Client, session: &SessionId) -> Found<Option<(Session, u64)>> {
    let sql = "SELECT body, seen, head FROM session WHERE id = $1";
    let row = client.query_typed_opt(sql, &[(&session.as_str(), Type::TEXT)]).await?;
    row.map(|row| Ok((read_session(&row)?, count(&row, 2)?))).transpose()
}

pub(super) async fn workspace(client: &Client, session: &SessionId) -> Found<Option<WorkspaceId>> {
    let sql = "SELECT workspace FROM session WHERE id = $1";
    let row = client.query_typed_opt(sql, &[(&session.as_str(), Type::TEXT)]).await?;
    row.map(|row| id(&row, 0)).transpose()
}

/// A session from its body and its mark, which has a column of its own.
fn read_session(row: &Row) -> Found<Session> {
    let seen = column::<Option<i64>>(row, 1)?.and_then(|seen| u64::try_from(seen).ok());
    Ok(Session { seen, ..json(row, 0)? })
}

/// A value of a condition, with its type.
type Value = Option<(Box<dyn ToSql + Sync + Send>, Type)>;

pub(super) async fn sessions(client: &Client, listing: &Listing) -> Found<Vec<Session>> {
    fn text(wish: Option<&str>) -> Value {
        wish.map(|wish| (Box::new(storable(wish).into_owned()) as _, Type::TEXT))
    }
    fn time(wish: Option<i64>) -> Value {
        wish.map(|wish| (Box::new(wish) as _, Type::INT8))
    }
    fn flag(wish: bool) -> Value {
        wish.then(|| (Box::new(true) as _, Type::BOOL))
    }
    let search = listing.search.as_ref().map(|search| search.to_lowercase());
    let conditions: [(&str, Value); 9] = [
        ("project = $", text(listing.project.as_deref())),
        ("workspace = $", text(listing.workspace.as_ref().map(WorkspaceId::as_str))),
        (
            "path IS NOT NULL AND ($ = '' OR path = $ OR left(path, length($) + 1) = $ || '/')",
            text(listing.path.as_deref()),
        ),
        ("parent = $", text(listing.parent.as_ref().map(SessionId::as_str))),
        ("(parent IS NULL) = $", flag(listing.roots)),
        ("updated >= $", time(listing.updated_since)),
        ("updated < $", time(listing.updated_before)),
        ("archived <> $", flag(listing.unarchived)),
        ("strpos(title, $) > 0", text(search.as_deref())),
    ];
    // Only the conditions that are set, so that Postgres can choose an index for them.
    let mut sql = String::from("SELECT body, seen FROM session WHERE TRUE");
    let mut values = Vec::new();
    for (condition, value) in conditions {
        if let Some(value) = value {
            values.push(value);
            sql.push_str(" AND ");
            sql.push_str(&condition.replace('$', &format!("${}", values.len())));
        }
    }
    values.push((Box::new(limit(listing.limit)), Type::INT8));
    sql.push_str(" ORDER BY updated DESC, id LIMIT $");
    sql.push_str(&values.len().to_string());
    let values: Vec<(&(dyn ToSql + Sync), Type)> =
        values.iter().map(|(value, kind)| (&**value as _, kind.clone())).collect();
    let rows = client.query_typed(&sql, &values).await?;
    rows.iter().map(read_session).collect()
}

pub(super) async fn part(
    client: &Client,
    session: &SessionId,
    message: &MessageId,
    part: &PartId,
) -> Found<Option<Part>> {
    let sql = "SELECT body FROM part WHERE session = $1 AND message = $2 AND id = $3";
    let values: [(&(dyn ToSql + Sync), Type); 3] =
        [(&session.as_str(), Type::TEXT), (&message.as_str(), Type::TEXT), (&part.as_str(), Type::TEXT)];
    let row = client.query_typed_opt(sql, &values).await?;
    row.map(|row| json(&row, 0)).transpose()
}

pub(super) async fn todos(client: &Client, session: &SessionId) -> Found<Vec<Todo>> {
    let sql = "SELECT body FROM todo WHERE session = $1";
    let row = client.query_typed_opt(sql, &[(&session.as_str(), Type::TEXT)]).await?;
    Ok(row.map(|row| json(&row, 0)).transpose()?.unwrap_or_default())
}

pub(super) async fn statuses(
    client: &Client,
    workspace: Option<&WorkspaceId>,
) -> Found<Vec<(SessionId, SessionStatus)>> {
    let sql = "SELECT session.id, status.body FROM status JOIN session ON session.id = status.session
        WHERE session.workspace = coalesce($1, session.workspace) ORDER BY session.id";
    let rows = client.query_typed(sql, &[(&workspace.map(WorkspaceId::as_str), Type::TEXT)]).await?;
    rows.iter().map(|row| Ok((id(row, 0)?, json(row, 1)?))).collect()
}

pub(super) async fn status(client: &Client, session: &SessionId) -> Found<Option<SessionStatus>> {
    let sql = "SELECT body FROM status WHERE session = $1";
    let row = client.query_typed_opt(sql, &[(&session.as_str(), Type::TEXT)]).await?;
    row.map(|row| json(&row, 0)).transpose()
}

pub(super) async fn requests(client: &Client, workspace: Option<&WorkspaceId>) -> Found<Vec<Request>> {
    let sql = "SELECT request.kind, request.body FROM request JOIN session ON session.id = request.session
        WHERE session.workspace = coalesce($1, session.workspace) ORDER BY request.asked";
    let rows = client.query_typed(sql, &[(&workspace.map(WorkspaceId::as_str), Type::TEXT)]).await?;
    rows.iter().map(|row| request(row, 0)).collect()
}

pub(super) async fn requests_of(client: &Client, session: &SessionId) -> Found<Vec<Request>> {
    let sql = "SELECT kind, body FROM request WHERE session = $1 ORDER BY asked";
    let rows = client.query_typed(sql, &[(&session.as_str(), Type::TEXT)]).await?;
    rows.iter().map(|row| request(row, 0)).collect()
}

/// A request from two columns, the first of which is its kind.
fn request(row: &Row, kind: usize) -> Found<Request> {
    Ok(if column::<&str>(row, kind)? == PERMISSION {
        Request::Permission(json(row, kind + 1)?)
    } else {
        Request::Question(json(row, kind + 1)?)
    })
}

pub(super) async fn approvals(client: &Client, workspace: Option<&WorkspaceId>) -> Found<Vec<Approval>> {
    let sql = "SELECT body FROM approval WHERE workspace = coalesce($1, workspace) ORDER BY number";
    let rows = client.query_typed(sql, &[(&workspace.map(WorkspaceId::as_str), Type::TEXT)]).await?;
    rows.iter().map(|row| json(row, 0)).collect()
}

pub(super) async fn prompts(client: &Client, session: &SessionId) -> Found<Vec<OpenPrompt>> {
    let sql = "SELECT message, delivery, started FROM prompt WHERE session = $1 ORDER BY accepted";
    let rows = client.query_typed(sql, &[(&session.as_str(), Type::TEXT)]).await?;
    let open = |row: &Row| {
        Ok(OpenPrompt { message: id(row, 0)?, delivery: json(row, 1)?, started: column(row, 2)? })
    };
    rows.iter().map(open).collect()
}

pub(super) async fn is_withdrawn(client: &Client, session: &SessionId, prompt: &MessageId) -> Found<bool> {
    let sql = "SELECT FROM withdrawn WHERE session = $1 AND message = $2";
    let values: [(&(dyn ToSql + Sync), Type); 2] =
        [(&session.as_str(), Type::TEXT), (&prompt.as_str(), Type::TEXT)];
    Ok(client.query_typed_opt(sql, &values).await?.is_some())
}

pub(super) async fn unfinished(client: &Client, workspace: Option<&WorkspaceId>) -> Found<Vec<SessionId>> {
    let sql = "SELECT session.id FROM (SELECT session FROM status UNION SELECT session FROM prompt) AS busy
        JOIN session ON session.id = busy.session
        WHERE session.workspace = coalesce($1, session.workspace) ORDER BY session.id";
    let rows = client.query_typed(sql, &[(&workspace.map(WorkspaceId::as_str), Type::TEXT)]).await?;
    rows.iter().map(|row| id(row, 0)).collect()
}

pub(super) async fn replay(client: &Client, span: &Span) -> Found<Vec<Stored>> {
    let sql = "SELECT log.position, log.workspace, event.directory, event.project, event.body
        FROM log JOIN event ON event.session = log.session AND event.seq = log.seq
        WHERE log.position > $1 AND log.position <= $2 AND ($4::text IS NULL OR log.workspace = $4)
        ORDER BY log.position LIMIT $3";
    let workspace = span.workspace.as_ref().map(WorkspaceId::as_str);
    let values: [(&(dyn ToSql + Sync), Type); 4] = [
        (&number(span.after), Type::INT8),
        (&number(span.upto), Type::INT8),
        (&limit(Some(span.limit)), Type::INT8),
        (&workspace, Type::TEXT),
    ];
    let rows = client.query_typed(sql, &values).await?;
    let stored = |row: &Row| {
        Ok(Stored {
            position: count(row, 0)?,
            workspace: id(row, 1)?,
            directory: column::<&str>(row, 2)?.into(),
            project: column::<&str>(row, 3)?.into(),
            json: body(row, 4)?,
        })
    };
    rows.iter().map(stored).collect()
}

pub(super) async fn events(
    client: &Client,
    session: &SessionId,
    after: u64,
    most: usize,
) -> Found<Vec<(u64, Bytes)>> {
    let sql = "SELECT seq, body FROM event WHERE session = $1 AND seq > $2 ORDER BY seq LIMIT $3";
    let values: [(&(dyn ToSql + Sync), Type); 3] =
        [(&session.as_str(), Type::TEXT), (&number(after), Type::INT8), (&limit(Some(most)), Type::INT8)];
    let rows = client.query_typed(sql, &values).await?;
    rows.iter().map(|row| Ok((count(row, 0)?, body(row, 1)?))).collect()
}

pub(super) async fn sessions_count(client: &Client) -> Found<u64> {
    count(&client.query_typed_one("SELECT count(*) FROM session", &[]).await?, 0)
}

/// The position before the next event: the newest one, or the beginning of a generation that has no events yet.
pub(super) async fn end(client: &Client) -> Found<u64> {
    let sql = "SELECT greatest((SELECT max(position) FROM log), (SELECT max(first) - 1 FROM generation))";
    count(&client.query_typed_one(sql, &[]).await?, 0)
}

pub(super) async fn bounds(client: &Client) -> Found<(u64, u64)> {
    let sql = "SELECT trimmed + 1, (SELECT coalesce(max(position), 0) FROM log) FROM fleet";
    let row = client.query_typed_one(sql, &[]).await?;
    Ok((count(&row, 0)?, count(&row, 1)?))
}
