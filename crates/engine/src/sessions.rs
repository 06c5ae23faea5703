//! The facade every edge calls: create, submit, abort, reply, subscribe, read.
//!
//! A session has an actor only while it is active. The facade keeps the registry of live actors, starts one when a
//! command needs it, and removes it when the session is idle: an idle session costs rows in the store and no
//! memory.

mod create;
mod delete;
mod edit;
mod family;
mod find;
mod fleet;
mod fork;
mod history;
mod invocation;
mod note;
mod pages;
mod prepare;
mod queue;
mod read;
mod registry;
mod repair;
mod replies;
mod retention;
mod shape;
mod stream;
mod turn;

use std::{fmt, sync::Arc};

use protocol::{
    EndReason, MessageId, MessageWithParts, PermissionId, QuestionId, Session, SessionId,
    prompt::PromptInput,
    request::{Answers, PermissionReply},
};
use tokio::sync::oneshot;

pub use create::Home;
pub use pages::Pages;
pub use registry::Stats;
pub use replies::Replies;
pub use stream::{Stream, StreamItem};

use crate::{
    Error,
    bus::Bus,
    limits::Limits,
    mint::Mint,
    ports::{Clock, Log, Random, Reads, Runners, Undo},
    session::{Command, HistoryCache},
};
use registry::Registry;
use repair::Unfinished;
pub(crate) use repair::{Cause, DamagedSession};

/// The ports and settings that an engine is built from.
pub struct Parts {
    pub log: Arc<dyn Log>,
    pub reads: Arc<dyn Reads>,
    pub runners: Arc<dyn Runners>,
    pub undo: Arc<dyn Undo>,
    pub clock: Arc<dyn Clock>,
    pub random: Arc<dyn Random>,
    /// Must be the observer of `log`.
    pub bus: Arc<Bus>,
    pub limits: Limits,
    /// The server's version, stored with new sessions.
    pub version: String,
}

/// State that the facade and all actors share.
pub(crate) struct Shared {
    pub(crate) log: Arc<dyn Log>,
    pub(crate) reads: Arc<dyn Reads>,
    pub(crate) runners: Arc<dyn Runners>,
    pub(crate) undo: Arc<dyn Undo>,
    pub(crate) mint: Mint,
    pub(crate) bus: Arc<Bus>,
    pub(crate) limits: Limits,
    pub(crate) version: String,
    pub(crate) registry: Registry,
    pub(crate) unfinished: Unfinished,
    pub(crate) histories: Arc<HistoryCache>,
}

/// All sessions of a server.
#[derive(Clone)]
pub struct Sessions {
    pub(crate) shared: Arc<Shared>,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Sessions")
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Parts")
    }
}

/// An accepted prompt.
#[derive(Debug)]
pub struct Submitted {
    /// The stored user message.
    pub message: MessageWithParts,
    /// Resolves with the end of the prompt; `None` if the prompt asked for no reply.
    pub end: Option<oneshot::Receiver<EndReason>>,
    /// Number of events that the session had before the prompt; `None` if the prompt had been accepted earlier.
    pub after: Option<u64>,
}

impl Sessions {
    /// Creates an engine on its ports.
    pub fn new(parts: Parts) -> Self {
        let Parts { log, reads, runners, undo, clock, random, bus, limits, version } = parts;
        let mint = Mint::new(clock, random);
        let (registry, unfinished) = (Registry::default(), Unfinished::default());
        let histories = Arc::default();
        let shared =
            Shared { log, reads, runners, undo, mint, bus, limits, version, registry, unfinished, histories };
        Self { shared: Arc::new(shared) }
    }

    /// Accepts a prompt. Resolves after the prompt is stored durably.
    pub async fn submit(&self, id: &SessionId, input: PromptInput) -> Result<Submitted, Error> {
        let prompt = self.prepare(id, input).await?;
        self.ask(id, |reply| Command::Submit(Box::new(prompt), reply)).await?
    }

    /// Accepts a prompt and waits until it ends. Returns the assistant message that answers it.
    pub async fn prompt(&self, id: &SessionId, input: PromptInput) -> Result<MessageWithParts, Error> {
        let submitted = self.submit(id, input).await?;
        self.finished(id, submitted).await
    }

