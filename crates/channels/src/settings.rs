//! What can be chosen, as it is written under `channels` in the configuration.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

pub use protocol::config::Secret;
use serde::Deserialize;

/// Everything about channels.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Settings {
    /// The server whose sessions are talked to; the one that runs the gateway, if there is no other.
    pub server: Option<String>,
    /// Who calls it.
    pub username: Option<String>,
    /// Its password.
    pub password: Option<Secret>,
    /// The directory that sessions are about.
    pub directory: Option<PathBuf>,
    /// Where services call us, if a channel receives by webhook.
    pub listen: Option<SocketAddr>,
    /// Telegram.
    pub telegram: Option<Telegram>,
    /// Slack.
    pub slack: Option<Slack>,
    /// WhatsApp.
    pub whatsapp: Option<WhatsApp>,
    /// How messages become prompts, and how their answers come back.
    pub router: Router,
}

/// A bot of Telegram.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Telegram {
    /// The bot's token.
    pub token: Secret,
    /// Where its interface is.
    #[serde(default = "telegram_api")]
    pub api: String,
    /// Who may talk to it.
    #[serde(default)]
    pub allow: Vec<Allowed>,
    /// How it calls us. Without this, updates are fetched.
    #[serde(default)]
    pub webhook: Option<TelegramWebhook>,
}

/// Where Telegram calls us.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TelegramWebhook {
    /// The public address that leads to `/telegram` of our listener.
    pub url: String,
    /// What every call carries. 1 to 256 letters, digits, `_` and `-`.
    pub secret: Secret,
}

/// An app of Slack.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Slack {
    /// `xoxb-…`: to speak.
    pub bot_token: Secret,
    /// `xapp-…`: to listen by Socket Mode, which needs no public address.
    #[serde(default)]
    pub app_token: Option<Secret>,
    /// To know calls of the Events API; without Socket Mode.
    #[serde(default)]
    pub signing_secret: Option<Secret>,
    /// Where its interface is.
    #[serde(default = "slack_api")]
    pub api: String,
    /// Who may talk to it.
    #[serde(default)]
    pub allow: Vec<Allowed>,
}

/// A number of WhatsApp's Cloud API.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WhatsApp {
    /// To speak.
    pub token: Secret,
    /// Whose number it is.
    #[serde(rename = "phoneNumberID")]
    pub phone_number_id: String,
    /// To know calls.
    pub app_secret: Secret,
    /// What is said when the webhook is set up.
    pub verify_token: Secret,
    /// Where its interface is, with the version.
    #[serde(default = "whatsapp_api")]
    pub api: String,
    /// Who may talk to it.
    #[serde(default)]
    pub allow: Vec<Allowed>,
}

/// Somebody who may talk to the agent.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Allowed {
    /// May do everything.
    Fully(String),
    /// May do what is said.
    Partly(Person),
}

/// Somebody, and what they may do.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Person {
    /// As the service knows them.
    pub id: String,
    /// Whether they may give the agent work, and answer its questions.
    #[serde(default = "yes")]
    pub prompt: bool,
    /// Whether they may allow what the agent asks permission for.
    #[serde(default)]
    pub approve: bool,
}

/// How messages become prompts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Router {
    /// How long an answer may take, in milliseconds.
    pub timeout_ms: u64,
    /// How long a person may take to answer, in milliseconds.
    pub question_timeout_ms: u64,
    /// What becomes of a message that comes while the agent works.
    pub busy: Busy,
    /// Whether an answer is shown while it grows, where that can be done.
    pub stream: bool,
    /// Messages that waited longer than this while nobody received them are not run; the person is told.
    pub stale_minutes: u64,
    /// What is told while the agent works.
    pub progress: Progress,
}

/// What becomes of a message that comes while the agent works.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Busy {
    /// It waits for its turn.
    #[default]
    Queue,
    /// It joins the running turn.
    Steer,
    /// It stops the running turn and takes its place.
    Interrupt,
}

/// What is told while the agent works.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Progress {
    /// Whether tools and signs of life are told. Questions always are.
    pub enabled: bool,
    /// The least time between two tool lines, in milliseconds.
    pub tool_throttle_ms: u64,
    /// After how much silence there is a sign of life, in milliseconds.
    pub heartbeat_ms: u64,
}

/// The least that can be chosen.
const MIN_TOOL_THROTTLE: Duration = Duration::from_secs(1);
const MIN_HEARTBEAT: Duration = Duration::from_secs(10);

impl Default for Router {
    fn default() -> Self {
        Self {
            timeout_ms: 300_000,
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
    /// The least time between two tool lines.
    pub fn tool_throttle(&self) -> Duration {
        Duration::from_millis(self.tool_throttle_ms).max(MIN_TOOL_THROTTLE)
    }

    /// After how much silence there is a sign of life.
    pub fn heartbeat(&self) -> Duration {
        Duration::from_millis(self.heartbeat_ms).max(MIN_HEARTBEAT)
    }
}

impl Allowed {
    /// Somebody, and what they may do.
    pub fn person(&self) -> Person {
        match self {
            Self::Fully(id) => Person { id: id.clone(), prompt: true, approve: true },
            Self::Partly(person) => person.clone(),
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
    fn nothing_has_to_be_chosen() {
        let settings: Settings = serde_json::from_value(json!({})).unwrap();
        assert_eq!(settings.router, Router::default());
        assert_eq!(settings.router.progress.heartbeat(), Duration::from_mins(1));
    }

    #[test]
    fn what_is_chosen_too_small_is_taken_as_the_least() {
        let progress = Progress { tool_throttle_ms: 1, heartbeat_ms: 1, ..Progress::default() };
        assert_eq!(progress.tool_throttle(), Duration::from_secs(1));
        assert_eq!(progress.heartbeat(), Duration::from_secs(10));
    }

    #[test]
    fn somebody_may_do_everything_or_what_is_said() {
        let telegram: Telegram =
            serde_json::from_value(json!({"token": "t", "allow": ["1", {"id": "2"}]})).unwrap();
        let people: Vec<Person> = telegram.allow.iter().map(Allowed::person).collect();
        assert!(people[0].approve && people[1].prompt && !people[1].approve);
    }

    #[test]
    fn a_mistake_is_told_and_a_secret_is_not() {
        let mistake = serde_json::from_value::<Settings>(json!({"telegramm": {}})).unwrap_err();
        assert!(mistake.to_string().contains("telegramm"), "{mistake}");
        let telegram: Telegram = serde_json::from_value(json!({"token": "123:abc"})).unwrap();
        assert!(!format!("{telegram:?}").contains("abc"));
    }
}
