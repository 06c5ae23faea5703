//! The work of a courier.

use std::{collections::VecDeque, mem, sync::Arc, time::Duration};

use protocol::Millis;
use tokio::time::{Instant, sleep_until};

use super::{Couriers, Mailbox, Showing};
use crate::{
    Adapter, AdapterError, Place, Post, Sent,
    ledger::{self, Outgoing, PostId},
};

/// Pause before a failed post is sent again; doubles with every attempt up to [`MAX_DELAY`].
const FIRST_DELAY: Duration = Duration::from_secs(1);
const MAX_DELAY: Duration = Duration::from_mins(1);

/// Maximum number of attempts, which takes about a day.
const ATTEMPTS: u32 = 1_440;

/// Pause after the ledger failed.
const OUT_OF_ORDER: Duration = Duration::from_secs(5);

/// Sent after a post whose delivery is unknown.
pub(super) const DOUBT: &str = "⚠️ My last message may not have arrived. /last sends the last answer again.";

/// Replaces the progress message at the end if it cannot be deleted.
pub(super) const OVER: &str = "☑️ Done.";

/// The progress message.
struct Status {
    sent: Sent,
    text: String,
}

pub(super) struct Courier {
    place: Place,
    adapter: Arc<dyn Adapter>,
    couriers: Couriers,
    mailbox: Arc<Mailbox>,
    showing: Showing,
    replacing: VecDeque<(PostId, Post)>,
    /// End of the pause that the service asked for.
    quiet_until: Option<Instant>,
    /// The new id of the chat, if it has moved.
    moved: Option<String>,
    /// A post and its result, while the result could not be stored in the ledger.
    unnoted: Option<(Outgoing, Result<Sent, AdapterError>)>,
    /// Time of the next look for posts; `None` if none is queued.
    posts_at: Option<Instant>,
    /// Time of the next typing call.
    typing_at: Option<Instant>,
    /// Earliest time of the next edit of the progress message.
    status_at: Instant,
    status: Option<Status>,
    /// The last line sent where messages cannot be edited.
    line: Option<String>,
    is_typing: bool,
}

impl Courier {
    pub(super) fn new(
        place: Place,
        adapter: Arc<dyn Adapter>,
        couriers: Couriers,
        mailbox: Arc<Mailbox>,
    ) -> Self {
        Self {
            place,
            adapter,
            couriers,
            mailbox,
            showing: Showing::default(),
            replacing: VecDeque::new(),
            quiet_until: None,
            moved: None,
            unnoted: None,
            posts_at: None,
            typing_at: None,
            status_at: Instant::now(),
            status: None,
            line: None,
            is_typing: false,
        }
    }

    /// Works until nothing is left to send or to show.
    pub(super) async fn run(mut self) {
        self.take_over().await;
        loop {
            self.take_orders().await;
            if !self.is_quiet() {
                self.work().await;
            }
            self.follow().await;
            if self.is_done() && self.couriers.leave(&self.place, &self.mailbox) {
                return;
            }
            let next = self.next();
            tokio::select! {
                () = self.mailbox.wake.notified() => {}
                () = async { match next { Some(at) => sleep_until(at).await, None => std::future::pending().await } } => {}
            }
        }
    }

    /// Takes over the progress message that an earlier gateway left behind.
    async fn take_over(&mut self) {
        match self.couriers.0.ledger.shown(&self.place).await {
            Ok(shown) => self.status = shown.map(|sent| Status { sent, text: String::new() }),
            Err(error) => {
                tracing::warn!(place = %self.place, %error, "cannot read the progress message from the ledger");
            }
        }
    }

    async fn take_orders(&mut self) {
        let orders = mem::take(&mut *self.mailbox.orders.lock());
        if orders.has_posts {
            self.posts_at.get_or_insert_with(Instant::now);
        }
        if let Some(showing) = orders.showing {
            if showing.is_working && !self.showing.is_working {
                self.typing_at = Some(Instant::now());
            }
            if showing.words != self.showing.words && showing.is_working {
                self.typing_at = Some(Instant::now());
            }
            self.showing = showing;
        }
        for (post, with) in orders.replacing {
            self.replacing.retain(|(queued, _)| *queued != post);
            self.replacing.push_back((post, with));
        }
        // The user is waiting for the button to react, so taps are confirmed first.
        for (receipt, words) in orders.receipts {
            if let Err(fault) = self.adapter.confirm_tap(&receipt, words.as_deref()).await {
                tracing::debug!(place = %self.place, %fault, "cannot confirm a tap");
            }
        }
    }

