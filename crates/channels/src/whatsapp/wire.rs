//! WhatsApp's webhook types, limited to the fields that are used; nearly all of them may be missing.
//!
//! Elements that cannot be parsed are skipped, and the rest is used: WhatsApp repeats a refused call for a week.

use protocol::Millis;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Map, Value};

/// The body of one webhook call.
#[derive(Debug, Deserialize)]
pub(super) struct Body {
    #[serde(default, deserialize_with = "readable")]
    entry: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(default, deserialize_with = "readable")]
    changes: Vec<Change>,
}

#[derive(Debug, Deserialize)]
struct Change {
    /// The subscribed field; the app may be subscribed to others.
    field: Option<String>,
    #[serde(default)]
    value: Value,
}

/// Events of one phone number.
#[derive(Debug, Deserialize)]
pub(super) struct Delivery {
    #[serde(default)]
    pub(super) metadata: Metadata,
    #[serde(default, deserialize_with = "readable")]
    pub(super) contacts: Vec<Contact>,
    #[serde(default, deserialize_with = "readable")]
    pub(super) messages: Vec<Message>,
    #[serde(default, deserialize_with = "readable")]
    pub(super) statuses: Vec<Status>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Metadata {
    #[serde(default)]
    pub(super) phone_number_id: String,
}

/// A sender. A user with a username has an id instead of a number.
#[derive(Debug, Deserialize)]
pub(super) struct Contact {
    pub(super) wa_id: Option<String>,
    pub(super) user_id: Option<String>,
    pub(super) profile: Option<Profile>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Profile {
    pub(super) name: Option<String>,
}

/// A received message.
#[derive(Debug, Deserialize)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) from: Option<String>,
    pub(super) from_user_id: Option<String>,
    pub(super) group_id: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    pub(super) timestamp: Millis,
    /// The name of the field with the content.
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

/// The delivery status of a sent message.
#[derive(Debug, Deserialize)]
pub(super) struct Status {
    pub(super) id: String,
    #[serde(rename = "status", default)]
    pub(super) became: String,
    #[serde(default, deserialize_with = "seconds")]
    pub(super) timestamp: Millis,
    pub(super) recipient_id: Option<String>,
    pub(super) recipient_user_id: Option<String>,
    #[serde(default, deserialize_with = "readable")]
    pub(super) errors: Vec<ApiError>,
}

/// An error, in webhooks and in answers.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ApiError {
    #[serde(default)]
    pub(super) code: i64,
    #[serde(default)]
    pub(super) message: String,
    pub(super) error_data: Option<TroubleData>,
}

#[derive(Debug, Deserialize)]
pub(super) struct TroubleData {
    pub(super) details: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Text {
    pub(super) body: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Media {
    pub(super) id: String,
    pub(super) mime_type: Option<String>,
    pub(super) caption: Option<String>,
    pub(super) filename: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Interactive {
    pub(super) button_reply: Option<Choice>,
    pub(super) list_reply: Option<Choice>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Choice {
    pub(super) id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct QuickReply {
    pub(super) payload: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Location {
    pub(super) latitude: f64,
    pub(super) longitude: f64,
    pub(super) name: Option<String>,
    pub(super) address: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Card {
    pub(super) name: CardName,
    #[serde(default, deserialize_with = "readable")]
    pub(super) phones: Vec<Phone>,
}

#[derive(Debug, Deserialize)]
pub(super) struct CardName {
    pub(super) formatted_name: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct Phone {
    pub(super) phone: String,
}

impl Body {
    /// The changes that concern messages.
    pub(super) fn deliveries(self) -> impl Iterator<Item = Delivery> {
        let changes = self.entry.into_iter().flat_map(|entry| entry.changes);
        changes
            .filter(|change| change.field.as_deref().is_none_or(|field| field == "messages"))
            .filter_map(|change| serde_json::from_value(change.value).ok())
    }
}

impl Message {
    /// The id of the message that it replies to.
    pub(super) fn replies_to(&self) -> Option<String> {
        self.fields.get("context")?.get("id")?.as_str().map(str::to_owned)
    }

    /// The content, if it matches the message's kind.
    pub(super) fn content<T: DeserializeOwned>(&self) -> Option<T> {
        T::deserialize(self.fields.get(&self.kind)?).ok()
    }
}

/// Parses a list and skips elements that cannot be parsed.
fn readable<'de, T: DeserializeOwned, D: Deserializer<'de>>(input: D) -> Result<Vec<T>, D::Error> {
    let elements = Option::<Vec<Value>>::deserialize(input)?.unwrap_or_default();
    Ok(elements.into_iter().filter_map(|element| serde_json::from_value(element).ok()).collect())
}

/// Parses seconds since 1970, as text or as a number; 0 if the value is neither.
fn seconds<'de, D: Deserializer<'de>>(input: D) -> Result<Millis, D::Error> {
    let seconds = match Value::deserialize(input)? {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.as_i64(),
        _ => None,
    };
    Ok(seconds.unwrap_or_default().saturating_mul(1_000))
}
