//! Events: what the server tells its clients.
//!
//! An event is *durable* (stored, replayable, framed with an `id:`) or *live* (deltas and connection
//! chatter, which a snapshot makes up for). OpenCode stores fewer types; making status and requests
//! durable is what lets a client that was away learn exactly what it missed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    EndReason, EventId, Extra, Message, MessageError, MessageId, Millis, Part, PartId, PermissionId,
    QuestionId, Session, SessionId, SessionStatus, Todo,
    project::{FileDiff, Project},
    prompt::Delivery,
    request::{Answers, PermissionReply, PermissionRequest, QuestionRequest},
};

/// An event as `{id, type, properties}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// Its type and properties.
    #[serde(flatten)]
    pub body: EventBody,
}

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident($wire:literal, $properties:ty, $kind:ident);)*) => {
        /// Every event type this version knows.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(tag = "type", content = "properties")]
        pub enum EventBody {
            $($(#[$doc])* #[serde(rename = $wire)] $name($properties),)*
            /// A type this version does not know.
            #[serde(untagged)]
            Other {
                /// The unknown type.
                #[serde(rename = "type")]
                kind: String,
                /// Whatever came with it.
                properties: Value,
            },
        }

        impl EventBody {
            /// The wire name of the type.
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$name(_) => $wire,)*
                    Self::Other { kind, .. } => kind,
                }
            }

            /// Whether it is stored and replayed.
            pub fn is_durable(&self) -> bool {
                match self {
                    $(Self::$name(_) => events!(@durable $kind),)*
                    Self::Other { .. } => false,
                }
            }

            /// Wire names of all known types.
            pub const KINDS: &[&str] = &[$($wire),*];
        }
    };
    (@durable durable) => { true };
    (@durable live) => { false };
}

