//! One turn of an agent.
//!
//! The answer to `session/prompt` ends a turn, and so does the end of the process. Work that an agent begins by itself
//! has no such answer: it ends when the agent reports it with an extension, when the user sends a prompt, or after
//! [`limits::QUIET`] without a message.

use std::sync::Arc;

use agent_client_protocol_schema::v1::{
    AgentRequest, ClientResponse, CreateElicitationRequest, RequestPermissionRequest, SessionUpdate,
};
use engine::session::Turn;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use protocol::agent_event::Answer;
use protocol::message::Finish;
use protocol::session::Tokens;
use protocol::{AgentEvent, MessageWithParts, Millis, TurnEnd};
use serde_json::Value;

use super::conversation::{Conversation, complaint};
use super::host::{Decided, Host};
use super::subject::PermissionSubject;
use super::translate::{Activity, Translation, says};
use super::wire::{self, Answered, Notice, Update};
use super::{limits, outgoing, prompt, question};
use crate::external::{Broken, Condition, Joining, Phase, Process, Signal};
use crate::jsonrpc::{Asked, Error, ErrorObject, INTERNAL_ERROR, Incoming};

/// Requests of an agent are served by the [`Host`], so none of them reaches the driver.
type Request = std::convert::Infallible;

type Signals = Vec<Signal<Request>>;

/// A message of the agent, or the result of a call.
#[derive(Debug)]
pub struct Frame(Received);

#[derive(Debug)]
enum Received {
    Incoming(Incoming),
    /// A request of the agent was served.
    Served(Box<Served>),
    /// The prompt was answered.
    Answered(Result<Value, Error>),
    /// The cancellation was sent; false if that failed.
    Cancelled(bool),
}

/// A request of the agent with its answer.
#[derive(Debug)]
struct Served {
    asked: Asked,
    answer: Result<ClientResponse, ErrorObject>,
    refused: bool,
}

/// The state of the current turn.
#[derive(Debug, Default)]
pub(super) struct Progress {
    host: Option<Arc<Host>>,
    translation: Translation,
    /// The prompt, the cancellation, and the requests that are being served.
    calls: FuturesUnordered<BoxFuture<'static, Received>>,
    /// The number of requests that are being served.
    serving: usize,
    /// The answer to the prompt, until the messages that arrived before it are interpreted.
    answer: Option<Result<Value, Error>>,
    /// The agent has begun the turn by itself.
    is_woken: bool,
    is_interrupted: bool,
}

impl Conversation {
    /// Begins a turn, in which `host` serves the agent's requests.
    pub(super) fn begin(&mut self, host: Host) {
        let mut translation = Translation::new(self.note.cost);
        translation.begin();
        self.turn = Progress { host: Some(Arc::new(host)), translation, ..Progress::default() };
        self.is_stopped = false;
    }

    /// The attachments of a prompt that the agent cannot take, as a list.
    pub(super) fn unsupported(&self, prompt: &MessageWithParts) -> Option<String> {
        let (_, unsupported) = prompt::blocks(&prompt.parts, &self.able);
        (!unsupported.is_empty()).then(|| unsupported.join(", "))
    }

    fn update(&mut self, update: Update, now: Millis, out: &mut Signals) {
        let activity = says(&update);
        if let (Update::Session(said), Some(host)) = (&update, &self.turn.host)
            && matches!(**said, SessionUpdate::ToolCall(_) | SessionUpdate::ToolCallUpdate(_))
        {
            self.turn.translation.written(host.terminals.outputs());
        }
        emit(self.turn.translation.update(update, now), out);
        if self.turn.is_woken && activity == Some(Activity::Idle) {
            out.extend(self.conclude());
        }
    }

