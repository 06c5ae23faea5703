//! The loop of one turn: a prompt there, and whatever comes of it here.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use client::{Client, EventStream, Scope};
use engine::session::Turn;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use protocol::agent_event::Answer;
use protocol::request::{PermissionReply, PermissionRequest, QuestionRequest};
use protocol::{AgentEvent, EventBody, MessageError, MessageId, SessionId, TurnEnd};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::ending::Held;
use super::pulse::Pulse;
use super::server::Lease;
use super::translate::{Child, Said, TASK_SESSION, Translator};
use super::{OpenCode, Patience, wire};
use crate::external::{Condition, Kept, Opened, Outcome, Rested, permission};

/// How long an aborted turn is listened to, within the grace that the engine gives.
const ABORT: Duration = Duration::from_millis(500);
/// Events that a child may be behind.
const MAX_BEHIND: usize = 1_024;

/// Where a call that has started a child says whose it is.
const TASK_PARENT: &str = "parentSessionId";

/// Go on, or the end of the turn.
pub(super) type Flow<T = ()> = ControlFlow<TurnEnd, T>;

/// A connection to the session of a turn. Its lease keeps the server running.
pub struct Connection {
    lease: Lease,
    client: Client,
    session: SessionId,
    /// The server's events, until the turn takes them.
    stream: Option<EventStream>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Connection").field("session", &self.session).finish_non_exhaustive()
    }
}

/// A connection serves one turn and is not kept, so that the server can stop when no turn needs it.
impl Kept for Connection {
    async fn rest(&mut self) -> Rested {
        std::future::pending().await
    }

    async fn stop(self) {}
}

/// Finds the server, listens to its events, and resumes the session with this id or creates one.
pub(super) async fn open(
    agent: &OpenCode,
    turn: &Turn,
    resume: Option<&str>,
) -> Result<Opened<Connection>, String> {
    let directory = &turn.session.directory;
    let lease = agent.server.lease(directory).await?;
    let client = lease.client.clone().in_directory(directory);
    let Patience { call, lost, .. } = agent.patience;
    let stream = in_time(call, "OpenCode's events did not begin", listen(&client, lost)).await?;
    let opening = Box::pin(session(agent, &client, resume));
    let (session, lost) = in_time(call, "OpenCode did not open the session", opening).await?;
    let note = Some(session.to_string());
    Ok(Opened { process: Connection { lease, client, session, stream: Some(stream) }, note, lost })
}

/// Sends the prompt and follows the turn.
pub(super) async fn work(agent: &OpenCode, turn: &Turn, connection: &mut Connection) -> Outcome {
    let Connection { lease, client, session, stream } = connection;
    let Some(stream) = stream.take() else {
        return Outcome::failed("the connection to OpenCode has served a turn already");
    };
    let translator = Translator::new(session.clone());
    let source = Source::Stream(stream);
    let mut drive = Drive::new(agent, turn, client.clone(), session.clone(), translator, source);
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
    let mut drive = Drive::new(agent, turn, client, session, translator, Source::Parent(events));
    drive.follow(None).await
}

/// Begins to listen. No later event is missed.
async fn listen(client: &Client, lost: Duration) -> Result<EventStream, String> {
    let mut stream = client.events_within(Scope::Directory, None, lost);
    loop {
        match stream.next().await {
            Some(Ok(received)) if matches!(received.event.body, EventBody::ServerConnected(_)) => {
                return Ok(stream);
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                return Err(format!("OpenCode's events cannot be followed: {}", chain(&error)));
            }
            None => return Err("OpenCode's events ended at once".to_owned()),
        }
    }
}

/// Resumes the session with this id at OpenCode, or creates one. Tells why a session could not be resumed.
async fn session(
    agent: &OpenCode,
    client: &Client,
    resume: Option<&str>,
) -> Result<(SessionId, Option<String>), String> {
    let mut lost = None;
    if let Some(known) = resume.and_then(|known| known.parse().ok()) {
        match client.session(&known).await {
            Ok(session) => return Ok((session.id, None)),
            Err(error) if error.status().is_some_and(|status| status < 500) => lost = Some(chain(&error)),
            Err(error) => return Err(format!("OpenCode cannot be asked for the session: {}", chain(&error))),
        }
    }
    let created = client.create_session(&wire::session(agent.options.program.mode)).await;
    let created = created.map_err(|error| format!("OpenCode cannot begin a session: {}", chain(&error)))?;
    Ok((created.id, lost))
}

/// Where events come from.
enum Source {
    Stream(EventStream),
    /// A parent's run, which hears for its children.
    Parent(mpsc::Receiver<EventBody>),
}

