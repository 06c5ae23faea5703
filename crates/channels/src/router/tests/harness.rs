//! The surroundings of a worker: a ledger on a real file, and a clock that a test can advance.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use client::{Feed, Scope};
use protocol::Millis;
use tempfile::TempDir;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use super::{
    chat::Chat,
    server::{Prompt, Server},
};
use crate::{
    Accepted, Adapter, Attachment, Content, Features, Inbox, Place, Post, Sender, Update,
    courier::Couriers,
    ledger::{Ledger, PendingUpdate},
    router::{Context, Router},
    settings::{self, UserAccess},
};

/// Start time of every test.
pub(super) const BEGIN: Millis = 1_800_000_000_000;

pub(super) fn place() -> Place {
    Place { channel: "test".into(), chat: "7".into(), thread: None }
}

pub(super) fn thread(name: &str) -> Place {
    Place { thread: Some(name.into()), ..place() }
}

pub(super) fn ada() -> Sender {
    Sender { id: "ada".into(), name: "Ada".into() }
}

/// Options of a test.
#[derive(Clone)]
pub(super) struct Setup {
    pub(super) settings: settings::Router,
    pub(super) allow: Vec<UserAccess>,
    pub(super) features: fn(&mut Features),
}

impl Default for Setup {
    fn default() -> Self {
        let ada = UserAccess { id: ada().id, prompt: true, approve: true };
        Self { settings: settings::Router::default(), allow: vec![ada], features: |_| {} }
    }
}

pub(super) struct Harness {
    pub(super) server: Server,
    pub(super) chat: Arc<Chat>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) router: Router,
    couriers: Couriers,
    inbox: Inbox,
    watching: AbortOnDropHandle<()>,
    directory: TempDir,
    setup: Setup,
    began: Instant,
    updates: u64,
}

impl Harness {
    pub(super) async fn new() -> Self {
        Self::with(Setup::default()).await
    }

    pub(super) async fn with(setup: Setup) -> Self {
        let server = Server::start().await;
        let chat = Chat::new(setup.features);
        Self::start(server, chat, tempfile::tempdir().unwrap(), setup, Instant::now(), 0)
    }

    fn start(
        server: Server,
        chat: Arc<Chat>,
        directory: TempDir,
        setup: Setup,
        began: Instant,
        updates: u64,
    ) -> Self {
        let clock = move || BEGIN + Millis::try_from(began.elapsed().as_millis()).unwrap();
        let ledger = Ledger::open(&directory.path().join("channels.db"), Arc::new(clock)).unwrap();
        let ledger = Arc::new(ledger);
        let adapter: Arc<dyn Adapter> = chat.clone();
        let (inbox, mut news) = Inbox::new(Arc::clone(&ledger));
        let couriers = Couriers::new(inbox.clone(), &[Arc::clone(&adapter)]);
        let adapters = BTreeMap::from([("test".to_owned(), adapter)]);
        let router = Router::new(Context {
            client: server.client(),
            feed: Feed::new(server.client(), Scope::Directory),
            couriers: couriers.clone(),
            ledger: Arc::clone(&ledger),
            adapters,
            settings: setup.settings.clone(),
            allow: BTreeMap::from([("test".to_owned(), setup.allow.clone())]),
            files: directory.path().join("files"),
        });
        let watching = router.clone();
        let couriers_of_all = couriers.clone();
        let watching = AbortOnDropHandle::new(tokio::spawn(async move {
            let attending = async {
                while let Some(place) = news.recv().await {
                    couriers_of_all.wake(&place);
                    watching.attend(place);
                }
            };
            tokio::join!(watching.watch(), attending);
        }));
        Self { server, chat, ledger, router, couriers, inbox, watching, directory, setup, began, updates }
    }

    pub(super) fn files(&self) -> PathBuf {
        self.directory.path().join("files")
    }

    /// Kills the gateway and starts it again.
    pub(super) async fn crash(self) -> Self {
        self.crash_while(|_| {}).await
    }

    /// Kills the gateway, changes the server, and starts the gateway again.
    pub(super) async fn crash_while(self, happening: impl FnOnce(&Server)) -> Self {
        let Self {
            server,
            chat,
            ledger,
            router,
            couriers,
            inbox,
            watching,
            directory,
            setup,
            began,
            updates,
        } = self;
        router.stop().await;
        couriers.stop().await;
        watching.abort();
        watching.await.ok();
        drop((router, couriers, inbox));
        drop(ledger);
        happening(&server);
        let harness = Self::start(server, chat, directory, setup, began, updates);
        for place in harness.ledger.open_places().await.unwrap() {
            harness.couriers.wake(&place);
            harness.router.attend(place);
        }
        harness
    }

    /// Advances the clock.
    pub(super) async fn pass(&self, time: Duration) {
        tokio::time::pause();
        tokio::time::advance(time).await;
        tokio::time::resume();
    }

    pub(super) fn now(&self) -> Millis {
        self.ledger.now()
    }

