//! Tests of the adapter with a server that is as strict as Telegram's.

mod cuts;
mod receive;
mod send;
mod webhook;

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::platforms::{
    service_state::{Platform as _, ServiceFault as Planned, UserMessage},
    telegram::{Options, Telegram as Fake},
};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};

use super::*;
use crate::{
    Button, Content, Document, Update,
    ledger::{Clock, Ledger},
    settings::{Secret, TelegramWebhook},
};

/// Timeout of everything that a test waits for.
const PATIENCE: Duration = Duration::from_mins(1);

/// Short pauses, so that a test does not wait longer than necessary.
const PACE: Pace = Pace {
    poll: Duration::from_secs(50),
    grace: Duration::from_secs(15),
    idle: Duration::from_millis(5),
    least: Duration::from_millis(5),
    most: Duration::from_millis(20),
    conflict: Duration::from_millis(50),
};

const TOKEN: &str = "4200:fake-token";
const SECRET: &str = "webhook-secret_1";

struct Harness {
    fake: Arc<Fake>,
    directory: TempDir,
    settings: settings::Telegram,
    pace: Pace,
    clock: Clock,
}

impl Harness {
    async fn new() -> Self {
        Self::with(Options::default()).await
    }

    async fn with(options: Options) -> Self {
        let fake = Fake::start(options).await.unwrap();
        let settings = json!({"token": TOKEN, "api": format!("{}/", fake.address())});
        Self {
            fake,
            directory: tempfile::tempdir().unwrap(),
            settings: serde_json::from_value(settings).unwrap(),
            pace: PACE,
            clock: Arc::new(|| 1_000_000),
        }
    }

    fn adapter(&self) -> Telegram {
        Telegram { pace: self.pace, ..Telegram::new(&self.settings).unwrap() }
    }

    /// Starts a gateway that only receives.
    fn receive(&self) -> Gateway {
        let path = self.directory.path().join("channels.db");
        let ledger = Arc::new(Ledger::open(&path, Arc::clone(&self.clock)).unwrap());
        let (inbox, news) = Inbox::new(Arc::clone(&ledger));
        let adapter = Arc::new(self.adapter());
        let (listener, to) = (Arc::clone(&adapter), inbox.clone());
        let task = tokio::spawn(async move { listener.receive(&to).await });
        Gateway { ledger, inbox, news, adapter, task }
    }

    fn say(&self, text: &str) -> String {
        self.fake.say(ada(text))
    }

    /// Waits until a method was called `times` times.
    async fn called(&self, method: &str, times: usize) {
        let enough = |count: &usize| *count >= times;
        let service_state = self.fake.service_state();
        service_state
            .until(method, |it| it.calls.get(method).filter(|it| enough(it)).copied())
            .await
            .unwrap();
    }

    fn plan(&self, method: &str, fault: Planned) {
        self.fake.service_state().plan(&testkit::platforms::service_state::Planned {
            method: method.into(),
            times: 1,
            fault,
        });
    }

    fn problems(&self) -> Vec<String> {
        self.fake.service_state().state().problems
    }
}

struct Gateway {
    ledger: Arc<Ledger>,
    inbox: Inbox,
    news: mpsc::Receiver<Place>,
    adapter: Arc<Telegram>,
    task: JoinHandle<AdapterError>,
}

impl Gateway {
    /// The updates of the next place with news.
    async fn next(&mut self) -> Vec<Update> {
        let place = timeout(PATIENCE, self.news.recv()).await.unwrap().unwrap();
        self.stored(&place).await
    }

    async fn stored(&self, place: &Place) -> Vec<Update> {
        let pending = self.ledger.open_updates(place).await.unwrap();
        pending.into_iter().map(|pending| pending.update).collect()
    }

    /// Waits for the fault that ended receiving.
    async fn fault(self) -> AdapterError {
        timeout(PATIENCE, self.task).await.unwrap().unwrap()
    }

    /// Stops the gateway as if it had been killed.
    async fn stop(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

fn ada(text: &str) -> UserMessage {
    UserMessage {
        chat: "7".into(),
        from: "1".into(),
        name: "Ada".into(),
        text: text.into(),
        ..UserMessage::default()
    }
}

fn place() -> Place {
    Place { channel: "telegram".into(), chat: "7".into(), thread: None }
}

fn text(update: &Update) -> &str {
    match &update.content {
        Content::Message { text, .. } => text,
        other => panic!("nothing was said: {other:?}"),
    }
}

#[test]
fn errors_of_invalid_settings_contain_no_secrets() {
    let settings = |value: Value| serde_json::from_value::<settings::Telegram>(value).unwrap();
    for bad in [
        json!({"token": "12:with/slash"}),
        json!({"token": "12:hidden", "api": "ftp://somewhere"}),
        json!({"token": "12:hidden", "webhook": {"url": "https://a.example", "secret": "not allowed!"}}),
    ] {
        let fault = Telegram::new(&settings(bad)).unwrap_err().to_string();
        assert!(!["slash", "hidden", "not allowed!"].iter().any(|it| fault.contains(it)), "{fault}");
    }
}
