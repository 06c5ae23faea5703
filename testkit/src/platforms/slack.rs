//! A fake Slack, as strict as the real one: the Web API, Socket Mode, and the Events API with its signatures and
//! retries.
//!
//! A typed text is converted as Slack's own client does: `@baton` is a mention, `&`, `<` and `>` are escaped,
//! addresses are links, and `/baton words` is a slash command. In a channel a mention is delivered twice, as
//! `message` and as `app_mention`. Beside the control interface of every fake there are:
//!
//! | call | what it does |
//! |---|---|
//! | `POST /control/slack/calls` | `{url}`: sends events there from now on, if it answers Slack's challenge |
//! | `POST /control/slack/disconnect` | announces that all connections will close, and closes them when there is
//! another |
//! | `POST /control/slack/cut` | breaks all connections without notice |
//! | `POST /control/slack/deliver` | `{event}`: delivers an event unchanged |

#![expect(clippy::indexing_slicing, reason = "only JSON is indexed: what is not there is null")]

mod blocks;
mod delivery;
mod files;
mod socket;
mod web;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt::Write as _,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use anyhow::Result;
use axum::{
    Json, Router,
    extract::State as Shared,
    routing::{any, get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{net::TcpListener, time::Instant};

use super::{
    service_state::{self, Platform, ServiceState, Tap, UserMessage},
    tls::Front,
};
use delivery::Kind;
pub use delivery::signature;

/// The bot's user id.
pub const BOT: &str = "UBOT";
const BOT_ID: &str = "BBOT";
const TEAM: &str = "T1";
/// The bot's name as users type it.
const MENTION: &str = "@baton";
const COMMAND: &str = "/baton";

/// Tokens, limits and missing features of the fake.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Options {
    pub bot_token: String,
    pub app_token: String,
    /// Signs calls to the app.
    pub signing_secret: String,
    /// True if a second message in a channel within a second is refused.
    pub is_paced: bool,
    /// Channels of which the bot is not a member.
    pub outside: Vec<String>,
    /// Methods that this server does not have.
    pub without: Vec<String>,
    /// Time for an acknowledgement, in milliseconds.
    pub deadline_ms: u64,
    /// Pauses before the retries of a failed call, in milliseconds; the real Slack retries at once, after a minute
    /// and after five minutes.
    pub retries_ms: Vec<u64>,
    /// True if Socket Mode is offered over TLS.
    pub is_secure: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            bot_token: "xoxb-fake".to_owned(),
            app_token: "xapp-fake".to_owned(),
            signing_secret: "fake-signing-secret".to_owned(),
            is_paced: false,
            outside: Vec::new(),
            without: Vec::new(),
            deadline_ms: 3_000,
            retries_ms: vec![0, 1_000, 5_000],
            is_secure: false,
        }
    }
}

#[derive(Debug)]
pub struct Slack {
    service_state: ServiceState,
    options: Options,
    url: String,
    front: Option<Front>,
    http: reqwest::Client,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Makes ids and timestamps unique.
    count: u64,
    /// The thread of every message, by channel and timestamp.
    messages: BTreeMap<(String, String), Option<String>>,
    /// Channels that contain messages.
    channels: BTreeSet<String>,
    /// Time of the bot's last message in a channel.
    spoken: BTreeMap<String, Instant>,
    statuses: BTreeMap<(String, String), String>,
    files: BTreeMap<String, files::Stored>,
    tickets: BTreeSet<String>,
    lines: Vec<socket::Line>,
    /// Deliveries over a connection that are not acknowledged, by envelope.
    open: BTreeMap<String, delivery::Sent>,
    /// Envelopes that were acknowledged, or sent again under another id.
    settled: BTreeSet<String>,
    /// Deliveries that wait for a connection.
    waiting: VecDeque<delivery::Item>,
    last: Option<delivery::Item>,
    calls: Option<String>,
}

impl Slack {
    /// Starts it on a free loopback port.
    pub async fn start(options: Options) -> Result<Arc<Self>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let front = if options.is_secure { Some(Front::start(address).await?) } else { None };
        let slack = Arc::new(Self {
            service_state: ServiceState::default(),
            options,
            url: format!("http://{address}"),
            front,
            http: crate::calls::http(),
            inner: Mutex::default(),
        });
        let service = routes(slack.clone());
        tokio::spawn(async move { axum::serve(listener, service).await });
        Ok(slack)
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The address of its Web API.
    pub fn api(&self) -> String {
        format!("{}/api", self.url)
    }

