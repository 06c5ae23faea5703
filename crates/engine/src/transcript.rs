//! From what a runner reports to messages and parts, and the closing of what it leaves open.
//!
//! Pure but for the stamps handed in: the same reports with the same mint give the same events.

mod close;
mod events;
mod step;
#[cfg(test)]
mod tests;

pub use close::ABORTED_TOOL;
pub(crate) use close::close;
pub(crate) use events::Emit;

use protocol::{
    AgentEvent, AssistantMessage, EndReason, EventBody, Message, MessageError, MessageId, MessageWithParts,
    Millis, Part, Session, message::ModelRef,
};

use crate::mint::Mint;
use step::Step;

/// What a run writes: the assistant messages of its steps.
#[derive(Debug)]
pub struct Transcript {
    agent: String,
    model: ModelRef,
    cwd: String,
    root: String,
    prompt: MessageId,
    step: Option<Step>,
    /// Whether the present prompt has an assistant message already.
    answered: bool,
    /// Whether its last message says already what went wrong.
    reported: bool,
    /// `time.created` of the newest message: the next one is later, whatever the clock says, because
    /// messages are ordered by it.
    latest: Millis,
}

impl Transcript {
    /// A transcript for a run that answers `prompt`.
    pub fn new(session: &Session, agent: String, model: ModelRef, prompt: MessageId, latest: Millis) -> Self {
        let cwd = session.directory.clone();
        Self {
            agent,
            model,
            root: root_of(session),
            cwd,
            prompt,
            step: None,
            answered: false,
            reported: false,
            latest,
        }
    }

    /// `time.created` of the newest message.
    pub fn latest(&self) -> Millis {
        self.latest
    }

    /// From the next step on the run answers this prompt.
    pub fn answer(&mut self, prompt: MessageId, created: Millis) {
        self.prompt = prompt;
        self.answered = false;
        self.latest = self.latest.max(created);
    }

    /// The open assistant message.
    pub fn message_id(&self) -> Option<&MessageId> {
        self.step.as_ref().map(|step| &step.message.id)
    }

    /// Parts whose text grew since the last call: what a checkpoint saves.
    pub fn take_dirty(&mut self) -> Vec<Part> {
        self.step.as_mut().map(Step::take_dirty).unwrap_or_default()
    }

    /// Applies a report. Session totals and title are kept up to date in `session`.
    pub fn apply(&mut self, report: AgentEvent, session: &mut Session, mint: &Mint) -> Vec<EventBody> {
        let mut emit = Emit::new(session.id.clone(), mint);
        match report {
            AgentEvent::StepStarted { snapshot } => {
                if let Some(step) = self.step.take() {
                    // A runner that forgot to finish its step must not leave it open for ever.
                    close(vec![step.into_open()], None, &mut emit);
                }
                let message = self.open_message(session, mint);
                (self.answered, self.reported) = (true, false);
                let mut step = Step::new(message);
                step.start(snapshot, &mut emit);
                self.step = Some(step);
            }
            AgentEvent::Todos(todos) => emit.todos(todos),
            AgentEvent::FileEdited { file } => emit.file_edited(file),
            AgentEvent::Titled(title) => {
                session.title = title;
                emit.session(session);
            }
            AgentEvent::Warning(error) => emit.error(error),
            // The actor turns these two into status; they leave no trace in the transcript.
            AgentEvent::Retrying { .. } | AgentEvent::Resumed => {}
            report => {
                self.reported |= matches!(&report, AgentEvent::StepFinished { error: Some(_), .. });
                if self.step.is_none() {
                    // Words outside a step still belong to the answer: open one for them.
                    emit.append(self.apply(AgentEvent::StepStarted { snapshot: None }, session, mint));
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

    /// Closes whatever is open. A prompt that was taken up always gets an assistant message, so that every
    /// client finds out how it ended.
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
            None if self.answered && (self.reported || reason != EndReason::Error) => None,
            None => {
                let message = self.open_message(session, mint);
                Some(MessageWithParts::new(Message::Assistant(Box::new(message)), Vec::new()))
            }
        };
        let error = match reason {
            EndReason::Completed | EndReason::Blocked | EndReason::Budget => error,
            EndReason::Aborted => Some(MessageError::aborted()),
            EndReason::Interrupted => Some(MessageError::interrupted()),
            EndReason::Error => {
                error.or_else(|| Some(MessageError::unknown("the turn failed without saying why")))
            }
        };
        close(open.into_iter().collect(), error.as_ref(), &mut emit);
        if let Some(error) = error {
            emit.error(error);
        }
        emit.into_events()
    }

    fn open_message(&mut self, session: &Session, mint: &Mint) -> AssistantMessage {
        self.latest = mint.now().max(self.latest + 1);
        let paths = (self.cwd.as_str(), self.root.as_str());
        events::assistant(session, &self.prompt, &self.agent, &self.model, paths, self.latest, mint)
    }
}

/// The worktree's root: the session's directory without its path inside the worktree.
fn root_of(session: &Session) -> String {
    let path = session.path.as_deref().unwrap_or_default();
    let root = session.directory.strip_suffix(path).map_or("", |root| root.trim_end_matches('/'));
    if path.is_empty() || root.is_empty() { session.directory.clone() } else { root.to_owned() }
}
