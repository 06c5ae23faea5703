//! Generated values that match a schema, and values that match none.

use serde_json::{Map, Value, json};
use testkit::dice::Dice;

use crate::schema::{Schemas, prefix};

/// Deepest nesting of generated values.
const DEPTH: usize = 6;

pub(crate) fn pick<'a, T>(dice: &mut Dice, list: &'a [T]) -> &'a T {
    &list[usize::try_from(dice.roll(list.len() as u64)).unwrap()]
}

/// An arbitrary value.
pub(crate) fn junk(dice: &mut Dice) -> Value {
    let all = [
        json!(null),
        json!(true),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("\0"),
        json!("../../etc/passwd"),
        json!("\u{202e}\u{1f4a9} ' \" < > & ; $(id)"),
        json!("x".repeat(100_000)),
        json!([]),
        json!([[[]]]),
        json!({}),
        json!({ "type": "text" }),
        json!({ "": { "\0": [null] } }),
    ];
    pick(dice, &all).clone()
}

/// Breaks a value in one place.
pub(crate) fn spoil(dice: &mut Dice, value: &mut Value) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            let names: Vec<String> = fields.keys().cloned().collect();
            let name = pick(dice, &names).clone();
            match dice.roll(4) {
                0 => drop(fields.remove(&name)),
                1 => drop(fields.insert("surprise".into(), junk(dice))),
                2 => drop(fields.insert(name, junk(dice))),
                _ => spoil(dice, &mut fields[&name]),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let index = usize::try_from(dice.roll(items.len() as u64)).unwrap();
            spoil(dice, &mut items[index]);
        }
        other => *other = junk(dice),
    }
}

/// A value that matches the schema.
pub(crate) fn fitting(dice: &mut Dice, schemas: &Schemas<'_>, schema: &Value, depth: usize) -> Value {
    if let Some(reference) = schema.get("$ref") {
        let base = fitting(dice, schemas, schemas.follow(reference), depth);
        return with_fields(dice, schemas, schema, base, depth);
    }
    if let Some(only) = schema.get("const") {
        return only.clone();
    }
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        return pick(dice, options).clone();
    }
    let options = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array);
    let base = options.map_or(json!({}), |options| {
        let option = pick(dice, options).clone();
        fitting(dice, schemas, &option, depth)
    });
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => pick(dice, kinds).as_str(),
        Some(kind) => kind.as_str(),
        None => None,
    };
    match kind {
        Some("object") => with_fields(dice, schemas, schema, base, depth),
        Some("array") if depth > DEPTH => json!([]),
        Some("array") => {
            (0..dice.roll(4)).map(|_| fitting(dice, schemas, &schema["items"], depth + 1)).collect()
        }
        Some("string") => text(dice, schema),
        Some("integer" | "number") => json!(dice.roll(1_000)),
        Some("boolean") => json!(dice.roll(2) == 0),
        Some("null") => Value::Null,
        _ if options.is_some() => base,
        _ => junk(dice),
    }
}

fn text(dice: &mut Dice, schema: &Value) -> Value {
    match schema.get("pattern") {
        Some(pattern) => json!(format!("{}_{}", prefix(pattern), dice.roll(1_000_000))),
        // Among others, names that the scripted runner knows.
        None => json!(*pick(dice, &["build", "demo", "hello", "plan", "", "https://example.com/ä?b=c"])),
    }
}

fn with_fields(dice: &mut Dice, schemas: &Schemas<'_>, schema: &Value, base: Value, depth: usize) -> Value {
    let Value::Object(mut fields) = base else { return base };
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let empty = Map::new();
    for (name, schema) in schema["properties"].as_object().unwrap_or(&empty) {
        if required.contains(&json!(name)) || (depth < DEPTH && dice.roll(4) == 0) {
            fields.insert(name.clone(), fitting(dice, schemas, schema, depth + 1));
        }
    }
    if let Some(others @ Value::Object(_)) = schema.get("additionalProperties") {
        fields.insert(format!("key{}", dice.roll(10)), fitting(dice, schemas, others, depth + 1));
    }
    Value::Object(fields)
}
