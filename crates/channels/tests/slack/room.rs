//! A fake Slack, its adapter, and an inbox.

use std::{sync::Arc, time::Duration};

use channels::{Adapter as _, AdapterError, Content, Inbox, Place, Update, ledger::Ledger, slack::Slack};
use serde_json::{Value, json};
use testkit::platforms::{
    service_state::{Platform as _, State, UserMessage},
    slack::{Options, Slack as Fake},
};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::task::AbortOnDropHandle;

/// Timeout of everything that a test waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) struct Room {
    pub(crate) fake: Arc<Fake>,
    pub(crate) slack: Arc<Slack>,
    pub(crate) inbox: Inbox,
    pub(crate) ledger: Arc<Ledger>,
    places: mpsc::Receiver<Place>,
    tasks: Vec<AbortOnDropHandle<()>>,
    _directory: tempfile::TempDir,
}

impl Room {
    /// An adapter for Socket Mode that is not receiving yet.
    pub(crate) async fn new(options: Options) -> Self {
        Self::with(options, json!({"appToken": "xapp-fake"})).await
    }

    /// An adapter with additional settings.
    pub(crate) async fn with(options: Options, settings: Value) -> Self {
        let fake = Fake::start(options).await.unwrap();
        let mut all = json!({"botToken": "xoxb-fake", "api": fake.api()});
        for (name, value) in settings.as_object().unwrap() {
            all[name] = value.clone();
        }
        let slack = Arc::new(Slack::new(&serde_json::from_value(all).unwrap()).unwrap());
        let directory = tempfile::tempdir().unwrap();
        let clock = Arc::new(|| jiff::Timestamp::now().as_millisecond());
        let ledger = Arc::new(Ledger::open(&directory.path().join("channels.db"), clock).unwrap());
        let (inbox, places) = Inbox::new(ledger.clone());
        Self { fake, slack, inbox, ledger, places, tasks: Vec::new(), _directory: directory }
    }

    /// Starts receiving.
    pub(crate) async fn listening(mut self) -> Self {
        let (slack, inbox) = (self.slack.clone(), self.inbox.clone());
        self.keep(tokio::spawn(async move {
            let fault = slack.receive(&inbox).await;
            panic!("it should not have ended: {fault}");
        }));
        self.until("a connection", |fake, _| fake.connections() == 1).await;
        self
    }

    pub(crate) fn keep(&mut self, task: tokio::task::JoinHandle<()>) {
        self.tasks.push(AbortOnDropHandle::new(task));
    }

    /// Waits for the fault that ends receiving at once.
    pub(crate) async fn ends(&self) -> AdapterError {
        timeout(PATIENCE, self.slack.receive(&self.inbox)).await.expect("it should end")
    }

    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Fake, &State) -> bool) {
        let fake = self.fake.clone();
        self.fake.service_state().until(what, |state| is_so(&fake, state).then_some(())).await.unwrap();
    }

    /// Sends a message as a user, in a direct message or in a channel with others.
    pub(crate) fn say(&self, chat: &str, thread: Option<&str>, text: &str) -> String {
        self.fake.say(UserMessage {
            chat: chat.to_owned(),
            thread: thread.map(str::to_owned),
            from: "U1".to_owned(),
            name: "ada".to_owned(),
            text: text.to_owned(),
            is_group: chat.starts_with('C'),
            ..UserMessage::default()
        })
    }

    /// Waits for the newest update.
    pub(crate) async fn next(&mut self) -> Update {
        let place = timeout(PATIENCE, self.places.recv()).await.expect("an update should come").unwrap();
        self.ledger.open_updates(&place).await.unwrap().pop().unwrap().update
    }

    /// True if a place has news that the test has not read.
    pub(crate) fn has_more(&mut self) -> bool {
        self.places.try_recv().is_ok()
    }

    /// Ends the test: the fake saw no violation.
    pub(crate) fn is_fine(&self) {
        assert_eq!(self.fake.service_state().state().problems, Vec::<String>::new());
    }
}

/// The text of an update.
pub(crate) fn said(update: &Update) -> &str {
    match &update.content {
        Content::Message { text, .. } => text,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn place(chat: &str, thread: Option<&str>) -> Place {
    Place { channel: "slack".to_owned(), chat: chat.to_owned(), thread: thread.map(str::to_owned) }
}
