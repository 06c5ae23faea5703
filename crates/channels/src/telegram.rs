//! The Telegram adapter, which uses the Bot API.
//!
//! Updates arrive by long polling or by webhook; either way each is in the ledger before it is acknowledged. Text
//! is sent as Telegram's HTML, and as plain text if Telegram rejects the HTML.

mod api;
mod form;
mod poll;
mod read;
mod say;
#[cfg(test)]
mod tests;
mod webhook;
mod wire;

use std::{fmt, time::Duration};

use bytes::Bytes;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use self::{
    api::{Api, ApiError, Body},
    poll::Pace,
    read::Bot,
    say::TextFormat,
    webhook::Hook,
};
use crate::{
    Adapter, AdapterError, Attachment, Features, Inbox, Place, Post, Sent,
    adapter::AdapterFuture,
    settings,
    webhook::{Call, Reply},
    words,
};

const CHANNEL: &str = "telegram";

/// Telegram shows the typing indicator for five seconds.
const TYPING: Duration = Duration::from_secs(4);

/// Telegram allows about one message or edit per second in a private chat, and twenty per minute in a group.
const EDITS: Duration = Duration::from_secs(1);
const EDITS_IN_GROUPS: Duration = Duration::from_secs(3);

/// Telegram's clients do not reliably show more buttons.
const BUTTONS: usize = 60;

/// Telegram's limits for downloads and uploads of bots.
const MAX_DOWNLOAD: u64 = 20 << 20;
const MAX_UPLOAD: u64 = 50 << 20;

/// A Telegram bot.
pub struct Telegram {
    api: Api,
    bot: OnceCell<Bot>,
    hook: Option<Hook>,
    pace: Pace,
}

impl fmt::Debug for Telegram {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Telegram").field("bot", &self.bot.get()).finish_non_exhaustive()
    }
}

impl Telegram {
    /// Creates a bot. Fails if its settings are invalid.
    pub fn new(settings: &settings::Telegram) -> Result<Self, AdapterError> {
        let hook = settings.webhook.as_ref().map(Hook::new).transpose()?;
        Ok(Self { api: Api::new(settings)?, bot: OnceCell::new(), hook, pace: Pace::default() })
    }

    /// The bot's own user; requested once.
    async fn bot(&self) -> Result<&Bot, ApiError> {
        let ask = async || {
            let user: wire::User = self.api.call("getMe", &json!({})).await?;
            let username = user.username.unwrap_or_default();
            tracing::info!(username, "authenticated at Telegram");
            Ok(Bot { id: user.id, username })
        };
        self.bot.get_or_try_init(ask).await
    }

    /// Authenticates the bot, sets or deletes the webhook, and registers the commands.
    async fn introduce(&self) -> Result<&Bot, ApiError> {
        let bot = self.bot().await?;
        match &self.hook {
            Some(hook) => self.api.call::<Value>("setWebhook", &hook.registration()).await.map(drop)?,
            // If this fails and matters, polling reports it.
            None => best_effort(self.api.call("deleteWebhook", &json!({})).await, "deleteWebhook"),
        }
        // Telegram suggests these commands to users who type a slash.
        let commands = words::COMMANDS.map(|(name, _, what)| json!({"command": name, "description": what}));
        let commands = json!({"commands": commands});
        best_effort(self.api.call("setMyCommands", &commands).await, "setMyCommands");
        Ok(bot)
    }

    async fn listen(&self, inbox: &Inbox) -> AdapterError {
        let mut tries = 0;
        let bot = loop {
            match self.introduce().await {
                Ok(bot) => break bot,
                Err(error) if self.hook.is_some() && error.is(400, "") => return error.into(),
                Err(error) => match self.pace.after(&error, &mut tries) {
                    Ok(pause) => {
                        inbox.lost(CHANNEL, error.to_string());
                        tokio::time::sleep(pause).await;
                    }
                    Err(fault) => return fault,
                },
            }
        };
        inbox.connected(CHANNEL);
        if self.hook.is_some() {
            return std::future::pending().await;
        }
        self.poll(bot, inbox).await
    }

    /// Calls a method with Telegram's HTML, and again with plain text if Telegram cannot parse or show the HTML. A
    /// call refused for one of these reasons was certainly not carried out.
    async fn say(&self, method: &str, words: impl Fn(TextFormat) -> Body) -> Result<Value, ApiError> {
        let error = match self.api.submit(method, words(TextFormat::Html)).await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let is_unreadable = ["parse entities", "too long", "text is empty", "must be non-empty"]
            .iter()
            .any(|reason| error.is(400, reason));
        if !is_unreadable {
            return Err(error);
        }
        tracing::warn!(fault = %AdapterError::from(error), "Telegram rejected a text in HTML; sending it as plain text");
        self.api.submit(method, words(TextFormat::Plain)).await
    }
}

