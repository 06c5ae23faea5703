//! Receives updates by webhook. Telegram repeats a call that is not answered with success.

use http::{Method, StatusCode};
use ring::hmac;
use serde_json::{Value, json};

use super::{
    Telegram,
    poll::{self, KINDS},
};
use crate::{
    AdapterError, Inbox, settings,
    settings::Secret,
    webhook::{Call, Reply},
};

const HEADER: &str = "x-telegram-bot-api-secret-token";

/// Maximum length of an update; Telegram's own are far shorter.
const MAX_UPDATE: usize = 256 << 10;

/// The registered webhook and its secret.
pub(super) struct Hook {
    url: String,
    secret: Secret,
    /// Compares secrets by their HMACs, so that the timing does not reveal where they differ.
    key: hmac::Key,
}

impl Hook {
    pub(super) fn new(settings: &settings::TelegramWebhook) -> Result<Self, AdapterError> {
        let secret = settings.secret.reveal();
        let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
        if secret.is_empty() || secret.len() > 256 || !secret.chars().all(is_plain) {
            return Err(AdapterError::Refused(
                "the secret of the Telegram webhook must be 1 to 256 letters, digits, _ and -".to_owned(),
            ));
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, &rand::random::<[u8; 32]>());
        Ok(Self { url: settings.url.clone(), secret: settings.secret.clone(), key })
    }

    /// The body that registers the webhook. With more than one connection, updates could overtake each other.
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
    /// Handles a call; returns success only after the update is stored.
    pub(super) async fn called(&self, call: Call, inbox: &Inbox) -> Reply {
        let Some(hook) = &self.hook else { return Reply::absent() };
        if call.method != Method::POST {
            return Reply::text(StatusCode::METHOD_NOT_ALLOWED, "only POST\n");
        }
        if !hook.is_genuine(&call) {
            tracing::warn!("refused a call to the Telegram webhook with a wrong secret");
            return Reply::refused();
        }
        if call.body.len() > MAX_UPDATE {
            tracing::warn!(
                length = call.body.len(),
                "refused a call to the Telegram webhook that is too long"
            );
            return Reply::text(StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than any update\n");
        }
        let update = serde_json::from_slice::<Value>(&call.body).unwrap_or_default();
        if update.get("update_id").and_then(Value::as_i64).is_none() {
            tracing::warn!("refused a call to the Telegram webhook without an update");
            return Reply::malformed();
        }
        if let Some((from, to)) = poll::moved(&update)
            && let Err(error) = inbox.moved(&from, &to).await
        {
            tracing::error!(%error, "cannot store the new id of a group; Telegram will send it again");
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
