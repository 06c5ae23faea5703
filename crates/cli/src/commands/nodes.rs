//! `baton nodes`: shows the nodes that share a database, and lets one take no new work.

use std::time::Duration;

use client::Client;
use protocol::fleet::{FleetNode, FleetWorkspace};

use crate::{
    age,
    args::{Nodes, NodesAction, Target},
    environment,
    exit::{Exit, Failure},
    terminal,
    wiring::{address, places_in},
};

/// Runs the command.
pub(crate) async fn nodes(options: Nodes) -> Result<Exit, Failure> {
    let client = server(&options.target)?;
    match &options.action {
        Some(NodesAction::Drain(node)) => drop(client.drain_node(&node.name).await?),
        Some(NodesAction::Resume(node)) => drop(client.resume_node(&node.name).await?),
        None if options.workspaces => print(&client.workspaces().await?, options.json, places)?,
        None => {
            let found = client.nodes().await?;
            if found.is_empty() {
                terminal::note("this server is no node: it has its sessions for itself");
            }
            print(&found, options.json, table)?;
        }
    }
    Ok(Exit::Completed)
}

/// The server at `--attach`, or that of the data directory.
fn server(target: &Target) -> Result<Client, Failure> {
    let found = match &target.attach {
        Some(address) => Some(address.clone()),
        None => address(&places_in(target.data_dir.as_deref())?),
    };
    let found = found.ok_or_else(|| {
        Failure::usage("no server of this data directory runs")
            .hint("--attach URL asks any node of the fleet")
    })?;
    environment::client(&found)
}

fn print<T: serde::Serialize>(found: &[T], json: bool, show: fn(&[T]) -> String) -> Result<(), Failure> {
    let text = if json {
        serde_json::to_string_pretty(found).map_err(|error| Failure::error(error.to_string()))? + "\n"
    } else {
        show(found)
    };
    terminal::write(&text).map_err(|error| Failure::error(format!("cannot print the list: {error}")))
}

/// One line per node.
fn table(nodes: &[FleetNode]) -> String {
    let line = |node: &FleetNode| {
        let mut holds = vec!["its own directories".to_owned()];
        holds.extend((!node.custody.is_empty()).then(|| format!("custody: {}", node.custody.join(", "))));
        [
            node.name.clone(),
            node.state.as_str().to_owned(),
            node.address.clone(),
            node.version.clone(),
            node.beat.map_or_else(|| "-".to_owned(), since),
            node.workspaces.to_string(),
            node.busy.to_string(),
            node.waiting.to_string(),
            holds.join(", "),
        ]
    };
    let head = ["NODE", "STATE", "ADDRESS", "VERSION", "BEAT", "WORKSPACES", "BUSY", "WAITING", "HOLDS"];
    columns(head.map(str::to_owned), nodes.iter().map(line).collect())
}

/// One line per directory.
fn places(workspaces: &[FleetWorkspace]) -> String {
    let line = |it: &FleetWorkspace| {
        let owner = it.owner.as_deref().unwrap_or("-");
        [
            it.node.clone().unwrap_or_else(|| "-".to_owned()),
            if it.custody { format!("{owner} (custody)") } else { owner.to_owned() },
            it.busy.to_string(),
            it.waiting.to_string(),
            it.directory.clone().unwrap_or_else(|| "-".to_owned()),
        ]
    };
    let head = ["NODE", "OWNER", "BUSY", "WAITING", "DIRECTORY"].map(str::to_owned);
    columns(head, workspaces.iter().map(line).collect())
}

/// Time since a beat: exact while it is short.
fn since(milliseconds: u64) -> String {
    let time = Duration::from_millis(milliseconds);
    if time < Duration::from_mins(1) { format!("{:.1}s", time.as_secs_f64()) } else { age::short(time) }
}

/// Aligns the columns of a table. Values from the database are shown without control characters.
fn columns<const N: usize>(head: [String; N], rows: Vec<[String; N]>) -> String {
    let rows: Vec<_> = std::iter::once(head).chain(rows).map(|row| row.map(|cell| harmless(&cell))).collect();
    let width =
        |column: usize| rows.iter().map(|row| row.get(column).map_or(0, |cell| cell.chars().count())).max();
    let widths: Vec<_> = (0..N).map(|column| width(column).unwrap_or_default()).collect();
    let mut text = String::new();
    for row in &rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn harmless(cell: &str) -> String {
    cell.chars().map(terminal::harmless).collect()
}

#[cfg(test)]
mod tests {
    use protocol::{Rest, fleet::NodeState};

    use super::*;

    #[test]
    fn nodes_are_shown_as_a_table() {
        let node = |name: &str, state, beat, custody: &[&str]| FleetNode {
            name: name.to_owned(),
            state,
            address: "http://10.0.0.5:4096".to_owned(),
            version: "1.0.0".to_owned(),
            beat,
            workspaces: 12,
            busy: 3,
            waiting: 0,
            custody: custody.iter().map(|it| (*it).to_owned()).collect(),
            extra: Rest::NONE,
        };
        let nodes = [
            node("a", NodeState::Up, Some(400), &["c"]),
            node("c\u{1b}", NodeState::Away, Some(240_000), &[]),
        ];
        let text = table(&nodes);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "NODE  STATE  ADDRESS               VERSION  BEAT  WORKSPACES  BUSY  WAITING  HOLDS"
        );
        assert_eq!(
            lines[1],
            "a     up     http://10.0.0.5:4096  1.0.0    0.4s  12          3     0        its own directories, custody: c"
        );
        assert!(
            lines[2].contains("away") && lines[2].contains("4m") && !lines[2].contains('\u{1b}'),
            "{text}"
        );
    }
}
