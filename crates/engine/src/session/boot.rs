//! Opens a session: loads its state and repairs what a dead owner left open.

use std::collections::{BTreeMap, HashMap, HashSet};

use protocol::{
    EndReason, EventBody, Message, MessageError, MessageId, SessionId, SessionStatus,
    event::{PromptEnded, SessionOnly, StatusChanged},
};
use tokio::sync::mpsc;

use super::{actor::Actor, command::Command, effects::Effects, orphans::survivor, write::unstored};
use crate::{
    Error,
    bus::Place,
    lifecycle::{Input, Lifecycle},
    ports::{OpenPrompt, Resolved, Wanted},
    sessions::{Cause, DamagedSession, Sessions},
    transcript::{Emit, close},
};

/// The end reason and the error with which a repair ends a turn.
struct Ending {
    reason: EndReason,
    error: MessageError,
}

impl Ending {
    fn of(damage: &DamagedSession) -> Self {
        let (reason, error) = match damage.cause {
            _ if damage.aborted => (EndReason::Aborted, MessageError::aborted()),
            Cause::Died => (EndReason::Interrupted, MessageError::interrupted()),
            Cause::Unstored(failure) => (EndReason::Error, unstored(failure)),
        };
        Self { reason, error }
    }
}

impl Actor {
    pub(super) async fn boot(
        sessions: Sessions,
        id: &SessionId,
        inbox: mpsc::Receiver<Command>,
        myself: mpsc::Sender<Command>,
    ) -> Result<Option<Self>, Error> {
        let shared = sessions.shared.clone();
        // Only the place of the newest message is read: the message itself may have many large parts.
        let reads = &shared.reads;
        let (found, workspace, newest, mut requests) = tokio::try_join!(
            reads.session(id),
            reads.workspace(id),
            reads.nth_before(id, None, 1),
            reads.requests_of(id)
        )?;
        let (Some((session, head)), Some(workspace)) = (found, workspace) else { return Ok(None) };
        let fence = shared.bus.fleet().claim(&workspace).await?;
        let root = sessions.root(&session).await?;
        let place = Place {
            workspace,
            directory: session.directory.as_str().into(),
            project: session.project_id.as_str().into(),
        };
        let is_empty = newest.is_none();
        let mut actor = Self {
            sessions,
            inbox,
            myself,
            place,
            fence,
            head,
            latest: newest.map_or(0, |place| place.created),
            session,
            root,
            life: Lifecycle::default(),
            run: None,
            resolved: HashMap::new(),
            commands: HashMap::new(),
            invocations: HashSet::new(),
            last: None,
            answer: None,
            pause: None,
            going: None,
            requests: BTreeMap::new(),
            orphans: Vec::new(),
            resume: None,
            unsaved: Vec::new(),
            prompt_waiters: HashMap::new(),
            idle_waiters: Vec::new(),
            deleters: Vec::new(),
            tally: None,
            record: None,
            aborting: None,
            broken: None,
        };
        if is_empty {
            shared.histories.begin(id, actor.version());
        }
        if let Some(damage) = shared.unfinished.damage(id) {
            actor.sessions.repair_children(id).await?;
            actor.repair(&damage).await?;
            shared.unfinished.repaired(id);
            requests = shared.reads.requests_of(id).await?;
        }
        // In custody, an answer must not run the prompt again.
        if !actor.life.is_busy() && actor.may_run() {
            actor.adopt_orphans(requests);
        }
        Ok(Some(actor))
    }

    /// Ends the turn that the last owner never ended, with its one idle, and takes up waiting prompts. One commit
    /// stores that idle and the next busy, so a session with waiting prompts never looks idle. In custody, waiting
    /// prompts go on waiting.
    async fn repair(&mut self, damage: &DamagedSession) -> Result<(), Error> {
        let id = self.session.id.clone();
        let reads = self.shared().reads.clone();
        let prompts = reads.prompts(&id).await?;
        let ends = |prompt: &OpenPrompt| {
            prompt.started || (damage.aborted && !damage.spared.contains(&prompt.message))
        };
        let (over, mut waiting): (Vec<_>, Vec<_>) = prompts.into_iter().partition(ends);
        if !self.may_run() {
            // They wait for the node that has the files.
            waiting.clear();
        }
        let waiting = self.resolve_waiting(waiting).await?;
        let ending = Ending::of(damage);
        let reason = ending.reason;
        // A prompt is stored together with the busy of its turn. If the owner died before that turn began, the turn
        // begins now instead of ending.
        let begins = over.is_empty() && !waiting.is_empty();
        let is_open =
            !begins && (reads.status(&id).await?.is_some() || over.iter().any(|prompt| prompt.started));
        if is_open {
            let answerable = waiting.is_empty() && !damage.aborted && self.may_run();
            self.close_unfinished(over, ending, answerable).await?;
        } else {
            if damage.aborted {
                let requests = reads.requests_of(&id).await?;
                self.unsaved.extend(requests.iter().map(Self::withdrawal));
            }
            for prompt in over {
                self.push_prompt_ended(prompt.message, reason);
            }
        }
        self.take_up(waiting).await?;
        if is_open {
            self.shared().registry.count_end(reason);
        }
        Ok(())
    }

