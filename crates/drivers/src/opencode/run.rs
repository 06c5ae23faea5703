//! The loop of one turn: sends the prompt and translates the events of OpenCode until the turn has ended.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{Client, EventStream};
use engine::session::Turn;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use net::chain;
use protocol::agent_event::Answer;
use protocol::request::{PermissionReply, PermissionRequest, QuestionRequest};
use protocol::{AgentEvent, EventBody, MessageError, MessageId, SessionId, TurnEnd};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::connection::SessionConnection;
use super::ending::Held;
use super::server::Lease;
use super::status_checks::StatusChecks;
use super::translate::{Child, Consequence, TASK_SESSION, Translator};
use super::{OpenCode, wire};
use crate::external::{Condition, Outcome, permission};

/// Time to follow the events of an aborted turn. It is shorter than the engine's grace period.
const ABORT: Duration = Duration::from_millis(500);
/// Capacity of the queue of events for a child.
const MAX_BEHIND: usize = 1_024;

/// The metadata field of a call that started a child, with the id of the parent session.
const TASK_PARENT: &str = "parentSessionId";

/// Continue, or break with the end of the turn.
pub(super) type Flow<T = ()> = ControlFlow<TurnEnd, T>;

/// Sends the prompt and follows the turn.
pub(super) async fn work(agent: &OpenCode, turn: &Turn, connection: &mut SessionConnection) -> Outcome {
    let SessionConnection { lease, client, session, stream } = connection;
    let Some(stream) = stream.take() else {
        return Outcome::failed("the connection to OpenCode has served a turn already");
    };
    let translator = Translator::new(session.clone());
    let source = Source::Stream(stream);
    let mut drive = TurnState::new(agent, turn, client.clone(), session.clone(), translator, source);
    let end = match drive.send(&turn.prompt).await {
        Flow::Continue(()) => drive.follow(Some(lease)).await,
        Flow::Break(end) => end,
    };
    let process = if drive.is_lost { Condition::Broken } else { Condition::Released };
    Outcome { end, process }
}

/// Follows the turn of a subagent.
pub(super) async fn follow_child(agent: &OpenCode, turn: &Turn, stream: ChildStream) -> TurnEnd {
    let ChildStream { session, events, client } = stream;
    let translator = Translator::of_child(session.clone());
    let mut drive = TurnState::new(agent, turn, client, session, translator, Source::Parent(events));
    drive.follow(None).await
}

/// The source of events.
enum Source {
    Stream(EventStream),
    /// The loop of the parent session, which passes on the events of its children.
    Parent(mpsc::Receiver<EventBody>),
}

impl Source {
    /// The next event. None for an invalid frame, and an error at the end of the stream.
    async fn next(&mut self) -> Result<Option<EventBody>, String> {
        match self {
            Self::Parent(events) => events.recv().await.map(Some).ok_or_else(String::new),
            Self::Stream(stream) => match stream.next().await {
                Some(Ok(received)) => Ok(Some(received.event.body)),
                // Skip a frame that is not an event.
                Some(Err(client::Error::Decode(error))) => {
                    tracing::debug!(%error, "OpenCode sent a frame that is not an event");
                    Ok(None)
                }
                Some(Err(error)) => {
                    Err(format!("the connection to the OpenCode server is lost: {}", chain(&error)))
                }
                None => Err("the OpenCode server has ended".to_owned()),
            },
        }
    }
}

/// The events of a subagent for the turn of its child session.
#[derive(Debug)]
pub(super) struct ChildStream {
    /// The subagent's session at OpenCode.
    session: SessionId,
    events: mpsc::Receiver<EventBody>,
    client: Client,
}

/// The result of sending the user's answer to OpenCode.
type Replied = Result<(), client::Error>;

