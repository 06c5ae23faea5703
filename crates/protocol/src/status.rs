//! Whether a session is busy, waiting to retry, or idle, and why it went idle.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Extra, Millis};

/// How a turn ended. Old clients ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EndReason {
    /// The agent said all it had to say.
    Completed,
    /// Somebody stopped it.
    Aborted,
    /// It failed; the last assistant message or `session.error` says how.
    Error,
    /// A permission or question was refused.
    Blocked,
    /// The server stopped or crashed while it ran.
    Interrupted,
    /// A budget was used up.
    Budget,
}

impl EndReason {
    /// The wire word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Aborted => "aborted",
            Self::Error => "error",
            Self::Blocked => "blocked",
            Self::Interrupted => "interrupted",
            Self::Budget => "budget",
        }
    }

    /// Every reason, for tables and metrics.
    pub const ALL: [Self; 6] =
        [Self::Completed, Self::Aborted, Self::Error, Self::Blocked, Self::Interrupted, Self::Budget];
}

/// The one thing a client needs to know whether to show a spinner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum SessionStatus {
    /// Nothing is going on.
    Idle {
        /// How the last turn ended (Baton's addition).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<EndReason>,
    },
    /// A turn is running.
    Busy {},
    /// A turn is running and waits before it asks the model again.
    Retry {
        /// Which retry comes next, from 1.
        attempt: u32,
        /// Why the last attempt failed, for people.
        message: String,
        /// When the next attempt starts.
        next: Millis,
        /// What the person could do about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        action: Option<Extra>,
    },
}

impl SessionStatus {
    /// Busy, plainly.
    pub const BUSY: Self = Self::Busy {};

    /// Idle is the absence of activity; retry is a kind of busy.
    pub fn is_idle(&self) -> bool {
        matches!(self, Self::Idle { .. })
    }
}
