//! Unknown fields of small values.
//!
//! A large wire object keeps unknown fields in an [`Extra`] map. A small one (a status, a model's name, a token
//! count) is built in many places, some of them constants, and rarely has unknown fields. [`Rest`] is a map that
//! takes only one pointer while it is empty.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Extra;

/// Unknown fields of a small wire object. Use it with `#[serde(flatten)]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Rest(Option<Box<Extra>>);

impl Rest {
    /// No unknown fields.
    pub const NONE: Self = Self(None);

    /// Returns the unknown fields, if any.
    pub fn get(&self) -> Option<&Extra> {
        self.0.as_deref()
    }
}

impl From<Extra> for Rest {
    fn from(fields: Extra) -> Self {
        Self((!fields.is_empty()).then(|| Box::new(fields)))
    }
}

impl Serialize for Rest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.get().into_iter().flatten())
    }
}

impl<'de> Deserialize<'de> for Rest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Extra::deserialize(deserializer).map(Self::from)
    }
}

impl JsonSchema for Rest {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Rest".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Extra::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_rest_is_none_and_serializes_to_nothing() {
        let rest: Rest = serde_json::from_str("{}").unwrap();
        assert_eq!(rest, Rest::NONE);
        assert_eq!(serde_json::to_string(&rest).unwrap(), "{}");
    }

    #[test]
    fn unknown_fields_survive_a_round_trip() {
        let rest: Rest = serde_json::from_str(r#"{"new":[1]}"#).unwrap();
        assert_eq!(rest.get().map(Extra::len), Some(1));
        assert_eq!(serde_json::to_string(&rest).unwrap(), r#"{"new":[1]}"#);
    }
}
