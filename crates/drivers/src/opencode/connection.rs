//! The connection of a turn to OpenCode: the transport of the turn, which is the server's event stream and the calls to
//! the server.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use client::{Client, EventStream, Scope};
use engine::mint::Mint;
use engine::session::Turn;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, StreamExt};
use net::chain;
use protocol::agent_event::Answer;
use protocol::config::PermissionMode;
use protocol::message::ModelRef;
use protocol::prompt::PromptInput;
use protocol::request::PermissionReply;
use protocol::{
    AgentEvent, EventBody, MessageError, MessageId, MessageWithParts, Millis, SessionId, SessionStatus,
    TurnEnd,
};
use tokio::time::{Instant, timeout};

use super::server::Lease;
use super::translate::Request;
use super::tree::{Signals, State, Tree};
use super::{OpenCode, Timeouts, wire};
use crate::external::exchange::until;
use crate::external::{Broken, Condition, IdleEvent, KeptProcess, Opened, Phase, Process, Signal};

/// A connection to the session of a turn. Its lease keeps the server running.
pub struct SessionConnection {
    lease: Lease,
    client: Client,
    stream: EventStream,
    mint: Arc<Mint>,
    timeouts: Timeouts,
    mode: PermissionMode,
    model: ModelRef,
    agent: String,
    tree: Tree,
    /// Prompts to send, one after the other. The engine bounds the prompts of a turn.
    prompts: VecDeque<PromptInput>,
    sending: Option<BoxFuture<'static, Result<(), String>>>,
    /// The other open calls, each with a timeout: one status check, one read of the state, one answer to each request, and
    /// one abort of each session.
    calls: FuturesUnordered<BoxFuture<'static, News>>,
    is_checking: bool,
    /// The state is being read. Events wait until then, because they are newer.
    is_catching_up: bool,
}

/// An event of the server or the result of a call, with the time of its arrival.
#[derive(Debug)]
pub struct Frame {
    at: Instant,
    news: News,
}

#[derive(Debug)]
enum News {
    Event(Box<EventBody>),
    /// The event stream was interrupted and is open again.
    Reconnected,
    /// The state after an interruption; none if it could not be read.
    State(Option<Box<State>>),
    /// The result of sending a prompt.
    Sent(Result<(), String>),
    /// The statuses for the sessions that were due for a check; none if they could not be read.
    Statuses(Vec<SessionId>, Option<BTreeMap<SessionId, SessionStatus>>),
    /// The answer to a request of this child, or of the turn itself, was sent. The error is for the user.
    Answered(Option<String>, Result<(), String>),
    Aborted,
}

impl fmt::Debug for SessionConnection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SessionConnection").field("session", self.tree.root()).finish_non_exhaustive()
    }
}

/// A connection serves one turn and is not kept, so that the server can stop when no turn needs it.
impl KeptProcess for SessionConnection {
    async fn rest(&mut self) -> IdleEvent {
        std::future::pending().await
    }

    async fn stop(self) {}
}

impl Process for SessionConnection {
    type Frame = Frame;
    type Request = Request;

    async fn next(&mut self) -> Result<Frame, Broken> {
        loop {
            self.send_next();
            let due = self.tree.due();
            let news = tokio::select! {
                biased;
                reason = self.lease.gone() => return Err(Broken::gone(reason)),
                sent = maybe(self.sending.as_mut()) => {
                    self.sending = None;
                    News::Sent(sent)
                }
                Some(news) = self.calls.next() => news,
                event = self.stream.next(), if !self.is_catching_up => match event {
                    Some(Ok(received)) if matches!(received.event.body, EventBody::ServerConnected(_)) => {
                        self.catch_up();
                        News::Reconnected
                    }
                    Some(Ok(received)) => News::Event(Box::new(received.event.body)),
                    Some(Err(client::Error::Decode(error))) => {
                        tracing::debug!(%error, "OpenCode sent a frame that is not an event");
                        continue;
                    }
                    Some(Err(error)) => {
                        let message = format!("the connection to the OpenCode server is lost: {}", chain(&error));
                        return Err(Broken::gone(message));
                    }
                    None => return Err(Broken::gone("the OpenCode server has ended")),
                },
                () = until(due), if !self.is_checking => {
                    self.check();
                    continue;
                }
            };
            match news {
                News::State(_) => self.is_catching_up = false,
                News::Statuses(..) => self.is_checking = false,
                _ => {}
            }
            return Ok(Frame { at: Instant::now(), news });
        }
    }

