//! Requests: permissions and questions that wait for the user, and the rules that decide permissions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::{ApprovalId, Extra, MessageId, Millis, PermissionId, QuestionId, Rest, SessionId};

/// A permission rule. Of the rules that match, the last one wins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rule {
    /// Permission, such as `bash` or `edit`; wildcards allowed.
    pub permission: String,
    /// Resource, such as a command or a path; wildcards allowed.
    pub pattern: String,
    pub action: Action,
    /// True if the rule wins over every rule that is not final, regardless of order. Not on the wire: only the
    /// user's or the administrator's configuration makes a rule final, never a client.
    #[serde(skip)]
    pub is_final: bool,
    #[serde(flatten)]
    pub extra: Rest,
}

impl Rule {
    /// Creates a rule that later rules may override.
    pub fn new(permission: impl Into<String>, pattern: impl Into<String>, action: Action) -> Self {
        let (permission, pattern) = (permission.into(), pattern.into());
        Self { permission, pattern, action, is_final: false, extra: Rest::NONE }
    }

    /// Returns the same rule as a final one, which only other final rules override.
    #[must_use]
    pub fn into_final(self) -> Self {
        Self { is_final: true, ..self }
    }
}

/// Decision of a permission rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    Allow,
    Deny,
    Ask,
}

/// A permission that waits for the user.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionRequest {
    pub id: PermissionId,
    /// Session that waits. For a request of a child, the child.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// Root session of the child that waits; absent for a root session (Baton's addition).
    #[serde(rename = "rootID")]
    pub root_id: Option<SessionId>,
    /// Permission, such as `bash` or `edit`.
    pub permission: String,
    /// Files, commands or other resources that need the permission.
    pub patterns: Vec<String>,
    /// Details that clients display.
    #[serde(default)]
    pub metadata: Extra,
    /// Patterns that a reply of `always` would allow.
    pub always: Vec<String>,
    /// The tool call that waits.
    pub tool: Option<ToolRef>,
    /// Time at which the request is withdrawn or gets its default reply, unless a client answers it before. A request
    /// that outlives a restart of the server has its full time again (Baton's addition).
    pub deadline: Option<Millis>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// Reference to a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolRef {
    #[serde(rename = "messageID")]
    pub message_id: MessageId,
    /// The model's call id.
    #[serde(rename = "callID")]
    pub call_id: String,
    #[serde(flatten)]
    pub extra: Rest,
}

impl ToolRef {
    /// Creates a reference without unknown fields.
    pub fn new(message_id: MessageId, call_id: impl Into<String>) -> Self {
        Self { message_id, call_id: call_id.into(), extra: Rest::NONE }
    }
}

/// A reply to a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PermissionReply {
    /// Allows this request.
    Once,
    /// Allows this request and stores its `always` patterns.
    Always,
    /// Refuses this request.
    Reject,
}

/// The origin of an answer to a request (Baton's addition).
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnsweredBy {
    pub kind: AnswerKind,
    /// Name that the client gave itself in the header `x-baton-client`.
    pub name: Option<String>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// The ways in which a request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AnswerKind {
    /// A client answered.
    Client,
    /// An approval that the user gave elsewhere allows it.
    Approval,
    /// No client answered in time.
    Timeout,
    /// The server withdrew the request, because its turn ended or its agent no longer waits.
    Server,
}

impl AnsweredBy {
    /// Creates an origin other than a client.
    pub fn new(kind: AnswerKind) -> Self {
        Self { kind, name: None, extra: Rest::NONE }
    }

    /// Creates the origin of a client's answer.
    pub fn client(name: Option<String>) -> Self {
        Self { name, ..Self::new(AnswerKind::Client) }
    }
}

/// The body of `POST /permission/{id}/reply`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionReplyInput {
    pub reply: PermissionReply,
    /// With `reject`: instructions for the agent.
    pub message: Option<String>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// A stored approval: a pattern that the user allowed with `always`, valid in one directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    pub id: ApprovalId,
    /// Project of the session that asked.
    #[serde(rename = "projectID")]
    pub project_id: String,
    /// Directory in which the approval is valid (Baton's addition).
    pub directory: String,
    /// Permission, such as `bash` or `edit`.
    #[serde(rename = "action")]
    pub permission: String,
    /// Resource; wildcards allowed.
    #[serde(rename = "resource")]
    pub pattern: String,
    #[serde(flatten)]
    pub extra: Rest,
}

impl Approval {
    /// Returns the permission rule that the approval stands for.
    pub fn rule(&self) -> Rule {
        Rule::new(self.permission.clone(), self.pattern.clone(), Action::Allow)
    }
}

/// A question that waits for the user.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionRequest {
    pub id: QuestionId,
    /// Session that waits. For a request of a child, the child.
    #[serde(rename = "sessionID")]
    pub session_id: SessionId,
    /// Root session of the child that waits; absent for a root session (Baton's addition).
    #[serde(rename = "rootID")]
    pub root_id: Option<SessionId>,
    pub questions: Vec<Question>,
    /// The tool call that waits.
    pub tool: Option<ToolRef>,
    /// Time at which the request is withdrawn or gets its default reply, unless a client answers it before. A request
    /// that outlives a restart of the server has its full time again (Baton's addition).
    pub deadline: Option<Millis>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A single question.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Question {
    pub question: String,
    /// Very short title, for a tab.
    pub header: String,
    /// Suggested answers.
    pub options: Vec<QuestionOption>,
    /// True if several options may be selected.
    pub multiple: Option<bool>,
    /// True if the user may enter another answer. Default: true.
    pub custom: Option<bool>,
    #[serde(flatten)]
    pub extra: Extra,
}

/// A suggested answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionOption {
    pub label: String,
    pub description: String,
    #[serde(flatten)]
    pub extra: Rest,
}

/// Answers to a question request: for each question, a list of labels or free text.
pub type Answers = Vec<Vec<String>>;

/// The body of `POST /question/{id}/reply`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuestionReplyInput {
    /// One list of labels or free text for each question.
    pub answers: Answers,
    #[serde(flatten)]
    pub extra: Rest,
}

/// A request of either kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    Permission(PermissionRequest),
    Question(QuestionRequest),
}

impl Request {
    /// Sets the time at which the request ends without an answer.
    pub fn set_deadline(&mut self, deadline: Millis) {
        match self {
            Self::Permission(request) => request.deadline = Some(deadline),
            Self::Question(request) => request.deadline = Some(deadline),
        }
    }

    /// Returns the session that waits.
    pub fn session_id(&self) -> &SessionId {
        match self {
            Self::Permission(request) => &request.session_id,
            Self::Question(request) => &request.session_id,
        }
    }

    /// Returns the root session of the one that waits.
    pub fn root_id(&self) -> &SessionId {
        let root = match self {
            Self::Permission(request) => request.root_id.as_ref(),
            Self::Question(request) => request.root_id.as_ref(),
        };
        root.unwrap_or_else(|| self.session_id())
    }

    pub fn id(&self) -> &str {
        match self {
            Self::Permission(request) => request.id.as_str(),
            Self::Question(request) => request.id.as_str(),
        }
    }
}
