//! Converts the form of an elicitation into questions, and the user's answers into the content of the form.

use std::collections::BTreeMap;

use agent_client_protocol_schema::v1::{
    CreateElicitationRequest, ElicitationContentValue as Value, ElicitationMode,
    ElicitationPropertySchema as Schema, ElicitationScope, EnumOption, MultiSelectItems,
    StringPropertySchema,
};
use protocol::request::{Answers, Question, QuestionOption};
use protocol::{Extra, Rest};

/// A field of a form, with the choices that its question offers.
#[derive(Debug, PartialEq)]
pub(super) struct Field {
    key: String,
    kind: Kind,
    choices: Vec<Choice>,
    /// The field for a custom answer (`<key>_custom`).
    own: Option<String>,
}

/// One choice of a question.
#[derive(Debug, Clone, PartialEq)]
struct Choice {
    label: String,
    description: String,
    value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Boolean,
    List,
}

/// The order of the form's fields, which the schema's type does not preserve.
pub(super) fn order(params: &serde_json::Value) -> Vec<String> {
    let properties = params.pointer("/requestedSchema/properties").and_then(serde_json::Value::as_object);
    properties.into_iter().flat_map(serde_json::Map::keys).cloned().collect()
}

/// The id of the tool call that a form belongs to.
pub(super) fn call(form: &CreateElicitationRequest) -> Option<String> {
    let ElicitationMode::Form(mode) = &form.mode else { return None };
    let ElicitationScope::Session(scope) = &mode.scope else { return None };
    scope.tool_call_id.as_ref().map(ToString::to_string)
}

/// The questions of a form with their fields, in the same order. None if the elicitation is not a form.
pub(super) fn questions(
    form: &CreateElicitationRequest,
    order: &[String],
) -> Option<(Vec<Question>, Vec<Field>)> {
    let ElicitationMode::Form(mode) = &form.mode else { return None };
    let properties = &mode.requested_schema.properties;
    let mut asked = (Vec::new(), Vec::new());
    for key in order {
        let Some(schema) = properties.get(key) else { continue };
        // A field for a custom answer is part of the question it belongs to.
        if key.strip_suffix("_custom").is_some_and(|of| properties.contains_key(of)) {
            continue;
        }
        let own = Some(format!("{key}_custom")).filter(|own| properties.contains_key(own));
        let field = Field { key: key.clone(), kind: kind(schema), choices: choices(schema), own };
        asked.0.push(question(&form.message, properties.len(), schema, &field));
        asked.1.push(field);
    }
    (!asked.0.is_empty()).then_some(asked)
}

fn kind(schema: &Schema) -> Kind {
    match schema {
        Schema::Number(_) | Schema::Integer(_) => Kind::Number,
        Schema::Boolean(_) => Kind::Boolean,
        Schema::Array(_) => Kind::List,
        _ => Kind::Text,
    }
}

/// The title and the description of a field.
fn about(schema: &Schema) -> (Option<&str>, Option<&str>) {
    let (title, description) = match schema {
        Schema::String(it) => (&it.title, &it.description),
        Schema::Number(it) => (&it.title, &it.description),
        Schema::Integer(it) => (&it.title, &it.description),
        Schema::Boolean(it) => (&it.title, &it.description),
        Schema::Array(it) => (&it.title, &it.description),
        Schema::Other(it) => {
            let text = |key: &str| it.fields.get(key)?.as_str();
            return (text("title"), text("description"));
        }
        _ => return (None, None),
    };
    (title.as_deref(), description.as_deref())
}

