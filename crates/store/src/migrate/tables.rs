//! The tables of a record: how their rows are read from a file, written to a database, and compared.

use ring::digest::{SHA256, digest};
use rusqlite::{Connection, types::ValueRef};
use tokio_postgres::{
    Client,
    types::{ToSql, Type},
};

use crate::postgres::text::words;

/// A column and its type in Postgres.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Number,
    Flag,
    /// Made from a text, so it is not compared.
    Words,
}

/// A table of the database, and the query that reads its rows from a file.
pub(super) struct Table {
    pub(super) name: &'static str,
    /// Selects the row id and then the columns; `?1` is the last row id, `?2` the number of rows.
    from: &'static str,
    columns: &'static [(&'static str, Kind)],
}

/// A row as text, column by column.
pub(super) struct Row {
    pub(super) rowid: i64,
    values: Vec<Option<String>>,
}

/// The number of rows and a sum over their hashes, which does not depend on their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Digest {
    pub(super) rows: u64,
    sum: u128,
}

use Kind::{Flag, Number, Text, Words};

/// `event` and `log` are the two halves of SQLite's log. An event without a session is stored under `~moved`. A prompt's
/// place in its session's queue becomes its rank, which is below the number of any later event.
pub(super) const TABLES: &[Table] = &[
    Table {
        name: "session",
        from: "SELECT rowid, id, head, workspace, project, directory, path, parent, title, created, updated,
                   body ->> '$.time.archived' IS NOT NULL, seen, body
               FROM session WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
        columns: &[
            ("id", Text),
            ("head", Number),
            ("workspace", Text),
            ("project", Text),
            ("directory", Text),
            ("path", Text),
            ("parent", Text),
            ("title", Text),
            ("created", Number),
            ("updated", Number),
            ("archived", Flag),
            ("seen", Number),
            ("body", Text),
        ],
    },
    Table {
        name: "message",
        from: "SELECT rowid, session, id, created, answers, open, body
               FROM message WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
        columns: &[
            ("session", Text),
            ("id", Text),
            ("created", Number),
            ("answers", Text),
            ("open", Flag),
            ("body", Text),
        ],
    },
    Table {
        name: "part",
        from: "SELECT rowid, session, message, id, open, body
               FROM part WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
        columns: &[("session", Text), ("message", Text), ("id", Text), ("open", Flag), ("body", Text)],
    },
    Table {
        name: "said",
        from: "SELECT number, number, said.session, said.message, said.part, part.body ->> '$.text'
               FROM said JOIN part
                   ON part.session = said.session AND part.message = said.message AND part.id = said.part
               WHERE number > ?1 ORDER BY number LIMIT ?2",
        columns: &[
            ("number", Number),
            ("session", Text),
            ("message", Text),
            ("part", Text),
            ("words", Words),
        ],
    },
    Table {
        name: "todo",
        from: "SELECT rowid, session, body FROM todo WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
        columns: &[("session", Text), ("body", Text)],
    },
    Table {
        name: "status",
        from: "SELECT rowid, session, body FROM status WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
        columns: &[("session", Text), ("body", Text)],
    },
    Table {
        name: "request",
        from: "SELECT rowid, session, id, asked, kind, body
               FROM request WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
        columns: &[("session", Text), ("id", Text), ("asked", Number), ("kind", Text), ("body", Text)],
    },
    Table {
        name: "prompt",
        from: "SELECT number, session, message, nth, delivery, started FROM (
                   SELECT rowid AS number, session, message, delivery, started,
                       row_number() OVER (PARTITION BY session ORDER BY accepted) AS nth FROM prompt)
               WHERE number > ?1 ORDER BY number LIMIT ?2",
        columns: &[
            ("session", Text),
            ("message", Text),
            ("accepted", Number),
            ("delivery", Text),
            ("started", Flag),
        ],
    },
    Table {
        name: "withdrawn",
        from: "SELECT rowid, session, message FROM withdrawn WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
        columns: &[("session", Text), ("message", Text)],
    },
    Table {
        name: "note",
        from: "SELECT rowid, project, body FROM note WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
        columns: &[("project", Text), ("body", Text)],
    },
    Table {
        name: "approval",
        from: "SELECT number, number, id, workspace, directory, permission, pattern, body
               FROM approval WHERE number > ?1 ORDER BY number LIMIT ?2",
        columns: &[
            ("number", Number),
            ("id", Text),
            ("workspace", Text),
            ("directory", Text),
            ("permission", Text),
            ("pattern", Text),
            ("body", Text),
        ],
    },
    Table {
        name: "notice",
        from: "SELECT number, number, receiver, session, id, created, attempts, due, body
               FROM notice WHERE number > ?1 ORDER BY number LIMIT ?2",
        columns: &[
            ("number", Number),
            ("receiver", Text),
            ("session", Text),
            ("id", Text),
            ("created", Number),
            ("attempts", Number),
            ("due", Number),
            ("body", Text),
        ],
    },
    Table {
        name: "outbox",
        from: "SELECT rowid, read_upto FROM outbox WHERE rowid > ?1 ORDER BY rowid LIMIT ?2",
        columns: &[("read_upto", Number)],
    },
    Table {
        name: "event",
        from: "SELECT position, ifnull(session, '~moved'),
                   CASE WHEN session IS NULL THEN position ELSE seq END, directory, project, at, body ->> '$.id', body
               FROM log WHERE position > ?1 ORDER BY position LIMIT ?2",
        columns: &[
            ("session", Text),
            ("seq", Number),
            ("directory", Text),
            ("project", Text),
            ("at", Number),
            ("id", Text),
            ("body", Text),
        ],
    },
    Table {
        name: "log",
        from: "SELECT position, position, workspace, ifnull(session, '~moved'),
                   CASE WHEN session IS NULL THEN position ELSE seq END, total + octet_length(body)
               FROM log WHERE position > ?1 ORDER BY position LIMIT ?2",
        columns: &[
            ("position", Number),
            ("workspace", Text),
            ("session", Text),
            ("seq", Number),
            ("total", Number),
        ],
    },
];

