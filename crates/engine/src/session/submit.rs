//! Accepts prompts: validates, stores, and only then acknowledges them.

use protocol::{
    EventBody, Extra, Message, MessageId, MessageWithParts, Millis, Part, PartBody, Rest, SessionId,
    UserMessage,
    continuation::Episode,
    event::{PartInfo, PromptQueued, SessionFailed},
    message::{Origin, UserTime},
    part::TextPart,
    prompt::{PartInput, PartInputBody, PromptInput, Sender},
    request::{Action, Rule},
    session::SessionModel,
};
use tokio::sync::oneshot;

use super::{actor::Actor, command::Prompt, effects::Effects};
use crate::{
    Error,
    lifecycle::Input,
    limits::MAX_WAITING,
    mint::Mint,
    ports::{self, Resolved, StoreFailure},
    sessions::Submitted,
};

/// The effects that a stored prompt still has to have; `None` if no turn works on it.
type Start = Option<Effects>;

impl Actor {
    pub(super) async fn submit(&mut self, prompt: Prompt) -> Result<(Submitted, Start), Error> {
        if self.shared().registry.is_closed() {
            return Err(Error::Closing);
        }
        if !self.deleters.is_empty() {
            return Err(Error::no_session(&self.session.id));
        }
        if !self.may_run() {
            let message = format!(
                "the directory {} is on another node, which is away; start that node and try again",
                self.session.directory
            );
            return Err(ports::Error::new(StoreFailure::Fenced, message).into());
        }
        let is_withdrawn = match &prompt.input.message_id {
            None => false,
            Some(id) => {
                let (reads, session) = (&self.shared().reads, &self.session.id);
                let (known, is_withdrawn) =
                    tokio::try_join!(reads.message(session, id), reads.is_withdrawn(session, id))?;
                if let Some(known) = known {
                    return self.repeat(known).await;
                }
                is_withdrawn
            }
        };
        // A running turn may still start children, and a plugin may continue it.
        if prompt.input.sender == Sender::Client && self.session.parent_id.is_none() {
            self.sessions.check_open()?;
        }
        if is_withdrawn && let Some(id) = prompt.input.message_id {
            return Err(Error::Withdrawn(id));
        }
        if matches!(prompt.origin, Some(Origin::Shell { .. })) && self.life.is_busy() {
            return Err(Error::Busy(self.session.id.clone()));
        }
        if self.life.waiting() >= MAX_WAITING {
            return Err(Error::Overloaded(format!(
                "{MAX_WAITING} prompts are already waiting in this session; wait for some to end or abort the session"
            )));
        }
        self.accept(prompt).await
    }

    /// The same `messageID` again: the prompt is not stored twice, but the caller still learns how it ends.
    async fn repeat(&mut self, known: MessageWithParts) -> Result<(Submitted, Start), Error> {
        let Message::User(user) = &known.info else {
            return Err(Error::Invalid(format!("message {} is not a prompt", known.info.id())));
        };
        let open = self.shared().reads.prompts(&self.session.id).await?;
        let end = if open.iter().any(|prompt| prompt.message == user.id) {
            self.wait_for(user.id.clone())
        } else {
            // The prompt has ended, so the caller can read its answer.
            let (send, receive) = oneshot::channel();
            let _ = send.send(protocol::EndReason::Completed);
            receive
        };
        Ok((Submitted { message: known, end: Some(end), after: None }, None))
    }

    fn wait_for(&mut self, prompt: MessageId) -> oneshot::Receiver<protocol::EndReason> {
        let (send, receive) = oneshot::channel();
        self.prompt_waiters.entry(prompt).or_default().push(send);
        receive
    }

    async fn accept(&mut self, prompt: Prompt) -> Result<(Submitted, Start), Error> {
        let Prompt { input, warnings, origin, resolved } = prompt;
        let resolved = match resolved {
            Some(resolved) => resolved,
            None => self.sessions.resolve(&self.session, &input).await?,
        };
        let no_reply = input.no_reply == Some(true);
        let delivery = input.delivery.unwrap_or(resolved.delivery);
        let input = PromptInput { message_id: Some(self.prompt_id(&input)), ..input };
        let is_invoked = is_invocation(&input, origin.as_ref());
        let round = self.plugin_round(&input, &resolved).await?;
        let before = (self.session.clone(), self.latest);
        self.forget_reverted().await?;
        let after = Some(self.head);
        if round.is_some() {
            self.session.continuation.get_or_insert_default().episode = round;
        } else if !is_invoked && origin != Some(Origin::Wake) && input.sender == Sender::Client {
            self.begin_episode();
        }
        let origin = origin.or_else(|| (input.sender == Sender::Plugin).then_some(Origin::Plugin));
        let message = self.store_prompt(input, &resolved, origin.as_ref());
        let id = message.info.id().clone();
        for warning in warnings {
            let (session_id, error) = (Some(self.session.id.clone()), Some(warning));
            self.unsaved.push(EventBody::SessionError(SessionFailed::new(session_id, error)));
        }
        // A new prompt replaces the answer to an orphaned request.
        self.withdraw_orphans();
        if !no_reply {
            let (session_id, message_id) = (self.session.id.clone(), id.clone());
            let queued = PromptQueued::new(session_id, message_id, delivery);
            self.unsaved.push(EventBody::PromptQueued(queued));
        }
        self.push_session();
        let life = self.life.clone();
        let effects = (!no_reply).then(|| self.open_turn(Input::Prompt { prompt: id.clone(), delivery }));
        if let Err(error) = self.save(true).await {
            (self.session, self.latest) = before;
            self.counting(|now| *now = life);
            return Err(error);
        }
        let Some(effects) = effects else { return Ok((Submitted { message, end: None, after }, None)) };
        self.shared().registry.count_prompt();
        if let Some(since) = &mut self.aborting {
            since.push(id.clone());
        }
        self.resolved.insert(id.clone(), resolved);
        self.note_origin(&id, origin);
        if is_invoked {
            self.invocations.insert(id.clone());
        }
        let end = Some(self.wait_for(id));
        Ok((Submitted { message, end, after }, Some(effects)))
    }

