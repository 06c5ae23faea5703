//! The newer wire under `/api`: the same sessions and messages in the shapes OpenCode's second interface gives them.
//!
//! Nothing here is stored. Every type is made from the nouns of the older wire when a client asks, so both
//! interfaces show the same conversation and neither can drift away from what happened.

mod catalogue;
mod event;
mod message;
mod prompt;
mod request;
mod session;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use catalogue::{
    Abilities, ApiInfo, Connection, Integration, IntegrationMethod, NextAgent, NextCommand, NextCost,
    NextModelInfo, NextProvider, NextRule, Released, RequestInfo, VariantInfo,
};
pub use event::{AnyEvent, Delivered, Mark, Moment, NextBody, NextEvent, OlderEvent};
pub use message::{AssistantContent, AssistantMessage, NextMessage, Reason, ToolContent, ToolState};
pub use prompt::{Admitted, AgentMention, Attachment, NextPrompt, Prompt, PromptRequest};
pub use request::{NextPermission, PermissionSource};
pub use session::{Active, Location, NextModel, NextRevert, NextSession, NextSessionInput, Spent};

/// An answer under `/api`: what was asked for, in an envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}Answer")]
pub struct Data<T> {
    /// What was asked for.
    pub data: T,
}

/// A page of a list under `/api`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub struct Page<T> {
    /// The entries.
    pub data: Vec<T>,
    /// How to get the neighbouring pages.
    pub cursor: Cursors,
}

/// How to get the neighbouring pages; opaque to clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cursors {
    /// The page before, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// The page after, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
