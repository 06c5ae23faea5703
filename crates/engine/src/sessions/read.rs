//! Reads sessions and messages, and fills in the current text of open parts.

use std::collections::{BTreeMap, HashMap, HashSet};

use protocol::{
    ApprovalId, Message, MessageId, MessageWithParts, Session, SessionId, SessionStatus, Todo, WorkspaceId,
    request::{Approval, PermissionRequest, QuestionRequest, Request},
};

use super::Sessions;
use crate::{
    Error,
    ports::{Fence, Listing, Page},
    session::back::look_back,
};

impl Sessions {
    /// Sessions, most recently updated first.
    pub async fn list(&self, listing: Listing) -> Result<Vec<Session>, Error> {
        Ok(self.shared.reads.sessions(listing).await?)
    }

    pub async fn count(&self) -> Result<u64, Error> {
        Ok(self.shared.reads.count().await?)
    }

    pub async fn children(&self, id: &SessionId) -> Result<Vec<Session>, Error> {
        self.list(Listing { parent: Some(id.clone()), ..Listing::default() }).await
    }

    /// The topmost ancestor of a session; `None` if the session has no parent.
    pub(crate) async fn root(&self, session: &Session) -> Result<Option<SessionId>, Error> {
        let (mut root, mut above) = (None, session.parent_id.clone());
        // A parent is older than its child, so this loop ends.
        while let Some(id) = above {
            above = self.shared.reads.session(&id).await?.and_then(|(parent, _)| parent.parent_id);
            root = Some(id);
        }
        Ok(root)
    }

    /// A page of messages, oldest first. Open parts contain their text up to this moment.
    pub async fn messages(&self, id: &SessionId, page: Page) -> Result<Vec<MessageWithParts>, Error> {
        self.get(id).await?;
        let mut messages = self.shared.reads.messages(id, page).await?;
        for message in &mut messages {
            self.fill(message);
        }
        Ok(messages)
    }

    pub async fn message(&self, id: &SessionId, message: &MessageId) -> Result<MessageWithParts, Error> {
        self.get(id).await?;
        let found = self.shared.reads.message(id, message).await?;
        let mut found = found.ok_or_else(|| Error::NotFound { kind: "Message", id: message.to_string() })?;
        self.fill(&mut found);
        Ok(found)
    }

    /// The newest assistant message that answers a prompt or one of its continuations. A summary is returned only
    /// if there is no other answer: then the prompt asked for a summary.
    pub(crate) async fn newest_answer(
        &self,
        id: &SessionId,
        prompt: &MessageId,
    ) -> Result<Option<MessageWithParts>, Error> {
        let mut found = Answers::default();
        // An answer comes after its prompt and is usually one of the newest messages.
        look_back(self.shared.reads.as_ref(), id, |message| !found.note(message, prompt)).await?;
        Ok(found.newest(prompt))
    }

    fn fill(&self, message: &mut MessageWithParts) {
        for part in message.parts.iter_mut().filter(|part| part.is_open()) {
            if let Some(text) = self.shared.bus.open_text(&part.id) {
                part.set_text(text);
            }
        }
    }

    pub async fn todos(&self, id: &SessionId) -> Result<Vec<Todo>, Error> {
        self.get(id).await?;
        Ok(self.shared.reads.todos(id).await?)
    }

    /// The workspace of a directory on this node.
    pub fn workspace(&self, directory: &str) -> WorkspaceId {
        self.shared.bus.fleet().workspace(directory)
    }

    /// The workspace of a session, which may be a directory of another node.
    pub async fn workspace_of(&self, id: &SessionId) -> Result<WorkspaceId, Error> {
        self.shared.reads.workspace(id).await?.ok_or_else(|| Error::no_session(id))
    }

    /// Claims the workspace of a session for this node.
    pub(super) async fn claim(&self, id: &SessionId) -> Result<Fence, Error> {
        Ok(self.shared.bus.fleet().claim(&self.workspace_of(id).await?).await?)
    }

    /// The status of every session that is not idle, in one workspace or in all.
    pub async fn statuses(
        &self,
        workspace: Option<&WorkspaceId>,
    ) -> Result<BTreeMap<SessionId, SessionStatus>, Error> {
        let statuses = self.shared.reads.statuses(workspace).await?;
        Ok(statuses.into_iter().collect())
    }

    /// Open permissions of one workspace or of all.
    pub async fn permissions(
        &self,
        workspace: Option<&WorkspaceId>,
    ) -> Result<Vec<PermissionRequest>, Error> {
        let permission = |request| match request {
            Request::Permission(request) => Some(request),
            Request::Question(_) => None,
        };
        Ok(self.requests(workspace).await?.into_iter().filter_map(permission).collect())
    }

    /// Open questions of one workspace or of all.
    pub async fn questions(&self, workspace: Option<&WorkspaceId>) -> Result<Vec<QuestionRequest>, Error> {
        let question = |request| match request {
            Request::Question(request) => Some(request),
            Request::Permission(_) => None,
        };
        Ok(self.requests(workspace).await?.into_iter().filter_map(question).collect())
    }

    /// Approvals of one project or of all, oldest first.
    pub async fn approvals(&self, project: Option<&str>) -> Result<Vec<Approval>, Error> {
        let mut approvals = self.shared.reads.approvals(None).await?;
        approvals.retain(|approval| project.is_none_or(|project| approval.project_id == project));
        Ok(approvals)
    }

    /// Deletes an approval; returns true if it existed. A running step may still use it.
    pub async fn forget(&self, approval: &ApprovalId) -> Result<bool, Error> {
        Ok(self.shared.log.forget(approval).await?)
    }

    async fn requests(&self, workspace: Option<&WorkspaceId>) -> Result<Vec<Request>, Error> {
        Ok(self.shared.reads.requests(workspace).await?)
    }
}

/// The answers found on the way back to a prompt.
#[derive(Default)]
struct Answers {
    /// The newest answer to each message. Summaries have keys of their own, because other answers are preferred.
    answers: HashMap<(MessageId, bool), MessageWithParts>,
    /// Messages that continue the prompt's turn.
    continuations: HashSet<MessageId>,
}

impl Answers {
    /// Takes messages newest first. Returns true once the prompt itself is reached.
    fn note(&mut self, message: MessageWithParts, prompt: &MessageId) -> bool {
        match &message.info {
            Message::Assistant(answer) => {
                let key = (answer.parent_id.clone(), answer.summary == Some(true));
                self.answers.entry(key).or_insert(message);
                false
            }
            Message::User(user) => {
                if user.continues().as_ref() == Some(prompt) {
                    self.continuations.insert(user.id.clone());
                }
                user.id == *prompt
            }
        }
    }

    fn newest(mut self, prompt: &MessageId) -> Option<MessageWithParts> {
        self.continuations.insert(prompt.clone());
        let answers = self.answers.into_iter().filter(|((parent, _), _)| self.continuations.contains(parent));
        answers
            .max_by(|((_, left), one), ((_, right), other)| {
                right.cmp(left).then_with(|| one.info.order().cmp(&other.info.order()))
            })
            .map(|(_, answer)| answer)
    }
}
