//! A prompt, from its start until its answer is queued for the user.

use std::{future, sync::Arc, time::Duration};

use client::{
    answer::Answer,
    streaming::{Ending, Progress, PromptResult},
};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::BoxStream};
use protocol::{EndReason, MessageId, Millis, SessionId};
use sync_wrapper::SyncWrapper;

use super::{
    board::Board,
    prompt,
    start::{Failure, Start, Started},
    worker::Worker,
};
use crate::{
    Adapter, Document, Post,
    courier::Showing,
    ledger::{self, PendingUpdate, State, UpdateId},
    words,
};

/// Maximum number of attempts before a message is set aside; they take about six minutes.
const ATTEMPTS: u32 = 12;

/// Pause before the next attempt; doubles up to [`LONGEST_WAIT`].
const FIRST_WAIT: Millis = 1_000;
const LONGEST_WAIT: Millis = 60_000;

/// An answer of more messages than this is sent as a file.
const MAX_PIECES: usize = 4;

/// The next event of a run.
pub(super) enum Step {
    /// The server accepted the prompt, or it failed.
    Started(Result<Box<Started>, Failure>),
    /// The turn made progress.
    Progressed(Box<Progress>),
}

enum Phase {
    /// The prompt is on its way to the server.
    Starting(BoxFuture<'static, Result<Box<Started>, Failure>>),
    /// The server has the prompt.
    Watching(BoxStream<'static, Progress>),
}

/// The running prompt of a place.
pub(super) struct Run {
    pending: PendingUpdate,
    /// Further messages of the album that is the prompt.
    album: Vec<PendingUpdate>,
    /// Updates that joined the turn, with their prompts; the same answer covers them.
    joined: Vec<(PendingUpdate, MessageId)>,
    /// True if the run now watches the last of the joined prompts.
    is_last: bool,
    /// A worker's future holds `&Worker` across waits, so a worker must be `Sync`; futures and streams are not.
    phase: SyncWrapper<Phase>,
    /// Set as soon as the server has the prompt.
    pub(super) session: Option<SessionId>,
    pub(super) board: Board,
    /// The user wants to stop the turn.
    is_stopping: bool,
}

impl Run {
    /// Waits for the next event, forever if nothing runs. Cancel-safe.
    pub(super) async fn next(run: &mut Option<Self>) -> Step {
        let Some(run) = run else { return future::pending().await };
        match run.phase.get_mut() {
            Phase::Starting(start) => Step::Started(start.await),
            Phase::Watching(stream) => match stream.next().await {
                Some(progress) => Step::Progressed(Box::new(progress)),
                None => future::pending().await,
            },
        }
    }

    /// True if this run answers the update.
    pub(super) fn is_about(&self, id: UpdateId) -> bool {
        let mut others = self.album.iter().chain(self.joined.iter().map(|(pending, _)| pending));
        self.pending.id == id || others.any(|pending| pending.id == id)
    }

    /// The id of the run's first prompt, which joined updates share.
    fn prompt(&self) -> Option<&MessageId> {
        if let State::Running(run) = &self.pending.state { Some(&run.prompt) } else { None }
    }
}

impl Worker {
    /// Starts the next message if it is due.
    pub(super) fn begin(&mut self) {
        let Some(index) = self.next_waiting().filter(|_| self.run.is_none()) else { return };
        if self.waiting.get(index).is_none_or(|pending| pending.due > self.ledger().now()) {
            return;
        }
        let pending = self.waiting.remove(index);
        self.queue_notice = None;
        let album = self.take_album(&pending);
        let joined = if matches!(pending.state, State::Running(_)) { self.rejoin() } else { Vec::new() };
        let update = &pending.update;
        let progress = self.context().settings.progress.clone();
        self.run = Some(Run {
            board: Board::new(progress, update.is_direct, update.message.clone()),
            phase: SyncWrapper::new(self.start(pending.clone(), album.clone())),
            pending,
            album,
            joined,
            is_last: false,
            session: None,
            is_stopping: false,
        });
    }

    /// Takes the messages that had joined the resumed turn out of the queue.
    fn rejoin(&mut self) -> Vec<(PendingUpdate, MessageId)> {
        let joined = self.waiting.extract_if(.., |pending| matches!(pending.state, State::Running(_)));
        let with_prompt = joined.filter_map(|pending| match &pending.state {
            State::Running(run) => Some((run.prompt.clone(), pending)),
            State::Waiting => None,
        });
        with_prompt.map(|(prompt, pending)| (pending, prompt)).collect()
    }

    fn start(&self, pending: PendingUpdate, album: Vec<PendingUpdate>) -> Phase {
        let start = Start {
            router: Arc::clone(&self.router),
            place: self.place.clone(),
            adapter: Arc::clone(&self.adapter),
            pending,
            album,
        };
        Phase::Starting(start.go().boxed())
    }

    /// Shows the run's progress if it changed.
    pub(super) fn show(&mut self) {
        if let Some(showing) = self.run.as_mut().and_then(|run| run.board.show()) {
            self.context().couriers.show(&self.place, showing);
        }
    }

    pub(super) async fn started(
        &mut self,
        started: Result<Box<Started>, Failure>,
    ) -> Result<(), ledger::Error> {
        let started = match started {
            Ok(started) => started,
            Err(Failure::Ledger(error)) => return Err(error),
            Err(Failure::Server(error)) => return self.fail(&error).await,
        };
        let Some(run) = &mut self.run else { return Ok(()) };
        if !run.is_last {
            let prompt = started.stream.prompt().clone();
            run.pending.state = State::Running(ledger::Run { session: started.session.clone(), prompt });
        }
        run.session = Some(started.session);
        run.phase = SyncWrapper::new(Phase::Watching(started.stream.into_stream().boxed()));
        if run.is_stopping {
            self.stop_run().await;
        }
        for note in started.notes {
            self.say(note).await?;
        }
        Ok(())
    }

    pub(super) async fn progressed(&mut self, progress: Progress) -> Result<(), ledger::Error> {
        let now = self.ledger().now();
        let can_stream = self.context().settings.stream && self.adapter.features().streaming;
        let Some(run) = &mut self.run else { return Ok(()) };
        match progress {
            Progress::Text(text) if can_stream => run.board.note_preview(text),
            Progress::Text(_) => {}
            Progress::Tool { tool, title } => run.board.note_tool(&tool, &title),
            Progress::Activity(activity) => run.board.note_activity(activity, now),
            Progress::Queued(count) => run.board.note_queue(count.saturating_sub(run.joined.len())),
            Progress::GoesOn(words) => run.board.note_going_on(&words),
            Progress::Heartbeat => self.sign_of_life().await,
            Progress::Asked(request) => self.ask(request).await?,
            Progress::Settled { id } => self.settled_elsewhere(&id).await?,
            Progress::Done(outcome) => self.finish(outcome).await?,
        }
        Ok(())
    }

    async fn sign_of_life(&mut self) {
        let Some(session) = self.run.as_ref().and_then(|run| run.session.clone()) else { return };
        let todos = self.todos(&session).await;
        if let Some(run) = &mut self.run {
            run.board.note_life(todos);
        }
    }

    /// Finished todos and all todos; `None` if there are none.
    pub(super) async fn todos(&self, session: &SessionId) -> Option<(usize, usize)> {
        let todos = self.context().client.todos(session).await.ok().filter(|todos| !todos.is_empty())?;
        let done = todos.iter().filter(|todo| matches!(todo.status.as_str(), "completed" | "cancelled"));
        Some((done.count(), todos.len()))
    }

    /// Aborts the running turn and returns the error if that fails. The end of the turn is reported when it comes.
    pub(super) async fn stop_run(&mut self) -> Option<client::Error> {
        let run = self.run.as_mut()?;
        run.is_stopping = true;
        // Before the server has the prompt there is nothing to abort; `started` aborts it then.
        let session = run.session.clone()?;
        self.context().client.abort(&session).await.err()
    }

    /// True if a message can join the running turn.
    pub(super) fn can_steer(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.session.is_some() && !run.is_stopping && !run.is_last)
    }

    /// Adds a message to the running turn.
    pub(super) async fn steer(&mut self, mut pending: PendingUpdate) -> Result<(), ledger::Error> {
        let Some(session) = self.run.as_ref().and_then(|run| run.session.clone()) else { return Ok(()) };
        let update = self.context().with_quote(&self.place, pending.update.clone()).await?;
        let made = prompt::make(&*self.adapter, &self.context().files, pending.id, &update).await;
        for note in made.notes {
            self.say(note).await?;
        }
        let (state, id) = (self.ledger().place_state(&self.place).await?, client::id::message());
        let run = ledger::Run { session: session.clone(), prompt: id.clone() };
        self.ledger().run(pending.id, run.clone()).await?;
        pending.state = State::Running(run);
        // No `delivery`: a prompt joins the running turn by default.
        let mut input = made.prompt;
        input.message_id = Some(id.clone());
        (input.model, input.agent) = (state.model, state.agent);
        match self.context().client.prompt_async(&session, &input).await {
            Ok(()) => {
                if let Some(run) = &mut self.run {
                    run.joined.push((pending, id));
                }
            }
            // Retried later under the same id.
            Err(error) if error.is_transient() => self.waiting.push(pending),
            Err(error) => self.conclude(&pending, vec![Post::text(words::failure(&error, 1))]).await?,
        }
        Ok(())
    }

    async fn finish(&mut self, outcome: PromptResult) -> Result<(), ledger::Error> {
        let Some(mut run) = self.run.take() else { return Ok(()) };
        if let Ending::Lost(why) = &outcome.ending {
            tracing::warn!(place = %self.place, why, "lost the connection to the server during an answer");
            return self.lose(run, &outcome).await;
        }
        // A prompt that joined late may be answered after the others.
        if let (Ending::Complete, false, Some((last, _))) = (&outcome.ending, run.is_last, run.joined.last())
        {
            run.phase = SyncWrapper::new(self.start(last.clone(), Vec::new()));
            run.is_last = true;
            self.run = Some(run);
            return Ok(());
        }
        let outcome = self.whole(&run, outcome).await;
        let posts = self.posts(&outcome, &run.pending);
        self.end(&run, posts, false).await?;
        if matches!(outcome.ending, Ending::Ended(EndReason::Aborted) | Ending::TimedOut) {
            return self.drop_asks().await;
        }
        self.reconcile().await
    }

    /// The combined answer to the prompt and to those that joined it.
    async fn whole(&self, run: &Run, mut outcome: PromptResult) -> PromptResult {
        let (Some(session), Some(prompt), false) = (&run.session, run.prompt(), run.joined.is_empty()) else {
            return outcome;
        };
        if let Ok(messages) = self.context().client.messages(session).await {
            let mut answer = Answer::new(session.clone(), prompt.clone());
            answer.read(&messages);
            outcome.text = answer.text();
        }
        outcome
    }

    /// Schedules another attempt to follow a turn whose connection was lost, up to the limit of attempts.
    async fn lose(&mut self, run: Run, outcome: &PromptResult) -> Result<(), ledger::Error> {
        if self.postpone(&run.pending).await? < ATTEMPTS {
            self.context().couriers.show(&self.place, Showing::default());
            self.has_news = true;
            return Ok(());
        }
        let posts = self.posts(outcome, &run.pending);
        self.end(&run, posts, true).await
    }

    /// Handles a prompt that the server refused or that could not be sent.
    async fn fail(&mut self, error: &client::Error) -> Result<(), ledger::Error> {
        let Some(run) = self.run.take() else { return Ok(()) };
        tracing::warn!(place = %self.place, error = error as &dyn std::error::Error, "a prompt failed");
        let mut attempts = run.pending.attempts + 1;
        if error.is_transient() && !run.is_stopping {
            attempts = self.postpone(&run.pending).await?;
            if attempts < ATTEMPTS {
                self.context().couriers.show(&self.place, Showing::default());
                // The ledger may know more about the update by now, such as its prompt's id.
                self.has_news = true;
                return Ok(());
            }
        }
        let text = if run.is_stopping { "Stopped.".to_owned() } else { words::failure(error, attempts) };
        self.end(&run, vec![Post::text(text)], !run.is_stopping).await
    }

    /// Schedules another attempt, and tells the user about the first failure. Returns the number of failures.
    async fn postpone(&self, pending: &PendingUpdate) -> Result<u32, ledger::Error> {
        let wait = FIRST_WAIT.saturating_mul(1 << pending.attempts.min(16)).min(LONGEST_WAIT);
        let attempts = self.ledger().retry(pending.id, self.ledger().now() + wait).await?;
        if attempts == 1 {
            self.say(words::AWAY).await?;
        }
        Ok(attempts)
    }

    /// Finishes the run. The other updates are finished first, because the posts are stored with the first one.
    async fn end(&mut self, run: &Run, posts: Vec<Post>, is_aside: bool) -> Result<(), ledger::Error> {
        for pending in run.album.iter().chain(run.joined.iter().map(|(pending, _)| pending)) {
            self.conclude(pending, Vec::new()).await?;
        }
        if is_aside {
            self.ledger().set_aside(run.pending.id, &self.place, posts).await?;
        } else {
            self.ledger().done(run.pending.id, &self.place, posts).await?;
        }
        self.context().couriers.show(&self.place, run.board.last());
        self.context().couriers.wake(&self.place);
        Ok(())
    }

    fn posts(&self, outcome: &PromptResult, pending: &PendingUpdate) -> Vec<Post> {
        let timeout = Duration::from_millis(self.context().settings.timeout_ms);
        let mut posts = posts(&*self.adapter, &words::outcome(outcome, timeout));
        if let Some(first) = posts.first_mut() {
            first.is_answer = true;
            // In a group, a reply shows which message is answered.
            first.reply_to = pending.update.message.clone().filter(|_| !pending.update.is_direct);
        }
        posts
    }
}

/// Splits a text into posts; a text that is too long for a chat is sent as a file.
pub(super) fn posts(adapter: &dyn Adapter, text: &str) -> Vec<Post> {
    let mut pieces = adapter.split(text);
    let fits = |limit: u64| u64::try_from(text.len()).is_ok_and(|length| length <= limit);
    if pieces.len() <= MAX_PIECES || !adapter.features().files.is_some_and(fits) {
        return pieces.into_iter().map(Post::text).collect();
    }
    let file =
        Document { name: "answer.md".to_owned(), mime: "text/markdown".to_owned(), text: text.to_owned() };
    let whole = Post { file: Some(file), ..Post::text("The whole answer is in this file.") };
    pieces.truncate(1);
    pieces.into_iter().map(Post::text).chain([whole]).collect()
}
