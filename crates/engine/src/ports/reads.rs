//! Queries on the tables that follow from the log.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use protocol::{
    Message, MessageId, MessageWithParts, Millis, Part, PartId, Session, SessionId, SessionStatus, Todo,
    WorkspaceId,
    project::ProjectNote,
    prompt::Delivery,
    request::{Approval, Request},
};

use super::{Error, StoreFailure, StoreFuture};

/// Queries. None of them waits for the writer.
pub trait Reads: Send + Sync {
    /// A session with the number of events it has.
    fn session(&self, id: &SessionId) -> StoreFuture<'_, Option<(Session, u64)>>;

    /// The workspace of a session.
    fn workspace(&self, session: &SessionId) -> StoreFuture<'_, Option<WorkspaceId>>;

    /// Sessions, most recently updated first.
    fn sessions(&self, listing: Listing) -> StoreFuture<'_, Vec<Session>>;

    fn count(&self) -> StoreFuture<'_, u64>;

    /// The users' notes about projects, by project id.
    fn notes(&self) -> StoreFuture<'_, BTreeMap<String, ProjectNote>>;

    /// A page of messages with their parts, oldest first; parts by id.
    fn messages(&self, session: &SessionId, page: Page) -> StoreFuture<'_, Vec<MessageWithParts>>;

    /// A bounded piece of a session's messages, still encoded as stored.
    fn stretch(&self, session: &SessionId, stretch: Stretch) -> StoreFuture<'_, Vec<Record>>;

    /// The place of the `count`th message before a place, or before the end; `None` if there are fewer.
    fn nth_before(
        &self,
        session: &SessionId,
        before: Option<Cursor>,
        count: usize,
    ) -> StoreFuture<'_, Option<Cursor>>;

    /// The place of the `count`th message after a place; `None` if there are fewer.
    fn nth_after(&self, session: &SessionId, after: Cursor, count: usize) -> StoreFuture<'_, Option<Cursor>>;

    /// The place of the newest completed summary.
    fn newest_summary(&self, session: &SessionId) -> StoreFuture<'_, Option<Cursor>>;

    /// One message with its parts.
    fn message(&self, session: &SessionId, id: &MessageId) -> StoreFuture<'_, Option<MessageWithParts>>;

    fn part(&self, session: &SessionId, message: &MessageId, id: &PartId) -> StoreFuture<'_, Option<Part>>;

    /// Incomplete assistant messages, and messages with open parts: the state that a dead owner leaves behind.
    fn open(&self, session: &SessionId) -> StoreFuture<'_, Vec<MessageWithParts>>;

    /// The newest assistant message that answers `prompt`, or the newest of all if `prompt` is `None`.
    fn last_answer(
        &self,
        session: &SessionId,
        prompt: Option<&MessageId>,
    ) -> StoreFuture<'_, Option<MessageWithParts>>;

    fn todos(&self, session: &SessionId) -> StoreFuture<'_, Vec<Todo>>;

    /// Every session of one workspace or of all that is not idle, by id.
    fn statuses(&self, workspace: Option<&WorkspaceId>) -> StoreFuture<'_, Vec<(SessionId, SessionStatus)>>;

    /// The status of one session; `None` if it is idle.
    fn status(&self, session: &SessionId) -> StoreFuture<'_, Option<SessionStatus>>;

    /// Every open request of one workspace or of all, oldest first.
    fn requests(&self, workspace: Option<&WorkspaceId>) -> StoreFuture<'_, Vec<Request>>;

    /// Open requests of one session, oldest first.
    fn requests_of(&self, session: &SessionId) -> StoreFuture<'_, Vec<Request>>;

    /// Approvals of one workspace or of all, oldest first. At most [`MAX_APPROVALS`](crate::limits::MAX_APPROVALS)
    /// are kept for a workspace; older ones are dropped.
    fn approvals(&self, workspace: Option<&WorkspaceId>) -> StoreFuture<'_, Vec<Approval>>;

    /// Prompts of a session that were accepted and have not ended: in order of acceptance, unless a client has rearranged
    /// those that wait.
    fn prompts(&self, session: &SessionId) -> StoreFuture<'_, Vec<OpenPrompt>>;

    /// Returns true if a client withdrew this prompt while it waited.
    fn is_withdrawn(&self, session: &SessionId, prompt: &MessageId) -> StoreFuture<'_, bool>;

    /// Complete texts in which every word of a search begins a word, newest first.
    fn find(&self, search: Search) -> StoreFuture<'_, Vec<Found>>;

    /// Sessions of one workspace or of all that are not idle or have prompts that have not ended.
    fn unfinished(&self, workspace: Option<&WorkspaceId>) -> StoreFuture<'_, Vec<SessionId>>;

    /// Events with `after < position <= span.upto`, in order, at most `span.limit`.
    fn replay(&self, span: Span) -> StoreFuture<'_, Vec<Stored>>;

    /// The events of a session after its `after`th, in order, at most `limit`, each with its number in the session.
    /// Trimmed events are missing.
    fn events(&self, session: &SessionId, after: u64, limit: usize) -> StoreFuture<'_, Vec<(u64, Bytes)>>;

