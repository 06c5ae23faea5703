//! The errors of calls that concern another node.

use engine::ports::Peer;
use protocol::{
    WorkspaceId,
    wire_error::{NamedError, WireError},
};
use serde_json::{Value, json};

use super::{Process, wire::Failure};
use crate::{Error, error::Fault};

fn named(fault: Fault, data: Value) -> Error {
    Error::new(fault, WireError::Named(NamedError::Other { name: fault.name().into(), data }))
}

/// The node with the files does not answer.
pub(super) fn away(node: &str, workspace: &WorkspaceId) -> Error {
    let message = format!(
        "The files of this call are on the node {node}, which is away. Start it again, or repeat the call when it is \
         back. Sessions and messages can be read meanwhile."
    );
    named(Fault::NodeAway, json!({ "message": message, "node": node, "workspace": workspace }))
}

/// The owner cannot be reached from here, although other nodes may reach it. Nothing has happened.
pub(super) fn unreachable(peer: &Peer, workspace: &WorkspaceId) -> Error {
    let Peer { node, address, .. } = peer;
    let message = format!(
        "The files of this call are on the node {node}, which does not answer at {address}. Nothing has happened. Check \
         that the nodes reach each other, or start {node} again, then repeat the call."
    );
    named(Fault::NodeAway, json!({ "message": message, "node": node, "workspace": workspace }))
}

/// The workspace changed its owner while the call was on its way. Nothing has happened.
pub(super) fn moving(node: &str, workspace: &WorkspaceId) -> Error {
    let message = format!(
        "The workspace of this call is changing its node; {node} does not own it any more. Nothing has happened; repeat \
         the call."
    );
    named(Fault::NodeAway, json!({ "message": message, "node": node, "workspace": workspace }))
}

/// The owner has stopped to answer after the call was sent.
pub(super) fn lost(peer: &Peer) -> Error {
    let node = &peer.node;
    let message = format!(
        "The node {node} stopped to answer before it had answered this call. The call may have had its effect; read the \
         state before you repeat it."
    );
    named(Fault::NodeLost, json!({ "message": message, "node": node }))
}

/// No node could answer for something that this node has given an id, so that repeating it is harmless.
pub(super) fn not_answered(node: &str, id: &str, is_stored: bool) -> Error {
    let message = if is_stored {
        format!("{id} is stored. Its node {node} stopped to answer; events show what becomes of it.")
    } else {
        format!(
            "The node {node} stopped to answer before it had stored {id}. Repeat the call when the node is back; with \
             this id it counts once."
        )
    };
    named(Fault::NodeAway, json!({ "message": message, "node": node, "id": id }))
}

/// The path exists on several other nodes.
pub(super) fn ambiguous(directory: &str, choices: &[WorkspaceId]) -> Error {
    let list = choices.iter().map(WorkspaceId::as_str).collect::<Vec<_>>().join(", ");
    let message = format!(
        "The directory {directory:?} does not exist on this node and exists on several others. Add the query \
         `workspace=` with one of: {list}"
    );
    named(Fault::Conflict, json!({ "message": message, "workspaces": choices }))
}

/// This node does not own the workspace about which another one has asked it.
pub(super) fn not_owner(process: &Process, workspace: &WorkspaceId, owner: Option<&str>) -> Error {
    let owner = owner.unwrap_or("a node that is away");
    let message = format!("{} does not own the workspace; it knows {owner} as its owner.", process.node);
    named(Fault::NotOwner, json!({ "message": message, "workspace": workspace, "owner": owner }))
}

/// The greeting is meant for an older or newer process of this node.
pub(super) fn another_process(process: &Process) -> Error {
    let Process { node, incarnation } = process;
    let message =
        format!("This is process {incarnation} of the node {node}, and the greeting is for another.");
    named(Fault::NotOwner, json!({ "message": message }))
}

pub(super) fn stale_greeting() -> Error {
    let message = "The proof belongs to no recent greeting of this node. Greet it again.";
    named(Fault::NodeUnknown, json!({ "message": message }))
}

pub(super) fn replaced(node: &str) -> Error {
    let message = format!("A newer process of the node {node} has proved itself.");
    named(Fault::NodeUnknown, json!({ "message": message }))
}

/// Two nodes have different keys, or one has none.
pub(super) fn wrong_key(node: &str) -> Error {
    let message = format!("The node {node} has another fleet key. {SAME_KEY}");
    named(Fault::NodeUnknown, json!({ "message": message }))
}

pub(super) fn unknown_token() -> Error {
    let message = format!("This node has not issued that fleet token, or it is no longer valid. {SAME_KEY}");
    named(Fault::NodeUnknown, json!({ "message": message }))
}

const SAME_KEY: &str = "Set BATON_FLEET_KEY to the same value on all nodes and restart them.";

/// A failure as the client sees it.
pub(super) fn failed(failure: Failure, peer: &Peer, workspace: &WorkspaceId) -> Error {
    let node = &peer.node;
    let refused = |message: String| named(Fault::NodeRefused, json!({ "message": message, "node": node }));
    match failure {
        Failure::Unreachable => unreachable(peer, workspace),
        Failure::Lost => lost(peer),
        Failure::NotOwner => moving(node, workspace),
        Failure::Unknown => refused(format!(
            "The node {node} does not accept calls of this one. Nothing has happened. {SAME_KEY}"
        )),
        Failure::WrongKey => refused(format!(
            "The node {node} has another fleet key than this one. Nothing has happened. {SAME_KEY}"
        )),
        Failure::NoKey => refused(format!(
            "The workspace of this call is on the node {node}, and this node has no fleet key. {SAME_KEY}"
        )),
        Failure::Odd(what) => {
            refused(format!("The node {node} gave an answer that a node does not give: {what}."))
        }
    }
}
