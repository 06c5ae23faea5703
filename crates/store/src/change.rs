//! The table changes of an event, with their bodies already encoded.
//!
//! The caller's task encodes them, not the writer's thread, because there is only one writer and all sessions wait
//! for it.

use std::sync::Arc;

use bytes::Bytes;
use engine::ports::{Commit, Error, Logged, Notice, StoreFailure};
use protocol::{
    EndReason, Event, EventBody, EventId, Message, MessageId, Millis, Part, PartId, Session, SessionId,
    WorkspaceId, queue::Waiting, request::Approval,
};
use serde::Serialize;

/// A commit that is ready to be written.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) session: SessionId,
    pub(super) workspace: WorkspaceId,
    /// The epoch of the writer's fence.
    pub(super) epoch: u64,
    pub(super) directory: Arc<str>,
    pub(super) project: Arc<str>,
    pub(super) expected: u64,
    pub(super) flush: bool,
    pub(super) entries: Vec<Entry>,
}

/// An event, its JSON, and its change of the tables.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) event: Event,
    pub(super) json: Bytes,
    pub(super) change: Change,
}

/// One change of the tables.
#[derive(Debug)]
pub(super) enum Change {
    /// The event is only logged.
    None,
    SessionSaved {
        created: bool,
        row: Box<SessionRow>,
    },
    SessionDeleted,
    MessageSaved {
        id: MessageId,
        created: Millis,
        answers: Option<MessageId>,
        open: bool,
        body: String,
    },
    MessageRemoved(MessageId),
    PartSaved(PartRow),
    PartRemoved(MessageId, PartId),
    Todos(String),
    Seen(u64),
    Busy(String),
    Idle,
    Asked {
        id: String,
        kind: &'static str,
        body: String,
    },
    Answered(String),
    /// A replied permission, with the approvals it creates.
    Permitted {
        id: String,
        saved: Vec<ApprovalRow>,
    },
    PromptQueued(MessageId, String),
    PromptStarted(MessageId),
    PromptEnded(MessageId),
    PromptWithdrawn(MessageId),
    /// The new order of waiting prompts, with their encoded delivery.
    Queue(Vec<(MessageId, String)>),
}

/// An approval's columns.
#[derive(Debug)]
pub(super) struct ApprovalRow {
    pub(super) id: String,
    pub(super) directory: String,
    pub(super) permission: String,
    pub(super) pattern: String,
    pub(super) body: String,
}

/// A session's columns.
#[derive(Debug)]
pub(super) struct SessionRow {
    pub(super) project: String,
    pub(super) directory: String,
    pub(super) path: Option<String>,
    pub(super) parent: Option<SessionId>,
    pub(super) title: String,
    pub(super) created: Millis,
    pub(super) updated: Millis,
    pub(super) archived: bool,
    pub(super) body: String,
}

/// A part's columns.
#[derive(Debug)]
pub(super) struct PartRow {
    pub(super) session: SessionId,
    pub(super) message: MessageId,
    pub(super) id: PartId,
    pub(super) open: bool,
    pub(super) body: String,
    /// The text that a search looks through.
    pub(super) searchable: Option<String>,
}

/// A change of the outbox.
pub(super) enum NoticeChange {
    Put { upto: u64, notices: Vec<Notice> },
    Postpone { receiver: String, id: EventId, attempts: u32, due: Millis },
    Remove { receiver: String, id: EventId },
    Retain(Vec<String>),
}

impl NoticeChange {
    /// Approximate number of bytes to write.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Put { notices, .. } => notices.iter().map(|notice| notice.body.len()).sum(),
            _ => 0,
        }
    }
}

/// `kind` of a permission's row.
pub(super) const PERMISSION: &str = "permission";
/// `kind` of a question's row.
pub(super) const QUESTION: &str = "question";

impl Prepared {
    pub(super) fn new(commit: Commit) -> Result<Self, Error> {
        let entries = commit
            .events
            .into_iter()
            .map(|encoded| {
                let change = Change::of(&commit.session, &encoded.event.body)?;
                Ok(Entry { event: encoded.event, json: encoded.json, change })
            })
            .collect::<Result<_, Error>>()?;
        Ok(Self {
            session: commit.session,
            workspace: commit.fence.workspace,
            epoch: commit.fence.epoch,
            directory: commit.directory,
            project: commit.project,
            expected: commit.expected,
            flush: commit.flush,
            entries,
        })
    }

    /// Approximate number of bytes to write.
    pub(super) fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.json.len()).sum()
    }

    /// Returns true if all events are UTF-8.
    pub(super) fn is_text(&self) -> bool {
        self.entries.iter().all(|entry| std::str::from_utf8(&entry.json).is_ok())
    }

    /// Returns true if the commit creates its session.
    pub(super) fn creates(&self) -> bool {
        let first = self.entries.first().map(|entry| &entry.change);
        matches!(first, Some(Change::SessionSaved { created: true, .. }))
    }

    /// Returns true if the commit removes a session or messages.
    pub(super) fn removes(&self) -> bool {
        let removes =
            |entry: &Entry| matches!(entry.change, Change::SessionDeleted | Change::MessageRemoved(_));
        self.entries.iter().any(removes)
    }

    /// The events for the observer; `first` is the position of the first one.
    pub(super) fn into_logged(self, first: u64) -> Vec<Logged> {
        let Self { session, workspace, directory, project, entries, .. } = self;
        (first..)
            .zip(entries)
            .map(|(position, entry)| Logged {
                position,
                session: session.clone(),
                workspace: workspace.clone(),
                directory: Arc::clone(&directory),
                project: Arc::clone(&project),
                event: entry.event,
                json: entry.json,
            })
            .collect()
    }
}