    /// `answerable` is true if no prompt follows, so that an open request may stay open.
    async fn close_unfinished(
        &mut self,
        over: Vec<OpenPrompt>,
        ending: Ending,
        answerable: bool,
    ) -> Result<(), Error> {
        let id = self.session.id.clone();
        let shared = self.sessions.shared.clone();
        let requests = shared.reads.requests_of(&id).await?;
        let kept = survivor(self.root.is_some() || !answerable, requests.iter());
        let withdrawn = requests.iter().filter(|request| Some(*request) != kept);
        self.unsaved.extend(withdrawn.map(Self::withdrawal));
        let mut open = shared.reads.open(&id).await?;
        // Text since the last checkpoint is lost with a process, but not with an actor: the bus still has it.
        for part in open.iter_mut().flat_map(|message| &mut message.parts).filter(|part| part.is_open()) {
            if let Some(text) = shared.bus.open_text(&part.id) {
                part.set_text(text);
            }
        }
        let mut emit = Emit::new(id.clone(), &shared.mint);
        close(open, Some(&ending.error), &mut emit);
        emit.error(ending.error);
        self.unsaved.extend(emit.into_events());
        for prompt in over {
            self.push_prompt_ended(prompt.message, ending.reason);
        }
        self.push_idle(ending.reason);
        Ok(())
    }

    /// Resolves prompts that were accepted and not started. A root session's prompt runs now. A child's prompt
    /// ends, because the parent turn that wanted its answer is over.
    async fn resolve_waiting(&mut self, waiting: Vec<OpenPrompt>) -> Result<Vec<OpenPrompt>, Error> {
        let mut runnable = Vec::new();
        for prompt in waiting {
            match self.resolve_stored(&prompt.message).await? {
                Some(resolved) if self.session.parent_id.is_none() => {
                    self.resolved.insert(prompt.message.clone(), resolved);
                    runnable.push(prompt);
                }
                _ => self.push_prompt_ended(prompt.message, EndReason::Interrupted),
            }
        }
        Ok(runnable)
    }

    /// Saves the repair together with the busy of the first waiting prompt, then runs the waiting prompts.
    async fn take_up(&mut self, waiting: Vec<OpenPrompt>) -> Result<(), Error> {
        let input = |OpenPrompt { message: prompt, delivery, .. }| Input::Prompt { prompt, delivery };
        let mut waiting = waiting.into_iter();
        let effects = waiting.next().map_or_else(Effects::new, |first| self.open_turn(input(first)));
        if let Err(error) = self.save(true).await {
            self.shared().registry.count_waiting(self.life.waiting(), 0);
            return Err(error);
        }
        self.perform(effects).await;
        for prompt in waiting {
            if self.broken.is_some() {
                // The actor gives up first; the next actor takes up the other prompts.
                break;
            }
            self.step(input(prompt)).await;
        }
        Ok(())
    }

    pub(super) async fn resolve_stored(&mut self, message: &MessageId) -> Result<Option<Resolved>, Error> {
        let stored = self.shared().reads.message(&self.session.id, message).await?;
        let Some(Message::User(user)) = stored.map(|stored| stored.info) else { return Ok(None) };
        self.note_origin(message, user.origin());
        let wanted = Wanted { session: &self.session, agent: Some(&user.agent), model: Some(&user.model) };
        match self.shared().runners.resolve(wanted).await {
            Ok(resolved) => Ok(Some(resolved)),
            Err(error) => {
                tracing::warn!(session = %self.session.id, %error, "cannot run a waiting prompt; ending it");
                Ok(None)
            }
        }
    }

    pub(super) fn push_prompt_ended(&mut self, message_id: MessageId, reason: EndReason) {
        let session_id = self.session.id.clone();
        self.unsaved.push(EventBody::PromptEnded(PromptEnded::new(session_id, message_id, reason)));
    }

    pub(super) fn push_status(&mut self, status: SessionStatus) {
        let session_id = self.session.id.clone();
        self.unsaved.push(EventBody::SessionStatus(StatusChanged::new(session_id, status)));
    }

    /// Adds the status idle and `session.idle`. No other code creates an idle.
    pub(super) fn push_idle(&mut self, reason: EndReason) {
        self.push_status(SessionStatus::idle(reason));
        let session_id = self.session.id.clone();
        self.unsaved.push(EventBody::SessionIdle(SessionOnly::new(session_id)));
    }
}
