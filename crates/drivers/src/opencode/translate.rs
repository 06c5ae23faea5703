//! Translates OpenCode's events into agent events and actions. Pure: events in, [`Consequence`] out.
//!
//! OpenCode reports busy many times and, after an error or an abort, idle twice, the first time while a message is
//! still open. So idle alone does not end a turn. A turn has ended when OpenCode is idle *and* every prompt of the turn
//! was published *and* was followed by busy *and* no message is open. An event that looks like an end but fails this
//! rule makes the translator [`Consequence::Unsure`]: the caller checks the server's status a little later and reports idle
//! with [`Translator::settle`].
//!
//! Events may arrive twice: after a reconnect the caller reads the state and passes it on as events.

mod step;

use std::collections::HashSet;
use std::fmt;

use protocol::agent_event::Ask;
use protocol::event::EventBody;
use protocol::message::{AssistantMessage, Finish, Message};
use protocol::number::Number;
use protocol::request::{PermissionRequest, QuestionRequest};
use protocol::session::Tokens;
use protocol::{
    AgentEvent, MessageError, MessageId, MessageWithParts, Part, PermissionId, QuestionId, SessionId,
    SessionStatus, TurnEnd,
};

use super::wire;
use crate::external::step_finished;
use step::Step;

/// The prefix of the default title of a session.
const UNTITLED: &str = "New session - ";

/// One consequence of an event.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "each value is created and matched at once, so its size does not matter"
)]
pub(super) enum Consequence {
    /// An event for the session.
    Agent(AgentEvent),
    /// OpenCode waits for an answer.
    Asked(Ask, Request),
    /// A request, by OpenCode's id, no longer waits: a client of either server has answered it, or OpenCode dropped it.
    Settled(String),
    /// OpenCode has started a subagent in its own session.
    Child(Child),
    /// The turn may have ended. The caller checks the status of the server a little later.
    Unsure,
    /// The turn has ended.
    Ended(TurnEnd),
}

/// A request of OpenCode, by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    Permission(PermissionId),
    Question(QuestionId),
}

impl fmt::Display for Request {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Permission(id) => id.fmt(out),
            Self::Question(id) => id.fmt(out),
        }
    }
}

/// A running subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Child {
    /// The subagent's session at OpenCode.
    pub(super) session: SessionId,
    /// The tool call that started it.
    pub(super) call: String,
    pub(super) title: String,
    pub(super) prompt: String,
}

/// The state of the translation of one session during one turn.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub(super) struct Translator {
    session: SessionId,
    /// True for a subagent's session, whose prompts OpenCode sends.
    is_child: bool,
    /// The first prompt of the turn. Older messages belong to other turns.
    first: Option<MessageId>,
    /// Prompts that were sent and that OpenCode has not published yet.
    awaited: HashSet<MessageId>,
    /// OpenCode has published a prompt and has not reported busy since.
    wants_busy: bool,
    /// OpenCode waits before it retries the call of its model.
    is_retrying: bool,
    step: Option<Step>,
    /// Assistant messages that are closed.
    closed: HashSet<MessageId>,
    /// The error since the last step began.
    failure: Option<MessageError>,
    /// Another client has aborted the turn at OpenCode.
    was_aborted: bool,
    /// The user has refused a request since the last step began.
    was_refused: bool,
    /// OpenCode reported idle while a message was open.
    idle_is_due: bool,
    title: Option<String>,
    /// The ids of requests that were passed on.
    asked: HashSet<String>,
    /// The calls whose subagents were passed on.
    told: HashSet<String>,
    is_over: bool,
}

impl Translator {
    /// A translator for the session of a subagent, whose prompt OpenCode has sent.
    pub(super) fn of_child(session: SessionId) -> Self {
        Self { is_child: true, ..Self::new(session) }
    }

