//! The statements that write a group, sent to the server in one flight: all are sent before the first answer is read.

use std::borrow::Cow;

use engine::limits::MAX_APPROVALS;
use futures::future::join_all;
use protocol::{Millis, prompt::Delivery};
use tokio_postgres::{
    Client, Row,
    types::{ToSql, Type},
};

use super::{
    batch::{Batch, Key, PromptChange, PromptKind},
    connect::{LOCK_LOG, LOCK_TEXTS, Token},
    failure::Fault,
    query::{count, limit, number},
    text::{storable, words},
};

/// A statement with its values.
struct Statement<'a> {
    sql: &'static str,
    values: Vec<(Box<dyn ToSql + Sync + Send + 'a>, Type)>,
}

impl<'a> Statement<'a> {
    fn new(sql: &'static str) -> Self {
        Self { sql, values: Vec::new() }
    }

    fn texts<T: ToSql + Sync + Send + 'a>(self, values: impl Iterator<Item = T>) -> Self {
        self.with(values.collect::<Vec<_>>(), Type::TEXT_ARRAY)
    }

    fn numbers(self, values: impl Iterator<Item = i64>) -> Self {
        self.with(values.collect::<Vec<_>>(), Type::INT8_ARRAY)
    }

    fn flags(self, values: impl Iterator<Item = bool>) -> Self {
        self.with(values.collect::<Vec<_>>(), Type::BOOL_ARRAY)
    }

    fn with(mut self, value: impl ToSql + Sync + Send + 'a, kind: Type) -> Self {
        self.values.push((Box::new(value), kind));
        self
    }

    /// Adds the four values that prove the writer's identity.
    fn token(self, token: &'a Token) -> Self {
        self.with(&*token.node, Type::TEXT)
            .with(token.incarnation, Type::INT8)
            .with(token.writer, Type::INT8)
            .with(token.backend, Type::INT4)
    }

    /// Adds the workspaces of the group and the epochs that its writers have for them.
    fn fences(self, batch: &'a Batch<'a>) -> Self {
        self.texts(batch.fences.iter().map(|fence| fence.0))
            .numbers(batch.fences.iter().map(|fence| number(fence.1)))
    }

    async fn run(&self, client: &Client) -> Result<Vec<Row>, tokio_postgres::Error> {
        let values: Vec<(&(dyn ToSql + Sync), Type)> =
            self.values.iter().map(|(value, kind)| (&**value as _, kind.clone())).collect();
        client.query_typed(self.sql, &values).await
    }
}

/// Writes a group in one transaction and returns the position before its first event. `orphans` counts the orphaned
/// events of this connection; together with the writer's number it is their key.
pub(super) async fn write(
    client: &Client,
    token: &Token,
    batch: &Batch<'_>,
    orphans: &mut u64,
    now: Millis,
) -> Result<u64, Fault> {
    let keys = keys(batch, token, orphans);
    let mut statements = vec![Statement::new("BEGIN")];
    tables(batch, token, &mut statements);
    events(batch, &keys, now, &mut statements);
    statements.push(Statement::new(LOCK_LOG));
    let bytes = batch.events.iter().map(|event| number(event.body.len() as u64));
    let append = Statement::new("SELECT baton.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)")
        .token(token)
        .fences(batch)
        .texts(batch.events.iter().map(|event| event.workspace))
        .texts(keys.iter().map(|key| key.as_ref().map(|(session, _)| session.as_str())))
        .numbers(keys.iter().map(|key| key.as_ref().map_or(0, |(_, seq)| *seq)))
        .numbers(bytes);
    let appended = statements.len();
    statements.push(append);
    statements.push(Statement::new("COMMIT"));
    let mut answers = fly(client, &statements).await?;
    let row = answers.get_mut(appended).and_then(Vec::pop);
    let position = row.and_then(|row| row.try_get::<_, i64>(0).ok()).and_then(|it| u64::try_from(it).ok());
    position.ok_or_else(|| Fault::Odd("the database returned no position".to_owned()))
}

