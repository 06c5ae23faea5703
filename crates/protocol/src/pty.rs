//! Terminals that clients open.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::PtyId;

/// A terminal with a running program.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pty {
    pub id: PtyId,
    /// Name that clients display.
    pub title: String,
    pub command: String,
    pub args: Vec<String>,
    /// Directory in which the program started.
    pub cwd: String,
    pub status: PtyStatus,
    /// Process id of the program.
    pub pid: u32,
    /// Exit code; 128 plus the signal if a signal ended the program. Absent while it runs.
    pub exit_code: Option<u32>,
}

/// State of a terminal's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PtyStatus {
    /// The program runs.
    Running,
    /// The program has ended. Its output can still be read.
    Exited,
}

/// Program to run in a new terminal.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PtyInput {
    /// Program. Default: the user's shell.
    pub command: Option<String>,
    pub args: Option<Vec<String>>,
    /// Working directory, relative to the directory of the call. Default: that directory.
    pub cwd: Option<String>,
    /// Name that clients display.
    pub title: Option<String>,
    /// Additional environment variables.
    pub env: Option<BTreeMap<String, String>>,
}

/// Changes to a terminal.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PtyPatch {
    /// Name that clients display.
    pub title: Option<String>,
    pub size: Option<PtySize>,
}

/// Size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PtySize {
    /// Number of lines.
    pub rows: std::num::NonZeroU16,
    /// Number of characters per line.
    pub cols: std::num::NonZeroU16,
}

/// A ticket that opens the WebSocket of one terminal, once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PtyTicketConnectToken {
    /// Value of the query parameter `ticket`.
    pub ticket: String,
    /// Seconds until the ticket expires.
    pub expires_in: u64,
}