impl Change {
    fn of(session: &SessionId, event: &EventBody) -> Result<Self, Error> {
        Ok(match event {
            EventBody::SessionCreated(it) => {
                Self::SessionSaved { created: true, row: Box::new(SessionRow::new(&it.info)?) }
            }
            EventBody::SessionUpdated(it) => {
                Self::SessionSaved { created: false, row: Box::new(SessionRow::new(&it.info)?) }
            }
            EventBody::SessionDeleted(_) => Self::SessionDeleted,
            EventBody::MessageUpdated(it) => {
                let (answers, open) = match &it.info {
                    Message::User(_) => (None, false),
                    Message::Assistant(answer) => {
                        (Some(answer.parent_id.clone()), answer.time.completed.is_none())
                    }
                };
                Self::MessageSaved {
                    id: it.info.id().clone(),
                    created: it.info.created(),
                    answers,
                    open,
                    body: encode(&it.info)?,
                }
            }
            EventBody::MessageRemoved(it) => Self::MessageRemoved(it.message_id.clone()),
            EventBody::PartUpdated(it) => Self::PartSaved(PartRow::new(session, &it.part)?),
            EventBody::PartRemoved(it) => Self::PartRemoved(it.message_id.clone(), it.part_id.clone()),
            EventBody::SessionSeen(it) => Self::Seen(it.cursor),
            EventBody::TodoUpdated(it) => Self::Todos(encode(&it.todos)?),
            EventBody::SessionStatus(it) if it.status.is_idle() => Self::Idle,
            EventBody::SessionStatus(it) => Self::Busy(encode(&it.status)?),
            EventBody::PermissionAsked(it) => {
                Self::Asked { id: it.id.to_string(), kind: PERMISSION, body: encode(it)? }
            }
            EventBody::QuestionAsked(it) => {
                Self::Asked { id: it.id.to_string(), kind: QUESTION, body: encode(it)? }
            }
            EventBody::PermissionReplied(it) => Self::Permitted {
                id: it.request_id.to_string(),
                saved: it.saved.iter().map(ApprovalRow::new).collect::<Result<_, _>>()?,
            },
            EventBody::QuestionReplied(it) => Self::Answered(it.request_id.to_string()),
            EventBody::QuestionRejected(it) => Self::Answered(it.request_id.to_string()),
            EventBody::PromptQueued(it) => Self::PromptQueued(it.message_id.clone(), encode(&it.delivery)?),
            EventBody::PromptStarted(it) => Self::PromptStarted(it.message_id.clone()),
            EventBody::PromptEnded(it) if it.reason == EndReason::Withdrawn => {
                Self::PromptWithdrawn(it.message_id.clone())
            }
            EventBody::QueueUpdated(it) => {
                let encoded =
                    |waiting: &Waiting| Ok((waiting.message_id.clone(), encode(&waiting.delivery)?));
                Self::Queue(it.queue.iter().map(encoded).collect::<Result<_, Error>>()?)
            }
            EventBody::PromptEnded(it) => Self::PromptEnded(it.message_id.clone()),
            _ => Self::None,
        })
    }
}

impl ApprovalRow {
    fn new(approval: &Approval) -> Result<Self, Error> {
        Ok(Self {
            id: approval.id.to_string(),
            directory: approval.directory.clone(),
            permission: approval.permission.clone(),
            pattern: approval.pattern.clone(),
            body: encode(approval)?,
        })
    }
}

impl SessionRow {
    fn new(session: &Session) -> Result<Self, Error> {
        Ok(Self {
            project: session.project_id.clone(),
            directory: session.directory.clone(),
            path: session.path.clone(),
            parent: session.parent_id.clone(),
            title: session.title.to_lowercase(),
            created: session.time.created,
            updated: session.time.updated,
            archived: session.time.archived.is_some(),
            body: encode(session)?,
        })
    }
}

impl PartRow {
    /// The rows of the parts that are open: only their text is saved between events.
    pub(super) fn of_open(parts: &[Part]) -> Result<Vec<Self>, Error> {
        let open = parts.iter().filter(|part| part.is_open());
        open.map(|part| Self::new(&part.session_id, part)).collect()
    }

    fn new(session: &SessionId, part: &Part) -> Result<Self, Error> {
        Ok(Self {
            session: session.clone(),
            message: part.message_id.clone(),
            id: part.id.clone(),
            open: part.is_open(),
            body: encode(part)?,
            searchable: part.searchable().map(str::to_owned),
        })
    }
}

/// Values were already encoded for the wire, so encoding them for a column cannot fail. If it does, the whole
/// commit is unusable.
pub(super) fn encode(value: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(value)
        .map_err(|error| Error::new(StoreFailure::Corrupt, format!("failed to encode a value: {error}")))
}