impl Source {
    /// The next event; an error if there will be none.
    async fn next(&mut self) -> Result<Option<EventBody>, String> {
        match self {
            Self::Parent(events) => events.recv().await.map(Some).ok_or_else(String::new),
            Self::Stream(stream) => match stream.next().await {
                Some(Ok(received)) => Ok(Some(received.event.body)),
                // A frame that is no event is none.
                Some(Err(client::Error::Decode(error))) => {
                    tracing::debug!(%error, "OpenCode sent something that is no event");
                    Ok(None)
                }
                Some(Err(error)) => {
                    Err(format!("the OpenCode server cannot be reached any more: {}", chain(&error)))
                }
                None => Err("the OpenCode server is gone".to_owned()),
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

/// A person's answer has reached OpenCode, or has not.
type Replied = Result<(), client::Error>;

/// One turn.
pub(super) struct Drive<'a> {
    pub(super) agent: &'a OpenCode,
    pub(super) turn: &'a Turn,
    pub(super) client: Client,
    pub(super) session: SessionId,
    pub(super) translator: Translator,
    source: Source,
    /// Requests that wait for a person, or whose answer is on its way.
    pub(super) asked: FuturesUnordered<BoxFuture<'a, Replied>>,
    /// How to take back what is asked, by the request's id there.
    takes_back: HashMap<String, CancellationToken>,
    /// Whether a person has just refused something.
    has_refused: Arc<AtomicBool>,
    pub(super) children: HashMap<SessionId, mpsc::Sender<EventBody>>,
    /// Which session each of them has here.
    ours: HashMap<SessionId, SessionId>,
    /// Children that OpenCode has not said to be idle.
    pub(super) busy: HashSet<SessionId>,
    /// Waits for the turns of children.
    pub(super) born: FuturesUnordered<BoxFuture<'static, ()>>,
    /// How the turn ended, while children work on.
    pub(super) held: Option<Held>,
    /// The server is gone, or cannot be reached.
    is_lost: bool,
    /// When the server is asked whether it is idle.
    pub(super) pulse: Pulse,
}

impl<'a> Drive<'a> {
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
            pulse: Pulse::new(agent.patience.pace, Instant::now()),
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
                event = self.source.next() => self.hear(event).await,
                Some(replied) = self.asked.next() => self.replied(replied).await,
                () = self.turn.prompted() => self.join().await,
                Some(()) = self.born.next() => self.release(),
                () = sleep_until(self.pulse.due()) => self.check().await,
            };
            if let Flow::Break(end) = flow {
                return end;
            }
        }
    }

