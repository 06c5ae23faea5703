//! Permission requests in the shapes of `/api`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{Extra, PermissionId, SessionId, request::PermissionRequest};

/// A permission that waits for the user.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "V2Permission")]
pub struct Permission {
    pub id: PermissionId,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// Permission, such as `edit`.
    pub action: String,
    /// Files, commands or other resources that need the permission.
    pub resources: Vec<String>,
    /// Patterns that a reply of `always` would allow.
    pub save: Option<Vec<String>>,
    /// Details that clients display.
    pub metadata: Option<Extra>,
    pub source: Option<PermissionSource>,
}

/// Origin of a permission request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum PermissionSource {
    Tool {
        #[serde(rename = "messageID")]
        message_id: String,
        /// The model's call id.
        #[serde(rename = "callID")]
        call_id: String,
    },
}

impl From<PermissionRequest> for Permission {
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
