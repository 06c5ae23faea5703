//! Merges one configuration over another, as in OpenCode: maps are merged key by key, everything else is replaced.
//! Two lists are concatenated instead: `instructions`, and `plugin` (see [`super::plugin`]).

use serde_json::{Map, Value};

use super::plugin;

/// Merges a configuration over another.
pub(super) fn merge(base: &mut Map<String, Value>, over: Map<String, Value>) {
    for (name, value) in over {
        match (name.as_str(), base.get_mut(&name), value) {
            ("instructions", Some(Value::Array(below)), Value::Array(above)) => {
                below.extend(above);
                without_repeats(below);
            }
            ("plugin", Some(Value::Array(below)), Value::Array(above)) => plugin::append(below, above),
            (_, Some(below), value) => merge_value(below, value),
            (_, None, mut value) => {
                match (name.as_str(), &mut value) {
                    ("instructions", Value::Array(items)) => without_repeats(items),
                    ("plugin", Value::Array(entries)) => plugin::append(entries, Vec::new()),
                    _ => {}
                }
                base.insert(name, value);
            }
        }
    }
}

/// Merges a value over another. A key keeps its place, which matters for permissions.
pub(super) fn merge_value(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(below), Value::Object(above)) => {
            for (name, value) in above {
                match below.get_mut(&name) {
                    Some(below) => merge_value(below, value),
                    None => {
                        below.insert(name, value);
                    }
                }
            }
        }
        (base, over) => *base = over,
    }
}

/// Keeps the first of equal items.
fn without_repeats(items: &mut Vec<Value>) {
    let mut kept: Vec<Value> = Vec::with_capacity(items.len());
    for item in items.drain(..) {
        if !kept.contains(&item) {
            kept.push(item);
        }
    }
    *items = kept;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn merged(layers: &[Value]) -> Value {
        let mut base = Map::new();
        for layer in layers {
            merge(&mut base, layer.as_object().unwrap().clone());
        }
        Value::Object(base)
    }

    #[test]
    fn maps_are_merged_and_the_rest_is_replaced() {
        let cases = [
            (json!({ "a": 1 }), json!({ "b": 2 }), json!({ "a": 1, "b": 2 })),
            (
                json!({ "a": { "x": 1, "y": 1 } }),
                json!({ "a": { "y": 2 } }),
                json!({ "a": { "x": 1, "y": 2 } }),
            ),
            (json!({ "a": [1, 2] }), json!({ "a": [3] }), json!({ "a": [3] })),
            (json!({ "a": { "x": 1 } }), json!({ "a": true }), json!({ "a": true })),
            (json!({ "a": "ask" }), json!({ "a": { "x": 1 } }), json!({ "a": { "x": 1 } })),
            (json!({ "a": 1 }), json!({ "a": null }), json!({ "a": null })),
            (
                json!({ "instructions": ["a", "b", "a"] }),
                json!({ "instructions": ["c", "a"] }),
                json!({ "instructions": ["a", "b", "c"] }),
            ),
            (
                json!({ "agent": { "a": { "instructions": [1] } } }),
                json!({ "agent": { "a": { "instructions": [2] } } }),
                json!({ "agent": { "a": { "instructions": [2] } } }),
            ),
            (
                json!({ "plugin": ["one@1", ["two", { "x": 1 }], "file:///a"] }),
                json!({ "plugin": ["one@2", "file:///b"] }),
                json!({ "plugin": [["two", { "x": 1 }], "file:///a", "one@2", "file:///b"] }),
            ),
        ];
        for (below, above, expected) in cases {
            assert_eq!(merged(&[below, above]), expected);
        }
    }

    #[test]
    fn a_key_keeps_its_place() {
        let merged = merged(&[json!({ "p": { "b": 1, "a": 1 } }), json!({ "p": { "c": 2, "a": 2 } })]);
        assert_eq!(merged.to_string(), r#"{"p":{"b":1,"a":2,"c":2}}"#);
    }

    /// Arbitrary JSON.
    fn anything() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            "[a-c@/{}:~]{0,6}".prop_map(Value::from),
        ];
        let name = prop_oneof![
            Just("instructions".to_owned()),
            Just("plugin".to_owned()),
            Just("permission".to_owned()),
            Just("agent".to_owned()),
            "[a-c]{1,2}",
        ];
        leaf.prop_recursive(4, 40, 5, move |inner| {
            let list = prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from);
            let pairs = prop::collection::vec((name.clone(), inner), 0..5);
            prop_oneof![list, pairs.prop_map(|pairs| Value::Object(pairs.into_iter().collect()))]
        })
    }

    /// Layers with the same type for each key, as in validated layers.
    fn layer() -> impl Strategy<Value = Value> {
        let texts = || prop::collection::vec("[a-d]{1}(@[12])?", 0..5);
        let map = || prop::collection::btree_map("[a-c]", any::<u8>(), 0..3);
        (
            prop::option::of(texts()),
            prop::option::of(texts()),
            prop::option::of(any::<u8>()),
            prop::option::of(prop::collection::btree_map("[p-r]", map(), 0..3)),
            prop::option::of(texts()),
        )
            .prop_map(|(instructions, plugin, number, maps, list)| {
                let mut layer = Map::new();
                let mut put = |name: &str, value: Option<Value>| {
                    layer.extend(value.map(|value| (name.to_owned(), value)));
                };
                put("instructions", instructions.map(Value::from));
                put("plugin", plugin.map(Value::from));
                put("number", number.map(Value::from));
                put("maps", maps.map(|maps| serde_json::to_value(maps).unwrap()));
                put("list", list.map(Value::from));
                Value::Object(layer)
            })
    }

    proptest! {
        #[test]
        fn the_grouping_of_layers_does_not_matter(a in layer(), b in layer(), c in layer()) {
            let left = merged(&[merged(&[a.clone(), b.clone()]), c.clone()]);
            let right = merged(&[a, merged(&[b, c])]);
            // Compared as texts, because the order of keys matters.
            prop_assert_eq!(left.to_string(), right.to_string());
        }

        #[test]
        fn a_layer_on_itself_changes_nothing(a in layer()) {
            let once = merged(std::slice::from_ref(&a));
            prop_assert_eq!(merged(&[once.clone(), once.clone()]).to_string(), once.to_string());
        }

        #[test]
        fn anything_can_be_merged_with_anything(a in anything(), b in anything()) {
            let layer = |value: Value| json!({ "a": value.clone(), "plugin": value.clone(), "instructions": value });
            let merged = merged(&[layer(a), layer(b.clone())]);
            if !b.is_object() {
                prop_assert_eq!(&merged["a"], &b);
            }
        }
    }
}