    fn interpret(&mut self, frame: Frame, now: Millis) -> Signals {
        let Frame { at, news } = frame;
        match news {
            News::Event(body) => self.tree.hear(*body, at),
            News::Reconnected => {
                self.tree.missed();
                Vec::new()
            }
            News::State(Some(state)) => self.tree.catch_up(*state, at),
            News::State(None) => {
                self.tree.unsure(at);
                Vec::new()
            }
            News::Sent(Ok(())) | News::Answered(_, Ok(())) | News::Aborted => Vec::new(),
            News::Sent(Err(error)) => vec![Signal::Ended(TurnEnd::Error(MessageError::unknown(error)))],
            News::Statuses(sessions, statuses) => self.tree.checked(sessions, statuses.as_ref(), at, now),
            News::Answered(child, Err(error)) => {
                // OpenCode may wait for the answer for ever.
                self.tree.unsure(at);
                vec![Signal::Emit(child, AgentEvent::Warning(MessageError::unknown(error)))]
            }
        }
    }

    fn prompt(&mut self, _: &Turn, prompt: &MessageWithParts) {
        self.join(prompt);
    }

    /// OpenCode never begins a turn by itself.
    fn take_up(&mut self, _: &Turn) -> bool {
        false
    }

    fn join(&mut self, prompt: &MessageWithParts) {
        let id: MessageId = self.mint.id();
        self.prompts.push_back(wire::prompt(id.clone(), prompt, &self.model, &self.agent, self.mode));
        self.tree.sent(id);
    }

    /// A refusal does not decide the end of the turn, because OpenCode may continue with the user's correction.
    fn answer(&mut self, child: Option<&str>, request: Request, answer: Answer) -> bool {
        let (client, id) = (self.client.clone(), request.to_string());
        let (replying, is_refused) = match (request, answer) {
            (Request::Permission(id), answer) => {
                let (reply, message) = wire::reply(&answer);
                let replying = async move { client.reply_permission(&id, reply, message).await }.boxed();
                (replying, reply == PermissionReply::Reject)
            }
            (Request::Question(id), Answer::Answers(answers)) => {
                (async move { client.reply_question(&id, answers).await }.boxed(), false)
            }
            (Request::Question(id), _) => (async move { client.reject_question(&id).await }.boxed(), true),
        };
        self.tree.answered(child, &id, is_refused);
        let child = child.map(str::to_owned);
        self.call(async move {
            let replied = match replying.await {
                // With status 404, another client has answered already.
                Err(error) if error.status() != Some(404) => {
                    Err(format!("OpenCode did not accept the answer to a request: {}", chain(&error)))
                }
                _ => Ok(()),
            };
            News::Answered(child, replied)
        });
        false
    }

    fn stop_child(&mut self, child: &str) {
        if let Ok(session) = child.parse() {
            self.abort(session);
        }
    }

    fn interrupt(&mut self) -> bool {
        self.prompts.clear();
        // OpenCode may have received the prompt in spite of that.
        self.sending = None;
        for session in self.tree.sessions().cloned().collect::<Vec<_>>() {
            self.abort(session);
        }
        true
    }

    /// Only OpenCode's report ends a turn. Status checks find out if it is missing, and have a timeout.
    fn phase(&self) -> Phase {
        Phase::Calling
    }

    fn conclude(&mut self) -> Signals {
        Vec::new()
    }

    fn note(&self) -> Option<String> {
        Some(self.tree.root().to_string())
    }

    fn finish(&mut self) -> Condition {
        Condition::Released
    }
}

impl SessionConnection {
    fn call(&mut self, call: impl Future<Output = News> + Send + 'static) {
        self.calls.push(call.boxed());
    }