impl Table {
    /// Reads rows after the row id `after`.
    pub(super) fn read(&self, file: &Connection, after: i64, most: usize) -> rusqlite::Result<Vec<Row>> {
        let mut statement = file.prepare_cached(self.from)?;
        let rows = statement.query_map((after, most), |row| {
            let values = (1..=self.columns.len()).zip(self.columns);
            let values = values.map(|(at, (_, kind))| Ok(text(row.get_ref(at)?, *kind)));
            Ok(Row { rowid: row.get(0)?, values: values.collect::<rusqlite::Result<_>>()? })
        })?;
        rows.collect()
    }

    pub(super) async fn write(&self, client: &Client, rows: &[Row]) -> Result<(), tokio_postgres::Error> {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        let values: Vec<String> = (1..)
            .zip(self.columns)
            .map(|(at, (_, kind))| format!("${at}::text[]::{}[]", kind.name()))
            .collect();
        let sql = format!(
            "INSERT INTO baton.{} ({}) SELECT * FROM unnest({})",
            self.name,
            names.join(", "),
            values.join(", ")
        );
        let columns: Vec<Vec<Option<&str>>> = (0..self.columns.len())
            .map(|at| rows.iter().map(|row| row.values.get(at).and_then(Option::as_deref)).collect())
            .collect();
        let values: Vec<(&(dyn ToSql + Sync), Type)> =
            columns.iter().map(|column| (column as _, Type::TEXT_ARRAY)).collect();
        client.execute_typed(&sql, &values).await.map(drop)
    }

    /// The columns that are compared, with their numbers.
    fn compared(&self) -> impl Iterator<Item = (usize, &'static str)> {
        let columns = self.columns.iter().enumerate();
        columns.filter(|(_, (_, kind))| !matches!(kind, Words)).map(|(at, (name, _))| (at, *name))
    }

    /// Adds a row of the file to a digest.
    pub(super) fn count(&self, digest: &mut Digest, row: &Row) {
        let value = |(at, _)| row.values.get(at).and_then(Option::as_deref).unwrap_or("\u{2}");
        digest.add(&self.compared().map(value).collect::<Vec<&str>>());
    }

    /// The digest of the table in the database.
    pub(super) async fn digest(&self, client: &Client) -> Result<Digest, tokio_postgres::Error> {
        let columns: Vec<String> =
            self.compared().map(|(_, name)| format!("coalesce({name}::text, E'\\x02')")).collect();
        let sql = format!(
            "SELECT count(*), coalesce(sum(('x' || encode(substr(sha256(convert_to(
                 concat_ws(E'\\x01', {}), 'UTF8')), 1, 7), 'hex'))::bit(56)::bigint), 0)::text FROM baton.{}",
            columns.join(", "),
            self.name
        );
        let row = client.query_typed_one(&sql, &[]).await?;
        let rows = u64::try_from(row.get::<_, i64>(0)).unwrap_or_default();
        Ok(Digest { rows, sum: row.get::<_, &str>(1).parse().unwrap_or_default() })
    }
}

impl Digest {
    fn add(&mut self, values: &[&str]) {
        let hash = digest(&SHA256, values.join("\u{1}").as_bytes());
        let first = hash.as_ref().iter().take(7);
        self.sum += first.fold(0_u128, |sum, byte| sum << 8 | u128::from(*byte));
        self.rows += 1;
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Text => "text",
            Number => "bigint",
            Flag => "boolean",
            Words => "tsvector",
        }
    }
}

/// A value as Postgres prints it. U+0000 becomes U+FFFD, as in every row that the store writes.
fn text(value: ValueRef<'_>, kind: Kind) -> Option<String> {
    match (value, kind) {
        (ValueRef::Integer(number), Flag) => Some((number != 0).to_string()),
        (ValueRef::Integer(number), _) => Some(number.to_string()),
        (ValueRef::Text(bytes), Words) => Some(words(&String::from_utf8_lossy(bytes))),
        (ValueRef::Text(bytes), _) => Some(String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")),
        (ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_), _) => None,
    }
}
