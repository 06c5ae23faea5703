//! Where updates go.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use protocol::Millis;
use tokio::sync::{Notify, mpsc};

use crate::{
    Place, Sent, Update,
    ledger::{self, Held, Ledger},
};

/// So many updates may be stored and not looked at; then whoever brings more has to wait.
const NEWS: usize = 1_024;

/// So many updates are remembered that could not be stored. What comes beyond that only the service remembers.
const LEFT: usize = 1_024;

/// How long to wait before it is tried again to store what is left; doubles up to the second.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What became of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// It is stored, and will be attended to, whatever happens.
    New,
    /// It was stored before. Nothing more will happen.
    Known,
}

/// Takes updates in. Once it has one the service may forget it.
#[derive(Debug, Clone)]
pub struct Inbox {
    ledger: Arc<Ledger>,
    /// Places where something is to be done.
    news: mpsc::Sender<Place>,
    left: Arc<Left>,
}

/// What could not be stored, for instance because the disk was full. The service was not told that it arrived, and brings
/// it again; but not every service does so for long.
#[derive(Debug, Default)]
struct Left {
    updates: Mutex<Vec<Update>>,
    bell: Notify,
}

impl Left {
    fn lock(&self) -> MutexGuard<'_, Vec<Update>> {
        self.updates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers updates.
    fn add(&self, updates: Vec<Update>) {
        let mut left = self.lock();
        for update in updates {
            let is_known = left.iter().any(|it| (&it.place, &it.id) == (&update.place, &update.id));
            if !is_known && left.len() < LEFT {
                left.push(update);
            }
        }
        self.bell.notify_one();
    }

    /// Remembers updates again that came before all others.
    fn put_back(&self, updates: Vec<Update>) {
        let later = std::mem::replace(&mut *self.lock(), updates);
        self.add(later);
    }
}

impl Inbox {
    /// An inbox that stores in a ledger, and the places in which something was stored.
    pub fn new(ledger: Arc<Ledger>) -> (Self, mpsc::Receiver<Place>) {
        let (news, places) = mpsc::channel(NEWS);
        (Self { ledger, news, left: Arc::default() }, places)
    }

    /// Stores an update, unless it is known. It survives a crash when this returns. If it fails the service must not be
    /// told that the update arrived.
    pub async fn accept(&self, update: Update) -> Result<(), ledger::Error> {
        self.accept_all(vec![update]).await
    }

    /// Stores updates that were delivered together, apart from those that are known: all, or none if this fails.
    pub async fn accept_all(&self, updates: Vec<Update>) -> Result<(), ledger::Error> {
        // What came first goes first. Should one of those be what cannot be stored, it does not hold up the others.
        let _ = self.store_left().await;
        let stored = self.store(updates.clone()).await;
        if let Err(error) = &stored {
            tracing::error!(%error, "what people wrote cannot be stored; the services are not told that it arrived");
            self.left.add(updates);
        }
        stored
    }

    /// Stores what could not be stored when it came, as soon as that can be done. Never returns.
    pub async fn make_up(&self) {
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
        let left = std::mem::take(&mut *self.left.lock());
        if left.is_empty() {
            return Ok(());
        }
        let stored = self.store(left.clone()).await;
        match &stored {
            Ok(()) => tracing::info!(count = left.len(), "what could not be stored before is stored now"),
            Err(_) => self.left.put_back(left),
        }
        stored
    }

    async fn store(&self, updates: Vec<Update>) -> Result<(), ledger::Error> {
        for place in self.ledger.accept_all(updates).await? {
            // Nobody listens while the gateway stops; the next start looks into the ledger.
            let _ = self.news.send(place).await;
        }
        Ok(())
    }

    /// The service took a post and said later that the person did not get to see it, because they have to write
    /// first. It is said again when they have. Returns whether this could be noted: if not, it has to be told again.
    pub async fn unseen(&self, place: &Place, sent: &Sent, since: Millis) -> Result<bool, ledger::Error> {
        let held = self.ledger.hold_sent(place, sent, since).await?;
        if held == Held::Due {
            let _ = self.news.send(place.clone()).await;
        }
        Ok(held != Held::TooEarly)
    }

    /// A place has become another one, with all that is kept there. It stays so when this returns.
    pub async fn moved(&self, from: &Place, to: &Place) -> Result<(), ledger::Error> {
        self.ledger.move_place(from, to).await?;
        tracing::info!(%from, %to, "a chat has become another one; its session goes along");
        for place in [from, to] {
            let _ = self.news.send(place.clone()).await;
        }
        Ok(())
    }

    /// What is stored.
    pub(crate) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// What an adapter wants to remember of where it is, such as the number of the last update it has read.
    pub async fn bookmark(&self, channel: &str) -> Result<Option<String>, ledger::Error> {
        self.ledger.bookmark(channel).await
    }

    /// Remembers it.
    pub async fn set_bookmark(&self, channel: &str, value: String) -> Result<(), ledger::Error> {
        self.ledger.set_bookmark(channel, value).await
    }

    /// What time it is.
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
            place: Place { channel: "telegram".into(), chat: "7".into(), thread: None },
            sender: Sender { id: "1".into(), name: "Ada".into() },
            is_direct: true,
            is_addressed: true,
            message: None,
            sent: 0,
            content: Content::Said { text: id.into(), files: Vec::new() },
        }
    }

    async fn stored(ledger: &Ledger) -> Vec<String> {
        let kept = ledger.open_updates(&update("").place).await.unwrap();
        kept.into_iter().map(|kept| kept.update.id).collect()
    }

    struct World {
        ledger: Arc<Ledger>,
        inbox: Inbox,
        news: mpsc::Receiver<Place>,
        _directory: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let ledger = Ledger::open(&directory.path().join("channels.db"), Arc::new(|| 0)).unwrap();
            let ledger = Arc::new(ledger);
            let (inbox, news) = Inbox::new(Arc::clone(&ledger));
            Self { ledger, inbox, news, _directory: directory }
        }
    }

    #[tokio::test]
    async fn what_could_not_be_stored_is_not_acknowledged_and_stored_when_there_is_space() {
        let World { ledger, inbox, mut news, _directory } = World::new();
        let making_up = tokio_util::task::AbortOnDropHandle::new(tokio::spawn({
            let inbox = inbox.clone();
            async move { inbox.make_up().await }
        }));
        ledger.refuse("INSERT", "updates", "true").await;
        inbox.accept(update("a")).await.unwrap_err();
        // The service brings it again, and something else.
        inbox.accept(update("a")).await.unwrap_err();
        inbox.accept_all(vec![update("b")]).await.unwrap_err();
        assert!(stored(&ledger).await.is_empty() && news.try_recv().is_err());
        ledger.relent().await;
        // Nobody brings anything any more.
        tokio::time::pause();
        tokio::time::advance(FIRST_PAUSE).await;
        tokio::time::resume();
        tokio::time::timeout(Duration::from_secs(20), news.recv()).await.unwrap().unwrap();
        assert_eq!(stored(&ledger).await, ["a", "b"]);
        drop(making_up);
    }

    #[tokio::test]
    async fn what_came_first_is_stored_first_and_one_that_never_can_be_holds_up_nobody() {
        let World { ledger, inbox, news: _news, _directory } = World::new();
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
