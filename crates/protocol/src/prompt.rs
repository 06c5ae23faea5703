//! Bodies of calls that clients make: prompts, commands, sessions and changes to them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{
    Extra, MessageId, PartId, Rest,
    message::{ModelRef, OutputFormat},
    part::{AgentPart, CompactionPart, FilePart, SubtaskPart, TextPart},
};

/// The body of `POST /session/{id}/message` and `/prompt_async`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptInput {
    /// Id chosen by the client. A repeated call with the same id changes nothing.
    #[serde(rename = "messageID")]
    pub message_id: Option<MessageId>,
    /// Model that answers. Default: the agent's, else the session's.
    pub model: Option<ModelRef>,
    /// Agent that answers. Default: the session's.
    pub agent: Option<String>,
    /// True to store the message without a turn.
    pub no_reply: Option<bool>,
    /// Enables or disables tools by name (deprecated by OpenCode).
    pub tools: Option<std::collections::BTreeMap<String, bool>>,
    /// Requested format of the answer.
    pub format: Option<OutputFormat>,
    /// Addition to the system prompt.
    pub system: Option<String>,
    /// Variant of the model.
    pub variant: Option<String>,
    /// Delivery while a turn is running (Baton's addition).
    pub delivery: Option<Delivery>,
    /// Content of the prompt.
    pub parts: Vec<PartInput>,
    /// Sender of the call. Only the server sets it.
    #[serde(skip)]
    pub sender: Sender,
    #[serde(flatten)]
    pub extra: Rest,
}

/// Sender of a prompt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Sender {
    /// A client of the user.
    #[default]
    Client,
    /// A plugin. Its prompts belong to the episode of the user's last prompt.
    Plugin,
}

impl PromptInput {
    /// Creates a prompt with one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(PartInputBody::Text(TextPart { text: text.into(), ..TextPart::default() }))
    }

    /// Creates a prompt whose turn only summarises the conversation. It waits until the running turn ends.
    pub fn compaction(auto: bool) -> Self {
        let part = CompactionPart { auto, overflow: None, tail_start_id: None, extra: Extra::new() };
        Self { delivery: Some(Delivery::Queue), ..Self::of(PartInputBody::Compaction(part)) }
    }

    fn of(body: PartInputBody) -> Self {
        Self {
            message_id: None,
            model: None,
            agent: None,
            no_reply: None,
            tools: None,
            format: None,
            system: None,
            variant: None,
            delivery: None,
            parts: vec![PartInput { id: None, body }],
            sender: Sender::Client,
            extra: Rest::NONE,
        }
    }

    /// Returns true if the prompt has a text and none of its texts was written by the user.
    pub fn is_synthetic(&self) -> bool {
        let mut texts = self.parts.iter().filter_map(|part| match &part.body {
            PartInputBody::Text(text) => Some(text.synthetic == Some(true)),
            _ => None,
        });
        texts.next().is_some_and(|first| first && texts.all(|other| other))
    }
}

/// The body of `POST /session/{id}/command`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommandInput {
    /// Id chosen by the client. A repeated call with the same id changes nothing.
    #[serde(rename = "messageID")]
    pub message_id: Option<MessageId>,
    /// Agent that answers, unless the command names one.
    pub agent: Option<String>,
    /// Model that answers, as `provider/model`, unless the command names one.
    pub model: Option<String>,
    /// Variant of the model.
    pub variant: Option<String>,
    /// Name of the command without the slash.
    pub command: String,
    /// Text after the name.
    pub arguments: String,
    /// Attachments and mentions.
    pub parts: Option<Vec<PartInput>>,
    /// Sender of the call. Only the server sets it.
    #[serde(skip)]
    pub sender: Sender,
    #[serde(flatten)]
    pub extra: Rest,
}

/// The body of `POST /session/{id}/shell`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShellInput {
    /// Id chosen by the client. A repeated call with the same id changes nothing.
    #[serde(rename = "messageID")]
    pub message_id: Option<MessageId>,
    /// Agent to which the messages are attributed.
    pub agent: String,
    /// Model to which the messages are attributed.
    pub model: Option<ModelRef>,
    pub command: String,
    #[serde(flatten)]
    pub extra: Rest,
}

/// Handling of a prompt that arrives while a turn is running.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// Joins the running turn at its next step. If the turn is on its last step, it continues with the prompt.
    #[default]
    Steer,
    /// Waits until the running answer is complete, then starts its own.
    Queue,
}

/// A part as a client sends it: without session and message; the id is optional.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartInput {
    /// Id. The server generates one if the client does not.
    pub id: Option<PartId>,
    /// Type and content.
    #[serde(flatten)]
    pub body: PartInputBody,
}

/// Content of a part that a client sends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum PartInputBody {
    Text(TextPart),
    File(FilePart),
    /// A mention of an agent.
    Agent(AgentPart),
    /// A task for a subagent.
    Subtask(SubtaskPart),
    /// A request to summarise the conversation. Only the server creates such prompts; clients call
    /// `/session/{id}/summarize`.
    #[schemars(skip)]
    Compaction(CompactionPart),
}

/// The body of `POST /session`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionInput {
    /// Id chosen by the client. Only the newer interface allows it.
    #[serde(skip)]
    pub id: Option<crate::SessionId>,
    /// Makes the session a child of this one.
    #[serde(rename = "parentID")]
    pub parent_id: Option<crate::SessionId>,
    pub title: Option<String>,
    pub agent: Option<String>,
    pub model: Option<crate::session::SessionModel>,
    /// Free-form data of the client.
    pub metadata: Option<Extra>,
    /// Permission rules, applied after those of the agent.
    pub permission: Option<Vec<crate::request::Rule>>,
    /// Id of an experimental OpenCode workspace. Baton passes it through.
    #[serde(rename = "workspaceID")]
    pub workspace_id: Option<String>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// The body of `POST /session/{id}/fork`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForkInput {
    /// Copies only the messages before this one. If absent, copies all.
    #[serde(rename = "messageID")]
    pub message_id: Option<MessageId>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// The body of `POST /session/{id}/revert`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RevertInput {
    /// First message to revert. If it is an answer, its prompt is reverted, too.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// First part of that message to revert. If absent, reverts the whole message.
    #[serde(rename = "partID")]
    pub part_id: Option<PartId>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// The body of `PATCH /session/{id}`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionPatch {
    pub title: Option<String>,
    /// Replaces the metadata.
    pub metadata: Option<Extra>,
    /// Permission rules to append.
    pub permission: Option<Vec<crate::request::Rule>>,
    pub time: Option<TimePatch>,
    /// True to continue turns automatically while todos are open (Baton's addition).
    pub continuation: Option<bool>,
    /// Agent for the next prompts. Only the newer interface sets it.
    #[serde(skip)]
    pub agent: Option<String>,
    /// Model for the next prompts. Only the newer interface sets it.
    #[serde(skip)]
    pub model: Option<crate::session::SessionModel>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// Times of a session that a client can change.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimePatch {
    /// Time at which the user archived the session.
    pub archived: Option<crate::number::Number>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// The body of `PUT /session/{id}/seen`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SeenInput {
    /// Position in the log: the `id:` of the newest event that the user has seen. A lower one marks the session as
    /// unread again.
    pub cursor: u64,
    #[serde(flatten)]
    pub extra: Rest,
}
