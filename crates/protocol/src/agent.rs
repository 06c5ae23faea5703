//! Agents and commands, as clients list them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{Extra, message::ModelRef, number::Number, request::Rule, secret};

/// An agent that can answer prompts.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Name, which is also the id.
    pub name: String,
    /// Purpose of the agent, for users and for the model that chooses a subagent.
    pub description: Option<String>,
    /// Decides whether users, other agents or both may select the agent.
    pub mode: AgentMode,
    /// True for agents that are part of Baton.
    pub native: Option<bool>,
    /// True if clients leave the agent out of their lists.
    pub hidden: Option<bool>,
    pub top_p: Option<Number>,
    pub temperature: Option<Number>,
    /// Display colour: `#rrggbb` or a theme colour such as `primary`.
    pub color: Option<String>,
    /// Permission rules. Of the rules that match, the last one wins.
    #[serde(default)]
    pub permission: Vec<Rule>,
    /// Model for prompts that name none.
    pub model: Option<ModelRef>,
    /// Variant of `model`.
    pub variant: Option<String>,
    /// System prompt of the agent.
    pub prompt: Option<String>,
    /// Model settings. Settings with secret-like names are not sent to clients.
    #[serde(default, serialize_with = "secret::serialize")]
    pub options: Extra,
    /// Maximum number of steps per turn.
    pub steps: Option<u32>,
    /// Baton: set for agents that run in another program, with the features that program supports.
    pub external: Option<Abilities>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Features that an external agent supports. Baton does without a feature that is `false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "independent feature flags")]
pub struct Abilities {
    /// Prompts sent while the agent is busy wait in the queue.
    pub queue: bool,
    /// A prompt can join the running turn.
    pub steer: bool,
    /// A turn can be aborted.
    pub abort: bool,
    /// A conversation continues after a restart of the agent's process or of the server.
    pub resume: bool,
    /// The agent asks for permissions.
    pub permissions: bool,
    /// The agent asks questions.
    pub questions: bool,
    /// The agent keeps a todo list.
    pub todos: bool,
    /// The agent reports the tokens it used.
    pub tokens: bool,
    /// The agent reports the cost.
    pub cost: bool,
    /// Subagents appear as child sessions.
    pub children: bool,
    /// The agent reports when it waits before it calls its model again.
    pub retries: bool,
    /// Prompts may carry files.
    pub attachments: bool,
    /// Changes to files appear as a diff and can be reverted.
    pub snapshots: bool,
    /// Budgets end turns.
    pub budgets: bool,
    /// Turns continue while the todo list has open entries.
    pub continuation: bool,
}

impl Abilities {
    /// Features of every external agent, because Baton itself provides them.
    pub const LEAST: Self = Self {
        queue: true,
        steer: false,
        abort: true,
        resume: false,
        permissions: false,
        questions: false,
        todos: false,
        tokens: false,
        cost: false,
        children: false,
        retries: false,
        attachments: false,
        snapshots: true,
        budgets: true,
        continuation: false,
    };
}

impl Agent {
    /// Creates an agent with only a name and a mode.
    pub fn new(name: impl Into<String>, mode: AgentMode) -> Self {
        Self {
            name: name.into(),
            description: None,
            mode,
            native: None,
            hidden: None,
            top_p: None,
            temperature: None,
            color: None,
            permission: Vec::new(),
            model: None,
            variant: None,
            prompt: None,
            options: Extra::new(),
            steps: None,
            external: None,
            extra: Extra::new(),
        }
    }
}

/// The callers that may select an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentMode {
    /// Users select it for a prompt.
    Primary,
    /// Other agents start it as a subagent.
    Subagent,
    /// Both users and other agents.
    All,
}

/// A slash command.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Command {
    /// Name without the slash.
    pub name: String,
    pub description: Option<String>,
    /// Agent that runs the command. Without one, the session's agent runs it.
    pub agent: Option<String>,
    /// Model that runs the command, as `provider/model`.
    pub model: Option<String>,
    pub source: Option<CommandSource>,
    /// Prompt text, with the placeholders listed in `hints`.
    pub template: String,
    /// Runs the command in a subagent.
    pub subtask: Option<bool>,
    /// Placeholders in the template: `$1`, `$2`, …, `$ARGUMENTS`.
    #[serde(default)]
    pub hints: Vec<String>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Origin of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommandSource {
    /// A configuration file.
    Command,
    /// An MCP server's prompt.
    Mcp,
    /// A skill file.
    Skill,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_agent_survives_a_round_trip() {
        let wire = json!({
            "name": "build", "mode": "primary", "native": true, "topP": 0.9, "temperature": 1,
            "permission": [{ "permission": "*", "pattern": "*", "action": "allow" }],
            "model": { "providerID": "demo", "modelID": "demo" }, "options": { "effort": "high" }, "steps": 40,
            "xNew": {},
        });
        let agent: Agent = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(serde_json::to_value(agent).unwrap(), wire);
    }

    #[test]
    fn a_minimal_agent_has_the_fields_that_clients_require() {
        let agent = serde_json::to_value(Agent::new("plan", AgentMode::All)).unwrap();
        assert_eq!(agent, json!({ "name": "plan", "mode": "all", "permission": [], "options": {} }));
    }

    #[test]
    fn a_command_survives_a_round_trip() {
        let wire = json!({
            "name": "review", "description": "Review a change", "model": "demo/demo", "source": "mcp",
            "template": "Review $1", "subtask": true, "hints": ["$1"], "xNew": null,
        });
        let command: Command = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(serde_json::to_value(command).unwrap(), wire);
    }
}
