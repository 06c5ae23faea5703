//! The nodes of a fleet, as users see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{Rest, WorkspaceId};

/// A server among those that share a database. An entry of `GET /baton/nodes`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetNode {
    pub name: String,
    pub state: NodeState,
    /// The URL at which the other nodes reach it.
    pub address: String,
    pub version: String,
    /// Milliseconds since its newest beat, by the clock of the database.
    pub beat: Option<u64>,
    /// Number of directories on its disk that sessions have used.
    pub workspaces: u64,
    /// Number of sessions in these directories that are not idle.
    pub busy: u64,
    /// Number of prompts that wait in these directories.
    pub waiting: u64,
    /// Nodes that are away and whose turns this node ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub custody: Vec<String>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// The state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    Up,
    /// It takes no new prompts and finishes its turns.
    Draining,
    /// It has not answered for the time of its lease, or it was stopped.
    Away,
    /// A state that this version does not know.
    #[serde(other)]
    Unknown,
}

impl NodeState {
    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Draining => "draining",
            Self::Away => "away",
            Self::Unknown => "unknown",
        }
    }
}

/// A directory on the disk of a node. An entry of `GET /baton/workspaces`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FleetWorkspace {
    pub id: WorkspaceId,
    /// Its path. Absent if no session is left in it.
    pub directory: Option<String>,
    /// The node whose disk it is on.
    pub node: Option<String>,
    /// The node that acts for it now. Absent if none does.
    pub owner: Option<String>,
    /// True if the owner only ends turns, because the files are on a node that is away.
    pub custody: bool,
    /// Number of sessions that are not idle.
    pub busy: u64,
    /// Number of prompts that wait.
    pub waiting: u64,
    #[serde(flatten)]
    pub extra: Rest,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_new_state_does_not_hide_the_node() {
        let read = |state: &str| serde_json::from_value::<NodeState>(json!(state)).unwrap();
        assert_eq!(read("resting"), NodeState::Unknown);
        for state in ["up", "draining", "away", "unknown"] {
            assert_eq!(read(state).as_str(), state);
        }
    }
}
