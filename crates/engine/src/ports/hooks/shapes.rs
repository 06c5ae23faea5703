//! Inputs and outputs of hooks. Their JSON has the shapes of OpenCode's plugin interface.

use std::collections::BTreeMap;

use protocol::{
    Extra, Message, MessageId, MessageWithParts, Millis, Part, PartId, PermissionId, SessionId, UserMessage,
    message::ModelRef,
    number::Number,
    prompt::PartInput,
    provider::{Model, Provider, ProviderSource},
    request::{Action, PermissionRequest},
    secret,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Input of `chat.message`: the session and the choices of the prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The agent, if the prompt names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model, if the prompt names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// The message's id, if the client chose one.
    #[serde(rename = "messageID", skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The variant of the model, if the prompt names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
}

/// Output of `chat.message`: the prompt that will be stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prompted {
    #[serde(with = "as_message")]
    pub message: UserMessage,
    pub parts: Vec<Part>,
}

/// Serialises a user message with its role, which only [`Message`] writes.
mod as_message {
    use super::{Message, UserMessage};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    pub(super) fn serialize<S: Serializer>(message: &UserMessage, out: S) -> Result<S::Ok, S::Error> {
        Message::User(Box::new(message.clone())).serialize(out)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<UserMessage, D::Error> {
        match Message::deserialize(from)? {
            Message::User(message) => Ok(*message),
            Message::Assistant(_) => {
                Err(de::Error::custom("a hook cannot change a prompt into an assistant message"))
            }
        }
    }
}

/// Input of `chat.params` and `chat.headers`: identifies the model call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatContext {
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    pub agent: String,
    pub model: Model,
    pub provider: ProviderContext,
    /// The prompt that the call answers.
    #[serde(with = "as_message")]
    pub message: UserMessage,
}

/// A provider as hooks see it, without its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderContext {
    pub source: ProviderSource,
    pub info: Provider,
    /// Secrets are left out when this is serialised.
    #[serde(default, serialize_with = "secret::serialize")]
    pub options: Extra,
}

/// Output of `chat.params`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Params {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<Number>,
    /// Provider-specific parameters.
    #[serde(default)]
    pub options: Extra,
}

/// Output of `chat.headers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headers {
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// Input of `permission.ask`: the request, in the shape that OpenCode documents for plugins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PermissionAsk {
    pub id: PermissionId,
    /// The permission's name, such as `bash` or `edit`.
    #[serde(rename = "type")]
    pub permission: String,
    /// The paths, commands or addresses that the permission is asked for.
    pub pattern: Vec<String>,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The message of the tool call that asks.
    #[serde(rename = "messageID", skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The tool call that asks.
    #[serde(rename = "callID", skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Display text: the permission and its patterns.
    pub title: String,
    /// Details for display, such as a diff.
    pub metadata: Extra,
    pub time: PermissionTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionTime {
    /// Time at which the permission was asked.
    pub created: Millis,
}

impl PermissionAsk {
    pub fn new(request: &PermissionRequest, created: Millis) -> Self {
        let title = match request.patterns.as_slice() {
            [] => request.permission.clone(),
            patterns => format!("{}: {}", request.permission, patterns.join(", ")),
        };
        Self {
            id: request.id.clone(),
            permission: request.permission.clone(),
            pattern: request.patterns.clone(),
            session_id: request.session_id.clone(),
            message_id: request.tool.as_ref().map(|tool| tool.message_id.clone()),
            call_id: request.tool.as_ref().map(|tool| tool.call_id.clone()),
            title,
            metadata: request.metadata.clone(),
            time: PermissionTime { created },
        }
    }
}

/// Output of `permission.ask`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionStatus {
    /// `ask` leaves the decision to the user.
    pub status: Action,
}

/// Input of `command.execute.before`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandBefore {
    /// Without the slash.
    pub command: String,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The text after the command's name.
    pub arguments: String,
}

/// Output of `command.execute.before`: the prompt that the command expands to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandParts {
    pub parts: Vec<PartInput>,
}

/// Input of `tool.execute.before`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolBefore {
    pub tool: String,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The model's id of the call.
    #[serde(rename = "callID")]
    pub call_id: String,
}

/// Output of `tool.execute.before`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolArgs {
    pub args: Value,
}

/// Input of `tool.execute.after`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolAfter {
    pub tool: String,
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The model's id of the call.
    #[serde(rename = "callID")]
    pub call_id: String,
    pub args: Value,
}

/// Output of `tool.execute.after`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolOutcome {
    /// Display text for clients.
    #[serde(default)]
    pub title: String,
    /// The result that the model receives.
    #[serde(default)]
    pub output: String,
    /// Tool-specific details for clients.
    #[serde(default)]
    pub metadata: Extra,
}

/// Input of `tool.definition`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDefinition {
    #[serde(rename = "toolID")]
    pub tool_id: String,
}

/// Output of `tool.definition`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    pub description: String,
    /// The tool's parameters, in a form of the plugin's choice.
    #[serde(default)]
    pub parameters: Value,
    /// The tool's parameters as a JSON Schema.
    #[serde(default)]
    pub json_schema: Value,
}

/// Input of `shell.env`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellEnv {
    pub cwd: String,
    /// `None` for a process that belongs to no session, such as a terminal.
    #[serde(rename = "sessionID", skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// `None` if no tool call starts the process.
    #[serde(rename = "callID", skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
}

/// Output of `shell.env`: variables to add.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    #[serde(default)]
    pub env: BTreeMap<String, String>,
}

/// Input of `experimental.chat.messages.transform`: nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesTransform {}

/// Output of `experimental.chat.messages.transform`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Messages {
    /// The conversation, oldest first.
    pub messages: Vec<MessageWithParts>,
}

/// Input of `experimental.chat.system.transform`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SystemTransform {
    /// `None` for a system prompt that belongs to no session.
    #[serde(rename = "sessionID", skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    pub model: Model,
}

/// Output of `experimental.chat.system.transform`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct System {
    /// The paragraphs of the system prompt.
    pub system: Vec<String>,
}

/// Input of `experimental.provider.small_model`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SmallModel {
    /// The provider whose models are candidates.
    pub provider: Provider,
}

/// Output of `experimental.provider.small_model`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SmallModelChoice {
    /// `None` leaves the choice to Baton.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
}

/// Input of `experimental.session.compacting`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacting {
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
}

/// Output of `experimental.session.compacting`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionPrompt {
    /// Facts that the summary must keep.
    #[serde(default)]
    pub context: Vec<String>,
    /// Replaces the default summary prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// Input of `experimental.compaction.autocontinue`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Autocontinue {
    /// The context of the call that continues the turn.
    #[serde(flatten)]
    pub chat: ChatContext,
    /// True if the conversation was summarised because it exceeded the model's context.
    pub overflow: bool,
}

/// Output of `experimental.compaction.autocontinue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutocontinueChoice {
    /// True if the turn continues.
    pub enabled: bool,
}

/// Input of `experimental.text.complete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextComplete {
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    #[serde(rename = "partID")]
    pub part_id: PartId,
}

/// Output of `experimental.text.complete`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    pub text: String,
}

/// Input of `turn.end` (Baton's addition): a turn that is about to end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnEnding {
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The parent session, if this session is a child.
    #[serde(rename = "parentID", skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SessionId>,
    /// The newest prompt written by the user.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// The agent that answered.
    pub agent: String,
    /// The model that answered.
    pub model: ModelRef,
    /// Number of continuations since that prompt.
    pub continued: u32,
}

/// Output of `turn.end`: the prompt to continue with, if the turn is to continue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    /// `None` lets the turn end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
