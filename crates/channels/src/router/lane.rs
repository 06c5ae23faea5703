//! The task of one place: handles its updates in order.

use std::{sync::Arc, time::Duration};

use protocol::Millis;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until, timeout},
};

use super::{
    Desk, Inner,
    command::{self, Command},
    requests::Note,
    run::{Run, Step},
};
use crate::{
    Adapter, Content, Place, Post, Update,
    courier::Showing,
    ledger::{self, Kept, Ledger, Paired, Roles, State},
    settings::Busy,
    words,
};

/// Maximum number of queued messages of a place.
const MAX_WAITING: usize = 20;

/// Maximum length of a message in bytes. No service lets users send longer messages.
const MAX_TEXT: usize = 64 << 10;

/// Pause after the ledger failed; doubles up to [`LONGEST_REST`].
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_mins(1);

/// The task that handles one place.
pub(super) struct Lane {
    pub(super) router: Arc<Inner>,
    pub(super) place: Place,
    pub(super) adapter: Arc<dyn Adapter>,
    wakes: mpsc::Receiver<()>,
    /// The running prompt.
    pub(super) run: Option<Run>,
    /// Queued messages, oldest first.
    pub(super) waiting: Vec<Kept>,
    /// Time at which the first of the open requests times out.
    pub(super) expiry: Option<Millis>,
    /// True if there may be new updates.
    pub(super) has_news: bool,
}

impl Lane {
    pub(super) fn new(
        router: Arc<Inner>,
        place: Place,
        adapter: Arc<dyn Adapter>,
        wakes: mpsc::Receiver<()>,
    ) -> Self {
        Self { router, place, adapter, wakes, run: None, waiting: Vec::new(), expiry: None, has_news: true }
    }

    pub(super) fn desk(&self) -> &Desk {
        &self.router.desk
    }

