//! Other people's agents: which programs to start, or which server to call, and how. Baton's own keys, for
//! `baton.json`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Positive, Secret, Variables};

/// The agents that Baton knows by name. Each is used when its program is found, unless this says otherwise.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub struct Agents {
    /// Claude Code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claude_code: Option<Program>,
    /// Codex.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codex: Option<Program>,
    /// OpenCode itself. Its own service is a provider of the name `opencode`, so this one has another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opencode_agent: Option<OpenCode>,
    /// Names that Baton does not know: a mistake that whoever wrote them is told of.
    #[serde(flatten, skip_serializing)]
    #[schemars(skip)]
    pub unknown: BTreeMap<String, serde_json::Value>,
}

/// Agents that speak the Agent Client Protocol, by name. Those that Baton knows need no command.
pub type AcpAgents = BTreeMap<String, Program>;

/// A program that is an agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Program {
    /// Whether it is used; it is, if it is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The program and its arguments, if not the usual ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub command: Option<Vec<String>>,
    /// Its variables.
    #[serde(default, skip_serializing)]
    pub environment: Variables,
    /// Names of models to offer besides the usual ones, as the agent calls them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// What it does without asking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// Seconds after which a process that has nothing to do is stopped. The next prompt starts it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<Positive>,
}

/// OpenCode as an agent: a program to start, or a server that runs already.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct OpenCode {
    /// Whether it is used; it is, if its program is found or its address is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The program and its arguments before `serve`, if not `opencode`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub command: Option<Vec<String>>,
    /// Its variables.
    #[serde(default, skip_serializing)]
    pub environment: Variables,
    /// The address of a server that runs already; nothing is started then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The user name there; `opencode` unless this says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// The password there.
    #[serde(skip_serializing)]
    pub password: Option<Secret>,
    /// Models to offer, as `provider/model` of that server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// What it does without asking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_mode: Option<PermissionMode>,
    /// Seconds after which a server that has nothing to do is stopped. The next prompt starts it again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<Positive>,
}

/// What somebody else's agent does without asking. Each agent has its own words for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// What its own settings allow.
    #[default]
    Ask,
    /// Changes to files, too.
    AcceptEdits,
    /// Everything: nobody is asked anything.
    Bypass,
    /// Nothing that changes anything.
    Plan,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json, to_value};

    #[test]
    fn what_may_be_secret_is_not_sent() {
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
