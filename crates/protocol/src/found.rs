//! Results of the search over all sessions (Baton's addition).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{MessageId, Millis, PartId, Rest, SessionId};

/// A text that contains the words of a search.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundMessage {
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    #[serde(rename = "partID")]
    pub part_id: PartId,
    /// Title of the session.
    pub title: String,
    /// Directory of the session.
    pub directory: String,
    /// The text around the first word.
    pub snippet: String,
    /// Creation of the message.
    pub time: Millis,
    #[serde(flatten)]
    pub extra: Rest,
}
