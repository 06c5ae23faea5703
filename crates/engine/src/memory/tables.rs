//! The projection of events to tables.
//!
//! This is the reference every backend is compared with. The rules that are not obvious from the code:
//!
//! - A commit belongs to one session. It is refused if the session's number of events differs from the one the
//!   writer expects, or if the session does not exist and the commit does not begin with its creation.
//! - Deleting a session deletes its rows and its events; the deletion event itself stays in the log. Children
//!   are deleted by commits of their own.
//! - A part may arrive before its message; listings show it once the message is there.
//! - A request or prompt that is announced twice keeps its first place.
//! - Only `session.seen` changes the mark of a session, not the session in its other events.
//! - A new order of the queue permutes the open prompts that it names among their places; the others stay.
//! - Approvals are stored by workspace and outlive the session in which they were given.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use bytes::Bytes;
use protocol::{
    ApprovalId, EndReason, EventBody, Message, MessageId, MessageWithParts, Part, PartId, Rest, Session,
    SessionId, SessionStatus, Todo, WorkspaceId,
    project::ProjectNote,
    prompt::Delivery,
    queue::Waiting,
    request::{Approval, Request},
};

use crate::{
    limits::MAX_APPROVALS,
    ports::{Appended, Commit, Error, Listing, Logged, OpenPrompt, Span, StoreFailure, Stored},
};

#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) sessions: BTreeMap<SessionId, Row>,
    notes: BTreeMap<String, ProjectNote>,
    /// Sorted from oldest to newest.
    approvals: Vec<(WorkspaceId, Approval)>,
    /// Texts that a search finds, by number.
    pub(super) texts: BTreeMap<u64, (SessionId, MessageId, PartId)>,
    log: BTreeMap<u64, Line>,
    newest: u64,
    /// The log has no events up to and including this position.
    trimmed: u64,
}

/// A session and all rows that are deleted with it, apart from its events.
#[derive(Debug)]
pub(super) struct Row {
    session: Session,
    workspace: WorkspaceId,
    head: u64,
    pub(super) messages: BTreeMap<MessageId, Message>,
    pub(super) parts: BTreeMap<(MessageId, PartId), Part>,
    todos: Vec<Todo>,
    status: Option<SessionStatus>,
    /// Each with the position at which it was asked.
    requests: Vec<(u64, Request)>,
    prompts: Vec<OpenPrompt>,
    /// Prompts that a client withdrew.
    withdrawn: BTreeSet<MessageId>,
}

/// An event in the log.
#[derive(Debug)]
struct Line {
    /// `None` once the session is deleted.
    session: Option<SessionId>,
    /// Number within the session, from 1.
    number: u64,
    stored: Stored,
}

impl Tables {
    /// Stores all commits, or none if one does not continue its session.
    pub(super) fn append(&mut self, commits: Vec<Commit>) -> Result<(Appended, Vec<Logged>), Error> {
        commits.iter().try_for_each(|commit| self.check(commit))?;
        let mut logged = Vec::new();
        let mut head = 0;
        for commit in commits {
            head = self.store(commit, &mut logged);
        }
        Ok((Appended { head, position: self.newest }, logged))
    }

    fn check(&self, commit: &Commit) -> Result<(), Error> {
        let head = match self.sessions.get(&commit.session) {
            Some(row) => row.head,
            None if begins_with_creation(commit) => 0,
            None => {
                return Err(Error::new(
                    StoreFailure::Conflict,
                    format!("session {} does not exist", commit.session),
                ));
            }
        };
        if head != commit.expected {
            return Err(Error::new(
                StoreFailure::Conflict,
                format!(
                    "session {} has {head} events, the writer expected {}",
                    commit.session, commit.expected
                ),
            ));
        }
        Ok(())
    }

