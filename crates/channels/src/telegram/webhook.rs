//! Updates that Telegram brings. It repeats what is not answered with success.

use http::{Method, StatusCode};
use ring::hmac;
use serde_json::{Value, json};

use super::{
    Telegram,
    poll::{self, KINDS},
};
use crate::{
    Fault, Inbox, settings,
    settings::Secret,
    webhook::{Call, Reply},
};

const HEADER: &str = "x-telegram-bot-api-secret-token";

/// No update of Telegram is nearly as long.
const MAX_UPDATE: usize = 256 << 10;

/// Where Telegram is told to call, and how we know that it is Telegram.
pub(super) struct Hook {
    url: String,
    secret: Secret,
    /// Two texts are the same if their codes are, and those can be compared without telling where they differ.
    key: hmac::Key,
}

impl Hook {
    pub(super) fn new(settings: &settings::TelegramWebhook) -> Result<Self, Fault> {
        let secret = settings.secret.reveal();
        let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
        if secret.is_empty() || secret.len() > 256 || !secret.chars().all(is_plain) {
            return Err(Fault::Refused(
                "the secret of the Telegram webhook has to be 1 to 256 letters, digits, _ and -".to_owned(),
            ));
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, &rand::random::<[u8; 32]>());
        Ok(Self { url: settings.url.clone(), secret: settings.secret.clone(), key })
    }

    /// What Telegram has to know. Over more than one connection updates could overtake each other.
    pub(super) fn registration(&self) -> Value {
        json!({
            "url": self.url,
            "secret_token": self.secret.reveal(),
            "allowed_updates": KINDS,
            "max_connections": 1,
        })
    }

    fn is_genuine(&self, call: &Call) -> bool {
        let given = call.headers.get(HEADER).map(http::HeaderValue::as_bytes).unwrap_or_default();
        let expected = hmac::sign(&self.key, self.secret.reveal().as_bytes());
        hmac::verify(&self.key, given, expected.as_ref()).is_ok()
    }
}

impl Telegram {
    /// Answers a call: yes only when the update is stored.
    pub(super) async fn called(&self, call: Call, inbox: &Inbox) -> Reply {
        let Some(hook) = &self.hook else { return Reply::absent() };
        if call.method != Method::POST {
            return Reply::text(StatusCode::METHOD_NOT_ALLOWED, "only POST\n");
        }
        if !hook.is_genuine(&call) {
            tracing::warn!("a call of the Telegram webhook without the right secret was refused");
            return Reply::refused();
        }
        if call.body.len() > MAX_UPDATE {
            tracing::warn!(length = call.body.len(), "a call of the Telegram webhook was too long");
            return Reply::text(StatusCode::PAYLOAD_TOO_LARGE, "no update is as long as this\n");
        }
        let update = serde_json::from_slice::<Value>(&call.body).unwrap_or_default();
        if update.get("update_id").and_then(Value::as_i64).is_none() {
            tracing::warn!("a call of the Telegram webhook had no update in it");
            return Reply::malformed();
        }
        if let Some((from, to)) = poll::moved(&update)
            && let Err(error) = inbox.moved(&from, &to).await
        {
            tracing::error!(%error, "a group that has become another one could not be noted; it will be told again");
            return Reply::failed();
        }
        let Ok(bot) = self.bot().await else { return Reply::failed() };
        let Some(update) = poll::read(bot, update, inbox) else { return Reply::done() };
        match inbox.accept(update).await {
            Ok(()) => Reply::done(),
            Err(_) => Reply::failed(),
        }
    }
}
