//! Permissions and questions: durable while they wait, and never waiting for ever.

use protocol::{
    EventBody, Extra,
    agent_event::{Answer, Ask},
    event::{PermissionAnswered, QuestionAnswered},
    request::{PermissionReply, PermissionRequest, QuestionRequest, Request, ToolRef},
};
use tokio::{sync::oneshot, time::Instant};

use super::actor::Actor;
use crate::Error;

/// A request that waits for a person.
pub(super) struct Pending {
    request: Request,
    reply: oneshot::Sender<Answer>,
    pub(super) deadline: Instant,
}

impl Actor {
    pub(super) async fn ask_person(&mut self, ask: Ask, reply: oneshot::Sender<Answer>) {
        if self.life.is_stopping() {
            let _ = reply.send(Answer::Withdrawn);
            return;
        }
        let request = self.request(ask);
        self.unsaved.push(match &request {
            Request::Permission(request) => EventBody::PermissionAsked(request.clone()),
            Request::Question(request) => EventBody::QuestionAsked(request.clone()),
        });
        self.flush().await;
        let deadline = Instant::now() + self.shared().limits.request;
        self.requests.insert(request.id().to_owned(), Pending { request, reply, deadline });
    }

    fn request(&self, ask: Ask) -> Request {
        let message = self.run.as_ref().and_then(|run| run.transcript.message_id());
        let tool = |call: Option<String>| Some(ToolRef::new(message?.clone(), call?));
        let (session_id, mint) = (self.session.id.clone(), &self.shared().mint);
        match ask {
            Ask::Permission { permission, patterns, metadata, always, call } => {
                Request::Permission(PermissionRequest {
                    id: mint.id(),
                    session_id,
                    permission,
                    patterns,
                    metadata,
                    always,
                    tool: tool(call),
                    extra: Extra::new(),
                })
            }
            Ask::Question { questions, call } => Request::Question(QuestionRequest {
                id: mint.id(),
                session_id,
                questions,
                tool: tool(call),
                extra: Extra::new(),
            }),
        }
    }

    /// A person's answer: stored for good before it is acknowledged and before the runner hears it.
    pub(super) async fn answer_request(
        &mut self,
        kind: &'static str,
        id: &str,
        answer: Answer,
    ) -> Result<(), Error> {
        let missing = || Error::NoRequest { kind, id: id.to_owned() };
        let pending = self.requests.get(id).ok_or_else(missing)?;
        self.unsaved.push(resolution(&pending.request, &answer).ok_or_else(missing)?);
        self.save(true).await?;
        if let Some(pending) = self.requests.remove(id) {
            let _ = pending.reply.send(answer);
        }
        Ok(())
    }

    /// Withdraws every request; the events wait for the next flush.
    pub(super) fn withdraw_all(&mut self) {
        for pending in std::mem::take(&mut self.requests).into_values() {
            self.unsaved.push(Self::withdrawal(&pending.request));
            let _ = pending.reply.send(Answer::Withdrawn);
        }
    }

    pub(super) async fn withdraw_overdue(&mut self, now: Instant) {
        let overdue: Vec<String> = self
            .requests
            .iter()
            .filter(|(_, pending)| pending.deadline <= now)
            .map(|(id, _)| id.clone())
            .collect();
        for id in overdue {
            if let Some(pending) = self.requests.remove(&id) {
                self.unsaved.push(Self::withdrawal(&pending.request));
                self.flush().await;
                let _ = pending.reply.send(Answer::Withdrawn);
            }
        }
    }
}

/// The event for an answer, if the answer fits the request.
fn resolution(request: &Request, answer: &Answer) -> Option<EventBody> {
    match (request, answer) {
        (Request::Permission(_) | Request::Question(_), Answer::Rejected { .. }) => {
            Some(Actor::withdrawal(request))
        }
        (Request::Permission(it), Answer::Once | Answer::Always) => {
            let reply = if *answer == Answer::Once { PermissionReply::Once } else { PermissionReply::Always };
            let (session_id, request_id) = (it.session_id.clone(), it.id.clone());
            let extra = Extra::new();
            Some(EventBody::PermissionReplied(PermissionAnswered { session_id, request_id, reply, extra }))
        }
        (Request::Question(it), Answer::Answers(answers)) => {
            let (session_id, request_id) = (it.session_id.clone(), it.id.clone());
            let (answers, extra) = (answers.clone(), Extra::new());
            Some(EventBody::QuestionReplied(QuestionAnswered { session_id, request_id, answers, extra }))
        }
        _ => None,
    }
}