    async fn work(&mut self) {
        self.type_on().await;
        self.say_all().await;
        self.replace_all().await;
        self.show_status().await;
        self.stop_typing().await;
    }

    fn is_quiet(&self) -> bool {
        self.quiet_until.is_some_and(|until| Instant::now() < until)
    }

    fn is_done(&self) -> bool {
        self.showing == Showing::default()
            && self.posts_at.is_none()
            && self.replacing.is_empty()
            && self.status.is_none()
            && !self.is_typing
    }

    /// Time of the next work, unless a new order comes first.
    fn next(&self) -> Option<Instant> {
        let status = self.wants_status().then_some(self.status_at);
        let replacing = (!self.replacing.is_empty()).then(|| Instant::now() + FIRST_DELAY);
        let next = [self.posts_at, self.typing_at, status, replacing].into_iter().flatten().min();
        match (next, self.quiet_until) {
            (Some(next), Some(quiet)) => Some(next.max(quiet)),
            (next, _) => next,
        }
    }

    /// Applies a fault that concerns the whole place.
    fn apply_fault(&mut self, fault: &AdapterError) {
        match fault {
            AdapterError::Busy { after } => self.quiet_until = Some(Instant::now() + *after),
            AdapterError::Moved { into } => self.moved = Some(into.clone()),
            _ => {}
        }
    }

    /// Moves the place to the chat's new id, where another courier takes over.
    async fn follow(&mut self) {
        let Some(chat) = &self.moved else { return };
        let to = Place { chat: chat.clone(), ..self.place.clone() };
        match self.couriers.0.inbox.moved(&self.place, &to).await {
            // Messages in the old chat cannot be edited any more.
            Ok(()) => (self.moved, self.status, self.showing) = (None, None, Showing::default()),
            Err(error) => {
                tracing::error!(place = %self.place, %error, "cannot store the new id of a chat");
                self.posts_at = Some(Instant::now() + OUT_OF_ORDER);
            }
        }
    }

    async fn type_on(&mut self) {
        let Some(refresh) = self.adapter.features().typing else {
            self.typing_at = None;
            return;
        };
        if !self.showing.is_working || self.typing_at.is_none_or(|at| Instant::now() < at) {
            self.typing_at = self.typing_at.filter(|_| self.showing.is_working);
            return;
        }
        self.is_typing = true;
        self.typing_at = Some(Instant::now() + refresh);
        let Showing { message, words, .. } = &self.showing;
        if let Err(fault) = self.adapter.typing(&self.place, message.as_deref(), words).await {
            self.apply_fault(&fault);
            tracing::debug!(place = %self.place, %fault, "cannot show the typing indicator");
        }
    }

    /// Removes the typing indicator after the turn.
    async fn stop_typing(&mut self) {
        if self.is_typing && !self.showing.is_working {
            self.is_typing = false;
            self.typing_at = None;
            if let Err(fault) = self.adapter.stop_typing(&self.place).await {
                tracing::debug!(place = %self.place, %fault, "cannot remove the typing indicator");
            }
        }
    }

    /// Sends the posts in the ledger until the service asks to wait.
    async fn say_all(&mut self) {
        let is_due = |at: Instant| at <= Instant::now();
        while self.posts_at.is_some_and(is_due) && !self.is_quiet() && self.moved.is_none() {
            if let Err(error) = self.say_next().await {
                tracing::error!(place = %self.place, %error, "cannot read or update a post in the ledger");
                self.posts_at = Some(Instant::now() + OUT_OF_ORDER);
            }
        }
    }

    async fn say_next(&mut self) -> Result<(), ledger::Error> {
        if self.unnoted.is_some() {
            return self.note().await;
        }
        let Some(outgoing) = self.couriers.0.ledger.next_post(&self.place).await? else {
            self.posts_at = None;
            return Ok(());
        };
        self.say(outgoing).await
    }

