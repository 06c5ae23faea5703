//! Agents, commands and skills as people write them.

use std::{borrow::Cow, num::NonZeroU32};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{Ordered, Permission, Settings};
use crate::{agent::AgentMode, number::Number};

/// An agent: a new one, or changes to one that exists. Keys that are not listed here are settings for its
/// model and end up in `options`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentConfig {
    /// Its model, as `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Variant of its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// Sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Number>,
    /// Sampling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<Number>,
    /// Its system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// What it is for, and when to use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who may call it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<AgentMode>,
    /// Not offered for choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<bool>,
    /// It is taken away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable: Option<bool>,
    /// Shown colour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color: Option<Color>,
    /// How many steps a turn may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<NonZeroU32>,
    /// Deprecated: say `steps`.
    #[serde(rename = "maxSteps", skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<NonZeroU32>,
    /// What it may do, on top of what everybody may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<Permission>,
    /// Deprecated: say `permission`. Tools to switch on or off.
    #[serde(default, skip_serializing_if = "Ordered::is_empty")]
    pub tools: Ordered<bool>,
    /// Settings for its model.
    #[serde(default, skip_serializing_if = "Settings::is_empty")]
    pub options: Settings,
}

/// A colour: `#rrggbb`, or a name of the theme's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Color(pub String);

impl JsonSchema for Color {
    fn schema_name() -> Cow<'static, str> {
        "Color".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A colour: `#rrggbb`, or a name of the theme's.",
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
    /// What it expands to; `$1`, `$2`, … and `$ARGUMENTS` stand for what is typed after its name.
    pub template: String,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The agent that is to run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model that is to run it, as `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Variant of that model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// It runs as a subagent's task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subtask: Option<bool>,
}

/// More places with skills.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct SkillsConfig {
    /// Directories.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Addresses of lists of skills.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<String>,
}

/// Instructions that an agent reads when it needs them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Skill {
    /// Its name.
    pub name: String,
    /// When to use it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The file it was read from.
    pub location: String,
    /// What it says.
    pub content: String,
}
