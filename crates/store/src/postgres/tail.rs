//! The tail of a node: publishes every commit of the fleet to the node's observer, in the order of positions.
//!
//! A node's own commits are published from memory if nothing lies between; everything else is read from the log. A
//! notification of the database only hints at a new position, and the tail also looks without one.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use engine::{
    fleet::order::{self, Position},
    ports::{Logged, Observer},
};
use protocol::{Event, SessionId};
use tokio::{
    sync::{Mutex, watch},
    time::timeout,
};
use tokio_postgres::{Client, Row, types::Type};

use super::{
    connect::Target,
    failure::Fault,
    query::{Found, column, count, id, limit, number},
};

/// Interval at which the tail looks without a hint.
const LOOK: Duration = Duration::from_secs(1);

/// Time for one read of the log.
const READ: Duration = Duration::from_secs(10);

/// Maximum number of events in one read.
const EVENTS: usize = 500;

pub(super) struct Tail {
    target: Target,
    observer: Arc<dyn Observer>,
    inner: Mutex<Inner>,
    /// The newest position that the database has announced.
    hint: watch::Sender<u64>,
}

struct Inner {
    order: order::Tail,
    /// `None` after a failure.
    client: Option<Client>,
}

impl Inner {
    fn last(&self) -> u64 {
        self.order.last().get()
    }
}

impl Tail {
    /// A tail that begins after `position`. It follows the log until it is dropped.
    pub(super) fn start(target: Target, observer: Arc<dyn Observer>, position: u64) -> Arc<Self> {
        let inner = Inner { order: order::Tail::after(Position::at(position)), client: None };
        let (hint, hints) = watch::channel(position);
        let tail = Arc::new(Self { target, observer, inner: Mutex::new(inner), hint });
        tokio::spawn(follow(Arc::downgrade(&tail), hints));
        tail
    }

    /// The newest published position.
    pub(super) async fn last(&self) -> u64 {
        self.inner.lock().await.last()
    }

    /// Publishes the events of a commit of this node, whose positions follow `before`. Commits of other nodes before
    /// it come first. Events that the tail has already read are not published again.
    pub(super) async fn publish(&self, before: u64, events: Vec<Logged>) -> Found<()> {
        let mut inner = self.inner.lock().await;
        self.read_upto(&mut inner, before).await?;
        let fresh = events.into_iter().filter(|event| inner.order.publish(Position::at(event.position)));
        let fresh: Vec<_> = fresh.collect();
        if !fresh.is_empty() {
            self.observer.committed(fresh);
        }
        Ok(())
    }

    /// Publishes the log up to a position that it is known to have.
    pub(super) async fn reach(&self, position: u64) -> Found<()> {
        let mut inner = self.inner.lock().await;
        self.read_upto(&mut inner, position).await
    }

    async fn read_upto(&self, inner: &mut Inner, position: u64) -> Found<()> {
        while inner.last() < position {
            if self.read(inner, position).await? == 0 {
                return Err(Fault::Odd(format!("the log has nothing after position {}", inner.last())));
            }
        }
        Ok(())
    }

    /// Publishes everything that the log has.
    async fn look(&self) -> Found<()> {
        let mut inner = self.inner.lock().await;
        while self.read(&mut inner, u64::MAX).await? == EVENTS {}
        Ok(())
    }

    /// Publishes the next events of the log up to a position; returns the number of rows.
    async fn read(&self, inner: &mut Inner, upto: u64) -> Found<usize> {
        // Taken out, so that a connection on which a query failed or was cancelled is not used again.
        let client = match inner.client.take().filter(|client| !client.is_closed()) {
            Some(client) => client,
            None => self.target.listener(self.hint.clone()).await?,
        };
        let sql =
            "SELECT log.position, log.workspace, event.directory, event.project, event.body, log.session
            FROM log LEFT JOIN event ON event.session = log.session AND event.seq = log.seq
            WHERE log.position > $1 AND log.position <= $2 ORDER BY log.position LIMIT $3";
        let values: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] = [
            (&number(inner.last()), Type::INT8),
            (&number(upto), Type::INT8),
            (&limit(Some(EVENTS)), Type::INT8),
        ];
        let rows = timeout(READ, client.query_typed(sql, &values)).await.map_err(|_| Fault::Late)??;
        inner.client = Some(client);
        let read = rows.iter().map(logged).collect::<Found<Vec<_>>>()?;
        let mut events = Vec::new();
        for (position, event) in read {
            if !inner.order.publish(Position::at(position)) {
                self.observer.committed(events);
                let last = inner.last();
                return Err(Fault::Odd(format!(
                    "the log continues at position {position} after {last}; restart this server"
                )));
            }
            events.extend(event);
        }
        if !events.is_empty() {
            self.observer.committed(events);
        }
        Ok(rows.len())
    }
}

/// Looks at the log after each hint and at an interval, until the tail is dropped.
async fn follow(tail: Weak<Tail>, mut hints: watch::Receiver<u64>) {
    let mut was_down = false;
    loop {
        let hinted = match tail.upgrade() {
            Some(tail) => {
                let looked = tail.look().await;
                if let Err(fault) = &looked
                    && !was_down
                {
                    tracing::warn!(server = %tail.target.server, %fault, "failed to follow the log; retrying");
                }
                was_down = looked.is_err();
                tail.last().await
            }
            None => return,
        };
        // The node's own commits are announced as well, and are published by then.
        let news = async {
            while !was_down && hints.changed().await.is_ok() {
                if *hints.borrow_and_update() > hinted {
                    return;
                }
            }
            std::future::pending::<()>().await;
        };
        let _ = timeout(LOOK, news).await;
    }
}

/// A row of the log. A row whose event was deleted with its session has only a position.
fn logged(row: &Row) -> Found<(u64, Option<Logged>)> {
    let position = count(row, 0)?;
    let Some(body) = column::<Option<&str>>(row, 4)? else { return Ok((position, None)) };
    let event: Event = serde_json::from_str(body)
        .map_err(|error| Fault::Odd(format!("the event at position {position} cannot be read: {error}")))?;
    // An event that outlives its session is stored under the name of its writer.
    let session: SessionId = match event.body.session_id() {
        Some(session) => session.clone(),
        None => id(row, 5)?,
    };
    let logged = Logged {
        position,
        session,
        workspace: id(row, 1)?,
        directory: column::<&str>(row, 2)?.into(),
        project: column::<&str>(row, 3)?.into(),
        json: bytes::Bytes::copy_from_slice(body.as_bytes()),
        event,
    };
    Ok((position, Some(logged)))
}
