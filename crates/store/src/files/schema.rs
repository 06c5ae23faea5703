//! Checks a document against the JSON schema of a configuration, and reports every error in it.
//!
//! The schema comes from the types in [`protocol::config`], so there is one description of what is allowed. This
//! module supports only the keywords that those types produce; it is not a general validator.

#[cfg(test)]
mod tests;

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
}

/// A configuration. The three extra keys belong to OpenCode's terminal interface, which removes them from such
/// files, so a file may still contain them.
pub(super) const CONFIGURATION: Expected = Expected {
    definition: None,
    subject: "the configuration",
    besides: &["theme", "keybinds", "tui"],
    supplied: &[],
};

/// The value of `permission`.
pub(super) const PERMISSION: Expected =
    Expected { definition: Some("PermissionConfig"), subject: "the permission", besides: &[], supplied: &[] };

/// The front matter of an agent.
pub(super) const AGENT: Expected = Expected {
    definition: Some("AgentConfig"),
    subject: "the front matter",
    besides: &["name"],
    supplied: &[],
};

/// The front matter of a command.
pub(super) const COMMAND: Expected = Expected {
    definition: Some("CommandConfig"),
    subject: "the front matter",
    besides: &["name"],
    supplied: &["template"],
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
        list.push(finding.into_problem(source, expected.subject));
    }
    findings
}

/// Returns a message if a configuration has no such key at its top level.
pub(super) fn unknown_key(name: &str) -> Option<String> {
    let known = CONFIG.get("properties").and_then(Value::as_object)?;
    let is_known = known.contains_key(name) || CONFIGURATION.besides.contains(&name);
    let keys: Vec<String> = known.keys().cloned().collect();
    (!is_known).then(|| format!("`{name}` is not a known key{}", hint(name, &keys)))
}

#[derive(Debug, Clone)]
struct Finding {
    at: Position,
    key: String,
    what: Expectation,
    wrong: bool,
}

#[derive(Debug, Clone)]
enum Expectation {
    /// The value must be as described. The allowed words are listed.
    Choice { expected: String, allowed: Vec<String> },
    /// The key must be one of these.
    Unknown(Vec<String>),
    /// Another error, as the rest of a sentence.
    Other(String),
}