events! {
    /// A session came to be.
    SessionCreated("session.created", SessionInfo, durable);
    /// A session changed.
    SessionUpdated("session.updated", SessionInfo, durable);
    /// A session is gone; children first.
    SessionDeleted("session.deleted", SessionInfo, durable);
    /// Busy, retry or idle.
    SessionStatus("session.status", StatusChanged, durable);
    /// Right after every idle status; deprecated by OpenCode, still sent.
    SessionIdle("session.idle", SessionOnly, durable);
    /// Something went wrong.
    SessionError("session.error", SessionFailed, durable);
    /// A compaction finished.
    SessionCompacted("session.compacted", SessionOnly, durable);
    /// What a session changed in the tree.
    SessionDiff("session.diff", SessionDiffed, durable);
    /// A message was stored or changed.
    MessageUpdated("message.updated", MessageInfo, durable);
    /// A message is gone.
    MessageRemoved("message.removed", MessageGone, durable);
    /// A part was stored or changed.
    PartUpdated("message.part.updated", PartInfo, durable);
    /// A piece of streamed text.
    PartDelta("message.part.delta", PartDelta, live);
    /// A part is gone.
    PartRemoved("message.part.removed", PartGone, durable);
    /// The todo list was replaced.
    TodoUpdated("todo.updated", TodosReplaced, durable);
    /// A slash command's turn ended.
    CommandExecuted("command.executed", CommandDone, durable);
    /// A prompt was accepted and waits for its turn (Baton's addition).
    PromptQueued("prompt.queued", PromptQueued, durable);
    /// A prompt is being worked on now (Baton's addition).
    PromptStarted("prompt.started", PromptStarted, durable);
    /// A prompt will not be worked on any more (Baton's addition).
    PromptEnded("prompt.ended", PromptEnded, durable);
    /// A permission waits for a person.
    PermissionAsked("permission.asked", PermissionRequest, durable);
    /// It waits no longer.
    PermissionReplied("permission.replied", PermissionAnswered, durable);
    /// A question waits for a person.
    QuestionAsked("question.asked", QuestionRequest, durable);
    /// It was answered.
    QuestionReplied("question.replied", QuestionAnswered, durable);
    /// It was dismissed.
    QuestionRejected("question.rejected", QuestionDismissed, durable);
    /// A tool changed a file.
    FileEdited("file.edited", FileChanged, durable);
    /// A file changed.
    FileWatcherUpdated("file.watcher.updated", FileWatched, live);
    /// Language servers changed.
    LspUpdated("lsp.updated", Extra, live);
    /// An MCP server has other tools now.
    McpToolsChanged("mcp.tools.changed", Extra, live);
    /// A login page could not be opened.
    McpBrowserOpenFailed("mcp.browser.open.failed", Extra, live);
    /// Another branch is checked out.
    VcsBranchUpdated("vcs.branch.updated", Extra, live);
    /// A terminal was opened.
    PtyCreated("pty.created", Extra, live);
    /// A terminal changed.
    PtyUpdated("pty.updated", Extra, live);
    /// A terminal's program ended.
    PtyExited("pty.exited", Extra, live);
    /// A terminal is gone.
    PtyDeleted("pty.deleted", Extra, live);
    /// Remote control of the terminal UI.
    TuiPromptAppend("tui.prompt.append", Extra, live);
    /// Remote control of the terminal UI.
    TuiCommandExecute("tui.command.execute", Extra, live);
    /// Remote control of the terminal UI.
    TuiToastShow("tui.toast.show", Extra, live);
    /// Remote control of the terminal UI.
    TuiSessionSelect("tui.session.select", Extra, live);
    /// A project changed.
    ProjectUpdated("project.updated", Project, live);
    /// A project has other directories now.
    ProjectDirectoriesUpdated("project.directories.updated", Extra, live);
    /// The program was updated.
    InstallationUpdated("installation.updated", Extra, live);
    /// The program could be updated.
    InstallationUpdateAvailable("installation.update-available", Extra, live);
    /// A worktree can be used.
    WorktreeReady("worktree.ready", Extra, live);
    /// A worktree could not be made.
    WorktreeFailed("worktree.failed", Extra, live);
    /// A workspace can be used.
    WorkspaceReady("workspace.ready", Extra, live);
    /// A workspace could not be made.
    WorkspaceFailed("workspace.failed", Extra, live);
    /// A workspace changed.
    WorkspaceStatus("workspace.status", Extra, live);
    /// A directory's instance was closed.
    ServerInstanceDisposed("server.instance.disposed", Extra, live);
    /// All instances were closed.
    GlobalDisposed("global.disposed", Extra, live);
    /// The first frame of a stream.
    ServerConnected("server.connected", Extra, live);
    /// The connection is alive.
    ServerHeartbeat("server.heartbeat", Extra, live);
    /// The cursor a client came with is older than the log: fetch state anew (Baton's addition).
    ServerResync("server.resync", Resync, live);
    /// The model catalogue was refreshed.
    ModelsDevRefreshed("models-dev.refreshed", Extra, live);
    /// Integrations changed.
    IntegrationUpdated("integration.updated", Extra, live);
    /// An integration's connection changed.
    IntegrationConnectionUpdated("integration.connection.updated", Extra, live);
    /// The catalogue changed.
    CatalogUpdated("catalog.updated", Extra, live);
    /// References changed.
    ReferenceUpdated("reference.updated", Extra, live);
    /// A plugin was loaded.
    PluginAdded("plugin.added", Extra, live);
}

impl EventBody {
    /// The session it is about, if it is about one.
    pub fn session_id(&self) -> Option<&SessionId> {
        match self {
            Self::SessionCreated(it) | Self::SessionUpdated(it) | Self::SessionDeleted(it) => {
                Some(&it.session_id)
            }
            Self::SessionStatus(it) => Some(&it.session_id),
            Self::SessionIdle(it) | Self::SessionCompacted(it) => Some(&it.session_id),
            Self::SessionError(it) => it.session_id.as_ref(),
            Self::SessionDiff(it) => Some(&it.session_id),
            Self::MessageUpdated(it) => Some(&it.session_id),
            Self::MessageRemoved(it) => Some(&it.session_id),
            Self::PartUpdated(it) => Some(&it.session_id),
            Self::PartDelta(it) => Some(&it.session_id),
            Self::PartRemoved(it) => Some(&it.session_id),
            Self::TodoUpdated(it) => Some(&it.session_id),
            Self::CommandExecuted(it) => Some(&it.session_id),
            Self::PromptQueued(it) => Some(&it.session_id),
            Self::PromptStarted(it) => Some(&it.session_id),
            Self::PromptEnded(it) => Some(&it.session_id),
            Self::PermissionAsked(it) => Some(&it.session_id),
            Self::PermissionReplied(it) => Some(&it.session_id),
            Self::QuestionAsked(it) => Some(&it.session_id),
            Self::QuestionReplied(it) => Some(&it.session_id),
            Self::QuestionRejected(it) => Some(&it.session_id),
            _ => None,
        }
    }
}

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