/// The state of one turn.
pub(super) struct TurnState<'a> {
    pub(super) agent: &'a OpenCode,
    pub(super) turn: &'a Turn,
    pub(super) client: Client,
    pub(super) session: SessionId,
    pub(super) translator: Translator,
    source: Source,
    /// Requests that wait for the user or whose answer is being sent.
    pub(super) asked: FuturesUnordered<BoxFuture<'a, Replied>>,
    /// Tokens that withdraw a request, by OpenCode's id of the request.
    takes_back: HashMap<String, CancellationToken>,
    /// True if the user has just refused a request.
    has_refused: Arc<AtomicBool>,
    pub(super) children: HashMap<SessionId, mpsc::Sender<EventBody>>,
    /// Baton's child session for each subagent session of OpenCode.
    ours: HashMap<SessionId, SessionId>,
    /// Children that OpenCode has not reported as idle.
    pub(super) busy: HashSet<SessionId>,
    /// Waits for the turns of children.
    pub(super) born: FuturesUnordered<BoxFuture<'static, ()>>,
    /// The end of the turn, while children still work.
    pub(super) held: Option<Held>,
    /// The server has ended or is unreachable.
    is_lost: bool,
    /// The schedule of status checks.
    pub(super) checks: StatusChecks,
}

impl<'a> TurnState<'a> {
    fn new(
        agent: &'a OpenCode,
        turn: &'a Turn,
        client: Client,
        session: SessionId,
        translator: Translator,
        source: Source,
    ) -> Self {
        Self {
            agent,
            turn,
            client,
            session,
            translator,
            source,
            asked: FuturesUnordered::new(),
            takes_back: HashMap::new(),
            has_refused: Arc::default(),
            children: HashMap::new(),
            ours: HashMap::new(),
            busy: HashSet::new(),
            born: FuturesUnordered::new(),
            held: None,
            is_lost: false,
            checks: StatusChecks::new(agent.timeouts.pace, Instant::now()),
        }
    }

    async fn follow(&mut self, lease: Option<&Lease>) -> TurnEnd {
        let gone = async {
            match lease {
                Some(lease) => lease.gone().await,
                None => std::future::pending().await,
            }
        };
        let mut gone = std::pin::pin!(gone);
        loop {
            let flow = tokio::select! {
                biased;
                () = self.turn.cancelled() => return self.abort().await,
                why = &mut gone => self.lost(why),
                event = self.source.next() => self.receive(event).await,
                Some(replied) = self.asked.next() => self.replied(replied).await,
                () = self.turn.prompted() => self.join().await,
                Some(()) = self.born.next() => self.release(),
                () = sleep_until(self.checks.due()) => self.check().await,
            };
            if let Flow::Break(end) = flow {
                return end;
            }
        }
    }

    /// Sends a prompt of the user.
    async fn send(&mut self, prompt: &MessageId) -> Flow {
        let Some(message) = or_end(self.turn.message(prompt).await)? else { return Flow::Continue(()) };
        let id: MessageId = self.agent.mint.id();
        let input = wire::prompt(
            id.clone(),
            &message,
            &self.turn.model,
            &self.turn.agent,
            self.agent.options.program.mode,
        );
        self.translator.sent(id);
        self.held = None;
        let sending = async {
            let sent = self.client.prompt_async(&self.session, &input).await;
            sent.map_err(|error| format!("OpenCode did not accept the prompt: {}", chain(&error)))
        };
        let sending = in_time(self.agent.timeouts.call, "OpenCode did not accept the prompt", sending);
        match until_cancelled(self.turn, sending).await {
            Flow::Continue(sent) => or_end(sent),
            // OpenCode may have received the prompt in spite of the error.
            Flow::Break(_) => Flow::Break(self.abort().await),
        }
    }

    /// Sends the prompts that join the turn.
    async fn join(&mut self) -> Flow {
        for prompt in self.turn.join().await {
            self.send(&prompt).await?;
        }
        Flow::Continue(())
    }

    async fn receive(&mut self, event: Result<Option<EventBody>, String>) -> Flow {
        if self.has_refused.swap(false, Ordering::Relaxed) {
            self.translator.refused();
        }
        let said = match event {
            Ok(None) => return Flow::Continue(()),
            Ok(Some(EventBody::ServerConnected(_))) => return self.catch_up().await,
            Ok(Some(body)) => {
                self.note(&body).await;
                self.translator.translate(body)
            }
            // The parent's turn has ended, and therefore this one has too.
            Err(_) if matches!(self.source, Source::Parent(_)) => self.translator.settle(),
            Err(error) => return self.lost(error),
        };
        self.act(said).await
    }

