//! A prompt, and everything there is to tell about it until its answer is complete.
//!
//! [`Client::prompt_streaming`] listens before it asks, so that nothing is missed, and then reports what a person
//! who waits wants to know: the words so far, each tool call once, a sign of life after a silence, what the agent
//! or one of its children asks, and in the end, exactly once, how it ended. A lost connection is taken up again; if
//! that cannot be done, what was said so far is still handed over.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    pin::Pin,
    time::Duration,
};

use futures::{Stream, StreamExt, stream::BoxStream};
use protocol::{
    EndReason, EventBody, MessageError, MessageId, PartBody, SessionId, ToolState, continuation::StopReason,
    part::ToolPart, prompt::PromptInput,
};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::{
    Client, Error, Received, Scope,
    answer::Answer,
    view::{Activity, Change, Request, SessionView},
};

/// How long the server may take to say that it listens.
const CONNECT: Duration = Duration::from_secs(30);

/// When to say what.
#[derive(Debug, Clone)]
pub struct Pace {
    /// How long an answer may take, not counting the time in which a person is asked something. After that the
    /// turn is stopped.
    pub timeout: Duration,
    /// The least time between two reported tool calls.
    pub tools: Duration,
    /// After how much silence there is a sign of life.
    pub heartbeat: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(5),
            tools: Duration::from_secs(5),
            heartbeat: Duration::from_mins(1),
        }
    }
}

/// What there is to tell.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// The answer reads like this now; a preview, until [`Progress::Done`].
    Text(String),
    /// A tool runs. Each call is told at most once, and not more often than [`Pace::tools`] allows.
    Tool {
        /// The tool's name.
        tool: String,
        /// For people.
        title: String,
    },
    /// Nothing was told for a while, and work goes on.
    Heartbeat,
    /// The agent waits before it asks the model again, or waits no longer.
    Activity(Activity),
    /// Other prompts have to be answered first.
    Queued(usize),
    /// The agent goes on by itself because something is left to do, or is about to; in words for people.
    GoesOn(String),
    /// Somebody has to answer something, with the calls of [`Client`].
    Asked(Request),
    /// Nobody has to answer it any more.
    Settled {
        /// The request.
        id: String,
    },
    /// It is over. Nothing follows.
    Done(Outcome),
}

/// How it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The answer, as far as there is one.
    pub text: String,
    /// How many steps it took.
    pub steps: usize,
    /// Why it is over.
    pub ending: Ending,
    /// Why it did not go on, if todos are left.
    pub left: Option<StopReason>,
}

/// Why it is over.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// The agent said all it had to say.
    Complete,
    /// The turn ended in another way, for instance because somebody stopped it.
    Ended(EndReason),
    /// It failed.
    Failed(MessageError),
    /// It took longer than [`Pace::timeout`], and was stopped.
    TimedOut,
    /// The server could not be reached any more. The turn may go on without anybody watching.
    Lost(String),
}

/// Reports on one prompt, until it is answered.
pub struct PromptStream {
    client: Client,
    events: BoxStream<'static, Result<Received, Error>>,
    prompt: MessageId,
    view: SessionView,
    answer: Answer,
    pace: Pace,
    /// What was found out and is not told yet.
    ready: VecDeque<Progress>,
    /// Tool calls that were told, or left out.
    told: BTreeSet<String>,
    /// When a tool call may be told again.
    tools_at: Instant,
    heartbeat: Pin<Box<Sleep>>,
    deadline: Instant,
    /// Since when a person is asked something.
    asked_since: Option<Instant>,
    /// Whether this prompt's turn was seen to run: an idle before that is another turn's.
    has_begun: bool,
    failure: Option<MessageError>,
    is_done: bool,
}