    /// Adds the bot to a channel.
    pub fn invite(&self, chat: &str) {
        self.lock().channels.insert(chat.to_owned());
    }

    /// The status that a thread shows.
    pub fn status(&self, chat: &str, thread: &str) -> String {
        self.lock().statuses.get(&(chat.to_owned(), thread.to_owned())).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a unique id.
    fn fresh(&self, prefix: &str) -> String {
        let mut inner = self.lock();
        inner.count += 1;
        format!("{prefix}{}", inner.count)
    }

    /// A unique timestamp, which Slack also uses as the id of a message.
    fn moment(&self) -> String {
        let mut inner = self.lock();
        inner.count += 1;
        format!("{}.{:06}", jiff::Timestamp::now().as_second(), inner.count)
    }

    /// Adds a message and returns its timestamp.
    fn place(&self, chat: &str, thread: Option<&str>) -> String {
        let ts = self.moment();
        let mut inner = self.lock();
        inner.channels.insert(chat.to_owned());
        inner.messages.insert((chat.to_owned(), ts.clone()), thread.map(str::to_owned));
        ts
    }

    fn has(&self, chat: &str, ts: &str) -> bool {
        self.lock().messages.contains_key(&(chat.to_owned(), ts.to_owned()))
    }

    /// Delivers an event unchanged.
    pub fn event(self: &Arc<Self>, event: &Value) {
        let body = json!({
            "token": "verification", "team_id": TEAM, "api_app_id": "A1", "type": "event_callback",
            "event_id": self.fresh("Ev"), "event_time": jiff::Timestamp::now().as_second(),
            "authorizations": [{"team_id": TEAM, "user_id": BOT, "is_bot": true}], "event": event,
        });
        self.deliver(Kind::Event, body);
    }

    fn command(self: &Arc<Self>, said: &UserMessage, words: &str) {
        let name = if said.is_group { "general" } else { "directmessage" };
        let body = json!({
            "token": "verification", "team_id": TEAM, "api_app_id": "A1", "command": COMMAND,
            "text": words.trim(), "channel_id": said.chat, "channel_name": name, "user_id": said.from,
            "user_name": said.name, "trigger_id": self.fresh("trigger."), "response_url": format!("{}/response", self.url),
        });
        self.lock().channels.insert(said.chat.clone());
        self.deliver(Kind::Command, body);
    }

    fn message(self: &Arc<Self>, said: &UserMessage) -> String {
        let ts = self.place(&said.chat, said.thread.as_deref());
        let text = typed(&said.text);
        let mut event = json!({
            "type": "message", "channel": said.chat, "channel_type": if said.is_group { "channel" } else { "im" },
            "user": said.from, "text": text, "ts": ts, "event_ts": ts, "team": TEAM, "client_msg_id": self.fresh("client-"),
        });
        if let Some(thread) = &said.thread {
            event["thread_ts"] = json!(thread);
        }
        if let Some(file) = &said.file {
            event["subtype"] = json!("file_share");
            event["files"] = json!([self.given(file)]);
        }
        self.event(&event);
        if said.is_group && text.contains(&format!("<@{BOT}>")) {
            event["type"] = json!("app_mention");
            for field in ["channel_type", "subtype"] {
                event.as_object_mut().and_then(|event| event.remove(field));
            }
            self.event(&event);
        }
        ts
    }
}

/// Implemented for the `Arc`, because delivering in the background needs a shared reference.
impl Platform for Arc<Slack> {
    fn service_state(&self) -> &ServiceState {
        &self.service_state
    }

    fn say(&self, said: UserMessage) -> String {
        if let Some(words) =
            said.text.strip_prefix(COMMAND).filter(|words| words.is_empty() || words.starts_with(' '))
        {
            self.command(&said, words);
            return String::new();
        }
        self.message(&said)
    }

