//! What a user interface shows of one session: a pure reducer over events.
//!
//! The rules that keep a spinner honest, whatever server sends the events:
//!
//! - `session.status` alone says whether something is going on. Busy may be repeated, retry is a kind of busy, and
//!   the first idle ends the turn: [`Change::Finished`] comes once, however often idle is said.
//! - `session.idle` is for servers that say nothing else. It ends a turn only if the status has not done so.
//! - `message.updated` is where tokens come from, and says nothing about activity.
//! - A child session never changes its parent's activity; but what it asks a person is shown on the parent, because
//!   that is where the person looks.
//! - What waits for a person goes before busy and before idle.

#[cfg(test)]
mod tests;
mod tokens;

use std::collections::{BTreeSet, VecDeque};

use protocol::{
    EndReason, EventBody, Message, MessageError, MessageId, Millis, Session, SessionId, SessionStatus,
    continuation::StopReason,
    event::{ContinuationCountdown, ContinuationStarted},
    request::{PermissionRequest, QuestionRequest},
    session::Tokens,
};

/// Prompts that are remembered after somebody has begun to answer them.
const MAX_BEGUN: usize = 32;

/// What is going on in a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Activity {
    /// Nothing.
    Idle {
        /// How the last turn ended, where the server says so.
        reason: Option<EndReason>,
    },
    /// A turn runs.
    Working,
    /// A turn runs and waits before it asks the model again.
    Retrying {
        /// Which retry comes next, from 1.
        attempt: u32,
        /// Why, for people.
        message: String,
        /// When the next attempt starts, to count down to.
        next: Millis,
    },
}

/// Something that waits for a person.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// A permission.
    Permission(PermissionRequest),
    /// A question.
    Question(QuestionRequest),
}

impl Request {
    /// Its id.
    pub fn id(&self) -> &str {
        match self {
            Self::Permission(request) => request.id.as_str(),
            Self::Question(request) => request.id.as_str(),
        }
    }

    /// The session that waits, which may be a child.
    pub fn session(&self) -> &SessionId {
        match self {
            Self::Permission(request) => &request.session_id,
            Self::Question(request) => &request.session_id,
        }
    }

    /// The session at the root of the one that waits, where the server says so.
    pub fn root(&self) -> Option<&SessionId> {
        match self {
            Self::Permission(request) => request.root_id.as_ref(),
            Self::Question(request) => request.root_id.as_ref(),
        }
    }
}

/// One mark for a session in a list. The most urgent is the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Badge {
    /// Nothing to see.
    Idle,
    /// A turn has ended that nobody has looked at.
    Unread,
    /// A turn runs.
    Working,
    /// A turn waits to ask again.
    Retrying,
    /// A permission waits for a person.
    Permission,
    /// A question waits for a person.
    Question,
}

/// What an event changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A turn began.
    Started,
    /// A turn waits, or waits no longer, to ask the model again.
    Retry,
    /// The turn is over; said once.
    Finished {
        /// How, where the server says so.
        reason: Option<EndReason>,
    },
    /// There are new token counts.
    Tokens,
    /// Another number of prompts waits.
    Queue,
    /// Something began to wait for a person.
    Asked(Request),
    /// It waits no longer.
    Settled {
        /// The request.
        id: String,
    },
    /// Something went wrong. Somebody who stops a turn is no such thing.
    Failed(MessageError),
    /// The turn is about to go on by itself, because something is left to do.
    GoesOnSoon(ContinuationCountdown),
    /// It goes on by itself.
    GoesOn(ContinuationStarted),
    /// It does not go on although something is left to do.
    Leaves(StopReason),
}

/// One session, as a person sees it.
#[derive(Debug, Clone)]
pub struct SessionView {
    session: SessionId,
    /// Sessions below this one.
    family: BTreeSet<SessionId>,
    activity: Activity,
    tokens: Option<Tokens>,
    requests: Vec<Request>,
    /// Prompts that nobody has begun to answer, oldest first.
    waiting: Vec<MessageId>,
    /// The last prompts that somebody has begun to answer. OpenCode tells of them again, for instance with what was changed.
    begun: VecDeque<MessageId>,
    /// Whether a prompt is being answered.
    is_answering: bool,
    /// Whether a person looks at it.
    is_open: bool,
    is_unread: bool,
    left: Option<StopReason>,
}

