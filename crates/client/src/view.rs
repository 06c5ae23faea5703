//! The state of one session in a user interface: a pure reducer over events.
//!
//! These rules keep a spinner correct, whatever server sends the events:
//!
//! - Only `session.status` tells whether a turn runs. Busy may be repeated, retry is a kind of busy, and the first
//!   idle ends the turn: [`Change::Finished`] comes once, however often idle is sent.
//! - `session.idle` is for servers that send nothing else. It ends a turn only if the status has not done so.
//! - `message.updated` carries token counts, and says nothing about activity.
//! - A child session never changes its parent's activity; but its requests are shown on the parent, because the
//!   user looks there.
//! - An open request takes precedence over busy and idle.

#[cfg(test)]
mod cases;
#[cfg(test)]
mod tests;
mod tokens;

use std::collections::{BTreeSet, VecDeque};

use protocol::{
    EndReason, EventBody, Extra, Message, MessageError, MessageId, Millis, Session, SessionId, SessionStatus,
    event::{ContinuationCountdown, ContinuationStarted, ContinuationStopped},
    request::{PermissionRequest, QuestionRequest},
    session::Tokens,
};

/// Number of started prompts that are remembered.
const MAX_BEGUN: usize = 32;

/// The activity of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Activity {
    Idle {
        /// The end of the last turn, if the server reports it.
        reason: Option<EndReason>,
    },
    Working,
    /// A turn waits before it calls the model again.
    Retrying {
        /// Number of the next retry, from 1.
        attempt: u32,
        /// The reason, for users.
        message: String,
        /// Time of the next attempt, for a countdown.
        next: Millis,
        /// The server's offer to the user, such as a link to a login.
        action: Option<Extra>,
    },
}

/// A request that waits for the user.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    Permission(PermissionRequest),
    Question(QuestionRequest),
}

impl Request {
    pub fn id(&self) -> &str {
        match self {
            Self::Permission(request) => request.id.as_str(),
            Self::Question(request) => request.id.as_str(),
        }
    }

    /// The session that asks, which may be a child.
    pub fn session(&self) -> &SessionId {
        match self {
            Self::Permission(request) => &request.session_id,
            Self::Question(request) => &request.session_id,
        }
    }

    /// The root of the session that asks, if the server reports it.
    pub fn root(&self) -> Option<&SessionId> {
        match self {
            Self::Permission(request) => request.root_id.as_ref(),
            Self::Question(request) => request.root_id.as_ref(),
        }
    }
}

/// The mark of a session in a list. The most urgent is the largest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Badge {
    /// Nothing to report.
    Idle,
    /// A turn has ended since the user last opened the session.
    Unread,
    Working,
    /// A turn waits before it calls the model again.
    Retrying,
    /// A permission request is open.
    Permission,
    /// A question is open.
    Question,
}

/// The effect of an event.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    Started,
    /// The model call is being retried, or works again.
    Retry,
    /// The turn is over; reported once.
    Finished {
        /// The end of the turn, if the server reports it.
        reason: Option<EndReason>,
    },
    /// Token counts changed.
    Tokens,
    /// The number of queued prompts changed.
    Queue,
    /// A request was opened.
    Asked(Request),
    /// A request was closed.
    Settled {
        /// The request's id.
        id: String,
    },
    /// The turn failed. An abort is not a failure.
    Failed(MessageError),
    /// The turn is about to continue by itself, because something is left to do.
    GoesOnSoon(ContinuationCountdown),
    /// The turn continues by itself.
    GoesOn(ContinuationStarted),
    /// The turn does not continue, although something is left to do.
    Leaves(ContinuationStopped),
}

