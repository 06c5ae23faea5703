//! Writes one commit: its changes to the tables and its events to the log.

use engine::{
    limits::MAX_APPROVALS,
    ports::{Appended, Error, StoreFailure},
};
use protocol::{ApprovalId, MessageId, Millis, SessionId, WorkspaceId, prompt::Delivery};
use rusqlite::{Connection, OptionalExtension, params};

use super::search;
use crate::change::{ApprovalRow, Change, PartRow, Prepared, SessionRow, encode};

/// The end of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    /// The newest position ever assigned.
    pub(super) position: u64,
    /// Bytes of all bodies ever written, including removed ones.
    pub(super) total: u64,
}

/// The reason why a commit was not written.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The commit does not match the session's state.
    Unfit(Error),
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Refusal {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

/// Reads the end of the log from an existing database.
pub(super) fn end(connection: &Connection) -> rusqlite::Result<End> {
    let position = newest(connection)?;
    let total = connection
        .query_row("SELECT total + octet_length(body) FROM log ORDER BY position DESC LIMIT 1", [], |row| {
            row.get(0)
        })
        .optional()?
        .unwrap_or(0);
    Ok(End { position, total })
}

/// The newest position ever assigned, even if its event was removed.
pub(super) fn newest(connection: &Connection) -> rusqlite::Result<u64> {
    let newest = connection
        .prepare_cached("SELECT seq FROM sqlite_sequence WHERE name = 'log'")?
        .query_row([], |row| row.get::<_, u64>(0))
        .optional()?;
    Ok(newest.unwrap_or(0))
}

/// Writes commits and returns the numbers of the last. The caller has opened a transaction and rolls it back if this
/// fails.
pub(super) fn write_all(
    connection: &Connection,
    commits: &[Prepared],
    end: End,
    now: Millis,
) -> Result<(Appended, End), Refusal> {
    let nothing = Appended { head: 0, position: end.position };
    commits.iter().try_fold((nothing, end), |(_, end), commit| write(connection, commit, end, now))
}

fn write(
    connection: &Connection,
    commit: &Prepared,
    end: End,
    now: Millis,
) -> Result<(Appended, End), Refusal> {
    let session = &commit.session;
    let mut alive = accept(connection, commit)?;
    let mut end = end;
    let mut head = commit.expected;
    for entry in &commit.entries {
        let json = std::str::from_utf8(&entry.json).map_err(|_| {
            let message = format!("an event of session {session} is not UTF-8");
            Refusal::Unfit(Error::new(StoreFailure::Corrupt, message))
        })?;
        head += 1;
        end.position += 1;
        match &entry.change {
            Change::SessionSaved { row, .. } => {
                save_session(connection, commit, row)?;
                alive = true;
            }
            Change::SessionDeleted => {
                delete_session(connection, session)?;
                alive = false;
            }
            // Events after the deletion of their session change nothing.
            change if alive => apply(connection, commit, change, end.position)?,
            _ => {}
        }
        connection
            .prepare_cached(
                "INSERT INTO log (position, session, seq, workspace, directory, project, at, total, body)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                end.position,
                alive.then_some(session.as_str()),
                head,
                commit.workspace.as_str(),
                commit.directory,
                commit.project,
                now,
                end.total,
                json,
            ])?;
        end.total += json.len() as u64;
    }
    if alive && !commit.entries.is_empty() {
        connection
            .prepare_cached("UPDATE session SET head = ?2 WHERE id = ?1")?
            .execute(params![session.as_str(), head])?;
    }
    Ok((Appended { head, position: end.position }, end))
}

/// Saves the text of a part, unless it was closed or removed meanwhile.
pub(super) fn checkpoint(connection: &Connection, part: &PartRow) -> rusqlite::Result<()> {
    connection
        .prepare_cached(
            "UPDATE part SET body = ?4 WHERE session = ?1 AND message = ?2 AND id = ?3 AND open = 1",
        )?
        .execute(params![part.session.as_str(), part.message.as_str(), part.id.as_str(), part.body])?;
    Ok(())
}

/// Deletes an approval; returns true if it existed.
pub(super) fn forget(connection: &Connection, approval: &ApprovalId) -> rusqlite::Result<bool> {
    let forgotten =
        connection.prepare_cached("DELETE FROM approval WHERE id = ?1")?.execute([approval.as_str()])?;
    Ok(forgotten > 0)
}

