//! MCP servers as clients see them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Rest, config};

/// How it is with an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum McpStatus {
    /// It can be used.
    Connected,
    /// It is switched off.
    Disabled,
    /// It cannot be used.
    Failed {
        /// Why not, and what to do about it.
        error: String,
    },
    /// It wants somebody to log in.
    NeedsAuth {
        /// What to do about it. OpenCode has no such field.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// It wants a client that it knows.
    NeedsClientRegistration {
        /// Why, and what to do about it.
        error: String,
    },
}

/// Something an MCP server lets others read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpResource {
    /// What it is called.
    pub name: String,
    /// Its address, which means something to that server only.
    pub uri: String,
    /// What it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The server.
    pub client: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// The body of `POST /mcp`: a server to use from now on, until the program ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpAdd {
    /// What it is called.
    pub name: String,
    /// Where it is.
    pub config: McpTarget,
}

/// An MCP server to start or to call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum McpTarget {
    /// To start.
    Local(config::McpLocal),
    /// To call.
    Remote(config::McpRemote),
}

impl From<McpTarget> for config::Mcp {
    fn from(target: McpTarget) -> Self {
        match target {
            McpTarget::Local(local) => Self::Local(local),
            McpTarget::Remote(remote) => Self::Remote(remote),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_status_has_opencodes_shapes() {
        let error = || "no".to_owned();
        let shapes: [(McpStatus, Value); 6] = [
            (McpStatus::Connected, json!({ "status": "connected" })),
            (McpStatus::Disabled, json!({ "status": "disabled" })),
            (McpStatus::Failed { error: error() }, json!({ "status": "failed", "error": "no" })),
            (McpStatus::NeedsAuth { error: None }, json!({ "status": "needs_auth" })),
            (McpStatus::NeedsAuth { error: Some(error()) }, json!({ "status": "needs_auth", "error": "no" })),
            (
                McpStatus::NeedsClientRegistration { error: error() },
                json!({ "status": "needs_client_registration", "error": "no" }),
            ),
        ];
        for (status, shape) in shapes {
            assert_eq!(serde_json::to_value(&status).unwrap(), shape);
            assert_eq!(serde_json::from_value::<McpStatus>(shape).unwrap(), status);
        }
    }
}
