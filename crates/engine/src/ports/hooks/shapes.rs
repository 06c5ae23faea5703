//! What hooks are given and may change. The JSON forms are those of OpenCode's plugins.

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

/// Input of `chat.message`: where the prompt belongs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// The session.
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

/// Output of `chat.message`: what will be stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prompted {
    /// The user message.
    #[serde(with = "as_message")]
    pub message: UserMessage,
    /// Its parts.
    pub parts: Vec<Part>,
}

/// A user message with its role, which the type leaves to [`Message`].
mod as_message {
    use super::{Message, UserMessage};
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    pub(super) fn serialize<S: Serializer>(message: &UserMessage, out: S) -> Result<S::Ok, S::Error> {
        Message::User(Box::new(message.clone())).serialize(out)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<UserMessage, D::Error> {
        match Message::deserialize(from)? {
            Message::User(message) => Ok(*message),
            Message::Assistant(_) => Err(de::Error::custom("a prompt must stay a user message")),
        }
    }
}

/// Input of `chat.params` and `chat.headers`: which call it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatContext {
    /// The session.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The agent.
    pub agent: String,
    /// The model.
    pub model: Model,
    /// Who serves it.
    pub provider: ProviderContext,
    /// The prompt that is being answered.
    #[serde(with = "as_message")]
    pub message: UserMessage,
}

/// A provider, as hooks are shown it. Keys are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProviderContext {
    /// How it came to be known.
    pub source: ProviderSource,
    /// What is known about it.
    pub info: Provider,
    /// Its settings.
    #[serde(default, serialize_with = "secret::serialize")]
    pub options: Extra,
}

/// Output of `chat.params`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Params {
    /// How freely it chooses words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Number>,
    /// From how much of the probability it chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<Number>,
    /// From how many words it chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<Number>,
    /// How long its answer may be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<Number>,
    /// Whatever else the provider understands.
    #[serde(default)]
    pub options: Extra,
}

/// Output of `chat.headers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headers {
    /// The headers.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
}

/// Input of `permission.ask`: the request, in the shape that OpenCode's plugins were promised.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PermissionAsk {
    /// Its id.
    pub id: PermissionId,
    /// Which permission.
    #[serde(rename = "type")]
    pub permission: String,
    /// What it is about.
    pub pattern: Vec<String>,
    /// The session that asks.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The message of the tool call that asks.
    #[serde(rename = "messageID", skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The tool call that asks.
    #[serde(rename = "callID", skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// For people.
    pub title: String,
    /// For showing it well.
    pub metadata: Extra,
    /// When it was asked.
    pub time: PermissionTime,
}

/// When a permission was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionTime {
    /// Asked.
    pub created: Millis,
}

impl PermissionAsk {
    /// A request as hooks see it.
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
    /// Whether a person is asked.
    pub status: Action,
}

/// Input of `command.execute.before`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandBefore {
    /// Its name, without the slash.
    pub command: String,
    /// The session.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// What was written after it.
    pub arguments: String,
}

/// Output of `command.execute.before`: the prompt it stands for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommandParts {
    /// What is said.
    pub parts: Vec<PartInput>,
}

/// Input of `tool.execute.before`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolBefore {
    /// The tool.
    pub tool: String,
    /// The session.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The model's id of the call.
    #[serde(rename = "callID")]
    pub call_id: String,
}

/// Output of `tool.execute.before`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolArgs {
    /// What it is called with.
    pub args: Value,
}

/// Input of `tool.execute.after`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolAfter {
    /// The tool.
    pub tool: String,
    /// The session.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The model's id of the call.
    #[serde(rename = "callID")]
    pub call_id: String,
    /// What it was called with.
    pub args: Value,
}

/// Output of `tool.execute.after`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ToolOutcome {
    /// For people.
    #[serde(default)]
    pub title: String,
    /// What the model gets to see.
    #[serde(default)]
    pub output: String,
    /// Facts, by tool.
    #[serde(default)]
    pub metadata: Extra,
}

/// Input of `tool.definition`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolDefinition {
    /// The tool.
    #[serde(rename = "toolID")]
    pub tool_id: String,
}

/// Output of `tool.definition`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// What the model is told about it.
    pub description: String,
    /// What it takes, in whatever form the plugin likes to see it.
    #[serde(default)]
    pub parameters: Value,
    /// What it takes, as a JSON Schema.
    #[serde(default)]
    pub json_schema: Value,
}

/// Input of `shell.env`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellEnv {
    /// Where the process will run.
    pub cwd: String,
    /// For which session.
    #[serde(rename = "sessionID", skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// For which tool call.
    #[serde(rename = "callID", skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
}

/// Output of `shell.env`: variables that are added.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// By name.
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
    /// The session, if it is about one.
    #[serde(rename = "sessionID", skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The model.
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
    /// The provider whose models are looked at.
    pub provider: Provider,
}

/// Output of `experimental.provider.small_model`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SmallModelChoice {
    /// The model to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<Model>,
}

/// Input of `experimental.session.compacting`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compacting {
    /// The session.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
}

/// Output of `experimental.session.compacting`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionPrompt {
    /// What the summary should not lose.
    #[serde(default)]
    pub context: Vec<String>,
    /// What is asked instead of the usual words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// Input of `experimental.compaction.autocontinue`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Autocontinue {
    /// Whose conversation was summarised, and who goes on.
    #[serde(flatten)]
    pub chat: ChatContext,
    /// Whether the conversation had become too long for the model.
    pub overflow: bool,
}

/// Output of `experimental.compaction.autocontinue`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutocontinueChoice {
    /// Whether the turn goes on.
    pub enabled: bool,
}

/// Input of `experimental.text.complete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TextComplete {
    /// The session.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The assistant message.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// The text part.
    #[serde(rename = "partID")]
    pub part_id: PartId,
}

/// Output of `experimental.text.complete`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// The text.
    pub text: String,
}

/// Input of `turn.end` (Baton's addition): a turn that has said all it had to say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnEnding {
    /// The session.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// The session that started this one, if one did.
    #[serde(rename = "parentID", skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<SessionId>,
    /// The newest prompt that a person wrote.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// The agent that answered.
    pub agent: String,
    /// The model that answered.
    pub model: ModelRef,
    /// How often the turn went on by itself since that prompt.
    pub continued: u32,
}

/// Output of `turn.end`: what the turn goes on with, if it is to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Next {
    /// What the agent is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}