impl Finding {
    fn into_problem(self, source: &Source, subject: &str) -> Problem {
        let subject = if self.key.is_empty() { subject.to_owned() } else { format!("`{}`", self.key) };
        let (message, allowed) = match self.what {
            Expectation::Choice { expected, allowed } => (format!("{subject} must be {expected}"), allowed),
            Expectation::Unknown(allowed) => {
                let name = self.key.rsplit('.').next().unwrap_or_default();
                (format!("{subject} is not a known key{}", hint(name, &allowed)), allowed)
            }
            Expectation::Other(message) => (format!("{subject} {message}"), Vec::new()),
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
                let allowed: Vec<String> = choices.into_iter().map(bare).collect();
                out.push(finding(Expectation::Choice { expected: one_of(&allowed), allowed }));
            }
            return;
        }
        if let Some(branches) = schema.get("anyOf").and_then(Value::as_array) {
            return self.any(schema, branches, node, key, out);
        }
        if !self.fits(schema, node) {
            let expected = keyed(schema).unwrap_or_else(|| self.described(schema));
            return out
                .push(finding(Expectation::Other(format!("must be {expected}, not {}", called(node)))));
        }
        match &node.kind {
            Kind::Map(entries) => self.map(schema, node, entries, key, out),
            Kind::List(items) => self.list(schema, node, items, key, out),
            Kind::Number(number) => {
                out.extend(bound(schema, number).map(|message| finding(Expectation::Other(message))));
            }
            Kind::Text(text) if is_color(schema) => {
                let digits = text.strip_prefix('#').unwrap_or_default();
                if digits.len() != 6 || !digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
                    out.push(finding(Expectation::Other(format!("must be {COLOR}"))));
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
                    out.push(Finding {
                        at: entry.at,
                        key: inner,
                        what: Expectation::Unknown(known),
                        wrong: false,
                    });
                }
                Some(other) if other.is_object() => self.node(other, &entry.value, &inner, out),
                _ => {}
            }
        }
        for required in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            let Some(name) = required.as_str() else { continue };
            let supplied = is_root && self.expected.supplied.contains(&name);
            if !supplied && node.entry(name).is_none() {
                let what = Expectation::Other(format!("needs `{name}`"));
                out.push(Finding { at: node.at, key: key.to_owned(), what, wrong: true });
            }
        }
    }

    fn list(&self, schema: &Value, node: &Node, items: &[Node], key: &str, out: &mut Vec<Finding>) {
        let first = schema.get("prefixItems").and_then(Value::as_array);
        if let Some(first) = first
            && first.len() != items.len()
        {
            let what = Expectation::Other(format!("must have {} elements, not {}", first.len(), items.len()));
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
        let branches = match self.by_tag(branches, node, key) {
            Ok(branches) => branches,
            Err(finding) => return out.push(finding),
        };
        let candidates = branches.into_iter().filter(|branch| self.fits(branch, node));
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
            out.push(Finding {
                at: node.at,
                key: key.to_owned(),
                what: Expectation::Other(message),
                wrong: true,
            });
            return;
        };
        // The allowed values at a key are those of all forms.
        for other in results.flatten() {
            let same = best.iter_mut().find(|finding| finding.key == other.key);
            if let (
                Some(Finding { what: Expectation::Choice { expected, allowed }, .. }),
                Expectation::Choice { allowed: more, .. },
            ) = (same, other.what)
            {
                allowed.extend(more.into_iter().filter(|more| !allowed.contains(more)).collect::<Vec<_>>());
                *expected = one_of(allowed);
            }
        }
        for finding in best.iter_mut().filter(|finding| finding.key == key) {
            if let Expectation::Choice { expected, .. } = &mut finding.what {
                *expected = self.described(schema);
            }
        }
        out.append(&mut best);
    }

    /// Selects the forms of a map that its `type` leaves, or reports that the `type` is missing or wrong. Forms without a
    /// `type` are left if the map has none, and no key that only the other forms have.
    fn by_tag<'s>(
        &'s self,
        branches: &'s [Value],
        node: &Node,
        key: &str,
    ) -> Result<Vec<&'s Value>, Finding> {
        let (tagged, plain): (Vec<&Value>, Vec<&Value>) =
            branches.iter().partition(|branch| self.tags(branch).is_some());
        let Kind::Map(entries) = &node.kind else { return Ok(branches.iter().collect()) };
        if tagged.is_empty() {
            return Ok(plain);
        }
        let allowed = || tagged.iter().filter_map(|branch| self.tags(branch)).flatten().map(bare).collect();
        if let Some(tag) = node.entry(TAG) {
            let is_meant = |branch: &&Value| {
                self.tags(branch).is_some_and(|tags| tags.iter().any(|choice| is(&tag.value, choice)))
            };
            let meant: Vec<&Value> = tagged.iter().copied().filter(is_meant).collect();
            let allowed: Vec<String> = allowed();
            let what = Expectation::Choice { expected: one_of(&allowed), allowed };
            let finding = Finding { at: tag.value.at, key: joined(key, TAG), what, wrong: true };
            return if meant.is_empty() { Err(finding) } else { Ok(meant) };
        }
        let only_tagged = |entry: &Entry| {
            let has = |branch: &&Value| self.property(branch, &entry.name).is_some();
            tagged.iter().any(has) && !plain.iter().any(has)
        };
        if plain.is_empty() || entries.is_empty() || entries.iter().any(only_tagged) {
            let what = Expectation::Other(format!("needs `{TAG}`, which is {}", one_of(&allowed())));
            return Err(Finding { at: node.at, key: key.to_owned(), what, wrong: true });
        }
        Ok(plain)
    }

    fn property<'s>(&'s self, schema: &'s Value, name: &str) -> Option<&'s Value> {
        self.resolve(schema).get("properties").and_then(|properties| properties.get(name))
    }

    /// The values of the key that tells the forms of a map apart.
    fn tags<'s>(&'s self, schema: &'s Value) -> Option<Vec<&'s Value>> {
        choices(self.resolve(self.property(schema, TAG)?))
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
            Some("string") if is_color(schema) => COLOR,
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

/// The key whose value tells the forms of a map apart.
const TAG: &str = "type";
/// A message lists the keys of a map up to this number.
const LISTED_KEYS: usize = 8;

const COLOR: &str = "a colour like `#ff5733`";
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

fn is_color(schema: &Value) -> bool {
    schema.get("format").is_some_and(|format| format == "hex-color")
}

/// A description of a map that names its keys, if they are few.
fn keyed(schema: &Value) -> Option<String> {
    let properties = schema.get("properties")?.as_object()?;
    let keys: Vec<String> = properties.keys().map(|key| format!("`{key}`")).collect();
    (2..=LISTED_KEYS).contains(&keys.len()).then(|| format!("a map with the keys {}", keys.join(", ")))
}

/// The known key that an unknown one resembles, or all known keys if they are few.
fn hint(name: &str, known: &[String]) -> String {
    match closest(name, known) {
        Some(known) => format!("; did you mean `{known}`?"),
        None if (2..=LISTED_KEYS).contains(&known.len()) => format!("; the keys are {}", known.join(", ")),
        None => String::new(),
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
