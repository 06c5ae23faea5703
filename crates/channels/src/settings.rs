//! The settings under `channels` in the configuration.

mod checked;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

pub use protocol::config::Secret;
use serde::Deserialize;
use serde_json::Value;
use serde_path_to_error::Segment;

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default, expecting = "an object with channels")]
pub struct Settings {
    /// Address of the server with the sessions; by default the server that runs the gateway.
    pub server: Option<String>,
    /// Username for the server.
    pub username: Option<String>,
    /// Password for the server.
    pub password: Option<Secret>,
    /// Directory of the sessions.
    pub directory: Option<PathBuf>,
    /// Address of the webhook listener; required if a channel receives by webhook.
    #[serde(deserialize_with = "checked::listen")]
    pub listen: Option<SocketAddr>,
    pub telegram: Option<Telegram>,
    pub slack: Option<Slack>,
    pub whatsapp: Option<WhatsApp>,
    /// Rules for turning messages into prompts and reporting their answers.
    pub router: Router,
}

/// A wrong setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidSetting {
    /// JSON pointer to the setting, such as `/telegram/allow/0`.
    pub pointer: String,
    /// The error with advice. It repeats no value that may be a secret.
    pub message: String,
}

impl Settings {
    /// Reads the value of `channels`.
    pub fn parse(channels: &Value) -> Result<Self, InvalidSetting> {
        serde_path_to_error::deserialize(channels).map_err(|error| {
            let steps = error.path().iter().filter_map(|segment| match segment {
                Segment::Map { key } => Some(format!("/{}", key.replace('~', "~0").replace('/', "~1"))),
                Segment::Seq { index } => Some(format!("/{index}")),
                Segment::Enum { .. } | Segment::Unknown => None,
            });
            let pointer = steps.collect();
            InvalidSetting { pointer, message: without_values(&error.into_inner().to_string()) }
        })
    }
}

/// Serde's message without the wrong value, which may be a token in the wrong place.
fn without_values(message: &str) -> String {
    let is_about_value = message.starts_with("invalid type: ") || message.starts_with("invalid value: ");
    match message.rsplit_once(", expected ") {
        Some((_, expected)) if is_about_value => format!("expected {expected}"),
        _ => message.to_owned(),
    }
}

/// A Telegram bot.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object with `token`")]
pub struct Telegram {
    #[serde(deserialize_with = "checked::secret")]
    pub token: Secret,
    /// Base address of the Bot API.
    #[serde(default = "telegram_api")]
    pub api: String,
    /// Users who may talk to the bot.
    #[serde(default, deserialize_with = "checked::telegram_ids")]
    pub allow: Vec<Allowed>,
    /// Receives updates by webhook; without it the adapter polls.
    #[serde(default)]
    pub webhook: Option<TelegramWebhook>,
}

/// The webhook that Telegram calls.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, expecting = "an object with `url` and `secret`")]
pub struct TelegramWebhook {
    /// The public address that leads to `/telegram` of the gateway's listener.
    pub url: String,
    /// Secret header of every call: 1 to 256 letters, digits, `_` and `-`.
    #[serde(deserialize_with = "checked::secret")]
    pub secret: Secret,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "an object with `botToken` and `appToken`"
)]
pub struct Slack {
    /// `xoxb-…`: authenticates calls to the Web API.
    #[serde(deserialize_with = "checked::secret")]
    pub bot_token: Secret,
    /// `xapp-…`: receives events by Socket Mode, which needs no public address.
    #[serde(default, deserialize_with = "checked::optional_secret")]
    pub app_token: Option<Secret>,
    /// Verifies calls of the Events API, which is used without Socket Mode.
    #[serde(default, deserialize_with = "checked::optional_secret")]
    pub signing_secret: Option<Secret>,
    /// Base address of the Web API.
    #[serde(default = "slack_api")]
    pub api: String,
    /// Users who may talk to the app.
    #[serde(default, deserialize_with = "checked::slack_ids")]
    pub allow: Vec<Allowed>,
}