/// Sends all statements and then reads all answers. The first error is the cause of those that follow it; the last
/// statement has ended the transaction either way.
async fn fly(client: &Client, statements: &[Statement<'_>]) -> Result<Vec<Vec<Row>>, Fault> {
    // `join_all` polls in order, and the first poll of each sends its statement.
    let answers = join_all(statements.iter().map(|statement| statement.run(client))).await;
    answers.into_iter().collect::<Result<_, _>>().map_err(Fault::Sql)
}

/// The stored keys of the events: session and number, or nothing for an event that was deleted with its session.
fn keys(batch: &Batch<'_>, token: &Token, orphans: &mut u64) -> Vec<Option<(String, i64)>> {
    let key = |key: &Key<'_>| match key {
        Key::Session(session, seq) => Some(((*session).to_owned(), number(*seq))),
        Key::Orphan => {
            *orphans += 1;
            Some((orphanage(token), number(*orphans)))
        }
        Key::Deleted => None,
    };
    batch.events.iter().map(|event| &event.key).map(key).collect()
}

/// The name under which a writer stores events that outlive their session.
fn orphanage(token: &Token) -> String {
    format!("~{}/{}", token.node, token.writer)
}

/// An event of a group by which a new connection finds out if the group was stored.
#[derive(Debug)]
pub(super) struct Probe {
    session: String,
    seq: i64,
    id: String,
    /// Number of events of the group up to and including this one.
    events: u64,
}

impl Probe {
    /// Chooses the last event that the group leaves in the log; `None` if the group has no events. `orphans` is the
    /// count after the group was sent.
    pub(super) fn of(batch: &Batch<'_>, token: &Token, orphans: u64) -> Option<Self> {
        batch.events.iter().enumerate().rev().find_map(|(at, event)| {
            let (session, seq) = match event.key {
                Key::Session(session, seq) => (session.to_owned(), seq),
                Key::Orphan => (orphanage(token), orphans),
                Key::Deleted => return None,
            };
            Some(Self { session, seq: number(seq), id: event.id.to_owned(), events: at as u64 + 1 })
        })
    }

    /// Looks for the event; returns the position before the first event of its group. The caller's connection has a
    /// new writer's number, so a group that is not stored now never will be.
    pub(super) async fn find(&self, client: &Client) -> Result<Option<u64>, Fault> {
        let sql = "SELECT log.position FROM event JOIN log USING (session, seq)
            WHERE event.session = $1 AND event.seq = $2 AND event.id = $3";
        let values: [(&(dyn ToSql + Sync), Type); 3] =
            [(&self.session, Type::TEXT), (&self.seq, Type::INT8), (&self.id, Type::TEXT)];
        let row = client.query_typed_opt(sql, &values).await?;
        row.map(|row| Ok(count(&row, 0)?.saturating_sub(self.events))).transpose()
    }
}

fn events<'a>(
    batch: &'a Batch<'a>,
    keys: &[Option<(String, i64)>],
    now: Millis,
    statements: &mut Vec<Statement<'a>>,
) {
    let stored: Vec<_> =
        batch.events.iter().zip(keys).filter_map(|(event, key)| Some((event, key.clone()?))).collect();
    if !stored.is_empty() {
        let insert = Statement::new(
            "INSERT INTO event (session, seq, directory, project, at, id, body)
             SELECT session, seq, directory, project, $7, id, body
             FROM unnest($1, $2, $3, $4, $5, $6) AS wish (session, seq, directory, project, id, body)",
        )
        .texts(stored.iter().map(|(_, (session, _))| session.clone()))
        .numbers(stored.iter().map(|(_, (_, seq))| *seq))
        .texts(stored.iter().map(|(event, _)| storable(event.directory)))
        .texts(stored.iter().map(|(event, _)| storable(event.project)))
        .texts(stored.iter().map(|(event, _)| event.id))
        .texts(stored.iter().map(|(event, _)| event.body))
        .with(now, Type::INT8);
        statements.push(insert);
    }
    let heads = || batch.heads.iter().filter(|(_, head)| head.alive && head.head != head.expected);
    if heads().next().is_some() {
        let update = Statement::new(
            "UPDATE session SET head = wish.head FROM unnest($1, $2) AS wish (id, head)
             WHERE session.id = wish.id",
        )
        .texts(heads().map(|(session, _)| *session))
        .numbers(heads().map(|(_, head)| number(head.head)));
        statements.push(update);
    }
}