/// Stores an approval, and drops a workspace's oldest ones above the limit.
fn approve(connection: &Connection, workspace: &WorkspaceId, row: &ApprovalRow) -> rusqlite::Result<()> {
    let workspace = workspace.as_str();
    connection
        .prepare_cached(
            "INSERT INTO approval (id, workspace, directory, permission, pattern, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING",
        )?
        .execute(params![row.id, workspace, row.directory, row.permission, row.pattern, row.body])?;
    connection
        .prepare_cached(
            "DELETE FROM approval WHERE number IN (
                 SELECT number FROM approval WHERE workspace = ?1 ORDER BY number DESC LIMIT -1 OFFSET ?2)",
        )?
        .execute(params![workspace, MAX_APPROVALS])?;
    Ok(())
}

/// Permutes open prompts: the places that those in `order` have now are given out again in its order.
fn rearrange(connection: &Connection, session: &str, order: &[(MessageId, String)]) -> rusqlite::Result<()> {
    let mut places = Vec::with_capacity(order.len());
    let mut known = Vec::with_capacity(order.len());
    let mut place =
        connection.prepare_cached("SELECT accepted FROM prompt WHERE session = ?1 AND message = ?2")?;
    for (message, delivery) in order {
        let found = place.query_row([session, message.as_str()], |row| row.get::<_, i64>(0)).optional()?;
        if let Some(accepted) = found {
            places.push(accepted);
            known.push((message, delivery));
        }
    }
    places.sort_unstable();
    let mut put = connection.prepare_cached(
        "UPDATE prompt SET accepted = ?3, delivery = ?4 WHERE session = ?1 AND message = ?2",
    )?;
    for ((message, delivery), accepted) in known.into_iter().zip(places) {
        put.execute(params![session, message.as_str(), accepted, delivery])?;
    }
    Ok(())
}

/// Checks that the commit continues its session. Returns true if the session exists.
fn accept(connection: &Connection, commit: &Prepared) -> Result<bool, Refusal> {
    let session = &commit.session;
    let conflict = |message| Refusal::Unfit(Error::new(StoreFailure::Conflict, message));
    let head = connection
        .prepare_cached("SELECT head FROM session WHERE id = ?1")?
        .query_row([session.as_str()], |row| row.get::<_, u64>(0))
        .optional()?;
    if head.is_none() && !commit.creates() {
        return Err(conflict(format!("session {session} does not exist")));
    }
    let exists = head.is_some();
    let (head, expected) = (head.unwrap_or(0), commit.expected);
    if head != expected {
        return Err(conflict(format!("session {session} has {head} events, the writer expected {expected}")));
    }
    Ok(exists)
}

