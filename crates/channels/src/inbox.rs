//! Where updates go.

use std::sync::Arc;

use protocol::Millis;
use tokio::sync::mpsc;

use crate::{
    Place, Sent, Update,
    ledger::{self, Held, Ledger},
};

/// So many updates may be stored and not looked at; then whoever brings more has to wait.
const NEWS: usize = 1_024;

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
}

impl Inbox {
    /// An inbox that stores in a ledger, and the places in which something was stored.
    pub fn new(ledger: Arc<Ledger>) -> (Self, mpsc::Receiver<Place>) {
        let (news, places) = mpsc::channel(NEWS);
        (Self { ledger, news }, places)
    }

    /// Stores an update, unless it is known. It survives a crash when this returns.
    pub async fn accept(&self, update: Update) -> Result<Accepted, ledger::Error> {
        let place = update.place.clone();
        let accepted = self.ledger.accept(update).await?;
        if accepted == Accepted::New {
            // Nobody listens while the gateway stops; the next start looks into the ledger.
            let _ = self.news.send(place).await;
        }
        Ok(accepted)
    }

    /// Stores updates that were delivered together, apart from those that are known: all, or none if this fails.
    pub async fn accept_all(&self, updates: Vec<Update>) -> Result<(), ledger::Error> {
        for place in self.ledger.accept_all(updates).await? {
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
