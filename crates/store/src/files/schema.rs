//! Checks a document against the JSON schema of a configuration, and reports every error in it.
//!
//! The schema comes from the types in [`protocol::config`], so there is one description of what is allowed. This
//! module supports only the keywords that those types produce; it is not a general validator.

use std::sync::LazyLock;

use serde_json::Value;

use super::{
    document::{Entry, Kind, Node},
    problem::{Position, Problem, Source},
    spelling::closest,
};

static CONFIG: LazyLock<Value> = LazyLock::new(protocol::config::schema);

/// The expected kind of document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expected {
    /// The name of a definition; `None` for a whole configuration.
    pub(super) definition: Option<&'static str>,
    /// The name of the document in messages that concern all of it.
    pub(super) subject: &'static str,
    /// Allowed keys that the definition does not contain.
    pub(super) besides: &'static [&'static str],
    /// Required keys that do not come from the document.
    pub(super) supplied: &'static [&'static str],
    /// True if unknown keys at the top level are errors, not only warnings.
    pub(super) closed: bool,
}

/// A configuration. The three extra keys belong to OpenCode's terminal interface, which removes them from such
/// files, so a file may still contain them.
pub(super) const CONFIGURATION: Expected = Expected {
    definition: None,
    subject: "the configuration",
    besides: &["theme", "keybinds", "tui"],
    supplied: &[],
    closed: true,
};

/// The value of `permission`.
pub(super) const PERMISSION: Expected = Expected {
    definition: Some("PermissionConfig"),
    subject: "the permission",
    besides: &[],
    supplied: &[],
    closed: true,
};

/// The front matter of an agent.
pub(super) const AGENT: Expected = Expected {
    definition: Some("AgentConfig"),
    subject: "the front matter",
    besides: &["name"],
    supplied: &[],
    closed: false,
};

/// The front matter of a command.
pub(super) const COMMAND: Expected = Expected {
    definition: Some("CommandConfig"),
    subject: "the front matter",
    besides: &["name"],
    supplied: &["template"],
    closed: false,
};

/// The errors and warnings in a document.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Errors, which make the document invalid.
    pub(super) wrong: Vec<Problem>,
    pub(super) odd: Vec<Problem>,
}

pub(super) fn check(node: &Node, expected: &Expected, source: &Source) -> Findings {
    let root: &Value = &CONFIG;
    let defined = |name| root.get("$defs").and_then(|definitions| definitions.get(name));
    let schema = expected.definition.map_or(Some(root), defined).unwrap_or(&Value::Null);
    let check = Check { root, expected };
    let mut found = Vec::new();
    check.node(schema, node, "", &mut found);
    let mut findings = Findings::default();
    for finding in found {
        let list = if finding.wrong { &mut findings.wrong } else { &mut findings.odd };
        list.push(finding.told(source, expected.subject));
    }
    findings
}

#[derive(Debug, Clone)]
struct Finding {
    at: Position,
    key: String,
    what: What,
    wrong: bool,
}

#[derive(Debug, Clone)]
enum What {
    /// The value must be one of these.
    Choice(Vec<String>),
    /// The key must be one of these.
    Unknown(Vec<String>),
    /// Another error, as the rest of a sentence.
    Other(String),
}

impl Finding {
    fn told(self, source: &Source, subject: &str) -> Problem {
        let subject = if self.key.is_empty() { subject.to_owned() } else { format!("`{}`", self.key) };
        let (message, allowed) = match self.what {
            What::Choice(allowed) => (format!("{subject} must be {}", one_of(&allowed)), allowed),
            What::Unknown(allowed) => {
                let name = self.key.rsplit('.').next().unwrap_or_default();
                let hint = closest(name, &allowed).map(|known| format!("; did you mean `{known}`?"));
                (format!("{subject} is not a known key{}", hint.unwrap_or_default()), allowed)
            }
            What::Other(message) => (format!("{subject} {message}"), Vec::new()),
        };
        Problem { source: source.clone(), at: Some(self.at), key: self.key, message, allowed }
    }
}

struct Check<'a> {
    root: &'a Value,
    expected: &'a Expected,
}