/// The statements that change the state tables: removals before additions.
fn tables<'a>(batch: &'a Batch<'a>, token: &'a Token, statements: &mut Vec<Statement<'a>>) {
    let mut add = |wanted: bool, statement: &dyn Fn() -> Statement<'a>| {
        if wanted {
            statements.push(statement());
        }
    };
    add(!batch.heads.is_empty(), &|| {
        Statement::new("SELECT baton.accept($1, $2, $3, $4, $5, $6, $7, $8, $9)")
            .token(token)
            .fences(batch)
            .texts(batch.heads.keys().copied())
            .numbers(batch.heads.values().map(|head| number(head.expected)))
            .flags(batch.heads.values().map(|head| head.creates))
    });
    add(!batch.checkpoints.is_empty(), &|| {
        Statement::new(
            "UPDATE part SET body = wish.body FROM unnest($1, $2, $3, $4) AS wish (session, message, id, body)
             WHERE part.session = wish.session AND part.message = wish.message AND part.id = wish.id
                 AND part.open",
        )
        .texts(batch.checkpoints.keys().map(|key| key.0))
        .texts(batch.checkpoints.keys().map(|key| key.1))
        .texts(batch.checkpoints.keys().map(|key| key.2))
        .texts(batch.checkpoints.values().copied())
    });
    add(!batch.sessions_removed.is_empty(), &|| {
        Statement::new("SELECT baton.forget_sessions($1)").texts(batch.sessions_removed.iter().copied())
    });
    let messages = || batch.messages_removed.iter();
    for sql in [
        "DELETE FROM part USING unnest($1, $2) AS wish (session, message)
         WHERE part.session = wish.session AND part.message = wish.message",
        "DELETE FROM message USING unnest($1, $2) AS wish (session, message)
         WHERE message.session = wish.session AND message.id = wish.message",
    ] {
        add(!batch.messages_removed.is_empty(), &|| {
            Statement::new(sql).texts(messages().map(|key| key.0)).texts(messages().map(|key| key.1))
        });
    }
    add(!batch.parts_removed.is_empty(), &|| {
        Statement::new(
            "DELETE FROM part USING unnest($1, $2, $3) AS wish (session, message, id)
             WHERE part.session = wish.session AND part.message = wish.message AND part.id = wish.id",
        )
        .texts(batch.parts_removed.iter().map(|key| key.0))
        .texts(batch.parts_removed.iter().map(|key| key.1))
        .texts(batch.parts_removed.iter().map(|key| key.2))
    });
    add(!batch.sessions.is_empty(), &|| sessions(batch));
    add(!batch.messages.is_empty(), &|| {
        Statement::new(
            "INSERT INTO message (session, id, created, answers, open, body)
             SELECT * FROM unnest($1, $2, $3, $4, $5, $6) ON CONFLICT (session, id) DO UPDATE SET
                 created = excluded.created, answers = excluded.answers, open = excluded.open,
                 body = excluded.body",
        )
        .texts(batch.messages.keys().map(|key| key.0))
        .texts(batch.messages.keys().map(|key| key.1))
        .numbers(batch.messages.values().map(|row| row.created))
        .texts(batch.messages.values().map(|row| row.answers))
        .flags(batch.messages.values().map(|row| row.open))
        .texts(batch.messages.values().map(|row| row.body))
    });
    add(!batch.parts.is_empty(), &|| {
        Statement::new(
            "INSERT INTO part (session, message, id, open, body) SELECT * FROM unnest($1, $2, $3, $4, $5)
             ON CONFLICT (session, message, id) DO UPDATE SET open = excluded.open, body = excluded.body",
        )
        .texts(batch.parts.keys().map(|key| key.0))
        .texts(batch.parts.keys().map(|key| key.1))
        .texts(batch.parts.keys().map(|key| key.2))
        .flags(batch.parts.values().map(|row| row.0))
        .texts(batch.parts.values().map(|row| row.1))
    });
    // The number of a searched text follows the highest one, so the nodes of a fleet take turns. The lock comes before the
    // log lock in every transaction.
    add(!batch.texts.is_empty() && !token.is_single(), &|| Statement::new(LOCK_TEXTS));
    states(batch, &mut add);
    requests(batch, &mut add);
    prompts(batch, &mut add);
}

