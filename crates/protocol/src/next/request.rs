//! What waits for a person.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Extra, PermissionId, SessionId, request::PermissionRequest};

/// A permission that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NextPermission {
    /// Its id.
    pub id: PermissionId,
    /// Who asks.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// What is to be done.
    pub action: String,
    /// To what.
    pub resources: Vec<String>,
    /// What an answer of `always` would allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub save: Option<Vec<String>>,
    /// For showing it well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Extra>,
    /// The tool call that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<PermissionSource>,
}

/// What waits for a permission.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum PermissionSource {
    /// A tool call.
    Tool {
        /// In which message.
        #[serde(rename = "messageID")]
        message_id: String,
        /// Which.
        #[serde(rename = "callID")]
        call_id: String,
    },
}

impl From<PermissionRequest> for NextPermission {
    fn from(request: PermissionRequest) -> Self {
        Self {
            id: request.id,
            session_id: request.session_id,
            action: request.permission,
            resources: request.patterns,
            save: Some(request.always).filter(|save| !save.is_empty()),
            metadata: Some(request.metadata).filter(|metadata| !metadata.is_empty()),
            source: request.tool.map(|tool| PermissionSource::Tool {
                message_id: tool.message_id.to_string(),
                call_id: tool.call_id,
            }),
        }
    }
}
