//! Copies the record of a SQLite file into an empty Postgres database.
//!
//! Everything is copied in one transaction and compared before it is committed, so an interrupted copy leaves nothing
//! behind. The file is not changed, except for a mark that keeps servers from using it again.

mod tables;

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use tokio_postgres::Client;

use crate::{
    postgres::{self, OpenError, Server, Target},
    sqlite::{self, File},
};
use tables::{TABLES, Table};

/// Rows that are copied by one statement.
const ROWS: usize = 500;

/// The result of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copied {
    pub sessions: u64,
    pub messages: u64,
    /// Events of the log.
    pub events: u64,
}

/// The reason why a record was not copied. The database is as it was before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    File(#[from] sqlite::OpenError),
    #[error(transparent)]
    Database(#[from] OpenError),
    #[error("{} does not exist", path.display())]
    Missing { path: PathBuf },
    #[error("{server} already contains a record; choose an empty database; nothing was changed")]
    NotEmpty { server: Server },
    #[error("{} could not be read", path.display())]
    Read { path: PathBuf, source: rusqlite::Error },
    #[error("{server} did not accept the rows of the table {table}: {detail}; nothing was copied")]
    Write { server: Server, table: &'static str, detail: String },
    #[error("the table {table} of {server} differs from the file after the copy; nothing was copied")]
    Differs { server: Server, table: &'static str },
    #[error("the record was copied, but {} could not be marked as moved; do not start a server with it", path.display())]
    Mark { path: PathBuf, source: rusqlite::Error },
}

/// Copies the file at `from` into the database at `url`. No server may use either of them.
pub async fn migrate(from: &Path, url: &str) -> Result<Copied, Error> {
    let path = || from.to_path_buf();
    if !from.exists() {
        return Err(Error::Missing { path: path() });
    }
    let target = Target::parse(url)?;
    let file = File::open(from)?;
    let (client, _) = target.open().await?;
    let copy = Copy { file: file.connection(), from, client: &client, server: &target.server };
    copy.refuse_record().await?;
    let copied = copy.run().await?;
    file.mark_moved().map_err(|source| Error::Mark { path: path(), source })?;
    Ok(copied)
}

struct Copy<'a> {
    file: &'a Connection,
    from: &'a Path,
    client: &'a Client,
    server: &'a Server,
}

impl Copy<'_> {
    async fn refuse_record(&self) -> Result<(), Error> {
        let sql = "SELECT EXISTS (SELECT FROM baton.session) OR EXISTS (SELECT FROM baton.log)
            OR EXISTS (SELECT FROM baton.note) OR EXISTS (SELECT FROM baton.approval)";
        let row = self.client.query_typed_one(sql, &[]).await.map_err(self.failed("session"))?;
        if row.get(0) { Err(Error::NotEmpty { server: self.server.clone() }) } else { Ok(()) }
    }

    async fn run(&self) -> Result<Copied, Error> {
        let begin =
            "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
        self.execute("fleet", begin).await?;
        let mut counts = Vec::new();
        for table in TABLES {
            counts.push((table.name, self.table(table).await?));
        }
        self.finish().await?;
        let count = |name| counts.iter().find(|(table, _)| *table == name).map_or(0, |(_, count)| *count);
        Ok(Copied { sessions: count("session"), messages: count("message"), events: count("event") })
    }

    /// Copies a table and compares the copy with the file. Returns the number of rows.
    async fn table(&self, table: &'static Table) -> Result<u64, Error> {
        let (mut after, mut expected) = (i64::MIN, tables::Digest::default());
        loop {
            let rows = table.read(self.file, after, ROWS).map_err(self.unreadable())?;
            let Some(last) = rows.last() else { break };
            after = last.rowid;
            for row in &rows {
                table.count(&mut expected, row);
            }
            table.write(self.client, &rows).await.map_err(self.failed(table.name))?;
        }
        let found = table.digest(self.client).await.map_err(self.failed(table.name))?;
        if found != expected {
            return Err(Error::Differs { server: self.server.clone(), table: table.name });
        }
        Ok(expected.rows)
    }

    /// Sets the counters that new rows continue, and commits.
    async fn finish(&self) -> Result<(), Error> {
        let number = |sql: &str| self.file.query_row(sql, [], |row| row.get::<_, i64>(0));
        let trimmed = number("SELECT trimmed FROM retention").map_err(self.unreadable())?;
        let newest = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'log'), 0)";
        let newest = number(newest).map_err(self.unreadable())?;
        // The next position follows from the newest row, so there must be one even if its event is gone.
        let finish = format!(
            "UPDATE baton.fleet SET trimmed = {trimmed};
             INSERT INTO baton.log (position, seq, total) SELECT {newest}, 0,
                 coalesce((SELECT max(total) FROM baton.log), 0) WHERE {newest} > 0 ON CONFLICT DO NOTHING;
             SELECT setval(pg_get_serial_sequence('baton.request', 'asked'), greatest({newest}, 1));
             SELECT setval(pg_get_serial_sequence('baton.approval', 'number'),
                 (SELECT coalesce(max(number), 1) FROM baton.approval));
             SELECT setval(pg_get_serial_sequence('baton.notice', 'number'),
                 (SELECT coalesce(max(number), 1) FROM baton.notice));
             COMMIT"
        );
        self.execute("log", &finish).await
    }

    async fn execute(&self, table: &'static str, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql).await.map_err(self.failed(table))
    }

    fn failed(&self, table: &'static str) -> impl Fn(tokio_postgres::Error) -> Error {
        let server = self.server.clone();
        move |error| Error::Write { server: server.clone(), table, detail: postgres::describe(&error) }
    }

    fn unreadable(&self) -> impl Fn(rusqlite::Error) -> Error {
        let path = self.from.to_path_buf();
        move |source| Error::Read { path: path.clone(), source }
    }
}

#[cfg(test)]
mod tests;
