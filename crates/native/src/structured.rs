//! Structured answers: the tool through which a model gives them, and their validation. Pure.

use protocol::message::OutputFormat;
use protocol::{Extra, UserMessage};
use serde_json::Value;

pub(super) const NAME: &str = "StructuredOutput";

/// The tool's result when the answer fits the schema.
pub(super) const ACCEPTED: &str = "The structured answer was accepted.";

/// The error for the user when the model gave no structured answer.
pub(super) const MISSING: &str = "The model answered without the requested structured output";

/// The error for the user when no answer fitted the schema.
pub(super) const INVALID: &str = "The model's structured output did not fit the requested schema";

/// Retries for an answer that does not fit, unless the prompt sets a number.
const RETRIES: u32 = 2;

pub(super) fn retries(prompt: &UserMessage) -> u32 {
    match &prompt.format {
        Some(OutputFormat::JsonSchema { retry_count: Some(count), .. }) => *count,
        _ => RETRIES,
    }
}

/// Returns the schema that a prompt sets for its answer.
pub(super) fn schema(prompt: &UserMessage) -> Option<&Extra> {
    match &prompt.format {
        Some(OutputFormat::JsonSchema { schema, .. }) => Some(schema),
        Some(OutputFormat::Text { .. }) | None => None,
    }
}

/// Returns the tool through which the model gives its answer.
pub(super) fn tool(schema: &Extra) -> llm::Tool {
    let mut schema = schema.clone();
    schema.shift_remove("$schema");
    llm::Tool {
        name: NAME.to_owned(),
        description: "Gives the final answer in the requested form. Call it exactly once, when all other \
                      work is done."
            .to_owned(),
        schema: Value::Object(schema),
    }
}

/// Checks an answer against its schema: types, required fields, enumerations and unknown fields. The error names
/// the place that does not fit, for the model to correct it.
pub(super) fn check(schema: &Extra, value: &Value) -> Result<(), String> {
    fits(&Value::Object(schema.clone()), value, "the answer")
}

fn fits(schema: &Value, value: &Value, place: &str) -> Result<(), String> {
    let Value::Object(schema) = schema else { return Ok(()) };
    if let Some(wanted) = schema.get("type")
        && !types(wanted).any(|wanted| is_a(value, wanted))
    {
        let wanted: Vec<&str> = types(wanted).collect();
        return Err(format!("{place} has to be of type {}", wanted.join(" or ")));
    }
    if let Some(allowed) = schema.get("enum").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        return Err(format!("{place} has to be one of {}", Value::Array(allowed.clone())));
    }
    match value {
        Value::Object(fields) => object(schema, fields, place),
        Value::Array(items) => {
            let Some(each) = schema.get("items") else { return Ok(()) };
            let place = |at: usize| format!("item {at} of {place}");
            items.iter().enumerate().try_for_each(|(at, item)| fits(each, item, &place(at)))
        }
        _ => Ok(()),
    }
}

fn object(schema: &Extra, fields: &Extra, place: &str) -> Result<(), String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    for name in required.filter_map(Value::as_str) {
        if !fields.contains_key(name) {
            return Err(format!("{place} has no field \"{name}\""));
        }
    }
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    for (name, value) in fields {
        match properties.and_then(|properties| properties.get(name)) {
            Some(schema) => fits(schema, value, &format!("\"{name}\" of {place}"))?,
            None if closed => {
                return Err(format!("{place} has a field \"{name}\", which is not in the schema"));
            }
            None => {}
        }
    }
    Ok(())
}

/// Returns the type names, of which a schema may have one or several.
fn types(wanted: &Value) -> impl Iterator<Item = &str> {
    let list = wanted.as_array().map(Vec::as_slice).unwrap_or_default();
    wanted.as_str().into_iter().chain(list.iter().filter_map(Value::as_str))
}

fn is_a(value: &Value, wanted: &str) -> bool {
    match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        // A whole number may be written with a fraction of zero.
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|it| it.fract() == 0.0),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        // Unknown types are not checked.
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judge(value: &Value) -> String {
        let schema = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {
                "name": { "type": "string" },
                "count": { "type": "integer" },
                "kind": { "enum": ["a", "b"] },
                "notes": { "type": ["array", "null"], "items": { "type": "object", "required": ["text"] } },
            },
            "required": ["name"],
            "additionalProperties": false,
        });
        check(schema.as_object().unwrap(), value).err().unwrap_or_else(|| "fits".to_owned())
    }

    #[test]
    fn an_answer_matches_or_the_error_names_the_place() {
        let answers = [
            json!({ "name": "x", "count": 2.0, "kind": "b", "notes": [{ "text": "", "more": 1 }] }),
            json!({ "name": "x", "notes": null }),
            json!("x"),
            json!({}),
            json!({ "name": 1 }),
            json!({ "name": "x", "count": 1.5 }),
            json!({ "name": "x", "kind": "c" }),
            json!({ "name": "x", "notes": 7 }),
            json!({ "name": "x", "notes": [{ "text": 1 }, {}] }),
            json!({ "name": "x", "other": 1 }),
        ];
        let judged: Vec<String> =
            answers.iter().map(|answer| format!("{answer}: {}", judge(answer))).collect();
        insta::assert_snapshot!(judged.join("\n"), @r#"
        {"name":"x","count":2.0,"kind":"b","notes":[{"text":"","more":1}]}: fits
        {"name":"x","notes":null}: fits
        "x": the answer has to be of type object
        {}: the answer has no field "name"
        {"name":1}: "name" of the answer has to be of type string
        {"name":"x","count":1.5}: "count" of the answer has to be of type integer
        {"name":"x","kind":"c"}: "kind" of the answer has to be one of ["a","b"]
        {"name":"x","notes":7}: "notes" of the answer has to be of type array or null
        {"name":"x","notes":[{"text":1},{}]}: item 1 of "notes" of the answer has no field "text"
        {"name":"x","other":1}: the answer has a field "other", which is not in the schema
        "#);
    }

    #[test]
    fn the_tool_has_the_schema_without_its_address() {
        let schema = json!({ "$schema": "x", "type": "object" });
        assert_eq!(tool(schema.as_object().unwrap()).schema, json!({ "type": "object" }));
    }
}
