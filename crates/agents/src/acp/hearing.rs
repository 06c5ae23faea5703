//! Listening to an agent for one turn: what it says is told, and what it asks is answered.

use std::time::Duration;

use agent_client_protocol_schema::v1::{
    AgentRequest, ClientResponse, CreateElicitationRequest, RequestPermissionRequest, SessionUpdate,
};
use engine::session::Turn;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use protocol::message::Finish;
use protocol::session::Tokens;
use protocol::{AgentEvent, MessageError, TurnEnd};
use serde_json::Value;
use tokio::time::Instant;

use super::conversation::complaint;
use super::desk::{Decided, Desk};
use super::link::Link;
use super::matter::Matter;
use super::options::Options;
use super::translate::{Activity, Translation, says};
use super::wire::{self, Answered, Notice, Update};
use super::{limits, outgoing, question};
use crate::jsonrpc::{Asked, Error, Fault, INTERNAL_ERROR, Incoming};

/// What is to become of the program after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum After {
    Keep,
    Stop,
}

/// Something that was asked of us, and what came of it.
pub(super) struct Errand {
    asked: Asked,
    answer: Result<ClientResponse, Fault>,
    refused: bool,
}

/// Whoever listens.
pub(super) struct Hearing<'a> {
    options: &'a Options,
    turn: &'a Turn,
    translation: &'a mut Translation,
    desk: &'a Desk<'a>,
    /// What is being done for the agent.
    pub(super) errands: FuturesUnordered<BoxFuture<'a, Errand>>,
    /// Whether the agent has said that it has nothing more to do.
    pub(super) idle: bool,
    last: Instant,
}

impl<'a> Hearing<'a> {
    pub(super) fn new(
        options: &'a Options,
        turn: &'a Turn,
        translation: &'a mut Translation,
        desk: &'a Desk<'a>,
    ) -> Self {
        let (errands, last) = (FuturesUnordered::new(), Instant::now());
        Self { options, turn, translation, desk, errands, idle: false, last }
    }

    /// Takes in something that was said.
    pub(super) async fn hear(&mut self, incoming: Incoming, session: &str) {
        self.last = Instant::now();
        match incoming {
            Incoming::Told { method, params } if method == "session/update" => {
                match Notice::read(params) {
                    // A subagent's session is its own affair.
                    Ok(notice) if *notice.session.0 == *session => self.update(notice.update).await,
                    Ok(_) => {}
                    Err(error) => tracing::debug!(%error, "an update of an agent was not understood"),
                }
            }
            Incoming::Told { .. } => {}
            Incoming::Asked(asked) => self.asked(asked).await,
            Incoming::Malformed(what) => tracing::debug!(?what, "an agent said something unreadable"),
        }
    }

    async fn update(&mut self, update: Update) {
        match says(&update) {
            Some(Activity::Idle) => self.idle = true,
            Some(Activity::Working) => self.idle = false,
            None => {}
        }
        if let Update::Session(said) = &update
            && matches!(**said, SessionUpdate::ToolCall(_) | SessionUpdate::ToolCallUpdate(_))
        {
            self.translation.written(self.desk.terminals.outputs());
        }
        let events = self.translation.update(update, self.options.clock.now());
        tell(self.turn, events).await;
    }

    async fn asked(&mut self, mut asked: Asked) {
        if self.errands.len() >= limits::ERRANDS {
            let message = format!("{} requests wait already", limits::ERRANDS);
            return asked.answer(Err(Fault::new(INTERNAL_ERROR, message)));
        }
        let params = asked.params.take();
        let order = question::order(&params);
        match wire::asked(&asked.method, params) {
            Ok(AgentRequest::RequestPermissionRequest(request)) => self.permission(asked, request).await,
            Ok(AgentRequest::CreateElicitationRequest(form)) => self.question(asked, form, order),
            Ok(request) => {
                let desk = self.desk;
                self.errands.push(Box::pin(async move {
                    let answer = desk.serve(request).await;
                    Errand { asked, answer, refused: false }
                }));
            }
            Err(fault) => asked.answer(Err(fault)),
        }
    }

