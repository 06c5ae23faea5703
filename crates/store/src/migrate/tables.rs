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

/// A table of the database, and the rows of a file that it gets.
pub(super) struct Table {
    pub(super) name: &'static str,
    /// The table, join or query that holds the rows in the file.
    from: &'static str,
    /// Numbers the rows in the file.
    key: &'static str,
    /// The values of the columns in the file, if they differ from the columns of the same names.
    values: Option<&'static str>,
    /// The names of the columns in the database. A sign marks those that hold no text: `#` a number, `?` a flag, `~` words.
    columns: &'static str,
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
        values: Some(
            "id, head, workspace, project, directory, path, parent, title, created, updated,
             body ->> '$.time.archived' IS NOT NULL, seen, body",
        ),
        ..alike(
            "session",
            "rowid",
            "id head# workspace project directory path parent title created# updated# archived? seen# body",
        )
    },
    alike("message", "rowid", "session id created# answers open? body"),
    alike("part", "rowid", "session message id open? body"),
    Table {
        from: "said JOIN part
               ON part.session = said.session AND part.message = said.message AND part.id = said.part",
        values: Some("number, said.session, said.message, said.part, part.body ->> '$.text'"),
        ..alike("said", "number", "number# session message part words~")
    },
    alike("todo", "rowid", "session body"),
    alike("status", "rowid", "session body"),
    alike("request", "rowid", "session id asked# kind body"),
    Table {
        from: "(SELECT rowid AS number, session, message, delivery, started,
                    row_number() OVER (PARTITION BY session ORDER BY accepted) AS accepted FROM prompt)",
        ..alike("prompt", "number", "session message accepted# delivery started?")
    },
    alike("withdrawn", "rowid", "session message"),
    alike("note", "rowid", "project body"),
    alike("approval", "number", "number# id workspace directory permission pattern body"),
    alike("notice", "number", "number# receiver session id created# attempts# due# body"),
    alike("outbox", "rowid", "read_upto#"),
    Table {
        from: "log",
        values: Some(
            "ifnull(session, '~moved'), CASE WHEN session IS NULL THEN position ELSE seq END,
             directory, project, at, body ->> '$.id', body",
        ),
        ..alike("event", "position", "session seq# directory project at# id body")
    },
    Table {
        values: Some(
            "position, workspace, ifnull(session, '~moved'), CASE WHEN session IS NULL THEN position ELSE seq END,
             total + octet_length(body)",
        ),
        ..alike("log", "position", "position# workspace session seq# total#")
    },
];

/// A table that is the same in the file and in the database.
const fn alike(name: &'static str, key: &'static str, columns: &'static str) -> Table {
    Table { name, from: name, key, values: None, columns }
}

impl Table {
    /// The columns with their kinds.
    fn columns(&self) -> impl Iterator<Item = (&'static str, Kind)> {
        self.columns.split(' ').map(|column| {
            let marked = [('#', Number), ('?', Flag), ('~', Words)];
            let marked = marked.into_iter().find_map(|(sign, kind)| Some((column.strip_suffix(sign)?, kind)));
            marked.unwrap_or((column, Text))
        })
    }

    /// The names of the columns, with commas between them.
    fn names(&self) -> String {
        self.columns().map(|(name, _)| name).collect::<Vec<_>>().join(", ")
    }

    /// Reads rows after the row id `after`.
    pub(super) fn read(&self, file: &Connection, after: i64, most: usize) -> rusqlite::Result<Vec<Row>> {
        let Self { key, from, .. } = self;
        let values = self.values.map_or_else(|| self.names(), str::to_owned);
        let sql = format!("SELECT {key}, {values} FROM {from} WHERE {key} > ?1 ORDER BY {key} LIMIT ?2");
        let mut statement = file.prepare_cached(&sql)?;
        let rows = statement.query_map((after, most), |row| {
            let values = (1..).zip(self.columns());
            let values = values.map(|(at, (_, kind))| Ok(text(row.get_ref(at)?, kind)));
            Ok(Row { rowid: row.get(0)?, values: values.collect::<rusqlite::Result<_>>()? })
        })?;
        rows.collect()
    }

    pub(super) async fn write(&self, client: &Client, rows: &[Row]) -> Result<(), tokio_postgres::Error> {
        let values: Vec<String> = (1..)
            .zip(self.columns())
            .map(|(at, (_, kind))| format!("${at}::text[]::{}[]", kind.name()))
            .collect();
        let sql = format!(
            "INSERT INTO baton.{} ({}) SELECT * FROM unnest({})",
            self.name,
            self.names(),
            values.join(", ")
        );
        let columns: Vec<Vec<Option<&str>>> = (0..values.len())
            .map(|at| rows.iter().map(|row| row.values.get(at).and_then(Option::as_deref)).collect())
            .collect();
        let values: Vec<(&(dyn ToSql + Sync), Type)> =
            columns.iter().map(|column| (column as _, Type::TEXT_ARRAY)).collect();
        client.execute_typed(&sql, &values).await.map(drop)
    }

    /// The columns that are compared, with their numbers.
    fn compared(&self) -> impl Iterator<Item = (usize, &'static str)> {
        let columns = self.columns().enumerate();
        columns.filter(|(_, (_, kind))| !matches!(kind, Words)).map(|(at, (name, _))| (at, name))
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