impl SessionView {
    /// A session of which nothing is known yet: idle, and nobody looks at it.
    pub fn new(session: SessionId) -> Self {
        Self {
            session,
            family: BTreeSet::new(),
            activity: Activity::Idle { reason: None },
            tokens: None,
            requests: Vec::new(),
            waiting: Vec::new(),
            begun: VecDeque::new(),
            is_answering: false,
            is_open: false,
            is_unread: false,
            left: None,
        }
    }

    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// What is going on.
    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    /// Whether to show that something is going on.
    pub fn is_streaming(&self) -> bool {
        !matches!(self.activity, Activity::Idle { .. })
    }

    /// Tokens of the last step that was completed.
    pub fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref()
    }

    /// What waits for a person here or in a child, oldest first.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// How many prompts wait behind the one that is being answered.
    pub fn queue_length(&self) -> usize {
        // The first prompt of a turn is stored before anybody says that its answer begins.
        let begins = usize::from(!self.is_answering);
        self.waiting.len().saturating_sub(begins)
    }

    /// Whether a turn has ended that nobody has looked at.
    pub fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// Why the last turn left todos behind, if it did.
    pub fn left(&self) -> Option<StopReason> {
        self.left
    }

    /// The mark for a list.
    pub fn badge(&self) -> Badge {
        let asked = self.requests.iter().map(|request| match request {
            Request::Permission(_) => Badge::Permission,
            Request::Question(_) => Badge::Question,
        });
        let going_on = match self.activity {
            Activity::Working => Badge::Working,
            Activity::Retrying { .. } => Badge::Retrying,
            Activity::Idle { .. } if self.is_unread => Badge::Unread,
            Activity::Idle { .. } => Badge::Idle,
        };
        asked.max().unwrap_or(going_on)
    }

    /// A person begins to look at it, or looks away.
    pub fn set_open(&mut self, is_open: bool) {
        self.is_open = is_open;
        self.is_unread &= !is_open;
    }

    /// Whether a session is this one or below it, as far as is known.
    pub fn knows(&self, session: &SessionId) -> bool {
        *session == self.session || self.family.contains(session)
    }

    /// Takes note of a session that may be below this one. To be called with what the server says about a session
    /// that [`SessionView::knows`] nothing of, whose beginning was missed.
    pub fn relate(&mut self, session: &Session) {
        if session.parent_id.as_ref().is_some_and(|parent| self.knows(parent)) {
            self.family.insert(session.id.clone());
        }
    }

    /// Takes in the state that was fetched after a gap: nothing of what was missed will be sent again. No status is
    /// idle, as in `GET /session/status`.
    pub fn resync(&mut self, status: Option<&SessionStatus>, requests: Vec<Request>) -> Vec<Change> {
        let idle = SessionStatus::Idle { reason: None, extra: protocol::Rest::NONE };
        let mut changes = Vec::from_iter(self.status(status.unwrap_or(&idle)));
        let known: Vec<String> = self.requests.iter().map(|request| request.id().to_owned()).collect();
        let gone = known.into_iter().filter(|id| requests.iter().all(|request| request.id() != id));
        changes.extend(gone.collect::<Vec<_>>().iter().filter_map(|id| self.settle(id)));
        changes.extend(requests.into_iter().filter_map(|request| self.ask(request)));
        changes
    }

    /// Takes in an event. Those of other sessions change nothing.
    pub fn apply(&mut self, event: &EventBody) -> Option<Change> {
        match event {
            EventBody::SessionCreated(it) | EventBody::SessionUpdated(it) => {
                self.relate(&it.info);
                None
            }
            EventBody::PermissionAsked(request) => self.ask(Request::Permission(request.clone())),
            EventBody::QuestionAsked(request) => self.ask(Request::Question(request.clone())),
            EventBody::PermissionReplied(it) => self.settle(it.request_id.as_str()),
            EventBody::QuestionReplied(it) => self.settle(it.request_id.as_str()),
            EventBody::QuestionRejected(it) => self.settle(it.request_id.as_str()),
            EventBody::Other { kind, properties } if kind == "message.updated" => {
                Some(self.count(tokens::from_message(&self.session, properties)?))
            }
            _ if event.session_id() == Some(&self.session) => self.own(event),
            _ => None,
        }
    }

    /// An event of this very session.
    fn own(&mut self, event: &EventBody) -> Option<Change> {
        match event {
            EventBody::SessionStatus(it) => self.status(&it.status),
            EventBody::SessionIdle(_) => self.finish(None),
            EventBody::SessionError(it) => match it.error.clone()? {
                MessageError::Aborted { .. } => None,
                error => Some(Change::Failed(error)),
            },
            EventBody::MessageUpdated(it) => self.message(&it.info),
            EventBody::MessageRemoved(it) => {
                self.take_up(|waiting| waiting.retain(|id| *id != it.message_id))
            }
            EventBody::PromptStarted(it) => self.begin(&it.message_id),
            EventBody::PromptEnded(it) => self.take_up(|waiting| waiting.retain(|id| *id != it.message_id)),
            EventBody::ContinuationCountdown(it) => Some(Change::GoesOnSoon(it.clone())),
            EventBody::ContinuationStarted(it) => Some(Change::GoesOn(it.clone())),
            EventBody::ContinuationStopped(it) => {
                self.left = Some(it.reason);
                Some(Change::Leaves(it.reason))
            }
            _ => None,
        }
    }

    fn status(&mut self, status: &SessionStatus) -> Option<Change> {
        match status {
            SessionStatus::Idle { reason, .. } => self.finish(*reason),
            SessionStatus::Busy { .. } => {
                let before = std::mem::replace(&mut self.activity, Activity::Working);
                match before {
                    Activity::Idle { .. } => {
                        self.left = None;
                        Some(Change::Started)
                    }
                    Activity::Working => None,
                    Activity::Retrying { .. } => Some(Change::Retry),
                }
            }
            SessionStatus::Retry { attempt, message, next, .. } => {
                let retrying =
                    Activity::Retrying { attempt: *attempt, message: message.clone(), next: *next };
                let changed = self.activity != retrying;
                self.activity = retrying;
                changed.then_some(Change::Retry)
            }
        }
    }

    fn finish(&mut self, reason: Option<EndReason>) -> Option<Change> {
        if !self.is_streaming() {
            return None;
        }
        self.activity = Activity::Idle { reason };
        let left = std::mem::take(&mut self.waiting);
        self.note_begun(left);
        self.is_answering = false;
        self.is_unread = !self.is_open;
        Some(Change::Finished { reason })
    }

    fn message(&mut self, message: &Message) -> Option<Change> {
        match message {
            // What a person said comes back as an event; it is known, except that it may have to wait.
            Message::User(user) if user.continues().is_none() => {
                let is_new = !self.waiting.contains(&user.id) && !self.begun.contains(&user.id);
                self.take_up(|waiting| waiting.extend(is_new.then(|| user.id.clone())))
            }
            Message::User(_) => None,
            Message::Assistant(step) if step.time.completed.is_some() => {
                self.begin(&step.parent_id);
                Some(self.count(tokens::normal(&step.tokens)))
            }
            Message::Assistant(step) => self.begin(&step.parent_id),
        }
    }

    /// A prompt is being answered. Those that waited before it are answered with it.
    fn begin(&mut self, prompt: &MessageId) -> Option<Change> {
        let before = self.queue_length();
        self.is_answering = true;
        if let Some(index) = self.waiting.iter().position(|id| id == prompt) {
            let begun = self.waiting.drain(..=index).collect();
            self.note_begun(begun);
        } else if !self.begun.contains(prompt) {
            self.note_begun(vec![prompt.clone()]);
        }
        (self.queue_length() != before).then_some(Change::Queue)
    }

    fn note_begun(&mut self, prompts: Vec<MessageId>) {
        self.begun.extend(prompts);
        let surplus = self.begun.len().saturating_sub(MAX_BEGUN);
        self.begun.drain(..surplus);
    }

    fn take_up(&mut self, change: impl FnOnce(&mut Vec<MessageId>)) -> Option<Change> {
        let before = self.queue_length();
        change(&mut self.waiting);
        (self.queue_length() != before).then_some(Change::Queue)
    }

    fn count(&mut self, tokens: Tokens) -> Change {
        self.tokens = Some(tokens);
        Change::Tokens
    }

    fn ask(&mut self, request: Request) -> Option<Change> {
        let is_ours = self.knows(request.session()) || request.root() == Some(&self.session);
        // Servers repeat what waits to whoever connects.
        let is_known = self.requests.iter().any(|known| known.id() == request.id());
        if !is_ours || is_known {
            return None;
        }
        self.requests.push(request.clone());
        Some(Change::Asked(request))
    }

    fn settle(&mut self, id: &str) -> Option<Change> {
        let index = self.requests.iter().position(|request| request.id() == id)?;
        self.requests.remove(index);
        Some(Change::Settled { id: id.to_owned() })
    }
}
