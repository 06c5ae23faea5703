//! The task of one place: handles its updates in order.

use std::{sync::Arc, time::Duration};

use protocol::Millis;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use super::{
    Context, Inner,
    command::{self, Command},
    requests::Note,
    run::{Run, Step},
    start::Failure,
};
use crate::{
    Adapter, Content, Place, Post, Update,
    courier::Showing,
    ledger::{self, Ledger, Paired, PendingUpdate, PostId, Roles, State},
    settings::Busy,
    words,
};

/// Maximum number of queued messages of a place.
const MAX_WAITING: usize = 20;

/// Maximum length of a message in bytes. No service lets users send longer messages.
const MAX_TEXT: usize = 64 << 10;

/// Time to wait for further messages of an album. Services deliver them within moments.
const ALBUM_WAIT: Millis = 1_000;

/// Pause after the ledger failed; doubles up to [`LONGEST_REST`].
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_mins(1);

/// The task that handles one place.
pub(super) struct Worker {
    pub(super) router: Arc<Inner>,
    pub(super) place: Place,
    pub(super) adapter: Arc<dyn Adapter>,
    wakes: mpsc::Receiver<()>,
    /// The running prompt.
    pub(super) run: Option<Run>,
    /// Queued messages, oldest first.
    pub(super) waiting: Vec<PendingUpdate>,
    /// The post that says how many messages are queued; the next queued message edits it.
    pub(super) queue_notice: Option<PostId>,
    /// Time at which the first of the open requests times out.
    pub(super) expiry: Option<Millis>,
    /// True if there may be new updates.
    pub(super) has_news: bool,
}

impl Worker {
    pub(super) fn new(
        router: Arc<Inner>,
        place: Place,
        adapter: Arc<dyn Adapter>,
        wakes: mpsc::Receiver<()>,
    ) -> Self {
        Self {
            router,
            place,
            adapter,
            wakes,
            run: None,
            waiting: Vec::new(),
            queue_notice: None,
            expiry: None,
            has_news: true,
        }
    }

    pub(super) fn context(&self) -> &Context {
        &self.router.context
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.router.context.ledger
    }

    /// Works until nothing is left to do. If the ledger fails, drops the state and reads it again later; prompts
    /// that the server already has are then resumed, not sent again.
    pub(super) async fn run(mut self) {
        let mut rest = FIRST_REST;
        loop {
            let began = Instant::now();
            let Err(error) = self.work().await else { return };
            tracing::error!(place = %self.place, %error, "the ledger failed; this place pauses");
            self.run = None;
            self.waiting.clear();
            self.has_news = true;
            self.context().couriers.show(&self.place, Showing::default());
            rest = if began.elapsed() > LONGEST_REST { FIRST_REST } else { rest };
            // A wake-up means that an update was stored, so the ledger works again.
            let _ = timeout(rest, self.wakes.recv()).await;
            rest = (rest * 2).min(LONGEST_REST);
        }
    }

    async fn work(&mut self) -> Result<(), ledger::Error> {
        self.reconcile().await?;
        self.show_marks().await?;
        loop {
            // News go before timers: a message of an album may have arrived with the end of the wait for it.
            self.has_news |= self.wakes.try_recv().is_ok();
            if std::mem::take(&mut self.has_news) {
                self.read_news().await?;
            }
            self.begin();
            self.show();
            let is_at_rest = self.run.is_none() && self.waiting.is_empty() && self.expiry.is_none();
            if is_at_rest && !self.has_news {
                if self.router.leave(&self.place, &mut self.wakes) {
                    return Ok(());
                }
                self.has_news = true;
            }
            if self.has_news {
                continue;
            }
            let due = self.due();
            tokio::select! {
                _ = self.wakes.recv() => self.has_news = true,
                step = Run::next(&mut self.run) => self.step(step).await?,
                () = sleep_until(due) => self.expire().await?,
            }
        }
    }