/// The choices of a field.
fn choices(schema: &Schema) -> Vec<Choice> {
    match schema {
        Schema::Boolean(_) => [("Yes", true), ("No", false)]
            .map(|(label, value)| Choice { value: value.into(), ..plain(label) })
            .into(),
        Schema::String(StringPropertySchema { one_of, enum_values, .. }) => {
            let titled = one_of.iter().flatten().map(titled);
            titled.chain(enum_values.iter().flatten().map(|value| plain(value))).collect()
        }
        Schema::Array(list) => match &list.items {
            MultiSelectItems::String(items) => items.values.iter().map(|value| plain(value)).collect(),
            MultiSelectItems::Titled(items) => items.options.iter().map(titled).collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn plain(value: &str) -> Choice {
    Choice { label: value.to_owned(), description: String::new(), value: value.into() }
}

fn titled(option: &EnumOption) -> Choice {
    let more = |text: &&str| *text != option.value;
    let description = option.description.as_deref().filter(more).or(Some(option.title.as_str()).filter(more));
    Choice { description: description.unwrap_or_default().to_owned(), ..plain(&option.value) }
}

fn question(message: &str, fields: usize, schema: &Schema, field: &Field) -> Question {
    let (title, description) = about(schema);
    let header = title.unwrap_or(&field.key);
    let about = description.unwrap_or(header);
    // The message of the form is the question if there is only one; several questions get the text of their fields.
    let question = match message {
        "" => about.to_owned(),
        message if fields <= 2 => message.to_owned(),
        message => format!("{message}\n{about}"),
    };
    let option = |choice: &Choice| QuestionOption {
        label: choice.label.clone(),
        description: choice.description.clone(),
        extra: Rest::NONE,
    };
    Question {
        question,
        header: header.to_owned(),
        options: field.choices.iter().map(option).collect(),
        multiple: (field.kind == Kind::List).then_some(true),
        custom: (!field.choices.is_empty() && field.own.is_none()).then_some(false),
        extra: Extra::new(),
    }
}

/// The content of the form for the user's answers.
pub(super) fn content(fields: &[Field], answers: &Answers) -> BTreeMap<String, Value> {
    let mut content = BTreeMap::new();
    for (field, given) in fields.iter().zip(answers) {
        let choice = |answer: &String| field.choices.iter().find(|choice| choice.label == *answer);
        let picked: Vec<&Choice> = given.iter().filter_map(choice).collect();
        let own: Vec<&str> =
            given.iter().filter(|answer| choice(answer).is_none()).map(String::as_str).collect();
        let said = own.join(", ");
        let value = match (field.kind, picked.first()) {
            (Kind::List, _) => {
                let free = own.iter().copied().filter(|_| field.own.is_none());
                Some(picked.iter().map(|choice| choice.label.as_str()).chain(free).collect::<Vec<_>>().into())
            }
            (_, Some(first)) => Some(first.value.clone()),
            (Kind::Number, None) => number(said.trim()),
            (Kind::Text, None) if field.own.is_none() && !said.is_empty() => Some(said.as_str().into()),
            (Kind::Text | Kind::Boolean, None) => None,
        };
        content.extend(value.map(|value| (field.key.clone(), value)));
        if let Some(key) = field.own.as_ref().filter(|_| !said.is_empty()) {
            content.insert(key.clone(), said.into());
        }
    }
    content
}

fn number(text: &str) -> Option<Value> {
    let whole = text.parse::<i64>().ok().map(Value::from);
    whole.or_else(|| text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::acp::lenient;
    use crate::acp::wire::read;

    fn form(properties: &serde_json::Value) -> (CreateElicitationRequest, Vec<String>) {
        let params = json!({
            "message": "Well?", "requestedSchema": { "type": "object", "properties": properties },
        });
        let order = order(&params);
        (read(params, lenient::form).unwrap(), order)
    }

    #[test]
    fn a_choice_with_a_custom_field_is_one_question() {
        let (form, order) = form(&json!({
            "colour": { "type": "string", "title": "Colour", "oneOf": [
                { "const": "Red", "title": "Red, like a rose" }, { "const": "Blue" },
            ] },
            "colour_custom": { "type": "string" },
        }));
        let (questions, fields) = questions(&form, &order).unwrap();
        let [question] = questions.as_slice() else { panic!("{questions:?}") };
        assert_eq!(
            (question.question.as_str(), question.header.as_str(), question.custom),
            ("Well?", "Colour", None)
        );
        let options: Vec<[&str; 2]> =
            question.options.iter().map(|option| [option.label.as_str(), &option.description]).collect();
        assert_eq!(options, [["Red", "Red, like a rose"], ["Blue", ""]]);
        let content = |answer: &str| json!(content(&fields, &vec![vec![answer.to_owned()]]));
        assert_eq!(content("Blue"), json!({ "colour": "Blue" }));
        assert_eq!(content("Green"), json!({ "colour_custom": "Green" }));
    }

    #[test]
    fn answers_have_the_types_of_their_fields() {
        let (form, order) = form(&json!({
            "sure": { "type": "boolean" }, "count": { "type": "integer" }, "name": { "type": "string" },
            "parts": { "type": "array", "items": { "enum": ["a", "b"] } }, "share": { "type": "number" },
        }));
        let (questions, fields) = questions(&form, &order).unwrap();
        let asked: Vec<&str> = questions.iter().map(|question| question.header.as_str()).collect();
        assert_eq!(asked, ["sure", "count", "name", "parts", "share"], "in the order of the form");
        let answers = [&["No"][..], &["7"], &["Ada"], &["b", "a"], &["0.5"]];
        let answers: Answers =
            answers.map(|given| given.iter().map(|&answer| answer.to_owned()).collect()).into();
        assert_eq!(
            json!(content(&fields, &answers)),
            json!({ "count": 7, "sure": false, "name": "Ada", "parts": ["b", "a"], "share": 0.5 })
        );
        assert_eq!(json!(content(&fields, &vec![Vec::new(); 5])), json!({ "parts": [] }));
    }

    #[test]
    fn elicitations_other_than_forms_are_not_asked() {
        let (mut it, order) = form(&json!({ "a": { "type": "string" } }));
        assert!(questions(&it, &order).is_some());
        it.mode = serde_json::from_value(
            json!({ "mode": "url", "sessionId": "s", "elicitationId": "1", "url": "https://example.com" }),
        )
        .unwrap();
        assert_eq!(questions(&it, &order), None);
        let (empty, order) = form(&json!({}));
        assert_eq!(questions(&empty, &order), None);
    }
}