    /// A translator for a session, by OpenCode's id.
    pub(super) fn new(session: SessionId) -> Self {
        Self {
            session,
            is_child: false,
            first: None,
            awaited: HashSet::new(),
            wants_busy: false,
            is_retrying: false,
            step: None,
            closed: HashSet::new(),
            failure: None,
            was_aborted: false,
            was_refused: false,
            idle_is_due: false,
            title: None,
            asked: HashSet::new(),
            told: HashSet::new(),
            is_over: false,
        }
    }

    /// Records a prompt before it is sent.
    pub(super) fn sent(&mut self, prompt: MessageId) {
        self.first.get_or_insert_with(|| prompt.clone());
        self.awaited.insert(prompt);
    }

    /// Records that the user has refused a request.
    pub(super) fn refused(&mut self) {
        self.was_refused = true;
    }

    /// Returns true once OpenCode has published the first prompt. Earlier events do not belong to the turn.
    fn has_begun(&self) -> bool {
        self.first.as_ref().is_some_and(|first| !self.awaited.contains(first))
    }

    /// Translates an event of the session.
    pub(super) fn translate(&mut self, body: EventBody) -> Vec<Consequence> {
        if self.is_over {
            return Vec::new();
        }
        match body {
            EventBody::SessionStatus(it) => self.status(it.status),
            EventBody::SessionIdle(_) => self.idle(),
            EventBody::SessionError(it) => self.error(it.error),
            EventBody::SessionUpdated(it) => self.titled(it.info.title),
            EventBody::SessionDeleted(_) => self
                .end(TurnEnd::Error(MessageError::unknown("the session was deleted at the OpenCode server"))),
            EventBody::MessageUpdated(it) => self.message(it.info),
            EventBody::PartUpdated(it) => self.part(it.part),
            EventBody::PartDelta(it) => match &mut self.step {
                Some(step) if step.id == it.message_id => agent(step.delta(&it.part_id, &it.delta)),
                _ => Vec::new(),
            },
            EventBody::TodoUpdated(it) => vec![Consequence::Agent(AgentEvent::Todos(it.todos))],
            EventBody::PermissionAsked(it) => self.permission(it),
            EventBody::QuestionAsked(it) => self.question(it),
            EventBody::PermissionReplied(it) => vec![Consequence::Settled(it.request_id.to_string())],
            EventBody::QuestionReplied(it) => vec![Consequence::Settled(it.request_id.to_string())],
            EventBody::QuestionRejected(it) => vec![Consequence::Settled(it.request_id.to_string())],
            _ => Vec::new(),
        }
    }

    /// Passes a permission on, once.
    pub(super) fn permission(&mut self, request: PermissionRequest) -> Vec<Consequence> {
        let ask = wire::permission(&request);
        self.asked(&request.session_id, ask, Request::Permission(request.id))
    }

    /// Passes a question on, once.
    pub(super) fn question(&mut self, request: QuestionRequest) -> Vec<Consequence> {
        let ask = wire::question(&request);
        self.asked(&request.session_id, ask, Request::Question(request.id))
    }

    fn asked(&mut self, session: &SessionId, ask: Ask, request: Request) -> Vec<Consequence> {
        let is_new = *session == self.session && self.asked.insert(request.to_string());
        if is_new { vec![Consequence::Asked(ask, request)] } else { Vec::new() }
    }

    /// The requests that were passed on and are not among these, which are open.
    pub(super) fn settled(&self, open: &HashSet<String>) -> Vec<Consequence> {
        self.asked.difference(open).cloned().map(Consequence::Settled).collect()
    }

    fn status(&mut self, status: SessionStatus) -> Vec<Consequence> {
        match status {
            SessionStatus::Idle { .. } => self.idle(),
            SessionStatus::Busy { .. } => {
                self.wants_busy &= !self.has_begun();
                self.resumed()
            }
            SessionStatus::Retry { attempt, limit, message, next, .. } => {
                self.wants_busy &= !self.has_begun();
                let mut said = agent(self.step.as_mut().map(Step::withdraw).unwrap_or_default());
                self.is_retrying = true;
                said.push(Consequence::Agent(AgentEvent::Retrying { attempt, limit, message, next }));
                said
            }
        }
    }