    /// Serves a request beside the turn. A request beyond the limit is refused.
    fn asked(&mut self, mut asked: Asked, out: &mut Signals) {
        let Some(host) = self.turn.host.clone() else { return };
        if self.turn.serving >= limits::REQUESTS {
            let message = format!("{} requests wait already", limits::REQUESTS);
            return asked.answer(Err(ErrorObject::new(INTERNAL_ERROR, message)));
        }
        let params = asked.params.take();
        let order = question::order(&params);
        match wire::asked(&asked.method, params) {
            Ok(AgentRequest::RequestPermissionRequest(request)) => self.permission(asked, request, host, out),
            Ok(AgentRequest::CreateElicitationRequest(form)) => self.question(asked, form, order, host),
            Ok(request) => self.serve(async move {
                let answer = host.serve(request).await;
                Served { asked, answer, refused: false }
            }),
            Err(fault) => asked.answer(Err(fault)),
        }
    }

    fn permission(
        &mut self,
        asked: Asked,
        request: RequestPermissionRequest,
        host: Arc<Host>,
        out: &mut Signals,
    ) {
        let call = request.tool_call.tool_call_id.to_string();
        self.turn.translation.written(host.terminals.outputs());
        emit(self.turn.translation.call(request.tool_call), out);
        let subject = self.turn.translation.known(&call).map_or_else(
            || PermissionSubject::Other {
                tool: "tool".to_owned(),
                title: String::new(),
                input: protocol::Extra::new(),
            },
            PermissionSubject::of,
        );
        self.serve(async move {
            let Decided { answer, refused } = host.decide(&call, subject, &request.options).await;
            Served { asked, answer: Ok(answer), refused }
        });
    }

    fn question(
        &mut self,
        asked: Asked,
        form: CreateElicitationRequest,
        order: Vec<String>,
        host: Arc<Host>,
    ) {
        self.serve(async move {
            let Decided { answer, refused } = host.question(&form, &order).await;
            Served { asked, answer: Ok(answer), refused }
        });
    }

    fn serve(&mut self, work: impl Future<Output = Served> + Send + 'static) {
        self.turn.serving += 1;
        self.turn.calls.push(work.map(|served| Received::Served(Box::new(served))).boxed());
    }

    fn served(&mut self, served: Served) {
        self.turn.serving = self.turn.serving.saturating_sub(1);
        if served.refused {
            self.turn.translation.refuse();
        }
        served.asked.answer(served.answer.map(|answer| outgoing::value(&answer)));
    }

    fn answered(&mut self, answer: Result<Value, Error>, out: &mut Signals) {
        let is_stopped = self.turn.is_interrupted;
        let answered = match answer {
            Ok(answer) => Answered::read(answer),
            Err(error) => {
                let message = complaint(&error, &self.options, &[]);
                // An agent whose model failed can be prompted again. An agent that did not understand the prompt may lack
                // something.
                let is_reusable =
                    matches!(&error, Error::Refused { fault, .. } if fault.code == INTERNAL_ERROR);
                let end = if is_stopped { TurnEnd::Cancelled } else { TurnEnd::Error(message.clone()) };
                let failed = Signal::Failed(Broken { error: message, is_gone: false });
                return out.push(if is_reusable { Signal::Ended(end) } else { failed });
            }
        };
        match answered {
            // The engine closes the parts that an aborted turn has left open.
            Ok(_) if is_stopped => out.push(Signal::Ended(TurnEnd::Cancelled)),
            Ok(answered) => {
                let (events, end) = self.turn.translation.answered(&answered);
                emit(events, out);
                out.push(Signal::Ended(end));
            }
            Err(error) => {
                let message = format!("{} gave an invalid answer to a prompt: {error}", self.options.id());
                out.push(Signal::Failed(Broken::refuses(message)));
            }
        }
    }
}

impl Process for Conversation {
    type Frame = Frame;
    type Request = Request;

    async fn next(&mut self) -> Result<Frame, Broken> {
        loop {
            if let Some(incoming) = self.unread.pop_front() {
                return Ok(Frame(Received::Incoming(incoming)));
            }
            match self.turn.answer.take() {
                Some(Err(Error::Ended { .. })) => return Err(self.lost().await),
                Some(answer) => return Ok(Frame(Received::Answered(answer))),
                None => {}
            }
            tokio::select! {
                biased;
                Some(received) = self.turn.calls.next() => match received {
                    // Messages that arrived before the answer belong to the turn.
                    Received::Answered(answer) => {
                        self.unread.extend(std::iter::from_fn(|| self.link.waiting()));
                        self.turn.answer = Some(answer);
                    }
                    received => return Ok(Frame(received)),
                },
                incoming = self.link.next() => match incoming {
                    Some(incoming) => return Ok(Frame(Received::Incoming(incoming))),
                    None => return Err(self.lost().await),
                },
            }
        }
    }

