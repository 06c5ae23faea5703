//! What Baton adds to OpenCode's keys: budgets, when turns go on by themselves, a sandbox, where `webfetch` may go, and
//! limits. They belong into
//! `baton.json`, because OpenCode refuses a file with keys it does not know.

use std::{borrow::Cow, num::NonZeroU32, num::NonZeroU64, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{number::Number, request::PermissionReply};

/// What may be spent. A turn that reaches one of these ends as `budget`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Budget {
    /// Money, in the currency of the catalogue's prices.
    #[serde(default, skip_serializing_if = "Allowance::is_empty")]
    pub cost: Allowance<Positive>,
    /// Tokens, read and written.
    #[serde(default, skip_serializing_if = "Allowance::is_empty")]
    pub tokens: Allowance<NonZeroU64>,
    /// Calls of a model.
    #[serde(default, skip_serializing_if = "Allowance::is_empty")]
    pub steps: Allowance<NonZeroU32>,
    /// Minutes of being busy.
    #[serde(default, skip_serializing_if = "Allowance::is_empty")]
    pub minutes: Allowance<Positive>,
}

/// How much of one thing, for one turn and for a session's life.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub struct Allowance<T> {
    /// In one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<T>,
    /// In all turns of a session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<T>,
}

impl<T> Allowance<T> {
    /// Whether nothing is bounded.
    pub fn is_empty(&self) -> bool {
        self.turn.is_none() && self.session.is_none()
    }
}

impl<T> Default for Allowance<T> {
    fn default() -> Self {
        Self { turn: None, session: None }
    }
}

/// A number above zero.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Positive(pub Number);

impl Positive {
    /// The number.
    pub fn get(self) -> f64 {
        self.0.0
    }

    /// So many seconds; what is beyond all measure is the longest time there is.
    pub fn seconds(self) -> Duration {
        Duration::try_from_secs_f64(self.get()).unwrap_or(Duration::MAX)
    }
}

impl JsonSchema for Positive {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Positive".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "exclusiveMinimum": 0 })
    }
}

/// When turns go on by themselves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ContinuationConfig {
    /// Whether open todos make a turn go on; they do unless this says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// How often a turn goes on after one prompt of a person; 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// How often in a row without finishing any todo; 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stagnant_rounds: Option<NonZeroU32>,
    /// Tokens until it goes on no longer, those read from a cache not counted; a million.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<NonZeroU64>,
    /// Minutes until it goes on no longer; 60.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minutes: Option<Positive>,
    /// Milliseconds of warning before it goes on; 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub countdown_ms: Option<u32>,
}

/// What commands may touch: one word, or with a word about the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Sandbox {
    /// One word.
    Mode(SandboxMode),
    /// With a word about the network.
    Full(SandboxConfig),
}

impl Sandbox {
    /// What may be written.
    pub fn mode(self) -> SandboxMode {
        match self {
            Self::Mode(mode) => mode,
            Self::Full(full) => full.mode,
        }
    }

    /// Whether the network may be used; it may unless somebody says otherwise.
    pub fn network(self) -> bool {
        match self {
            Self::Mode(_) => true,
            Self::Full(full) => full.network.unwrap_or(true),
        }
    }
}

/// What commands may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SandboxConfig {
    /// What may be written.
    pub mode: SandboxMode,
    /// Whether the network may be used; it may unless this says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<bool>,
}

/// What commands may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// The project and temporary files.
    WorkspaceWrite,
    /// Nothing.
    ReadOnly,
    /// Everything the user may.
    Off,
}

/// Where `webfetch` may go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Webfetch {
    /// Whether it may reach this machine and private networks; it may not unless this says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_addresses: Option<bool>,
}

/// Bounds of waits and repetitions; each has a default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Limits {
    /// Seconds a permission or question waits for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_seconds: Option<Positive>,
    /// The reply to a permission nobody answered; without one the turn ends as `blocked`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_reply: Option<PermissionReply>,
    /// Seconds until a model's first sign of life.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_chunk_seconds: Option<Positive>,
    /// Seconds from one sign of a model's life to the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_chunk_seconds: Option<Positive>,
    /// How often a step is tried again after a transient failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<u32>,
    /// Steps of one turn, for agents that do not set their own bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<NonZeroU32>,
    /// Seconds a command may run when the model sets no time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_seconds: Option<Positive>,
    /// Seconds a plugin's hook may take, 10 at most; the one before a turn ends gets three times as long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hook_seconds: Option<Positive>,
    /// Seconds a shutdown waits for turns to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shutdown_seconds: Option<Positive>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn a_sandbox_is_one_word_or_two() {
        let word: Sandbox = from_value(json!("workspace-write")).unwrap();
        assert_eq!((word.mode(), word.network()), (SandboxMode::WorkspaceWrite, true));
        let full: Sandbox = from_value(json!({ "mode": "read-only", "network": false })).unwrap();
        assert_eq!((full.mode(), full.network()), (SandboxMode::ReadOnly, false));
    }

    #[test]
    fn a_time_beyond_all_measure_is_the_longest_there_is() {
        assert_eq!(Positive(Number(1.5)).seconds(), Duration::from_millis(1500));
        assert_eq!(Positive(Number(1e300)).seconds(), Duration::MAX);
    }
}
