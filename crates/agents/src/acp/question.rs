//! Questions: a form that an agent wants filled in, as questions with answers to pick from, and back.

use protocol::request::{Answers, Question, QuestionOption};
use protocol::{Extra, Rest};
use serde_json::{Map, Value, json};

use super::wire::Elicitation;

/// A field of a form that is asked about.
#[derive(Debug, PartialEq)]
pub(super) struct Field {
    key: String,
    kind: Kind,
    /// The values that stand behind the labels.
    values: Vec<(String, Value)>,
    /// Another field that takes answers of one's own.
    own: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Boolean,
    List,
}

/// The questions of a form, and which field each is about. Nothing if it is not a form.
pub(super) fn questions(form: &Elicitation) -> Option<(Vec<Question>, Vec<Field>)> {
    if form.mode.as_deref().is_some_and(|mode| mode != "form") {
        return None;
    }
    let properties = form.requested_schema.get("properties")?.as_object()?;
    let mut asked = (Vec::new(), Vec::new());
    for (key, schema) in properties {
        // A field for answers of one's own is part of the question it belongs to.
        if key.strip_suffix("_custom").is_some_and(|of| properties.contains_key(of)) {
            continue;
        }
        let own = Some(format!("{key}_custom")).filter(|own| properties.contains_key(own));
        let field = Field { key: key.clone(), kind: kind(schema), values: values(schema), own };
        asked.0.push(question(form, properties.len(), schema, &field));
        asked.1.push(field);
    }
    (!asked.0.is_empty()).then_some(asked)
}

fn kind(schema: &Value) -> Kind {
    match schema["type"].as_str() {
        Some("number" | "integer") => Kind::Number,
        Some("boolean") => Kind::Boolean,
        Some("array") => Kind::List,
        _ => Kind::Text,
    }
}

/// What can be picked: labels, and what they stand for.
fn values(schema: &Value) -> Vec<(String, Value)> {
    if schema["type"] == "boolean" {
        return vec![("Yes".to_owned(), true.into()), ("No".to_owned(), false.into())];
    }
    let schema = if schema["type"] == "array" { &schema["items"] } else { schema };
    let titled = ["oneOf", "anyOf"].iter().find_map(|key| schema[*key].as_array()).into_iter().flatten();
    let titled = titled.filter_map(|option| {
        let value = option.get("const")?;
        let label = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some((label, value.clone()))
    });
    let plain = schema["enum"].as_array().into_iter().flatten();
    let plain =
        plain.map(|value| (value.as_str().map_or_else(|| value.to_string(), str::to_owned), value.clone()));
    titled.chain(plain).collect()
}

fn question(form: &Elicitation, fields: usize, schema: &Value, field: &Field) -> Question {
    let text = |key: &str| schema[key].as_str().map(str::to_owned);
    let header = text("title").unwrap_or_else(|| field.key.clone());
    let about = text("description").unwrap_or_else(|| header.clone());
    // The one question of a form is what the form says; of several, each says more.
    let whole = if fields <= 2 || form.message.is_empty() { None } else { Some(about.clone()) };
    let question = match whole {
        Some(about) => format!("{}\n{about}", form.message),
        None if form.message.is_empty() => about,
        None => form.message.clone(),
    };
    let option = |(label, _): &(String, Value)| QuestionOption {
        label: label.clone(),
        description: described(schema, label),
        extra: Rest::NONE,
    };
    Question {
        question,
        header,
        options: field.values.iter().map(option).collect(),
        multiple: (field.kind == Kind::List).then_some(true),
        custom: (!field.values.is_empty() && field.own.is_none()).then_some(false),
        extra: Extra::new(),
    }
}

fn described(schema: &Value, label: &str) -> String {
    let schema = if schema["type"] == "array" { &schema["items"] } else { schema };
    let options = ["oneOf", "anyOf"].iter().find_map(|key| schema[*key].as_array()).into_iter().flatten();
    let found = options.into_iter().find(|option| option["const"] == label);
    let text = |key: &str| found?.get(key)?.as_str().filter(|text| *text != label).map(str::to_owned);
    text("description").or_else(|| text("title")).unwrap_or_default()
}

