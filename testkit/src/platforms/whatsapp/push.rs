//! Calls to the webhook: signed, one after the other, and repeated until they are answered with 200.

use std::{
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use axum::body::Bytes;
use ring::hmac;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::{Complaint, Options, WhatsApp, media::Media};
use crate::{
    calls::http,
    platforms::service_state::{Tap, UserMessage},
};

/// Maximum number of attempts; the real one retries for a week.
const ATTEMPTS: u32 = 60;

/// Pause before a call is repeated.
const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Time for an answer.
const ANSWER: Duration = Duration::from_secs(10);

#[derive(Debug, Clone)]
pub(super) struct Push {
    body: Bytes,
    signature: String,
    /// Number of updates in the call.
    updates: usize,
    pub(super) is_update: bool,
}

/// An action of the user, as an update for the webhook.
#[derive(Debug)]
pub(super) struct Heard {
    message: Value,
    contact: Value,
}

impl Heard {
    /// The user sent a message.
    pub(super) fn said(id: &str, said: UserMessage, file: Option<(String, Media)>) -> Self {
        let (kind, content) = match file {
            None => ("text", json!({ "body": said.text })),
            Some((media, file)) => {
                let kind = match file.mime.split('/').next().unwrap_or_default() {
                    "image" => "image",
                    "audio" => "audio",
                    "video" => "video",
                    _ => "document",
                };
                let mut content = json!({ "id": media, "mime_type": file.mime, "sha256": "fake" });
                if kind == "document" {
                    put(&mut content, "filename", json!(said.file.map(|file| file.name)));
                }
                if !said.text.is_empty() {
                    put(&mut content, "caption", json!(said.text));
                }
                (kind, content)
            }
        };
        let mut heard = Self::new(id, &said.from, &said.name, kind, &content);
        if said.is_group {
            put(&mut heard.message, "group_id", json!(said.chat));
        }
        heard
    }

    /// The user chose a button.
    pub(super) fn tapped(id: &str, tap: &Tap, token: &str, is_list: bool) -> Self {
        let kind = if is_list { "list_reply" } else { "button_reply" };
        let content = json!({ "type": kind, kind: { "id": token, "title": tap.label } });
        let mut heard = Self::new(id, &tap.from, &tap.name, "interactive", &content);
        put(&mut heard.message, "context", json!({ "from": "15550000000", "id": tap.message }));
        heard
    }

    fn new(id: &str, from: &str, name: &str, kind: &str, content: &Value) -> Self {
        let mut message = json!({ "id": id, "timestamp": now().to_string(), "type": kind, kind: content });
        let mut contact = json!({ "profile": { "name": name } });
        // A user with a username has no phone number.
        if from.contains('.') {
            put(&mut message, "from_user_id", json!(from));
            put(&mut contact, "user_id", json!(from));
        } else {
            put(&mut message, "from", json!(from));
            put(&mut message, "from_user_id", json!(format!("ZZ.{from}")));
            put(&mut contact, "wa_id", json!(from));
            put(&mut contact, "user_id", json!(format!("ZZ.{from}")));
        }
        Self { message, contact }
    }
}

impl Push {
    /// A call with the actions of one or more users.
    pub(super) fn messages(options: &Options, heard: Vec<Heard>) -> Self {
        let updates = heard.len();
        let (messages, contacts): (Vec<_>, Vec<_>) =
            heard.into_iter().map(|heard| (heard.message, heard.contact)).unzip();
        let push = Self::new(options, json!({ "contacts": contacts, "messages": messages }));
        Self { updates, is_update: true, ..push }
    }

    /// A call with the delivery status of the bot's message.
    pub(super) fn status(options: &Options, id: &str, person: &str, is_sent: bool) -> Self {
        let mut status = json!({ "id": id, "timestamp": now().to_string(), "recipient_id": person });
        put(&mut status, "status", json!(if is_sent { "sent" } else { "failed" }));
        if !is_sent {
            put(&mut status, "errors", json!([Complaint::late().json()]));
        }
        Self::new(options, json!({ "statuses": [status] }))
    }

    fn new(options: &Options, mut value: Value) -> Self {
        put(&mut value, "messaging_product", json!("whatsapp"));
        put(
            &mut value,
            "metadata",
            json!({ "display_phone_number": "15550000000", "phone_number_id": options.phone_number_id }),
        );
        let change = json!({ "value": value, "field": "messages" });
        let body = json!({
            "object": "whatsapp_business_account",
            "entry": [{ "id": "102290129340398", "changes": [change] }],
        });
        let body = Bytes::from(body.to_string());
        let signature = sign(&options.app_secret, &body);
        Self { body, signature, updates: 0, is_update: false }
    }
}

fn put(object: &mut Value, name: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

/// The value of the signature header.
pub fn sign(secret: &str, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    hmac::sign(&key, body).as_ref().iter().fold("sha256=".to_owned(), |hex, byte| format!("{hex}{byte:02x}"))
}

/// Makes one call after the other, until the service has ended.
pub(super) async fn deliver(service: Weak<WhatsApp>, mut queue: mpsc::UnboundedReceiver<Push>) {
    let http = http();
    while let Some(push) = queue.recv().await {
        let Some(service) = service.upgrade() else { return };
        call(&service, &http, &push).await;
    }
}

async fn call(service: &Arc<WhatsApp>, http: &reqwest::Client, push: &Push) {
    let is_subscribed = service.lock().webhook.is_some() || service.options.webhook.is_some();
    if !is_subscribed {
        return;
    }
    let mut pause = PAUSE;
    for _ in 0..ATTEMPTS {
        let Some(webhook) = webhook(service).await else {
            pause = wait(pause).await;
            continue;
        };
        let call = http.post(webhook).timeout(ANSWER).body(push.body.clone());
        let call =
            call.header("content-type", "application/json").header("x-hub-signature-256", &push.signature);
        match call.send().await {
            Ok(answer) if answer.status() == 200 => {
                return service.service_state.change(|state| {
                    state.acknowledged += push.updates;
                    *state.calls.entry("webhook".to_owned()).or_default() += 1;
                });
            }
            Err(error) if error.is_timeout() => {
                service.service_state.problem("webhook: the answer came too late");
            }
            Ok(_) => service.service_state.change(|state| {
                *state.calls.entry("webhook.refused".to_owned()).or_default() += 1;
            }),
            Err(_) => {}
        }
        pause = wait(pause).await;
    }
    service.service_state.problem("webhook: an update was never acknowledged");
}

/// The address to call; `None` while its webhook does not accept the verify token.
async fn webhook(service: &WhatsApp) -> Option<String> {
    let webhook = service.lock().webhook.clone();
    if webhook.is_some() {
        return webhook;
    }
    let webhook = service.options.webhook.clone()?;
    service.set_webhook(&webhook).await.ok()?;
    Some(webhook)
}

/// Waits, and returns the next pause.
async fn wait(pause: Duration) -> Duration {
    tokio::time::sleep(pause).await;
    (pause * 2).min(LONGEST_PAUSE)
}

/// Seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the service's clock is the real one")]
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map(|time| time.as_secs()).unwrap_or_default()
}