fn states<'a>(batch: &'a Batch<'a>, add: Add<'_, 'a>) {
    add(!batch.seen.is_empty(), &|| {
        Statement::new(
            "UPDATE session SET seen = wish.seen FROM unnest($1, $2) AS wish (id, seen)
             WHERE session.id = wish.id",
        )
        .texts(batch.seen.keys().copied())
        .numbers(batch.seen.values().map(|seen| number(*seen)))
    });
    add(!batch.texts.is_empty(), &|| {
        Statement::new("SELECT baton.say($1, $2, $3, $4)")
            .texts(batch.texts.iter().map(|change| change.session))
            .texts(batch.texts.iter().map(|change| change.message))
            .texts(batch.texts.iter().map(|change| change.part))
            .texts(batch.texts.iter().map(|change| change.text.map(words)))
    });
    add(!batch.todos.is_empty(), &|| {
        Statement::new(
            "INSERT INTO todo (session, body) SELECT * FROM unnest($1, $2)
             ON CONFLICT (session) DO UPDATE SET body = excluded.body",
        )
        .texts(batch.todos.keys().copied())
        .texts(batch.todos.values().copied())
    });
    let idle = || batch.statuses.iter().filter(|(_, status)| status.is_none()).map(|(session, _)| *session);
    add(idle().next().is_some(), &|| {
        Statement::new("DELETE FROM status WHERE session = ANY ($1)").texts(idle())
    });
    let busy = || batch.statuses.iter().filter_map(|(session, status)| Some((*session, (*status)?)));
    add(busy().next().is_some(), &|| {
        Statement::new(
            "INSERT INTO status (session, body) SELECT * FROM unnest($1, $2)
             ON CONFLICT (session) DO UPDATE SET body = excluded.body",
        )
        .texts(busy().map(|(session, _)| session))
        .texts(busy().map(|(_, status)| status))
    });
}

fn sessions<'a>(batch: &'a Batch<'a>) -> Statement<'a> {
    let rows = || batch.sessions.values().map(|(_, row)| *row);
    Statement::new(
        "INSERT INTO session
             (id, head, workspace, project, directory, path, parent, title, created, updated, archived, body)
         SELECT id, 0, workspace, project, directory, path, parent, title, created, updated, archived, body
         FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
             AS wish (id, workspace, project, directory, path, parent, title, created, updated, archived, body)
         ON CONFLICT (id) DO UPDATE SET workspace = excluded.workspace, project = excluded.project,
             directory = excluded.directory, path = excluded.path, parent = excluded.parent, title = excluded.title,
             created = excluded.created, updated = excluded.updated, archived = excluded.archived,
             body = excluded.body",
    )
    .texts(batch.sessions.keys().copied())
    .texts(batch.sessions.values().map(|(workspace, _)| *workspace))
    .texts(rows().map(|row| storable(&row.project)))
    .texts(rows().map(|row| storable(&row.directory)))
    .texts(rows().map(|row| row.path.as_deref().map(storable)))
    .texts(rows().map(|row| row.parent.as_ref().map(protocol::SessionId::as_str)))
    .texts(rows().map(|row| storable(&row.title)))
    .numbers(rows().map(|row| row.created))
    .numbers(rows().map(|row| row.updated))
    .flags(rows().map(|row| row.archived))
    .texts(rows().map(|row| row.body.as_str()))
}

/// Adds a statement if it is wanted.
type Add<'s, 'a> = &'s mut dyn FnMut(bool, &dyn Fn() -> Statement<'a>);

