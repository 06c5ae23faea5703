//! Status of a session (busy, retry or idle) and the reason for idle.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{Extra, Millis, Rest};

/// End of a turn or of a prompt. Old clients ignore it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EndReason {
    /// The agent finished.
    Completed,
    /// A client aborted the turn.
    Aborted,
    /// The turn failed. The last assistant message or `session.error` has the error.
    Error,
    /// The user refused a permission or question, or it timed out.
    Blocked,
    /// The server stopped or crashed during the turn.
    Interrupted,
    /// A budget is used up.
    Budget,
    /// A client withdrew the prompt while it waited. No turn ends this way.
    Withdrawn,
}

impl EndReason {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Aborted => "aborted",
            Self::Error => "error",
            Self::Blocked => "blocked",
            Self::Interrupted => "interrupted",
            Self::Budget => "budget",
            Self::Withdrawn => "withdrawn",
        }
    }

    /// All reasons for the end of a turn, for tables and metrics.
    pub const ALL: [Self; 6] =
        [Self::Completed, Self::Aborted, Self::Error, Self::Blocked, Self::Interrupted, Self::Budget];
}

/// Status of a session.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum SessionStatus {
    /// No turn is running.
    Idle {
        /// End of the last turn (Baton's addition).
        #[serde(default, deserialize_with = "known_reason")]
        reason: Option<EndReason>,
        #[serde(flatten)]
        extra: Rest,
    },
    /// A turn is running.
    Busy {
        #[serde(flatten)]
        extra: Rest,
    },
    /// A turn is running and waits before it calls the model again.
    Retry {
        /// Number of the next retry, starting at 1.
        attempt: u32,
        /// Number of retries after which the turn fails, if it is known (Baton's addition).
        limit: Option<u32>,
        /// Reason why the last attempt failed.
        message: String,
        /// Start of the next attempt.
        next: Millis,
        /// Action that the client can offer to the user.
        action: Option<Extra>,
        #[serde(flatten)]
        extra: Rest,
    },
}

impl SessionStatus {
    /// Busy without unknown fields.
    pub const BUSY: Self = Self::Busy { extra: Rest::NONE };

    /// Creates an idle status with a reason.
    pub const fn idle(reason: EndReason) -> Self {
        Self::Idle { reason: Some(reason), extra: Rest::NONE }
    }

    /// Creates a retry status without a known limit.
    pub fn retry(attempt: u32, message: impl Into<String>, next: Millis) -> Self {
        Self::Retry { attempt, limit: None, message: message.into(), next, action: None, extra: Rest::NONE }
    }

    /// Returns true if no turn is running. A retry is part of a turn.
    pub fn is_idle(&self) -> bool {
        matches!(self, Self::Idle { .. })
    }

    /// Returns the reason for idle, if the status is idle and carries one.
    pub fn reason(&self) -> Option<EndReason> {
        match self {
            Self::Idle { reason, .. } => *reason,
            _ => None,
        }
    }
}

/// Ignores a reason that this version does not know: it must not hide the idle itself.
fn known_reason<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<EndReason>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(EndReason::deserialize(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_with_an_unknown_reason_is_still_idle() {
        let status: SessionStatus = serde_json::from_str(r#"{"type":"idle","reason":"bored"}"#).unwrap();
        assert_eq!(status, SessionStatus::Idle { reason: None, extra: Rest::NONE });
    }

    #[test]
    fn every_reason_serializes_to_its_name() {
        for reason in EndReason::ALL.into_iter().chain([EndReason::Withdrawn]) {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