    async fn say(&mut self, outgoing: Outgoing) -> Result<(), ledger::Error> {
        let ledger = Arc::clone(&self.couriers.0.ledger);
        let now = ledger.now();
        if outgoing.is_uncertain && !outgoing.post.may_repeat {
            return self.doubt(&outgoing).await;
        }
        if outgoing.due > now {
            self.posts_at = Some(Instant::now() + until(now, outgoing.due));
            return Ok(());
        }
        if outgoing.attempts >= ATTEMPTS {
            tracing::warn!(place = %self.place, "giving up a post that could not be sent for a day");
            return ledger.refused(outgoing.id).await;
        }
        ledger.sending(outgoing.id).await?;
        let result = self.send(&outgoing.post).await;
        if let Err(fault) = &result {
            self.apply_fault(fault);
        }
        self.unnoted = Some((outgoing, result));
        self.note().await
    }

    /// Stores the result of a post. Keeps the result in memory until that succeeds, so that it does not become
    /// uncertain.
    async fn note(&mut self) -> Result<(), ledger::Error> {
        let Some((outgoing, result)) = &self.unnoted else { return Ok(()) };
        match result {
            Ok(sent) => self.couriers.0.ledger.sent(outgoing.id, sent.clone()).await?,
            Err(fault) => {
                self.put_back(outgoing, fault).await?;
                tracing::warn!(place = %self.place, %fault, "the service did not accept a post");
            }
        }
        self.unnoted = None;
        Ok(())
    }

    /// Stores the state of a post that failed.
    async fn put_back(&self, outgoing: &Outgoing, fault: &AdapterError) -> Result<(), ledger::Error> {
        let ledger = &self.couriers.0.ledger;
        let now = ledger.now();
        match fault {
            AdapterError::Busy { after } => ledger.postpone(outgoing.id, later(now, *after)).await,
            AdapterError::Uncertain(_) if !outgoing.post.may_repeat => self.doubt(outgoing).await,
            AdapterError::Unreachable(_) | AdapterError::Uncertain(_) => {
                let delay = FIRST_DELAY.saturating_mul(1 << outgoing.attempts.min(10)).min(MAX_DELAY);
                ledger.postpone(outgoing.id, later(now, delay)).await
            }
            AdapterError::Closed(_) => ledger.hold(outgoing.id, now).await,
            AdapterError::Moved { into } => {
                ledger.follow(outgoing.id, &Place { chat: into.clone(), ..self.place.clone() }).await
            }
            AdapterError::Refused(_) => ledger.refused(outgoing.id).await,
        }
    }

    /// Sends a post. The first post of an answer replaces its preview; any other post is a new message.
    async fn send(&mut self, post: &Post) -> Result<Sent, AdapterError> {
        if let Some(status) = self.status.take_if(|_| post.is_answer && self.showing.preview.is_some()) {
            self.showing = Showing { is_working: self.showing.is_working, ..Showing::default() };
            let sent = status.sent.clone();
            // Forgotten first: after a crash, the answer must not be deleted as a progress message.
            let replaced = match self.couriers.0.ledger.forget_shown(&self.place).await {
                Ok(()) => self.adapter.edit(&self.place, &sent, post).await,
                Err(error) => Err(AdapterError::Unreachable(error.to_string())),
            };
            match replaced {
                Ok(()) => return Ok(sent),
                // The preview certainly does not show the answer: send the answer, and delete the preview later.
                Err(AdapterError::Refused(_) | AdapterError::Closed(_)) => self.status = Some(status),
                Err(fault) => {
                    self.status = Some(status);
                    return Err(fault);
                }
            }
        }
        self.adapter.send(&self.place, post).await
    }

    /// Stores that the delivery of a post is unknown. It is not sent again; a note tells the user, and is repeated
    /// until the service confirms it.
    async fn doubt(&self, outgoing: &Outgoing) -> Result<(), ledger::Error> {
        let note = Post { may_repeat: true, ..Post::text(DOUBT) };
        self.couriers.0.ledger.uncertain(outgoing.id, &self.place, note).await
    }

