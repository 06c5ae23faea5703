//! Values that a configuration holds and nobody is shown.
//!
//! What is logged and what clients are sent is written with `Debug` and `Serialize`. Both leave secrets out
//! here, so that whoever needs one has to ask for it by name.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::{
    Extra,
    secret::{is_secret, without_secrets},
};

/// A key, a token or a password. It has no `Serialize`: writing one is always somebody's decision.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for whoever has to send or store it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing to hide.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret(…)")
    }
}

impl JsonSchema for Secret {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

/// Free-form settings, meant for somebody else. Entries whose names tell of a secret are left out when they
/// are shown.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Settings(pub Extra);

impl Settings {
    /// Whether nothing is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One setting.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    fn shown(&self) -> Value {
        without_secrets(&Value::Object(self.0.clone()))
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Settings({})", self.shown())
    }
}

impl Serialize for Settings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.shown() {
            Value::Object(shown) => serializer.collect_map(&shown),
            other => other.serialize(serializer),
        }
    }
}

impl JsonSchema for Settings {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Settings".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Extra::json_schema(generator)
    }
}

/// Headers of calls, by name. Those that usually carry a secret are left out when they are shown.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Headers(pub BTreeMap<String, String>);

impl Headers {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn shown(&self) -> impl Iterator<Item = (&String, &String)> {
        self.0.iter().filter(|(name, _)| !is_secret(name))
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map().entries(self.shown()).finish()
    }
}

impl Serialize for Headers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.shown())
    }
}

/// Variables for a program that is started. What is in them is anybody's guess, so only names are shown.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Variables(pub BTreeMap<String, String>);

impl Variables {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_secret_is_shown() {
        let settings: Settings =
            serde_json::from_value(json!({ "apiKey": "sk-1", "nested": { "token": "sk-2", "size": 3 } }))
                .unwrap();
        let headers: Headers =
            serde_json::from_value(json!({ "Authorization": "sk-3", "Accept": "text" })).unwrap();
        let variables: Variables = serde_json::from_value(json!({ "URL": "sk-4" })).unwrap();
        let shown = format!("{:?} {settings:?} {headers:?} {variables:?}", Secret::new("sk-5"));
        assert!(!shown.contains("sk-"), "{shown}");
        assert_eq!(serde_json::to_value(&settings).unwrap(), json!({ "nested": { "size": 3 } }));
        assert_eq!(serde_json::to_value(&headers).unwrap(), json!({ "Accept": "text" }));
    }
}