/// One session, as a user sees it.
#[derive(Debug, Clone)]
pub struct SessionView {
    session: SessionId,
    /// Sessions below this one.
    family: BTreeSet<SessionId>,
    activity: Activity,
    tokens: Option<Tokens>,
    requests: Vec<Request>,
    /// Prompts that no turn has started, oldest first.
    waiting: Vec<MessageId>,
    /// The last started prompts. OpenCode repeats their messages, for instance with a summary of the changes.
    begun: VecDeque<MessageId>,
    /// True while a prompt is being answered.
    is_answering: bool,
    /// True while the user has the session open.
    is_open: bool,
    is_unread: bool,
    left: Option<ContinuationStopped>,
    /// End of the last countdown. A new connection repeats a countdown that still runs.
    countdown: Option<Millis>,
}

impl SessionView {
    /// A session of which nothing is known yet: idle and not open.
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
            countdown: None,
        }
    }

    pub fn session(&self) -> &SessionId {
        &self.session
    }

    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    /// True if a turn runs.
    pub fn is_streaming(&self) -> bool {
        !matches!(self.activity, Activity::Idle { .. })
    }

    /// Token counts of the last completed step.
    pub fn tokens(&self) -> Option<&Tokens> {
        self.tokens.as_ref()
    }

    /// Open requests of this session and its children, oldest first.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// Number of prompts that wait behind the one being answered.
    pub fn queue_length(&self) -> usize {
        // The first prompt of a turn is stored before the event that its answer begins.
        let begins = usize::from(!self.is_answering);
        self.waiting.len().saturating_sub(begins)
    }

    /// True if a turn has ended since the user last opened the session.
    pub fn is_unread(&self) -> bool {
        self.is_unread
    }

    /// The stop of the last turn's continuation, if the turn left todos open.
    pub fn left(&self) -> Option<&ContinuationStopped> {
        self.left.as_ref()
    }

    /// The mark of the session in a list.
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

    /// Tells the view that the user opens or leaves the session.
    pub fn set_open(&mut self, is_open: bool) {
        self.is_open = is_open;
        self.is_unread &= !is_open;
    }

    /// True if a session is this one or a known descendant.
    pub fn knows(&self, session: &SessionId) -> bool {
        *session == self.session || self.family.contains(session)
    }

    /// Adds a session to the family if its parent belongs to it. Call this for a session that the view does not
    /// [know](SessionView::knows), because its creation was missed.
    pub fn relate(&mut self, session: &Session) {
        if session.parent_id.as_ref().is_some_and(|parent| self.knows(parent)) {
            self.family.insert(session.id.clone());
        }
    }

    /// Applies the state that was read after a gap, because missed events are not sent again. No status means idle,
    /// as in `GET /session/status`.
    pub fn resync(&mut self, status: Option<&SessionStatus>, requests: Vec<Request>) -> Vec<Change> {
        let idle = SessionStatus::Idle { reason: None, extra: protocol::Rest::NONE };
        let mut changes = Vec::from_iter(self.status(status.unwrap_or(&idle)));
        let known: Vec<String> = self.requests.iter().map(|request| request.id().to_owned()).collect();
        let gone = known.into_iter().filter(|id| requests.iter().all(|request| request.id() != id));
        changes.extend(gone.collect::<Vec<_>>().iter().filter_map(|id| self.settle(id)));
        changes.extend(requests.into_iter().filter_map(|request| self.ask(request)));
        changes
    }

    /// Applies an event. Events of other sessions change nothing.
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

    /// Applies an event of this session itself.
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
            EventBody::ContinuationCountdown(it) => {
                let is_repeated = self.countdown.replace(it.until) == Some(it.until);
                (!is_repeated).then(|| Change::GoesOnSoon(it.clone()))
            }
            EventBody::ContinuationStarted(it) => Some(Change::GoesOn(it.clone())),
            EventBody::ContinuationStopped(it) => {
                self.left = Some(it.clone());
                Some(Change::Leaves(it.clone()))
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
            SessionStatus::Retry { attempt, message, next, action, .. } => {
                let retrying = Activity::Retrying {
                    attempt: *attempt,
                    message: message.clone(),
                    next: *next,
                    action: action.clone(),
                };
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
            // The user's own prompt comes back as an event; it only matters if it is queued.
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

    /// Marks a prompt as started. Prompts queued before it are answered with it.
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
        // Servers repeat open requests to every new connection.
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