    /// Begins to send the next prompt if none is being sent.
    fn send_next(&mut self) {
        if self.sending.is_some() {
            return;
        }
        let Some(prompt) = self.prompts.pop_front() else { return };
        let (client, session, timeouts) = (self.client.clone(), self.tree.root().clone(), self.timeouts.call);
        let sending = async move {
            let sent = client.prompt_async(&session, &prompt).await;
            sent.map_err(|error| format!("OpenCode did not accept the prompt: {}", chain(&error)))
        };
        self.sending = Some(in_time(timeouts, "OpenCode did not accept the prompt", sending).boxed());
    }

    fn abort(&mut self, session: SessionId) {
        let client = self.client.clone();
        self.call(async move {
            if let Err(error) = client.abort(&session).await {
                tracing::debug!(error = chain(&error), "cannot abort the turn at OpenCode");
            }
            News::Aborted
        });
    }

    fn check(&mut self) {
        let (client, timeouts) = (self.client.clone(), self.timeouts.call);
        let sessions = self.tree.asked(Instant::now());
        self.is_checking = true;
        self.call(async move {
            let asking = async { client.statuses().await.map_err(|error| chain(&error)) };
            let statuses = in_time(timeouts, "OpenCode did not report its status", asking).await;
            let statuses = statuses.inspect_err(|error| tracing::debug!(error, "cannot check the status"));
            News::Statuses(sessions, statuses.ok())
        });
    }

    /// Reads the state after an interruption of the event stream.
    fn catch_up(&mut self) {
        let (client, session) = (self.client.clone(), self.tree.root().clone());
        self.is_catching_up = true;
        self.call(async move {
            let state = read(&client, &session).await;
            if let Err(error) = &state {
                tracing::debug!(error = chain(error), "cannot read the state of OpenCode");
            }
            News::State(state.ok().map(Box::new))
        });
    }
}

async fn read(client: &Client, session: &SessionId) -> Result<State, client::Error> {
    Ok(State {
        messages: client.messages(session).await?,
        todos: client.todos(session).await?,
        permissions: client.permissions().await?,
        questions: client.questions().await?,
    })
}

/// Finds the server, listens to its events, and resumes the session with this id or creates one.
pub(super) async fn open(
    agent: &OpenCode,
    turn: &Turn,
    resume: Option<&str>,
) -> Result<Opened<SessionConnection>, String> {
    let directory = &turn.session.directory;
    let lease = agent.server.lease(directory).await?;
    let client = lease.client.clone().in_directory(directory);
    let Timeouts { call, lost, pace } = agent.timeouts;
    let stream = in_time(call, "the event stream of OpenCode did not open", listen(&client, lost)).await?;
    let opening = Box::pin(session(agent, &client, resume));
    let (session, lost) = in_time(call, "OpenCode did not open the session", opening).await?;
    let process = SessionConnection {
        lease,
        client,
        stream,
        mint: Arc::clone(&agent.mint),
        timeouts: agent.timeouts,
        mode: agent.options.program.mode,
        model: turn.model.clone(),
        agent: turn.agent.clone(),
        tree: Tree::new(session, pace, Instant::now()),
        prompts: VecDeque::new(),
        sending: None,
        calls: FuturesUnordered::new(),
        is_checking: false,
        is_catching_up: false,
    };
    Ok(Opened { process, lost })
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
                return Err(format!("cannot open the event stream of OpenCode: {}", chain(&error)));
            }
            None => return Err("the event stream of OpenCode ended at once".to_owned()),
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
            Err(error) => return Err(format!("cannot read the session from OpenCode: {}", chain(&error))),
        }
    }
    let created = client.create_session(&wire::session(agent.options.program.mode)).await;
    let created = created.map_err(|error| format!("OpenCode cannot create a session: {}", chain(&error)))?;
    Ok((created.id, lost))
}

/// Awaits a future with a timeout, and fails with `late` if it expires.
async fn in_time<T>(
    timeouts: Duration,
    late: &str,
    work: impl Future<Output = Result<T, String>>,
) -> Result<T, String> {
    let done = timeout(timeouts, work).await;
    done.unwrap_or_else(|_| Err(format!("{late} within {timeouts:?}")))
}

/// Awaits a future if there is one, or else for ever.
async fn maybe<T>(work: Option<impl Future<Output = T>>) -> T {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}
