//! The types of Baton: everything that crosses the wire or a crate boundary.
//!
//! Field names, id formats and event types are OpenCode's, so that its clients work unchanged. Types carry an
//! `extra` map: a field that this version does not know survives a round trip. This crate has no clock, no files
//! and no runtime.

// The test configuration with every key is one `json!` call.
#![cfg_attr(test, recursion_limit = "256")]

pub mod agent;
pub mod agent_event;
pub mod channel;
pub mod config;
pub mod continuation;
pub mod diagnostic;
pub mod error;
pub mod event;
pub mod family;
pub mod fleet;
pub mod found;
pub mod id;
pub mod login;
pub mod mcp;
pub mod message;
pub mod number;
pub mod part;
pub mod project;
pub mod prompt;
pub mod provider;
pub mod pty;
pub mod queue;
pub mod request;
pub mod rest;
pub mod secret;
pub mod session;
pub mod status;
pub mod time;
pub mod title;
pub mod todo;
pub mod trust;
pub mod turn;
pub mod v2;
pub mod wire_error;

pub use agent_event::{AgentEvent, TurnEnd};
pub use error::MessageError;
pub use event::{Event, EventBody};
pub use id::{
    ApprovalId, EventId, MessageId, PartId, PermissionId, PtyId, QuestionId, SessionId, WorkspaceId,
};
pub use message::{AssistantMessage, Message, MessageWithParts, UserMessage};
pub use part::{Part, PartBody, ToolState};
pub use rest::Rest;
pub use session::Session;
pub use status::{EndReason, SessionStatus};
pub use todo::Todo;

/// The version of OpenCode whose interface Baton has.
pub const OPENCODE_VERSION: &str = "1.18.33";

/// Milliseconds since the Unix epoch. Every time on the wire has this type.
pub type Millis = i64;

/// Fields of a wire object that this version does not know. Kept so that a round trip loses nothing.
pub type Extra = serde_json::Map<String, serde_json::Value>;
