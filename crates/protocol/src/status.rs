//! Whether a session is busy, waiting to retry, or idle, and why it went idle.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Extra, Millis, Rest};

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
        #[serde(default, deserialize_with = "known_reason", skip_serializing_if = "Option::is_none")]
        reason: Option<EndReason>,
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: Rest,
    },
    /// A turn is running.
    Busy {
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: Rest,
    },
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
        /// Fields this version does not know.
        #[serde(flatten)]
        extra: Rest,
    },
}

impl SessionStatus {
    /// Busy, plainly.
    pub const BUSY: Self = Self::Busy { extra: Rest::NONE };

    /// Idle, and why.
    pub const fn idle(reason: EndReason) -> Self {
        Self::Idle { reason: Some(reason), extra: Rest::NONE }
    }

    /// Waiting to ask again.
    pub fn retry(attempt: u32, message: impl Into<String>, next: Millis) -> Self {
        Self::Retry { attempt, message: message.into(), next, action: None, extra: Rest::NONE }
    }

    /// Idle is the absence of activity; retry is a kind of busy.
    pub fn is_idle(&self) -> bool {
        matches!(self, Self::Idle { .. })
    }

    /// Why it is idle, if it is and says so.
    pub fn reason(&self) -> Option<EndReason> {
        match self {
            Self::Idle { reason, .. } => *reason,
            _ => None,
        }
    }
}

/// A reason that a newer server made up must not hide the idle itself.
fn known_reason<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<EndReason>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(EndReason::deserialize(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_with_a_reason_from_the_future_is_still_idle() {
        let status: SessionStatus = serde_json::from_str(r#"{"type":"idle","reason":"bored"}"#).unwrap();
        assert_eq!(status, SessionStatus::Idle { reason: None, extra: Rest::NONE });
    }

    #[test]
    fn every_reason_is_spelled_as_it_says() {
        for reason in EndReason::ALL {
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
    }
}
