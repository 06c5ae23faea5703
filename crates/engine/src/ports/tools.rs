//! Tools that plugins provide and that a runner offers to its model.

use std::fmt;

use futures::future::BoxFuture;
use protocol::part::FilePart;
use protocol::{Extra, MessageId, SessionId};
use serde::Deserialize;
use serde_json::Value;

/// The tools of a directory's plugins.
pub trait Tools: fmt::Debug + Send + Sync {
    /// Lists the tools that can be called at this moment.
    fn list(&self) -> Vec<ToolInfo>;

    /// Calls a tool. Dropping the future tells the tool to stop.
    fn call<'a>(
        &'a self,
        call: ToolCall,
        caller: &'a dyn ToolCaller,
    ) -> BoxFuture<'a, Result<ToolOutput, String>>;
}

/// The description of a tool for a model.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ToolInfo {
    /// The name by which the model calls the tool, and the permission that hides it.
    pub id: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Value,
}

/// One call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The name of the tool.
    pub id: String,
    pub args: Extra,
    pub session: SessionId,
    /// The message that contains the call.
    pub message: MessageId,
    pub agent: String,
    /// The model's id of the call.
    pub call: String,
}

/// The result of a call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// For users.
    pub title: Option<String>,
    /// For the model.
    pub text: String,
    /// For clients.
    pub metadata: Extra,
    /// Images and documents, for the model and for users.
    pub attachments: Vec<FilePart>,
}

/// A permission that a running tool needs.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct ToolPermission {
    pub permission: String,
    /// The objects it needs the permission for.
    #[serde(default)]
    pub patterns: Vec<String>,
    /// The patterns that the answer `always` allows from then on.
    #[serde(default)]
    pub always: Vec<String>,
    /// For showing the request.
    #[serde(default)]
    pub metadata: Extra,
}

/// The runner that calls a tool, as the running tool sees it.
pub trait ToolCaller: Send + Sync {
    /// Shows progress.
    fn progress(&self, title: Option<String>, metadata: Extra) -> BoxFuture<'_, ()>;

    /// Asks the user for a permission unless the rules decide; fails with the reason of a refusal.
    fn permission(&self, needed: ToolPermission) -> BoxFuture<'_, Result<(), String>>;
}
