//! A fake of Telegram's Bot API.
//!
//! Polls wait, and confirm all updates before their offset; a second poll ends the first. With a webhook, updates
//! are pushed with the secret until they are answered with success. Calls that break a rule are refused with
//! Telegram's error texts and recorded.

mod body;
mod html;
mod methods;
mod updates;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use anyhow::Result;
use axum::{
    Json, Router,
    body::{Body as Answer, Bytes},
    extract::{DefaultBodyLimit, Path, State as Shared},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Response},
    routing::{any, get, post},
};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use futures::stream;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch};

use super::service_state::{GivenFile, Platform, ServiceFault, ServiceState, Tap, UserMessage, control};
use body::Body;
use updates::Webhook;

/// Maximum size of a call's body.
const MAX_BODY: usize = 51 << 20;

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Options {
    /// Begins with the bot's id.
    pub token: String,
    pub username: String,
    /// Maximum number of messages and edits per second in a chat; `None` for no limit.
    pub per_second: Option<usize>,
    /// Tags that this server does not know, like an older version of Telegram's.
    pub unknown_tags: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            token: "4200:fake-token".to_owned(),
            username: "baton_bot".to_owned(),
            per_second: None,
            unknown_tags: Vec::new(),
        }
    }
}

impl Options {
    fn id(&self) -> i64 {
        self.token.split(':').next().and_then(|it| it.parse().ok()).unwrap_or_default()
    }
}

#[derive(Debug)]
pub struct Telegram {
    service_state: ServiceState,
    options: Options,
    address: String,
    /// Grows when a poll or a push may have something to do.
    news: watch::Sender<u64>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    last_message: i64,
    last_update: i64,
    /// Updates that are not confirmed yet.
    waiting: VecDeque<Value>,
    /// Updates that are delivered once more, whatever was confirmed.
    again: Vec<Value>,
    last: Option<Value>,
    /// The kinds of updates that the bot asked for; `None` for all.
    kinds: Option<Vec<String>>,
    webhook: Option<Webhook>,
    /// The number of the newest poll.
    poller: u64,
    /// Chats in which a user has written: a bot cannot begin a conversation.
    chats: BTreeSet<String>,
    threads: BTreeSet<(String, String)>,
    /// Groups that were migrated, with their new id.
    migrated: BTreeMap<String, i64>,
    /// Callback queries that are not answered yet.
    queries: BTreeSet<String>,
    files: BTreeMap<String, Vec<u8>>,
    /// Times of the bot's messages in each chat, and the end of its flood wait.
    told: BTreeMap<String, VecDeque<Instant>>,
    muted: BTreeMap<String, Instant>,
}

/// A refused call.
#[derive(Debug)]
struct Refusal {
    code: u16,
    words: String,
    parameters: Option<Value>,
}

impl Refusal {
    fn new(code: u16, words: impl Into<String>) -> Self {
        Self { code, words: words.into(), parameters: None }
    }

    fn with(self, key: &str, value: impl Serialize) -> Self {
        Self { parameters: Some(json!({key: value})), ..self }
    }

    fn wait(seconds: u64) -> Self {
        Self::new(429, format!("Too Many Requests: retry after {seconds}")).with("retry_after", seconds)
    }

    /// Returns true if even a careful client can meet this error.
    fn is_circumstance(&self) -> bool {
        let known = ["not modified", "not found", "parse entities", "too old", "upgraded", "Unauthorized"];
        self.code == 429 || self.code >= 500 || known.iter().any(|it| self.words.contains(it))
    }

    fn response(self) -> Response {
        let mut body = json!({"ok": false, "error_code": self.code, "description": self.words});
        if let (Some(parameters), Some(body)) = (self.parameters, body.as_object_mut()) {
            body.insert("parameters".to_owned(), parameters);
        }
        let status = StatusCode::from_u16(self.code).unwrap_or(StatusCode::BAD_REQUEST);
        (status, Json(body)).into_response()
    }
}

