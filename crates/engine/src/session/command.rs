//! Everything an actor can be asked from outside.

use protocol::{
    MessageError, MessageId, Part, PartId, Session, SessionId,
    agent_event::Answer,
    continuation::ContinuationAction,
    message::Origin,
    prompt::{PromptInput, SessionPatch},
};
use tokio::sync::oneshot;

use crate::{Error, RequestKind, ports::Resolved, sessions::Submitted};

/// A command to a session actor. A dropped reply means that the session is gone.
pub(crate) enum Command {
    /// Accept a prompt.
    Submit(Box<Prompt>, oneshot::Sender<Result<Submitted, Error>>),
    /// Stop, and answer when idle.
    Abort(oneshot::Sender<()>),
    /// The server goes down: stop, and answer when idle.
    Interrupt(oneshot::Sender<()>),
    /// Answer a request.
    Reply {
        kind: RequestKind,
        /// Which.
        id: String,
        /// What the person said.
        answer: Answer,
        /// Resolves when the answer is stored.
        reply: oneshot::Sender<Result<(), Error>>,
    },
    /// More is allowed for good than before: look what no longer has to wait.
    Reconsider,
    /// Change the session.
    Update(Box<SessionPatch>, oneshot::Sender<Result<Session, Error>>),
    /// Stop or resume going on by itself.
    Continuation(ContinuationAction, oneshot::Sender<Result<Session, Error>>),
    /// Change a message or part.
    Edit(Edit, oneshot::Sender<Result<(), Error>>),
    /// Take back everything from a message or part on.
    Revert(MessageId, Option<PartId>, oneshot::Sender<Result<Session, Error>>),
    /// Take a revert back.
    Unrevert(oneshot::Sender<Result<Session, Error>>),
    /// A child has done what it was told.
    ChildEnded(ChildWork),
    /// Let the turn go on without waiting for its children; tells whether there are any.
    Background(oneshot::Sender<bool>),
    /// Make a revert final.
    Forget(oneshot::Sender<Result<(), Error>>),
    /// Answer when idle.
    Wait(oneshot::Sender<()>),
    /// Stop, then delete.
    Delete(oneshot::Sender<Result<(), Error>>),
    /// Nothing but start up, which repairs what a dead owner left.
    Settle(oneshot::Sender<()>),
}

/// A prompt that is ready to be stored.
pub(crate) struct Prompt {
    /// What a person said.
    pub(crate) input: PromptInput,
    /// What could not be completed.
    pub(crate) warnings: Vec<MessageError>,
    /// Where it came from, if a person did not write it out.
    pub(crate) origin: Option<Origin>,
    /// Who answers it, if that was looked up already.
    pub(crate) resolved: Option<Resolved>,
}

impl From<PromptInput> for Prompt {
    fn from(input: PromptInput) -> Self {
        Self { input, warnings: Vec::new(), origin: None, resolved: None }
    }
}

/// What a child was told to do: the child, and its prompt. It may be told more than once.
pub(crate) type ChildWork = (SessionId, MessageId);

/// A change that a person makes by hand.
pub(crate) enum Edit {
    /// Remove a message with its parts.
    RemoveMessage(MessageId),
    /// Replace a part.
    ReplacePart(Box<Part>),
    /// Remove a part.
    RemovePart(MessageId, PartId),
}
