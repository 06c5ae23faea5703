//! Reading what the log's tables hold.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use protocol::{
    Message, MessageId, MessageWithParts, Millis, Part, PartId, Session, SessionId, SessionStatus, Todo,
    project::ProjectNote,
    prompt::Delivery,
    request::{Approval, Request},
};

use super::{Answer, Error, Failure};

/// Queries. None of them waits for the writer.
pub trait Reads: Send + Sync {
    /// A session with the number of events it has.
    fn session(&self, id: &SessionId) -> Answer<'_, Option<(Session, u64)>>;

    /// Sessions, most recently updated first.
    fn sessions(&self, listing: Listing) -> Answer<'_, Vec<Session>>;

    /// How many sessions there are.
    fn count(&self) -> Answer<'_, u64>;

    /// What people said about projects, by the project's id.
    fn notes(&self) -> Answer<'_, BTreeMap<String, ProjectNote>>;

    /// A page of messages with their parts, oldest first; parts by id.
    fn messages(&self, session: &SessionId, page: Page) -> Answer<'_, Vec<MessageWithParts>>;

    /// A bounded piece of a session's messages, as they are stored.
    fn stretch(&self, session: &SessionId, stretch: Stretch) -> Answer<'_, Vec<Record>>;

    /// The place of the `count`th message before a place, or before the end; none if there are fewer.
    fn nth_before(
        &self,
        session: &SessionId,
        before: Option<Cursor>,
        count: usize,
    ) -> Answer<'_, Option<Cursor>>;

    /// The place of the newest summary that was completed.
    fn newest_summary(&self, session: &SessionId) -> Answer<'_, Option<Cursor>>;

    /// One message with its parts.
    fn message(&self, session: &SessionId, id: &MessageId) -> Answer<'_, Option<MessageWithParts>>;

    /// One part.
    fn part(&self, session: &SessionId, message: &MessageId, id: &PartId) -> Answer<'_, Option<Part>>;

    /// Assistant messages that were never completed, and messages with open parts: what a dead owner left.
    fn open(&self, session: &SessionId) -> Answer<'_, Vec<MessageWithParts>>;

    /// The newest assistant message that answers `prompt`, or the newest of all if `prompt` is none.
    fn last_answer(
        &self,
        session: &SessionId,
        prompt: Option<&MessageId>,
    ) -> Answer<'_, Option<MessageWithParts>>;

    /// The todo list.
    fn todos(&self, session: &SessionId) -> Answer<'_, Vec<Todo>>;

    /// Every session that is not idle, with its directory.
    fn statuses(&self) -> Answer<'_, Vec<(SessionId, Arc<str>, SessionStatus)>>;

    /// The status of one session; none if it is idle.
    fn status(&self, session: &SessionId) -> Answer<'_, Option<SessionStatus>>;

    /// Every request that waits for a person, with its session's directory, oldest first.
    fn requests(&self) -> Answer<'_, Vec<(Arc<str>, Request)>>;

    /// Requests of one session that wait, oldest first.
    fn requests_of(&self, session: &SessionId) -> Answer<'_, Vec<Request>>;

    /// What people have allowed for good, in one directory or everywhere, oldest first. At most
    /// [`MAX_APPROVALS`](crate::limits::MAX_APPROVALS) are kept for a directory; the oldest go.
    fn approvals(&self, directory: Option<&str>) -> Answer<'_, Vec<Approval>>;

    /// Prompts of a session that were accepted and not ended, in order of acceptance.
    fn prompts(&self, session: &SessionId) -> Answer<'_, Vec<OpenPrompt>>;

    /// Sessions that are not idle or have prompts that were not ended.
    fn unfinished(&self) -> Answer<'_, Vec<SessionId>>;

    /// Events with `after < position <= span.upto`, in order, at most `span.limit`.
    fn replay(&self, span: Span) -> Answer<'_, Vec<Stored>>;

    /// The events of a session after its `after`th, in order, at most `limit`, each with its number in the session.
    /// Trimmed ones are missing.
    fn events(&self, session: &SessionId, after: u64, limit: usize) -> Answer<'_, Vec<(u64, Bytes)>>;

