//! Permissions as people write them: from a permission to an action, or to actions by pattern.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};

use crate::request::Action;

/// Pairs in the order in which they were written, which counts: of the rules that match, the last one wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordered<V>(pub Vec<(String, V)>);

impl<V> Ordered<V> {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pairs.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

impl<V> Default for Ordered<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<V: Serialize> Serialize for Ordered<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Ordered<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs<V>(PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for Pairs<V> {
            type Value = Ordered<V>;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Ordered(pairs))
            }
        }

        deserializer.deserialize_map(Pairs(PhantomData))
    }
}

impl<V: JsonSchema> JsonSchema for Ordered<V> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        format!("Ordered_{}", V::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        std::collections::BTreeMap::<String, V>::json_schema(generator)
    }
}

/// What an agent may do: one action for everything, or one entry per permission. Permissions OpenCode knows
/// are `read`, `edit`, `glob`, `grep`, `list`, `bash`, `task`, `external_directory`, `todowrite`, `question`,
/// `webfetch`, `websearch`, `lsp`, `doom_loop` and `skill`; the names of other tools work too, and wildcards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "PermissionConfig")]
pub enum Permission {
    /// For everything.
    Everything(Action),
    /// By permission, in order.
    Each(Ordered<PermissionRule>),
}

/// What is said about one permission: one action, or one by pattern (a command, a path), in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "PermissionRuleConfig")]
pub enum PermissionRule {
    /// Whatever it is about.
    Always(Action),
    /// By pattern, in order.
    ByPattern(Ordered<Action>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_a_file_is_kept() {
        let text = r#"{"*":"ask","bash":{"git *":"allow","*":"deny"},"edit":"allow"}"#;
        let permission: Permission = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&permission).unwrap(), text);
    }

    #[test]
    fn one_word_is_enough() {
        let permission: Permission = serde_json::from_str(r#""deny""#).unwrap();
        assert_eq!(permission, Permission::Everything(Action::Deny));
    }
}
