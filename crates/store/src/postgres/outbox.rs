//! The outbox: notices for receivers.

use engine::{
    limits::MAX_NOTICES,
    ports::{Error, Notice, Outbox, StoreFuture},
};
use protocol::{EventId, Millis};
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};

use super::{
    Postgres,
    query::{Found, column, count, id, limit, number},
    text::storable,
};
use crate::{change::NoticeChange, work::Work};

/// Applies a change and returns the number of notices that were dropped. The caller has opened a transaction.
pub(super) async fn write(client: &Client, change: &NoticeChange) -> Found<usize> {
    match change {
        NoticeChange::Put { upto, notices } => put(client, *upto, notices).await,
        NoticeChange::Postpone { receiver, id, attempts, due } => {
            let sql = "UPDATE notice SET attempts = $3, due = $4 WHERE receiver = $1 AND id = $2";
            let values: [(&(dyn ToSql + Sync), Type); 4] = [
                (&storable(receiver), Type::TEXT),
                (&id.as_str(), Type::TEXT),
                (&i64::from(*attempts), Type::INT8),
                (due, Type::INT8),
            ];
            client.execute_typed(sql, &values).await?;
            Ok(0)
        }
        NoticeChange::Remove { receiver, id } => {
            let sql = "DELETE FROM notice WHERE receiver = $1 AND id = $2";
            let values: [(&(dyn ToSql + Sync), Type); 2] =
                [(&storable(receiver), Type::TEXT), (&id.as_str(), Type::TEXT)];
            client.execute_typed(sql, &values).await?;
            Ok(0)
        }
        NoticeChange::Retain(receivers) => retain(client, receivers).await,
    }
}

async fn put(client: &Client, upto: u64, notices: &[Notice]) -> Found<usize> {
    client.execute_typed("DELETE FROM outbox", &[]).await?;
    client.execute_typed("INSERT INTO outbox VALUES ($1)", &[(&number(upto), Type::INT8)]).await?;
    let texts =
        |of: fn(&Notice) -> &str| notices.iter().map(|notice| storable(of(notice))).collect::<Vec<_>>();
    let numbers = |of: fn(&Notice) -> i64| notices.iter().map(of).collect::<Vec<_>>();
    let receivers = texts(|notice| &notice.receiver);
    let values: [(&(dyn ToSql + Sync), Type); 7] = [
        (&receivers, Type::TEXT_ARRAY),
        (&texts(|notice| notice.session.as_str()), Type::TEXT_ARRAY),
        (&texts(|notice| notice.id.as_str()), Type::TEXT_ARRAY),
        (&numbers(|notice| notice.created), Type::INT8_ARRAY),
        (&numbers(|notice| notice.attempts.into()), Type::INT8_ARRAY),
        (&numbers(|notice| notice.due), Type::INT8_ARRAY),
        (&texts(|notice| &notice.body), Type::TEXT_ARRAY),
    ];
    let insert = "INSERT INTO notice (receiver, session, id, created, attempts, due, body)
        SELECT receiver, session, id, created, attempts, due, body
        FROM unnest($1, $2, $3, $4, $5, $6, $7) WITH ORDINALITY
            AS wish (receiver, session, id, created, attempts, due, body, nth)
        ORDER BY nth ON CONFLICT DO NOTHING";
    client.execute_typed(insert, &values).await?;
    let trim = "DELETE FROM notice USING (
            SELECT number, row_number() OVER (PARTITION BY receiver ORDER BY number DESC) AS nth
            FROM notice WHERE receiver = ANY ($1)
        ) AS ranked WHERE notice.number = ranked.number AND ranked.nth > $2";
    let values: [(&(dyn ToSql + Sync), Type); 2] =
        [(&receivers, Type::TEXT_ARRAY), (&limit(Some(MAX_NOTICES)), Type::INT8)];
    let dropped = client.execute_typed(trim, &values).await?;
    Ok(usize::try_from(dropped).unwrap_or(usize::MAX))
}

async fn retain(client: &Client, receivers: &[String]) -> Found<usize> {
    let kept: Vec<_> = receivers.iter().map(|receiver| storable(receiver)).collect();
    let sql = "DELETE FROM notice WHERE receiver <> ALL ($1)";
    client.execute_typed(sql, &[(&kept, Type::TEXT_ARRAY)]).await?;
    if receivers.is_empty() {
        client.execute_typed("DELETE FROM outbox", &[]).await?;
    }
    Ok(0)
}

async fn read_upto(client: &Client) -> Found<Option<u64>> {
    let row = client.query_typed_opt("SELECT read_upto FROM outbox", &[]).await?;
    row.map(|row| count(&row, 0)).transpose()
}

async fn heads(client: &Client, receiver: &str, most: usize) -> Found<Vec<Notice>> {
    let sql = "SELECT receiver, id, session, body, created, attempts, due FROM notice WHERE number IN
            (SELECT min(number) FROM notice WHERE receiver = $1 GROUP BY session)
        ORDER BY due, number LIMIT $2";
    let values: [(&(dyn ToSql + Sync), Type); 2] =
        [(&storable(receiver), Type::TEXT), (&limit(Some(most)), Type::INT8)];
    client.query_typed(sql, &values).await?.iter().map(read).collect()
}

fn read(row: &Row) -> Found<Notice> {
    Ok(Notice {
        receiver: column(row, 0)?,
        id: id(row, 1)?,
        session: id(row, 2)?,
        body: column(row, 3)?,
        created: column(row, 4)?,
        attempts: u32::try_from(count(row, 5)?).unwrap_or(u32::MAX),
        due: column(row, 6)?,
    })
}

impl Postgres {
    async fn change(&self, change: NoticeChange) -> Result<usize, Error> {
        self.ask(|reply| Work::Outbox { change, reply }).await
    }
}

impl Outbox for Postgres {
    fn read_upto(&self) -> StoreFuture<'_, Option<u64>> {
        Box::pin(async move {
            let lease = self.readers.take(false).await?;
            let answer = lease.answer(read_upto(&lease.client)).await;
            lease.finish(answer)
        })
    }

    fn put(&self, upto: u64, notices: Vec<Notice>) -> StoreFuture<'_, usize> {
        Box::pin(self.change(NoticeChange::Put { upto, notices }))
    }

    fn heads(&self, receiver: &str, limit: usize) -> StoreFuture<'_, Vec<Notice>> {
        let receiver = receiver.to_owned();
        Box::pin(async move {
            let lease = self.readers.take(false).await?;
            let answer = lease.answer(heads(&lease.client, &receiver, limit)).await;
            lease.finish(answer)
        })
    }

    fn postpone(&self, receiver: &str, id: &EventId, attempts: u32, due: Millis) -> StoreFuture<'_, ()> {
        let (receiver, id) = (receiver.to_owned(), id.clone());
        let change = NoticeChange::Postpone { receiver, id, attempts, due };
        Box::pin(async move { self.change(change).await.map(drop) })
    }

    fn remove(&self, receiver: &str, id: &EventId) -> StoreFuture<'_, ()> {
        let (receiver, id) = (receiver.to_owned(), id.clone());
        Box::pin(async move { self.change(NoticeChange::Remove { receiver, id }).await.map(drop) })
    }

    fn retain(&self, receivers: Vec<String>) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.change(NoticeChange::Retain(receivers)).await.map(drop) })
    }
}
