//! A session's list of what is left to do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Extra;

/// One item. Status and priority are free strings on the wire.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Todo {
    /// What is to be done.
    pub content: String,
    /// `pending`, `in_progress`, `completed` or `cancelled`.
    pub status: String,
    /// `high`, `medium` or `low`.
    pub priority: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}