/// The form, filled in.
pub(super) fn content(fields: &[Field], answers: &Answers) -> Value {
    let mut content = Map::new();
    for (field, given) in fields.iter().zip(answers) {
        let (picked, own): (Vec<&String>, Vec<&String>) =
            given.iter().partition(|answer| field.values.iter().any(|(label, _)| label == *answer));
        let value = |label: &String| {
            field.values.iter().find(|(known, _)| known == label).map(|(_, value)| value.clone())
        };
        let picked: Vec<Value> = picked.into_iter().filter_map(value).collect();
        let said = own.iter().map(|text| text.as_str()).collect::<Vec<_>>().join(", ");
        match (field.kind, picked.first()) {
            (Kind::List, _) => {
                let free = own.iter().filter(|_| field.own.is_none()).map(|text| json!(text));
                content.insert(field.key.clone(), picked.iter().cloned().chain(free).collect());
            }
            (_, Some(first)) => {
                content.insert(field.key.clone(), first.clone());
            }
            (Kind::Number, None) => {
                if let Ok(number) = serde_json::from_str::<serde_json::Number>(said.trim()) {
                    content.insert(field.key.clone(), number.into());
                }
            }
            (Kind::Text, None) if field.own.is_none() && !said.is_empty() => {
                content.insert(field.key.clone(), said.clone().into());
            }
            (Kind::Text | Kind::Boolean, None) => {}
        }
        if let Some(key) = field.own.as_ref().filter(|_| !said.is_empty()) {
            content.insert(key.clone(), said.into());
        }
    }
    Value::Object(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(properties: &Value) -> Elicitation {
        serde_json::from_value(json!({
            "mode": "form", "message": "Well?", "requestedSchema": { "type": "object", "properties": properties },
        }))
        .unwrap()
    }

    #[test]
    fn a_choice_with_room_for_another_answer_is_one_question() {
        let form = form(&json!({
            "colour": { "type": "string", "title": "Colour", "oneOf": [
                { "const": "Red", "title": "Red, like a rose" }, { "const": "Blue", "title": "Blue" },
            ] },
            "colour_custom": { "type": "string" },
        }));
        let (questions, fields) = questions(&form).unwrap();
        let [question] = questions.as_slice() else { panic!("{questions:?}") };
        assert_eq!(
            (question.question.as_str(), question.header.as_str(), question.custom),
            ("Well?", "Colour", None)
        );
        let options: Vec<[&str; 2]> =
            question.options.iter().map(|option| [option.label.as_str(), &option.description]).collect();
        assert_eq!(options, [["Red", "Red, like a rose"], ["Blue", ""]]);
        assert_eq!(content(&fields, &vec![vec!["Blue".into()]]), json!({ "colour": "Blue" }));
        assert_eq!(content(&fields, &vec![vec!["Green".into()]]), json!({ "colour_custom": "Green" }));
    }

    #[test]
    fn answers_have_the_type_that_was_asked_for() {
        let form = form(&json!({
            "count": { "type": "integer" }, "sure": { "type": "boolean" }, "name": { "type": "string" },
            "parts": { "type": "array", "items": { "enum": ["a", "b"] } },
        }));
        let (questions, fields) = questions(&form).unwrap();
        let answers: Answers = questions
            .iter()
            .map(|question| match question.header.as_str() {
                "count" => vec!["7".to_owned()],
                "sure" => vec!["No".to_owned()],
                "name" => vec!["Ada".to_owned()],
                _ => vec!["b".to_owned(), "a".to_owned()],
            })
            .collect();
        assert_eq!(
            content(&fields, &answers),
            json!({ "count": 7, "sure": false, "name": "Ada", "parts": ["b", "a"] })
        );
        assert_eq!(content(&fields, &vec![Vec::new(); 4])["count"], Value::Null);
    }

    #[test]
    fn only_forms_are_asked() {
        let mut url = form(&json!({ "a": { "type": "string" } }));
        assert!(questions(&url).is_some());
        url.mode = Some("url".to_owned());
        assert_eq!(questions(&url), None);
        assert_eq!(questions(&form(&json!({}))), None);
    }
}
