//! The users' notes about projects.

use std::collections::BTreeMap;

use protocol::project::ProjectNote;
use tokio_postgres::{Client, types::Type};

use super::{
    failure::Fault,
    query::{Found, column, json},
    text::storable,
};

pub(super) async fn all(client: &Client) -> Found<BTreeMap<String, ProjectNote>> {
    let rows = client.query_typed("SELECT project, body FROM note", &[]).await?;
    rows.iter().map(|row| Ok((column(row, 0)?, json(row, 1)?))).collect()
}

/// Amends a note and returns the whole note. The caller has opened a transaction.
pub(super) async fn amend(client: &Client, project: &str, newer: ProjectNote) -> Found<ProjectNote> {
    let project = storable(project);
    let sql = "SELECT body FROM note WHERE project = $1 FOR UPDATE";
    let row = client.query_typed_opt(sql, &[(&project, Type::TEXT)]).await?;
    let mut note: ProjectNote = row.map(|row| json(&row, 0)).transpose()?.unwrap_or_default();
    note.amend(newer);
    let body = serde_json::to_string(&note).map_err(|error| Fault::Odd(error.to_string()))?;
    let sql = "INSERT INTO note VALUES ($1, $2) ON CONFLICT (project) DO UPDATE SET body = $2";
    client.query_typed(sql, &[(&project, Type::TEXT), (&body, Type::TEXT)]).await?;
    Ok(note)
}
