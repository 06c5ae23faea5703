//! A fake of WhatsApp's Cloud API: the Graph API for messages of the bot, and signed webhook calls for messages to
//! it.
//!
//! It refuses what the real one refuses, with the same texts and codes, and records calls that a careful client
//! would not have made. Calls to the webhook are repeated until they are answered with 200.

mod media;
mod push;
mod rules;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{DefaultBodyLimit, Path, State as Shared},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use futures::stream;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc};

use super::service_state::{Platform, ServiceFault, ServiceState, Shown, Tap, UserMessage, control};
use media::Media;
use push::Push;
pub use push::sign;
use rules::Complaint;

/// Time after a user's message in which the bot may write to the user.
const WINDOW: Duration = Duration::from_hours(24);

/// Maximum size of a call's body: a document may have 100 MiB.
const MAX_BODY: usize = 101 << 20;

/// The version of the API.
const VERSION: &str = "v26.0";

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Options {
    pub token: String,
    /// The id of the bot's phone number.
    #[serde(rename = "phoneNumberID")]
    pub phone_number_id: String,
    /// Signs calls to the webhook.
    pub app_secret: String,
    /// The token that the webhook checks when it is registered.
    pub verify_token: String,
    /// The webhook's address, if it is not set later. It is registered with the first update.
    pub webhook: Option<String>,
    /// Maximum number of messages to one user in [`Options::pair_seconds`]; `None` for no limit.
    pub pair_limit: Option<usize>,
    pub pair_seconds: u64,
    /// True if a message outside the window is refused at once. Otherwise it is accepted, and a failure is reported
    /// afterwards.
    pub refuses_late: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: "EAAfake".to_owned(),
            phone_number_id: "106540352242922".to_owned(),
            app_secret: "app-secret".to_owned(),
            verify_token: "verify-token".to_owned(),
            webhook: None,
            pair_limit: None,
            pair_seconds: 6,
            refuses_late: false,
        }
    }
}

#[derive(Debug)]
pub struct WhatsApp {
    service_state: ServiceState,
    options: Options,
    address: String,
    pushes: mpsc::UnboundedSender<Push>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    count: u64,
    webhook: Option<String>,
    /// Time of each user's last message.
    heard: BTreeMap<String, Instant>,
    /// Times of messages to each user, for the rate limit.
    told: BTreeMap<String, VecDeque<Instant>>,
    /// The user of each message, in both directions.
    messages: BTreeMap<String, String>,
    /// Messages of the bot whose buttons are a list.
    lists: Vec<String>,
    media: BTreeMap<String, Media>,
    last: Option<Push>,
}

