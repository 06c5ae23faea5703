//! What comes with an event: the `properties` of each type that has a fixed shape.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    EndReason, Extra, Message, MessageError, MessageId, Millis, Part, PartId, PermissionId, QuestionId,
    Session, SessionId, SessionStatus, Todo,
    continuation::{Source, StopReason},
    project::FileDiff,
    prompt::Delivery,
    request::{Answers, Approval, PermissionReply},
};

macro_rules! properties {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field:meta])* $field_name:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($(#[$field])* pub $field_name: $type,)*
            /// Fields this version does not know.
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
    /// A whole session.
    SessionInfo {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// All of it.
        info: Session,
    }
    /// A session's new status.
    StatusChanged {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// Busy, retry or idle.
        status: SessionStatus,
    }
    /// Just the session.
    SessionOnly {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
    }
    /// What went wrong.
    SessionFailed {
        /// The session, if it was about one.
        #[serde(rename = "sessionID", default, skip_serializing_if = "Option::is_none")]
        session_id: Option<SessionId>,
        /// The error.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<MessageError>,
    }
    /// What a session changed in the tree.
    SessionDiffed {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The changes.
        diff: Vec<FileDiff>,
    }
    /// A whole message.
    MessageInfo {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// All of it, without parts.
        info: Message,
    }
    /// A removed message.
    MessageGone {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The message.
        #[serde(rename = "messageID")]
        message_id: MessageId,
    }
    /// A whole part.
    PartInfo {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// All of it.
        part: Part,
        /// When.
        time: Millis,
    }
    /// A piece of streamed text.
    PartDelta {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The message.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        /// The part.
        #[serde(rename = "partID")]
        part_id: PartId,
        /// Always `text`.
        field: String,
        /// What is added.
        delta: String,
    }
    /// A removed part.
    PartGone {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The message.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        /// The part.
        #[serde(rename = "partID")]
        part_id: PartId,
    }
    /// The new todo list.
    TodosReplaced {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The whole list.
        todos: Vec<Todo>,
    }
    /// A finished slash command.
    CommandDone {
        /// The command.
        name: String,
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// What it was called with.
        arguments: String,
        /// The assistant message that came of it.
        #[serde(rename = "messageID")]
        message_id: MessageId,
    }
    /// A prompt that waits for its turn.
    PromptQueued {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The user message.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        /// How it will be delivered.
        delivery: Delivery,
    }
    /// A prompt that is being worked on.
    PromptStarted {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The user message.
        #[serde(rename = "messageID")]
        message_id: MessageId,
    }
    /// A prompt that will not be worked on any more.
    PromptEnded {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The user message.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        /// How.
        reason: EndReason,
    }
    /// A turn that goes on by itself.
    ContinuationStarted {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The user message that it goes on with.
        #[serde(rename = "messageID")]
        message_id: MessageId,
        /// Who wanted it.
        source: Source,
        /// The prompt that a person wrote.
        episode: MessageId,
        /// Which continuation of the episode it is, from 1.
        n: u32,
        /// How many todos are open.
        open: u64,
    }
    /// A turn that is about to go on by itself.
    ContinuationCountdown {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The prompt that a person wrote.
        episode: MessageId,
        /// Which continuation of the episode it will be, from 1.
        n: u32,
        /// How many todos are open.
        open: u64,
        /// When it goes on.
        until: Millis,
    }
    /// A turn that does not go on although something is left to do.
    ContinuationStopped {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// Why.
        reason: StopReason,
        /// How often it has gone on since the last prompt that a person wrote.
        rounds: u32,
    }
    /// An answered permission.
    PermissionAnswered {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The request.
        #[serde(rename = "requestID")]
        request_id: PermissionId,
        /// The reply.
        reply: PermissionReply,
        /// Nobody answered in time; this is the reply that counts then (Baton's addition).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unanswered: Option<bool>,
        /// With `always`: what is allowed from now on and was not before (Baton's addition).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        saved: Vec<Approval>,
    }
    /// An answered question.
    QuestionAnswered {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The request.
        #[serde(rename = "requestID")]
        request_id: QuestionId,
        /// The answers.
        answers: Answers,
    }
    /// A dismissed question.
    QuestionDismissed {
        /// The session.
        #[serde(rename = "sessionID")]
        session_id: SessionId,
        /// The request.
        #[serde(rename = "requestID")]
        request_id: QuestionId,
        /// Nobody answered in time (Baton's addition).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unanswered: Option<bool>,
    }
    /// A changed file.
    FileChanged {
        /// Absolute path.
        file: String,
    }
    /// A changed file, and how.
    FileWatched {
        /// Absolute path.
        file: String,
        /// `add`, `change` or `unlink`.
        event: String,
    }
    /// A cursor that is too old.
    Resync {
        /// The oldest position that could still be replayed.
        oldest: u64,
    }
}

impl ContinuationStarted {
    /// In words for people.
    pub fn describe(&self) -> String {
        match self.source {
            Source::Todo => format!("going on ({}): {}", self.n, open_todos(self.open)),
            Source::Hook => format!("going on ({}): a plugin wants it to", self.n),
        }
    }
}

impl ContinuationCountdown {
    /// In words for people.
    pub fn describe(&self) -> String {
        format!("about to go on by itself: {}", open_todos(self.open))
    }
}

fn open_todos(open: u64) -> String {
    if open == 1 { "1 todo is open".to_owned() } else { format!("{open} todos are open") }
}