impl Telegram {
    /// Starts the service on a free port.
    pub async fn start(options: Options) -> Result<Arc<Self>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}", listener.local_addr()?);
        let news = watch::Sender::new(0);
        let service = Arc::new(Self {
            service_state: ServiceState::default(),
            options,
            address,
            news,
            inner: Mutex::default(),
        });
        tokio::spawn(updates::push(Arc::downgrade(&service)));
        let router = Router::new()
            .route("/{bot}/{method}", any(call))
            .route("/file/{bot}/{folder}/{file}", get(download))
            .route(
                "/control/telegram/migrate",
                post(async |Shared(it): Service, Json(Move { chat, to }): Json<Move>| {
                    it.migrate(&chat, to);
                    Json(json!({}))
                }),
            )
            .layer(DefaultBodyLimit::max(MAX_BODY))
            .with_state(Arc::clone(&service))
            .merge(control(Arc::clone(&service)));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(service)
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Migrates a group to another id. Calls with the old id get an error with the new one.
    pub fn migrate(&self, chat: &str, to: i64) {
        let mut inner = self.lock();
        inner.migrated.insert(chat.to_owned(), to);
        inner.chats.insert(to.to_string());
    }

    /// Migrates a group and announces it with a message in both chats.
    pub fn migrate_loudly(&self, chat: &str, to: i64) {
        self.migrate(chat, to);
        let from: i64 = chat.parse().unwrap_or_default();
        for (here, kind, name, other) in
            [(from, "group", "migrate_to_chat_id", to), (to, "supergroup", "migrate_from_chat_id", from)]
        {
            let message = json!({
                "message_id": self.new_message(), "date": now(), "chat": {"id": here, "type": kind},
                "from": person("1087968824", "Group"), name: other,
            });
            self.add("message", &message);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn new_message(&self) -> i64 {
        let mut inner = self.lock();
        inner.last_message += 1;
        inner.last_message
    }

    /// Refuses a call that exceeds the rate limit of its chat.
    fn pace(&self, chat: &str) -> Result<(), Refusal> {
        let Some(limit) = self.options.per_second else { return Ok(()) };
        let mut inner = self.lock();
        let now = Instant::now();
        if inner.muted.get(chat).is_some_and(|until| *until > now) {
            drop(inner);
            self.service_state.problem(format!("{chat} got something before the time to wait had passed"));
            return Err(Refusal::wait(1));
        }
        let told = inner.told.entry(chat.to_owned()).or_default();
        told.retain(|at| now.duration_since(*at) < Duration::from_secs(1));
        if told.len() >= limit {
            inner.muted.insert(chat.to_owned(), now + Duration::from_secs(1));
            return Err(Refusal::wait(1));
        }
        told.push_back(now);
        Ok(())
    }

    /// Stores a file of the user and returns its kind and description.
    fn keep(&self, file: &GivenFile) -> (&'static str, Value) {
        let bytes = BASE64_STANDARD.decode(&file.base64).unwrap_or_default();
        let mut inner = self.lock();
        let id = format!("file-{}", inner.files.len() + 1);
        let mut told =
            json!({"file_id": id, "file_unique_id": id, "file_size": bytes.len(), "mime_type": file.mime});
        inner.files.insert(id.clone(), bytes);
        match file.mime.split('/').next() {
            Some("image") => {
                let small =
                    json!({"file_id": format!("{id}-small"), "file_size": 10, "width": 90, "height": 60});
                ("photo", json!([small, {"file_id": id, "file_size": 100, "width": 1280, "height": 853}]))
            }
            Some("audio") => ("voice", told),
            _ => {
                if let Some(told) = told.as_object_mut() {
                    told.insert("file_name".to_owned(), file.name.clone().into());
                }
                ("document", told)
            }
        }
    }
}

impl Platform for Telegram {
    fn service_state(&self) -> &ServiceState {
        &self.service_state
    }

    fn say(&self, said: UserMessage) -> String {
        let id = self.new_message();
        let chat: i64 = said.chat.parse().unwrap_or_default();
        let kind = if said.is_group { "supergroup" } else { "private" };
        let mut message = json!({
            "message_id": id, "date": now(), "chat": {"id": chat, "type": kind}, "from": person(&said.from, &said.name),
        });
        let file = said.file.as_ref().map(|file| self.keep(file));
        if let Some(message) = message.as_object_mut() {
            let words = if file.is_some() { "caption" } else { "text" };
            message.insert(words.to_owned(), said.text.into());
            message.extend(file.map(|(kind, file)| (kind.to_owned(), file)));
            if let Some(thread) = &said.thread {
                message
                    .insert("message_thread_id".to_owned(), thread.parse::<i64>().unwrap_or_default().into());
                message.insert("is_topic_message".to_owned(), true.into());
            }
        }
        self.lock().chats.insert(said.chat.clone());
        if let Some(thread) = said.thread {
            self.lock().threads.insert((said.chat, thread));
        }
        self.add("message", &message);
        id.to_string()
    }

    fn tap(&self, tap: Tap) {
        let state = self.service_state.state();
        let shown = state.messages.iter().find(|it| it.id == tap.message && !it.is_removed);
        let button = shown.and_then(|it| it.buttons.iter().find(|button| button.label == tap.label));
        let (Some(shown), Some(button)) = (shown, button) else {
            return self.service_state.problem(format!("{}: there is no button {}", tap.message, tap.label));
        };
        let chat: i64 = shown.chat.parse().unwrap_or_default();
        let kind = if chat < 0 { "supergroup" } else { "private" };
        let query = format!("query-{}", self.new_message());
        self.lock().queries.insert(query.clone());
        let thread = shown.thread.as_ref().and_then(|it| it.parse::<i64>().ok());
        self.add(
            "callback_query",
            &json!({
                "id": query, "from": person(&tap.from, &tap.name), "chat_instance": "1", "data": button.token,
                "message": {
                    "message_id": shown.id.parse::<i64>().unwrap_or_default(), "date": 1, "from": self.me(),
                    "chat": {"id": chat, "type": kind}, "text": shown.text,
                    "message_thread_id": thread, "is_topic_message": thread.is_some(),
                },
            }),
        );
    }

    fn repeat(&self) {
        let last = self.lock().last.clone();
        if let Some(last) = last {
            self.bring(last);
        }
    }
}

fn person(id: &str, name: &str) -> Value {
    json!({"id": id.parse::<i64>().unwrap_or_default(), "is_bot": false, "first_name": name})
}

type Service = Shared<Arc<Telegram>>;

/// A migration of a group.
#[derive(Deserialize)]
struct Move {
    chat: String,
    to: i64,
}

async fn call(
    Shared(service): Service,
    Path((bot, method)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let fault = service.service_state.call(&method).await;
    let result = match perform(&service, &bot, &method, &headers, &body, fault).await {
        Ok(result) => result,
        Err(refusal) => {
            if !refusal.is_circumstance() {
                service.service_state.problem(format!("{method}: {}", refusal.words));
            }
            return refusal.response();
        }
    };
    if fault == Some(ServiceFault::Cut) {
        let broken = stream::iter([Err::<Bytes, _>(std::io::Error::other("cut"))]);
        return Response::new(Answer::from_stream(broken));
    }
    Json(json!({"ok": true, "result": result})).into_response()
}

async fn perform(
    service: &Telegram,
    bot: &str,
    method: &str,
    headers: &HeaderMap,
    body: &Bytes,
    fault: Option<ServiceFault>,
) -> Result<Value, Refusal> {
    if bot.strip_prefix("bot") != Some(&service.options.token) {
        return Err(Refusal::new(401, "Unauthorized"));
    }
    match fault {
        Some(ServiceFault::Busy { after }) => return Err(Refusal::wait(after)),
        Some(ServiceFault::Unavailable) => return Err(Refusal::new(503, "Service Unavailable")),
        Some(ServiceFault::Broken) => return Err(Refusal::new(500, "Internal Server Error")),
        _ => {}
    }
    let body = Body::read(headers, body).map_err(|words| Refusal::new(400, words))?;
    service.act(method, &body).await
}

async fn download(
    Shared(service): Service,
    Path((bot, _, file)): Path<(String, String, String)>,
) -> Response {
    let _ = service.service_state.call("file").await;
    let is_known = bot.strip_prefix("bot") == Some(&service.options.token);
    match service.lock().files.get(&file).filter(|_| is_known) {
        Some(bytes) => bytes.clone().into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

/// Seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "a fake of an external server needs the time of day")]
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |it| it.as_secs())
}