fn best_effort(result: Result<Value, ApiError>, method: &str) {
    if let Err(error) = result {
        tracing::debug!(method, fault = %AdapterError::from(error), "a call to Telegram failed; continuing without it");
    }
}

/// Treats a refusal as success if there was nothing to do.
fn forgive(result: Result<Value, ApiError>, reasons: &[&str]) -> Result<(), AdapterError> {
    match result {
        Err(error) if !reasons.iter().any(|reason| error.is(400, reason)) => Err(error.into()),
        _ => Ok(()),
    }
}

/// The id of the sent message.
fn sent(message: &Value) -> Result<Sent, AdapterError> {
    let id = message.get("message_id").and_then(Value::as_i64);
    id.map(|id| Sent(id.to_string()))
        .ok_or_else(|| AdapterError::Uncertain("Telegram's answer has no message id".to_owned()))
}

impl Adapter for Telegram {
    fn channel(&self) -> &'static str {
        CHANNEL
    }

    fn features(&self) -> Features {
        Features {
            typing: Some(TYPING),
            edit: Some(EDITS_IN_GROUPS),
            buttons: BUTTONS,
            threads: true,
            streaming: true,
            files: Some(MAX_UPLOAD),
            text: say::TEXT,
        }
    }

    /// Ids of groups are negative.
    fn edit_pace(&self, place: &Place) -> Option<Duration> {
        Some(if place.chat.starts_with('-') { EDITS_IN_GROUPS } else { EDITS })
    }

    fn receive<'a>(&'a self, inbox: &'a Inbox) -> BoxFuture<'a, AdapterError> {
        Box::pin(self.listen(inbox))
    }

    fn is_called(&self) -> bool {
        self.hook.is_some()
    }

    fn webhook<'a>(&'a self, call: Call, inbox: &'a Inbox) -> BoxFuture<'a, Reply> {
        Box::pin(self.called(call, inbox))
    }

    fn send<'a>(&'a self, place: &'a Place, post: &'a Post) -> AdapterFuture<'a, Sent> {
        Box::pin(async move {
            let method = if post.file.is_some() { "sendDocument" } else { "sendMessage" };
            sent(&self.say(method, |dress| say::message(place, post, dress)).await?)
        })
    }

    fn edit<'a>(&'a self, place: &'a Place, sent: &'a Sent, post: &'a Post) -> AdapterFuture<'a, ()> {
        Box::pin(async move {
            let method = if post.file.is_some() { "editMessageCaption" } else { "editMessageText" };
            let result = self.say(method, |dress| say::edit(place, sent, post, dress)).await;
            forgive(result, &["message is not modified"])
        })
    }

    fn remove<'a>(&'a self, place: &'a Place, sent: &'a Sent) -> AdapterFuture<'a, ()> {
        Box::pin(async move {
            let result = self.api.call("deleteMessage", &say::removal(place, sent)).await;
            forgive(result, &["message to delete not found"])
        })
    }

    fn typing<'a>(
        &'a self,
        place: &'a Place,
        _message: Option<&'a str>,
        _words: &'a str,
    ) -> AdapterFuture<'a, ()> {
        Box::pin(async move { forgive(self.api.call("sendChatAction", &say::typing(place)).await, &[]) })
    }

    fn confirm_tap<'a>(&'a self, receipt: &'a str, words: Option<&'a str>) -> AdapterFuture<'a, ()> {
        Box::pin(async move {
            let result = self.api.call("answerCallbackQuery", &say::receipt(receipt, words)).await;
            // An old callback query cannot be confirmed any more, and needs no confirmation.
            forgive(result, &["query is too old", "query ID is invalid"])
        })
    }

    fn download<'a>(&'a self, file: &'a Attachment, limit: u64) -> AdapterFuture<'a, Bytes> {
        Box::pin(async move {
            let limit = limit.min(MAX_DOWNLOAD);
            if let Some(size) = file.size.filter(|size| *size > limit) {
                return Err(AdapterError::Refused(format!(
                    "its {size} bytes are more than the limit of {limit}"
                )));
            }
            let found: wire::File = self.api.call("getFile", &json!({"file_id": file.reference})).await?;
            let path = found
                .file_path
                .ok_or_else(|| AdapterError::Refused("Telegram no longer has it".to_owned()))?;
            self.api.fetch(&path, limit).await
        })
    }

    fn split(&self, text: &str) -> Vec<String> {
        say::pieces(text)
    }
}