    /// Stores a commit and returns the number of events that its session has now.
    fn store(&mut self, commit: Commit, logged: &mut Vec<Logged>) -> u64 {
        let head = commit.expected + commit.events.len() as u64;
        for (number, encoded) in (commit.expected + 1..).zip(commit.events) {
            self.newest += 1;
            self.apply(&commit.session, &commit.fence.workspace, &encoded.event.body);
            let alive = self.sessions.contains_key(&commit.session);
            let stored = Stored {
                position: self.newest,
                workspace: commit.fence.workspace.clone(),
                directory: Arc::clone(&commit.directory),
                project: Arc::clone(&commit.project),
                json: encoded.json.clone(),
            };
            let session = alive.then(|| commit.session.clone());
            self.log.insert(self.newest, Line { session, number, stored });
            logged.push(Logged {
                position: self.newest,
                session: commit.session.clone(),
                workspace: commit.fence.workspace.clone(),
                directory: Arc::clone(&commit.directory),
                project: Arc::clone(&commit.project),
                event: encoded.event,
                json: encoded.json,
            });
        }
        if let Some(row) = self.sessions.get_mut(&commit.session) {
            row.head = head;
        }
        head
    }

    fn apply(&mut self, id: &SessionId, workspace: &WorkspaceId, event: &EventBody) {
        match event {
            EventBody::SessionCreated(it) | EventBody::SessionUpdated(it) => {
                match self.sessions.entry(id.clone()) {
                    Entry::Occupied(mut row) => {
                        let row = row.get_mut();
                        row.session = Session { seen: row.session.seen, ..it.info.clone() };
                        row.workspace = workspace.clone();
                    }
                    Entry::Vacant(place) => {
                        place.insert(Row::new(workspace.clone(), Session { seen: None, ..it.info.clone() }));
                    }
                }
            }
            EventBody::SessionDeleted(_) => {
                self.sessions.remove(id);
                self.texts.retain(|_, (session, ..)| session != id);
                self.log.retain(|_, line| line.session.as_ref() != Some(id));
            }
            _ => {
                let Some(row) = self.sessions.get_mut(id) else { return };
                row.apply(event, self.newest);
                if let EventBody::PermissionReplied(it) = event {
                    it.saved.iter().for_each(|approval| self.approve(workspace, approval));
                }
                self.index(id, event);
            }
        }
    }

    fn approve(&mut self, workspace: &WorkspaceId, approval: &Approval) {
        let here = |(place, _): &(WorkspaceId, Approval)| place == workspace;
        let same = |known: &(WorkspaceId, Approval)| {
            known.1.id == approval.id || (here(known) && known.1.rule() == approval.rule())
        };
        if self.approvals.iter().any(same) {
            return;
        }
        self.approvals.push((workspace.clone(), approval.clone()));
        if self.approvals.iter().filter(|known| here(known)).count() > MAX_APPROVALS
            && let Some(oldest) = self.approvals.iter().position(here)
        {
            self.approvals.remove(oldest);
        }
    }

    pub(super) fn forget(&mut self, approval: &ApprovalId) -> bool {
        let before = self.approvals.len();
        self.approvals.retain(|(_, known)| known.id != *approval);
        self.approvals.len() < before
    }

    pub(super) fn approvals(&self, workspace: Option<&WorkspaceId>) -> Vec<Approval> {
        let wanted = self.approvals.iter().filter(|(place, _)| is_in(workspace, place));
        wanted.map(|(_, approval)| approval.clone()).collect()
    }

    pub(super) fn checkpoint(&mut self, parts: Vec<Part>) {
        for part in parts.into_iter().filter(Part::is_open) {
            let key = (part.message_id.clone(), part.id.clone());
            let stored = self.sessions.get_mut(&part.session_id).and_then(|row| row.parts.get_mut(&key));
            if let Some(stored) = stored.filter(|stored| stored.is_open()) {
                *stored = part;
            }
        }
    }

    pub(super) fn trim(&mut self, upto: u64) {
        let upto = upto.min(self.newest);
        self.trimmed = self.trimmed.max(upto);
        self.log = self.log.split_off(&(upto + 1));
    }

    pub(super) fn session(&self, id: &SessionId) -> Option<(Session, u64)> {
        self.sessions.get(id).map(|row| (row.session.clone(), row.head))
    }