fn requests<'a>(batch: &'a Batch<'a>, add: Add<'_, 'a>) {
    add(!batch.requests_removed.is_empty(), &|| {
        Statement::new(
            "DELETE FROM request USING unnest($1, $2) AS wish (session, id)
             WHERE request.session = wish.session AND request.id = wish.id",
        )
        .texts(batch.requests_removed.iter().map(|key| key.0))
        .texts(batch.requests_removed.iter().map(|key| key.1))
    });
    let mut asked: Vec<_> = batch.requests.iter().collect();
    asked.sort_by_key(|(_, row)| row.nth);
    add(!asked.is_empty(), &|| {
        Statement::new(
            "INSERT INTO request (session, id, kind, body)
             SELECT session, id, kind, body
             FROM unnest($1, $2, $3, $4) WITH ORDINALITY AS wish (session, id, kind, body, nth) ORDER BY nth
             ON CONFLICT (session, id) DO UPDATE SET kind = excluded.kind, body = excluded.body",
        )
        .texts(asked.iter().map(|(key, _)| key.0))
        .texts(asked.iter().map(|(key, _)| key.1))
        .texts(asked.iter().map(|(_, row)| row.kind))
        .texts(asked.iter().map(|(_, row)| row.body))
    });
    let approvals = || batch.approvals.iter();
    add(!batch.approvals.is_empty(), &|| {
        Statement::new(
            "INSERT INTO approval (id, workspace, directory, permission, pattern, body)
             SELECT id, workspace, directory, permission, pattern, body
             FROM unnest($1, $2, $3, $4, $5, $6) WITH ORDINALITY
                 AS wish (id, workspace, directory, permission, pattern, body, nth)
             ORDER BY nth ON CONFLICT DO NOTHING",
        )
        .texts(approvals().map(|(_, row)| row.id.as_str()))
        .texts(approvals().map(|(workspace, _)| *workspace))
        .texts(approvals().map(|(_, row)| storable(&row.directory)))
        .texts(approvals().map(|(_, row)| storable(&row.permission)))
        .texts(approvals().map(|(_, row)| storable(&row.pattern)))
        .texts(approvals().map(|(_, row)| row.body.as_str()))
    });
    add(!batch.approvals.is_empty(), &|| {
        Statement::new(
            "DELETE FROM approval USING (
                 SELECT number, row_number() OVER (PARTITION BY workspace ORDER BY number DESC) AS nth
                 FROM approval WHERE workspace = ANY ($1)
             ) AS ranked WHERE approval.number = ranked.number AND ranked.nth > $2",
        )
        .texts(approvals().map(|(workspace, _)| *workspace))
        .with(limit(Some(MAX_APPROVALS)), Type::INT8)
    });
}

/// The order of these changes matters, so the database carries them out one by one. A run of changes is one statement; a
/// new order of the queue is one of its own.
fn prompts<'a>(batch: &'a Batch<'a>, add: Add<'_, 'a>) {
    let same = |left: &PromptChange<'_>, right: &PromptChange<'_>| {
        !matches!(left.kind, PromptKind::Rearranged(_)) && !matches!(right.kind, PromptKind::Rearranged(_))
    };
    for run in batch.prompts.chunk_by(same) {
        if let [PromptChange { session, kind: PromptKind::Rearranged(order), .. }] = run {
            add(true, &|| {
                Statement::new("SELECT baton.rearrange($1, $2, $3)")
                    .with(*session, Type::TEXT)
                    .texts(order.iter().map(|(message, _)| message.as_str()))
                    .texts(order.iter().map(|(_, delivery)| delivery.as_str()))
            });
            continue;
        }
        let rows = || run.iter().map(|change| (change, prompt(&change.kind)));
        add(true, &|| {
            Statement::new("SELECT baton.queue($1, $2, $3, $4, $5)")
                .texts(rows().map(|(_, (kind, ..))| kind))
                .texts(rows().map(|(change, _)| change.session))
                .texts(rows().map(|(_, (_, message, _))| message))
                .numbers(rows().map(|(change, _)| number(change.number)))
                .texts(rows().map(|(_, (.., delivery))| delivery))
        });
    }
}

/// The kind of a change, its message and its delivery. A prompt that is started without having been queued gets the
/// default delivery.
fn prompt<'a>(kind: &PromptKind<'a>) -> (&'static str, &'a str, Cow<'a, str>) {
    match kind {
        PromptKind::Queued(message, delivery) => ("queued", message, Cow::Borrowed(*delivery)),
        PromptKind::Started(message) => {
            let delivery = serde_json::to_string(&Delivery::default()).unwrap_or_default();
            ("started", message, Cow::Owned(delivery))
        }
        PromptKind::Ended(message) => ("ended", message, Cow::Borrowed("")),
        PromptKind::Withdrawn(message) => ("withdrawn", message, Cow::Borrowed("")),
        // Has a statement of its own.
        PromptKind::Rearranged(_) => ("", "", Cow::Borrowed("")),
    }
}
