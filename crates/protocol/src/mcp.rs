//! MCP servers in answers to clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{Rest, config};

/// State of an MCP server.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum McpStatus {
    /// The server is connected.
    Connected,
    /// The configuration disables the server.
    Disabled,
    /// The connection failed.
    Failed {
        /// Cause and remedy.
        error: String,
    },
    /// The server requires a login.
    NeedsAuth {
        /// Remedy. OpenCode has no such field.
        error: Option<String>,
    },
    /// The server requires a registered OAuth client.
    NeedsClientRegistration {
        /// Cause and remedy.
        error: String,
    },
}

impl McpStatus {
    /// Returns the reason why an enabled server is not available.
    pub fn failure(&self) -> Option<&str> {
        match self {
            Self::Connected | Self::Disabled => None,
            Self::Failed { error } | Self::NeedsClientRegistration { error } => Some(error),
            Self::NeedsAuth { error } => Some(error.as_deref().unwrap_or("the server requires a login")),
        }
    }
}

/// A resource that an MCP server offers.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpResource {
    pub name: String,
    /// URI, which only that server can resolve.
    pub uri: String,
    pub description: Option<String>,
    pub mime_type: Option<String>,
    /// Name of the MCP server.
    pub client: String,
    #[serde(flatten)]
    pub extra: Rest,
}

/// The body of `POST /mcp`: an MCP server to add until Baton stops.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpAdd {
    pub name: String,
    pub config: McpTarget,
}

/// An MCP server to start as a program or to call at a URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum McpTarget {
    Local(config::McpLocal),
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
    fn a_status_has_the_shapes_of_opencode() {
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
