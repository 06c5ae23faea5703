//! Validates responses against the subset of JSON Schema that the document uses. An unknown keyword panics, so
//! that nothing goes unchecked.

use serde_json::{Map, Value};

const PLACE: &str = "#/components/schemas/";
/// Keywords that do not restrict values.
const REMARKS: [&str; 6] = ["description", "title", "default", "format", "$schema", "examples"];

/// Schemas by name, to follow references.
pub(crate) struct Schemas<'a>(pub(crate) &'a Map<String, Value>);

impl<'a> Schemas<'a> {
    pub(crate) fn of(document: &'a Value) -> Self {
        Self(document["components"]["schemas"].as_object().unwrap())
    }

    /// The schema itself, with references resolved.
    pub(crate) fn resolve(&self, schema: &'a Value) -> &'a Value {
        schema.get("$ref").map_or(schema, |reference| self.resolve(self.follow(reference)))
    }

    /// The target of a reference.
    pub(crate) fn follow(&self, reference: &Value) -> &'a Value {
        let name = reference.as_str().unwrap().strip_prefix(PLACE).unwrap();
        self.0.get(name).unwrap_or_else(|| panic!("{reference} does not resolve"))
    }

    /// Returns the reason why a value does not match.
    pub(crate) fn check(&self, schema: &'a Value, value: &Value) -> Result<(), String> {
        let words = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Bool(false) => return Err("no value matches here".into()),
            Value::Object(words) => words,
            other => panic!("{other} is not a schema"),
        };
        words.iter().try_for_each(|(word, rule)| self.rule(words, word, rule, value))
    }

    fn rule(
        &self,
        words: &'a Map<String, Value>,
        word: &str,
        rule: &'a Value,
        value: &Value,
    ) -> Result<(), String> {
        let options = || rule.as_array().unwrap().iter();
        let fits = || options().filter(|option| self.check(option, value).is_ok()).count();
        let within = |ok: bool| if ok { Ok(()) } else { Err(format!("{value} breaks {word} {rule}")) };
        match word {
            "$ref" => self.check(self.follow(rule), value),
            "type" => within(is_type(rule, value)),
            "const" => within(value == rule),
            "enum" => within(options().any(|option| option == value)),
            "anyOf" => within(fits() > 0),
            "oneOf" => within(fits() == 1),
            "allOf" => options().try_for_each(|option| self.check(option, value)),
            "pattern" => within(value.as_str().is_none_or(|text| text.starts_with(prefix(rule)))),
            "maxLength" => {
                within(value.as_str().is_none_or(|text| text.len() as u64 <= rule.as_u64().unwrap()))
            }
            "minimum" => within(value.as_f64().is_none_or(|number| number >= rule.as_f64().unwrap())),
            "maximum" => within(value.as_f64().is_none_or(|number| number <= rule.as_f64().unwrap())),
            "required" => {
                let has =
                    |name: &Value| value.as_object().is_none_or(|it| it.contains_key(name.as_str().unwrap()));
                options().try_for_each(|name| within(has(name)))
            }
            "properties" => self.properties(rule, value),
            "additionalProperties" => self.others(words, rule, value),
            "items" => {
                let mut items = value.as_array().into_iter().flatten();
                items.try_for_each(|item| self.check(rule, item))
            }
            _ if REMARKS.contains(&word) => Ok(()),
            _ => panic!("the document uses {word:?}, which is not checked"),
        }
    }

    fn properties(&self, rule: &'a Value, value: &Value) -> Result<(), String> {
        let Some(fields) = value.as_object() else { return Ok(()) };
        let rules = rule.as_object().unwrap();
        rules.iter().filter_map(|(name, rule)| Some((name, rule, fields.get(name)?))).try_for_each(
            |(name, rule, value)| self.check(rule, value).map_err(|why| format!("{name}: {why}")),
        )
    }

    fn others(&self, words: &'a Map<String, Value>, rule: &'a Value, value: &Value) -> Result<(), String> {
        let Some(fields) = value.as_object() else { return Ok(()) };
        let known = words.get("properties").and_then(Value::as_object);
        let others = fields.iter().filter(|(name, _)| known.is_none_or(|known| !known.contains_key(*name)));
        others
            .map(|(name, value)| (name, self.check(rule, value)))
            .try_for_each(|(name, result)| result.map_err(|why| format!("{name}: {why}")))
    }
}

/// Patterns of this document begin with a required prefix.
pub(crate) fn prefix(pattern: &Value) -> &str {
    let pattern = pattern.as_str().unwrap().strip_prefix('^').unwrap();
    pattern.split('[').next().unwrap()
}

fn is_type(rule: &Value, value: &Value) -> bool {
    match rule {
        Value::Array(types) => types.iter().any(|rule| is_type(rule, value)),
        rule => match rule.as_str().unwrap() {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "number" => value.is_number(),
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            other => panic!("{other} is not a type"),
        },
    }
}