    /// Sends a person's prompt.
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
            sent.map_err(|error| format!("OpenCode did not take the prompt: {}", chain(&error)))
        };
        let sending = in_time(self.agent.patience.call, "OpenCode did not take the prompt", sending);
        match until_cancelled(self.turn, sending).await {
            Flow::Continue(sent) => or_end(sent),
            // It may have arrived all the same.
            Flow::Break(_) => Flow::Break(self.abort().await),
        }
    }

    /// Sends prompts that join.
    async fn join(&mut self) -> Flow {
        for prompt in self.turn.join().await {
            self.send(&prompt).await?;
        }
        Flow::Continue(())
    }

    async fn hear(&mut self, event: Result<Option<EventBody>, String>) -> Flow {
        if self.has_refused.swap(false, Ordering::Relaxed) {
            self.translator.refused();
        }
        let said = match event {
            Ok(None) => return Flow::Continue(()),
            Ok(Some(EventBody::ServerConnected(_))) => return self.catch_up().await,
            Ok(Some(body)) => {
                self.note(&body).await;
                self.translator.hear(body)
            }
            // The parent's turn is over, and so is this one.
            Err(_) if matches!(self.source, Source::Parent(_)) => self.translator.settle(),
            Err(error) => return self.lost(error),
        };
        self.act(said).await
    }

    fn lost(&mut self, why: String) -> Flow {
        self.is_lost = true;
        Flow::Break(TurnEnd::Error(MessageError::unknown(why)))
    }

    pub(super) async fn act(&mut self, said: Vec<Said>) -> Flow {
        for said in said {
            match said {
                Said::Agent(event @ AgentEvent::StepStarted { .. }) => {
                    self.held = None;
                    self.turn.emit(event).await;
                }
                Said::Agent(event) => self.turn.emit(self.placed(event)).await,
                Said::Permission(request) => self.ask_permission(request),
                Said::Question(request) => self.ask_question(request),
                Said::Settled(request) => {
                    if let Some(taken_back) = self.takes_back.remove(&request) {
                        taken_back.cancel();
                    }
                }
                Said::Child(child) => self.adopt(child).await,
                Said::ForChild(child, body) => {
                    if let Some(to) = self.children.get(&child) {
                        // A child whose turn is over hears nothing more.
                        let _ = to.send(body).await;
                    }
                }
                Said::Unsure => self.pulse.unsure(Instant::now()),
                Said::Ended(end) => self.hold(end)?,
            }
        }
        Flow::Continue(())
    }

    /// What happened; a call that has started a child names the session that the child has here.
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
            // Before OpenCode knows: what it says next is a consequence.
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

    /// Waits for a person beside everything else, unless OpenCode needs no answer any more.
    fn ask(&mut self, id: String, ask: impl Future<Output = Replied> + Send + 'a) {
        let taken_back = CancellationToken::new();
        self.takes_back.insert(id, taken_back.clone());
        let ask = async move { taken_back.run_until_cancelled(ask).await.unwrap_or(Ok(())) };
        self.asked.push(ask.boxed());
    }

    /// An answer that did not reach OpenCode may mean that it waits for ever, or that somebody else was faster.
    async fn replied(&mut self, replied: Replied) -> Flow {
        if let Err(error) = replied
            && error.status() != Some(404)
        {
            let message = format!("OpenCode did not take the answer to a request: {}", chain(&error));
            self.turn.emit(AgentEvent::Warning(MessageError::unknown(message))).await;
            self.pulse.unsure(Instant::now());
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
                tracing::debug!(session = %parent, error, "a subagent of OpenCode's has no session here");
            }
        }
    }

    /// The stream was interrupted, and OpenCode repeats nothing: its state is read anew.
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
                tracing::debug!(
                    error = chain(&error),
                    "OpenCode's state could not be read; it is asked again"
                );
                self.pulse.unsure(Instant::now());
                return Flow::Continue(());
            }
        };
        let open: HashSet<String> = permissions
            .iter()
            .map(|request| request.id.to_string())
            .chain(questions.iter().map(|request| request.id.to_string()))
            .collect();
        let settled = self.takes_back.keys().filter(|id| !open.contains(*id)).cloned().map(Said::Settled);
        let mut said: Vec<Said> = settled.collect();
        said.extend(self.translator.catch_up(messages));
        said.extend((!todos.is_empty()).then_some(Said::Agent(AgentEvent::Todos(todos))));
        said.extend(permissions.into_iter().flat_map(|request| self.translator.permission(request)));
        said.extend(questions.into_iter().flat_map(|request| self.translator.question(request)));
        self.act(said).await?;
        self.check().await
    }

    /// Stops the turn there, and listens a little for what it says about that.
    async fn abort(&mut self) -> TurnEnd {
        let listening = async {
            if let Err(error) = self.client.abort(&self.session).await {
                tracing::debug!(error = chain(&error), "OpenCode could not be told to stop");
                return;
            }
            while let Ok(event) = self.source.next().await {
                for said in event.map(|body| self.translator.hear(body)).unwrap_or_default() {
                    match said {
                        Said::Agent(event) => self.turn.emit(self.placed(event)).await,
                        Said::ForChild(child, body) => {
                            if let Some(to) = self.children.get(&child) {
                                let _ = to.try_send(body);
                            }
                        }
                        Said::Ended(_) => return,
                        _ => {}
                    }
                }
            }
        };
        let _ = timeout(ABORT, listening).await;
        TurnEnd::Cancelled
    }
}

/// What comes of something, if it comes in time.
pub(super) async fn in_time<T>(
    patience: Duration,
    late: &str,
    work: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let done = timeout(patience, work).await;
    done.unwrap_or_else(|_| Err(format!("{late} within {patience:?}")))
}

/// What comes of something, unless the turn is stopped first.
pub(super) async fn until_cancelled<T>(turn: &Turn, work: impl Future<Output = T>) -> Flow<T> {
    tokio::select! {
        biased;
        () = turn.cancelled() => Flow::Break(TurnEnd::Cancelled),
        done = work => Flow::Continue(done),
    }
}

/// A value, or the end of the turn with what went wrong.
fn or_end<T, E: ToString>(result: Result<T, E>) -> Flow<T> {
    match result {
        Ok(value) => Flow::Continue(value),
        Err(error) => Flow::Break(TurnEnd::Error(MessageError::unknown(error.to_string()))),
    }
}

/// An error with its causes.
pub(super) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
