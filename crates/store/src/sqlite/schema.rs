//! The tables, from the first version on.
//!
//! `user_version` counts the [`MIGRATIONS`] that were applied to a file. Migrations run *before* the write-ahead
//! log is switched on, each in a transaction of its own: the version in the file's header is therefore always
//! correct, and an older program can refuse a file by reading its first hundred bytes.

use engine::ports::{Alone, own_workspace};
use rusqlite::Connection;

/// Identifies Baton's SQLite files: "Batn".
pub(super) const APPLICATION: u32 = u32::from_be_bytes(*b"Batn");

/// Identifies a file whose record was moved to another store: `BatM`.
pub(super) const MOVED: u32 = u32::from_be_bytes(*b"BatM");

/// The schema version that this program writes.
#[expect(clippy::cast_possible_truncation, reason = "a handful")]
pub(super) const VERSION: u32 = MIGRATIONS.len() as u32;

/// The statements that turn version n into version n + 1. Released entries are never changed.
const MIGRATIONS: &[&str] = &[V1, V2, V3, V4, V5, V6, V7, V8];

/// Bodies are JSON as encoded for the wire; the other columns are for searching. `title` is in lower case. The
/// program deletes the rows of a session together with it, including its events except the deletion itself, which
/// then belongs to no session.
///
/// In `log`, `total` is the number of body bytes before the row and `at` the time of the commit: retention compares
/// a row with the newest one and never has to count the table.
const V1: &str = "
    CREATE TABLE session (
        id TEXT NOT NULL PRIMARY KEY,
        head INTEGER NOT NULL,
        project TEXT NOT NULL,
        directory TEXT NOT NULL,
        path TEXT,
        parent TEXT,
        title TEXT NOT NULL,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        body TEXT NOT NULL
    ) STRICT;
    CREATE INDEX session_updated ON session (updated DESC, id);
    CREATE INDEX session_parent ON session (parent) WHERE parent IS NOT NULL;

    CREATE TABLE message (
        session TEXT NOT NULL,
        id TEXT NOT NULL,
        created INTEGER NOT NULL,
        answers TEXT,
        open INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (session, id)
    ) STRICT;
    CREATE INDEX message_order ON message (session, created, id);
    CREATE INDEX message_open ON message (session) WHERE open = 1;

    CREATE TABLE part (
        session TEXT NOT NULL,
        message TEXT NOT NULL,
        id TEXT NOT NULL,
        open INTEGER NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (session, message, id)
    ) STRICT;
    CREATE INDEX part_open ON part (session, message) WHERE open = 1;

    CREATE TABLE todo (session TEXT NOT NULL PRIMARY KEY, body TEXT NOT NULL) STRICT;

    CREATE TABLE status (session TEXT NOT NULL PRIMARY KEY, body TEXT NOT NULL) STRICT;

    CREATE TABLE request (
        session TEXT NOT NULL,
        id TEXT NOT NULL,
        asked INTEGER NOT NULL,
        kind TEXT NOT NULL,
        body TEXT NOT NULL,
        PRIMARY KEY (session, id)
    ) STRICT;

    CREATE TABLE prompt (
        session TEXT NOT NULL,
        message TEXT NOT NULL,
        accepted INTEGER NOT NULL,
        delivery TEXT NOT NULL,
        started INTEGER NOT NULL,
        PRIMARY KEY (session, message)
    ) STRICT;

    CREATE TABLE log (
        position INTEGER PRIMARY KEY AUTOINCREMENT,
        session TEXT,
        seq INTEGER NOT NULL,
        directory TEXT NOT NULL,
        project TEXT NOT NULL,
        at INTEGER NOT NULL,
        total INTEGER NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (session, seq)
    ) STRICT;
    CREATE INDEX log_directory ON log (directory);

    CREATE TABLE retention (trimmed INTEGER NOT NULL) STRICT;
    INSERT INTO retention VALUES (0);
";

/// The users' notes about projects. They belong to no session and outlive sessions.
const V2: &str = "CREATE TABLE note (project TEXT NOT NULL PRIMARY KEY, body TEXT NOT NULL) STRICT;";

/// Approvals; `number` is their order.
const V3: &str = "
    CREATE TABLE approval (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        directory TEXT NOT NULL,
        permission TEXT NOT NULL,
        pattern TEXT NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (directory, permission, pattern)
    ) STRICT;
";

/// Notices for receivers, and the position up to which the log was read for them. `number` is their order.
const V4: &str = "
    CREATE TABLE notice (
        number INTEGER PRIMARY KEY,
        receiver TEXT NOT NULL,
        session TEXT NOT NULL,
        id TEXT NOT NULL,
        created INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        due INTEGER NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (receiver, id)
    ) STRICT;
    CREATE INDEX notice_order ON notice (receiver, session, number);
    CREATE TABLE outbox (read_upto INTEGER NOT NULL) STRICT;