    async fn permission(&mut self, asked: Asked, request: RequestPermissionRequest) {
        let call = request.tool_call.tool_call_id.to_string();
        self.translation.written(self.desk.terminals.outputs());
        let events = self.translation.call(request.tool_call);
        tell(self.turn, events).await;
        let matter = self.translation.known(&call).map_or_else(
            || Matter::Other { tool: "tool".to_owned(), title: String::new(), input: protocol::Extra::new() },
            Matter::of,
        );
        let desk = self.desk;
        self.errands.push(Box::pin(async move {
            let Decided { answer, refused } = desk.decide(&call, matter, &request.options).await;
            Errand { asked, answer: Ok(answer), refused }
        }));
    }

    fn question(&mut self, asked: Asked, form: CreateElicitationRequest, order: Vec<String>) {
        let desk = self.desk;
        self.errands.push(Box::pin(async move {
            let Decided { answer, refused } = desk.question(&form, &order).await;
            Errand { asked, answer: Ok(answer), refused }
        }));
    }

    /// Answers what was asked.
    pub(super) fn settle(&mut self, errand: Errand) {
        self.last = Instant::now();
        if errand.refused {
            self.translation.refuse();
        }
        errand.asked.answer(errand.answer.map(|answer| outgoing::value(&answer)));
    }

    /// When nothing will have been heard for so long. Somebody who waits for us cannot say anything.
    pub(super) fn quiet(&self, patience: Duration) -> Instant {
        let since = if self.errands.is_empty() { self.last } else { Instant::now() };
        since + patience
    }

    /// Whether there is something that the agent has begun and not ended.
    pub(super) fn is_working(&self) -> bool {
        !self.errands.is_empty() || self.translation.is_acting()
    }

    /// The program says nothing.
    pub(super) fn hung(&self) -> (TurnEnd, After) {
        let (id, silence) = (self.options.id(), self.options.patience.silence);
        let message = format!("{id} said nothing for {silence:?}, so it was ended");
        (TurnEnd::Error(MessageError::unknown(message)), After::Stop)
    }

    /// The prompt was answered, or will not be.
    pub(super) async fn end(
        &mut self,
        answer: Result<Value, Error>,
        stopped: bool,
        link: &mut Link,
    ) -> (TurnEnd, After) {
        let answered = match answer {
            Ok(answer) => Answered::read(answer),
            // An agent whose model failed can be asked again; one that did not understand may not have what it needs.
            Err(error) => {
                let after = match &error {
                    Error::Refused { fault, .. } if fault.code == INTERNAL_ERROR => After::Keep,
                    _ => After::Stop,
                };
                let end = if stopped {
                    TurnEnd::Cancelled
                } else {
                    TurnEnd::Error(complaint(link, &error, self.options, &[]).await)
                };
                return (end, after);
            }
        };
        match answered {
            // Whoever stopped the turn decides what becomes of what is open.
            Ok(_) if stopped => (TurnEnd::Cancelled, After::Keep),
            Ok(answered) => {
                let (events, end) = self.translation.answered(&answered);
                tell(self.turn, events).await;
                (end, After::Keep)
            }
            Err(error) => {
                let message = format!("{} gave no sensible answer to a prompt: {error}", self.options.id());
                (TurnEnd::Error(MessageError::unknown(message)), After::Stop)
            }
        }
    }

    /// The agent has done what it began by itself.
    pub(super) async fn finish(&mut self) {
        let events = self.translation.finish(Finish::Stop, Tokens::default(), None);
        tell(self.turn, events).await;
    }
}

/// The program is gone.
pub(super) async fn broke(link: &mut Link, stopped: bool) -> (TurnEnd, After) {
    let how = link.failure().await;
    let end = if stopped { TurnEnd::Cancelled } else { TurnEnd::Error(MessageError::unknown(how)) };
    (end, After::Stop)
}

async fn tell(turn: &Turn, events: Vec<AgentEvent>) {
    for event in events {
        turn.emit(event).await;
    }
}