    async fn replace_all(&mut self) {
        if self.adapter.features().edit.is_none() {
            self.replacing.clear();
        }
        for _ in 0..self.replacing.len() {
            if self.is_quiet() {
                return;
            }
            let Some((id, post)) = self.replacing.pop_front() else { return };
            match self.couriers.0.ledger.sent_id(id).await {
                Ok(Some(sent)) => match self.adapter.edit(&self.place, &sent, &post).await {
                    Ok(()) => {}
                    Err(fault @ (AdapterError::Busy { .. } | AdapterError::Unreachable(_))) => {
                        self.apply_fault(&fault);
                        self.replacing.push_back((id, post));
                    }
                    Err(fault) => {
                        self.apply_fault(&fault);
                        tracing::debug!(place = %self.place, %fault, "cannot replace a post");
                    }
                },
                // The post may still be on its way.
                Ok(None) if self.posts_at.is_some() => self.replacing.push_back((id, post)),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(place = %self.place, %error, "cannot read a post from the ledger");
                }
            }
        }
    }

    /// The wanted text of the progress message.
    fn wanted(&self) -> Option<String> {
        let Showing { status, preview, .. } = &self.showing;
        let preview = preview.as_ref().and_then(|text| self.adapter.split(text).into_iter().next_back());
        match (preview, status) {
            (Some(preview), Some(status)) if preview.len() + status.len() < 2_000 => {
                Some(format!("{preview}\n\n{status}"))
            }
            (preview, status) => preview.or_else(|| status.clone()),
        }
    }

    fn wants_status(&self) -> bool {
        let shown = self.status.as_ref().map(|status| &status.text);
        match self.adapter.features().edit {
            Some(_) => shown != self.wanted().as_ref(),
            None => false,
        }
    }

    async fn show_status(&mut self) {
        let Some(pace) = self.adapter.edit_pace(&self.place) else { return self.say_line().await };
        if !self.wants_status() || Instant::now() < self.status_at || self.is_quiet() {
            return;
        }
        self.status_at = Instant::now() + pace;
        let done = match (self.status.take(), self.wanted()) {
            (None, Some(text)) => self.begin_status(text).await,
            (Some(status), Some(text)) => self.change_status(status, text).await,
            (Some(status), None) => self.end_status(status).await,
            (None, None) => Ok(()),
        };
        if let Err(fault) = done {
            self.apply_fault(&fault);
            tracing::debug!(place = %self.place, %fault, "cannot show the progress message");
            // Progress is not urgent.
            self.status_at = Instant::now() + pace.max(MAX_DELAY / 12);
        }
    }

    async fn begin_status(&mut self, text: String) -> Result<(), AdapterError> {
        let sent = self.adapter.send(&self.place, &Post::text(text.clone())).await?;
        if let Err(error) = self.couriers.0.ledger.set_shown(&self.place, &sent).await {
            tracing::warn!(place = %self.place, %error, "cannot store the id of the progress message");
        }
        self.status = Some(Status { sent, text });
        Ok(())
    }

    async fn change_status(&mut self, status: Status, text: String) -> Result<(), AdapterError> {
        let done = self.adapter.edit(&self.place, &status.sent, &Post::text(text.clone())).await;
        let text = if done.is_ok() { text } else { status.text };
        self.status = Some(Status { sent: status.sent, text });
        done
    }

    async fn end_status(&mut self, status: Status) -> Result<(), AdapterError> {
        let mut done = self.adapter.remove(&self.place, &status.sent).await;
        if matches!(done, Err(AdapterError::Refused(_))) {
            done = self.adapter.edit(&self.place, &status.sent, &Post::text(OVER)).await;
        }
        if matches!(done, Err(AdapterError::Busy { .. } | AdapterError::Unreachable(_))) {
            self.status = Some(status);
            return done;
        }
        if let Err(error) = self.couriers.0.ledger.forget_shown(&self.place).await {
            // The next courier finds out that the message is deleted.
            tracing::warn!(place = %self.place, %error, "cannot remove the id of the progress message");
        }
        done
    }

    /// Sends the newest progress line as a message, for services that cannot edit.
    async fn say_line(&mut self) {
        let line =
            self.showing.status.as_ref().and_then(|status| status.lines().next_back()).map(str::to_owned);
        if line == self.line || self.is_quiet() {
            return;
        }
        self.line.clone_from(&line);
        let Some(line) = line else { return };
        if let Err(fault) = self.adapter.send(&self.place, &Post::text(line)).await {
            self.apply_fault(&fault);
            tracing::debug!(place = %self.place, %fault, "cannot send a progress line");
        }
    }
}

fn until(now: Millis, due: Millis) -> Duration {
    Duration::from_millis(u64::try_from(due - now).unwrap_or_default())
}

fn later(now: Millis, delay: Duration) -> Millis {
    now.saturating_add(Millis::try_from(delay.as_millis()).unwrap_or(Millis::MAX))
}
