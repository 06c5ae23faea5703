//! The users' notes about projects.

use std::collections::BTreeMap;

use protocol::project::ProjectNote;
use rusqlite::{Connection, OptionalExtension, Result, Row, types::Type};

fn read(row: &Row<'_>, column: usize) -> Result<ProjectNote> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

pub(super) fn all(connection: &Connection) -> Result<BTreeMap<String, ProjectNote>> {
    let mut query = connection.prepare_cached("SELECT project, body FROM note")?;
    query.query_map([], |row| Ok((row.get(0)?, read(row, 1)?)))?.collect()
}

/// Amends a note and returns the whole note. The caller has opened a transaction.
pub(super) fn amend(connection: &Connection, project: &str, newer: ProjectNote) -> Result<ProjectNote> {
    let mut query = connection.prepare_cached("SELECT body FROM note WHERE project = ?1")?;
    let mut note = query.query_row([project], |row| read(row, 0)).optional()?.unwrap_or_default();
    note.amend(newer);
    let body = serde_json::to_string(&note)
        .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
    connection
        .prepare_cached("INSERT INTO note VALUES (?1, ?2) ON CONFLICT (project) DO UPDATE SET body = ?2")?
        .execute([project, &body])?;
    Ok(note)
}
