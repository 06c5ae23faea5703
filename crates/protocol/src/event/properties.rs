//! Properties of events: one type for each event with a fixed shape.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    EndReason, Extra, Message, MessageError, MessageId, Millis, Part, PartId, PermissionId, QuestionId,
    Session, SessionId, SessionStatus, Todo,
    continuation::{Source, StopReason},
    project::FileDiff,
    prompt::Delivery,
    queue::Waiting,
    request::{AnsweredBy, Answers, Approval, PermissionReply},
};

macro_rules! properties {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field:meta])* $field_name:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($(#[$field])* pub $field_name: $type,)*
            #[serde(flatten)]
            pub extra: Extra,
        }

        impl $name {
            /// Properties without unknown fields.
            pub fn new($($field_name: $type),*) -> Self {
                Self { $($field_name,)* extra: Extra::new() }
            }
        }
    )*};
}

properties! {
    /// Properties with a complete session.
    SessionInfo {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        info: Session,
    }
    /// Properties of a status change.
    StatusChanged {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        status: SessionStatus,
    }
    /// Properties that only name a session.
    SessionOnly {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
    }
    /// Properties of an error.
    SessionFailed {
        /// Session of the error; absent if it concerns none.
        #[serde(rename = "sessionID", default, skip_serializing_if = "Option::is_none")]
        session_id: Option<SessionId>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<MessageError>,
    }
    /// Properties of a session that a client marked as seen.
    SessionMarked {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// Position in the log up to which the user has seen the session.
        cursor: u64,
    }
    /// Properties with the files that a session changed.
    SessionDiffed {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        diff: Vec<FileDiff>,
    }
    /// Properties with a complete message, without its parts.
    MessageInfo {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        info: Message,
    }
    /// Properties of a removed message.
    MessageGone {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "messageID")]
        message_id: MessageId,
    }
    /// Properties with a complete part.
    PartInfo {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        part: Part,
        time: Millis,
    }
    /// Properties of a piece of streamed text.
    PartDelta {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "messageID")]
        message_id: MessageId,
        #[serde(rename = "partID")]
        part_id: PartId,
        /// Name of the part's field, always `text`.
        field: String,
        /// Text to append.
        delta: String,
        /// Length of the part's text before this piece, in UTF-16 code units as JavaScript counts them (Baton's
        /// addition).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        offset: Option<u64>,
    }
    /// Properties of a removed part.
    PartGone {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "messageID")]
        message_id: MessageId,
        #[serde(rename = "partID")]
        part_id: PartId,
    }
    /// Properties with the new todo list.
    TodosReplaced {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The complete list.
        todos: Vec<Todo>,
    }
    /// Properties of a finished slash command.
    CommandDone {
        /// Name without the slash.
        name: String,
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        arguments: String,
        /// The assistant message that answers the command.
        #[serde(rename = "messageID")]
        message_id: MessageId,
    }
    /// Properties of a queued prompt.
    PromptQueued {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The user message.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        delivery: Delivery,
    }
    /// Properties of a prompt that a turn has taken up.
    PromptStarted {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The user message.
        #[serde(rename = "messageID")]
        message_id: MessageId,
    }
    /// Properties of a prompt that has ended.
    PromptEnded {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The user message.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        reason: EndReason,
    }
    /// Properties with the waiting prompts of a session.
    QueueChanged {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// All waiting prompts, in the order in which turns take them up.
        queue: Vec<Waiting>,
    }
    /// Properties of a turn that continues automatically.
    ContinuationStarted {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The generated user message that continues the turn.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        source: Source,
        /// The user prompt that began the episode.
        episode: MessageId,
        /// Number of the continuation within the episode, starting at 1.
        n: u32,
        /// Number of open todos.
        open: u64,
    }
    /// Properties of a continuation that starts after a countdown.
    ContinuationCountdown {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The user prompt that began the episode.
        episode: MessageId,
        /// Number of the upcoming continuation within the episode, starting at 1.
        n: u32,
        /// Number of open todos.
        open: u64,
        /// End of the countdown.
        until: Millis,
    }
    /// Properties of a turn that does not continue although todos are open.
    ContinuationStopped {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        reason: StopReason,
        /// Number of continuations since the last user prompt.
        rounds: u32,
    }
    /// Properties of an answered permission.
    PermissionAnswered {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "requestID")]
        request_id: PermissionId,
        reply: PermissionReply,
        /// True if the permission timed out and the configured default reply applies (Baton's addition).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unanswered: Option<bool>,
        /// With the reply `always`: new approvals (Baton's addition).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        saved: Vec<Approval>,
        /// Origin of the answer (Baton's addition).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<AnsweredBy>,
    }
    /// Properties of an answered question.
    QuestionAnswered {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "requestID")]
        request_id: QuestionId,
        answers: Answers,
        /// Origin of the answer (Baton's addition).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<AnsweredBy>,
    }
    /// Properties of a dismissed question.
    QuestionDismissed {
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        #[serde(rename = "requestID")]
        request_id: QuestionId,
        /// True if the question timed out (Baton's addition).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unanswered: Option<bool>,
        /// Origin of the answer (Baton's addition).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<AnsweredBy>,
    }
    /// Properties of an edited file.
    FileChanged {
        /// Absolute path of the file.
        file: String,
    }
    /// Properties of a file change on disk.
    FileWatched {
        /// Absolute path of the file.
        file: String,
        /// `add`, `change` or `unlink`.
        event: String,
    }
    /// Properties of a new stream.
    Connected {
        /// Position in the log after which the stream begins: the client's own cursor if the log still reaches back to
        /// it, else the newest position (Baton's addition).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cursor: Option<u64>,
    }
    /// Properties of a stream that has caught up.
    Ready {
        /// Position in the log up to which the client has received everything. It can resume here.
        cursor: u64,
    }
    /// Properties of a resync: the client's cursor is too old.
    Resync {
        /// The oldest event that the log still holds.
        oldest: u64,
    }
}

impl ContinuationStarted {
    /// Returns a sentence for users.
    pub fn describe(&self) -> String {
        match self.source {
            Source::Todo => format!("{}, continuing (round {})", open_todos(self.open), self.n),
            Source::Hook => format!("continuing because a plugin asked for it (round {})", self.n),
        }
    }
}

impl ContinuationCountdown {
    /// Returns a sentence for users.
    pub fn describe(&self) -> String {
        format!("{}, continuing in a moment", open_todos(self.open))
    }
}

fn open_todos(open: u64) -> String {
    if open == 1 { "1 todo is still open".to_owned() } else { format!("{open} todos are still open") }
}