impl fmt::Debug for PromptStream {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PromptStream")
            .field("prompt", &self.prompt)
            .field("view", &self.view)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Sends a prompt and reports on it. The prompt gets an id if it has none, so that sending it again after a
    /// failure cannot run it twice.
    pub async fn prompt_streaming(
        &self,
        session: &SessionId,
        prompt: PromptInput,
        pace: Pace,
    ) -> Result<PromptStream, Error> {
        let events = self.events(Scope::Directory, None);
        self.prompt_streaming_on(events.boxed(), session, prompt, pace).await
    }

    /// The same, on events that somebody else receives; they have to begin with `server.connected`.
    pub async fn prompt_streaming_on(
        &self,
        events: BoxStream<'static, Result<Received, Error>>,
        session: &SessionId,
        mut prompt: PromptInput,
        pace: Pace,
    ) -> Result<PromptStream, Error> {
        let stream = self.listen(&mut prompt, session, events, pace).await?;
        self.prompt_async(session, &prompt).await?;
        Ok(stream)
    }

    /// The same for a prompt that has an id and may have been sent before, by a process that is gone: what the server
    /// has is not sent again but reported on, even if it is answered already.
    pub async fn take_up_streaming_on(
        &self,
        events: BoxStream<'static, Result<Received, Error>>,
        session: &SessionId,
        mut prompt: PromptInput,
        pace: Pace,
    ) -> Result<PromptStream, Error> {
        let mut stream = self.listen(&mut prompt, session, events, pace).await?;
        let is_known = match self.message(session, stream.prompt()).await {
            Ok(_) => true,
            Err(error) if matches!(error.status(), Some(400..=499)) => false,
            Err(error) => return Err(error),
        };
        if is_known {
            stream.catch_up().await;
            stream.end_what_is_over().await;
        }
        if !is_known || stream.is_forgotten() {
            self.prompt_async(session, &prompt).await?;
        }
        Ok(stream)
    }

    /// Waits until the server tells everything, and gets ready to report on a prompt, which gets an id if it has none.
    async fn listen(
        &self,
        prompt: &mut PromptInput,
        session: &SessionId,
        mut events: BoxStream<'static, Result<Received, Error>>,
        pace: Pace,
    ) -> Result<PromptStream, Error> {
        timeout(CONNECT, connected(&mut events)).await.map_err(|_| Error::Timeout)??;
        let id = prompt.message_id.get_or_insert_with(crate::id::message).clone();
        Ok(PromptStream::new(self, events, session, id, pace))
    }
}

/// Waits until the server says that it will tell everything from now on.
async fn connected(events: &mut BoxStream<'static, Result<Received, Error>>) -> Result<(), Error> {
    while let Some(received) = events.next().await {
        if let EventBody::ServerConnected(_) = received?.event.body {
            return Ok(());
        }
    }
    Err(Error::Timeout)
}

impl PromptStream {
    fn new(
        client: &Client,
        events: BoxStream<'static, Result<Received, Error>>,
        session: &SessionId,
        prompt: MessageId,
        pace: Pace,
    ) -> Self {
        let now = Instant::now();
        Self {
            client: client.clone(),
            events,
            view: SessionView::new(session.clone()),
            answer: Answer::new(session.clone(), prompt.clone()),
            prompt,
            ready: VecDeque::new(),
            told: BTreeSet::new(),
            tools_at: now,
            heartbeat: Box::pin(sleep_until(now + pace.heartbeat)),
            deadline: now + pace.timeout,
            pace,
            asked_since: None,
            has_begun: false,
            failure: None,
            is_done: false,
        }
    }

    /// The prompt's id.
    pub fn prompt(&self) -> &MessageId {
        &self.prompt
    }

    /// The session, as it is known.
    pub fn view(&self) -> &SessionView {
        &self.view
    }

