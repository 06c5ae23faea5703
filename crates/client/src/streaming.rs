//! Sends a prompt and reports its progress until the answer is complete.
//!
//! [`Client::prompt_streaming`] subscribes before it sends the prompt, so that no event is missed. It then reports
//! the text so far, each tool call once, heartbeats during silence, requests of the agent and its children, and
//! finally, exactly once, the outcome. A lost connection is resumed; if that fails, the outcome still has the text
//! received so far.

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    pin::Pin,
    time::Duration,
};

use futures::{Stream, StreamExt, stream::BoxStream};
use protocol::{
    EndReason, EventBody, MessageError, MessageId, PartBody, SessionId, ToolState, continuation::StopReason,
    part::ToolPart, prompt::PromptInput, title,
};
use tokio::time::{Instant, Sleep, sleep_until, timeout};

use crate::{
    Client, Error, Received, Scope,
    answer::Answer,
    view::{Activity, Change, Request, SessionView},
};

/// Timeout for the server's `server.connected` event.
const CONNECT: Duration = Duration::from_secs(30);

/// Timing of the reports.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Maximum silence of a turn: time without any event of the session or its children. After that the turn is
    /// aborted. The time during which a request is open or the model call is being retried does not count, because
    /// then the agent waits for the user or for a known moment.
    pub timeout: Duration,
    /// Minimum time between two reported tool calls.
    pub tools: Duration,
    /// Silence before a heartbeat. There is none while a request is open: then the agent waits for the user.
    pub heartbeat: Duration,
    /// True if the user sees the growing text, which then delays a heartbeat as any other report does.
    pub shows_text: bool,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(30),
            tools: Duration::from_secs(5),
            heartbeat: Duration::from_mins(1),
            shows_text: true,
        }
    }
}

/// A report on a prompt's progress.
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// The text of the answer so far; a preview until [`Progress::Done`].
    Text(String),
    /// A tool runs. Each call is reported at most once, and not more often than [`Pace::tools`] allows.
    Tool {
        tool: String,
        /// Shown to users.
        title: String,
    },
    /// Nothing was reported for a while, and the turn still runs.
    Heartbeat,
    /// The model call is being retried, or works again.
    Activity(Activity),
    /// Number of other prompts in the queue.
    Queued(usize),
    /// The turn continues by itself because something is left to do, or is about to; a text for users.
    GoesOn(String),
    /// A request is open; [`Client`] has the calls to answer it.
    Asked(Request),
    /// A request is closed.
    Settled {
        /// The request's id.
        id: String,
    },
    /// The turn is over. Nothing follows.
    Done(PromptResult),
}

/// The result of a prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptResult {
    /// The answer, as far as there is one.
    pub text: String,
    /// Number of steps of the answer.
    pub steps: usize,
    pub ending: Ending,
    /// True if the model's output limit cut the answer off.
    pub is_cut_off: bool,
    /// The reason why the turn did not continue, if todos are left.
    pub left: Option<StopReason>,
}

/// The ways in which a prompt ends.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// The answer is complete.
    Complete,
    /// The turn ended in another way, for instance by an abort.
    Ended(EndReason),
    Failed(MessageError),
    /// Nothing happened for [`Pace::timeout`], and the turn was aborted.
    TimedOut,
    /// The connection to the server was lost. The turn may still run.
    Lost(String),
}

/// Reports the progress of one prompt until it is answered.
pub struct PromptStream {
    client: Client,
    events: BoxStream<'static, Result<Received, Error>>,
    prompt: MessageId,
    view: SessionView,
    answer: Answer,
    pace: Pace,
    /// Reports that the caller has not read yet.
    ready: VecDeque<Progress>,
    /// Tool calls that were reported.
    told: BTreeSet<String>,
    /// Earliest time of the next reported tool call.
    tools_at: Instant,
    heartbeat: Pin<Box<Sleep>>,
    /// Time of the last event of the session or its children; later if a wait does not count as silence.
    last_event: Instant,
    is_asking: bool,
    /// True if this prompt's turn was seen to run: an earlier idle belongs to another turn.
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
    /// Sends a prompt and reports its progress. The prompt gets an id if it has none, so that sending it again
    /// after a failure cannot run it twice.
    pub async fn prompt_streaming(
        &self,
        session: &SessionId,
        prompt: PromptInput,
        pace: Pace,
    ) -> Result<PromptStream, Error> {
        let events = self.events(Scope::Directory, None);
        self.prompt_streaming_on(events.boxed(), session, prompt, pace).await
    }

    /// The same on an existing stream of events, which must begin with `server.connected`.
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

    /// The same for a prompt with an id that an earlier process may have sent: if the server has it, it is not sent
    /// again but reported, even if it is already answered.
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