impl WhatsApp {
    /// Starts the service on a free port.
    pub async fn start(options: Options) -> Result<Arc<Self>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}", listener.local_addr()?);
        let (pushes, queue) = mpsc::unbounded_channel();
        let inner = Mutex::default();
        let service =
            Arc::new(Self { service_state: ServiceState::default(), options, address, pushes, inner });
        tokio::spawn(push::deliver(Arc::downgrade(&service), queue));
        let router = Self::router(&service).merge(control(Arc::clone(&service)));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(service)
    }

    fn router(service: &Arc<Self>) -> Router {
        Router::new()
            // The version is optional.
            .route("/{first}/messages", post(messages))
            .route("/{first}/{second}/messages", post(messages))
            .route("/{first}/media", post(media::upload))
            .route("/{first}/{second}/media", post(media::upload))
            .route("/{first}", get(media::describe))
            .route("/{first}/{second}", get(media::describe))
            .route("/lookaside/{id}", get(media::download))
            .route("/control/webhook", post(set_webhook))
            .route("/control/later", post(later))
            .fallback(nothing)
            .layer(DefaultBodyLimit::max(MAX_BODY))
            .with_state(Arc::clone(service))
    }

    /// The API's address for a configuration.
    pub fn api(&self) -> String {
        format!("{}/{VERSION}", self.address)
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Registers the webhook, as a developer does with its address and the verify token in a form.
    pub async fn set_webhook(&self, url: &str) -> Result<()> {
        let challenge = "1158201444";
        let query = [
            ("hub.mode", "subscribe"),
            ("hub.challenge", challenge),
            ("hub.verify_token", &self.options.verify_token),
        ];
        let address = reqwest::Url::parse_with_params(url, query)?;
        let answer = crate::calls::http().get(address).send().await?;
        ensure!(answer.status() == 200, "the webhook answered {}", answer.status());
        let said = answer.text().await?;
        ensure!(said == challenge, "the webhook did not send back the challenge but {said:?}");
        self.lock().webhook = Some(url.to_owned());
        Ok(())
    }

    /// Several users send a message each, all of which are delivered in one call.
    pub fn say_together(&self, all: Vec<UserMessage>) -> Vec<String> {
        let (ids, messages): (Vec<_>, Vec<_>) = all.into_iter().map(|said| self.hear(said)).unzip();
        self.push(Push::messages(&self.options, messages));
        ids
    }

    /// Users send messages one after the other, which are delivered in the opposite order.
    pub fn say_backwards(&self, all: Vec<UserMessage>) -> Vec<String> {
        let (ids, mut messages): (Vec<_>, Vec<_>) = all.into_iter().map(|said| self.hear(said)).unzip();
        messages.reverse();
        for message in messages {
            self.push(Push::messages(&self.options, vec![message]));
        }
        ids
    }

    /// Lets time pass for the 24-hour window.
    pub fn pass(&self, time: Duration) {
        for heard in self.lock().heard.values_mut() {
            *heard = heard.checked_sub(time).unwrap_or(*heard);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new message id.
    fn new_message(&self, person: &str) -> String {
        let mut inner = self.lock();
        inner.count += 1;
        let id = format!("wamid.FAKE{:012}", inner.count);
        inner.messages.insert(id.clone(), person.to_owned());
        id
    }

    /// Receives a message of the user; returns its id and the update for the webhook.
    fn hear(&self, said: UserMessage) -> (String, push::Heard) {
        let id = self.new_message(&said.from);
        let file = said.file.as_ref().map(|file| self.keep(Media::given(file)));
        self.lock().heard.insert(said.from.clone(), Instant::now());
        let heard = push::Heard::said(&id, said, file);
        (id, heard)
    }

    fn keep(&self, media: Media) -> (String, Media) {
        let mut inner = self.lock();
        inner.count += 1;
        let id = format!("{}", 700_000_000_000_000 + inner.count);
        inner.media.insert(id.clone(), media.clone());
        (id, media)
    }

    fn push(&self, push: Push) {
        if push.is_update {
            self.lock().last = Some(push.clone());
        }
        // Sending fails only if the service has ended.
        let _ = self.pushes.send(push);
    }

    /// Returns true if the user wrote in the last 24 hours.
    fn is_open(&self, person: &str) -> bool {
        self.lock().heard.get(person).is_some_and(|heard| heard.elapsed() < WINDOW)
    }

    /// Returns true if the bot has exceeded the rate limit for the user.
    fn is_too_fast(&self, person: &str) -> bool {
        let Some(limit) = self.options.pair_limit else { return false };
        let mut inner = self.lock();
        let told = inner.told.entry(person.to_owned()).or_default();
        told.retain(|at| at.elapsed() < Duration::from_secs(self.options.pair_seconds));
        if told.len() >= limit {
            return true;
        }
        told.push_back(Instant::now());
        false
    }

    /// Checks the access token, and returns the planned fault.
    async fn admit(&self, method: &str, headers: &HeaderMap) -> Result<Option<ServiceFault>, Response> {
        let fault = self.service_state.call(method).await;
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = given.and_then(|given| given.strip_prefix("Bearer ")).unwrap_or_default();
        if token != self.options.token {
            self.service_state.problem(format!("{method}: the access token is missing or wrong"));
            // The real one repeats the token as well.
            let message = format!("Malformed access token {token}");
            return Err(Complaint::new(190, message).response(StatusCode::UNAUTHORIZED));
        }
        match fault {
            Some(ServiceFault::Busy { after }) => {
                let complaint = Complaint::new(130_429, "(#130429) Rate limit hit");
                let wait = [(header::RETRY_AFTER, after.to_string())];
                Err((wait, complaint.response(StatusCode::TOO_MANY_REQUESTS)).into_response())
            }
            Some(ServiceFault::Unavailable) => Err(Complaint::new(2, "(#2) Service temporarily unavailable")
                .response(StatusCode::SERVICE_UNAVAILABLE)),
            Some(ServiceFault::Broken) => Err(Complaint::new(131_000, "(#131000) Something went wrong")
                .response(StatusCode::INTERNAL_SERVER_ERROR)),
            fault => Ok(fault),
        }
    }

    /// Refuses a call, and records a broken rule unless the caller could not have avoided it.
    fn refuse(&self, method: &str, complaint: &Complaint) -> Response {
        if !complaint.is_circumstance() {
            self.service_state.problem(format!("{method}: {complaint}"));
        }
        complaint.response(StatusCode::BAD_REQUEST)
    }
}

impl Platform for WhatsApp {
    fn service_state(&self) -> &ServiceState {
        &self.service_state
    }

    fn say(&self, said: UserMessage) -> String {
        let (id, heard) = self.hear(said);
        self.push(Push::messages(&self.options, vec![heard]));
        id
    }

    fn tap(&self, tap: Tap) {
        let state = self.service_state.state();
        let shown = state.messages.iter().find(|shown| shown.id == tap.message);
        let button = shown.and_then(|shown| shown.buttons.iter().find(|button| button.label == tap.label));
        let Some(button) = button else {
            return self.service_state.problem(format!("{}: there is no button {}", tap.message, tap.label));
        };
        let id = self.new_message(&tap.from);
        let is_list = self.lock().lists.contains(&tap.message);
        self.lock().heard.insert(tap.from.clone(), Instant::now());
        let heard = push::Heard::tapped(&id, &tap, &button.token, is_list);
        self.push(Push::messages(&self.options, vec![heard]));
    }

    fn repeat(&self) {
        let last = self.lock().last.clone();
        if let Some(last) = last {
            self.push(last);
        }
    }
}

type Service = Shared<Arc<WhatsApp>>;

/// Handles messages of the bot, and its read receipts.
async fn messages(
    Shared(service): Service,
    Path(path): Path<Vec<String>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let number = path.last().cloned().unwrap_or_default();
    let Ok(body) = serde_json::from_slice::<Value>(&body) else {
        return service.refuse("messages", &Complaint::new(100, "(#100) The body is no JSON"));
    };
    let method = if body.get("status").is_some() { "typing" } else { "messages" };
    let fault = match service.admit(method, &headers).await {
        Ok(fault) => fault,
        Err(response) => return response,
    };
    if number != service.options.phone_number_id {
        return service.refuse(method, &Complaint::unknown(&number));
    }
    let outcome = if method == "typing" { service.read(&body) } else { service.speak(&body) };
    match outcome {
        Ok(answer) => answered(fault, answer),
        Err(complaint) => service.refuse(method, &complaint),
    }
}

impl WhatsApp {
    /// Handles a read receipt with a typing indicator.
    fn read(&self, body: &Value) -> Result<Value, Complaint> {
        let message = rules::read(body)?;
        let person = self.lock().messages.get(message).cloned();
        self.service_state.typing(&person.ok_or_else(|| Complaint::invalid("there is no such message"))?);
        Ok(json!({ "success": true }))
    }

    /// Handles a message of the bot.
    fn speak(&self, body: &Value) -> Result<Value, Complaint> {
        let spoken = rules::message(body)?;
        let person = spoken.person.clone();
        let is_here = |message: &String| self.lock().messages.get(message) == Some(&person);
        if !spoken.shown.reply_to.as_ref().is_none_or(is_here) {
            return Err(Complaint::invalid("context: there is no such message here"));
        }
        if self.is_too_fast(&person) {
            let message = "(#131056) (Business Account, Consumer Account) pair rate limit hit";
            return Err(Complaint::new(131_056, message));
        }
        let is_open = self.is_open(&person);
        if !is_open && self.options.refuses_late {
            return Err(Complaint::late());
        }
        let file = match &spoken.media {
            Some(id) => Some(self.file(id, &spoken.shown)?),
            None => None,
        };
        let id = self.new_message(&person);
        let answer = json!({
            "messaging_product": "whatsapp",
            "contacts": [{ "input": person, "wa_id": person }],
            "messages": [{ "id": id, "message_status": "accepted" }],
        });
        if spoken.is_list {
            self.lock().lists.push(id.clone());
        }
        if is_open {
            self.service_state.show(Shown { id: id.clone(), file, ..spoken.shown });
        }
        self.push(Push::status(&self.options, &id, &person, is_open));
        Ok(answer)
    }
}

/// The answer, unless the connection is planned to break before it.
fn answered(fault: Option<ServiceFault>, answer: Value) -> Response {
    if fault == Some(ServiceFault::Cut) {
        let broken = stream::iter([Err::<Bytes, _>(std::io::Error::other("cut on purpose"))]);
        return Body::from_stream(broken).into_response();
    }
    Json(answer).into_response()
}

#[derive(Debug, Deserialize)]
struct Webhook {
    url: String,
}

async fn set_webhook(Shared(service): Service, Json(webhook): Json<Webhook>) -> Response {
    match service.set_webhook(&webhook.url).await {
        Ok(()) => Json(json!({})).into_response(),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

#[derive(Debug, Deserialize)]
struct Later {
    hours: u64,
}

async fn later(Shared(service): Service, Json(later): Json<Later>) -> Json<Value> {
    service.pass(Duration::from_hours(later.hours));
    Json(json!({}))
}

async fn nothing(Shared(service): Service, uri: axum::http::Uri) -> Response {
    service.service_state.problem(format!("{}: unknown path", uri.path()));
    Complaint::new(2500, "Unknown path components").response(StatusCode::NOT_FOUND)
}
