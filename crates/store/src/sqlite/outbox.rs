//! The outbox: notices for receivers.

use engine::{
    limits::MAX_NOTICES,
    ports::{Error, Notice, Outbox, StoreFuture},
};
use protocol::{EventId, Millis, SessionId};
use rusqlite::{Connection, OptionalExtension, Result, Row, ToSql, params, types::Type};

use super::Sqlite;
use crate::{change::NoticeChange as Change, work::Work};

/// Applies a change and returns the number of notices that were dropped. The caller has opened a transaction.
pub(super) fn write(connection: &Connection, change: &Change) -> Result<usize> {
    match change {
        Change::Put { upto, notices } => put(connection, *upto, notices),
        Change::Postpone { receiver, id, attempts, due } => execute(
            connection,
            "UPDATE notice SET attempts = ?3, due = ?4 WHERE receiver = ?1 AND id = ?2",
            params![receiver, id.as_str(), attempts, due],
        ),
        Change::Remove { receiver, id } => execute(
            connection,
            "DELETE FROM notice WHERE receiver = ?1 AND id = ?2",
            params![receiver, id.as_str()],
        ),
        Change::Retain(receivers) => retain(connection, receivers),
    }
}

fn execute(connection: &Connection, sql: &str, values: &[&dyn ToSql]) -> Result<usize> {
    connection.prepare_cached(sql)?.execute(values).map(|_| 0)
}

fn put(connection: &Connection, upto: u64, notices: &[Notice]) -> Result<usize> {
    connection.prepare_cached("DELETE FROM outbox")?.execute([])?;
    connection.prepare_cached("INSERT INTO outbox VALUES (?1)")?.execute([upto])?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO notice (receiver, session, id, created, attempts, due, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING",
    )?;
    for notice in notices {
        insert.execute(params![
            notice.receiver,
            notice.session.as_str(),
            notice.id.as_str(),
            notice.created,
            notice.attempts,
            notice.due,
            notice.body,
        ])?;
    }
    let mut receivers: Vec<&str> = notices.iter().map(|notice| notice.receiver.as_str()).collect();
    receivers.sort_unstable();
    receivers.dedup();
    let mut trim = connection.prepare_cached(
        "DELETE FROM notice WHERE receiver = ?1 AND number <=
             (SELECT number FROM notice WHERE receiver = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)",
    )?;
    receivers
        .iter()
        .try_fold(0, |dropped, receiver| Ok(dropped + trim.execute(params![receiver, MAX_NOTICES])?))
}

fn retain(connection: &Connection, receivers: &[String]) -> Result<usize> {
    let mut known = connection.prepare_cached("SELECT DISTINCT receiver FROM notice")?;
    let known: Vec<String> = known.query_map([], |row| row.get(0))?.collect::<Result<_>>()?;
    for gone in known.iter().filter(|receiver| !receivers.contains(receiver)) {
        execute(connection, "DELETE FROM notice WHERE receiver = ?1", params![gone])?;
    }
    if receivers.is_empty() {
        execute(connection, "DELETE FROM outbox", &[])?;
    }
    Ok(0)
}

fn heads(connection: &Connection, receiver: &str, limit: usize) -> Result<Vec<Notice>> {
    let mut query = connection.prepare_cached(
        "SELECT receiver, id, session, body, created, attempts, due FROM notice WHERE number IN
             (SELECT MIN(number) FROM notice WHERE receiver = ?1 GROUP BY session)
         ORDER BY due, number LIMIT ?2",
    )?;
    query.query_map(params![receiver, limit], read)?.collect()
}

fn read(row: &Row<'_>) -> Result<Notice> {
    let id = |column: usize| row.get::<_, String>(column);
    let odd = |column| move |error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error);
    Ok(Notice {
        receiver: row.get(0)?,
        id: id(1)?.parse::<EventId>().map_err(|error| odd(1)(Box::new(error)))?,
        session: id(2)?.parse::<SessionId>().map_err(|error| odd(2)(Box::new(error)))?,
        body: row.get(3)?,
        created: row.get(4)?,
        attempts: row.get(5)?,
        due: row.get(6)?,
    })
}

impl Sqlite {
    async fn change(&self, change: Change) -> std::result::Result<usize, Error> {
        self.ask(|reply| Work::Outbox { change, reply }).await
    }
}

impl Outbox for Sqlite {
    fn read_upto(&self) -> StoreFuture<'_, Option<u64>> {
        Box::pin(self.readers.run(|connection| {
            connection
                .prepare_cached("SELECT read_upto FROM outbox")?
                .query_row([], |row| row.get(0))
                .optional()
        }))
    }

    fn put(&self, upto: u64, notices: Vec<Notice>) -> StoreFuture<'_, usize> {
        Box::pin(self.change(Change::Put { upto, notices }))
    }

    fn heads(&self, receiver: &str, limit: usize) -> StoreFuture<'_, Vec<Notice>> {
        let receiver = receiver.to_owned();
        Box::pin(self.readers.run(move |connection| heads(connection, &receiver, limit)))
    }

    fn postpone(&self, receiver: &str, id: &EventId, attempts: u32, due: Millis) -> StoreFuture<'_, ()> {
        let (receiver, id) = (receiver.to_owned(), id.clone());
        Box::pin(async move { self.change(Change::Postpone { receiver, id, attempts, due }).await.map(drop) })
    }

    fn remove(&self, receiver: &str, id: &EventId) -> StoreFuture<'_, ()> {
        let (receiver, id) = (receiver.to_owned(), id.clone());
        Box::pin(async move { self.change(Change::Remove { receiver, id }).await.map(drop) })
    }

    fn retain(&self, receivers: Vec<String>) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.change(Change::Retain(receivers)).await.map(drop) })
    }
}
