//! Secret values of a configuration.
//!
//! Logs use `Debug` and answers to clients use `Serialize`. Both leave secrets out, so that code that needs a
//! secret must call [`Secret::reveal`].

use std::{borrow::Cow, collections::BTreeMap, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::{
    Extra,
    secret::{is_secret, without_secrets},
};

/// A key, token or password. It does not implement `Serialize`, so that writing one is always an explicit decision.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the plain text, for code that sends or stores it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

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

/// Free-form settings for a model, plugin or other external part. `Debug` and `Serialize` leave out entries with
/// secret-like names.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Settings(pub Extra);

impl Settings {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

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

/// HTTP headers by name. `Debug` and `Serialize` leave out those that usually carry a secret.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Headers(pub BTreeMap<String, String>);

impl Headers {
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

/// Environment variables for a child process. Any value may be a secret, so `Debug` prints only the names.
#[derive(Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Variables(pub BTreeMap<String, String>);

impl Variables {
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
    fn debug_and_serialize_leave_secrets_out() {
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