impl Check<'_> {
    fn node(&self, schema: &Value, node: &Node, key: &str, out: &mut Vec<Finding>) {
        if node.kind == Kind::Withheld {
            return;
        }
        let schema = self.resolve(schema);
        let finding = |what| Finding { at: node.at, key: key.to_owned(), what, wrong: true };
        if let Some(choices) = choices(schema) {
            if !choices.iter().any(|choice| is(node, choice)) {
                out.push(finding(What::Choice(choices.into_iter().map(bare).collect())));
            }
            return;
        }
        if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
            return self.any(schema, branches, node, key, out);
        }
        if !self.fits(schema, node) {
            let expected = self.described(schema);
            return out.push(finding(What::Other(format!("must be {expected}, not {}", called(node)))));
        }
        match &node.kind {
            Kind::Map(entries) => self.map(schema, node, entries, key, out),
            Kind::List(items) => self.list(schema, node, items, key, out),
            Kind::Number(number) => {
                out.extend(bound(schema, number).map(|message| finding(What::Other(message))));
            }
            Kind::Text(text) if schema.get("format").is_some_and(|format| format == "hex-color") => {
                let digits = text.strip_prefix('#').unwrap_or_default();
                if digits.len() != 6 || !digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
                    out.push(finding(What::Other("must be a colour like `#ff5733`".into())));
                }
            }
            _ => {}
        }
    }

    fn map(&self, schema: &Value, node: &Node, entries: &[Entry], key: &str, out: &mut Vec<Finding>) {
        let is_root = key.is_empty();
        let properties = schema.get("properties").and_then(Value::as_object);
        for entry in entries {
            let inner = joined(key, &entry.name);
            if let Some(property) = properties.and_then(|properties| properties.get(&entry.name)) {
                self.node(property, &entry.value, &inner, out);
                continue;
            }
            match schema.get("additionalProperties") {
                Some(Value::Bool(false))
                    if is_root && self.expected.besides.contains(&entry.name.as_str()) => {}
                Some(Value::Bool(false)) => {
                    let known =
                        properties.into_iter().flat_map(|properties| properties.keys().cloned()).collect();
                    let wrong = is_root && self.expected.closed;
                    out.push(Finding { at: entry.at, key: inner, what: What::Unknown(known), wrong });
                }
                Some(other) if other.is_object() => self.node(other, &entry.value, &inner, out),
                _ => {}
            }
        }
        for required in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            let Some(name) = required.as_str() else { continue };
            let supplied = is_root && self.expected.supplied.contains(&name);
            if !supplied && node.entry(name).is_none() {
                let what = What::Other(format!("needs `{name}`"));
                out.push(Finding { at: node.at, key: key.to_owned(), what, wrong: true });
            }
        }
    }

    fn list(&self, schema: &Value, node: &Node, items: &[Node], key: &str, out: &mut Vec<Finding>) {
        let first = schema.get("prefixItems").and_then(Value::as_array);
        if let Some(first) = first
            && first.len() != items.len()
        {
            let what = What::Other(format!("must have {} elements, not {}", first.len(), items.len()));
            out.push(Finding { at: node.at, key: key.to_owned(), what, wrong: true });
            return;
        }
        for (index, item) in items.iter().enumerate() {
            let schema = first.and_then(|first| first.get(index)).or_else(|| schema.get("items"));
            if let Some(schema) = schema {
                self.node(schema, item, &format!("{key}[{index}]"), out);
            }
        }
    }

    /// Checks a value with several allowed forms. If none matches, reports the errors of the closest one.
    fn any(&self, schema: &Value, branches: &[Value], node: &Node, key: &str, out: &mut Vec<Finding>) {
        let candidates = branches.iter().filter(|branch| self.fits(branch, node));
        let mut results: Vec<Vec<Finding>> = candidates
            .map(|branch| {
                let mut found = Vec::new();
                self.node(branch, node, key, &mut found);
                found
            })
            .collect();
        results.sort_by_key(|found| (found.iter().filter(|finding| finding.wrong).count(), found.len()));
        let mut results = results.into_iter();
        let Some(mut best) = results.next() else {
            let message = format!("must be {}, not {}", self.described(schema), called(node));
            out.push(Finding { at: node.at, key: key.to_owned(), what: What::Other(message), wrong: true });
            return;
        };
        // The allowed values at a key are those of all forms.
        for other in results.flatten() {
            let same = best.iter_mut().find(|finding| finding.key == other.key);
            if let (Some(Finding { what: What::Choice(allowed), .. }), What::Choice(more)) =
                (same, other.what)
            {
                allowed.extend(more.into_iter().filter(|more| !allowed.contains(more)).collect::<Vec<_>>());
            }
        }
        out.append(&mut best);
    }

    /// Returns true if a node has the right type, whatever it contains.
    fn fits(&self, schema: &Value, node: &Node) -> bool {
        let schema = self.resolve(schema);
        if let Some(choices) = choices(schema) {
            return choices.iter().any(|choice| kind_of(choice) == called(node));
        }
        if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
            return branches.iter().any(|branch| self.fits(branch, node));
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => matches!(node.kind, Kind::Map(_)),
            Some("array") => matches!(node.kind, Kind::List(_)),
            Some("string") => matches!(node.kind, Kind::Text(_)),
            Some("boolean") => matches!(node.kind, Kind::Switch(_)),
            Some("number") => matches!(node.kind, Kind::Number(_)),
            Some("integer") => matches!(&node.kind, Kind::Number(number) if !number.is_f64()),
            _ => true,
        }
    }

    /// A description of the allowed values.
    fn described(&self, schema: &Value) -> String {
        let schema = self.resolve(schema);
        if let Some(choices) = choices(schema) {
            return one_of(&choices.into_iter().map(bare).collect::<Vec<_>>());
        }
        if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
            let mut kinds: Vec<String> = branches.iter().map(|branch| self.described(branch)).collect();
            kinds.dedup();
            return kinds.join(", or ");
        }
        match schema.get("type").and_then(Value::as_str) {
            Some("object") => MAP,
            Some("array") => LIST,
            Some("string") => TEXT,
            Some("boolean") => SWITCH,
            Some("integer") => "a whole number",
            Some("number") => NUMBER,
            _ => "something else",
        }
        .into()
    }

    fn resolve<'s>(&'s self, schema: &'s Value) -> &'s Value {
        let reference = schema.get("$ref").and_then(Value::as_str);
        let target = reference.and_then(|reference| self.root.pointer(reference.trim_start_matches('#')));
        target.unwrap_or(schema)
    }
}