    /// The oldest position that was not trimmed and the newest ever given. A log with nothing left answers
    /// `(newest + 1, newest)`. Events that went with their session leave gaps, which are nobody's loss.
    fn bounds(&self) -> Answer<'_, (u64, u64)>;
}

/// Which sessions to list.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Only of this project.
    pub project: Option<String>,
    /// Only in exactly this directory.
    pub directory: Option<String>,
    /// Only whose `path` is this or below.
    pub path: Option<String>,
    /// Only children of this session.
    pub parent: Option<SessionId>,
    /// Only sessions without a parent.
    pub roots: bool,
    /// Only updated at or after.
    pub updated_since: Option<Millis>,
    /// Only updated before.
    pub updated_before: Option<Millis>,
    /// Only what nobody has put away.
    pub unarchived: bool,
    /// Only whose title contains this, without regard to case.
    pub search: Option<String>,
    /// At most this many.
    pub limit: Option<usize>,
}

/// Which messages to read.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// Only older than this.
    pub before: Option<Cursor>,
    /// Only the newest so many.
    pub limit: Option<usize>,
}

/// Which piece of a session's messages to read. Both bounds apply, except that a piece holds at least one message
/// if there is one: otherwise a reader could not get past a large message.
#[derive(Debug, Clone)]
pub struct Stretch {
    /// Only messages after this place.
    pub after: Option<Cursor>,
    /// Only messages before this place.
    pub before: Option<Cursor>,
    /// From which end to read, and the order of the answer.
    pub direction: Direction,
    /// At most this many messages.
    pub limit: usize,
    /// Ends with the message that brings the stored JSON to this many bytes.
    pub bytes: usize,
    /// Whether it is one of many reads of a long listing. Such reads take turns, and leave threads free for others.
    pub bulk: bool,
}

/// An order of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Oldest first.
    Forward,
    /// Newest first.
    Backward,
}

/// A message as it is stored, still encoded: most of what is read is passed on unread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Where it is.
    pub place: Cursor,
    /// The message's JSON.
    pub info: String,
    /// Its parts, by id.
    pub parts: Vec<PartRecord>,
}

/// A part as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRecord {
    /// Whether it is still being written; the stored text is then older than what clients have seen.
    pub open: bool,
    /// The part's JSON.
    pub json: String,
}

impl Record {
    /// Bytes of JSON.
    pub fn bytes(&self) -> usize {
        self.parts.iter().fold(self.info.len(), |sum, part| sum.saturating_add(part.json.len()))
    }

    /// The message as a value.
    pub fn read(&self) -> Result<MessageWithParts, Error> {
        let message = || -> serde_json::Result<MessageWithParts> {
            let parts = self.parts.iter().map(|part| serde_json::from_str(&part.json));
            Ok(MessageWithParts::new(serde_json::from_str(&self.info)?, parts.collect::<Result<_, _>>()?))
        };
        message().map_err(|error| {
            Error::new(Failure::Corrupt, format!("message {} cannot be read: {error}", self.place.id))
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

/// A place in a session's messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// `time.created` of the message.
    pub created: Millis,
    /// Its id.
    pub id: MessageId,
}

impl Cursor {
    /// The place of a message.
    pub fn of(message: &Message) -> Self {
        Self { created: message.created(), id: message.id().clone() }
    }
}

/// A prompt that was accepted and not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenPrompt {
    /// The user message.
    pub message: MessageId,
    /// How it is to be delivered.
    pub delivery: Delivery,
    /// Whether a turn took it up.
    pub started: bool,
}

/// A stretch of the log.
#[derive(Debug, Clone)]
pub struct Span {
    /// Exclusive.
    pub after: u64,
    /// Inclusive.
    pub upto: u64,
    /// Only events of this directory.
    pub directory: Option<Arc<str>>,
    /// At most this many.
    pub limit: usize,
}

/// An event read back from the log, still encoded.
#[derive(Debug, Clone)]
pub struct Stored {
    /// Global position.
    pub position: u64,
    /// Its session's directory.
    pub directory: Arc<str>,
    /// Its session's project.
    pub project: Arc<str>,
    /// `{"id":…,"type":…,"properties":…}`
    pub json: Bytes,
}
