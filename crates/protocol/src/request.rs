//! Requests: permissions and questions that wait for a person, and the rules that answer permissions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ApprovalId, Extra, MessageId, PermissionId, QuestionId, Rest, SessionId};

/// A rule of a permission list; the last match wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    /// Which permission (`bash`, `edit`, …; wildcards allowed).
    pub permission: String,
    /// What it is about (a command, a path; wildcards allowed).
    pub pattern: String,
    /// What to do.
    pub action: Action,
    /// Whether the rule wins over every rule that is not final, wherever that one stands. Not on the wire: only the
    /// user's or the administrator's configuration makes a rule final, never a client.
    #[serde(skip)]
    pub is_final: bool,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

impl Rule {
    /// A rule that later rules may override.
    pub fn new(permission: impl Into<String>, pattern: impl Into<String>, action: Action) -> Self {
        let (permission, pattern) = (permission.into(), pattern.into());
        Self { permission, pattern, action, is_final: false, extra: Rest::NONE }
    }

    /// The same rule, which only other final rules override.
    #[must_use]
    pub fn into_final(self) -> Self {
        Self { is_final: true, ..self }
    }
}

/// What a rule says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Go ahead.
    Allow,
    /// Refuse.
    Deny,
    /// Ask the person.
    Ask,
}

/// A permission that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionRequest {
    /// Its id.
    pub id: PermissionId,
    /// The session that waits; a child's requests carry the child's id.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// For a child's request: the session at the root of its family (Baton's addition).
    #[serde(rename = "rootID", default, skip_serializing_if = "Option::is_none")]
    pub root_id: Option<SessionId>,
    /// Which permission.
    pub permission: String,
    /// What it is about.
    pub patterns: Vec<String>,
    /// For showing it well.
    #[serde(default)]
    pub metadata: Extra,
    /// What a reply of `always` would allow.
    pub always: Vec<String>,
    /// The tool call that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolRef>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// A tool call, by its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolRef {
    /// The message it is in.
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// The model's id of the call.
    #[serde(rename = "callID")]
    pub call_id: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

impl ToolRef {
    /// The call in the message.
    pub fn new(message_id: MessageId, call_id: impl Into<String>) -> Self {
        Self { message_id, call_id: call_id.into(), extra: Rest::NONE }
    }
}

/// A person's answer to a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PermissionReply {
    /// This time.
    Once,
    /// From now on.
    Always,
    /// No.
    Reject,
}

/// The body of `POST /permission/{id}/reply`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionReplyInput {
    /// The reply.
    pub reply: PermissionReply,
    /// With a rejection: what to do instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// What a person has allowed for good, in one directory: what a reply of `always` leaves behind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// Its id.
    pub id: ApprovalId,
    /// The project of the session that asked.
    #[serde(rename = "projectID")]
    pub project_id: String,
    /// The directory it holds in (Baton's addition).
    pub directory: String,
    /// Which permission.
    #[serde(rename = "action")]
    pub permission: String,
    /// What it is about; wildcards allowed.
    #[serde(rename = "resource")]
    pub pattern: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

impl Approval {
    /// What it means when permissions are judged.
    pub fn rule(&self) -> Rule {
        Rule::new(self.permission.clone(), self.pattern.clone(), Action::Allow)
    }
}

/// A question that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionRequest {
    /// Its id.
    pub id: QuestionId,
    /// The session that waits; a child's requests carry the child's id.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// For a child's request: the session at the root of its family (Baton's addition).
    #[serde(rename = "rootID", default, skip_serializing_if = "Option::is_none")]
    pub root_id: Option<SessionId>,
    /// What is asked.
    pub questions: Vec<Question>,
    /// The tool call that waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolRef>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    /// The question.
    pub question: String,
    /// Very short, for a tab.
    pub header: String,
    /// Answers to pick from.
    pub options: Vec<QuestionOption>,
    /// More than one may be picked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub multiple: Option<bool>,
    /// An answer of one's own is allowed (the default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom: Option<bool>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An answer to pick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionOption {
    /// The answer.
    pub label: String,
    /// What it means.
    pub description: String,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// Answers to a question request: one list of labels or free text per question.
pub type Answers = Vec<Vec<String>>;

/// The body of `POST /question/{id}/reply`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionReplyInput {
    /// The answers.
    pub answers: Answers,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

/// Either kind of request.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// A permission.
    Permission(PermissionRequest),
    /// A question.
    Question(QuestionRequest),
}

impl Request {
    /// The session that waits.
    pub fn session_id(&self) -> &SessionId {
        match self {
            Self::Permission(request) => &request.session_id,
            Self::Question(request) => &request.session_id,
        }
    }

    /// The session at the root of the family of the one that waits.
    pub fn root_id(&self) -> &SessionId {
        let root = match self {
            Self::Permission(request) => request.root_id.as_ref(),
            Self::Question(request) => request.root_id.as_ref(),
        };
        root.unwrap_or_else(|| self.session_id())
    }

    /// The id, whichever kind.
    pub fn id(&self) -> &str {
        match self {
            Self::Permission(request) => request.id.as_str(),
            Self::Question(request) => request.id.as_str(),
        }
    }
}
