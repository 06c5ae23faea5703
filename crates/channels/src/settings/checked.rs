//! Checks of single settings, with advice in their errors.

use std::net::SocketAddr;

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

use super::{Allowed, Person};

/// A number of milliseconds that is not below a minimum.
pub(super) fn at_least<'de, const MINIMUM: u64, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let value = u64::deserialize(from)?;
    if value < MINIMUM {
        return Err(D::Error::custom(format!("{value} is too small; use at least {MINIMUM} (milliseconds)")));
    }
    Ok(value)
}

/// An address with a port.
pub(super) fn listen<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let Some(text) = Option::<String>::deserialize(from)? else { return Ok(None) };
    text.parse().map(Some).map_err(|_| {
        D::Error::custom(format!(
            "`listen` is {text:?}; write an IP address and a port, for instance \"127.0.0.1:4097\""
        ))
    })
}

/// Users of a service whose usernames can change, so that only ids identify them.
pub(super) fn numeric_ids<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Allowed>, D::Error> {
    let allowed = Vec::<Allowed>::deserialize(from)?;
    match allowed.iter().map(Allowed::person).find(|person| person.id.starts_with('@')) {
        Some(person) => Err(D::Error::custom(format!(
            "{:?} is a username, which can change; use the numeric id, which the bot's log shows when the user writes",
            person.id
        ))),
        None => Ok(allowed),
    }
}

impl<'de> Deserialize<'de> for Allowed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Value::deserialize(from)? {
            Value::String(id) => Ok(Self::Fully(id)),
            Value::Number(id) => Err(D::Error::custom(format!("write the id in quotes: \"{id}\""))),
            Value::Object(person) => {
                let person = Person::deserialize(Value::Object(person)).map_err(D::Error::custom)?;
                Ok(Self::Partly(person))
            }
            _ => Err(D::Error::custom(
                "a user is an id such as \"1001\", or an object with `id`, `prompt` and `approve`",
            )),
        }
    }
}
