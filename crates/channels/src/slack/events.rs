//! The Events API: Slack calls the webhook. Events are JSON, taps and slash commands are forms; all are signed.

use http::{StatusCode, header::CONTENT_TYPE};
use serde_json::Value;

use super::{
    Slack,
    signature::Signature,
    wire::{Callback, Delivery},
};
use crate::{
    Inbox,
    webhook::{Call, MAX_BODY, Reply},
};

/// The content of a signed call.
enum SignedCall {
    /// Slack verifies the address of the webhook.
    Challenge(String),
    /// An event, a tap or a command.
    Take(Delivery),
    /// Not in a format that Slack uses.
    Nonsense,
}

impl Slack {
    /// Handles a call; returns success only after its content is stored.
    pub(super) async fn called(&self, signature: &Signature, call: &Call, inbox: &Inbox) -> Reply {
        if call.body.len() > MAX_BODY {
            return Reply::text(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long\n");
        }
        if !signature.is_genuine(&call.headers, &call.body, inbox.now()) {
            tracing::warn!(channel = super::CHANNEL, "refused a call with a wrong or outdated signature");
            return Reply::refused();
        }
        match parse(call) {
            SignedCall::Challenge(challenge) => Reply::text(StatusCode::OK, challenge),
            SignedCall::Take(delivery) => match self.take(&delivery, inbox).await {
                Ok(()) => Reply::done(),
                Err(reason) => {
                    tracing::error!(channel = super::CHANNEL, %reason, "cannot store an update; Slack will send it again");
                    Reply::failed()
                }
            },
            SignedCall::Nonsense => {
                tracing::warn!(
                    channel = super::CHANNEL,
                    bytes = call.body.len(),
                    "refused a signed call that cannot be parsed"
                );
                Reply::malformed()
            }
        }
    }
}

fn parse(call: &Call) -> SignedCall {
    let mime = call.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if mime.starts_with("application/x-www-form-urlencoded") { form(&call.body) } else { json(&call.body) }
}

fn json(body: &[u8]) -> SignedCall {
    match serde_json::from_slice::<Callback>(body) {
        Ok(Callback { challenge: Some(challenge), kind, .. }) if kind == "url_verification" => {
            SignedCall::Challenge(challenge)
        }
        Ok(callback) if callback.kind == "event_callback" => {
            SignedCall::Take(Delivery::Event(Box::new(callback)))
        }
        // Such as the notice that the app exceeded the hourly limit of events.
        Ok(callback) if !callback.kind.is_empty() => SignedCall::Take(Delivery::Other),
        _ => SignedCall::Nonsense,
    }
}

fn form(body: &[u8]) -> SignedCall {
    let fields: serde_json::Map<String, Value> = form_urlencoded::parse(body)
        .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
        .collect();
    let delivery = if let Some(Value::String(payload)) = fields.get("payload") {
        serde_json::from_str(payload).and_then(|payload| Delivery::parse("interactive", payload))
    } else if fields.contains_key("command") {
        Delivery::parse("slash_commands", Value::Object(fields))
    } else if fields.contains_key("ssl_check") {
        Ok(Delivery::Other)
    } else {
        return SignedCall::Nonsense;
    };
    delivery.map_or(SignedCall::Nonsense, SignedCall::Take)
}
