//! Configuration of permissions: a map from a permission to an action, or to actions by pattern.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
};

use crate::request::Action;

/// Key-value pairs in file order. The order matters: of the rules that match, the last one wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordered<V>(pub Vec<(String, V)>);

impl<V> Ordered<V> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

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

/// Permission rules: one action for everything, or one entry per permission. OpenCode's permissions are `read`,
/// `edit`, `glob`, `grep`, `list`, `bash`, `task`, `external_directory`, `todowrite`, `question`, `webfetch`,
/// `websearch`, `lsp`, `doom_loop` and `skill`. Names of other tools and wildcards work, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "PermissionConfig")]
pub enum Permission {
    /// One action for all permissions.
    Everything(Action),
    /// Rules by permission, in order.
    Each(Ordered<PermissionRule>),
}

/// Rule for one permission: one action, or actions by pattern (a command, a path), in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "PermissionRuleConfig")]
pub enum PermissionRule {
    /// One action for every resource.
    Always(Action),
    /// Actions by pattern, in order.
    ByPattern(Ordered<Action>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_keys_survives_a_round_trip() {
        let text = r#"{"*":"ask","bash":{"git *":"allow","*":"deny"},"edit":"allow"}"#;
        let permission: Permission = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&permission).unwrap(), text);
    }

    #[test]
    fn a_single_action_is_a_valid_permission() {
        let permission: Permission = serde_json::from_str(r#""deny""#).unwrap();
        assert_eq!(permission, Permission::Everything(Action::Deny));
    }
}