    pub(super) fn ledger(&self) -> &Ledger {
        &self.router.desk.ledger
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
            self.desk().couriers.show(&self.place, Showing::default());
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
            if std::mem::take(&mut self.has_news) {
                self.look().await?;
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
        let retried = retried.and_then(|index| self.waiting.get(index)).map(|kept| from_now(kept.due));
        let expired = self.expiry.map(from_now);
        // Far in the future, yet small enough not to overflow.
        let never = now + Duration::from_hours(24);
        [shown, retried, expired].into_iter().flatten().fold(never, Instant::min)
    }

    /// Handles new notes and updates.
    async fn look(&mut self) -> Result<(), ledger::Error> {
        if let Some(to) = self.ledger().moved_to(&self.place).await? {
            self.router.forward(&self.place, to);
            // The lane of the new place takes over and finds all of this in the ledger.
            (self.run, self.expiry) = (None, None);
            self.waiting.clear();
            self.desk().couriers.show(&self.place, Showing::default());
            return Ok(());
        }
        let notes = self.router.notes().remove(&self.place).unwrap_or_default();
        for note in notes {
            match note {
                Note::Asked(request) => self.ask(*request).await?,
                Note::Settled(id) => self.settled_elsewhere(&id).await?,
            }
        }
        for kept in self.ledger().open_updates(&self.place).await? {
            if self.is_known(kept.id) {
                continue;
            }
            match kept.state {
                State::Running(_) => self.waiting.push(kept),
                State::Waiting => self.look_at(kept).await?,
            }
        }
        Ok(())
    }

    fn is_known(&self, id: ledger::UpdateId) -> bool {
        self.waiting.iter().any(|kept| kept.id == id) || self.run.as_ref().is_some_and(|run| run.is_about(id))
    }

    async fn look_at(&mut self, kept: Kept) -> Result<(), ledger::Error> {
        let update = &kept.update;
        if !self.is_meant(update).await? {
            return self.conclude(&kept, Vec::new()).await;
        }
        let roles = self.desk().roles(&self.place.channel, &update.sender).await?;
        if !roles.prompt && !roles.approve {
            return self.turn_away(&kept).await;
        }
        self.remember(update).await?;
        match &update.content {
            Content::Tapped { token, receipt } => {
                let (token, receipt) = (token.clone(), receipt.clone());
                self.tap(&kept, &token, receipt, roles).await
            }
            Content::Stopped => self.command(&kept, Command::Cancel, roles).await,
            Content::Said { text, .. } if text.len() > MAX_TEXT => {
                tracing::warn!(place = %self.place, bytes = text.len(), "refused a message that is too long");
                self.conclude(&kept, vec![Post::text("This message is too long. Send it as a file.")]).await
            }
            Content::Said { text, files } => match command::parse(text) {
                Some(command) => self.command(&kept, command, roles).await,
                None if files.is_empty() && text.trim().is_empty() => self.conclude(&kept, Vec::new()).await,
                None if files.is_empty() && self.answer(&kept, text, roles).await? => Ok(()),
                None => self.enqueue(kept, roles).await,
            },
        }
    }

    /// Returns true if an update is meant for the agent: everything in a direct chat; in a group, what is addressed
    /// to it or written in a thread that has a session.
    async fn is_meant(&self, update: &Update) -> Result<bool, ledger::Error> {
        if update.is_direct || update.is_addressed || !matches!(update.content, Content::Said { .. }) {
            return Ok(true);
        }
        Ok(self.place.thread.is_some() && self.ledger().seat(&self.place).await?.session.is_some())
    }

    /// Refuses a user without access, unless the message is a pairing code.
    async fn turn_away(&self, kept: &Kept) -> Result<(), ledger::Error> {
        let update = &kept.update;
        match &update.content {
            Content::Said { text, .. } if update.is_direct => {
                if let Some(Command::Pair(code)) = command::parse(text) {
                    return self.pair(kept, &code).await;
                }
            }
            Content::Tapped { receipt: Some(receipt), .. } => {
                let words = Some("You have no access, so you cannot decide this.".to_owned());
                self.desk().couriers.understood(&self.place, receipt.clone(), words);
            }
            _ => {}
        }
        tracing::warn!(place = %self.place, sender = update.sender.id, "refused a user without access");
        let is_told = matches!(update.content, Content::Said { .. })
            && self.router.strangers.is_to_be_told(update, self.ledger().now());
        let posts = if is_told { vec![Post::text(words::STRANGER)] } else { Vec::new() };
        self.conclude(kept, posts).await
    }

    pub(super) async fn pair(&self, kept: &Kept, code: &str) -> Result<(), ledger::Error> {
        let paired = self.ledger().pair(&self.place.channel, &kept.update.sender, code).await?;
        tracing::info!(place = %self.place, sender = kept.update.sender.id, ?paired, "a user sent a pairing code");
        let text = match paired {
            Paired::Yes(Roles { approve: true, .. }) => {
                "Welcome. You can send prompts and answer permission requests. /help lists the commands."
            }
            Paired::Yes(_) => "Welcome. You can send prompts. /help lists the commands.",
            Paired::Wrong => "That code is not valid. Codes can be used once, within an hour.",
            Paired::TooOften => "Too many wrong codes. Try again in an hour.",
        };
        self.conclude(kept, vec![Post::text(text)]).await
    }

    /// Stores the last message of the place.
    async fn remember(&self, update: &Update) -> Result<(), ledger::Error> {
        let (sent, message) = (update.sent, update.message.clone());
        self.ledger()
            .change_seat(&self.place, move |seat| {
                seat.heard = Some(sent);
                seat.message = message.or(seat.message.take());
            })
            .await
    }

    /// Runs, queues or joins a message, depending on the running turn and the settings.
    async fn enqueue(&mut self, kept: Kept, roles: Roles) -> Result<(), ledger::Error> {
        if !roles.prompt {
            return self
                .conclude(&kept, vec![Post::text("You may answer requests, but not send prompts.")])
                .await;
        }
        if let Some(age) = self.staleness(&kept) {
            let text = if let Content::Said { text, .. } = &kept.update.content { text } else { "" };
            let post = Post::text(words::stale(age, text));
            return self.conclude(&kept, vec![post]).await;
        }
        if self.run.is_none() && self.waiting.is_empty() {
            self.waiting.push(kept);
            return Ok(());
        }
        if self.waiting.len() >= MAX_WAITING {
            return self.conclude(&kept, vec![Post::text(words::queue_full(MAX_WAITING))]).await;
        }
        match self.desk().settings.busy {
            Busy::Steer if self.can_steer() => return self.steer(kept).await,
            Busy::Interrupt => {
                self.waiting.push(kept);
                self.stop_run().await;
            }
            Busy::Queue | Busy::Steer => {
                self.waiting.push(kept);
                self.say(words::queued(self.waiting.len())).await?;
            }
        }
        Ok(())
    }

    /// The age of a message that was sent too long ago, while the gateway was not running.
    fn staleness(&self, kept: &Kept) -> Option<Duration> {
        let sent = if kept.update.sent > 0 { kept.update.sent } else { kept.received };
        let age = Duration::from_millis(u64::try_from(self.ledger().now() - sent).unwrap_or_default());
        (kept.attempts == 0 && age > Duration::from_mins(self.desk().settings.stale_minutes)).then_some(age)
    }

    /// Index of the next message: one that was already started, else the oldest.
    pub(super) fn next_waiting(&self) -> Option<usize> {
        let begun = self.waiting.iter().position(|kept| matches!(kept.state, State::Running(_)));
        begun.or((!self.waiting.is_empty()).then_some(0))
    }

    /// Finishes an update and posts a text about it.
    pub(super) async fn conclude(&self, kept: &Kept, posts: Vec<Post>) -> Result<(), ledger::Error> {
        let is_silent = posts.is_empty();
        self.ledger().done(kept.id, &self.place, posts).await?;
        if !is_silent {
            self.desk().couriers.wake(&self.place);
        }
        Ok(())
    }

    /// Posts a text that belongs to no update.
    pub(super) async fn say(&self, text: impl Into<String>) -> Result<(), ledger::Error> {
        self.ledger().say(&self.place, vec![Post::text(text)]).await?;
        self.desk().couriers.wake(&self.place);
        Ok(())
    }

    /// Handles a step of the running prompt.
    async fn step(&mut self, step: Step) -> Result<(), ledger::Error> {
        match step {
            Step::Started(started) => self.started(started).await,
            Step::Told(progress) => self.told(*progress).await,
        }
    }
}