    fn resumed(&mut self) -> Vec<Consequence> {
        let was_retrying = std::mem::take(&mut self.is_retrying);
        if was_retrying { vec![Consequence::Agent(AgentEvent::Resumed)] } else { Vec::new() }
    }

    fn idle(&mut self) -> Vec<Consequence> {
        if !self.has_begun() && self.failure.is_none() {
            return Vec::new();
        }
        if !self.awaited.is_empty() || self.wants_busy {
            return vec![Consequence::Unsure];
        }
        if self.step.as_ref().is_some_and(|step| !step.is_done) {
            self.idle_is_due = true;
            return vec![Consequence::Unsure];
        }
        let end = self.verdict();
        self.end(end)
    }

    /// Ends the turn because a status check has found the server idle, regardless of missing events.
    pub(super) fn settle(&mut self) -> Vec<Consequence> {
        if self.is_over {
            return Vec::new();
        }
        let end = if self.was_cut_off() {
            TurnEnd::Error(MessageError::unknown(
                "OpenCode is idle and has not completed its last message: was its server restarted?",
            ))
        } else {
            self.verdict()
        };
        self.end(end)
    }

    /// Returns true if a message is open and OpenCode has reported no reason for its end. For a child the parent
    /// decides.
    fn was_cut_off(&self) -> bool {
        let is_open = self.step.as_ref().is_some_and(|step| !step.is_done);
        let has_ended = self.idle_is_due || self.failure.is_some() || self.was_aborted;
        is_open && !has_ended && !self.is_child
    }

    /// Continues the turn after its end at OpenCode, because children still work.
    pub(super) fn reopen(&mut self) {
        self.is_over = false;
    }

    /// Returns true while a tool runs.
    pub(super) fn is_acting(&self) -> bool {
        self.step.as_ref().is_some_and(Step::is_acting)
    }

    fn end(&mut self, end: TurnEnd) -> Vec<Consequence> {
        self.is_over = true;
        let mut said = self.resumed();
        said.push(Consequence::Ended(end));
        said
    }

    fn verdict(&mut self) -> TurnEnd {
        let never_begun = !self.has_begun();
        match self.failure.take() {
            Some(failure) => TurnEnd::Error(failure),
            None if never_begun => {
                TurnEnd::Error(MessageError::unknown("OpenCode did not begin to work on the prompt"))
            }
            None if self.was_aborted => TurnEnd::Error(MessageError::unknown(
                "another client aborted the turn at the OpenCode server",
            )),
            None if self.was_refused => TurnEnd::Blocked,
            None => TurnEnd::Completed,
        }
    }

    fn error(&mut self, error: Option<MessageError>) -> Vec<Consequence> {
        match error {
            Some(MessageError::Aborted { .. }) => self.was_aborted = true,
            Some(error) => {
                self.failure.get_or_insert(error);
            }
            None => {}
        }
        vec![Consequence::Unsure]
    }

    fn titled(&mut self, title: String) -> Vec<Consequence> {
        if title.is_empty() || title.starts_with(UNTITLED) || self.title.as_ref() == Some(&title) {
            return Vec::new();
        }
        self.title = Some(title.clone());
        vec![Consequence::Agent(AgentEvent::Titled(title))]
    }

    fn message(&mut self, message: Message) -> Vec<Consequence> {
        match message {
            Message::User(message) => {
                if self.is_child && self.first.is_none() {
                    self.sent(message.id.clone());
                }
                if self.awaited.remove(&message.id) {
                    self.wants_busy = true;
                }
                Vec::new()
            }
            Message::Assistant(message) if self.is_ours(&message.id) => self.assistant(&message),
            Message::Assistant(_) => Vec::new(),
        }
    }

