//! The newer interface under `/api`: the same sessions and messages in other shapes.
//!
//! Nothing here is stored. The server builds every value from the types of the older interface when a client asks,
//! so both interfaces always agree.

mod catalogue;
mod event;
mod message;
mod prompt;
mod request;
mod session;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

pub use catalogue::{
    Abilities, Agent, ApiInfo, Command, Connection, Cost, Integration, IntegrationMethod, ModelInfo,
    Provider, Released, RequestInfo, Rule, VariantInfo,
};
pub use event::{AnyEvent, Body, Delivered, Event, Mark, Moment, OlderEvent};
pub use message::{AssistantContent, AssistantMessage, Message, Reason, ToolContent, ToolState};
pub use prompt::{Admitted, AgentMention, Attachment, NewPrompt, Prompt, PromptRequest};
pub use request::{Permission, PermissionSource};
pub use session::{Active, Location, Model, Revert, Session, SessionInput, Spent};

/// An answer under `/api`: the result in an envelope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}Answer")]
pub struct Data<T> {
    pub data: T,
}

/// A page of a list under `/api`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}Page")]
pub struct Page<T> {
    pub data: Vec<T>,
    /// Cursors of the neighbouring pages.
    pub cursor: Cursors,
}

/// Cursors of the neighbouring pages. Clients must not interpret them.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cursors {
    /// Absent on the first page.
    pub previous: Option<String>,
    /// Absent on the last page.
    pub next: Option<String>,
}