    /// Waits until the server sends events, and prepares the report on a prompt, which gets an id if it has none.
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

/// Waits for `server.connected`, after which the server sends every event.
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
            last_event: now,
            pace,
            is_asking: false,
            has_begun: false,
            failure: None,
            is_done: false,
        }
    }

    pub fn prompt(&self) -> &MessageId {
        &self.prompt
    }

    /// The session's state as far as it is known.
    pub fn view(&self) -> &SessionView {
        &self.view
    }

    /// The next report; `None` after [`Progress::Done`].
    pub async fn next(&mut self) -> Option<Progress> {
        loop {
            if let Some(progress) = self.ready.pop_front() {
                if self.pace.shows_text || !matches!(progress, Progress::Text(_)) {
                    self.heartbeat.as_mut().reset(Instant::now() + self.pace.heartbeat);
                }
                return Some(progress);
            }
            if self.is_done {
                return None;
            }
            let is_silence_limited = !self.is_asking && !self.is_retrying();
            tokio::select! {
                biased;
                event = self.events.next() => match event {
                    Some(Ok(received)) => self.receive(received).await,
                    // An unreadable frame does not end the stream.
                    Some(Err(Error::Decode(_))) => {}
                    Some(Err(error)) => self.lose(error.to_string()).await,
                    None => self.lose("the stream of events ended".to_owned()).await,
                },
                () = self.heartbeat.as_mut(), if !self.is_asking => {
                    self.ready.push_back(Progress::Heartbeat);
                }
                () = sleep_until(self.last_event + self.pace.timeout), if is_silence_limited => {
                    self.give_up().await;
                }
            }
        }
    }

    fn is_retrying(&self) -> bool {
        matches!(self.view.activity(), Activity::Retrying { .. })
    }

    async fn receive(&mut self, received: Received) {
        let body = received.event.body;
        if body.session_id().is_some_and(|session| self.view.knows(session)) {
            self.last_event = Instant::now();
        }
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
            // Baton reports the end of each prompt, even if other prompts are still queued.
            EventBody::PromptEnded(it) if it.message_id == self.prompt => {
                return self.finish(Some(it.reason)).await;
            }
            _ => {}
        }
        if let Some(change) = self.view.apply(&body) {
            self.tell(change).await;
        }
    }

    /// Reads the ancestors of a session that asks, if its creation was missed.
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
            // Busy after the prompt was sent belongs to this prompt's turn, or to one that it waits for.
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

    /// Starts both timers again when the last open request is closed.
    fn note_asked(&mut self) {
        let is_asking = !self.view.requests().is_empty();
        if self.is_asking && !is_asking {
            self.last_event = Instant::now();
            self.heartbeat.as_mut().reset(self.last_event + self.pace.heartbeat);
        }
        self.is_asking = is_asking;
    }

    fn tool(&mut self, tool: &ToolPart) {
        let ToolState::Running(running) = &tool.state else { return };
        let now = Instant::now();
        if now < self.tools_at || !self.told.insert(tool.call_id.clone()) {
            return;
        }
        self.tools_at = now + self.pace.tools;
        let title = running.title.clone().filter(|title| !title.is_empty());
        let title = title.or_else(|| title::of_call(&tool.tool, &running.input));
        let title = title.unwrap_or_else(|| tool.tool.clone());
        self.ready.push_back(Progress::Tool { tool: tool.tool.clone(), title });
    }

    /// Reads the state after a new connection, because not every server replays missed events.
    async fn catch_up(&mut self) {
        let session = self.view.session().clone();
        let (Ok(statuses), Ok(permissions), Ok(questions), Ok(messages)) = futures::join!(
            self.client.statuses(),
            self.client.permissions(),
            self.client.questions(),
            self.client.messages(&session),
        ) else {
            // If the server is gone, the stream reports it.
            return;
        };
        let before = (self.answer.steps(), self.answer.text());
        self.answer.read(&messages);
        if before != (self.answer.steps(), self.answer.text()) {
            self.last_event = Instant::now();
        }
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
        // The turn began and ended while the connection was down.
        if !was_streaming && !self.view.is_streaming() && self.has_begun {
            self.finish(None).await;
        }
    }

    /// Ends the report on a turn that is already over. Baton knows how a turn ended, even if it never began.
    async fn end_what_is_over(&mut self) {
        let is_over = !self.is_done && !self.view.is_streaming() && !self.has_begun;
        let turn = if is_over { self.client.last_turn(self.view.session()).await.ok() } else { None };
        let turn = turn.filter(|turn| turn.message_id == self.prompt);
        if let Some(end) = turn.and_then(|turn| turn.end) {
            self.finish(Some(end)).await;
        }
    }

    /// True if the server has the prompt but does not run it.
    fn is_forgotten(&self) -> bool {
        !self.is_done && !self.has_begun && !self.view.is_streaming()
    }

    async fn finish(&mut self, reason: Option<EndReason>) {
        // Stored messages are complete; streamed ones may have gaps.
        if let Ok(messages) = self.client.messages(self.view.session()).await {
            self.answer.read(&messages);
        }
        let error = self.answer.error().cloned().or_else(|| self.failure.take());
        let ending = match (reason, error) {
            (Some(EndReason::Completed) | None, None) => Ending::Complete,
            (None, Some(error)) if error == MessageError::interrupted() => {
                Ending::Ended(EndReason::Interrupted)
            }
            (_, Some(MessageError::OutputLength { .. })) if self.answer.is_cut_off() => Ending::Complete,
            (_, Some(MessageError::Aborted { .. })) if reason.is_none() => Ending::Ended(EndReason::Aborted),
            (None | Some(EndReason::Error | EndReason::Completed), Some(error)) => Ending::Failed(error),
            (Some(reason), _) => Ending::Ended(reason),
        };
        self.done(ending);
    }

    async fn give_up(&mut self) {
        // The caller no longer waits for the turn.
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
            let (is_cut_off, left) = (self.answer.is_cut_off(), self.view.left());
            self.ready.push_back(Progress::Done(PromptResult { text, steps, ending, is_cut_off, left }));
        }
    }
}

impl PromptStream {
    /// All reports in order, as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Progress> {
        futures::stream::unfold(self, |mut prompt| async move {
            let progress = prompt.next().await?;
            Some((progress, prompt))
        })
    }
}
