//! Prompts as clients send them, and what becomes of them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Extra, MessageId, PartId, Rest,
    message::{ModelRef, OutputFormat},
    part::{AgentPart, CompactionPart, FilePart, SubtaskPart, TextPart},
};

/// The body of `POST /session/{id}/message` and `/prompt_async`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptInput {
    /// Chosen by the client; sending the same one again changes nothing.
    #[serde(rename = "messageID", default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The model that is to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// The agent that is to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Store the message, run nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_reply: Option<bool>,
    /// Tools switched on or off (deprecated by OpenCode).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<std::collections::BTreeMap<String, bool>>,
    /// The wanted form of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<OutputFormat>,
    /// Extra system prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Variant of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// What to do with it while a turn is running (Baton's addition).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<Delivery>,
    /// What is said.
    pub parts: Vec<PartInput>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

impl PromptInput {
    /// A prompt of nothing but words.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(PartInputBody::Text(TextPart { text: text.into(), ..TextPart::default() }))
    }

    /// A prompt whose turn does nothing but summarise the conversation, after what runs already.
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
            extra: Rest::NONE,
        }
    }
}

/// The body of `POST /session/{id}/command`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommandInput {
    /// Chosen by the client; sending the same one again changes nothing.
    #[serde(rename = "messageID", default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The agent that is to answer, unless the command names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model that is to answer, as `provider/model`, unless the command names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Variant of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    /// The command's name, without the slash.
    pub command: String,
    /// What was written after it.
    pub arguments: String,
    /// What comes with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<PartInput>>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// The body of `POST /session/{id}/shell`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShellInput {
    /// Chosen by the client; sending the same one again changes nothing.
    #[serde(rename = "messageID", default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// The agent in whose name it is shown.
    pub agent: String,
    /// The model in whose name it is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// The command line.
    pub command: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// What to do with a prompt that arrives while a turn is running.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Delivery {
    /// Join the running turn at its next step; if it is on its final answer, come right after it.
    #[default]
    Steer,
    /// Wait until the running answer is finished, then be answered on its own.
    Queue,
}

/// A part as a client sends it: no session, no message, the id optional.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PartInput {
    /// Chosen by the client, or by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<PartId>,
    /// What it holds.
    #[serde(flatten)]
    pub body: PartInputBody,
}

/// What a client may put into a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum PartInputBody {
    /// Words.
    Text(TextPart),
    /// An attachment.
    File(FilePart),
    /// A mention of an agent.
    Agent(AgentPart),
    /// A task for a subagent.
    Subtask(SubtaskPart),
    /// A wish to have the conversation summarised. Servers make such prompts; clients have a call for it.
    #[schemars(skip)]
    Compaction(CompactionPart),
}

/// The body of `POST /session`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionInput {
    /// Chosen by the client, which only the newer wire allows.
    #[serde(skip)]
    pub id: Option<crate::SessionId>,
    /// Makes it a child.
    #[serde(rename = "parentID", default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<crate::SessionId>,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Its model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<crate::session::SessionModel>,
    /// Free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Extra>,
    /// Rules of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Vec<crate::request::Rule>>,
    /// Experimental workspaces of OpenCode; passed through.
    #[serde(rename = "workspaceID", default, skip_serializing_if = "Option::is_none")]
    pub workspace_id: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// The body of `POST /session/{id}/fork`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForkInput {
    /// Only what came before this message is copied.
    #[serde(rename = "messageID", default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// The body of `POST /session/{id}/revert`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RevertInput {
    /// Everything from this message on is taken back; an answer with its prompt.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// Or only from this part of it on.
    #[serde(rename = "partID", default, skip_serializing_if = "Option::is_none")]
    pub part_id: Option<PartId>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// The body of `PATCH /session/{id}`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionPatch {
    /// New title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Replaces the metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Extra>,
    /// Appended to the rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permission: Option<Vec<crate::request::Rule>>,
    /// Archiving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<TimePatch>,
    /// Whether turns go on by themselves while there are open todos (Baton's addition).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<bool>,
    /// The agent to go on with; the newer wire has a call for it.
    #[serde(skip)]
    pub agent: Option<String>,
    /// The model to go on with; the newer wire has a call for it.
    #[serde(skip)]
    pub model: Option<crate::session::SessionModel>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// Archiving.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimePatch {
    /// When it was put away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<crate::number::Number>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}