    pub(super) fn workspace(&self, session: &SessionId) -> Option<WorkspaceId> {
        self.sessions.get(session).map(|row| row.workspace.clone())
    }

    pub(super) fn sessions(&self, listing: &Listing) -> Vec<Session> {
        let mut found: Vec<Session> = self
            .sessions
            .values()
            .filter(|row| is_in(listing.workspace.as_ref(), &row.workspace))
            .map(|row| &row.session)
            .filter(|session| matches(session, listing))
            .cloned()
            .collect();
        // Stable: sessions updated at the same time stay in the order of their ids, newest first.
        found.sort_by_key(|session| std::cmp::Reverse(session.time.updated));
        found.truncate(listing.limit.unwrap_or(usize::MAX));
        found
    }

    pub(super) fn message(&self, session: &SessionId, id: &MessageId) -> Option<MessageWithParts> {
        let row = self.sessions.get(session)?;
        row.messages.get(id).map(|message| row.with_parts(message))
    }

    pub(super) fn part(&self, session: &SessionId, message: &MessageId, id: &PartId) -> Option<Part> {
        self.sessions.get(session)?.parts.get(&(message.clone(), id.clone())).cloned()
    }

    pub(super) fn open(&self, session: &SessionId) -> Vec<MessageWithParts> {
        let Some(row) = self.sessions.get(session) else { return Vec::new() };
        row.select(|message| is_open(message) || row.parts_of(message.id()).any(Part::is_open))
    }

    pub(super) fn last_answer(
        &self,
        session: &SessionId,
        prompt: Option<&MessageId>,
    ) -> Option<MessageWithParts> {
        let row = self.sessions.get(session)?;
        let answers = |message: &&Message| match message {
            Message::User(_) => false,
            Message::Assistant(answer) => prompt.is_none_or(|prompt| answer.parent_id == *prompt),
        };
        let newest = row.messages.values().filter(answers).max_by_key(|message| message.order())?;
        Some(row.with_parts(newest))
    }

    pub(super) fn todos(&self, session: &SessionId) -> Vec<Todo> {
        self.sessions.get(session).map(|row| row.todos.clone()).unwrap_or_default()
    }

    pub(super) fn statuses(&self, workspace: Option<&WorkspaceId>) -> Vec<(SessionId, SessionStatus)> {
        let rows = self.rows(workspace);
        rows.filter_map(|(id, row)| Some((id.clone(), row.status.clone()?))).collect()
    }

    pub(super) fn requests(&self, workspace: Option<&WorkspaceId>) -> Vec<Request> {
        let mut found: Vec<_> = self.rows(workspace).flat_map(|(_, row)| &row.requests).collect();
        found.sort_by_key(|(asked, _)| *asked);
        found.into_iter().map(|(_, request)| request.clone()).collect()
    }

