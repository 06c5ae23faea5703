//! Configuration of agents, commands and skills.

use std::{borrow::Cow, num::NonZeroU32};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{Ordered, Permission, Settings};
use crate::{agent::AgentMode, number::Number};

/// Defines an agent or changes an existing one. Keys that are not listed here are model settings and end up in
/// `options`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentConfig {
    /// Model, as `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Variant of `model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<Number>,
    /// System prompt of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Purpose of the agent, for users and for the model that chooses a subagent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The callers that may select the agent: users, other agents or both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<AgentMode>,
    /// True if clients leave the agent out of their lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// Removes the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable: Option<bool>,
    /// Display colour: `#rrggbb` or a theme colour such as `primary`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<Color>,
    /// Maximum number of steps per turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<NonZeroU32>,
    /// Deprecated: use `steps`.
    #[serde(rename = "maxSteps", skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<NonZeroU32>,
    /// Permission rules, added to the rules for all agents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<Permission>,
    /// Deprecated: use `permission`. Enables or disables tools by name.
    #[serde(default, skip_serializing_if = "Ordered::is_empty")]
    pub tools: Ordered<bool>,
    /// Model settings.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub options: Settings,
}

/// A colour: `#rrggbb` or the name of a theme colour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Color(pub String);

impl JsonSchema for Color {
    fn schema_name() -> Cow<'static, str> {
        "Color".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A colour: `#rrggbb` or the name of a theme colour.",
            "anyOf": [
                { "enum": ["primary", "secondary", "accent", "success", "warning", "error", "info"] },
                { "type": "string", "format": "hex-color", "pattern": "^#[0-9a-fA-F]{6}$" },
            ],
        })
    }
}

/// A slash command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct CommandConfig {
    /// Prompt text. `$1`, `$2`, … and `$ARGUMENTS` stand for the words that the user types after the name.
    pub template: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Agent that runs the command. Without one, the session's agent runs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Model that runs the command, as `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Variant of `model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Runs the command in a subagent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subtask: Option<bool>,
}

/// Additional sources of skills.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SkillsConfig {
    /// Directories that contain skills.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// URLs of skill lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
}

/// Instructions that an agent loads on demand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skill {
    pub name: String,
    /// Situations in which to use the skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Path of the file that defines the skill.
    pub location: String,
    /// Text of the instructions.
    pub content: String,
}
