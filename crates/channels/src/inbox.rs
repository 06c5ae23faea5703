//! The inbox stores updates and wakes the router.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use protocol::{Millis, channel::ChannelState};
use tokio::sync::{Notify, mpsc};

use crate::{
    Health, Place, Sent, Update,
    ledger::{self, Held, Ledger},
};

/// Limit of stored updates that the router has not looked at. Adapters wait when it is reached.
const NEWS: usize = 1_024;

/// Limit of updates kept in memory because they could not be stored. Beyond it, only the service's redelivery
/// helps.
const LEFT: usize = 1_024;

/// Pause before storing the remaining updates again; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Result of storing an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// The update is stored and will be handled, even after a crash.
    New,
    /// The update was stored before and is ignored.
    Known,
}

/// Stores updates. As soon as an update is stored, it can be acknowledged to the service.
#[derive(Debug, Clone)]
pub struct Inbox {
    ledger: Arc<Ledger>,
    /// Places with new work.
    news: mpsc::Sender<Place>,
    left: Arc<Unstored>,
    health: Health,
}

/// Updates that could not be stored, for instance because the disk was full. They were not acknowledged, so the
/// service delivers them again; but some services give up soon.
#[derive(Debug, Default)]
struct Unstored {
    updates: Mutex<Vec<Update>>,
    bell: Notify,
}

impl Unstored {
    fn add(&self, updates: Vec<Update>) {
        let mut left = self.updates.lock();
        for update in updates {
            let is_known = left.iter().any(|it| (&it.place, &it.id) == (&update.place, &update.id));
            if !is_known && left.len() < LEFT {
                left.push(update);
            }
        }
        self.bell.notify_one();
    }

    /// Puts updates back before those that arrived in the meantime.
    fn put_back(&self, updates: Vec<Update>) {
        let later = std::mem::replace(&mut *self.updates.lock(), updates);
        self.add(later);
    }
}

impl Inbox {
    /// Creates an inbox on a ledger, and a receiver of the places with new updates.
    pub fn new(ledger: Arc<Ledger>) -> (Self, mpsc::Receiver<Place>) {
        let (news, places) = mpsc::channel(NEWS);
        (Self { ledger, news, left: Arc::default(), health: Health::default() }, places)
    }

    /// Stores an update unless it is known. The update survives a crash when this returns. If this fails, the
    /// caller must not acknowledge the update to the service.
    pub async fn accept(&self, update: Update) -> Result<(), ledger::Error> {
        self.accept_all(vec![update]).await
    }

    /// Stores updates that were delivered together, except known ones: all, or none if this fails.
    pub(crate) async fn accept_all(&self, updates: Vec<Update>) -> Result<(), ledger::Error> {
        // Earlier updates go first. If one of them cannot be stored, it does not block the new ones.
        let _ = self.store_left().await;
        let stored = self.store(updates.clone()).await;
        if let Err(error) = &stored {
            tracing::error!(%error, "cannot store updates; they are not acknowledged, so that the services send them again");
            self.left.add(updates);
        }
        stored
    }

