//! Calls of OpenCode's API about sessions.

use std::collections::BTreeMap;

use protocol::{
    MessageId, MessageWithParts, Millis, PermissionId, QuestionId, Rest, Session, SessionId, SessionStatus,
    Todo,
    config::Health,
    continuation::{ContinuationAction, ContinuationInput},
    family::Family,
    found::FoundMessage,
    prompt::{CommandInput, ForkInput, PromptInput, SeenInput, SessionInput},
    queue::{QueuePatch, QueuedPrompt},
    request::{
        Answers, PermissionReply, PermissionReplyInput, PermissionRequest, QuestionReplyInput,
        QuestionRequest,
    },
    turn::LastTurn,
};
use reqwest::Method;

use crate::{
    CALL_TIMEOUT, Client, Error,
    connection::{answer, done},
};

impl Client {
    /// Checks that the server runs, and returns its version.
    pub async fn health(&self) -> Result<Health, Error> {
        self.get(&["global", "health"]).await
    }

    /// Sessions of the directory's project, most recently changed first.
    pub async fn sessions(&self) -> Result<Vec<Session>, Error> {
        self.get(&["session"]).await
    }

    /// Sessions of the client's directory, or of all directories if it has none, most recently updated first: at most
    /// `limit` that were updated before a time, archived ones included, children left out.
    pub async fn sessions_before(&self, before: Option<Millis>, limit: usize) -> Result<Vec<Session>, Error> {
        let limit = limit.to_string();
        let mut query = vec![("roots", "true".to_owned()), ("archived", "true".to_owned()), ("limit", limit)];
        query.extend(before.map(|before| ("cursor", before.to_string())));
        let request = self.request_with(Method::GET, &["experimental", "session"], &query);
        answer(request.timeout(CALL_TIMEOUT)).await
    }

    /// Creates a session.
    pub async fn create_session(&self, input: &SessionInput) -> Result<Session, Error> {
        self.post(&["session"], input).await
    }

    pub async fn session(&self, id: &SessionId) -> Result<Session, Error> {
        self.get(&["session", id.as_str()]).await
    }

    /// Deletes a session and its children.
    pub async fn delete_session(&self, id: &SessionId) -> Result<(), Error> {
        done(self.request(Method::DELETE, &["session", id.as_str()]).timeout(CALL_TIMEOUT)).await
    }

    /// Copies a session, up to but without `before` if it is given.
    pub async fn fork_session(&self, id: &SessionId, before: Option<MessageId>) -> Result<Session, Error> {
        let input = ForkInput { message_id: before, extra: Rest::NONE };
        self.post(&["session", id.as_str(), "fork"], &input).await
    }

    /// Sessions of this session's subagents.
    pub async fn children(&self, id: &SessionId) -> Result<Vec<Session>, Error> {
        self.get(&["session", id.as_str(), "children"]).await
    }

    /// The todo list of a session.
    pub async fn todos(&self, id: &SessionId) -> Result<Vec<Todo>, Error> {
        self.get(&["session", id.as_str(), "todo"]).await
    }

    /// All messages with their parts, oldest first.
    pub async fn messages(&self, id: &SessionId) -> Result<Vec<MessageWithParts>, Error> {
        self.get(&["session", id.as_str(), "message"]).await
    }

    /// One message with its parts.
    pub async fn message(&self, id: &SessionId, message: &MessageId) -> Result<MessageWithParts, Error> {
        self.get(&["session", id.as_str(), "message", message.as_str()]).await
    }

    /// The newest prompt that a user wrote, and its turn.
    pub async fn last_turn(&self, id: &SessionId) -> Result<LastTurn, Error> {
        self.get(&["session", id.as_str(), "turn"]).await
    }

    /// Stops a session from continuing by itself until the user sends a new prompt, or allows it again.
    pub async fn continuation(&self, id: &SessionId, action: ContinuationAction) -> Result<Session, Error> {
        let input = ContinuationInput { action, extra: Rest::NONE };
        self.post(&["session", id.as_str(), "continuation"], &input).await
    }

    /// Marks a session as seen up to an event of the stream; a lower cursor marks it as unread.
    pub async fn mark_seen(&self, id: &SessionId, cursor: u64) -> Result<(), Error> {
        let input = SeenInput { cursor, extra: Rest::NONE };
        let request = self.request(Method::PUT, &["session", id.as_str(), "seen"]);
        done(request.json(&input).timeout(CALL_TIMEOUT)).await
    }

    /// The whole family of a session: its root and all sessions below, with statuses and totals.
    pub async fn family(&self, id: &SessionId) -> Result<Family, Error> {
        self.get(&["session", id.as_str(), "family"]).await
    }