    fn tap(&self, tap: Tap) {
        let messages = self.service_state.state().messages;
        let Some(message) = messages.iter().find(|it| it.id == tap.message && !it.is_removed) else {
            return self.service_state.problem(format!("a test taps on {}, which is not there", tap.message));
        };
        let Some(button) = message.buttons.iter().find(|it| it.label == tap.label) else {
            return self.service_state.problem(format!("a test taps on {:?}, which is not there", tap.label));
        };
        let mut container = json!({"type": "message", "message_ts": message.id, "channel_id": message.chat});
        let mut shown = json!({"type": "message", "bot_id": BOT_ID, "ts": message.id, "text": message.text});
        if let Some(thread) = &message.thread {
            container["thread_ts"] = json!(thread);
            shown["thread_ts"] = json!(thread);
        }
        let body = json!({
            "type": "block_actions", "api_app_id": "A1", "team": {"id": TEAM},
            "user": {"id": tap.from, "username": tap.name, "name": tap.name, "team_id": TEAM},
            "channel": {"id": message.chat, "name": "somewhere"}, "container": container, "message": shown,
            "trigger_id": self.fresh("trigger."), "response_url": format!("{}/response", self.url),
            "actions": [{"type": "button", "block_id": "b1", "action_id": "a1", "value": button.token,
                "text": {"type": "plain_text", "text": button.label}, "action_ts": self.moment()}],
        });
        self.deliver(Kind::Interaction, body);
    }

    fn stop(&self, chat: &str, thread: Option<&str>) {
        self.event(&json!({
            "type": "agent_session_stopped", "channel": chat, "thread_ts": thread, "user": "U1",
            "event_ts": self.moment(), "streaming_message_ts": [],
        }));
    }

    fn repeat(&self) {
        let last = self.lock().last.clone();
        match last {
            Some(item) => self.send(item.again()),
            None => self.service_state.problem("a test repeats an update before there was one"),
        }
    }
}

/// Converts a typed text as Slack's client does.
fn typed(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut wire = String::with_capacity(text.len());
    for word in text.split_inclusive(char::is_whitespace) {
        let bare = word.trim_end();
        let space = word.strip_prefix(bare).unwrap_or_default();
        let _ = match bare {
            _ if bare.starts_with("https://") || bare.starts_with("http://") => {
                write!(wire, "<{bare}>{space}")
            }
            _ => write!(wire, "{}{space}", bare.replace(MENTION, &format!("<@{BOT}>"))),
        };
    }
    wire
}

#[derive(Debug, Deserialize)]
struct Target {
    url: String,
}

#[derive(Debug, Deserialize)]
struct Raw {
    event: Value,
}

type Fake = Shared<Arc<Slack>>;

fn routes(slack: Arc<Slack>) -> Router {
    Router::new()
        .route("/api/{method}", any(web::call))
        .route("/upload/{ticket}", post(files::upload))
        .route("/files/{id}", get(files::download))
        .route("/link", get(socket::connect))
        .route(
            "/control/slack/certificate",
            post(async |Shared(it): Fake| Json(json!(it.front.as_ref().map(|front| &front.certificate)))),
        )
        .route(
            "/control/slack/calls",
            post(async |Shared(it): Fake, Json(target): Json<Target>| match it.call_at(&target.url).await {
                Ok(()) => Json(json!({})),
                Err(error) => Json(json!({"error": error.to_string()})),
            }),
        )
        .route(
            "/control/slack/disconnect",
            post(async |Shared(it): Fake| {
                it.disconnect();
                Json(json!({}))
            }),
        )
        .route(
            "/control/slack/cut",
            post(async |Shared(it): Fake| {
                it.cut();
                Json(json!({}))
            }),
        )
        .route(
            "/control/slack/deliver",
            post(async |Shared(it): Fake, Json(raw): Json<Raw>| {
                it.event(&raw.event);
                Json(json!({}))
            }),
        )
        // Callers never send more than Slack accepts; the fake itself checks the limits.
        .layer(axum::extract::DefaultBodyLimit::max(16 << 20))
        .with_state(slack.clone())
        .merge(service_state::control(Arc::new(slack)))
}

/// Maximum time of any wait in this module.
const PATIENCE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::typed;

    #[test]
    fn slacks_client_changes_typed_text() {
        assert_eq!(
            typed("@baton see https://example.com/a&b\nif a < b"),
            "<@UBOT> see <https://example.com/a&amp;b>\nif a &lt; b"
        );
    }
}