    /// Time of the next timer: showing progress, retrying a prompt, or expiring a request.
    fn due(&self) -> Instant {
        let now = Instant::now();
        let clock = self.ledger().now();
        let from_now =
            |due: Millis| now + Duration::from_millis(u64::try_from(due - clock).unwrap_or_default());
        let shown = self.run.as_ref().and_then(|run| run.board.due());
        let retried = self.next_waiting().filter(|_| self.run.is_none());
        let retried = retried.and_then(|index| self.waiting.get(index)).map(|pending| from_now(pending.due));
        let expired = self.expiry.map(from_now);
        // Far in the future, yet small enough not to overflow.
        let never = now + Duration::from_hours(24);
        [shown, retried, expired].into_iter().flatten().fold(never, Instant::min)
    }

    /// Handles new notes and updates.
    async fn read_news(&mut self) -> Result<(), ledger::Error> {
        if let Some(to) = self.ledger().moved_to(&self.place).await? {
            self.router.forward(&self.place, to);
            // The worker of the new place takes over and finds all of this in the ledger.
            (self.run, self.expiry) = (None, None);
            self.waiting.clear();
            self.context().couriers.show(&self.place, Showing::default());
            return Ok(());
        }
        let notes = self.router.notes.lock().remove(&self.place).unwrap_or_default();
        for note in notes {
            match note {
                Note::Asked(request) => self.ask(*request).await?,
                Note::Settled(id) => self.settled_elsewhere(&id).await?,
            }
        }
        for pending in self.ledger().open_updates(&self.place).await? {
            if self.is_known(pending.id) {
                continue;
            }
            match pending.state {
                State::Running(_) => self.waiting.push(pending),
                State::Waiting => self.handle(pending).await?,
            }
        }
        Ok(())
    }

    fn is_known(&self, id: ledger::UpdateId) -> bool {
        self.waiting.iter().any(|pending| pending.id == id)
            || self.run.as_ref().is_some_and(|run| run.is_about(id))
    }

    async fn handle(&mut self, pending: PendingUpdate) -> Result<(), ledger::Error> {
        let update = &pending.update;
        if !self.is_meant(update).await? {
            return self.conclude(&pending, Vec::new()).await;
        }
        let roles = self.context().roles(&self.place.channel, &update.sender).await?;
        if !roles.prompt && !roles.approve {
            return self.turn_away(&pending).await;
        }
        self.remember(update).await?;
        match &update.content {
            Content::Tap { token, receipt } => {
                let (token, receipt) = (token.clone(), receipt.clone());
                self.tap(&pending, &token, receipt, roles).await
            }
            Content::Stop => self.command(&pending, Command::Cancel, roles).await,
            Content::Unusable { why } => {
                let post = Post { reply_to: update.message.clone(), ..Post::text(words::unusable(*why)) };
                self.conclude(&pending, vec![post]).await
            }
            Content::Message { text, .. } if text.len() > MAX_TEXT => {
                tracing::warn!(place = %self.place, bytes = text.len(), "refused a message that is too long");
                self.conclude(&pending, vec![Post::text("This message is too long. Send it as a file.")])
                    .await
            }
            Content::Message { text, files } => match command::parse(text) {
                Some(Command::New(words)) if !words.is_empty() && roles.prompt => {
                    self.begin_with(pending, roles).await
                }
                Some(command) => self.command(&pending, command, roles).await,
                None if files.is_empty() && text.trim().is_empty() => {
                    self.conclude(&pending, Vec::new()).await
                }
                None if files.is_empty() && self.answer(&pending, text, roles).await? => Ok(()),
                None => self.enqueue(pending, roles).await,
            },
        }
    }

    /// Returns true if an update is for the agent: every update in a direct chat, and in a group only updates that
    /// address the agent or belong to a thread with a session.
    async fn is_meant(&self, update: &Update) -> Result<bool, ledger::Error> {
        if update.is_direct || update.is_addressed || !matches!(update.content, Content::Message { .. }) {
            return Ok(true);
        }
        // Only one message of an album has the caption that addresses the agent.
        if update.album.is_some() && self.waiting.iter().any(|it| it.update.album == update.album) {
            return Ok(true);
        }
        Ok(self.place.thread.is_some() && self.ledger().place_state(&self.place).await?.session.is_some())
    }