    /// The oldest position that was not trimmed and the newest ever assigned. An empty log answers `(newest + 1,
    /// newest)`. Events deleted with their session leave gaps, which no client needs.
    fn bounds(&self) -> StoreFuture<'_, (u64, u64)>;
}

/// A filter for sessions. All conditions apply.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    pub project: Option<String>,
    /// Matches exactly, not the workspaces of directories below.
    pub workspace: Option<WorkspaceId>,
    /// Only sessions whose `path` is this or below.
    pub path: Option<String>,
    pub parent: Option<SessionId>,
    /// Only sessions without a parent.
    pub roots: bool,
    /// Sessions updated at this time match.
    pub updated_since: Option<Millis>,
    /// Sessions updated at this time do not match.
    pub updated_before: Option<Millis>,
    /// Only sessions that are not archived.
    pub unarchived: bool,
    /// Only sessions whose title contains this, ignoring case.
    pub search: Option<String>,
    pub limit: Option<usize>,
}

/// A page of messages.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Only messages before this place.
    pub before: Option<Cursor>,
    /// Only this many of the newest messages.
    pub limit: Option<usize>,
}

/// A piece of a session's messages. Both limits apply, except that a piece holds at least one message if there is
/// one: otherwise a reader could not get past a large message.
#[derive(Debug, Clone)]
pub struct Stretch {
    pub after: Option<Cursor>,
    pub before: Option<Cursor>,
    /// The end to start from, and the order of the answer.
    pub direction: Direction,
    /// Maximum number of messages.
    pub limit: usize,
    /// The piece ends with the message that brings the stored JSON to this many bytes.
    pub bytes: usize,
    /// True for one of many reads of a long listing. Such reads take turns and leave threads free for others.
    pub bulk: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From oldest to newest.
    Forward,
    /// From newest to oldest.
    Backward,
}

/// A stored message, still encoded: most reads pass it on without decoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    pub place: Cursor,
    /// The message's JSON.
    pub info: String,
    /// Sorted by part id.
    pub parts: Vec<PartRecord>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRecord {
    /// True while the part is being written; the stored text is then older than the text that clients have seen.
    pub open: bool,
    /// The part's JSON.
    pub json: String,
}

impl Record {
    /// Size of the JSON in bytes.
    pub fn bytes(&self) -> usize {
        self.parts.iter().fold(self.info.len(), |sum, part| sum.saturating_add(part.json.len()))
    }

    /// Decodes the message.
    pub fn read(&self) -> Result<MessageWithParts, Error> {
        let message = || -> serde_json::Result<MessageWithParts> {
            let parts = self.parts.iter().map(|part| serde_json::from_str(&part.json));
            Ok(MessageWithParts::new(serde_json::from_str(&self.info)?, parts.collect::<Result<_, _>>()?))
        };
        message().map_err(|error| {
            Error::new(StoreFailure::Corrupt, format!("message {} cannot be read: {error}", self.place.id))
        })
    }

    /// Appends the message's JSON, `{"info":…,"parts":[…]}`.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.reserve(self.bytes() + self.parts.len() + 32);
        out.extend_from_slice(br#"{"info":"#);
        out.extend_from_slice(self.info.as_bytes());
        out.extend_from_slice(br#","parts":["#);
        for (at, part) in self.parts.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            out.extend_from_slice(part.json.as_bytes());
        }
        out.extend_from_slice(b"]}");
    }
}

/// A place in a session's messages, which are ordered by creation time and id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// `time.created` of the message.
    pub created: Millis,
    pub id: MessageId,
}

impl Cursor {
    pub fn of(message: &Message) -> Self {
        Self { created: message.created(), id: message.id().clone() }
    }
}

/// A prompt that was accepted and has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenPrompt {
    /// The user message.
    pub message: MessageId,
    pub delivery: Delivery,
    /// True if a turn has taken the prompt up.
    pub started: bool,
}

/// A range of log positions.
#[derive(Debug, Clone)]
pub struct Span {
    /// Exclusive lower bound.
    pub after: u64,
    /// Inclusive upper bound.
    pub upto: u64,
    /// Only events of this workspace.
    pub workspace: Option<WorkspaceId>,
    /// Maximum number of events.
    pub limit: usize,
}

/// An event read back from the log, still encoded.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Global position.
    pub position: u64,
    pub workspace: WorkspaceId,
    pub directory: Arc<str>,
    pub project: Arc<str>,
    /// `{"id":…,"type":…,"properties":…}`
    pub json: Bytes,
}

/// A search for words. Upper and lower case are the same.
#[derive(Debug, Clone)]
pub struct Search {
    /// In lower case, letters and digits only.
    pub words: Vec<String>,
    /// Only texts with a smaller number.
    pub before: Option<u64>,
    /// Maximum number of texts.
    pub limit: usize,
}

/// A text that a search has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Number of the text. Texts are numbered in the order in which they were completed.
    pub number: u64,
    pub session: SessionId,
    pub place: Cursor,
    pub part: PartId,
    pub text: String,
}