    fn lost(&mut self, why: String) -> Flow {
        self.is_lost = true;
        Flow::Break(TurnEnd::Error(MessageError::unknown(why)))
    }

    pub(super) async fn act(&mut self, said: Vec<Consequence>) -> Flow {
        for said in said {
            match said {
                Consequence::Agent(event @ AgentEvent::StepStarted { .. }) => {
                    self.held = None;
                    self.turn.emit(event).await;
                }
                Consequence::Agent(event) => self.turn.emit(self.placed(event)).await,
                Consequence::Permission(request) => self.ask_permission(request),
                Consequence::Question(request) => self.ask_question(request),
                Consequence::Settled(request) => {
                    if let Some(taken_back) = self.takes_back.remove(&request) {
                        taken_back.cancel();
                    }
                }
                Consequence::Child(child) => self.adopt(child).await,
                Consequence::ForChild(child, body) => {
                    if let Some(to) = self.children.get(&child) {
                        // The turn of the child may have ended, and it needs no more events then.
                        let _ = to.send(body).await;
                    }
                }
                Consequence::Unsure => self.checks.unsure(Instant::now()),
                Consequence::Ended(end) => self.hold(end)?,
            }
        }
        Flow::Continue(())
    }

    /// Replaces OpenCode's session id in the metadata of a call that started a child with Baton's id.
    fn placed(&self, mut event: AgentEvent) -> AgentEvent {
        let facts = match &mut event {
            AgentEvent::ToolCompleted { metadata, .. } => Some(metadata),
            AgentEvent::ToolRunning { metadata, .. } | AgentEvent::ToolFailed { metadata, .. } => {
                metadata.as_mut()
            }
            _ => None,
        };
        if let Some(facts) = facts
            && let Some(theirs) = facts.get(TASK_SESSION).and_then(Value::as_str)
            && let Some(ours) = theirs.parse().ok().and_then(|theirs: SessionId| self.ours.get(&theirs))
        {
            facts.insert(TASK_SESSION.to_owned(), ours.as_str().into());
            facts.insert(TASK_PARENT.to_owned(), self.turn.session.id.as_str().into());
        }
        event
    }

    fn ask_permission(&mut self, request: PermissionRequest) {
        let rules = &self.agent.options.program.rules;
        let (turn, client, has_refused) = (self.turn, self.client.clone(), Arc::clone(&self.has_refused));
        let id = request.id.to_string();
        let ask = async move {
            let answer = permission::ask(turn, rules, wire::permission(&request)).await;
            let (reply, message) = wire::reply(&answer);
            // Set the flag before OpenCode receives the answer, because its next events are consequences of the
            // refusal.
            has_refused.fetch_or(reply == PermissionReply::Reject, Ordering::Relaxed);
            client.reply_permission(&request.id, reply, message).await
        };
        self.ask(id, ask);
    }

    fn ask_question(&mut self, request: QuestionRequest) {
        let (turn, client, has_refused) = (self.turn, self.client.clone(), Arc::clone(&self.has_refused));
        let id = request.id.to_string();
        let ask = async move {
            if let Answer::Answers(answers) = turn.ask(wire::question(&request)).await {
                client.reply_question(&request.id, answers).await
            } else {
                has_refused.store(true, Ordering::Relaxed);
                client.reject_question(&request.id).await
            }
        };
        self.ask(id, ask);
    }

    /// Waits for the user concurrently with the turn, until OpenCode no longer needs an answer.
    fn ask(&mut self, id: String, ask: impl Future<Output = Replied> + Send + 'a) {
        let taken_back = CancellationToken::new();
        self.takes_back.insert(id, taken_back.clone());
        let ask = async move { taken_back.run_until_cancelled(ask).await.unwrap_or(Ok(())) };
        self.asked.push(ask.boxed());
    }

    /// Warns if OpenCode did not accept an answer, because it may wait for ever. Status 404 means that another client
    /// has answered already.
    async fn replied(&mut self, replied: Replied) -> Flow {
        if let Err(error) = replied
            && error.status() != Some(404)
        {
            let message = format!("OpenCode did not accept the answer to a request: {}", chain(&error));
            self.turn.emit(AgentEvent::Warning(MessageError::unknown(message))).await;
            self.checks.unsure(Instant::now());
        }
        Flow::Continue(())
    }