    /// Waits until a prompt ends. Returns the assistant message that answers it.
    async fn finished(&self, id: &SessionId, submitted: Submitted) -> Result<MessageWithParts, Error> {
        let Submitted { message, end, .. } = submitted;
        let Some(end) = end else { return Ok(message) };
        match end.await {
            Ok(EndReason::Withdrawn) => Err(Error::Withdrawn(message.info.id().clone())),
            Ok(_) => self.answer(id, message.info.id()).await,
            Err(_) => Err(self.dropped()),
        }
    }

    /// The newest assistant message for a prompt, or for the session if the prompt was never taken up.
    async fn answer(&self, id: &SessionId, prompt: &MessageId) -> Result<MessageWithParts, Error> {
        if let Some(answer) = self.newest_answer(id, prompt).await? {
            return Ok(answer);
        }
        match self.shared.reads.last_answer(id, None).await? {
            Some(answer) => Ok(answer),
            None => self.message(id, prompt).await,
        }
    }

    /// Stops the session's turn and waits until it is idle. Does nothing to an idle session. Returns an error if
    /// the store cannot write; the abort is then applied as soon as it can.
    pub async fn abort(&self, id: &SessionId) -> Result<(), Error> {
        let active = self.abort_unfinished(id)
            || self.shared.registry.is_live(id)
            // An abort also withdraws a request that outlived its turn.
            || !self.shared.reads.requests_of(id).await?.is_empty();
        if active { self.ask(id, Command::Abort).await } else { Ok(()) }
    }

    /// Continues a turn without waiting for its children; returns true if there were any.
    pub async fn background(&self, id: &SessionId) -> Result<bool, Error> {
        if self.shared.registry.is_live(id) { self.ask(id, Command::Background).await } else { Ok(false) }
    }

    /// Answers requests for a client; its name is shown to other clients.
    pub fn answers_of(&self, client: Option<String>) -> Replies<'_> {
        Replies { sessions: self, client }
    }

    /// Answers a permission for a client without a name.
    pub async fn reply_permission(
        &self,
        id: &PermissionId,
        reply: PermissionReply,
        message: Option<String>,
    ) -> Result<(), Error> {
        self.answers_of(None).permission(id, reply, message).await
    }

    /// Answers a question for a client without a name.
    pub async fn reply_question(&self, id: &QuestionId, answers: Answers) -> Result<(), Error> {
        self.answers_of(None).question(id, answers).await
    }

    /// Dismisses a question for a client without a name.
    pub async fn reject_question(&self, id: &QuestionId) -> Result<(), Error> {
        self.answers_of(None).dismiss(id).await
    }

    /// Ends every turn as interrupted, ends every stream, and accepts no more commands.
    pub async fn shutdown(&self) {
        let live = self.shared.registry.close();
        let ended = futures::future::join_all(live.iter().map(|id| self.ask(id, Command::Interrupt)));
        if tokio::time::timeout(self.shared.limits.shutdown, ended).await.is_err() {
            tracing::warn!(
                "some turns did not end before the shutdown timeout; the next start will close them"
            );
        }
        self.shared.bus.close();
    }

    /// Sends a command to a session's actor, starting it if necessary, and waits for the answer.
    pub(crate) async fn ask<T>(
        &self,
        id: &SessionId,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.send(id, command(reply))?;
        if let Ok(answer) = answer.await {
            return Ok(answer);
        }
        // The actor dropped the command: the session does not exist, or its store failed.
        Err(match self.shared.reads.session(id).await? {
            None => Error::no_session(id),
            Some(_) => self.dropped(),
        })
    }

    /// The reason why an actor dropped a command: the server shuts down, or the store failed to write.
    fn dropped(&self) -> Error {
        if self.shared.registry.is_closed() { Error::Closing } else { self.shared.unfinished.error().into() }
    }

    pub async fn get(&self, id: &SessionId) -> Result<Session, Error> {
        match self.shared.reads.session(id).await? {
            Some((session, _)) => Ok(session),
            None => Err(Error::no_session(id)),
        }
    }
}
