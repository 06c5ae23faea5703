//! Configuration of webhooks: receivers of notices about sessions.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};
use serde_with_macros::skip_serializing_none;

use super::Secret;

/// A receiver of notices. Only the user's own configuration counts, so that a project cannot send the contents of
/// other sessions away.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Webhook {
    pub url: Address,
    /// Signing secret: `whsec_` and base64, or any text. Baton sends no unsigned notice. Clients never receive it.
    #[serde(default, skip_serializing)]
    pub secret: Option<Secret>,
    /// Events to send. Default: all.
    pub events: Option<Vec<WebhookEvent>>,
    /// True if the receiver may be on this machine or in a private network. Default: false.
    pub private_addresses: Option<bool>,
    /// False to disable the webhook. Default: true.
    pub enabled: Option<bool>,
}

/// An event that a webhook reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub enum WebhookEvent {
    /// A turn of a root session ended.
    #[serde(rename = "turn.end")]
    TurnEnd,
    /// A permission waits for the user.
    #[serde(rename = "permission.asked")]
    PermissionAsked,
    /// A question waits for the user.
    #[serde(rename = "question.asked")]
    QuestionAsked,
    /// A session reported an error.
    #[serde(rename = "session.error")]
    SessionError,
}

impl WebhookEvent {
    pub const ALL: [Self; 4] =
        [Self::TurnEnd, Self::PermissionAsked, Self::QuestionAsked, Self::SessionError];
}

/// A URL that may contain a secret, as those of chat services do. `Debug` and `Serialize` show only scheme and
/// host.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Address(String);

impl Address {
    /// Returns the complete URL, for the code that calls it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn shown(&self) -> String {
        let Some((scheme, rest)) = self.0.split_once("://") else { return "…".to_owned() };
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        format!("{scheme}://{host}")
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.shown())
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.shown())
    }
}

impl JsonSchema for Address {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Address".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json, to_value};

    #[test]
    fn neither_the_secret_nor_the_full_url_is_shown() {
        let written = json!({
            "url": "https://u:sk-1@hooks.test/services/sk-2?token=sk-3", "secret": "sk-4", "events": ["turn.end"],
        });
        let hook: Webhook = from_value(written).unwrap();
        let shown = json!({ "url": "https://hooks.test", "events": ["turn.end"] });
        assert_eq!(to_value(&hook).unwrap(), shown);
        assert!(!format!("{hook:?}").contains("sk-"), "{hook:?}");
        assert_eq!(hook.url.reveal(), "https://u:sk-1@hooks.test/services/sk-2?token=sk-3");
        assert_eq!(hook.secret.unwrap().reveal(), "sk-4");
    }

    #[test]
    fn a_text_that_is_not_a_url_is_hidden() {
        let hook: Webhook = from_value(json!({ "url": "sk-1" })).unwrap();
        assert_eq!(format!("{:?}", hook.url), "…");
    }
}
