//! The WhatsApp adapter, which uses the Cloud API: updates arrive by webhook, posts go to the Graph API.
//!
//! WhatsApp can neither edit nor delete a message, and has no threads. It delivers an update at least once and in
//! any order, for up to a week, and it only delivers messages within 24 hours after the user's last one.

mod graph;
mod posts;
#[cfg(test)]
mod tests;
mod updates;
mod webhook;
mod wire;

use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt as _, future::BoxFuture};
use ring::hmac;
use serde_json::json;

use crate::{
    Adapter, AdapterError, Attachment, Features, Inbox, Place, Post, Sent,
    adapter::AdapterFuture,
    settings,
    split::{Limit, Unit},
    webhook::{Call, Reply},
};
use graph::Graph;

pub const CHANNEL: &str = "whatsapp";

/// WhatsApp shows the typing indicator for 25 seconds, or until a message is sent.
const TYPING: Duration = Duration::from_secs(20);

/// Maximum length of a message. WhatsApp does not define its unit, so the stricter count is used.
const TEXT: Limit = Limit { length: 4_096, unit: Unit::Utf16 };

/// Pause before checking the token again; doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Maximum size of a document in bytes.
const FILE: u64 = 100 << 20;

/// A phone number of the Cloud API.
#[derive(Debug)]
pub struct WhatsApp {
    graph: Graph,
    /// The number's id. A webhook may serve several numbers; updates for the others are ignored.
    number: String,
    /// Verifies webhook calls.
    secret: hmac::Key,
    /// HMAC of the verify token, so that the comparison takes constant time.
    verification: hmac::Tag,
}

impl WhatsApp {
    /// Creates the adapter for a number.
    pub fn new(settings: &settings::WhatsApp) -> Result<Self, AdapterError> {
        present(settings)?;
        let secret = hmac::Key::new(hmac::HMAC_SHA256, settings.app_secret.reveal().as_bytes());
        let verification = hmac::sign(&secret, settings.verify_token.reveal().as_bytes());
        let graph = Graph::new(&settings.api, settings.token.clone())?;
        Ok(Self { graph, number: settings.phone_number_id.clone(), secret, verification })
    }

    /// Checks the token, then waits forever. Returns only if the token is wrong.
    async fn wait(&self, inbox: &Inbox) -> AdapterError {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.graph.check(&self.number).await {
                Ok(()) => {
                    inbox.connected(CHANNEL);
                    return std::future::pending().await;
                }
                Err(fault @ AdapterError::Refused(_)) => return fault,
                Err(fault) => {
                    tracing::warn!(%fault, pause_s = pause.as_secs(), "cannot check the token at WhatsApp; retrying");
                    inbox.lost(CHANNEL, fault.to_string());
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn say(&self, place: &Place, post: &Post) -> Result<Sent, AdapterError> {
        let media = match &post.file {
            Some(file) => Some(self.graph.upload(&self.number, file).await?),
            None => None,
        };
        let message = posts::message(&place.chat, post, media.as_deref());
        let answer = self.graph.post(&[&self.number, "messages"], &message).await?;
        // The message was sent even if the answer does not contain its id.
        let id = answer.pointer("/messages/0/id").and_then(serde_json::Value::as_str).unwrap_or_default();
        Ok(Sent(id.to_owned()))
    }

    /// Marks the message as read as well, which WhatsApp requires.
    async fn show_typing(&self, message: &str) -> Result<(), AdapterError> {
        let body = json!({
            "messaging_product": "whatsapp",
            "status": "read",
            "message_id": message,
            "typing_indicator": { "type": "text" },
        });
        self.graph.post(&[&self.number, "messages"], &body).await.map(drop)
    }
}

/// Refuses an empty secret, for instance from an unset variable: with an empty key any caller could sign calls.
fn present(settings: &settings::WhatsApp) -> Result<(), AdapterError> {
    let values = [
        ("token", settings.token.reveal()),
        ("phoneNumberID", &settings.phone_number_id),
        ("appSecret", settings.app_secret.reveal()),
        ("verifyToken", settings.verify_token.reveal()),
    ];
    match values.iter().find(|(_, value)| value.trim().is_empty()) {
        Some((name, _)) => Err(AdapterError::Refused(format!(
            "`{name}` is empty; if it comes from {{env:NAME}}, check that NAME is set"
        ))),
        None => Ok(()),
    }
}

impl Adapter for WhatsApp {
    fn channel(&self) -> &'static str {
        CHANNEL
    }

    fn features(&self) -> Features {
        Features {
            typing: Some(TYPING),
            edit: None,
            buttons: posts::MAX_ROWS,
            threads: false,
            streaming: false,
            files: Some(FILE),
            text: TEXT,
        }
    }

    /// The user registers the webhook by hand, because that needs more rights than a gateway should have.
    fn receive<'a>(&'a self, inbox: &'a Inbox) -> BoxFuture<'a, AdapterError> {
        self.wait(inbox).boxed()
    }

    fn is_called(&self) -> bool {
        true
    }

    fn webhook<'a>(&'a self, call: Call, inbox: &'a Inbox) -> BoxFuture<'a, Reply> {
        async move { self.answer(&call, inbox).await }.boxed()
    }

    fn send<'a>(&'a self, place: &'a Place, post: &'a Post) -> AdapterFuture<'a, Sent> {
        self.say(place, post).boxed()
    }

    fn typing<'a>(
        &'a self,
        _place: &'a Place,
        message: Option<&'a str>,
        _words: &'a str,
    ) -> AdapterFuture<'a, ()> {
        async move {
            match message {
                Some(message) => self.show_typing(message).await,
                None => Ok(()),
            }
        }
        .boxed()
    }

    fn download<'a>(&'a self, file: &'a Attachment, limit: u64) -> AdapterFuture<'a, Bytes> {
        self.graph.download(&file.reference, limit).boxed()
    }
}
