//! Requests that outlive their turn: the server stopped while the turn waited for one answer and for nothing else.
//! They stay listed, and the answer resumes the turn.

use std::sync::Mutex;

use protocol::{
    EventBody, Message, MessageId, MessageWithParts,
    agent_event::Answer,
    event::PromptQueued,
    prompt::Delivery,
    request::{AnswerKind, AnsweredBy, Request, ToolRef},
};
use tokio::time::Instant;

use super::{actor::Actor, requests::resolution, turn::Resume};
use crate::{Error, RequestKind};

/// An open request whose turn has ended.
pub(super) struct Orphan {
    pub(super) request: Request,
    pub(super) deadline: Instant,
}

/// Returns the request that outlives its turn: the only open one, if a tool call of a root session waits for it. A
/// child's request does not, because its parent's turn is over.
pub(super) fn survivor<'a>(
    is_child: bool,
    mut requests: impl Iterator<Item = &'a Request>,
) -> Option<&'a Request> {
    let (first, second) = (requests.next(), requests.next());
    first.filter(|request| second.is_none() && !is_child && waiting_call(request).is_some())
}

fn waiting_call(request: &Request) -> Option<&ToolRef> {
    match request {
        Request::Permission(request) => request.tool.as_ref(),
        Request::Question(request) => request.tool.as_ref(),
    }
}

impl Actor {
    /// Takes over the session's requests that an earlier process left open. Requests of a live turn are never in the
    /// store at this point.
    pub(super) fn adopt_orphans(&mut self, open: Vec<Request>) {
        let deadline = Instant::now() + self.shared().limits.request;
        self.orphans = open.into_iter().map(|request| Orphan { request, deadline }).collect();
    }

    /// Withdraws all orphaned requests, because the session continues without them. The next flush stores the
    /// events.
    pub(super) fn withdraw_orphans(&mut self) {
        for orphan in std::mem::take(&mut self.orphans) {
            self.unsaved.push(Self::withdrawal(&orphan.request));
        }
    }

    pub(super) async fn withdraw_overdue_orphans(&mut self, now: Instant) {
        let overdue = |orphan: &mut Orphan| orphan.deadline <= now;
        for orphan in self.orphans.extract_if(.., overdue).collect::<Vec<_>>() {
            self.unsaved.extend(resolution(
                &orphan.request,
                &Answer::Withdrawn,
                Vec::new(),
                AnsweredBy::new(AnswerKind::Timeout),
            ));
        }
        self.flush().await;
    }

    /// Stores the answer together with a queue entry for the prompt to resume, and returns that prompt.
    pub(super) async fn answer_orphan(
        &mut self,
        kind: RequestKind,
        id: &str,
        answer: Answer,
        by: AnsweredBy,
    ) -> Result<Option<MessageId>, Error> {
        let missing = || Error::NoRequest { kind, id: id.to_owned() };
        let found = self.orphans.iter().position(|orphan| orphan.request.id() == id);
        let request = found.and_then(|at| self.orphans.get(at)).map(|orphan| orphan.request.clone());
        let request = request.ok_or_else(missing)?;
        let known = if answer == Answer::Always { self.approved().await? } else { Vec::new() };
        let saved = self.approvals(&request, &answer, &known);
        let replied = resolution(&request, &answer, saved, by).ok_or_else(missing)?;
        let prompt = self.asked_by(&request).await?;
        let resolved = match &prompt {
            Some(prompt) => self.resolve_stored(prompt).await?,
            None => None,
        };
        self.unsaved.push(replied);
        let again = prompt.zip(resolved);
        if let Some((prompt, _)) = &again {
            let (session_id, message_id) = (self.session.id.clone(), prompt.clone());
            let queued = PromptQueued::new(session_id, message_id, Delivery::Queue);
            self.unsaved.push(EventBody::PromptQueued(queued));
        }
        self.save(true).await?;
        self.orphans.retain(|orphan| orphan.request.id() != id);
        Ok(again.map(|(prompt, resolved)| {
            self.resolved.insert(prompt.clone(), resolved);
            self.resume = Some((prompt.clone(), Resume { request, answer: Mutex::new(Some(answer)) }));
            prompt
        }))
    }

    /// The prompt whose turn asked.
    async fn asked_by(&self, request: &Request) -> Result<Option<MessageId>, Error> {
        let Some(call) = waiting_call(request) else { return Ok(None) };
        let reads = &self.shared().reads;
        let answer = reads.message(&self.session.id, &call.message_id).await?;
        let Some(MessageWithParts { info: Message::Assistant(answer), .. }) = answer else { return Ok(None) };
        let asked = reads.message(&self.session.id, &answer.parent_id).await?;
        Ok(match asked.map(|asked| asked.info) {
            Some(Message::User(user)) => Some(user.continues().unwrap_or(user.id)),
            _ => None,
        })
    }
}