    /// What there is to tell next; nothing after [`Progress::Done`].
    pub async fn next(&mut self) -> Option<Progress> {
        loop {
            if let Some(progress) = self.ready.pop_front() {
                self.heartbeat.as_mut().reset(Instant::now() + self.pace.heartbeat);
                return Some(progress);
            }
            if self.is_done {
                return None;
            }
            let deadline = match self.asked_since {
                // Whoever is asked may take their time.
                Some(_) => Instant::now() + Duration::from_hours(24),
                None => self.deadline,
            };
            tokio::select! {
                biased;
                event = self.events.next() => match event {
                    Some(Ok(received)) => self.receive(received).await,
                    // One odd frame is not the end.
                    Some(Err(Error::Decode(_))) => {}
                    Some(Err(error)) => self.lose(error.to_string()).await,
                    None => self.lose("the stream of events ended".to_owned()).await,
                },
                () = self.heartbeat.as_mut() => self.ready.push_back(Progress::Heartbeat),
                () = sleep_until(deadline) => self.give_up().await,
            }
        }
    }

    async fn receive(&mut self, received: Received) {
        let body = received.event.body;
        if matches!(body, EventBody::ServerConnected(_) | EventBody::ServerResync(_)) {
            return self.catch_up().await;
        }
        if let (EventBody::PermissionAsked(_) | EventBody::QuestionAsked(_), Some(session)) =
            (&body, body.session_id())
        {
            self.meet(session.clone()).await;
        }
        if self.answer.apply(&body) {
            self.ready.push_back(Progress::Text(self.answer.text()));
        }
        match &body {
            EventBody::PartUpdated(it) if self.answer.has(&it.part.message_id) => {
                self.has_begun = true;
                if let PartBody::Tool(tool) = &it.part.body {
                    self.tool(tool);
                }
            }
            EventBody::PromptStarted(it) if it.message_id == self.prompt => self.has_begun = true,
            // Baton says when a prompt is answered, although others may still wait.
            EventBody::PromptEnded(it) if it.message_id == self.prompt => {
                return self.finish(Some(it.reason)).await;
            }
            _ => {}
        }
        if let Some(change) = self.view.apply(&body) {
            self.tell(change).await;
        }
    }

    /// Finds out whose session it is that asks something, if its beginning was missed.
    async fn meet(&mut self, session: SessionId) {
        let mut unknown = Vec::new();
        let mut next = Some(session);
        while let Some(id) = next.take().filter(|id| !self.view.knows(id) && unknown.len() < 16) {
            let Ok(session) = self.client.session(&id).await else { return };
            next.clone_from(&session.parent_id);
            unknown.push(session);
        }
        for session in unknown.iter().rev() {
            self.view.relate(session);
        }
    }

    async fn tell(&mut self, change: Change) {
        match change {
            // Busy after the prompt was handed over is this prompt's, or that of one it waits for.
            Change::Started => self.has_begun = true,
            Change::Retry => self.ready.push_back(Progress::Activity(self.view.activity().clone())),
            Change::Finished { reason } if self.has_begun || !self.answer.text().is_empty() => {
                self.finish(reason).await;
            }
            Change::Finished { .. } | Change::Tokens | Change::Leaves(_) => {}
            Change::GoesOnSoon(it) => self.ready.push_back(Progress::GoesOn(it.describe())),
            Change::GoesOn(it) => self.ready.push_back(Progress::GoesOn(it.describe())),
            Change::Queue => self.ready.push_back(Progress::Queued(self.view.queue_length())),
            Change::Asked(request) => self.ready.push_back(Progress::Asked(request)),
            Change::Settled { id } => self.ready.push_back(Progress::Settled { id }),
            Change::Failed(error) => self.failure = Some(error),
        }
        self.note_asked();
    }

    /// The time in which a person is asked something does not count.
    fn note_asked(&mut self) {
        match (self.view.requests().is_empty(), self.asked_since) {
            (false, None) => self.asked_since = Some(Instant::now()),
            (true, Some(since)) => {
                self.deadline += since.elapsed();
                self.asked_since = None;
            }
            _ => {}
        }
    }

