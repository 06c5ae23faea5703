//! The todo list of a session.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Extra;

/// An entry of the todo list. Status and priority are free strings on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Todo {
    pub content: String,
    /// `pending`, `in_progress`, `completed`, `cancelled` or `blocked`. A `blocked` todo waits for the user (Baton's
    /// addition).
    pub status: String,
    /// `high`, `medium` or `low`.
    pub priority: String,
    #[serde(flatten)]
    pub extra: Extra,
}
