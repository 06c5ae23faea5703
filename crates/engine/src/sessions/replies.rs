//! Answers of clients to permissions and questions.

use protocol::{
    PermissionId, QuestionId,
    agent_event::Answer,
    request::{AnsweredBy, Answers, PermissionReply, Request},
};

use super::Sessions;
use crate::{Error, RequestKind, session::Command};

/// The answers of one client.
#[derive(Debug)]
pub struct Replies<'a> {
    pub(super) sessions: &'a Sessions,
    /// The name that the client gave itself.
    pub(super) client: Option<String>,
}

impl Replies<'_> {
    pub async fn permission(
        self,
        id: &PermissionId,
        reply: PermissionReply,
        message: Option<String>,
    ) -> Result<(), Error> {
        let answer = match reply {
            PermissionReply::Once => Answer::Once,
            PermissionReply::Always => Answer::Always,
            PermissionReply::Reject => Answer::Rejected { message },
        };
        self.reply(RequestKind::Permission, id.as_str(), answer).await
    }

    pub async fn question(self, id: &QuestionId, answers: Answers) -> Result<(), Error> {
        self.reply(RequestKind::Question, id.as_str(), Answer::Answers(answers)).await
    }

    /// Dismisses a question.
    pub async fn dismiss(self, id: &QuestionId) -> Result<(), Error> {
        self.reply(RequestKind::Question, id.as_str(), Answer::Rejected { message: None }).await
    }

    async fn reply(self, kind: RequestKind, id: &str, answer: Answer) -> Result<(), Error> {
        let requests = self.sessions.shared.reads.requests(None).await?;
        let session = requests
            .iter()
            .find(|request| request.id() == id)
            .map(Request::session_id)
            .ok_or_else(|| Error::NoRequest { kind, id: id.to_owned() })?;
        let (id, by) = (id.to_owned(), AnsweredBy::client(self.client));
        self.sessions.ask(session, |reply| Command::Reply { kind, id, answer, by, reply }).await?
    }
}
