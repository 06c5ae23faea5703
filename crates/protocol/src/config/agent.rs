//! Configuration of agents, commands and skills.

use std::{borrow::Cow, num::NonZeroU32};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use super::{Ordered, Permission, Settings};
use crate::{agent::AgentMode, number::Number};

/// Defines an agent or changes an existing one. Keys that are not listed here are model settings and end up in
/// `options`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentConfig {
    /// Model, as `provider/model`.
    pub model: Option<String>,
    /// Variant of `model`.
    pub variant: Option<String>,
    pub temperature: Option<Number>,
    pub top_p: Option<Number>,
    /// System prompt of the agent.
    pub prompt: Option<String>,
    /// Purpose of the agent, for users and for the model that chooses a subagent.
    pub description: Option<String>,
    /// The callers that may select the agent: users, other agents or both.
    pub mode: Option<AgentMode>,
    /// True if clients leave the agent out of their lists.
    pub hidden: Option<bool>,
    /// Removes the agent.
    pub disable: Option<bool>,
    /// Display colour: `#rrggbb` or a theme colour such as `primary`.
    pub color: Option<Color>,
    /// Maximum number of steps per turn.
    pub steps: Option<NonZeroU32>,
    /// Deprecated: use `steps`.
    #[serde(rename = "maxSteps")]
    pub max_steps: Option<NonZeroU32>,
    /// Permission rules, added to the rules for all agents.
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
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct CommandConfig {
    /// Prompt text. `$1`, `$2`, … and `$ARGUMENTS` stand for the words that the user types after the name.
    pub template: String,
    pub description: Option<String>,
    /// Agent that runs the command. Without one, the session's agent runs it.
    pub agent: Option<String>,
    /// Model that runs the command, as `provider/model`.
    pub model: Option<String>,
    /// Variant of `model`.
    pub variant: Option<String>,
    /// Runs the command in a subagent.
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
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skill {
    pub name: String,
    /// Situations in which to use the skill.
    pub description: Option<String>,
    /// Path of the file that defines the skill.
    pub location: String,
    /// Text of the instructions.
    pub content: String,
}
