//! The nodes and workspaces of a fleet, as users see them.

use engine::ports::Error;
use protocol::{
    Rest,
    fleet::{FleetNode, FleetWorkspace, NodeState},
};
use tokio_postgres::Row;

use super::{
    nodes::Nodes,
    query::{Found, column, count, id},
};

/// The server that has the database for itself is no node. A node that gave its directories back counts them as its own.
pub(super) const NODES: &str = "
    WITH home AS (
        SELECT workspace.home AS node, count(*) AS workspaces,
            sum((SELECT count(*) FROM status JOIN session ON session.id = status.session
                WHERE session.workspace = workspace.id)) AS busy,
            sum((SELECT count(*) FROM prompt JOIN session ON session.id = prompt.session
                WHERE session.workspace = workspace.id AND NOT prompt.started)) AS waiting
        FROM workspace WHERE workspace.home IS NOT NULL GROUP BY workspace.home)
    SELECT node.id, CASE WHEN node.state = 'up' AND node.drain THEN 'draining' ELSE node.state END, node.address,
        node.version, (extract(epoch FROM clock_timestamp() - node.beaten) * 1000)::bigint,
        coalesce(home.workspaces, 0)::bigint, coalesce(home.busy, 0)::bigint, coalesce(home.waiting, 0)::bigint,
        ARRAY(SELECT DISTINCT workspace.home FROM workspace
            WHERE workspace.owner = node.id AND workspace.custody ORDER BY workspace.home)
    FROM node LEFT JOIN home ON home.node = node.id WHERE node.id <> 'single' ORDER BY node.id";

pub(super) const WORKSPACES: &str = "
    SELECT workspace.id, workspace.path, workspace.home, workspace.owner, workspace.custody,
        (SELECT count(*) FROM status JOIN session ON session.id = status.session
            WHERE session.workspace = workspace.id),
        (SELECT count(*) FROM prompt JOIN session ON session.id = prompt.session
            WHERE session.workspace = workspace.id AND NOT prompt.started)
    FROM workspace ORDER BY workspace.path, workspace.home LIMIT 10000";

/// Reads rows, and describes a row that cannot be read.
pub(super) fn read<T>(rows: &[Row], one: fn(&Row) -> Found<T>, nodes: &Nodes) -> Result<Vec<T>, Error> {
    rows.iter().map(one).collect::<Found<_>>().map_err(|fault| nodes.failed(&fault))
}

pub(super) fn node(row: &Row) -> Found<FleetNode> {
    let state = match column(row, 1)? {
        "up" => NodeState::Up,
        "draining" => NodeState::Draining,
        _ => NodeState::Away,
    };
    let beat: Option<i64> = column(row, 4)?;
    Ok(FleetNode {
        name: column(row, 0)?,
        state,
        address: column(row, 2)?,
        version: column(row, 3)?,
        // A clock that was set back shows no time in the future.
        beat: beat.map(|beat| u64::try_from(beat).unwrap_or(0)),
        workspaces: count(row, 5)?,
        busy: count(row, 6)?,
        waiting: count(row, 7)?,
        custody: column(row, 8)?,
        extra: Rest::NONE,
    })
}

pub(super) fn workspace(row: &Row) -> Found<FleetWorkspace> {
    Ok(FleetWorkspace {
        id: id(row, 0)?,
        directory: column(row, 1)?,
        node: column(row, 2)?,
        owner: column(row, 3)?,
        custody: column(row, 4)?,
        busy: count(row, 5)?,
        waiting: count(row, 6)?,
        extra: Rest::NONE,
    })
}
