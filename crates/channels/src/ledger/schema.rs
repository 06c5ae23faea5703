//! The ledger's tables and their migrations.

use std::path::Path;

use rusqlite::Connection;

use super::{Error, file};

/// Each entry migrates the file from the previous version to its own.
const MIGRATIONS: &[&str] = &[
    "
CREATE TABLE updates (
    id       INTEGER PRIMARY KEY,
    channel  TEXT NOT NULL,
    name     TEXT NOT NULL,
    alias    TEXT,
    place    TEXT NOT NULL,
    body     TEXT NOT NULL,
    received INTEGER NOT NULL,
    state    TEXT NOT NULL DEFAULT 'waiting',
    attempts INTEGER NOT NULL DEFAULT 0,
    due      INTEGER NOT NULL DEFAULT 0,
    session  TEXT,
    prompt   TEXT,
    UNIQUE (channel, name)
);
CREATE UNIQUE INDEX updates_alias ON updates (channel, alias) WHERE alias IS NOT NULL;
CREATE INDEX updates_open ON updates (place, id) WHERE state IN ('waiting', 'running');
CREATE INDEX updates_heard ON updates (place, received);
CREATE INDEX updates_old ON updates (received) WHERE state IN ('done', 'aside');
CREATE TABLE posts (
    id       INTEGER PRIMARY KEY,
    place    TEXT NOT NULL,
    at       TEXT NOT NULL,
    body     TEXT NOT NULL,
    state    TEXT NOT NULL DEFAULT 'waiting',
    attempts INTEGER NOT NULL DEFAULT 0,
    due      INTEGER NOT NULL DEFAULT 0,
    created  INTEGER NOT NULL,
    sent     TEXT
);
CREATE INDEX posts_open ON posts (place, id) WHERE state IN ('waiting', 'sending');
CREATE INDEX posts_held ON posts (place) WHERE state = 'held';
CREATE INDEX posts_old ON posts (created) WHERE state NOT IN ('waiting', 'sending');
CREATE TABLE places (
    place TEXT PRIMARY KEY,
    body  TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE asks (
    id      INTEGER PRIMARY KEY,
    request TEXT NOT NULL UNIQUE,
    place   TEXT NOT NULL,
    body    TEXT NOT NULL,
    post    INTEGER,
    is_open INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX asks_open ON asks (place, id) WHERE is_open;
CREATE TABLE people (
    channel TEXT NOT NULL,
    person  TEXT NOT NULL,
    name    TEXT NOT NULL,
    prompt  INTEGER NOT NULL,
    approve INTEGER NOT NULL,
    PRIMARY KEY (channel, person)
) WITHOUT ROWID;
CREATE TABLE codes (
    digest  BLOB PRIMARY KEY,
    expires INTEGER NOT NULL,
    approve INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE guesses (
    channel TEXT NOT NULL,
    person  TEXT NOT NULL,
    since   INTEGER NOT NULL,
    count   INTEGER NOT NULL,
    PRIMARY KEY (channel, person)
) WITHOUT ROWID;
CREATE TABLE bookmarks (
    channel TEXT PRIMARY KEY,
    value   TEXT NOT NULL
) WITHOUT ROWID;
",
    "
CREATE INDEX places_session ON places (json_extract(body, '$.session'));
CREATE INDEX updates_running ON updates (session) WHERE state = 'running';
",
    "
CREATE TABLE shown (
    place TEXT PRIMARY KEY,
    at    TEXT NOT NULL,
    sent  TEXT NOT NULL
) WITHOUT ROWID;
",
    "
CREATE TABLE moves (
    place TEXT PRIMARY KEY,
    at    TEXT NOT NULL
) WITHOUT ROWID;
",
    "
CREATE TABLE channels (
    name TEXT PRIMARY KEY,
    body TEXT NOT NULL
) WITHOUT ROWID;
",
];

/// Opens or creates the file, readable by its owner alone, and migrates it.
pub(super) fn open(path: &Path) -> Result<Connection, Error> {
    private(path)?;
    let connection = Connection::open(path)?;
    connection.busy_timeout(std::time::Duration::from_secs(5))?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    // The ledger is the only copy of an acknowledged update.
    connection.pragma_update(None, "synchronous", "full")?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    let version: usize = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if version > MIGRATIONS.len() {
        return Err(Error::Newer(path.to_owned()));
    }
    for migration in MIGRATIONS.iter().skip(version) {
        connection.execute_batch(migration)?;
    }
    connection.pragma_update(None, "user_version", MIGRATIONS.len())?;
    connection.execute_batch("COMMIT")?;
    Ok(connection)
}

/// Creates the file readable by its owner alone, because it holds users' messages.
fn private(path: &Path) -> Result<(), Error> {
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop).map_err(|error| file(path, &error))
}