    /// The sessions of one workspace or of all.
    fn rows<'a>(
        &'a self,
        workspace: Option<&'a WorkspaceId>,
    ) -> impl Iterator<Item = (&'a SessionId, &'a Row)> {
        self.sessions.iter().filter(move |(_, row)| is_in(workspace, &row.workspace))
    }

    pub(super) fn is_withdrawn(&self, session: &SessionId, prompt: &MessageId) -> bool {
        self.sessions.get(session).is_some_and(|row| row.withdrawn.contains(prompt))
    }

    pub(super) fn status(&self, session: &SessionId) -> Option<SessionStatus> {
        self.sessions.get(session)?.status.clone()
    }

    pub(super) fn requests_of(&self, session: &SessionId) -> Vec<Request> {
        let row = self.sessions.get(session);
        row.into_iter().flat_map(|row| &row.requests).map(|(_, request)| request.clone()).collect()
    }

    pub(super) fn prompts(&self, session: &SessionId) -> Vec<OpenPrompt> {
        self.sessions.get(session).map(|row| row.prompts.clone()).unwrap_or_default()
    }

    pub(super) fn unfinished(&self, workspace: Option<&WorkspaceId>) -> Vec<SessionId> {
        let busy = |row: &Row| row.status.is_some() || !row.prompts.is_empty();
        self.rows(workspace).filter(|(_, row)| busy(row)).map(|(id, _)| id.clone()).collect()
    }

    pub(super) fn replay(&self, span: &Span) -> Vec<Stored> {
        if span.after >= span.upto {
            return Vec::new();
        }
        self.log
            .range(span.after + 1..=span.upto)
            .map(|(_, line)| &line.stored)
            .filter(|stored| is_in(span.workspace.as_ref(), &stored.workspace))
            .take(span.limit)
            .cloned()
            .collect()
    }

    pub(super) fn note(&mut self, project: String, newer: ProjectNote) -> ProjectNote {
        let note = self.notes.entry(project).or_default();
        note.amend(newer);
        note.clone()
    }

    pub(super) fn notes(&self) -> BTreeMap<String, ProjectNote> {
        self.notes.clone()
    }

    pub(super) fn events(&self, session: &SessionId, after: u64, limit: usize) -> Vec<(u64, Bytes)> {
        let own =
            self.log.values().filter(|line| line.session.as_ref() == Some(session) && line.number > after);
        own.take(limit).map(|line| (line.number, line.stored.json.clone())).collect()
    }

    pub(super) fn count(&self) -> u64 {
        self.sessions.len() as u64
    }

    pub(super) fn bounds(&self) -> (u64, u64) {
        (self.trimmed + 1, self.newest)
    }
}

impl Row {
    fn new(workspace: WorkspaceId, session: Session) -> Self {
        Self {
            session,
            workspace,
            head: 0,
            messages: BTreeMap::new(),
            parts: BTreeMap::new(),
            todos: Vec::new(),
            status: None,
            requests: Vec::new(),
            prompts: Vec::new(),
            withdrawn: BTreeSet::new(),
        }
    }

    fn apply(&mut self, event: &EventBody, position: u64) {
        match event {
            EventBody::MessageUpdated(it) => {
                self.messages.insert(it.info.id().clone(), it.info.clone());
            }
            EventBody::MessageRemoved(it) => {
                self.messages.remove(&it.message_id);
                self.parts.retain(|(message, _), _| *message != it.message_id);
            }
            EventBody::PartUpdated(it) => {
                let key = (it.part.message_id.clone(), it.part.id.clone());
                self.parts.insert(key, it.part.clone());
            }
            EventBody::PartRemoved(it) => {
                self.parts.remove(&(it.message_id.clone(), it.part_id.clone()));
            }
            EventBody::SessionSeen(it) => self.session.seen = Some(it.cursor),
            EventBody::TodoUpdated(it) => self.todos.clone_from(&it.todos),
            EventBody::SessionStatus(it) => {
                self.status = (!it.status.is_idle()).then(|| it.status.clone());
            }
            EventBody::PermissionAsked(it) => self.ask(Request::Permission(it.clone()), position),
            EventBody::QuestionAsked(it) => self.ask(Request::Question(it.clone()), position),
            EventBody::PermissionReplied(it) => self.answered(it.request_id.as_str()),
            EventBody::QuestionReplied(it) => self.answered(it.request_id.as_str()),
            EventBody::QuestionRejected(it) => self.answered(it.request_id.as_str()),
            EventBody::PromptQueued(it) => self.prompt(&it.message_id).delivery = it.delivery,
            EventBody::PromptStarted(it) => self.prompt(&it.message_id).started = true,
            EventBody::PromptEnded(it) => {
                self.prompts.retain(|prompt| prompt.message != it.message_id);
                if it.reason == EndReason::Withdrawn {
                    self.withdrawn.insert(it.message_id.clone());
                }
            }
            EventBody::QueueUpdated(it) => self.rearrange(&it.queue),
            _ => {}
        }
    }

    fn ask(&mut self, request: Request, position: u64) {
        match self.requests.iter_mut().find(|(_, known)| known.id() == request.id()) {
            Some((_, known)) => *known = request,
            None => self.requests.push((position, request)),
        }
    }