    /// Texts of all sessions in which every word of the query begins a word, newest first.
    pub async fn find_messages(&self, query: &str, limit: usize) -> Result<Vec<FoundMessage>, Error> {
        let query = [("query", query.to_owned()), ("limit", limit.to_string())];
        answer(self.request_with(Method::GET, &["find", "message"], &query).timeout(CALL_TIMEOUT)).await
    }

    /// Statuses of all sessions that are not idle.
    pub async fn statuses(&self) -> Result<BTreeMap<SessionId, SessionStatus>, Error> {
        self.get(&["session", "status"]).await
    }

    /// Sends a prompt and waits until its turn is over, without a timeout. Returns the last message of the answer.
    /// Dropping the future does not stop the turn; [`Client::abort`] does.
    pub async fn prompt(&self, id: &SessionId, prompt: &PromptInput) -> Result<MessageWithParts, Error> {
        answer(self.request(Method::POST, &["session", id.as_str(), "message"]).json(prompt)).await
    }

    /// Sends a prompt and returns as soon as the server has it; the answer comes as events.
    pub async fn prompt_async(&self, id: &SessionId, prompt: &PromptInput) -> Result<(), Error> {
        let request = self.request(Method::POST, &["session", id.as_str(), "prompt_async"]);
        done(request.json(prompt).timeout(CALL_TIMEOUT)).await
    }

    /// The waiting prompts of a session, in the order in which turns take them up.
    pub async fn queue(&self, id: &SessionId) -> Result<Vec<QueuedPrompt>, Error> {
        self.get(&["session", id.as_str(), "queue"]).await
    }

    /// Changes the content, delivery or position of a waiting prompt. Refused with 409 once a turn has taken it up.
    pub async fn requeue(
        &self,
        id: &SessionId,
        prompt: &MessageId,
        patch: &QueuePatch,
    ) -> Result<QueuedPrompt, Error> {
        let path = ["session", id.as_str(), "queue", prompt.as_str()];
        answer(self.request(Method::PATCH, &path).json(patch).timeout(CALL_TIMEOUT)).await
    }

    /// Ends a waiting prompt without running it, and returns its content. Refused with 409 once a turn has taken it up.
    pub async fn withdraw(&self, id: &SessionId, prompt: &MessageId) -> Result<QueuedPrompt, Error> {
        let path = ["session", id.as_str(), "queue", prompt.as_str()];
        answer(self.request(Method::DELETE, &path).timeout(CALL_TIMEOUT)).await
    }

    /// Runs a slash command and waits until its turn is over, without a timeout. Returns the last message of the
    /// answer.
    pub async fn command(&self, id: &SessionId, command: &CommandInput) -> Result<MessageWithParts, Error> {
        answer(self.request(Method::POST, &["session", id.as_str(), "command"]).json(command)).await
    }

    /// Aborts the running turn.
    pub async fn abort(&self, id: &SessionId) -> Result<(), Error> {
        done(self.request(Method::POST, &["session", id.as_str(), "abort"]).timeout(CALL_TIMEOUT)).await
    }

    /// Open permission requests of this directory.
    pub async fn permissions(&self) -> Result<Vec<PermissionRequest>, Error> {
        self.get(&["permission"]).await
    }

    /// Answers a permission request; a rejection may contain instructions.
    pub async fn reply_permission(
        &self,
        id: &PermissionId,
        reply: PermissionReply,
        message: Option<String>,
    ) -> Result<(), Error> {
        let input = PermissionReplyInput { reply, message, extra: Rest::NONE };
        let request = self.request(Method::POST, &["permission", id.as_str(), "reply"]);
        done(request.json(&input).timeout(CALL_TIMEOUT)).await
    }

    /// Open questions of this directory.
    pub async fn questions(&self) -> Result<Vec<QuestionRequest>, Error> {
        self.get(&["question"]).await
    }

    /// Answers a question.
    pub async fn reply_question(&self, id: &QuestionId, answers: Answers) -> Result<(), Error> {
        let input = QuestionReplyInput { answers, extra: Rest::NONE };
        let request = self.request(Method::POST, &["question", id.as_str(), "reply"]);
        done(request.json(&input).timeout(CALL_TIMEOUT)).await
    }

    /// Dismisses a question.
    pub async fn reject_question(&self, id: &QuestionId) -> Result<(), Error> {
        done(self.request(Method::POST, &["question", id.as_str(), "reject"]).timeout(CALL_TIMEOUT)).await
    }
}