const MAP: &str = "a map";
const LIST: &str = "a list";
const TEXT: &str = "text";
const SWITCH: &str = "true or false";
const NUMBER: &str = "a number";
const NOTHING: &str = "null";
const WITHHELD: &str = "a withheld value";

fn called(node: &Node) -> &'static str {
    match node.kind {
        Kind::Null => NOTHING,
        Kind::Switch(_) => SWITCH,
        Kind::Number(_) => NUMBER,
        Kind::Text(_) => TEXT,
        Kind::List(_) => LIST,
        Kind::Map(_) => MAP,
        Kind::Withheld => WITHHELD,
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => NOTHING,
        Value::Bool(_) => SWITCH,
        Value::Number(_) => NUMBER,
        Value::String(_) => TEXT,
        Value::Array(_) => LIST,
        Value::Object(_) => MAP,
    }
}

/// The values that a schema lists, if it does.
fn choices(schema: &Value) -> Option<Vec<&Value>> {
    if let Some(only) = schema.get("const") {
        return Some(vec![only]);
    }
    if let Some(listed) = schema.get("enum").and_then(Value::as_array) {
        return Some(listed.iter().collect());
    }
    schema.get("oneOf")?.as_array()?.iter().map(|choice| choice.get("const")).collect()
}

fn is(node: &Node, value: &Value) -> bool {
    match (&node.kind, value) {
        (Kind::Text(text), Value::String(choice)) => text == choice,
        (Kind::Switch(switch), Value::Bool(choice)) => switch == choice,
        _ => false,
    }
}

/// A choice without its quotes.
fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

fn one_of(allowed: &[String]) -> String {
    match allowed {
        [only] => format!("`{only}`"),
        several => format!("one of {}", several.join(", ")),
    }
}

/// A message about the limit that a number exceeds.
fn bound(schema: &Value, number: &serde_json::Number) -> Option<String> {
    let value = number.as_f64()?;
    let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
    let format = schema.get("format").and_then(Value::as_str);
    let widest = match format {
        Some("uint16") => Some(f64::from(u16::MAX)),
        Some("uint32") => Some(f64::from(u32::MAX)),
        _ => None,
    };
    if let Some(least) = limit("minimum").filter(|least| value < *least) {
        return Some(format!("must be at least {least}"));
    }
    if let Some(below) = limit("exclusiveMinimum").filter(|below| value <= *below) {
        return Some(format!("must be more than {below}"));
    }
    let most = limit("maximum").into_iter().chain(widest).reduce(f64::min);
    most.filter(|most| value > *most).map(|most| format!("must be at most {most}"))
}

