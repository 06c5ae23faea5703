//! A JSON or YAML text as a tree with the position of every value.
//!
//! Both formats use this tree, so that one check (see [`super::schema`]) can report errors in either with their
//! position.

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::{self, ObjectPropName},
    common::Ranged,
    parse_to_ast,
};
use serde_json::{Map, Number, Value};

use super::problem::Position;

/// The largest integer that every JSON parser represents exactly.
const MAX_SAFE: f64 = 9_007_199_254_740_991.0;

/// JSON with comments and trailing commas.
pub(super) const SYNTAX: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// A value and its position in the text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Null,
    Switch(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
    /// A value with a placeholder that may not be filled in. It is valid everywhere and has no value.
    Withheld,
}

/// A key of a map with its position and value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) at: Position,
    pub(super) value: Node,
}

impl Node {
    /// The value without positions. If a key occurs twice, the last one counts; withheld values are left out.
    pub(super) fn into_value(self) -> Value {
        let counts = |node: &Self| node.kind != Kind::Withheld;
        match self.kind {
            Kind::Null | Kind::Withheld => Value::Null,
            Kind::Switch(switch) => Value::Bool(switch),
            Kind::Number(number) => Value::Number(number),
            Kind::Text(text) => Value::String(text),
            Kind::List(items) => items.into_iter().filter(counts).map(Self::into_value).collect(),
            Kind::Map(entries) => Value::Object(
                entries
                    .into_iter()
                    .filter(|entry| counts(&entry.value))
                    .map(|entry| (entry.name, entry.value.into_value()))
                    .collect::<Map<_, _>>(),
            ),
        }
    }

    pub(super) fn entry(&self, name: &str) -> Option<&Entry> {
        match &self.kind {
            Kind::Map(entries) => entries.iter().rfind(|entry| entry.name == name),
            _ => None,
        }
    }
}

/// A text that is not JSON: the byte offset of the error, and its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unreadable {
    pub(super) offset: usize,
    pub(super) message: String,
}

/// Reads JSON with comments and trailing commas. A blank text is `None`.
pub(super) fn parse(text: &str, locate: &dyn Fn(usize) -> Position) -> Result<Option<Node>, Unreadable> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &SYNTAX);
    let parsed = parsed.map_err(|error| {
        let mut message = error.kind().to_string();
        if let Some(first) = message.get_mut(..1) {
            first.make_ascii_lowercase();
        }
        Unreadable { offset: error.range().start, message }
    })?;
    parsed.value.map(|value| convert(&value, locate)).transpose()
}

fn convert(value: &ast::Value<'_>, locate: &dyn Fn(usize) -> Position) -> Result<Node, Unreadable> {
    let kind = match value {
        ast::Value::NullKeyword(_) => Kind::Null,
        ast::Value::BooleanLit(literal) => Kind::Switch(literal.value),
        ast::Value::StringLit(literal) => Kind::Text(literal.value.clone().into_owned()),
        ast::Value::NumberLit(literal) => {
            let number = number(literal.value);
            let far = || Unreadable { offset: value.start(), message: "this number is too large".into() };
            Kind::Number(number.ok_or_else(far)?)
        }
        ast::Value::Array(array) => Kind::List(
            array.elements.iter().map(|element| convert(element, locate)).collect::<Result<_, _>>()?,
        ),
        ast::Value::Object(object) => {
            let entry = |property: &ast::ObjectProp<'_>| {
                let name = match &property.name {
                    ObjectPropName::String(name) => name.value.clone().into_owned(),
                    ObjectPropName::Word(word) => word.value.to_owned(),
                };
                let value = convert(&property.value, locate)?;
                Ok(Entry { name, at: locate(property.start()), value })
            };
            Kind::Map(object.properties.iter().map(entry).collect::<Result<_, _>>()?)
        }
    };
    Ok(Node { at: locate(value.start()), kind })
}

/// A number as JavaScript sees it: `3.0` is the integer 3.
fn number(text: &str) -> Option<Number> {
    let number: Number = text.parse().ok()?;
    Some(whole(number))
}

/// Converts a number without a fractional part to an integer.
pub(super) fn whole(number: Number) -> Number {
    match number.as_f64() {
        Some(value) if number.is_f64() && value.fract() == 0.0 && value.abs() <= MAX_SAFE => {
            #[expect(clippy::cast_possible_truncation, reason = "checked to be whole and in range")]
            let value = value as i64;
            value.into()
        }
        _ => number,
    }
}

/// Converts byte offsets of a text to lines and columns.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, starts }
    }

    pub(super) fn position(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or_default();
        let before = self.text.get(start..offset).map_or(0, |before| before.chars().count());
        Position { line, column: before + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str) -> Result<Option<Value>, String> {
        let lines = Lines::of(text);
        match parse(text, &|offset| lines.position(offset)) {
            Ok(node) => Ok(node.map(Node::into_value)),
            Err(error) => Err(error.message),
        }
    }

    #[test]
    fn comments_and_trailing_commas_are_fine_and_other_liberties_are_not() {
        let text = "// so\n{ \"a\": [1, 2.0, 2.5,], /* and */ \"b\": \"\\u00e9\", \"a2\": null, }";
        assert_eq!(read(text), Ok(Some(json!({ "a": [1, 2, 2.5], "b": "é", "a2": null }))));
        assert_eq!(read(" // nothing\n"), Ok(None));
        for text in ["{ a: 1 }", "{ 'a': 1 }", "[1 2]", "[0x10]", "{} {}", "[NaN]", "[1e999]", "{\"a\"}", "["]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn of_two_equal_keys_the_last_counts() {
        assert_eq!(read(r#"{ "a": 1, "a": 2 }"#), Ok(Some(json!({ "a": 2 }))));
    }

    #[test]
    fn positions_count_characters() {
        let text = "{\n  \"ü\": 1 }";
        let lines = Lines::of(text);
        let node = parse(text, &|offset| lines.position(offset)).unwrap().unwrap();
        let entry = node.entry("ü").unwrap();
        assert_eq!((entry.at.line, entry.at.column), (2, 3));
        assert_eq!((entry.value.at.line, entry.value.at.column), (2, 8));
    }
}