    /// Refuses a user without access, unless the message is a pairing code.
    async fn turn_away(&self, pending: &PendingUpdate) -> Result<(), ledger::Error> {
        let update = &pending.update;
        match &update.content {
            Content::Message { text, .. } if update.is_direct => {
                if let Some(Command::Pair(code)) = command::parse(text) {
                    return self.pair(pending, &code).await;
                }
            }
            Content::Tap { receipt: Some(receipt), .. } => {
                let words = Some("You have no access, so you cannot decide this.".to_owned());
                self.context().couriers.confirm_tap(&self.place, receipt.clone(), words);
            }
            _ => {}
        }
        tracing::warn!(place = %self.place, sender = update.sender.id, "refused a user without access");
        let is_told = matches!(update.content, Content::Message { .. })
            && self.router.strangers.is_to_be_told(update, self.ledger().now());
        let posts = if is_told { vec![Post::text(words::STRANGER)] } else { Vec::new() };
        self.conclude(pending, posts).await
    }

    pub(super) async fn pair(&self, pending: &PendingUpdate, code: &str) -> Result<(), ledger::Error> {
        let paired = self.ledger().pair(&self.place.channel, &pending.update.sender, code).await?;
        let is_paired = matches!(paired, Paired::Yes(_));
        tracing::info!(place = %self.place, sender = pending.update.sender.id, is_paired, "a user sent a pairing code");
        let text = match paired {
            Paired::Yes(Roles { approve: true, .. }) => {
                "Welcome. You can send prompts and answer permission requests. /help lists the commands."
            }
            Paired::Yes(_) => "Welcome. You can send prompts. /help lists the commands.",
            Paired::Wrong => "That code is not valid. Codes can be used once, within an hour.",
            Paired::TooOften => "Too many wrong codes. Try again in an hour.",
        };
        self.conclude(pending, vec![Post::text(text)]).await
    }

    /// Stores the last message of the place.
    async fn remember(&self, update: &Update) -> Result<(), ledger::Error> {
        let (sent, message) = (update.sent, update.message.clone());
        self.ledger()
            .change_place_state(&self.place, move |state| {
                state.heard = Some(sent);
                state.message = message.or(state.message.take());
            })
            .await
    }

    /// Starts a new session and queues the words after `/new` as its first prompt, which `prompt::make` extracts.
    async fn begin_with(&mut self, pending: PendingUpdate, roles: Roles) -> Result<(), ledger::Error> {
        // Another attempt at the same message continues the session that the first one created.
        if pending.attempts == 0 {
            match self.begin_anew().await {
                Ok(posts) => drop(self.ledger().say(&self.place, posts).await?),
                Err(Failure::Ledger(error)) => return Err(error),
                Err(Failure::Server(error)) => {
                    return self.conclude(&pending, vec![Post::text(words::unreachable(&error))]).await;
                }
            }
            self.context().couriers.wake(&self.place);
        }
        self.enqueue(pending, roles).await
    }

    /// Runs, queues or joins a message, depending on the running turn and the settings.
    async fn enqueue(&mut self, mut pending: PendingUpdate, roles: Roles) -> Result<(), ledger::Error> {
        if !roles.prompt {
            return self
                .conclude(&pending, vec![Post::text("You may answer requests, but not send prompts.")])
                .await;
        }
        if let Some(age) = self.staleness(&pending) {
            let text = if let Content::Message { text, .. } = &pending.update.content { text } else { "" };
            let post = Post::text(words::stale(age, text));
            return self.conclude(&pending, vec![post]).await;
        }
        if self.add_to_album(&mut pending) {
            self.waiting.push(pending);
            return Ok(());
        }
        if self.run.is_none() && self.waiting.is_empty() {
            self.waiting.push(pending);
            return Ok(());
        }
        if self.waiting.len() >= MAX_WAITING {
            // A reply shows which message was refused.
            let reply_to = pending.update.message.clone();
            let post = Post { reply_to, ..Post::text(words::queue_full(MAX_WAITING)) };
            return self.conclude(&pending, vec![post]).await;
        }
        match self.context().settings.busy {
            Busy::Steer if self.can_steer() && pending.update.album.is_none() => {
                return self.steer(pending).await;
            }
            Busy::Interrupt => {
                self.waiting.push(pending);
                self.stop_run().await;
            }
            Busy::Queue | Busy::Steer => {
                self.waiting.push(pending);
                self.announce_queue().await?;
            }
        }
        Ok(())
    }

