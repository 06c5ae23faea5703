//! Permissions and questions: stored while they are open, and each with a deadline.

use std::{collections::BTreeMap, future::poll_fn, task::Poll};

use protocol::{
    EventBody, Extra, Millis, Rest,
    agent_event::{Answer, Ask},
    event::{PermissionAnswered, QuestionAnswered, QuestionDismissed},
    request::{
        AnswerKind, AnsweredBy, Approval, PermissionReply, PermissionRequest, QuestionRequest, Request, Rule,
        ToolRef,
    },
};
use tokio::{sync::oneshot, time::Instant};

use super::{actor::Actor, command::Command, orphans::survivor, turn::Settled};
use crate::{Error, RequestKind};

/// An open request and the runner that waits for its answer.
pub(super) struct Pending {
    request: Request,
    reply: oneshot::Sender<Answer>,
    /// Tells whether new approvals settle the request without an answer.
    settled: Settled,
    pub(super) deadline: Instant,
}

impl Pending {
    fn is_permission(&self) -> bool {
        matches!(self.request, Request::Permission(_))
    }

    /// The next request that its runner has dropped. An external agent may withdraw a request while it waits.
    pub(super) async fn dropped(requests: &mut BTreeMap<String, Self>) -> String {
        poll_fn(|context| {
            let mut is_closed = |it: &mut Self| it.reply.poll_closed(context).is_ready();
            let dropped = requests.iter_mut().find_map(|(id, it)| is_closed(it).then(|| id.clone()));
            dropped.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

impl Actor {
    pub(super) async fn show(
        &mut self,
        mut request: Request,
        settled: Settled,
        reply: oneshot::Sender<Answer>,
    ) {
        if self.life.is_stopping() {
            let _ = reply.send(Answer::Withdrawn);
            return;
        }
        let time = Millis::try_from(self.shared().limits.request.as_millis()).unwrap_or(Millis::MAX);
        request.set_deadline(self.shared().mint.now().saturating_add(time));
        self.unsaved.push(match &request {
            Request::Permission(request) => EventBody::PermissionAsked(request.clone()),
            Request::Question(request) => EventBody::QuestionAsked(request.clone()),
        });
        self.flush().await;
        let deadline = Instant::now() + self.shared().limits.request;
        self.requests.insert(request.id().to_owned(), Pending { request, reply, settled, deadline });
    }

    /// Creates a request with an id and its place in the session.
    pub(super) fn request(&self, ask: Ask) -> Request {
        let message = self.run.as_ref().and_then(|run| run.transcript.message_id());
        let tool = |call: Option<String>| Some(ToolRef::new(message?.clone(), call?));
        let (session_id, root_id, mint) = (self.session.id.clone(), self.root.clone(), &self.shared().mint);
        match ask {
            Ask::Permission { permission, patterns, metadata, always, call } => {
                Request::Permission(PermissionRequest {
                    id: mint.id(),
                    session_id,
                    root_id,
                    permission,
                    patterns,
                    metadata,
                    always,
                    tool: tool(call),
                    deadline: None,
                    extra: Extra::new(),
                })
            }
            Ask::Question { questions, call } => Request::Question(QuestionRequest {
                id: mint.id(),
                session_id,
                root_id,
                questions,
                tool: tool(call),
                deadline: None,
                extra: Extra::new(),
            }),
        }
    }

    /// Stores a client's answer before acknowledging it and before the runner receives it, together with the
    /// approvals it creates and the other requests it settles.
    pub(super) async fn answer_request(
        &mut self,
        kind: RequestKind,
        id: &str,
        answer: Answer,
        by: AnsweredBy,
    ) -> Result<(), Error> {
        let missing = || Error::NoRequest { kind, id: id.to_owned() };
        let request = self.requests.get(id).map(|pending| pending.request.clone()).ok_or_else(missing)?;
        let known = if answer == Answer::Always { self.approved().await? } else { Vec::new() };
        let saved = self.approvals(&request, &answer, &known);
        let rules: Vec<Rule> = known.into_iter().chain(saved.iter().map(Approval::rule)).collect();
        let along = self.settled_along(id, &request, &answer, &rules);
        self.unsaved.push(resolution(&request, &answer, saved, by.clone()).ok_or_else(missing)?);
        self.resolve(&along, &by);
        self.save(true).await?;
        let is_always = answer == Answer::Always;
        self.hand_out([(id.to_owned(), answer)].into_iter().chain(along));
        if is_always {
            self.tell_family().await;
        }
        Ok(())
    }

    /// The approvals of this workspace, as rules.
    pub(super) async fn approved(&self) -> Result<Vec<Rule>, Error> {
        let approvals = self.shared().reads.approvals(Some(&self.place.workspace)).await?;
        Ok(approvals.iter().map(Approval::rule).collect())
    }

    /// The approvals that an answer adds to the known ones.
    pub(super) fn approvals(&self, request: &Request, answer: &Answer, known: &[Rule]) -> Vec<Approval> {
        let (Request::Permission(request), Answer::Always | Answer::Default(PermissionReply::Always)) =
            (request, answer)
        else {
            return Vec::new();
        };
        let mint = &self.shared().mint;
        let approval = |pattern: &String| Approval {
            id: mint.id(),
            project_id: self.session.project_id.clone(),
            directory: self.session.directory.clone(),
            permission: request.permission.clone(),
            pattern: pattern.clone(),
            extra: Rest::NONE,
        };
        request.always.iter().map(approval).filter(|it| !known.contains(&it.rule())).collect()
    }

    /// The other requests of this session that an answer settles: a rejection rejects every open permission, and
    /// new approvals may settle other permissions.
    fn settled_along(
        &self,
        id: &str,
        request: &Request,
        answer: &Answer,
        rules: &[Rule],
    ) -> Vec<(String, Answer)> {
        let others =
            || self.requests.iter().filter(|(other, pending)| *other != id && pending.is_permission());
        match (request, answer) {
            (Request::Permission(_), Answer::Rejected { .. }) => {
                others().map(|(other, _)| (other.clone(), Answer::Rejected { message: None })).collect()
            }
            (Request::Permission(_), Answer::Always) => others()
                .filter(|(_, pending)| pending.settled.by(rules))
                .map(|(other, _)| (other.clone(), Answer::Always))
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Queues the events of answers that follow from another answer.
    fn resolve(&mut self, answers: &[(String, Answer)], by: &AnsweredBy) {
        for (id, answer) in answers {
            let event = self.requests.get(id);
            let event = event.and_then(|it| resolution(&it.request, answer, Vec::new(), by.clone()));
            self.unsaved.extend(event);
        }
    }

    fn hand_out(&mut self, answers: impl IntoIterator<Item = (String, Answer)>) {
        for (id, answer) in answers {
            if let Some(pending) = self.requests.remove(&id) {
                let _ = pending.reply.send(answer);
            }
        }
    }

    /// Tells the other sessions of the same family to check whether the new approvals settle their requests.
    async fn tell_family(&self) {
        let root = self.root.as_ref().unwrap_or(&self.session.id);
        // A session that is not notified just keeps waiting for its answer.
        let Ok(waiting) = self.shared().reads.requests(None).await else { return };
        let mut told = vec![self.session.id.clone()];
        for request in waiting.iter().filter(|it| it.root_id() == root) {
            if !told.contains(request.session_id()) {
                told.push(request.session_id().clone());
                let _ = self.sessions.send(request.session_id(), Command::Reconsider);
            }
        }
    }

    /// Answers permissions that approvals settle by now.
    pub(super) async fn reconsider(&mut self) {
        let Ok(rules) = self.approved().await else { return };
        let settled = |pending: &Pending| pending.is_permission() && pending.settled.by(&rules);
        let answers: Vec<(String, Answer)> = self
            .requests
            .iter()
            .filter(|(_, pending)| settled(pending))
            .map(|(id, _)| (id.clone(), Answer::Always))
            .collect();
        self.resolve(&answers, &AnsweredBy::new(AnswerKind::Approval));
        self.flush().await;
        if self.broken.is_none() {
            self.hand_out(answers);
        }
    }

    /// Withdraws every request; the next flush stores the events. At a shutdown, a request stays in the store if it
    /// is the only thing that the turn waits for.
    pub(super) fn withdraw_all(&mut self) {
        let requests = std::mem::take(&mut self.requests);
        let ends = !self.life.is_closed() || self.root.is_some() || self.life.waiting() > 0;
        let kept = survivor(ends, requests.values().map(|it| &it.request)).map(|it| it.id().to_owned());
        for (id, pending) in requests {
            if kept.as_ref() != Some(&id) {
                self.unsaved.push(Self::withdrawal(&pending.request));
            }
            let _ = pending.reply.send(Answer::Withdrawn);
        }
    }

    /// Withdraws a request that no runner waits for any more.
    pub(super) async fn withdraw(&mut self, id: &str) {
        if let Some(pending) = self.requests.remove(id) {
            self.unsaved.push(Self::withdrawal(&pending.request));
            self.flush().await;
        }
    }

    /// Ends overdue requests with the configured default reply, or withdraws them.
    pub(super) async fn withdraw_overdue(&mut self, now: Instant) {
        let overdue = self.requests.iter().filter(|(_, pending)| pending.deadline <= now);
        let overdue: Vec<String> = overdue.map(|(id, _)| id.clone()).collect();
        for id in overdue {
            let Some(pending) = self.requests.remove(&id) else { continue };
            let answer = match (&pending.request, self.shared().limits.request_reply) {
                (Request::Permission(_), Some(reply)) => Answer::Default(reply),
                _ => Answer::Withdrawn,
            };
            let saved = self.approvals(&pending.request, &answer, &[]);
            let by = AnsweredBy::new(AnswerKind::Timeout);
            self.unsaved.extend(resolution(&pending.request, &answer, saved, by));
            self.flush().await;
            if self.broken.is_some() {
                return;
            }
            let _ = pending.reply.send(answer);
        }
    }

    /// The event that tells clients that the server withdrew a request.
    pub(super) fn withdrawal(request: &Request) -> EventBody {
        refusal(request, AnsweredBy::new(AnswerKind::Server))
    }
}

/// The event for a request's answer; `None` if the answer does not fit the request.
pub(super) fn resolution(
    request: &Request,
    answer: &Answer,
    saved: Vec<Approval>,
    by: AnsweredBy,
) -> Option<EventBody> {
    Some(match (request, answer) {
        (_, Answer::Rejected { .. }) => refusal(request, by),
        (Request::Permission(it), Answer::Once) => replied(it, PermissionReply::Once, None, saved, by),
        (Request::Permission(it), Answer::Always) => replied(it, PermissionReply::Always, None, saved, by),
        (Request::Permission(it), Answer::Default(reply)) => replied(it, *reply, Some(true), saved, by),
        (Request::Permission(it), Answer::Withdrawn) => {
            replied(it, PermissionReply::Reject, Some(true), saved, by)
        }
        (Request::Question(it), Answer::Withdrawn) => dismissed(it, Some(true), by),
        (Request::Question(it), Answer::Answers(answers)) => {
            let (session_id, request_id) = (it.session_id.clone(), it.id.clone());
            let answers = answers.clone();
            EventBody::QuestionReplied(QuestionAnswered::new(session_id, request_id, answers, Some(by)))
        }
        _ => return None,
    })
}

/// The event for a request that is refused or withdrawn.
fn refusal(request: &Request, by: AnsweredBy) -> EventBody {
    match request {
        Request::Permission(it) => replied(it, PermissionReply::Reject, None, Vec::new(), by),
        Request::Question(it) => dismissed(it, None, by),
    }
}

fn replied(
    request: &PermissionRequest,
    reply: PermissionReply,
    unanswered: Option<bool>,
    saved: Vec<Approval>,
    by: AnsweredBy,
) -> EventBody {
    let (session_id, request_id) = (request.session_id.clone(), request.id.clone());
    let answered = PermissionAnswered::new(session_id, request_id, reply, unanswered, saved, Some(by));
    EventBody::PermissionReplied(answered)
}

fn dismissed(request: &QuestionRequest, unanswered: Option<bool>, by: AnsweredBy) -> EventBody {
    let (session_id, request_id) = (request.session_id.clone(), request.id.clone());
    EventBody::QuestionRejected(QuestionDismissed::new(session_id, request_id, unanswered, Some(by)))
}
