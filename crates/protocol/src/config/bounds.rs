//! Baton's additions to OpenCode's keys: budgets, continuation, sandbox, `webfetch` addresses and limits. They
//! belong in `baton.json`, because OpenCode rejects a file with keys it does not know.

use std::{borrow::Cow, num::NonZeroU32, num::NonZeroU64, time::Duration};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{number::Number, request::PermissionReply};

/// Spending limits. A turn that reaches one of them ends as `budget`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Budget {
    /// Cost, in the currency of the model catalogue.
    #[serde(default, skip_serializing_if = "Allowance::is_empty")]
    pub cost: Allowance<Positive>,
    /// Tokens, input and output together.
    #[serde(default, skip_serializing_if = "Allowance::is_empty")]
    pub tokens: Allowance<NonZeroU64>,
    /// Number of model calls.
    #[serde(default, skip_serializing_if = "Allowance::is_empty")]
    pub steps: Allowance<NonZeroU32>,
    /// Minutes of busy time.
    #[serde(default, skip_serializing_if = "Allowance::is_empty")]
    pub minutes: Allowance<Positive>,
}

/// Limits for one quantity, per turn and per session.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline, deny_unknown_fields)]
pub struct Allowance<T> {
    /// Limit for one turn.
    pub turn: Option<T>,
    /// Limit for all turns of a session together.
    pub session: Option<T>,
}

impl<T> Allowance<T> {
    /// Returns true if neither limit is set.
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
    pub fn get(self) -> f64 {
        self.0.0
    }

    /// Returns this number of seconds as a duration. A value that is too large becomes [`Duration::MAX`].
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

/// Automatic continuation of turns.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ContinuationConfig {
    /// True to continue a turn while its todo list has open entries. Default: true.
    pub enabled: Option<bool>,
    /// Maximum number of continuations after one user prompt. Default: 10.
    pub rounds: Option<u32>,
    /// Maximum number of consecutive continuations without a finished todo. Default: 3.
    pub stagnant_rounds: Option<NonZeroU32>,
    /// Maximum number of tokens, cache reads excluded. Default: 1,000,000.
    pub tokens: Option<NonZeroU64>,
    /// Maximum duration in minutes. Default: 60.
    pub minutes: Option<Positive>,
    /// Delay before each continuation in milliseconds, during which clients can stop it. Default: 0.
    pub countdown_ms: Option<u32>,
}

/// Sandbox for commands: a mode, or a mode with a network setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Sandbox {
    /// A mode. The network stays available.
    Mode(SandboxMode),
    /// A mode with a network setting.
    Full(SandboxConfig),
}

impl Sandbox {
    /// Files that commands may write.
    pub fn mode(self) -> SandboxMode {
        match self {
            Self::Mode(mode) => mode,
            Self::Full(full) => full.mode,
        }
    }

    /// Returns true if commands may use the network, which is the default.
    pub fn network(self) -> bool {
        match self {
            Self::Mode(_) => true,
            Self::Full(full) => full.network.unwrap_or(true),
        }
    }
}

/// Sandbox for commands.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SandboxConfig {
    /// Files that commands may write.
    pub mode: SandboxMode,
    /// True if commands may use the network. Default: true.
    pub network: Option<bool>,
}

/// Files that commands may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// The project and temporary files.
    WorkspaceWrite,
    /// No files except devices such as `/dev/null`.
    ReadOnly,
    /// No sandbox: all files that the user may write.
    Off,
}

/// Address restrictions of `webfetch`.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Webfetch {
    /// True if `webfetch` may reach this machine and private networks. Default: false.
    pub private_addresses: Option<bool>,
}

/// Deletion of old sessions.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SessionsConfig {
    /// Days after which the server deletes a session that is idle, not shared and was not updated meanwhile, with its
    /// children. Default: sessions are kept.
    pub retention_days: Option<NonZeroU32>,
}

/// Timeouts and retry limits; each has a default.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Limits {
    /// Seconds that a permission or question waits for the user. Default: 3,600.
    pub request_seconds: Option<Positive>,
    /// Reply to a permission that times out. Without one, the turn ends as `blocked`.
    pub request_reply: Option<PermissionReply>,
    /// Timeout in seconds for a model's first chunk.
    pub first_chunk_seconds: Option<Positive>,
    /// Timeout in seconds between two chunks of a model.
    pub next_chunk_seconds: Option<Positive>,
    /// Maximum number of retries of a step after transient failures. Default: 5.
    pub retries: Option<u32>,
    /// Seconds for which a step keeps retrying while the provider limits the rate of calls. Default: 600.
    pub rate_limit_seconds: Option<Positive>,
    /// Maximum number of steps per turn, for agents without a limit of their own. Default: 1,000.
    pub steps: Option<NonZeroU32>,
    /// Timeout of a command in seconds, if the model sets none. Default: 120.
    pub command_seconds: Option<Positive>,
    /// Timeout of a plugin hook in seconds, at most 10. The hook before the end of a turn gets three times as long.
    pub hook_seconds: Option<Positive>,
    /// Seconds that a shutdown waits for running turns. Default: 4.
    pub shutdown_seconds: Option<Positive>,
    /// Maximum number of idle processes of external agents, all agents together. Default: 4.
    pub idle_agents: Option<u16>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn a_sandbox_is_a_mode_or_a_mode_with_a_network_setting() {
        let word: Sandbox = from_value(json!("workspace-write")).unwrap();
        assert_eq!((word.mode(), word.network()), (SandboxMode::WorkspaceWrite, true));
        let full: Sandbox = from_value(json!({ "mode": "read-only", "network": false })).unwrap();
        assert_eq!((full.mode(), full.network()), (SandboxMode::ReadOnly, false));
    }

    #[test]
    fn a_duration_that_is_too_long_becomes_the_maximum() {
        assert_eq!(Positive(Number(1.5)).seconds(), Duration::from_millis(1500));
        assert_eq!(Positive(Number(1e300)).seconds(), Duration::MAX);
    }
}
