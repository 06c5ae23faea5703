//! Checks of single settings, with advice in their errors. No error repeats a value that may be a secret.

use std::net::SocketAddr;

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

use super::{Allowed, Secret, UserAccess};

/// Maximum of every duration: 30 days. A longer one would not fit into the timers.
const MAX_MILLISECONDS: u64 = 30 * 24 * 60 * 60 * 1_000;
const MAX_MINUTES: u64 = MAX_MILLISECONDS / 60_000;

/// A number of milliseconds that is not below a minimum.
pub(super) fn at_least<'de, const MINIMUM: u64, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    between(&Value::deserialize(from)?, MINIMUM, MAX_MILLISECONDS, "milliseconds")
}

/// A number of minutes, at least one.
pub(super) fn minutes<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    between(&Value::deserialize(from)?, 1, MAX_MINUTES, "minutes")
}

fn between<E: Error>(value: &Value, least: u64, most: u64, unit: &str) -> Result<u64, E> {
    match value.as_u64() {
        Some(number) if number < least => {
            Err(E::custom(format!("{number} is too small; use at least {least} ({unit})")))
        }
        Some(number) if number > most => {
            Err(E::custom(format!("{number} is too large; use at most {most} ({unit})")))
        }
        Some(number) => Ok(number),
        None => Err(E::custom(format!("write a whole number of {unit}, at least {least}"))),
    }
}

/// An address with a port.
pub(super) fn listen<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        D::Error::custom(format!(
            "{text:?} is not an address; write an IP address and a port, for instance \"127.0.0.1:4097\""
        ))
    })
}

/// A text that is not empty. An unset variable makes it empty.
pub(super) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    match Value::deserialize(from)? {
        Value::String(text) if text.trim().is_empty() => Err(D::Error::custom("it is empty")),
        Value::String(text) => Ok(text),
        _ => Err(D::Error::custom("write it in quotes")),
    }
}

pub(super) fn secret<'de, D: Deserializer<'de>>(from: D) -> Result<Secret, D::Error> {
    text(from).map(Secret::new)
}

pub(super) fn optional_secret<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Secret>, D::Error> {
    secret(from).map(Some)
}

/// Users of Telegram. Usernames can change, so that only ids identify a user.
pub(super) fn telegram_ids<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Allowed>, D::Error> {
    let is_id = |id: &str| !id.is_empty() && id.chars().all(|it| it.is_ascii_digit());
    let advice = "usernames can change; use the numeric id, which the log shows when the user writes";
    allowed(from, is_id, advice)
}

/// Users of Slack.
pub(super) fn slack_ids<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Allowed>, D::Error> {
    let is_id = |id: &str| !id.is_empty() && id.chars().all(|it| it.is_ascii_alphanumeric());
    allowed(from, is_id, "names can change; use the member id from the user's profile, such as \"U0123ABCD\"")
}

/// Users of WhatsApp.
pub(super) fn whatsapp_ids<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Allowed>, D::Error> {
    let is_id = |id: &str| !id.is_empty() && id.chars().all(|it| it.is_ascii_alphanumeric() || it == '.');
    allowed(from, is_id, "write the number with its country code, without + and spaces: \"491700000001\"")
}

/// Users whose ids have the form that the service uses. An id of another form would match no user.
fn allowed<'de, D: Deserializer<'de>>(
    from: D,
    is_id: fn(&str) -> bool,
    advice: &str,
) -> Result<Vec<Allowed>, D::Error> {
    let allowed = Vec::<Allowed>::deserialize(from)?;
    match allowed.iter().map(Allowed::access).find(|access| !is_id(&access.id)) {
        Some(access) => Err(D::Error::custom(format!("{:?} is not an id: {advice}", access.id))),
        None => Ok(allowed),
    }
}

impl<'de> Deserialize<'de> for Allowed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Value::deserialize(from)? {
            Value::String(id) => Ok(Self::Fully(id)),
            Value::Number(id) => Err(D::Error::custom(format!("write the id in quotes: \"{id}\""))),
            Value::Object(access) => {
                let access = UserAccess::deserialize(Value::Object(access)).map_err(D::Error::custom)?;
                Ok(Self::Partly(access))
            }
            _ => Err(D::Error::custom(
                "a user is an id such as \"1001\", or an object with `id`, `prompt` and `approve`",
            )),
        }
    }
}