    /// An update, as an adapter would make it.
    pub(super) fn update(&mut self, content: Content) -> Update {
        self.updates += 1;
        Update {
            id: self.updates.to_string(),
            alias: None,
            quoted: None,
            replies_to: None,
            album: None,
            place: place(),
            sender: ada(),
            is_direct: true,
            is_addressed: true,
            message: Some(format!("m{}", self.updates)),
            sent: self.now(),
            content,
        }
    }

    pub(super) async fn bring(&self, update: Update) -> Accepted {
        let place = update.place.clone();
        let accepted = self.ledger.accept(update).await.unwrap();
        self.router.attend(self.ledger.moved_to(&place).await.unwrap().unwrap_or(place));
        accepted
    }

    /// Moves a chat to a new id.
    pub(super) async fn moved(&self, from: &Place, to: &Place) {
        self.inbox.moved(from, to).await.unwrap();
    }

    pub(super) async fn say(&mut self, text: &str) {
        self.say_as(&place(), &ada(), text).await;
    }

    pub(super) async fn say_in(&mut self, place: &Place, text: &str) {
        self.say_as(place, &ada(), text).await;
    }

    pub(super) async fn say_as(&mut self, place: &Place, sender: &Sender, text: &str) {
        let content = Content::Message { text: text.to_owned(), files: Vec::new() };
        let update = Update { place: place.clone(), sender: sender.clone(), ..self.update(content) };
        self.bring(update).await;
    }

    pub(super) async fn send(&mut self, text: &str, files: Vec<Attachment>) {
        let update = self.update(Content::Message { text: text.to_owned(), files });
        self.bring(update).await;
    }

    pub(super) async fn tap(&mut self, sender: &Sender, token: &str) -> Option<String> {
        let receipt = format!("r{}", self.updates);
        let content = Content::Tap { token: token.to_owned(), receipt: Some(receipt.clone()) };
        let update = Update { sender: sender.clone(), ..self.update(content) };
        self.bring(update).await;
        self.chat.until_understood(&receipt).await
    }

    /// Sends a message and returns the prompt made from it.
    pub(super) async fn prompt(&mut self, text: &str) -> Prompt {
        let number = self.server.prompts().len();
        self.say(text).await;
        self.server.prompt(number).await
    }

    pub(super) async fn heard(&self, words: &str) -> Post {
        self.chat.until(&place(), words).await
    }

    pub(super) fn texts(&self) -> Vec<String> {
        self.chat.lines(&place()).into_iter().map(|post| post.text).collect()
    }

    /// Waits until the worker knows that the server has the prompt, which `/status` shows.
    pub(super) async fn settled(&mut self) {
        self.say("/status").await;
        self.heard("Working for").await;
        self.chat.forget("");
    }

    /// Waits until the worker has processed all events of a turn so far, by asking a question at the end.
    pub(super) async fn told(&mut self, prompt: &Prompt) {
        let question = serde_json::json!([{ "question": "(heard?)", "header": "", "options": [] }]);
        self.server.ask_question("que_told", &prompt.session, &question);
        self.heard("(heard?)").await;
        self.server.settle_question("que_told", &prompt.session);
        self.poll(async |harness| harness.ledger.open_asks(&place()).await.unwrap().is_empty()).await;
        self.chat.forget("(heard?)");
    }

    /// Waits until an update is scheduled for another attempt.
    pub(super) async fn retried(&mut self) {
        let now = self.now();
        let is_due = |pending: &PendingUpdate| pending.attempts > 0 && pending.due > now;
        self.poll(async |harness| harness.ledger.open_updates(&place()).await.unwrap().iter().any(is_due))
            .await;
    }

    /// Gives the worker ample time for its failing attempts: the ledger serves its callers in order.
    pub(super) async fn tried(&self) {
        for _ in 0..100 {
            // A call fails if it shares a commit with one that fails.
            self.ledger.place_state(&place()).await.ok();
            self.server.client().health().await.ok();
        }
    }

    /// Waits until the update with this number, and all before it, are done.
    pub(super) async fn done(&self, number: u64) {
        let is_it = |pending: &PendingUpdate| pending.update.id == number.to_string();
        self.poll(async |harness| !harness.ledger.open_updates(&place()).await.unwrap().iter().any(is_it))
            .await;
    }

    async fn poll(&self, is_so: impl AsyncFn(&Self) -> bool) {
        let waiting = async {
            while !is_so(self).await {
                tokio::task::yield_now().await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), waiting).await;
        assert!(waited.is_ok(), "{} workers, said {:#?}", self.router.workers(), self.texts());
    }

    /// Waits until all posts are stored as sent.
    pub(super) async fn said(&self) {
        self.poll(async |harness| harness.ledger.next_post(&place()).await.unwrap().is_none()).await;
    }

    /// Waits until nothing is left to do.
    pub(super) async fn rest(&self) {
        self.poll(async |harness| {
            harness.router.workers() == 0 && harness.ledger.next_post(&place()).await.unwrap().is_none()
        })
        .await;
    }
}