    /// Starts a child session for a subagent that is at work already.
    async fn adopt(&mut self, child: Child) {
        let (to, events) = mpsc::channel(MAX_BEHIND);
        let stream = ChildStream { session: child.session.clone(), events, client: self.client.clone() };
        match self.agent.children.start(self.turn, child.title, child.prompt, None, stream).await {
            Ok(started) => {
                self.ours.insert(child.session.clone(), started.session().clone());
                self.born.push(async move { drop(started.wait().await) }.boxed());
                self.busy.insert(child.session.clone());
                self.children.insert(child.session, to);
            }
            Err(error) => {
                let parent = &self.turn.session.id;
                tracing::debug!(session = %parent, error, "cannot start a child session for a subagent of OpenCode");
            }
        }
    }

    /// Reads the state after an interruption of the event stream, because OpenCode does not repeat events.
    async fn catch_up(&mut self) -> Flow {
        let state = async {
            let messages = self.client.messages(&self.session).await?;
            let todos = self.client.todos(&self.session).await?;
            let (permissions, questions) = (self.client.permissions().await?, self.client.questions().await?);
            Ok::<_, client::Error>((messages, todos, permissions, questions))
        };
        let (messages, todos, permissions, questions) = match until_cancelled(self.turn, state).await? {
            Ok(state) => state,
            Err(error) => {
                tracing::debug!(error = chain(&error), "cannot read the state of OpenCode; trying again");
                self.checks.unsure(Instant::now());
                return Flow::Continue(());
            }
        };
        let open: HashSet<String> = permissions
            .iter()
            .map(|request| request.id.to_string())
            .chain(questions.iter().map(|request| request.id.to_string()))
            .collect();
        let settled =
            self.takes_back.keys().filter(|id| !open.contains(*id)).cloned().map(Consequence::Settled);
        let mut said: Vec<Consequence> = settled.collect();
        said.extend(self.translator.catch_up(messages));
        said.extend((!todos.is_empty()).then_some(Consequence::Agent(AgentEvent::Todos(todos))));
        said.extend(permissions.into_iter().flat_map(|request| self.translator.permission(request)));
        said.extend(questions.into_iter().flat_map(|request| self.translator.question(request)));
        self.act(said).await?;
        self.check().await
    }

    /// Aborts the turn at OpenCode and follows its events for a short time.
    async fn abort(&mut self) -> TurnEnd {
        let listening = async {
            if let Err(error) = self.client.abort(&self.session).await {
                tracing::debug!(error = chain(&error), "cannot abort the turn at OpenCode");
                return;
            }
            while let Ok(event) = self.source.next().await {
                for said in event.map(|body| self.translator.translate(body)).unwrap_or_default() {
                    match said {
                        Consequence::Agent(event) => self.turn.emit(self.placed(event)).await,
                        Consequence::ForChild(child, body) => {
                            if let Some(to) = self.children.get(&child) {
                                let _ = to.try_send(body);
                            }
                        }
                        Consequence::Ended(_) => return,
                        _ => {}
                    }
                }
            }
        };
        let _ = timeout(ABORT, listening).await;
        TurnEnd::Cancelled
    }
}

/// Awaits a future with a timeout, and fails with `late` if it expires.
pub(super) async fn in_time<T>(
    patience: Duration,
    late: &str,
    work: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let done = timeout(patience, work).await;
    done.unwrap_or_else(|_| Err(format!("{late} within {patience:?}")))
}

/// Awaits a future unless the turn is cancelled first.
pub(super) async fn until_cancelled<T>(turn: &Turn, work: impl Future<Output = T>) -> Flow<T> {
    tokio::select! {
        biased;
        () = turn.cancelled() => Flow::Break(TurnEnd::Cancelled),
        done = work => Flow::Continue(done),
    }
}

/// Converts an error into the end of the turn.
fn or_end<T, E: ToString>(result: Result<T, E>) -> Flow<T> {
    match result {
        Ok(value) => Flow::Continue(value),
        Err(error) => Flow::Break(TurnEnd::Error(MessageError::unknown(error.to_string()))),
    }
}
