//! Configuration of external agents: the program to start or the server to call. These are Baton's own keys, for
//! `baton.json`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use serde_with_macros::skip_serializing_none;

use super::{Positive, Secret, Variables};

/// External agents that Baton supports by name. Each is enabled if its program is installed.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub struct Agents {
    pub claude_code: Option<Program>,
    pub codex: Option<Program>,
    /// OpenCode as an agent. The key is not `opencode`, because that is the name of OpenCode's model provider.
    pub opencode_agent: Option<OpenCode>,
    /// Names that Baton does not know. Baton reports them as configuration errors.
    #[serde(flatten, skip_serializing)]
    #[schemars(skip)]
    pub unknown: BTreeMap<String, Value>,
}

/// Agents that speak the Agent Client Protocol, by name. Agents that Baton knows need no `command`.
pub type AcpAgents = BTreeMap<String, Program>;

/// An external agent that runs as a program.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Program {
    /// Default: true if the program is installed.
    pub enabled: Option<bool>,
    /// Program and arguments, if they differ from the default.
    #[schemars(length(min = 1))]
    pub command: Option<Vec<String>>,
    /// Environment variables. Clients never receive them.
    #[serde(default, skip_serializing)]
    pub environment: Variables,
    /// Additional models to offer, by the agent's own names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Actions that the agent takes without asking.
    pub permission_mode: Option<PermissionMode>,
    /// Seconds after which Baton stops an idle process. The next prompt starts it again. Default: 600.
    pub idle_seconds: Option<Positive>,
    /// Names of keys that Baton does not know here, without their values, which may be secret.
    #[serde(flatten, deserialize_with = "names", skip_serializing)]
    #[schemars(skip)]
    pub unknown: BTreeSet<String>,
}

fn names<'de, D: Deserializer<'de>>(rest: D) -> Result<BTreeSet<String>, D::Error> {
    // A flattened field cannot skip values, so a map of values is read and only its keys are kept.
    Ok(Map::<String, Value>::deserialize(rest)?.into_iter().map(|(name, _)| name).collect())
}

/// OpenCode as an agent: a program to start or a running server.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct OpenCode {
    /// Default: true if the program is installed or `url` is set.
    pub enabled: Option<bool>,
    /// Program and arguments before `serve`. Default: `opencode`.
    #[schemars(length(min = 1))]
    pub command: Option<Vec<String>>,
    /// Environment variables. Clients never receive them.
    #[serde(default, skip_serializing)]
    pub environment: Variables,
    /// URL of a running server. Baton starts no program then.
    pub url: Option<String>,
    /// User name for that server. Default: `opencode`.
    pub username: Option<String>,
    /// Password for that server. Clients never receive it.
    #[serde(skip_serializing)]
    pub password: Option<Secret>,
    /// Models to offer, as `provider/model` of that server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// Actions that the agent takes without asking.
    pub permission_mode: Option<PermissionMode>,
    /// Seconds after which Baton stops an idle server. The next prompt starts it again. Default: 600.
    pub idle_seconds: Option<Positive>,
}

/// Actions that an external agent takes without asking. Baton translates the mode into the agent's own settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// Only the actions that the agent's own settings allow.
    #[default]
    Ask,
    /// File edits, too.
    AcceptEdits,
    /// All actions; the agent asks no permission.
    Bypass,
    /// No action that changes anything.
    Plan,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json, to_value};

    #[test]
    fn secrets_are_not_serialized() {
        let agents: Agents = from_value(json!({
            "claude-code": { "command": ["claude"], "environment": { "KEY": "sk-1" }, "permission_mode": "accept-edits" },
            "opencode-agent": { "url": "http://127.0.0.1:4096", "password": "sk-2", "idle_seconds": 60 },
        }))
        .unwrap();
        let shown = to_value(&agents).unwrap();
        assert_eq!(
            shown,
            json!({
                "claude-code": { "command": ["claude"], "permission_mode": "accept-edits" },
                "opencode-agent": { "url": "http://127.0.0.1:4096", "idle_seconds": 60 },
            })
        );
        assert!(!format!("{agents:?}").contains("sk-"));
    }
}