/// A phone number of WhatsApp's Cloud API.
#[derive(Debug, Clone, Deserialize)]
#[serde(
    rename_all = "camelCase",
    deny_unknown_fields,
    expecting = "an object with `token`, `phoneNumberID`, `appSecret` and `verifyToken`"
)]
pub struct WhatsApp {
    /// Access token for calls to the Graph API.
    #[serde(deserialize_with = "checked::secret")]
    pub token: Secret,
    /// Id of the phone number.
    #[serde(rename = "phoneNumberID", deserialize_with = "checked::text")]
    pub phone_number_id: String,
    /// Verifies the signature of webhook calls.
    #[serde(deserialize_with = "checked::secret")]
    pub app_secret: Secret,
    /// Token that Meta sends back when the webhook is registered.
    #[serde(deserialize_with = "checked::secret")]
    pub verify_token: Secret,
    /// Base address of the Graph API, with its version.
    #[serde(default = "whatsapp_api")]
    pub api: String,
    /// Users who may talk to the number.
    #[serde(default, deserialize_with = "checked::whatsapp_ids")]
    pub allow: Vec<Allowed>,
}

/// A user who may talk to the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowed {
    /// An id: the user may do everything.
    Fully(String),
    /// An id with explicit rights.
    Partly(UserAccess),
}

/// A user and their rights.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UserAccess {
    /// The user's id at the service.
    pub id: String,
    /// True if the user may prompt the agent and answer its questions.
    #[serde(default = "yes")]
    pub prompt: bool,
    /// True if the user may answer permission requests.
    #[serde(default)]
    pub approve: bool,
}

/// Rules for turning messages into prompts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Router {
    /// Maximum silence of a turn in milliseconds. Progress of any kind starts it again.
    #[serde(deserialize_with = "checked::at_least::<1_000, _>")]
    pub timeout_ms: u64,
    /// Timeout of a question or permission request in milliseconds.
    #[serde(deserialize_with = "checked::at_least::<1_000, _>")]
    pub question_timeout_ms: u64,
    /// Handling of a message that arrives while the agent works.
    pub busy: Busy,
    /// True to show an answer while it grows, where the service supports it.
    pub stream: bool,
    /// Messages that waited longer than this while the gateway was down are not run; the user is told so.
    #[serde(deserialize_with = "checked::minutes")]
    pub stale_minutes: u64,
    /// Progress messages while the agent works.
    pub progress: Progress,
}

/// Handling of a message that arrives while the agent works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Busy {
    /// It waits for the running turn to end.
    #[default]
    Queue,
    /// It joins the running turn.
    Steer,
    /// It stops the running turn and takes its place.
    Interrupt,
}

/// Progress messages while the agent works.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Progress {
    /// True to report tool calls and to send heartbeats. Requests are always shown.
    pub enabled: bool,
    /// Minimum time between two tool lines in milliseconds.
    #[serde(deserialize_with = "checked::at_least::<1_000, _>")]
    pub tool_throttle_ms: u64,
    /// Silence before a heartbeat in milliseconds.
    #[serde(deserialize_with = "checked::at_least::<10_000, _>")]
    pub heartbeat_ms: u64,
}

impl Default for Router {
    fn default() -> Self {
        Self {
            timeout_ms: 1_800_000,
            question_timeout_ms: 1_800_000,
            busy: Busy::default(),
            stream: false,
            stale_minutes: 60,
            progress: Progress::default(),
        }
    }
}

impl Default for Progress {
    fn default() -> Self {
        Self { enabled: true, tool_throttle_ms: 5_000, heartbeat_ms: 60_000 }
    }
}

impl Progress {
    /// Minimum time between two tool lines.
    pub(crate) fn tool_throttle(&self) -> Duration {
        Duration::from_millis(self.tool_throttle_ms)
    }

    /// Silence before a heartbeat.
    pub fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms)
    }
}

impl Allowed {
    pub fn access(&self) -> UserAccess {
        match self {
            Self::Fully(id) => UserAccess { id: id.clone(), prompt: true, approve: true },
            Self::Partly(access) => access.clone(),
        }
    }
}

