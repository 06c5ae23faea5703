//! Schemas of everything the document mentions.
//!
//! What a client may send and what it will get differ even for one type: a field with a default may be left
//! out of a call, but an answer always has it. So there are two sets, and a type that differs between them
//! appears twice, for calls under its name with `Input` behind it.

use std::collections::BTreeSet;

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings};
use serde_json::{Map, Value};

use crate::error::Fault;

const PLACE: &str = "#/components/schemas/";
/// Marks references of calls until it is known which of them differ.
const TAKEN: &str = "#/taken/";

/// Collects schemas.
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
    /// The schema of what a client sends.
    pub fn taken<T: JsonSchema>(&mut self) -> Schema {
        self.taken.subschema_for::<T>()
    }

    /// The schema of what a client gets.
    pub fn given<T: JsonSchema>(&mut self) -> Schema {
        self.given.subschema_for::<T>()
    }

    /// The schema of a type whose fields are taken one by one.
    pub fn fields<T: JsonSchema>(&mut self) -> Schema {
        T::json_schema(&mut self.taken)
    }

    /// The schema of an error.
    pub fn fault(&mut self, fault: Fault) -> Value {
        let name = match fault {
            // The name that OpenCode's document uses; its body says `BadRequest`.
            Fault::BadRequest => "BadRequestError",
            other => other.name(),
        };
        self.faults.entry(name).or_insert_with(|| fault.schema());
        serde_json::json!({ "$ref": format!("{PLACE}{name}") })
    }

    /// All schemas by name. References in the document are changed to those names.
    pub(super) fn finish(mut self, document: &mut Value) -> Map<String, Value> {
        let taken = self.taken.take_definitions(true);
        let mut all = self.given.take_definitions(true);
        let differing = differing(&taken, &all);
        let rename = |name: &str| format!("{name}{}", if differing.contains(name) { "Input" } else { "" });
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

/// Names that are in both sets and do not mean the same, by themselves or through what they refer to.
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

/// Calls `change` with every reference.
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
