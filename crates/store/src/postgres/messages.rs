//! Reads of a session's messages. A message comes back as several rows, one for each of its parts.

use engine::ports::{self, Cursor, Direction, Page, PartRecord, Record, Search, Stretch};
use protocol::{Message, MessageId, MessageWithParts, Part, SessionId};
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};

use super::{
    failure::Fault,
    query::{Found, column, count, id, json, limit, number},
    text,
};

/// Adds the parts to messages that `$which` selects, in the order of messages and parts.
macro_rules! with_parts {
    ($which:literal) => {
        concat!(
            "SELECT message.id, message.created, message.body, part.open, part.body FROM (",
            $which,
            ") AS message LEFT JOIN part ON part.session = $1 AND part.message = message.id
             ORDER BY message.created, message.id, part.id"
        )
    };
}

type Values<'a> = &'a [(&'a (dyn ToSql + Sync), Type)];

pub(super) async fn messages(
    client: &Client,
    session: &SessionId,
    page: &Page,
) -> Found<Vec<MessageWithParts>> {
    let sql = with_parts!(
        "SELECT id, created, body FROM message WHERE session = $1 AND (created, id) < ($2, $3)
         ORDER BY created DESC, id DESC LIMIT $4"
    );
    let (created, before) = key(page.before.as_ref(), i64::MAX);
    decoded(
        client,
        sql,
        &[
            (&session.as_str(), Type::TEXT),
            (&created, Type::INT8),
            (&before, Type::TEXT),
            (&limit(page.limit), Type::INT8),
        ],
    )
    .await
}

pub(super) async fn message(
    client: &Client,
    session: &SessionId,
    id: &MessageId,
) -> Found<Option<MessageWithParts>> {
    let sql = with_parts!("SELECT id, created, body FROM message WHERE session = $1 AND id = $2");
    let found = decoded(client, sql, &[(&session.as_str(), Type::TEXT), (&id.as_str(), Type::TEXT)]).await?;
    Ok(found.into_iter().next())
}

pub(super) async fn open(client: &Client, session: &SessionId) -> Found<Vec<MessageWithParts>> {
    let sql = with_parts!(
        "SELECT id, created, body FROM message WHERE session = $1 AND id IN (
             SELECT id FROM message WHERE session = $1 AND open
             UNION SELECT message FROM part WHERE session = $1 AND open)"
    );
    decoded(client, sql, &[(&session.as_str(), Type::TEXT)]).await
}

pub(super) async fn last_answer(
    client: &Client,
    session: &SessionId,
    prompt: Option<&MessageId>,
) -> Found<Option<MessageWithParts>> {
    let sql = with_parts!(
        "SELECT id, created, body FROM message
         WHERE session = $1 AND answers IS NOT NULL AND answers = coalesce($2, answers)
         ORDER BY created DESC, id DESC LIMIT 1"
    );
    let prompt = prompt.map(MessageId::as_str);
    let found = decoded(client, sql, &[(&session.as_str(), Type::TEXT), (&prompt, Type::TEXT)]).await?;
    Ok(found.into_iter().next())
}

/// A stretch: sizes first, without reading bodies, then the bodies of the messages that fit. A message is included if
/// those before it have not reached the limit of bytes.
macro_rules! stretched {
    ($order:literal, $part_order:literal) => {
        concat!(
            "WITH page AS (
                 SELECT id, created, octet_length(body) + coalesce((SELECT sum(octet_length(part.body)) FROM part
                     WHERE part.session = $1 AND part.message = message.id), 0) AS bytes
                 FROM message
                 WHERE session = $1 AND (created, id) > ($2, $3) AND (created, id) < ($4, $5)
                 ORDER BY ",
            $order,
            " LIMIT $6),
             sized AS (SELECT id, created, sum(bytes) OVER (ORDER BY ",
            $order,
            ") - bytes AS before FROM page)
             SELECT message.id, message.created, message.body, part.open, part.body
             FROM sized JOIN message ON message.session = $1 AND message.id = sized.id
                 LEFT JOIN part ON part.session = $1 AND part.message = sized.id
             WHERE sized.before < $7 ORDER BY ",
            $part_order,
            ", part.id"
        )
    };
}

const FORWARD: &str = stretched!("created, id", "message.created, message.id");
const BACKWARD: &str = stretched!("created DESC, id DESC", "message.created DESC, message.id DESC");

pub(super) async fn stretch(client: &Client, session: &SessionId, stretch: &Stretch) -> Found<Vec<Record>> {
    let sql = match stretch.direction {
        Direction::Forward => FORWARD,
        Direction::Backward => BACKWARD,
    };
    let (after, before) = (key(stretch.after.as_ref(), i64::MIN), key(stretch.before.as_ref(), i64::MAX));
    let values: [(&(dyn ToSql + Sync), Type); 7] = [
        (&session.as_str(), Type::TEXT),
        (&after.0, Type::INT8),
        (&after.1, Type::TEXT),
        (&before.0, Type::INT8),
        (&before.1, Type::TEXT),
        (&limit(Some(stretch.limit)), Type::INT8),
        (&limit(Some(stretch.bytes.max(1))), Type::INT8),
    ];
    records(client, sql, &values).await
}

pub(super) async fn nth_before(
    client: &Client,
    session: &SessionId,
    before: Option<&Cursor>,
    count: usize,
) -> Found<Option<Cursor>> {
    let Some(skipped) = count.checked_sub(1) else { return Ok(None) };
    let sql = "SELECT id, created FROM message WHERE session = $1 AND (created, id) < ($2, $3)
        ORDER BY created DESC, id DESC LIMIT 1 OFFSET $4";
    let (created, before) = key(before, i64::MAX);
    let values: [(&(dyn ToSql + Sync), Type); 4] = [
        (&session.as_str(), Type::TEXT),
        (&created, Type::INT8),
        (&before, Type::TEXT),
        (&limit(Some(skipped)), Type::INT8),
    ];
    client.query_typed_opt(sql, &values).await?.map(|row| place(&row)).transpose()
}

pub(super) async fn nth_after(
    client: &Client,
    session: &SessionId,
    after: &Cursor,
    count: usize,
) -> Found<Option<Cursor>> {
    let Some(skipped) = count.checked_sub(1) else { return Ok(None) };
    let sql = "SELECT id, created FROM message WHERE session = $1 AND (created, id) > ($2, $3)
        ORDER BY created, id LIMIT 1 OFFSET $4";
    let values: [(&(dyn ToSql + Sync), Type); 4] = [
        (&session.as_str(), Type::TEXT),
        (&after.created, Type::INT8),
        (&after.id.as_str(), Type::TEXT),
        (&limit(Some(skipped)), Type::INT8),
    ];
    client.query_typed_opt(sql, &values).await?.map(|row| place(&row)).transpose()
}

/// Texts with all words of a search, newest first.
pub(super) async fn find(client: &Client, search: &Search) -> Found<Vec<ports::Found>> {
    let sql = "SELECT message.id, message.created, said.number, said.session, said.part, part.body
        FROM said JOIN message ON message.session = said.session AND message.id = said.message
            JOIN part ON part.session = said.session AND part.message = said.message AND part.id = said.part
        WHERE said.words @@ $1::text::tsquery AND said.number < $2 ORDER BY said.number DESC LIMIT $3";
    let values: [(&(dyn ToSql + Sync), Type); 3] = [
        (&text::search(&search.words), Type::TEXT),
        (&search.before.map_or(i64::MAX, number), Type::INT8),
        (&limit(Some(search.limit)), Type::INT8),
    ];
    let found = |row: &Row| {
        let said: Part = json(row, 5)?;
        let text = said.searchable().unwrap_or_default().to_owned();
        let (session, part) = (id(row, 3)?, id(row, 4)?);
        Ok(ports::Found { number: count(row, 2)?, session, place: place(row)?, part, text })
    };
    client.query_typed(sql, &values).await?.iter().map(found).collect()
}

pub(super) async fn newest_summary(client: &Client, session: &SessionId) -> Found<Option<Cursor>> {
    // Postgres refuses to look into JSON with an escaped U+0000, so the few candidates are decoded here.
    let sql = "SELECT id, created, body FROM message
        WHERE session = $1 AND answers IS NOT NULL AND strpos(body, '\"summary\":true') > 0
        ORDER BY created DESC, id DESC";
    let rows = client.query_typed(sql, &[(&session.as_str(), Type::TEXT)]).await?;
    for row in &rows {
        if let Message::Assistant(answer) = json(row, 2)?
            && answer.is_summary()
        {
            return place(row).map(Some);
        }
    }
    Ok(None)
}

async fn decoded(client: &Client, sql: &str, values: Values<'_>) -> Found<Vec<MessageWithParts>> {
    let records = records(client, sql, values).await?;
    records.iter().map(|record| record.read().map_err(|error| Fault::Odd(error.message))).collect()
}

/// Collects rows into messages; the rows of one message are neighbours.
async fn records(client: &Client, sql: &str, values: Values<'_>) -> Found<Vec<Record>> {
    let mut found: Vec<Record> = Vec::new();
    for row in client.query_typed(sql, values).await? {
        let place = place(&row)?;
        if found.last().is_none_or(|last| last.place != place) {
            found.push(Record { place, info: column(&row, 2)?, parts: Vec::new() });
        }
        if let (Some(last), Some(open)) = (found.last_mut(), column::<Option<bool>>(&row, 3)?) {
            last.parts.push(PartRecord { open, json: column(&row, 4)? });
        }
    }
    Ok(found)
}

fn place(row: &Row) -> Found<Cursor> {
    Ok(Cursor { id: id(row, 0)?, created: column(row, 1)? })
}

/// A place as columns; `open` is the time of a missing bound. An empty id sorts before all ids.
fn key(cursor: Option<&Cursor>, open: i64) -> (i64, &str) {
    cursor.map_or((open, ""), |cursor| (cursor.created, cursor.id.as_str()))
}
