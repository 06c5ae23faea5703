//! Builds the events of one session.

use protocol::{
    AssistantMessage, EventBody, Extra, Message, MessageError, MessageId, Millis, Part, PartBody, PartId,
    Session, SessionId, Todo, UserMessage,
    agent_event::Speaker,
    event::{
        FileChanged, FileWatched, MessageInfo, PartDelta, PartGone, PartInfo, SessionDiffed, SessionFailed,
        SessionInfo, SessionOnly, TodosReplaced,
    },
    message::{AssistantTime, MessagePath, ModelRef, UserTime},
    number::Number,
    project::FileDiff,
    session::Tokens,
};

use crate::mint::Mint;

/// Collects events of one session, in order.
pub(crate) struct Emit<'a> {
    session: SessionId,
    mint: &'a Mint,
    events: Vec<EventBody>,
}

impl<'a> Emit<'a> {
    pub(crate) fn new(session: SessionId, mint: &'a Mint) -> Self {
        Self { session, mint, events: Vec::new() }
    }

    pub(crate) fn now(&self) -> Millis {
        self.mint.now()
    }

    pub(crate) fn into_events(self) -> Vec<EventBody> {
        self.events
    }

    pub(crate) fn append(&mut self, events: Vec<EventBody>) {
        self.events.extend(events);
    }

    pub(crate) fn session(&mut self, session: &mut Session) {
        session.time.updated = self.now();
        self.events.push(EventBody::SessionUpdated(SessionInfo::new(self.session.clone(), session.clone())));
    }

    pub(crate) fn message(&mut self, info: Message) {
        let session_id = self.session.clone();
        self.events.push(EventBody::MessageUpdated(MessageInfo::new(session_id, info)));
    }

    pub(crate) fn assistant(&mut self, message: &AssistantMessage) {
        self.message(Message::Assistant(Box::new(message.clone())));
    }

    /// A new part of a message, with a fresh id.
    pub(crate) fn new_part(&self, message: &MessageId, body: PartBody) -> Part {
        Part { id: self.mint.id(), session_id: self.session.clone(), message_id: message.clone(), body }
    }

    pub(crate) fn part(&mut self, part: Part) {
        let (session_id, time) = (self.session.clone(), self.now());
        self.events.push(EventBody::PartUpdated(PartInfo::new(session_id, part, time)));
    }

    /// `offset` is the length of the part's text before the delta, in UTF-16 code units.
    pub(crate) fn delta(&mut self, part: &Part, delta: String, offset: u64) {
        self.events.push(EventBody::PartDelta(PartDelta::new(
            self.session.clone(),
            part.message_id.clone(),
            part.id.clone(),
            "text".into(),
            delta,
            Some(offset),
        )));
    }

    pub(crate) fn part_removed(&mut self, message_id: MessageId, part_id: PartId) {
        let session_id = self.session.clone();
        self.events.push(EventBody::PartRemoved(PartGone::new(session_id, message_id, part_id)));
    }

    pub(crate) fn todos(&mut self, todos: Vec<Todo>) {
        let session_id = self.session.clone();
        self.events.push(EventBody::TodoUpdated(TodosReplaced::new(session_id, todos)));
    }

    pub(crate) fn compacted(&mut self) {
        let session_id = self.session.clone();
        self.events.push(EventBody::SessionCompacted(SessionOnly::new(session_id)));
    }

    pub(crate) fn diff(&mut self, diff: Vec<FileDiff>) {
        let session_id = self.session.clone();
        self.events.push(EventBody::SessionDiff(SessionDiffed::new(session_id, diff)));
    }

    pub(crate) fn error(&mut self, error: MessageError) {
        self.events
            .push(EventBody::SessionError(SessionFailed::new(Some(self.session.clone()), Some(error))));
    }

    pub(crate) fn file_edited(&mut self, file: String) {
        self.events.push(EventBody::FileEdited(FileChanged::new(file.clone())));
        let event = "change".into();
        self.events.push(EventBody::FileWatcherUpdated(FileWatched::new(file, event)));
    }
}

/// A new assistant message, with a fresh id.
pub(super) fn assistant(
    session: &Session,
    prompt: &MessageId,
    speaker: Speaker,
    (cwd, root): (&str, &str),
    created: Millis,
    mint: &Mint,
) -> AssistantMessage {
    let Speaker { agent, model, summary, answers } = speaker;
    AssistantMessage {
        id: mint.id(),
        session_id: session.id.clone(),
        parent_id: answers.unwrap_or_else(|| prompt.clone()),
        time: AssistantTime { created, completed: None, extra: Extra::new() },
        model_id: model.model_id,
        provider_id: model.provider_id,
        mode: agent.clone(),
        agent,
        path: MessagePath::new(cwd, root),
        cost: Number(0.0),
        tokens: Tokens::default(),
        variant: model.variant,
        summary: summary.then_some(true),
        structured: None,
        finish: None,
        error: None,
        extra: Extra::new(),
    }
}

/// A new user message that continues the turn of `asked`.
pub(super) fn continuation(
    session: &Session,
    asked: &MessageId,
    agent: &str,
    model: &ModelRef,
    created: Millis,
    mint: &Mint,
) -> UserMessage {
    UserMessage {
        id: mint.id(),
        session_id: session.id.clone(),
        time: UserTime { created, extra: Extra::new() },
        agent: agent.to_owned(),
        model: model.clone(),
        format: None,
        summary: None,
        system: None,
        tools: None,
        extra: Extra::from_iter([(UserMessage::CONTINUES.to_owned(), asked.as_str().into())]),
    }
}