";

/// Prompts that a client withdrew while they waited. A late repetition of such a prompt must not bring it back.
const V5: &str = "
    CREATE TABLE withdrawn (
        session TEXT NOT NULL,
        message TEXT NOT NULL,
        PRIMARY KEY (session, message)
    ) STRICT;
";

/// The position in the log up to which the user has seen a session.
const V6: &str = "ALTER TABLE session ADD COLUMN seen INTEGER;";

/// The full-text index over what users and models have said, filled from the existing parts; see [`super::search`].
const V7: &str = "
    CREATE TABLE said (
        number INTEGER PRIMARY KEY,
        session TEXT NOT NULL,
        message TEXT NOT NULL,
        part TEXT NOT NULL,
        UNIQUE (session, message, part)
    ) STRICT;
    CREATE VIRTUAL TABLE said_words USING fts5(
        text, content = '', contentless_delete = 1, tokenize = 'unicode61 remove_diacritics 0'
    );
    INSERT INTO said (session, message, part)
        SELECT part.session, part.message, part.id
        FROM part LEFT JOIN message ON message.session = part.session AND message.id = part.message
        WHERE part.open = 0 AND part.body ->> '$.type' = 'text' AND part.body ->> '$.text' <> ''
            AND ifnull(part.body ->> '$.synthetic', 0) = 0 AND ifnull(part.body ->> '$.ignored', 0) = 0
        ORDER BY message.created, part.id;
    INSERT INTO said_words (rowid, text)
        SELECT said.number, part.body ->> '$.text'
        FROM said JOIN part
            ON part.session = said.session AND part.message = said.message AND part.id = said.part;
";

/// The workspaces of sessions, approvals and events. Until this version a directory stood for itself; the temporary
/// table `place` has the workspaces of all directories (see [`places`]).
const V8: &str = "
    ALTER TABLE session ADD COLUMN workspace TEXT NOT NULL DEFAULT '';
    UPDATE session SET workspace = (SELECT workspace FROM place WHERE place.directory = session.directory);
    CREATE INDEX session_workspace ON session (workspace);

    DROP INDEX log_directory;
    ALTER TABLE log ADD COLUMN workspace TEXT NOT NULL DEFAULT '';
    UPDATE log SET workspace = (SELECT workspace FROM place WHERE place.directory = log.directory);
    CREATE INDEX log_workspace ON log (workspace);

    ALTER TABLE approval RENAME TO approval_of_directories;
    CREATE TABLE approval (
        number INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        workspace TEXT NOT NULL,
        directory TEXT NOT NULL,
        permission TEXT NOT NULL,
        pattern TEXT NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (workspace, permission, pattern)
    ) STRICT;
    INSERT INTO approval
        SELECT number, id, place.workspace, old.directory, permission, pattern, body
        FROM approval_of_directories AS old JOIN place ON place.directory = old.directory;
    DROP TABLE approval_of_directories;
";

/// The version whose migration needs the table `place`.
const WORKSPACES: u32 = 8;

/// Fills a temporary table with the workspaces of all directories. SQLite cannot derive their ids.
fn places(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "CREATE TEMP TABLE place (directory TEXT NOT NULL PRIMARY KEY, workspace TEXT NOT NULL)",
    )?;
    let known =
        "SELECT directory FROM session UNION SELECT directory FROM log UNION SELECT directory FROM approval";
    let known =
        connection.prepare(known)?.query_map([], |row| row.get(0))?.collect::<Result<Vec<String>, _>>()?;
    let mut insert = connection.prepare("INSERT INTO place VALUES (?1, ?2)")?;
    for directory in known {
        insert.execute([&directory, own_workspace(Alone::NODE, &directory).as_str()])?;
    }
    Ok(())
}

/// The schema version of an open database.
pub(super) fn version(connection: &Connection) -> rusqlite::Result<u32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Migrates a database to [`VERSION`]; a new file has version 0.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let found = version(connection)?;
    if found >= VERSION {
        return Ok(());
    }
    connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(()))?;
    let steps: Vec<_> = (0..).zip(MIGRATIONS).filter(|(from, _)| *from >= found).collect();
    // Each step of an existing file is kept if the next one fails. A new file is created at once, because each
    // transaction waits four times for the disk.
    let together = if found == 0 { steps.len() } else { 1 };
    for steps in steps.chunks(together) {
        let transaction = connection.transaction()?;
        for (from, sql) in steps {
            if from + 1 == WORKSPACES {
                places(&transaction)?;
            }
            transaction.execute_batch(sql)?;
            transaction.pragma_update(None, "application_id", APPLICATION)?;
            transaction.pragma_update(None, "user_version", from + 1)?;
        }
        transaction.commit()?;
    }
    connection.execute_batch("DROP TABLE IF EXISTS temp.place")
}