/// A path with one more key.
pub(super) fn joined(key: &str, name: &str) -> String {
    let plain =
        !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "_-$".contains(letter));
    match (key.is_empty(), plain) {
        (true, true) => name.to_owned(),
        (false, true) => format!("{key}.{name}"),
        (_, false) => format!("{key}[{}]", Value::from(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::document, *};

    fn problems(text: &str) -> Vec<String> {
        let lines = document::Lines::of(text);
        let node = document::parse(text, &|offset| lines.position(offset)).unwrap().unwrap();
        let findings = check(&node, &CONFIGURATION, &Source::Variable("X"));
        let odd = findings.odd.iter().map(|problem| format!("odd: {problem}"));
        findings.wrong.iter().map(ToString::to_string).chain(odd).collect()
    }

    fn only(text: &str) -> String {
        let problems = problems(text);
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.into_iter().next().unwrap()
    }

    #[test]
    fn every_kind_of_mistake_has_its_sentence() {
        let cases = [
            (r"[]", "X:1:1: the configuration must be a map, not a list"),
            (r#"{ "modle": "x" }"#, "X:1:3: `modle` is not a known key; did you mean `model`?"),
            (r#"{ "color": 1 }"#, "X:1:3: `color` is not a known key"),
            (r#"{ "model": 1 }"#, "X:1:12: `model` must be text, not a number"),
            (r#"{ "model": null }"#, "X:1:12: `model` must be text, not null"),
            (r#"{ "share": "yes" }"#, "X:1:12: `share` must be one of manual, auto, disabled"),
            (r#"{ "subagent_depth": 1.5 }"#, "X:1:21: `subagent_depth` must be a whole number, not a number"),
            (r#"{ "subagent_depth": -1 }"#, "X:1:21: `subagent_depth` must be at least 0"),
            (r#"{ "server": { "port": 70000 } }"#, "X:1:23: `server.port` must be at most 65535"),
            (r#"{ "agent": { "a": { "steps": 0 } } }"#, "X:1:30: `agent.a.steps` must be at least 1"),
            (
                r#"{ "agent": { "a": { "steps": 5000000000 } } }"#,
                "X:1:30: `agent.a.steps` must be at most 4294967295",
            ),
            (r#"{ "budget": { "cost": { "turn": 0 } } }"#, "X:1:33: `budget.cost.turn` must be more than 0"),
            (r#"{ "command": { "a b": {} } }"#, r#"X:1:23: `command["a b"]` needs `template`"#),
            (r#"{ "instructions": ["a", 2] }"#, "X:1:25: `instructions[1]` must be text, not a number"),
            (r#"{ "plugin": [["a"]] }"#, "X:1:14: `plugin[0]` must have 2 elements, not 1"),
            (r#"{ "plugin": [1] }"#, "X:1:14: `plugin[0]` must be text, or a list, not a number"),
            (
                r#"{ "permission": { "bash": { "rm *": "no" } } }"#,
                r#"X:1:37: `permission.bash["rm *"]` must be one of allow, deny, ask"#,
            ),
            (
                r#"{ "permission": 1 }"#,
                "X:1:17: `permission` must be one of allow, deny, ask, or a map, not a number",
            ),
            (r#"{ "mcp": { "a": { "type": "local" } } }"#, "X:1:17: `mcp.a` needs `command`"),
            (
                r#"{ "mcp": { "a": { "type": "lokal", "command": [] } } }"#,
                "X:1:27: `mcp.a.type` must be one of local, remote",
            ),
            (
                r#"{ "provider": { "a": { "options": { "timeout": true } } } }"#,
                "X:1:48: `provider.a.options.timeout` must be `false`",
            ),
            (
                r#"{ "agent": { "a": { "color": "red" } } }"#,
                "X:1:30: `agent.a.color` must be one of \
                primary, secondary, accent, success, warning, error, info",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(only(text), expected, "{text}");
        }
    }

    #[test]
    fn an_unknown_key_deeper_down_is_only_odd() {
        let text = r#"{ "compaction": { "autp": true }, "mcp": { "a": { "enabled": true, "x": 1 } } }"#;
        assert_eq!(
            problems(text),
            [
                "odd: X:1:19: `compaction.autp` is not a known key; did you mean `auto`?",
                "odd: X:1:68: `mcp.a.x` is not a known key",
            ]
        );
    }

    #[test]
    fn allowed_values_are_listed() {
        let text = r#"{ "share": 1 }"#;
        let node = document::parse(text, &|_| Position { line: 1, column: 1 }).unwrap().unwrap();
        let findings = check(&node, &CONFIGURATION, &Source::Merged);
        assert_eq!(findings.wrong[0].allowed, ["manual", "auto", "disabled"]);
        assert_eq!(findings.wrong[0].key, "share");
    }

    #[test]
    fn all_errors_are_reported_at_once() {
        assert_eq!(problems(r#"{ "a": 1, "model": 1, "share": 1, "mcp": [] }"#).len(), 4);
    }
}