fn telegram_api() -> String {
    "https://api.telegram.org".to_owned()
}

fn slack_api() -> String {
    "https://slack.com/api".to_owned()
}

fn whatsapp_api() -> String {
    "https://graph.facebook.com/v26.0".to_owned()
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_setting_has_a_default() {
        let settings: Settings = serde_json::from_value(json!({})).unwrap();
        assert_eq!(settings.router, Router::default());
        assert_eq!(settings.router.progress.heartbeat(), Duration::from_mins(1));
    }

    #[test]
    fn mistakes_are_refused_with_their_key_and_advice() {
        let telegram = |allow: Value| json!({ "telegram": { "token": "t", "allow": allow } });
        let slack = |allow: Value| json!({ "slack": { "botToken": "x", "allow": allow } });
        for (settings, pointer, advice) in [
            (
                json!({ "router": { "timeoutMs": 0 } }),
                "/router/timeoutMs",
                "0 is too small; use at least 1000",
            ),
            (json!({ "router": { "timeoutMs": u64::MAX } }), "/router/timeoutMs", "is too large"),
            (json!({ "router": { "timeoutMs": "5 min" } }), "/router/timeoutMs", "write a whole number"),
            (json!({ "router": { "staleMinutes": 0 } }), "/router/staleMinutes", "use at least 1 (minutes)"),
            (
                json!({ "router": { "questionTimeoutMs": 10 } }),
                "/router/questionTimeoutMs",
                "use at least 1000",
            ),
            (
                json!({ "router": { "progress": { "toolThrottleMs": 1 } } }),
                "/router/progress/toolThrottleMs",
                "use at least 1000",
            ),
            (
                json!({ "router": { "progress": { "heartbeatMs": 5 } } }),
                "/router/progress/heartbeatMs",
                "5 is too small; use at least 10000",
            ),
            (telegram(json!([1])), "/telegram/allow/0", "write the id in quotes: \"1\""),
            (telegram(json!(["@ada"])), "/telegram/allow", "use the numeric id"),
            (telegram(json!([{ "id": "ada" }])), "/telegram/allow", "use the numeric id"),
            (telegram(json!(["7", true])), "/telegram/allow/1", "a user is an id such as \"1001\""),
            (slack(json!(["@ada"])), "/slack/allow", "use the member id"),
            (json!({ "telegram": { "token": "" } }), "/telegram/token", "it is empty"),
            (json!({ "telegram": {} }), "/telegram", "missing field `token`"),
            (json!({ "listen": "localhost" }), "/listen", "for instance \"127.0.0.1:4097\""),
            (json!({ "telegramm": {} }), "/telegramm", "unknown field `telegramm`"),
        ] {
            let mistake = Settings::parse(&settings).unwrap_err();
            assert_eq!(mistake.pointer, pointer, "{settings}: {mistake:?}");
            assert!(mistake.message.contains(advice), "{settings}: {mistake:?}");
        }
    }

    #[test]
    fn a_mistake_repeats_no_token() {
        for settings in [json!({ "telegram": "123:abc" }), json!({ "telegram": { "token": 123 } })] {
            let mistake = Settings::parse(&settings).unwrap_err();
            assert!(!mistake.message.contains("123"), "{mistake:?}");
        }
    }

    #[test]
    fn a_user_has_all_rights_or_explicit_ones() {
        let telegram: Telegram =
            serde_json::from_value(json!({"token": "t", "allow": ["1", {"id": "2"}]})).unwrap();
        let users: Vec<UserAccess> = telegram.allow.iter().map(Allowed::access).collect();
        assert!(users[0].approve && users[1].prompt && !users[1].approve);
    }

    #[test]
    fn a_mistake_is_named_and_a_secret_is_hidden() {
        let mistake = serde_json::from_value::<Settings>(json!({"telegramm": {}})).unwrap_err();
        assert!(mistake.to_string().contains("telegramm"), "{mistake}");
        let telegram: Telegram = serde_json::from_value(json!({"token": "123:abc"})).unwrap();
        assert!(!format!("{telegram:?}").contains("abc"));
    }
}