    fn prompt_id(&self, input: &PromptInput) -> MessageId {
        input.message_id.clone().unwrap_or_else(|| self.shared().mint.id())
    }

    /// The episode with one more round, if a plugin continues the session with this prompt. A plugin marks such a
    /// prompt as synthetic; any other prompt of a plugin passes on something new, such as the end of a background task.
    async fn plugin_round(&self, input: &PromptInput, resolved: &Resolved) -> Result<Option<Episode>, Error> {
        let continues =
            input.sender == Sender::Plugin && input.is_synthetic() && input.no_reply != Some(true);
        match input.message_id.as_ref().filter(|_| continues) {
            Some(id) => self.count_plugin_round(id, &resolved.continuation).await.map(Some),
            None => Ok(None),
        }
    }

    /// Builds the user message and its parts and queues their events.
    fn store_prompt(
        &mut self,
        input: PromptInput,
        resolved: &Resolved,
        origin: Option<&Origin>,
    ) -> MessageWithParts {
        let now = self.shared().mint.now();
        self.latest = now.max(self.latest + 1);
        if let Some(tools) = &input.tools {
            self.session.permission = Some(tools.iter().map(tool_rule).collect());
        }
        self.session.agent = Some(resolved.agent.clone());
        self.session.model = Some(SessionModel {
            id: resolved.model.model_id.clone(),
            provider_id: resolved.model.provider_id.clone(),
            variant: Some(resolved.model.variant.clone().unwrap_or_else(|| "default".into())),
            extra: Rest::NONE,
        });
        self.session.time.updated = now;
        let mut message = stored(input, resolved, &self.session.id, self.latest, &self.shared().mint);
        if let (Message::User(user), Some(origin)) = (&mut message.info, origin) {
            user.extra = written(origin);
        }
        self.push_message(message.info.clone());
        for part in &message.parts {
            let (session_id, part) = (self.session.id.clone(), part.clone());
            let info = PartInfo::new(session_id, part, now);
            self.unsaved.push(EventBody::PartUpdated(info));
        }
        message
    }
}

/// A prompt as it is stored.
pub(crate) fn stored(
    input: PromptInput,
    resolved: &Resolved,
    session: &SessionId,
    created: Millis,
    mint: &Mint,
) -> MessageWithParts {
    let id = input.message_id.unwrap_or_else(|| mint.id());
    let parts = stored_parts(input.parts, session, &id, mint);
    let user = UserMessage {
        id: id.clone(),
        session_id: session.clone(),
        time: UserTime { created, extra: Extra::new() },
        agent: resolved.agent.clone(),
        model: resolved.model.clone(),
        format: input.format,
        summary: None,
        system: input.system,
        tools: input.tools,
        extra: Extra::new(),
    };
    MessageWithParts::new(Message::User(Box::new(user)), parts)
}

/// The parts of a prompt as they are stored.
pub(super) fn stored_parts(
    parts: Vec<PartInput>,
    session: &SessionId,
    message: &MessageId,
    mint: &Mint,
) -> Vec<Part> {
    let part = |part: PartInput| Part {
        id: part.id.unwrap_or_else(|| mint.id()),
        session_id: session.clone(),
        message_id: message.clone(),
        body: stored_body(part.body),
    };
    parts.into_iter().map(part).collect()
}

fn stored_body(body: PartInputBody) -> PartBody {
    match body {
        // A submitted text is complete: a time without an end would make it look like an open part.
        PartInputBody::Text(part) => PartBody::Text(TextPart { time: None, ..part }),
        PartInputBody::File(part) => PartBody::File(part),
        PartInputBody::Agent(part) => PartBody::Agent(part),
        PartInputBody::Subtask(part) => PartBody::Subtask(part),
        PartInputBody::Compaction(part) => PartBody::Compaction(part),
    }
}

/// True for a prompt that asks for a single task and is not part of the user's conversation: a command line or a
/// summary.
fn is_invocation(input: &PromptInput, origin: Option<&Origin>) -> bool {
    let summary = |part: &PartInput| matches!(part.body, PartInputBody::Compaction(_));
    matches!(origin, Some(Origin::Shell { .. })) || input.parts.iter().any(summary)
}

/// The origin as a field of the stored message.
fn written(origin: &Origin) -> Extra {
    let origin = serde_json::to_value(origin).unwrap_or_default();
    Extra::from_iter([(UserMessage::ORIGIN.to_owned(), origin)])
}

/// The legacy `tools` map as rules.
fn tool_rule((tool, on): (&String, &bool)) -> Rule {
    Rule::new(tool.clone(), "*", if *on { Action::Allow } else { Action::Deny })
}
