//! The Events API: Slack calls us. Events come as JSON, buttons and slash commands as forms; all are signed alike.

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

/// What a genuine call says.
enum Asked {
    /// Whether the address is ours.
    Challenge(String),
    /// To take this.
    Take(Delivery),
    /// Something, in a form that Slack does not use.
    Nonsense,
}

impl Slack {
    /// Answers a call of Slack: with success only after what it brings is stored.
    pub(super) async fn called(&self, signature: &Signature, call: &Call, inbox: &Inbox) -> Reply {
        if call.body.len() > MAX_BODY {
            return Reply::text(StatusCode::PAYLOAD_TOO_LARGE, "the body is too long\n");
        }
        if !signature.is_genuine(&call.headers, &call.body, inbox.now()) {
            tracing::warn!(channel = super::CHANNEL, "refused a call that Slack did not sign, or not now");
            return Reply::refused();
        }
        match parse(call) {
            Asked::Challenge(challenge) => Reply::text(StatusCode::OK, challenge),
            Asked::Take(delivery) => match self.take(&delivery, inbox).await {
                Ok(()) => Reply::done(),
                Err(reason) => {
                    tracing::error!(channel = super::CHANNEL, %reason, "an update was not taken; it will come again");
                    Reply::failed()
                }
            },
            Asked::Nonsense => {
                tracing::warn!(
                    channel = super::CHANNEL,
                    bytes = call.body.len(),
                    "a signed call makes no sense"
                );
                Reply::malformed()
            }
        }
    }
}

fn parse(call: &Call) -> Asked {
    let mime = call.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if mime.starts_with("application/x-www-form-urlencoded") { form(&call.body) } else { json(&call.body) }
}

fn json(body: &[u8]) -> Asked {
    match serde_json::from_slice::<Callback>(body) {
        Ok(Callback { challenge: Some(challenge), kind, .. }) if kind == "url_verification" => {
            Asked::Challenge(challenge)
        }
        Ok(callback) if callback.kind == "event_callback" => Asked::Take(Delivery::Event(Box::new(callback))),
        // Such as the news that too much happened in an hour.
        Ok(callback) if !callback.kind.is_empty() => Asked::Take(Delivery::Other),
        _ => Asked::Nonsense,
    }
}

fn form(body: &[u8]) -> Asked {
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
        return Asked::Nonsense;
    };
    delivery.map_or(Asked::Nonsense, Asked::Take)
}
