//! One turn of an agent.
//!
//! The answer to `session/prompt` is the end of a turn, and nothing else is, except that the program is gone. What an
//! agent begins by itself has no such answer: it is over when the agent says so in its own way, when a person wants
//! something else, or when nothing was heard for [`limits::QUIET`].

use engine::session::Turn;
use futures::stream::StreamExt;
use protocol::config::PermissionMode;
use protocol::message::Origin;
use protocol::request::{Action, Rule};
use protocol::{AgentEvent, Message, MessageError, MessageWithParts, TurnEnd};
use tokio::time::{Instant, sleep, sleep_until};
use workspace::files::Root;

use super::conversation::{Conversation, Memory, Note};
use super::desk::Desk;
use super::hearing::{After, Hearing, broke};
use super::options::Options;
use super::translate::Translation;
use super::{Inner, limits, outgoing, prompt};
use crate::native::permission::Permissions;
use crate::native::root;

/// Takes a turn.
pub(super) async fn run(inner: &Inner, turn: &Turn) -> TurnEnd {
    let failed = |error: String| TurnEnd::Error(MessageError::unknown(error));
    // Whoever watches over the turn has seen its beginning when the prompt is read, and nothing was done before.
    turn.emit(AgentEvent::step_started()).await;
    let prompt = match turn.message(&turn.prompt).await {
        Ok(Some(prompt)) => prompt,
        Ok(None) => return failed("the prompt is gone".to_owned()),
        Err(error) => return failed(error.to_string()),
    };
    let root = match root(&turn.session, &inner.options.closed) {
        Ok(root) => root,
        Err(error) => return failed(error),
    };
    let opened = tokio::select! {
        biased;
        () = turn.cancelled() => return TurnEnd::Cancelled,
        opened = open(inner, turn, &root) => opened,
    };
    let mut conversation = match opened {
        Ok(conversation) => conversation,
        Err(error) => {
            inner.keeper.failed(&turn.session.id);
            return TurnEnd::Error(error);
        }
    };
    let (end, after) = Work::new(inner, turn, root, &mut conversation).await.take(&prompt).await;
    match after {
        After::Keep => inner.keeper.keep(turn.session.id.clone(), conversation),
        After::Stop => {
            conversation.link.stop().await;
            if matches!(end, TurnEnd::Error(_)) {
                inner.keeper.failed(&turn.session.id);
            }
        }
    }
    end
}

/// The conversation of the session: the one that is going on, or the one that was noted, or a new one.
async fn open(inner: &Inner, turn: &Turn, root: &Root) -> Result<Conversation, MessageError> {
    let (options, session) = (&inner.options, &turn.session);
    let mut conversation = match inner.keeper.take(&session.id).await {
        Some(conversation) => conversation,
        None => start(inner, turn, root).await?,
    };
    conversation.choose_model(&turn.model.model_id, options).await?;
    Ok(conversation)
}

async fn start(inner: &Inner, turn: &Turn, root: &Root) -> Result<Conversation, MessageError> {
    let (options, session) = (&inner.options, &turn.session);
    if let Some(pause) = inner.keeper.pause(&session.id) {
        sleep(pause).await;
    }
    let directory = root.directory().to_string_lossy();
    let note = Note::of(session, options.id());
    let (conversation, memory) = Conversation::open(options, &directory, note).await?;
    let noted = AgentEvent::Noted { name: options.id().to_owned(), note: conversation.note.text() };
    turn.emit(noted).await;
    if memory == Memory::Lost {
        let message = format!(
            "{} does not know this conversation any more, so it begins without a memory.",
            options.id()
        );
        turn.emit(AgentEvent::Warning(MessageError::unknown(message))).await;
    }
    Ok(conversation)
}

/// The work of one turn.
struct Work<'a> {
    options: &'a Options,
    turn: &'a Turn,
    conversation: &'a mut Conversation,
    translation: Translation,
    desk: Desk<'a>,
}

impl<'a> Work<'a> {
    async fn new(inner: &'a Inner, turn: &'a Turn, root: Root, conversation: &'a mut Conversation) -> Self {
        let options = &inner.options;
        let approved = turn.approved().await.unwrap_or_default();
        let permissions = Permissions::new(rules(options, turn), approved);
        let bypass = options.mode == PermissionMode::Bypass;
        let desk = Desk::new(turn, root, permissions, bypass, &options.hidden, options.sandbox.as_ref());
        let mut translation = Translation::new(conversation.note.cost);
        translation.begin();
        Self { options, turn, conversation, translation, desk }
    }

