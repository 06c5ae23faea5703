//! Tests of the adapter with a service that is as strict as the real one.

mod bad_input;
mod receiving;
mod sending;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::{Router, extract::State as Shared, http::Request, routing::any};
use http::StatusCode;
use tempfile::TempDir;
use testkit::platforms::{
    service_state::{Platform as _, State, UserMessage},
    whatsapp::{Options, WhatsApp as Service},
};
use tokio::{net::TcpListener, sync::mpsc};

use super::*;
use crate::{
    Update,
    ledger::Ledger,
    settings::Secret,
    webhook::{Call, MAX_BODY},
};

/// The service, the adapter and its ledger.
struct Harness {
    service: Arc<Service>,
    adapter: Arc<WhatsApp>,
    inbox: Inbox,
    ledger: Arc<Ledger>,
    news: mpsc::Receiver<Place>,
    _directory: TempDir,
}

/// The webhook listener that the service calls.
struct Gate {
    adapter: Arc<WhatsApp>,
    inbox: Inbox,
    /// Number of calls that fail first.
    troubles: AtomicUsize,
}

impl Harness {
    async fn new() -> Self {
        Self::with(Options::default(), 0).await
    }

    async fn with(options: Options, troubles: usize) -> Self {
        let service = Service::start(options).await.unwrap();
        let adapter = Arc::new(adapter(&service.api(), service.options()));
        let directory = tempfile::tempdir().unwrap();
        // A little behind, because the service reports seconds: an update received in the second of a failure
        // counts as later than the failure.
        let clock = Arc::new(|| jiff::Timestamp::now().as_millisecond() - 2_000);
        let ledger = Arc::new(Ledger::open(&directory.path().join("channels.db"), clock).unwrap());
        let (inbox, news) = Inbox::new(Arc::clone(&ledger));
        let gate =
            Gate { adapter: Arc::clone(&adapter), inbox: inbox.clone(), troubles: AtomicUsize::new(0) };
        let gate = Arc::new(gate);
        let webhook = listen(Arc::clone(&gate)).await;
        service.set_webhook(&webhook).await.unwrap();
        gate.troubles.store(troubles, Ordering::Relaxed);
        Self { service, adapter, inbox, ledger, news, _directory: directory }
    }

    /// Stored updates of a user.
    async fn updates(&self, person: &str) -> Vec<Update> {
        let pending = self.ledger.open_updates(&updates::place(person)).await.unwrap();
        pending.into_iter().map(|pending| pending.update).collect()
    }

    /// Waits until the service has seen `count` acknowledged updates.
    async fn acknowledged(&self, count: usize) {
        self.until("acknowledgement", |state| state.acknowledged >= count).await;
    }

    async fn until(&self, what: &str, look: impl Fn(&State) -> bool) {
        self.service.service_state().until(what, |state| look(state).then_some(())).await.unwrap();
    }

    fn state(&self) -> State {
        self.service.service_state().state()
    }
}

fn adapter(api: &str, options: &Options) -> WhatsApp {
    WhatsApp::new(&configured(api, options)).unwrap()
}

fn configured(api: &str, options: &Options) -> settings::WhatsApp {
    settings::WhatsApp {
        token: Secret::new(&options.token),
        phone_number_id: options.phone_number_id.clone(),
        app_secret: Secret::new(&options.app_secret),
        verify_token: Secret::new(&options.verify_token),
        api: api.to_owned(),
        allow: Vec::new(),
    }
}

/// Starts the webhook listener and returns its address.
async fn listen(gate: Arc<Gate>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/whatsapp", listener.local_addr().unwrap());
    let router = Router::new().route("/whatsapp", any(pass)).with_state(gate);
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn pass(Shared(gate): Shared<Arc<Gate>>, request: Request<axum::body::Body>) -> (StatusCode, String) {
    let is_trouble = |left: usize| left.checked_sub(1);
    if gate.troubles.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_trouble).is_ok() {
        return (StatusCode::BAD_GATEWAY, String::new());
    }
    let (head, body) = request.into_parts();
    let call = Call {
        method: head.method,
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body: axum::body::to_bytes(body, MAX_BODY).await.unwrap(),
    };
    let reply = gate.adapter.webhook(call, &gate.inbox).await;
    (reply.status, reply.body)
}

fn said(from: &str, text: &str) -> UserMessage {
    UserMessage {
        from: from.into(),
        chat: from.into(),
        name: "Ada".into(),
        text: text.into(),
        ..UserMessage::default()
    }
}

const ADA: &str = "491700000001";
const BOB: &str = "491700000002";