    /// Returns true for an unclosed message that is younger than the turn's first prompt. Message ids sort by their
    /// age.
    fn is_ours(&self, id: &MessageId) -> bool {
        let is_younger = self.first.as_ref().is_some_and(|first| id.as_str() > first.as_str());
        is_younger && !self.closed.contains(id)
    }

    fn assistant(&mut self, message: &AssistantMessage) -> Vec<Consequence> {
        let mut said = Vec::new();
        if self.step.as_ref().is_none_or(|step| step.id != message.id) {
            said.extend(self.leave_step());
            if let Some(failure) = self.failure.take() {
                said.push(Consequence::Agent(AgentEvent::Warning(failure)));
            }
            (self.was_refused, self.idle_is_due) = (false, false);
            self.step = Some(Step::new(message.id.clone()));
            said.push(Consequence::Agent(AgentEvent::step_started()));
        }
        if message.time.completed.is_some() {
            said.extend(self.close_step(message));
        }
        said
    }

    /// Closes the step of a complete message. A step with an error stays open, so that the end of the turn closes it
    /// with that error.
    fn close_step(&mut self, message: &AssistantMessage) -> Vec<Consequence> {
        let Some(step) = &mut self.step else { return Vec::new() };
        step.is_done = true;
        let mut said = agent(step.finish_texts());
        match &message.error {
            Some(MessageError::Aborted { .. }) => self.was_aborted = true,
            Some(error) if !matches!(error, MessageError::ContentFilter { .. }) => {
                self.failure = Some(error.clone());
            }
            _ if self.failure.is_some() && message.finish.is_none() => {}
            filtered => {
                let reason = message.finish.unwrap_or(Finish::Unknown);
                let finished = step_finished(reason, message.tokens.clone(), message.cost, filtered.clone());
                // If no event follows, the status check finds out whether this was the last message.
                said.extend([Consequence::Agent(finished), Consequence::Unsure]);
                self.closed.insert(message.id.clone());
                self.step = None;
            }
        }
        if self.idle_is_due && !self.wants_busy && self.awaited.is_empty() {
            let end = self.verdict();
            said.extend(self.end(end));
        }
        said
    }

    /// Closes a step that OpenCode never completed, because another one begins.
    fn leave_step(&mut self) -> Vec<Consequence> {
        let Some(mut step) = self.step.take() else { return Vec::new() };
        let mut said = agent(step.finish_texts());
        let finished = step_finished(Finish::Unknown, Tokens::default(), Number::default(), None);
        said.push(Consequence::Agent(finished));
        self.closed.insert(step.id);
        said
    }

    fn part(&mut self, part: Part) -> Vec<Consequence> {
        let Some(step) = self.step.as_mut().filter(|step| step.id == part.message_id) else {
            return Vec::new();
        };
        let child = step::child(&part);
        let news = agent(step.part(part));
        let child = child.filter(|child| self.told.insert(child.call.clone()));
        // The call names the session of the child, so the child must exist first.
        child.map(Consequence::Child).into_iter().chain(news).collect()
    }

    /// Marks the texts of the open message as incomplete, because events may have been lost.
    pub(super) fn missed(&mut self) {
        if let Some(step) = &mut self.step {
            step.missed();
        }
    }

    /// Translates the state that was read after a reconnect. It never ends the turn.
    pub(super) fn catch_up(&mut self, messages: Vec<MessageWithParts>) -> Vec<Consequence> {
        let mut said = Vec::new();
        for message in messages {
            let completed = match &message.info {
                Message::Assistant(it) if it.time.completed.is_some() => {
                    let mut open = it.clone();
                    open.time.completed = None;
                    said.extend(self.message(Message::Assistant(open)));
                    true
                }
                _ => {
                    said.extend(self.message(message.info.clone()));
                    false
                }
            };
            for part in message.parts {
                said.extend(self.part(part));
            }
            if completed {
                said.extend(self.message(message.info));
            }
        }
        said
    }
}

fn agent(events: Vec<AgentEvent>) -> Vec<Consequence> {
    events.into_iter().map(Consequence::Agent).collect()
}
