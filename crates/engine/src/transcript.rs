//! Converts a runner's reports to messages and parts, and closes what the runner leaves open.
//!
//! Pure except for timestamps and ids: the same reports with the same mint give the same events.

mod close;
mod events;
mod step;
#[cfg(test)]
mod tests;

pub use close::ABORTED_TOOL;
pub(crate) use close::close;
pub(crate) use events::Emit;
pub use step::OpenText;

use protocol::{
    AgentEvent, AssistantMessage, EndReason, EventBody, Message, MessageError, MessageId, MessageWithParts,
    Millis, Part, PartBody, Session, agent_event::Speaker, message::ModelRef, number::Number,
    session::Tokens,
};

use crate::{lifecycle::continuation::Ending, mint::Mint};
use step::Step;

/// The assistant messages that a run writes, one per step.
#[derive(Debug)]
pub struct Transcript {
    agent: String,
    model: ModelRef,
    cwd: String,
    root: String,
    /// The prompt that the user wrote.
    asked: MessageId,
    /// The message that the next step answers: the user's prompt, or a continuation of it.
    prompt: MessageId,
    step: Option<Step>,
    /// The newest assistant message.
    newest: Option<MessageId>,
    /// True if the current prompt has an assistant message.
    answered: bool,
    /// True if the last message of the prompt contains the error.
    reported: bool,
    /// `time.created` of the newest message. The next message is later, whatever the clock says, because messages
    /// are ordered by it.
    latest: Millis,
    /// The last title that the run knows. A different title was set by the user.
    title: String,
    /// The ending if the run ended now.
    ending: Ending,
}

impl Transcript {
    pub fn new(session: &Session, agent: String, model: ModelRef, prompt: MessageId, latest: Millis) -> Self {
        let cwd = session.directory.clone();
        Self {
            agent,
            model,
            root: root_of(session),
            cwd,
            asked: prompt.clone(),
            prompt,
            step: None,
            newest: None,
            answered: false,
            reported: false,
            latest,
            title: session.title.clone(),
            ending: Ending::default(),
        }
    }

    /// `time.created` of the newest message.
    pub fn latest(&self) -> Millis {
        self.latest
    }

    /// The prompt that the user wrote.
    pub fn asked(&self) -> &MessageId {
        &self.asked
    }

    /// The ending if the run ended now.
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// The message that the run currently answers.
    pub fn prompt(&self) -> &MessageId {
        &self.prompt
    }

    /// Makes the run answer this prompt from the next step on, with the prompt's agent and model.
    pub fn answer(&mut self, prompt: MessageId, agent: String, model: ModelRef, created: Millis) {
        (self.agent, self.model) = (agent, model);
        self.asked = prompt.clone();
        self.prompt = prompt;
        self.answered = false;
        self.latest = self.latest.max(created);
    }

    /// The newest assistant message, open or not.
    pub fn newest(&self) -> Option<&MessageId> {
        self.newest.as_ref()
    }

    /// The open assistant message.
    pub fn message_id(&self) -> Option<&MessageId> {
        self.step.as_ref().map(|step| &step.message.id)
    }

    /// The open text of this key, or all open texts.
    pub fn open_texts(&self, key: Option<&str>) -> Vec<OpenText> {
        self.step.as_ref().map(|step| step.open_texts(key)).unwrap_or_default()
    }

    /// Parts whose text grew since the last call; a checkpoint saves them.
    pub fn take_dirty(&mut self) -> Vec<Part> {
        self.step.as_mut().map(Step::take_dirty).unwrap_or_default()
    }

    /// Applies a report. Keeps totals and title up to date in `session`.
    pub fn apply(&mut self, report: AgentEvent, session: &mut Session, mint: &Mint) -> Vec<EventBody> {
        let mut emit = Emit::new(session.id.clone(), mint);
        self.note_ending(&report);
        match report {
            AgentEvent::StepStarted { snapshot, speaker } => {
                // A runner that forgot to finish its step must not leave it open.
                self.close_step(&mut emit);
                let message = self.open_message(speaker, session, mint);
                (self.answered, self.reported) = (true, false);
                let mut step = Step::new(message);
                step.start(snapshot, &mut emit);
                self.step = Some(step);
            }
            AgentEvent::Continued(parts) => {
                self.close_step(&mut emit);
                self.go_on(parts, session, mint, &mut emit);
            }
            AgentEvent::Revised(part) => {
                let open = self.message_id() == Some(&part.message_id);
                if part.session_id == session.id && !open {
                    emit.part(*part);
                }
            }
            AgentEvent::Compacted => emit.compacted(),
            AgentEvent::Todos(todos) => emit.todos(todos),
            AgentEvent::FileEdited { file } => emit.file_edited(file),
            AgentEvent::Spent { tokens, cost } => {
                spend(session, &tokens, cost);
                emit.session(session);
            }
            AgentEvent::Titled(title) => {
                if session.title == self.title {
                    self.title.clone_from(&title);
                    session.title = title;
                    emit.session(session);
                }
            }
            AgentEvent::Noted { name, note } => {
                if session.note(&name) != Some(note.as_str()) {
                    session.take_note(&name, note);
                    emit.session(session);
                }
            }
            AgentEvent::Warning(error) => emit.error(error),
            // The actor turns the first two into a status and looks up the message of the third.
            AgentEvent::Retrying { .. } | AgentEvent::Resumed | AgentEvent::Diffed { .. } => {}
            report => {
                self.reported |= matches!(&report, AgentEvent::StepFinished { error: Some(_), .. });
                if self.step.is_none() {
                    // Output outside a step still belongs to the answer, so open a step for it.
                    emit.append(self.apply(AgentEvent::step_started(), session, mint));
                }
                if let Some(step) = &mut self.step
                    && step.apply(report, session, &mut emit)
                {
                    self.step = None;
                }
            }
        }
        emit.into_events()
    }