    async fn take(mut self, prompt: &MessageWithParts) -> (TurnEnd, After) {
        self.conversation.stopped = false;
        let (end, after) = if is_woken(prompt) { self.listen().await } else { self.answer(prompt).await };
        let cost = self.translation.cost();
        if self.conversation.note.cost.to_bits() != cost.to_bits() {
            self.conversation.note.cost = cost;
            let noted =
                AgentEvent::Noted { name: self.options.id().to_owned(), note: self.conversation.note.text() };
            self.turn.emit(noted).await;
        }
        (end, after)
    }

    /// Sends a prompt and listens until it is answered.
    async fn answer(&mut self, prompt: &MessageWithParts) -> (TurnEnd, After) {
        let (blocks, left) = prompt::blocks(&prompt.parts, &self.conversation.able);
        if !left.is_empty() {
            let message = format!("{} cannot take these attachments: {}", self.options.id(), left.join(", "));
            self.turn.emit(AgentEvent::Warning(MessageError::unknown(message))).await;
        }
        let request = outgoing::prompt(&self.conversation.note.session, blocks);
        let peer = self.conversation.link.peer.clone();
        let asking = peer.request(request.method(), outgoing::value(&request), limits::PROMPT);
        tokio::pin!(asking);
        let Self { options, turn, conversation, translation, desk } = self;
        let mut hearing = Hearing::new(options, turn, translation, desk);
        let mut stopping: Option<Instant> = None;
        loop {
            let quiet = hearing.quiet(options.patience.silence);
            tokio::select! {
                biased;
                () = turn.cancelled(), if stopping.is_none() => {
                    stopping = Some(Instant::now() + options.patience.interrupt);
                    let _ = conversation.cancel(options).await;
                }
                () = sleep_until(stopping.unwrap_or_else(Instant::now)), if stopping.is_some() => {
                    return (TurnEnd::Cancelled, After::Stop);
                }
                Some(errand) = hearing.errands.next() => hearing.settle(errand),
                incoming = conversation.link.inbox.next() => {
                    let Some(incoming) = incoming else {
                        return broke(&mut conversation.link, stopping.is_some()).await;
                    };
                    hearing.hear(incoming, &conversation.note.session).await;
                }
                answer = &mut asking => {
                    // What was said before the answer is part of the turn.
                    while let Some(incoming) = conversation.link.inbox.waiting() {
                        hearing.hear(incoming, &conversation.note.session).await;
                    }
                    conversation.stopped = stopping.is_some();
                    return hearing.end(answer, stopping.is_some(), &mut conversation.link).await;
                }
                () = sleep_until(quiet) => return hearing.hung(),
            }
        }
    }

    /// Listens to what an agent does by itself.
    async fn listen(&mut self) -> (TurnEnd, After) {
        let Self { options, turn, conversation, translation, desk } = self;
        let mut hearing = Hearing::new(options, turn, translation, desk);
        let session = conversation.note.session.clone();
        for incoming in std::mem::take(&mut conversation.heard) {
            hearing.hear(incoming, &session).await;
        }
        loop {
            let patience = if hearing.is_working() { options.patience.silence } else { limits::QUIET };
            let quiet = hearing.quiet(patience);
            tokio::select! {
                biased;
                () = turn.cancelled() => {
                    let after = if conversation.cancel(options).await.is_ok() { After::Keep } else { After::Stop };
                    conversation.stopped = true;
                    return (TurnEnd::Cancelled, after);
                }
                Some(errand) = hearing.errands.next() => hearing.settle(errand),
                incoming = conversation.link.inbox.next() => {
                    let Some(incoming) = incoming else { return broke(&mut conversation.link, false).await };
                    hearing.hear(incoming, &session).await;
                }
                () = turn.prompted() => break,
                () = sleep_until(quiet) => break,
            }
            if hearing.idle {
                break;
            }
        }
        hearing.finish().await;
        (TurnEnd::Completed, After::Keep)
    }
}

/// Whether a turn was opened for something the agent began by itself.
fn is_woken(prompt: &MessageWithParts) -> bool {
    matches!(&prompt.info, Message::User(user) if user.origin() == Some(Origin::Wake))
}

/// What an agent may do: the rules it was given, what its mode adds to them, and those of the session.
fn rules(options: &Options, turn: &Turn) -> Vec<Rule> {
    let mut rules = options.rules.clone();
    match options.mode {
        PermissionMode::Ask | PermissionMode::Bypass => {}
        PermissionMode::AcceptEdits => rules.push(Rule::new("edit", "*", Action::Allow)),
        PermissionMode::Plan => rules.push(Rule::new("edit", "*", Action::Deny)),
    }
    rules.extend(turn.session.permission.iter().flatten().cloned());
    rules
}