    /// Retries storing the remaining updates until it succeeds. Never returns.
    pub(crate) async fn make_up(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            self.left.bell.notified().await;
            tokio::time::sleep(pause).await;
            pause = match self.store_left().await {
                Ok(()) => FIRST_PAUSE,
                Err(_) => (pause * 2).min(LONGEST_PAUSE),
            };
        }
    }

    async fn store_left(&self) -> Result<(), ledger::Error> {
        let left = std::mem::take(&mut *self.left.updates.lock());
        if left.is_empty() {
            return Ok(());
        }
        let stored = self.store(left.clone()).await;
        match &stored {
            Ok(()) => tracing::info!(count = left.len(), "stored updates that could not be stored before"),
            Err(_) => self.left.put_back(left),
        }
        stored
    }

    async fn store(&self, updates: Vec<Update>) -> Result<(), ledger::Error> {
        for place in self.ledger.accept_all(updates).await? {
            // The receiver is closed while the gateway stops; the next start reads the ledger.
            let _ = self.news.send(place).await;
        }
        Ok(())
    }

    /// Handles a late report of the service that a sent post was not delivered because the user has to write first.
    /// The post is sent again when they have. Returns false if the report could not be matched yet; the service
    /// must then repeat it.
    pub(crate) async fn unseen(
        &self,
        place: &Place,
        sent: &Sent,
        since: Millis,
    ) -> Result<bool, ledger::Error> {
        let held = self.ledger.hold_sent(place, sent, since).await?;
        if held == Held::Due {
            let _ = self.news.send(place.clone()).await;
        }
        Ok(held != Held::TooEarly)
    }

    /// Moves a place and everything stored for it to a new id. The move survives a crash when this returns.
    pub async fn moved(&self, from: &Place, to: &Place) -> Result<(), ledger::Error> {
        self.ledger.move_place(from, to).await?;
        tracing::info!(%from, %to, "a chat has a new id; its session moves with it");
        for place in [from, to] {
            let _ = self.news.send(place.clone()).await;
        }
        Ok(())
    }

    /// The states of the channels, which their adapters report here.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Reports that a channel receives updates.
    pub(crate) fn connected(&self, channel: &str) {
        self.health.set(channel, ChannelState::Connected, None, self.now());
    }

    /// Reports that a channel cannot receive updates for now.
    pub(crate) fn lost(&self, channel: &str, reason: String) {
        self.health.set(channel, ChannelState::Reconnecting, Some(reason), self.now());
    }

    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// The adapter's stored read position, such as the number of the last update.
    pub(crate) async fn bookmark(&self, channel: &str) -> Result<Option<String>, ledger::Error> {
        self.ledger.bookmark(channel).await
    }

    /// Stores the adapter's read position.
    pub(crate) async fn set_bookmark(&self, channel: &str, value: String) -> Result<(), ledger::Error> {
        self.ledger.set_bookmark(channel, value).await
    }

    pub fn now(&self) -> Millis {
        self.ledger.now()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Content, Sender};

    fn update(id: &str) -> Update {
        Update {
            id: id.into(),
            alias: None,
            quoted: None,
            replies_to: None,
            album: None,
            place: Place { channel: "telegram".into(), chat: "7".into(), thread: None },
            sender: Sender { id: "1".into(), name: "Ada".into() },
            is_direct: true,
            is_addressed: true,
            message: None,
            sent: 0,
            content: Content::Message { text: id.into(), files: Vec::new() },
        }
    }

    async fn stored(ledger: &Ledger) -> Vec<String> {
        let pending = ledger.open_updates(&update("").place).await.unwrap();
        pending.into_iter().map(|pending| pending.update.id).collect()
    }

    struct Harness {
        ledger: Arc<Ledger>,
        inbox: Inbox,
        news: mpsc::Receiver<Place>,
        _directory: tempfile::TempDir,
    }

    impl Harness {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let ledger = Ledger::open(&directory.path().join("channels.db"), Arc::new(|| 0)).unwrap();
            let ledger = Arc::new(ledger);
            let (inbox, news) = Inbox::new(Arc::clone(&ledger));
            Self { ledger, inbox, news, _directory: directory }
        }
    }

    #[tokio::test]
    async fn an_update_that_cannot_be_stored_is_not_acknowledged_and_stored_later() {
        let Harness { ledger, inbox, mut news, _directory } = Harness::new();
        let making_up = tokio_util::task::AbortOnDropHandle::new(tokio::spawn({
            let inbox = inbox.clone();
            async move { inbox.make_up().await }
        }));
        ledger.refuse("INSERT", "updates", "true").await;
        inbox.accept(update("a")).await.unwrap_err();
        // The service delivers it again, together with another update.
        inbox.accept(update("a")).await.unwrap_err();
        inbox.accept_all(vec![update("b")]).await.unwrap_err();
        assert!(stored(&ledger).await.is_empty() && news.try_recv().is_err());
        ledger.relent().await;
        // The service delivers nothing more.
        tokio::time::pause();
        tokio::time::advance(FIRST_PAUSE).await;
        tokio::time::resume();
        tokio::time::timeout(Duration::from_secs(20), news.recv()).await.unwrap().unwrap();
        assert_eq!(stored(&ledger).await, ["a", "b"]);
        drop(making_up);
    }

    #[tokio::test]
    async fn earlier_updates_are_stored_first_and_a_hopeless_one_blocks_no_other() {
        let Harness { ledger, inbox, news: _news, _directory } = Harness::new();
        ledger.refuse("INSERT", "updates", "NEW.name IN ('a', 'never')").await;
        inbox.accept(update("a")).await.unwrap_err();
        ledger.relent().await;
        inbox.accept(update("b")).await.unwrap();
        assert_eq!(stored(&ledger).await, ["a", "b"]);
        ledger.refuse("INSERT", "updates", "NEW.name = 'never'").await;
        inbox.accept(update("never")).await.unwrap_err();
        inbox.accept(update("c")).await.unwrap();
        assert_eq!(stored(&ledger).await, ["a", "b", "c"]);
    }
}
