//! Schemas of all types in the document.
//!
//! The schema for input and the schema for output differ even for one type: a field with a default may be
//! omitted in a call, but a response always has it. So there are two sets, and a type that differs between them
//! appears twice, for input with the suffix `Sent`.

use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value, json};

use crate::error::{Family, Fault};

const PLACE: &str = "#/components/schemas/";
/// Prefix of references in input schemas until it is known which of them differ.
const TAKEN: &str = "#/taken/";
/// Suffix of input types that differ from their output. No type's own name ends like this.
const SENT: &str = "Sent";

#[derive(Debug)]
pub struct Schemas {
    taken: SchemaGenerator,
    given: SchemaGenerator,
    faults: Map<String, Value>,
}

impl Default for Schemas {
    fn default() -> Self {
        let at = |place: &'static str| {
            SchemaSettings::draft2020_12().with(|settings| {
                settings.definitions_path = place.trim_start_matches('#').trim_end_matches('/').into();
                settings.meta_schema = None;
            })
        };
        Self {
            taken: at(TAKEN).for_deserialize().into_generator(),
            given: at(PLACE).for_serialize().into_generator(),
            faults: Map::new(),
        }
    }
}

impl Schemas {
    /// Schema of a type that clients send.
    pub fn taken<T: JsonSchema>(&mut self) -> Schema {
        self.taken.subschema_for::<T>()
    }

    /// Schema of a type that clients receive.
    pub fn given<T: JsonSchema>(&mut self) -> Schema {
        self.given.subschema_for::<T>()
    }

    /// Schema of a type whose fields are separate parameters.
    pub fn fields<T: JsonSchema>(&mut self) -> Value {
        let mut schema = T::json_schema(&mut self.taken).into();
        simplify(&mut schema);
        schema
    }

    /// Reference to the schema of an error.
    pub fn fault(&mut self, family: Family, fault: Fault) -> Value {
        let (name, schema) = family.schema(fault);
        self.faults.entry(&name).or_insert(schema);
        json!({ "$ref": format!("{PLACE}{name}") })
    }

    /// All schemas by name. Rewrites the references in the document to those names.
    pub(super) fn finish(mut self, document: &mut Value) -> Map<String, Value> {
        let mut taken = self.taken.take_definitions(true);
        let mut all = self.given.take_definitions(true);
        taken.values_mut().chain(all.values_mut()).for_each(simplify);
        let differing = differing(&taken, &all);
        let rename = |name: &str| format!("{name}{}", if differing.contains(name) { SENT } else { "" });
        let rewrite = |value: &mut Value| {
            visit(value, &mut |reference| {
                if let Some(name) = reference.strip_prefix(TAKEN) {
                    *reference = format!("{PLACE}{}", rename(name));
                }
            });
        };
        rewrite(document);
        for (name, mut schema) in taken {
            rewrite(&mut schema);
            all.insert(rename(&name), schema);
        }
        all.extend(self.faults);
        all.sort_keys();
        all
    }
}

/// Names whose schemas differ between the two sets, directly or through a reference.
fn differing(taken: &Map<String, Value>, given: &Map<String, Value>) -> BTreeSet<String> {
    let mut differing = BTreeSet::new();
    loop {
        let before = differing.len();
        for (name, schema) in taken {
            let Some(other) = given.get(name) else { continue };
            let mut schema = schema.clone();
            let mut through = false;
            visit(&mut schema, &mut |reference| {
                if let Some(name) = reference.strip_prefix(TAKEN) {
                    through |= differing.contains(name);
                    *reference = format!("{PLACE}{name}");
                }
            });
            if through || schema != *other {
                differing.insert(name.clone());
            }
        }
        if differing.len() == before {
            return differing;
        }
    }
}

/// Adjusts a schema to the style of OpenCode's document. Null is accepted for an optional field, but never
/// sent, so the schema omits it. The catch-all for fields of a newer server is removed, because this server
/// sends none.
fn simplify(schema: &mut Value) {
    match schema {
        Value::Object(words) => {
            let required = words.get("required").cloned().unwrap_or_default();
            let optional =
                |name: &str| !required.as_array().is_some_and(|names| names.contains(&name.into()));
            if let Some(Value::Object(fields)) = words.get_mut("properties") {
                fields.iter_mut().filter(|(name, _)| optional(name)).for_each(|(_, field)| drop_null(field));
            }
            if let Some(Value::Array(options)) = words.get_mut("anyOf") {
                options.retain(|option| !is_anything(option));
            }
            words.values_mut().for_each(simplify);
        }
        Value::Array(items) => items.iter_mut().for_each(simplify),
        _ => {}
    }
}

fn is_anything(schema: &Value) -> bool {
    schema.get("additionalProperties") == Some(&true.into()) && schema.get("properties").is_none()
}

fn drop_null(field: &mut Value) {
    let Value::Object(words) = field else { return };
    if let Some(Value::Array(types)) = words.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            words.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(options)) = words.get_mut("anyOf") {
        options.retain(|option| *option != json!({ "type": "null" }));
        if let [Value::Object(only)] = options.as_slice() {
            let only = only.clone();
            words.remove("anyOf");
            words.extend(only);
        }
    }
}

/// Calls `change` for every reference.
fn visit(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(reference) if name == "$ref" => change(reference),
                    other => visit(other, change),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, change)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Outer {
        inner: Inner,
        same: Same,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Inner {
        #[serde(default)]
        list: Vec<u8>,
    }

    #[derive(Serialize, Deserialize, JsonSchema)]
    struct Same {
        #[serde(skip_serializing_if = "Option::is_none")]
        maybe: Option<Box<Same>>,
    }

    #[test]
    fn a_differing_type_and_types_that_refer_to_it_have_two_schemas() {
        let mut schemas = Schemas::default();
        let mut document = json!([schemas.taken::<Outer>(), schemas.given::<Outer>()]);
        let all = schemas.finish(&mut document);
        assert_eq!(all.keys().collect::<Vec<_>>(), ["Inner", "InnerSent", "Outer", "OuterSent", "Same"]);
        let reference = |name: &str| json!({ "$ref": format!("{PLACE}{name}") });
        assert_eq!(document, json!([reference("OuterSent"), reference("Outer")]));
        assert_eq!(all["OuterSent"]["properties"]["inner"], reference("InnerSent"));
        assert_eq!(all["OuterSent"]["properties"]["same"], reference("Same"));
        assert_eq!(all["Same"]["properties"]["maybe"], reference("Same"));
    }
}
