//! The commands that an actor accepts.

use protocol::{
    MessageError, MessageId, Millis, Part, PartId, Session, SessionId,
    agent_event::Answer,
    continuation::ContinuationAction,
    message::Origin,
    prompt::{PromptInput, SessionPatch},
    queue::{QueuePatch, QueuedPrompt},
    request::AnsweredBy,
};
use tokio::sync::oneshot;

use crate::{
    Error, RequestKind,
    ports::{self, Commit, Resolved},
    sessions::Submitted,
};

/// A command to a session actor. A dropped reply channel means that the actor has ended.
pub(crate) enum Command {
    /// Accept a prompt.
    Submit(Box<Prompt>, oneshot::Sender<Result<Submitted, Error>>),
    /// Stop, and answer when idle.
    Abort(oneshot::Sender<()>),
    /// The server shuts down: stop, and answer when idle.
    Interrupt(oneshot::Sender<()>),
    /// Answer a request.
    Reply {
        kind: RequestKind,
        id: String,
        /// The user's answer.
        answer: Answer,
        by: AnsweredBy,
        /// Resolves when the answer is stored.
        reply: oneshot::Sender<Result<(), Error>>,
    },
    /// Approvals were added: look for open permissions that they settle.
    Reconsider,
    /// Change the session.
    Update(Box<SessionPatch>, oneshot::Sender<Result<Session, Error>>),
    /// Store the position up to which the user has seen the session.
    Seen(u64, oneshot::Sender<Result<(), Error>>),
    /// Stop or resume continuations.
    Continuation(ContinuationAction, oneshot::Sender<Result<Session, Error>>),
    /// Change a message or part.
    Edit(Edit, oneshot::Sender<Result<(), Error>>),
    /// Change a waiting prompt; answers its new state.
    Requeue(Box<Requeue>, oneshot::Sender<Result<QueuedPrompt, Error>>),
    /// End a waiting prompt without running it; answers its content.
    Withdraw(MessageId, oneshot::Sender<Result<QueuedPrompt, Error>>),
    /// Revert the conversation and its file changes from a message or part on.
    Revert(MessageId, Option<PartId>, oneshot::Sender<Result<Session, Error>>),
    /// Undo the session's revert.
    Unrevert(oneshot::Sender<Result<Session, Error>>),
    /// A child's prompt has ended.
    ChildEnded(ChildWork),
    /// Continue the turn without waiting for its children; answers true if there are any.
    Background(oneshot::Sender<bool>),
    /// Make a revert final.
    Forget(oneshot::Sender<Result<(), Error>>),
    /// Answer when idle.
    Wait(oneshot::Sender<()>),
    /// Stop, then wait for the deletion of the family. With a time, do not stop: fail as busy unless the session is idle,
    /// not shared, and was last updated before this time.
    Delete(Option<Millis>, oneshot::Sender<Result<Held, Error>>),
    /// Answer at once. Starting the actor for this command repairs the session.
    Settle(oneshot::Sender<()>),
}

/// An idle session whose actor accepts no command before its deletion is decided. Dropping this keeps the session.
pub(crate) struct Held {
    /// Deletes the session.
    pub(crate) commit: Commit,
    /// Receives the result of the commit.
    pub(crate) outcome: oneshot::Sender<Result<(), ports::Error>>,
}

/// A prompt that is ready to be stored.
pub(crate) struct Prompt {
    pub(crate) input: PromptInput,
    /// Errors about parts that could not be completed, for the user.
    pub(crate) warnings: Vec<MessageError>,
    /// Set if the user did not type the prompt: a slash command, a command line or a wake-up.
    pub(crate) origin: Option<Origin>,
    /// The agent, model and runner, if they were already resolved.
    pub(crate) resolved: Option<Resolved>,
}

impl From<PromptInput> for Prompt {
    fn from(input: PromptInput) -> Self {
        Self { input, warnings: Vec::new(), origin: None, resolved: None }
    }
}

/// A child session and one of its prompts. A child may get several.
pub(crate) type ChildWork = (SessionId, MessageId);

/// A change that a client makes to a stored message.
pub(crate) enum Edit {
    /// Remove a message with its parts.
    RemoveMessage(MessageId),
    ReplacePart(Box<Part>),
    RemovePart(MessageId, PartId),
}

/// A change of a waiting prompt, with parts that are ready to be stored.
pub(crate) struct Requeue {
    pub(crate) prompt: MessageId,
    pub(crate) patch: QueuePatch,
    /// Errors about parts that could not be completed, for the user.
    pub(crate) warnings: Vec<MessageError>,
}