    fn interpret(&mut self, frame: Frame, now: Millis) -> Signals {
        let mut out = Vec::new();
        match frame.0 {
            Received::Incoming(Incoming::Told { method, params }) if method == "session/update" => {
                out.push(Signal::Working);
                match Notice::read(params) {
                    // The session of a subagent is not shown.
                    Ok(notice) if !self.concerns(&notice) => {}
                    Ok(notice) => self.update(notice.update, now, &mut out),
                    Err(error) => out.push(Signal::Noise(error.to_string())),
                }
            }
            Received::Incoming(Incoming::Asked(asked)) => self.asked(asked, &mut out),
            Received::Incoming(Incoming::Malformed(malformed)) => {
                out.push(Signal::Noise(malformed.to_string()));
            }
            Received::Served(served) => self.served(*served),
            Received::Answered(answer) => self.answered(answer, &mut out),
            // Nothing answers the cancellation of work that the agent began by itself.
            Received::Cancelled(true) if self.turn.is_woken => out.push(Signal::Ended(TurnEnd::Cancelled)),
            Received::Cancelled(_) | Received::Incoming(Incoming::Told { .. }) => {}
        }
        out
    }

    fn prompt(&mut self, _: &Turn, prompt: &MessageWithParts) {
        let (blocks, _) = prompt::blocks(&prompt.parts, &self.able);
        let request = outgoing::prompt(&self.note.session, blocks);
        let peer = self.link.peer().clone();
        let (method, params) = (request.method().to_owned(), outgoing::value(&request));
        let asking = async move { Received::Answered(peer.request(&method, params, limits::PROMPT).await) };
        self.turn.calls.push(asking.boxed());
    }

    fn take_up(&mut self, _: &Turn) -> bool {
        self.turn.is_woken = true;
        !self.unread.is_empty()
    }

    fn joining(&self) -> Joining {
        if self.turn.is_woken { Joining::Ends } else { Joining::Waits }
    }

    fn join(&mut self, _: &MessageWithParts) {}

    fn answer(&mut self, _: Option<&str>, request: Request, _: Answer) -> bool {
        match request {}
    }

    fn stop_child(&mut self, _: &str) {}

    fn interrupt(&mut self) -> bool {
        self.turn.is_interrupted = true;
        let notification = outgoing::cancel(&self.note.session);
        let (peer, deadline) = (self.link.peer().clone(), self.options.agent.timeouts.interrupt);
        let (method, params) = (notification.method().to_owned(), outgoing::value(&notification));
        let telling =
            async move { Received::Cancelled(peer.notify(&method, params, deadline).await.is_ok()) };
        self.turn.calls.push(telling.boxed());
        true
    }

    fn phase(&self) -> Phase {
        match () {
            () if self.turn.serving > 0 => Phase::Calling,
            () if self.turn.is_woken && !self.turn.translation.is_acting() => Phase::Listening(limits::QUIET),
            () => Phase::Working,
        }
    }

    fn conclude(&mut self) -> Signals {
        let mut out = Vec::new();
        emit(self.turn.translation.finish(Finish::Stop, Tokens::default(), None), &mut out);
        out.push(Signal::Ended(TurnEnd::Completed));
        out
    }

    fn note(&self) -> Option<String> {
        serde_json::to_string(&self.note).ok()
    }

    fn finish(&mut self) -> Condition {
        let turn = std::mem::take(&mut self.turn);
        self.note.cost = turn.translation.cost();
        self.is_stopped = turn.is_interrupted;
        // An agent that does not end its command when it is cancelled leaves it running.
        Condition::reusable(!(turn.is_interrupted && turn.translation.is_running_command()))
    }
}

fn emit(events: Vec<AgentEvent>, out: &mut Signals) {
    out.extend(events.into_iter().map(|event| Signal::Emit(None, event)));
}