fn save_session(connection: &Connection, commit: &Prepared, row: &SessionRow) -> rusqlite::Result<()> {
    // SQLite writes an index again when a statement sets one of its columns, even to the same value. The parent and the
    // workspace of a session hardly ever change.
    put(
        connection,
        [
            "INSERT INTO session
                 (id, head, project, directory, path, parent, title, created, updated, body, workspace)
             VALUES (?1, 0, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT DO UPDATE SET project = ?2, directory = ?3, path = ?4, title = ?6, created = ?7,
                 updated = ?8, body = ?9
             WHERE parent IS ?5 AND workspace = ?10",
            "UPDATE session SET project = ?2, directory = ?3, path = ?4, parent = ?5, title = ?6, created = ?7,
                 updated = ?8, body = ?9, workspace = ?10
             WHERE id = ?1",
        ],
        params![
            commit.session.as_str(),
            row.project,
            row.directory,
            row.path,
            row.parent.as_ref().map(SessionId::as_str),
            row.title,
            row.created,
            row.updated,
            row.body,
            commit.workspace.as_str(),
        ],
    )
}

/// Inserts or updates a row. The first statement leaves a row alone if indexed columns change; then the second one
/// updates it.
fn put(
    connection: &Connection,
    [usual, moved]: [&str; 2],
    values: &[&dyn rusqlite::ToSql],
) -> rusqlite::Result<()> {
    if connection.prepare_cached(usual)?.execute(values)? == 0 {
        connection.prepare_cached(moved)?.execute(values)?;
    }
    Ok(())
}

fn delete_session(connection: &Connection, id: &SessionId) -> rusqlite::Result<()> {
    search::remove_session(connection, id.as_str())?;
    for sql in [
        "DELETE FROM session WHERE id = ?1",
        "DELETE FROM message WHERE session = ?1",
        "DELETE FROM part WHERE session = ?1",
        "DELETE FROM todo WHERE session = ?1",
        "DELETE FROM status WHERE session = ?1",
        "DELETE FROM request WHERE session = ?1",
        "DELETE FROM prompt WHERE session = ?1",
        "DELETE FROM withdrawn WHERE session = ?1",
        "DELETE FROM log WHERE session = ?1",
    ] {
        connection.prepare_cached(sql)?.execute([id.as_str()])?;
    }
    Ok(())
}

/// Changes one table of an existing session. `position` is the event's position in the log.
fn apply(connection: &Connection, commit: &Prepared, change: &Change, position: u64) -> Result<(), Refusal> {
    let session = commit.session.as_str();
    let run = |sql, values: &[&dyn rusqlite::ToSql]| -> rusqlite::Result<()> {
        connection.prepare_cached(sql)?.execute(values).map(drop)
    };
    match change {
        Change::None | Change::SessionSaved { .. } | Change::SessionDeleted => Ok(()),
        Change::MessageSaved { id, created, answers, open, body } => put(
            connection,
            [
                "INSERT INTO message (session, id, created, answers, open, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
                 ON CONFLICT DO UPDATE SET answers = ?4, open = ?5, body = ?6 WHERE created = ?3",
                "UPDATE message SET created = ?3, answers = ?4, open = ?5, body = ?6
                 WHERE session = ?1 AND id = ?2",
            ],
            params![session, id.as_str(), created, answers.as_ref().map(MessageId::as_str), open, body],
        ),
        Change::MessageRemoved(id) => {
            search::remove_message(connection, session, id.as_str())?;
            run("DELETE FROM part WHERE session = ?1 AND message = ?2", params![session, id.as_str()])?;
            run("DELETE FROM message WHERE session = ?1 AND id = ?2", params![session, id.as_str()])
        }
        Change::PartSaved(part) => {
            run(
                "INSERT INTO part (session, message, id, open, body) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT DO UPDATE SET open = ?4, body = ?5",
                params![session, part.message.as_str(), part.id.as_str(), part.open, part.body],
            )?;
            search::save(
                connection,
                [session, part.message.as_str(), part.id.as_str()],
                part.searchable.as_deref(),
            )
        }
        Change::PartRemoved(message, id) => {
            search::save(connection, [session, message.as_str(), id.as_str()], None)?;
            run(
                "DELETE FROM part WHERE session = ?1 AND message = ?2 AND id = ?3",
                params![session, message.as_str(), id.as_str()],
            )
        }
        Change::Seen(cursor) => run("UPDATE session SET seen = ?2 WHERE id = ?1", params![session, cursor]),
        Change::Todos(body) => run(
            "INSERT INTO todo (session, body) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET body = ?2",
            params![session, body],
        ),
        Change::Busy(body) => run(
            "INSERT INTO status (session, body) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET body = ?2",
            params![session, body],
        ),
        Change::Idle => run("DELETE FROM status WHERE session = ?1", params![session]),
        Change::Asked { id, kind, body } => run(
            "INSERT INTO request (session, id, asked, kind, body) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET kind = ?4, body = ?5",
            params![session, id, position, kind, body],
        ),
        Change::Answered(id) => {
            run("DELETE FROM request WHERE session = ?1 AND id = ?2", params![session, id])
        }
        Change::Permitted { id, saved } => {
            run("DELETE FROM request WHERE session = ?1 AND id = ?2", params![session, id])?;
            saved.iter().try_for_each(|row| approve(connection, &commit.workspace, row))
        }
        Change::PromptQueued(message, delivery) => run(
            "INSERT INTO prompt (session, message, accepted, delivery, started) VALUES (?1, ?2, ?3, ?4, 0)
             ON CONFLICT DO UPDATE SET delivery = ?4",
            params![session, message.as_str(), position, delivery],
        ),
        Change::PromptStarted(message) => run(
            "INSERT INTO prompt (session, message, accepted, delivery, started) VALUES (?1, ?2, ?3, ?4, 1)
             ON CONFLICT DO UPDATE SET started = 1",
            params![
                session,
                message.as_str(),
                position,
                encode(&Delivery::default()).map_err(Refusal::Unfit)?
            ],
        ),
        Change::PromptEnded(message) => {
            run("DELETE FROM prompt WHERE session = ?1 AND message = ?2", params![session, message.as_str()])
        }
        Change::PromptWithdrawn(message) => {
            run(
                "DELETE FROM prompt WHERE session = ?1 AND message = ?2",
                params![session, message.as_str()],
            )?;
            run(
                "INSERT INTO withdrawn (session, message) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                params![session, message.as_str()],
            )
        }
        Change::Queue(order) => rearrange(connection, session, order),
    }?;
    Ok(())
}
