//! The tables and their migrations.
//!
//! `fleet.schema` counts the [`MIGRATIONS`] that were applied. Each runs in a transaction of its own, under the log
//! lock, together with the new number. A statement may take as long as the size of its table needs.

use tokio_postgres::Client;

use super::{
    connect::{self, LOCK_LOG, OpenError, Server},
    failure::Fault,
};

/// The schema version that this program writes.
pub(super) const VERSION: usize = MIGRATIONS.len();

/// The statements that turn version n into version n + 1. Released entries are never changed.
const MIGRATIONS: &[&str] = &[
    include_str!("schema.sql"),
    include_str!("workspaces.sql"),
    include_str!("fences.sql"),
    include_str!("nodes.sql"),
    include_str!("places.sql"),
];

/// Creates or migrates the tables. Refuses a schema of a newer Baton and a schema of another program.
pub(super) async fn migrate(client: &Client, server: &Server) -> Result<(), OpenError> {
    let failed = |error| connect::refused(server, Fault::Sql(error));
    let found = version(client, server).await?;
    if found > VERSION {
        return Err(OpenError::Newer { server: server.clone(), found });
    }
    for (number, sql) in (1..).zip(MIGRATIONS).skip(found) {
        let create = if number == 1 { "CREATE SCHEMA IF NOT EXISTS baton;" } else { "" };
        let step = format!(
            "BEGIN; SET LOCAL statement_timeout = 0; {LOCK_LOG}; {create} {sql} \
             UPDATE baton.fleet SET schema = {number}; COMMIT"
        );
        client.batch_execute(&step).await.map_err(failed)?;
    }
    Ok(())
}

/// The version of the tables in the database; 0 if there are none.
async fn version(client: &Client, server: &Server) -> Result<usize, OpenError> {
    let failed = |error| connect::refused(server, Fault::Sql(error));
    let row = client
        .query_typed_one(
            "SELECT to_regclass('baton.fleet') IS NOT NULL,
                 EXISTS (SELECT FROM pg_catalog.pg_class WHERE relnamespace = to_regnamespace('baton'))",
            &[],
        )
        .await
        .map_err(failed)?;
    let (ours, tables): (bool, bool) = (row.get(0), row.get(1));
    if !ours && tables {
        return Err(OpenError::Foreign { server: server.clone() });
    }
    if !ours {
        return Ok(0);
    }
    let row = client.query_typed_one("SELECT schema FROM baton.fleet", &[]).await.map_err(failed)?;
    Ok(usize::try_from(row.get::<_, i32>(0)).unwrap_or(usize::MAX))
}