    fn tool(&mut self, tool: &ToolPart) {
        let ToolState::Running(running) = &tool.state else { return };
        let now = Instant::now();
        if now < self.tools_at || !self.told.insert(tool.call_id.clone()) {
            return;
        }
        self.tools_at = now + self.pace.tools;
        let title = running.title.clone().filter(|title| !title.is_empty());
        let title = title.unwrap_or_else(|| tool.tool.clone());
        self.ready.push_back(Progress::Tool { tool: tool.tool.clone(), title });
    }

    /// The connection is new. What was missed is not sent again by every server, so it is fetched.
    async fn catch_up(&mut self) {
        let session = self.view.session().clone();
        let (Ok(statuses), Ok(permissions), Ok(questions), Ok(messages)) = futures::join!(
            self.client.statuses(),
            self.client.permissions(),
            self.client.questions(),
            self.client.messages(&session),
        ) else {
            // If the server is gone the stream will say so.
            return;
        };
        self.answer.read(&messages);
        self.has_begun |= self.answer.steps() > 0;
        let permissions = permissions.into_iter().map(Request::Permission);
        let requests: Vec<Request> =
            permissions.chain(questions.into_iter().map(Request::Question)).collect();
        for request in &requests {
            self.meet(request.session().clone()).await;
        }
        let ours = requests.into_iter().filter(|request| self.view.knows(request.session()));
        let ours = ours.collect();
        let was_streaming = self.view.is_streaming();
        for change in self.view.resync(statuses.get(&session), ours) {
            self.tell(change).await;
        }
        // It began and ended while nobody listened.
        if !was_streaming && !self.view.is_streaming() && self.has_begun {
            self.finish(None).await;
        }
    }

    /// A turn that ended before anybody watched will not end again. Baton knows how it ended, also if it never began.
    async fn end_what_is_over(&mut self) {
        let is_over = !self.is_done && !self.view.is_streaming() && !self.has_begun;
        let turn = if is_over { self.client.last_turn(self.view.session()).await.ok() } else { None };
        let turn = turn.filter(|turn| turn.message_id == self.prompt);
        if let Some(end) = turn.and_then(|turn| turn.end) {
            self.finish(Some(end)).await;
        }
    }

    /// Whether the server has the prompt and does nothing about it.
    fn is_forgotten(&self) -> bool {
        !self.is_done && !self.has_begun && !self.view.is_streaming()
    }

    async fn finish(&mut self, reason: Option<EndReason>) {
        // What was stored is the truth; what was streamed may have gaps.
        if let Ok(messages) = self.client.messages(self.view.session()).await {
            self.answer.read(&messages);
        }
        let error = self.answer.error().cloned().or_else(|| self.failure.take());
        let ending = match (reason, error) {
            (Some(EndReason::Completed) | None, None) => Ending::Complete,
            (_, Some(MessageError::Aborted { .. })) if reason.is_none() => Ending::Ended(EndReason::Aborted),
            (None | Some(EndReason::Error | EndReason::Completed), Some(error)) => Ending::Failed(error),
            (Some(reason), _) => Ending::Ended(reason),
        };
        self.done(ending);
    }

    async fn give_up(&mut self) {
        // Nobody waits for it any more.
        let _ = self.client.abort(self.view.session()).await;
        self.done(Ending::TimedOut);
    }

    async fn lose(&mut self, why: String) {
        if let Ok(messages) = self.client.messages(self.view.session()).await {
            self.answer.read(&messages);
        }
        self.done(Ending::Lost(why));
    }

    fn done(&mut self, ending: Ending) {
        if !self.is_done {
            self.is_done = true;
            let (text, steps) = (self.answer.text(), self.answer.steps());
            self.ready.push_back(Progress::Done(Outcome { text, steps, ending, left: self.view.left() }));
        }
    }
}

impl PromptStream {
    /// Everything there is to tell, in order, as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Progress> {
        futures::stream::unfold(self, |mut prompt| async move {
            let progress = prompt.next().await?;
            Some((progress, prompt))
        })
    }
}