    fn answered(&mut self, id: &str) {
        self.requests.retain(|(_, request)| request.id() != id);
    }

    /// Puts the open prompts among `queue` into its order.
    fn rearrange(&mut self, queue: &[Waiting]) {
        let is_named = |prompt: &OpenPrompt| queue.iter().any(|named| named.message_id == prompt.message);
        let named: Vec<OpenPrompt> = self.prompts.iter().filter(|prompt| is_named(prompt)).cloned().collect();
        let mut ordered = queue.iter().filter_map(|wanted| {
            let known = named.iter().find(|prompt| prompt.message == wanted.message_id)?;
            Some(OpenPrompt { delivery: wanted.delivery, ..known.clone() })
        });
        for place in self.prompts.iter_mut().filter(|prompt| is_named(prompt)) {
            if let Some(next) = ordered.next() {
                *place = next;
            }
        }
    }

    /// The open prompt of a message; added if it is not known yet.
    #[expect(clippy::indexing_slicing, reason = "the index was found or pushed just above")]
    fn prompt(&mut self, message: &MessageId) -> &mut OpenPrompt {
        let known = self.prompts.iter().position(|prompt| prompt.message == *message);
        let index = known.unwrap_or(self.prompts.len());
        if known.is_none() {
            self.prompts.push(OpenPrompt {
                message: message.clone(),
                delivery: Delivery::default(),
                started: false,
            });
        }
        &mut self.prompts[index]
    }

    fn parts_of<'a>(&'a self, message: &'a MessageId) -> impl Iterator<Item = &'a Part> {
        self.parts.iter().filter(move |((owner, _), _)| owner == message).map(|(_, part)| part)
    }

    fn with_parts(&self, message: &Message) -> MessageWithParts {
        let parts = self.parts_of(message.id()).cloned().collect();
        MessageWithParts { info: message.clone(), parts, extra: Rest::NONE }
    }

    /// Messages that match, oldest first, with their parts.
    pub(super) fn select(&self, fits: impl Fn(&Message) -> bool) -> Vec<MessageWithParts> {
        let mut found: Vec<&Message> = self.messages.values().filter(|message| fits(message)).collect();
        found.sort_by_key(|message| message.order());
        found.into_iter().map(|message| self.with_parts(message)).collect()
    }
}

/// True for every workspace if none is wanted.
fn is_in(wanted: Option<&WorkspaceId>, workspace: &WorkspaceId) -> bool {
    wanted.is_none_or(|wanted| wanted == workspace)
}

fn begins_with_creation(commit: &Commit) -> bool {
    commit.events.first().is_some_and(|first| matches!(first.event.body, EventBody::SessionCreated(_)))
}

fn is_open(message: &Message) -> bool {
    match message {
        Message::User(_) => false,
        Message::Assistant(answer) => answer.time.completed.is_none(),
    }
}

fn matches(session: &Session, listing: &Listing) -> bool {
    let wanted = |wish: &Option<String>, value: &str| wish.as_deref().is_none_or(|wish| wish == value);
    wanted(&listing.project, &session.project_id)
        && listing.path.as_deref().is_none_or(|path| is_below(session.path.as_deref(), path))
        && listing.parent.as_ref().is_none_or(|parent| session.parent_id.as_ref() == Some(parent))
        && (!listing.roots || session.parent_id.is_none())
        && listing.updated_since.is_none_or(|since| session.time.updated >= since)
        && listing.updated_before.is_none_or(|before| session.time.updated < before)
        && (!listing.unarchived || session.time.archived.is_none())
        && listing
            .search
            .as_ref()
            .is_none_or(|search| session.title.to_lowercase().contains(&search.to_lowercase()))
}

/// Everything is below the worktree's root, which is the empty path.
fn is_below(path: Option<&str>, root: &str) -> bool {
    let Some(rest) = path.and_then(|path| path.strip_prefix(root)) else { return false };
    root.is_empty() || rest.is_empty() || rest.starts_with('/')
}
