//! Converts the list of models.dev to `data/models.json`. See `data/README.md`.
//!
//!     cargo run -p llm --example refresh -- api.json crates/llm/data/models.json

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;

use serde_json::{Map, Value, json};

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = paths.as_slice() else {
        return Err("expected two paths: the list of models.dev and the output file".into());
    };
    let theirs: BTreeMap<String, Value> = serde_json::from_slice(&fs::read(from)?)?;
    fs::write(to, written(&theirs)?)?;
    Ok(())
}

/// Our list with one model per line, so that a refresh gives a readable diff.
fn written(theirs: &BTreeMap<String, Value>) -> Result<String, Box<dyn Error>> {
    let mut text = String::from("{");
    for (number, (id, provider)) in theirs.iter().enumerate() {
        let models = models(provider);
        let head = json!({
            "name": or(provider, "name", json!(id)), "env": or(provider, "env", json!([])),
            "sdk": or(provider, "npm", json!("@ai-sdk/openai-compatible")), "url": or(provider, "api", json!("")),
        });
        let head = head.to_string();
        let head = head.strip_suffix('}').unwrap_or(&head);
        write!(text, "{}\n{}: {head}, \"models\": {{", if number == 0 { "" } else { "," }, json!(id))?;
        for (number, (id, model)) in models.iter().enumerate() {
            let model = sorted(model);
            write!(text, "{}\n  {}: {model}", if number == 0 { "" } else { "," }, json!(id))?;
        }
        text.push_str("\n}}");
    }
    text.push_str("\n}\n");
    Ok(text)
}

/// Models of a provider, including those that are another model with a setting.
fn models(provider: &Value) -> BTreeMap<String, Value> {
    let mut models = BTreeMap::new();
    for (id, theirs) in provider.get("models").and_then(Value::as_object).into_iter().flatten() {
        models.insert(id.clone(), Value::Object(model(theirs)));
        let modes = theirs.pointer("/experimental/modes").and_then(Value::as_object);
        for (mode, settings) in modes.into_iter().flatten() {
            let mut other = model(theirs);
            other.insert("api_id".into(), json!(id));
            let name = or(theirs, "name", json!(id));
            other.insert("name".into(), json!(format!("{} {}", name.as_str().unwrap_or(id), capital(mode))));
            if let Some(cost) = settings.get("cost") {
                prices(cost, &mut other);
            }
            models.entry(format!("{id}-{mode}")).or_insert(Value::Object(other));
        }
    }
    models
}

fn model(theirs: &Value) -> Map<String, Value> {
    let mut ours = Map::new();
    let abilities = [
        ("temperature", "temperature"),
        ("reasoning", "reasoning"),
        ("attachment", "attachment"),
        ("tool_call", "toolcall"),
    ];
    let caps = abilities.iter().filter(|(key, _)| theirs.get(key) == Some(&Value::Bool(true)));
    ours.insert("caps".into(), caps.map(|(_, cap)| *cap).collect());
    let at = |path: &str| theirs.pointer(path).cloned();
    ours.insert("context".into(), at("/limit/context").unwrap_or(json!(0)));
    prices(theirs.get("cost").unwrap_or(&Value::Null), &mut ours);
    ours.insert("in".into(), at("/modalities/input").unwrap_or(json!(["text"])));
    ours.insert("name".into(), or(theirs, "name", json!("")));
    ours.insert("out".into(), at("/modalities/output").unwrap_or(json!(["text"])));
    ours.insert("output".into(), at("/limit/output").unwrap_or(json!(0)));
    ours.insert("released".into(), or(theirs, "release_date", json!("")));
    let optional = [
        ("family", at("/family")),
        ("input_limit", at("/limit/input")),
        ("status", at("/status")),
        ("sdk", at("/provider/npm")),
        ("url", at("/provider/api")),
        ("reasoning_field", at("/interleaved/field")),
    ];
    ours.extend(optional.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
    ours
}

/// Base prices and prices for larger prompts.
fn prices(cost: &Value, ours: &mut Map<String, Value>) {
    let price = |cost: &Value| {
        let at = |key: &str| or(cost, key, json!(0));
        (at("input"), at("output"), at("cache_read"), at("cache_write"))
    };
    let larger = |cost: &Value| {
        let (input, output, read, write) = price(cost);
        json!({ "input": input, "output": output, "cache": { "read": read, "write": write } })
    };
    // A mode has its own prices, and none for larger prompts unless it lists them.
    ours.remove("cost_over_200k");
    ours.remove("cost_tiers");
    let (input, output, read, write) = price(cost);
    ours.insert("cost".into(), json!([input, output, read, write]));
    if let Some(over) = cost.get("context_over_200k") {
        ours.insert("cost_over_200k".into(), larger(over));
    }
    let tiers: Vec<Value> = cost
        .get("tiers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|tier| {
            let size = tier.pointer("/tier/size")?;
            let mut row = larger(tier);
            row.as_object_mut()?.insert("tier".into(), json!({ "type": "context", "size": size }));
            Some(row)
        })
        .collect();
    if !tiers.is_empty() {
        ours.insert("cost_tiers".into(), tiers.into());
    }
}

/// Sorts keys at every depth, so that the same list always gives the same output.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<&String, Value> =
                fields.iter().map(|(key, value)| (key, sorted(value))).collect();
            fields.into_iter().map(|(key, value)| (key.clone(), value)).collect()
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        value => value.clone(),
    }
}

fn or(value: &Value, key: &str, otherwise: Value) -> Value {
    value.get(key).filter(|value| !value.is_null()).cloned().unwrap_or(otherwise)
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