    /// Closes everything that is open. A prompt that was taken up always gets an assistant message, so that every
    /// client learns how it ended.
    pub fn close(
        &mut self,
        reason: EndReason,
        error: Option<MessageError>,
        session: &Session,
        mint: &Mint,
    ) -> Vec<EventBody> {
        let mut emit = Emit::new(session.id.clone(), mint);
        let open = match self.step.take() {
            Some(step) => Some(step.into_open()),
            // An error or an exceeded budget gets a message of its own, unless the last message already contains
            // the error.
            None if self.answered
                && (self.reported || !matches!(reason, EndReason::Error | EndReason::Budget)) =>
            {
                None
            }
            None => {
                let message = self.open_message(None, session, mint);
                Some(MessageWithParts::new(Message::Assistant(Box::new(message)), Vec::new()))
            }
        };
        let error = match reason {
            // Only prompts end as withdrawn.
            EndReason::Completed | EndReason::Blocked | EndReason::Budget | EndReason::Withdrawn => error,
            EndReason::Aborted => Some(MessageError::aborted()),
            EndReason::Interrupted => Some(MessageError::interrupted()),
            EndReason::Error => {
                error.or_else(|| Some(MessageError::unknown("the turn failed without an error message")))
            }
        };
        close(open.into_iter().collect(), error.as_ref(), &mut emit);
        if let Some(error) = error {
            emit.error(error);
        }
        emit.into_events()
    }

    fn note_ending(&mut self, report: &AgentEvent) {
        match report {
            AgentEvent::StepStarted { .. } => (self.ending.finish, self.ending.structured) = (None, false),
            AgentEvent::TextDelta { .. }
            | AgentEvent::ToolPending { .. }
            | AgentEvent::ToolRunning { .. } => {
                self.ending.spoke = true;
            }
            AgentEvent::Structured(_) => self.ending.structured = true,
            AgentEvent::StepFinished { reason, .. } => self.ending.finish = Some(*reason),
            _ => {}
        }
    }

    fn close_step(&mut self, emit: &mut Emit<'_>) {
        if let Some(step) = self.step.take() {
            close(vec![step.into_open()], None, emit);
        }
    }

    fn open_message(&mut self, speaker: Option<Speaker>, session: &Session, mint: &Mint) -> AssistantMessage {
        self.latest = mint.now().max(self.latest + 1);
        let paths = (self.cwd.as_str(), self.root.as_str());
        let own = || Speaker {
            agent: self.agent.clone(),
            model: self.model.clone(),
            summary: false,
            answers: None,
        };
        let speaker = speaker.unwrap_or_else(own);
        let message = events::assistant(session, &self.prompt, speaker, paths, self.latest, mint);
        self.newest = Some(message.id.clone());
        message
    }

    /// Adds a user message that continues the turn; the next step answers it.
    fn go_on(&mut self, parts: Vec<PartBody>, session: &Session, mint: &Mint, emit: &mut Emit<'_>) {
        self.latest = mint.now().max(self.latest + 1);
        let user = events::continuation(session, &self.asked, &self.agent, &self.model, self.latest, mint);
        self.prompt = user.id.clone();
        (self.answered, self.reported) = (false, false);
        emit.message(Message::User(Box::new(user)));
        for body in parts {
            emit.part(emit.new_part(&self.prompt, body));
        }
    }
}

/// Adds the usage of one model call to the session's totals.
fn spend(session: &mut Session, tokens: &Tokens, cost: Number) {
    *session.cost.get_or_insert_default() += cost;
    session.tokens.get_or_insert_default().add(tokens);
}

/// The worktree's root: the session's directory without its path inside the worktree.
fn root_of(session: &Session) -> String {
    let path = session.path.as_deref().unwrap_or_default();
    let root = session.directory.strip_suffix(path).map_or("", |root| root.trim_end_matches('/'));
    if path.is_empty() || root.is_empty() { session.directory.clone() } else { root.to_owned() }
}