    /// Postpones the start of an album until its messages have arrived. Returns true if another message of the album
    /// already waits.
    fn add_to_album(&mut self, pending: &mut PendingUpdate) -> bool {
        if pending.update.album.is_none() {
            return false;
        }
        let due = pending.due.max(pending.received + ALBUM_WAIT);
        pending.due = due;
        let mut is_known = false;
        for other in self.waiting.iter_mut().filter(|it| it.update.album == pending.update.album) {
            other.due = other.due.max(due);
            is_known = true;
        }
        is_known
    }

    /// Takes the other messages of an album out of the queue.
    pub(super) fn take_album(&mut self, first: &PendingUpdate) -> Vec<PendingUpdate> {
        let Some(album) = &first.update.album else { return Vec::new() };
        self.waiting.extract_if(.., |it| it.update.album.as_ref() == Some(album)).collect()
    }

    /// Says how many messages are queued, in one post for all that arrive during a turn.
    async fn announce_queue(&mut self) -> Result<(), ledger::Error> {
        // If no turn runs, the first of the waiting messages starts next.
        let queued = self.waiting.len() - usize::from(self.run.is_none());
        let post = Post::text(words::queued(queued));
        if let Some(notice) = self.queue_notice {
            self.context().couriers.replace(&self.place, notice, post);
        } else {
            self.queue_notice = self.ledger().say(&self.place, vec![post]).await?.into_iter().next();
            self.context().couriers.wake(&self.place);
        }
        Ok(())
    }

    /// The age of a message that was sent too long ago, while the gateway was not running.
    fn staleness(&self, pending: &PendingUpdate) -> Option<Duration> {
        let sent = if pending.update.sent > 0 { pending.update.sent } else { pending.received };
        let age = Duration::from_millis(u64::try_from(self.ledger().now() - sent).unwrap_or_default());
        (pending.attempts == 0 && age > Duration::from_mins(self.context().settings.stale_minutes))
            .then_some(age)
    }

    /// Index of the next message: one that was already started, else the oldest.
    pub(super) fn next_waiting(&self) -> Option<usize> {
        let begun = self.waiting.iter().position(|pending| matches!(pending.state, State::Running(_)));
        begun.or((!self.waiting.is_empty()).then_some(0))
    }

    /// Finishes an update and posts a text about it.
    pub(super) async fn conclude(
        &self,
        pending: &PendingUpdate,
        posts: Vec<Post>,
    ) -> Result<(), ledger::Error> {
        let is_silent = posts.is_empty();
        self.ledger().done(pending.id, &self.place, posts).await?;
        if !is_silent {
            self.context().couriers.wake(&self.place);
        }
        Ok(())
    }

    /// Posts a text that belongs to no update.
    pub(super) async fn say(&self, text: impl Into<String>) -> Result<(), ledger::Error> {
        self.ledger().say(&self.place, vec![Post::text(text)]).await?;
        self.context().couriers.wake(&self.place);
        Ok(())
    }

    /// Handles a step of the running prompt.
    async fn step(&mut self, step: Step) -> Result<(), ledger::Error> {
        match step {
            Step::Started(started) => self.started(started).await,
            Step::Progressed(progress) => self.progressed(*progress).await,
        }
    }
}
