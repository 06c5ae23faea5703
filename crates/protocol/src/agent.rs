//! Agents and commands, as clients list them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Extra, message::ModelRef, number::Number, request::Rule, secret};

/// Who answers a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Its name, which is also its id.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who may call it.
    pub mode: AgentMode,
    /// Built in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<bool>,
    /// Not offered for choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// Sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_p: Option<Number>,
    /// Sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Number>,
    /// Shown colour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub color: Option<String>,
    /// What it may do.
    #[serde(default)]
    pub permission: Vec<Rule>,
    /// Its model, if it has one of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Variant of its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Its system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Settings for the model; secrets are left out when they are sent.
    #[serde(default, serialize_with = "secret::serialize")]
    pub options: Extra,
    /// How many steps a turn may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Baton: it is somebody else's program, which can do this much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<Abilities>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What works with somebody else's agent. What does not is left undone, and is `false` here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "a list of yes and no is what it is")]
pub struct Abilities {
    /// Prompts wait while it is busy.
    pub queue: bool,
    /// A prompt can join while it is busy.
    pub steer: bool,
    /// It can be stopped.
    pub abort: bool,
    /// A conversation goes on after its process or the server was started again.
    pub resume: bool,
    /// It asks for permissions.
    pub permissions: bool,
    /// It asks questions.
    pub questions: bool,
    /// It keeps a todo list.
    pub todos: bool,
    /// It tells how many tokens it used.
    pub tokens: bool,
    /// It tells what that cost.
    pub cost: bool,
    /// Its subagents are child sessions.
    pub children: bool,
    /// It tells when it waits before it asks its model again.
    pub retries: bool,
    /// It takes files with a prompt.
    pub attachments: bool,
    /// What it does to files can be seen as a diff and taken back.
    pub snapshots: bool,
    /// Budgets end its turns.
    pub budgets: bool,
    /// Its turns go on by themselves while its todo list is not finished.
    pub continuation: bool,
}

impl Abilities {
    /// What works with every agent, because Baton does it.
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
    /// An agent with a name and nothing special about it.
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

/// Who may call an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AgentMode {
    /// A person.
    Primary,
    /// Another agent.
    Subagent,
    /// Both.
    All,
}

/// A slash command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Command {
    /// Its name, without the slash.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The agent that is to run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model that is to run it, as `provider/model`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Where it came from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<CommandSource>,
    /// What it expands to.
    pub template: String,
    /// It runs as a subagent's task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subtask: Option<bool>,
    /// Placeholders of the template: `$1`, `$2`, …, `$ARGUMENTS`.
    #[serde(default)]
    pub hints: Vec<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Where a command came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommandSource {
    /// A configuration file.
    Command,
    /// An MCP server's prompt.
    Mcp,
    /// A skill.
    Skill,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_agent_comes_back_the_same() {
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
    fn the_plainest_agent_has_what_clients_require() {
        let agent = serde_json::to_value(Agent::new("plan", AgentMode::All)).unwrap();
        assert_eq!(agent, json!({ "name": "plan", "mode": "all", "permission": [], "options": {} }));
    }

    #[test]
    fn a_command_comes_back_the_same() {
        let wire = json!({
            "name": "review", "description": "Review a change", "model": "demo/demo", "source": "mcp",
            "template": "Review $1", "subtask": true, "hints": ["$1"], "xNew": null,
        });
        let command: Command = serde_json::from_value(wire.clone()).unwrap();
        assert_eq!(serde_json::to_value(command).unwrap(), wire);
    }
}
