//! The loop of one turn: a prompt there, and whatever comes of it here.

use std::collections::{HashMap, HashSet};
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
use super::{Inner, Patience, wire};
use crate::external::permission;

/// How long an aborted turn is listened to, within the grace that the engine gives.
const ABORT: Duration = Duration::from_millis(500);
/// Events that a child may be behind.
const MAX_BEHIND: usize = 1_024;

/// Where a call that has started a child says whose it is.
const TASK_PARENT: &str = "parentSessionId";

/// Go on, or the end of the turn.
pub(super) type Flow<T = ()> = ControlFlow<TurnEnd, T>;

/// Takes a turn.
pub(super) async fn run(inner: &Inner, turn: &Turn) -> TurnEnd {
    if let Some(adopted) = inner.registry.take(&turn.session).await {
        return follow_child(inner, turn, adopted).await;
    }
    match Box::pin(begin(inner, turn)).await {
        Flow::Continue((mut drive, lease)) => drive.follow(Some(&lease)).await,
        Flow::Break(end) => end,
    }
}

async fn follow_child(inner: &Inner, turn: &Turn, adopted: Adopted) -> TurnEnd {
    let Adopted { session, events, client } = adopted;
    let translator = Translator::of_child(session.clone());
    let mut drive = Drive::new(inner, turn, client, session, translator, Source::Parent(events));
    drive.follow(None).await
}

/// Finds the server and the session, listens, and sends the prompt.
async fn begin<'a>(inner: &'a Inner, turn: &'a Turn) -> Flow<(Drive<'a>, Lease)> {
    let directory = &turn.session.directory;
    let lease = or_end(until_cancelled(turn, inner.server.lease(directory)).await?)?;
    let client = lease.client.clone().in_directory(directory);
    let Patience { call, lost, .. } = inner.patience;
    let listening = in_time(call, "OpenCode's events did not begin", listen(&client, lost));
    let stream = or_end(until_cancelled(turn, listening).await?)?;
    let opening = Box::pin(session(inner, turn, &client));
    let opening = in_time(call, "OpenCode did not open the session", opening);
    let session = or_end(until_cancelled(turn, opening).await?)?;
    let translator = Translator::new(session.clone());
    let mut drive = Drive::new(inner, turn, client, session, translator, Source::Stream(stream));
    drive.send(&turn.prompt).await?;
    Flow::Continue((drive, lease))
}

/// Listens from now on: nothing is missed that happens after this.
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

/// The session there that this one is, or a new one.
async fn session(inner: &Inner, turn: &Turn, client: &Client) -> Result<SessionId, String> {
    let name = &inner.about.id;
    if let Some(known) = turn.session.note(name).and_then(|known| known.parse().ok()) {
        match client.session(&known).await {
            Ok(session) => return Ok(session.id),
            Err(error) if error.status().is_some_and(|status| status < 500) => {
                let message = "OpenCode does not know this conversation any more, and begins a new one.";
                turn.emit(AgentEvent::Warning(MessageError::unknown(message))).await;
            }
            Err(error) => return Err(format!("OpenCode cannot be asked for the session: {}", chain(&error))),
        }
    }
    let created = client.create_session(&wire::session(inner.mode)).await;
    let created = created.map_err(|error| format!("OpenCode cannot begin a session: {}", chain(&error)))?;
    turn.emit(AgentEvent::Noted { name: name.clone(), note: created.id.to_string() }).await;
    Ok(created.id)
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

/// What a child's run needs to know.
#[derive(Debug)]
pub(super) struct Adopted {
    /// Its session there.
    session: SessionId,
    /// What happens in it.
    events: mpsc::Receiver<EventBody>,
    client: Client,
}

/// A person's answer has reached OpenCode, or has not.
type Replied = Result<(), client::Error>;

/// One turn.
pub(super) struct Drive<'a> {
    pub(super) inner: &'a Inner,
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
    /// When the server is asked whether it is idle.
    pub(super) pulse: Pulse,
}

impl<'a> Drive<'a> {
    fn new(
        inner: &'a Inner,
        turn: &'a Turn,
        client: Client,
        session: SessionId,
        translator: Translator,
        source: Source,
    ) -> Self {
        Self {
            inner,
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
            pulse: Pulse::new(inner.patience.pace, Instant::now()),
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
                why = &mut gone => Flow::Break(TurnEnd::Error(MessageError::unknown(why))),
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
        let id: MessageId = self.inner.mint.id();
        let input = wire::prompt(id.clone(), &message, &self.turn.model, &self.turn.agent, self.inner.mode);
        self.translator.sent(id);
        self.held = None;
        let sending = async {
            let sent = self.client.prompt_async(&self.session, &input).await;
            sent.map_err(|error| format!("OpenCode did not take the prompt: {}", chain(&error)))
        };
        let sending = in_time(self.inner.patience.call, "OpenCode did not take the prompt", sending);
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
            Err(error) => return Flow::Break(TurnEnd::Error(MessageError::unknown(error))),
        };
        self.act(said).await
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
        let rules = &self.inner.rules;
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
        let adopted = Adopted { session: child.session.clone(), events, client: self.client.clone() };
        match self.inner.registry.start(self.turn, child.title, child.prompt, None, adopted).await {
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
