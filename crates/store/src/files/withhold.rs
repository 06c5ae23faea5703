//! Splits a project's configuration into the parts that count without trust and those that do not.
//!
//! A part needs trust if it runs a program, calls an address, reads a variable or a file outside of the project, or
//! decides where a key of the user is sent. Such a part is removed as a whole: half an MCP server, or a provider
//! with the user's key and the project's address, would be worse than none. Rules that allow something without
//! asking need trust, too: with them, a project's text could make a model run any program.

pub(super) mod rules;

use std::{collections::BTreeSet, path::Path};

use protocol::{config::Config, trust::WithheldKind};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    document::{Kind, Node},
    guard::TrustPolicy,
    schema::joined,
    substitute::MARK,
};

/// The beginning of a shell line in the template of a command.
const SHELL_LINE: &str = "!`";

/// The beginning of a variable in the address of a provider.
const VARIABLE: &str = "${";

/// Keys of a provider that determine neither its address nor its key.
const PROVIDER: [&str; 5] = ["name", "whitelist", "blacklist", "models", "options"];
const PROVIDER_OPTIONS: [&str; 4] = ["setCacheKey", "timeout", "headerTimeout", "chunkTimeout"];
const MODEL: [&str; 16] = [
    "id",
    "name",
    "family",
    "release_date",
    "attachment",
    "reasoning",
    "temperature",
    "tool_call",
    "interleaved",
    "cost",
    "limit",
    "modalities",
    "experimental",
    "status",
    "options",
    "variants",
];

/// Keys with which a provider gets a key of the user, whatever the provider is.
const BORROWED_KEY: [&str; 2] = ["env", "id"];

/// Keys of an external agent that start nothing and loosen nothing, unless `enabled` is true.
const AGENT: [&str; 3] = ["enabled", "models", "idle_seconds"];

/// Keys of a formatter or language server that start nothing while `disabled` is true.
const HELPER: [&str; 2] = ["disabled", "extensions"];

/// A part that does not count.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The key as a path.
    pub(super) key: String,
    pub(super) kind: WithheldKind,
}

/// Removes everything from a layer that needs trust. `held` are the keys of values with a placeholder, `own` the
/// providers that the user's own layers configure.
pub(super) fn withhold(
    layer: &mut Map<String, Value>,
    held: &[String],
    guard: &TrustPolicy,
    own: &BTreeSet<String>,
) -> Vec<Part> {
    // A provider without its key or a header would only fail in a confusing way.
    let is_whole = |id: &str| !held.iter().any(|key| is_within(key, &joined("provider", id)));
    let mut split = Split { layer, parts: Vec::new() };
    split.list("plugin", |entry| Some((WithheldKind::Plugin, name_of(entry))));
    split.list("instructions", |entry| {
        instruction(entry.as_str().unwrap_or_default()).map(|kind| (kind, name_of(entry)))
    });
    split.each("mcp", WithheldKind::Mcp, |_, entry| *entry == json!({ "enabled": false }));
    split.each("provider", WithheldKind::Provider, |id, entry| {
        is_whole(id) && is_provider_free(id, entry, guard, own)
    });
    split.each("command", WithheldKind::Command, |_, entry| !has_shell_lines(entry));
    for key in ["agents", "acp"] {
        split.each(key, WithheldKind::Agent, |_, entry| {
            has_only(entry, &AGENT) && entry.get("enabled") != Some(&Value::Bool(true))
        });
    }
    for key in ["formatter", "lsp"] {
        split.each(key, WithheldKind::Program, |_, entry| {
            has_only(entry, &HELPER) && entry.get("disabled") == Some(&Value::Bool(true))
        });
        split.whole(key, WithheldKind::Program, |value| *value == Value::Bool(true));
    }
    split.whole("shell", WithheldKind::Program, |_| true);
    // A commit runs the repository's hooks.
    split.whole("auto_commit", WithheldKind::Program, |value| *value == Value::Bool(true));
    split.whole("enterprise", WithheldKind::Address, |_| true);
    split.inner("skills", "urls", WithheldKind::Address);
    split.parts.extend(rules::tighten(split.layer, ""));
    for key in ["agent", "mode"] {
        let Some(Value::Object(agents)) = split.layer.get_mut(key) else { continue };
        for (name, agent) in agents {
            let Some(agent) = agent.as_object_mut() else { continue };
            split.parts.extend(rules::tighten(agent, &joined(key, name)));
        }
    }
    split.parts
}

/// Withholds the values of a document that contain a mark for a placeholder, and returns their keys. An item of a
/// list is withheld as a whole.
pub(super) fn placeholders(document: &mut Node) -> Vec<String> {
    let mut held = Vec::new();
    conceal(document, "", &mut held);
    held
}

fn conceal(node: &mut Node, key: &str, held: &mut Vec<String>) {
    match &mut node.kind {
        Kind::Text(text) if text.contains(MARK) => {
            node.kind = Kind::Withheld;
            held.push(key.to_owned());
        }
        Kind::List(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let before = held.len();
                conceal(item, &format!("{key}[{index}]"), held);
                if held.len() > before {
                    item.kind = Kind::Withheld;
                }
            }
        }
        Kind::Map(entries) => {
            for entry in entries.iter_mut() {
                if entry.name.contains(MARK) {
                    entry.name = entry.name.replace(MARK, "…");
                    entry.value.kind = Kind::Withheld;
                    held.push(joined(key, &entry.name));
                } else {
                    conceal(&mut entry.value, &joined(key, &entry.name), held);
                }
            }
        }
        _ => {}
    }
}

/// Removes what is invalid without a value that had a placeholder. `held` are the keys of such values.
pub(super) fn complete(layer: &mut Map<String, Value>, held: &[String]) {
    if let Some(Value::Object(commands)) = layer.get_mut("command") {
        commands.retain(|_, command| command.get("template").is_some());
    }
    if Config::deserialize(Value::Object(layer.clone())).is_err() {
        layer.retain(|key, _| !held.iter().any(|held| is_within(held, key)));
    }
}

/// Returns true if a key is the same as another one or below it.
pub(super) fn is_within(key: &str, above: &str) -> bool {
    key.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Returns true if the template of a command contains shell lines.
pub(super) fn has_shell_lines(command: &Value) -> bool {
    command.get("template").and_then(Value::as_str).is_some_and(|template| template.contains(SHELL_LINE))
}

struct Split<'a> {
    layer: &'a mut Map<String, Value>,
    parts: Vec<Part>,
}

impl Split<'_> {
    /// Removes the whole value of a key.
    fn whole(&mut self, key: &str, kind: WithheldKind, needs_trust: impl Fn(&Value) -> bool) {
        if self.layer.get(key).is_some_and(needs_trust) {
            self.layer.remove(key);
            self.parts.push(Part { key: key.to_owned(), kind });
        }
    }

    /// Removes one key of a map.
    fn inner(&mut self, key: &str, inner: &str, kind: WithheldKind) {
        let map = self.layer.get_mut(key).and_then(Value::as_object_mut);
        if map.and_then(|map| map.remove(inner)).is_some() {
            self.parts.push(Part { key: joined(key, inner), kind });
        }
    }

    /// Removes the entries of a map for which `counts` returns false.
    fn each(&mut self, key: &str, kind: WithheldKind, counts: impl Fn(&str, &Value) -> bool) {
        let Some(Value::Object(entries)) = self.layer.get_mut(key) else { return };
        entries.retain(|name, entry| {
            let counts = counts(name, entry);
            if !counts {
                self.parts.push(Part { key: joined(key, name), kind });
            }
            counts
        });
    }

    /// Removes the items of a list for which `needs_trust` returns a kind and a name.
    fn list(&mut self, key: &str, needs_trust: impl Fn(&Value) -> Option<(WithheldKind, String)>) {
        let Some(Value::Array(items)) = self.layer.get_mut(key) else { return };
        items.retain(|item| match needs_trust(item) {
            None => true,
            Some((kind, name)) => {
                self.parts.push(Part { key: format!("{key}: {name}"), kind });
                false
            }
        });
    }
}

/// The specifier of a plugin, or an entry of `instructions`, without the parts of an address that may contain a
/// key.
fn name_of(entry: &Value) -> String {
    let spec = match entry {
        Value::Array(pair) => pair.first().and_then(Value::as_str),
        other => other.as_str(),
    };
    spec.unwrap_or_default().split(['?', '#']).next().unwrap_or_default().to_owned()
}

/// The kind of trust that an entry of `instructions` needs, if any.
fn instruction(written: &str) -> Option<WithheldKind> {
    if written.contains("://") {
        return Some(WithheldKind::Address);
    }
    let path = Path::new(written);
    let leaves = path.is_absolute() || written.starts_with('~') || path.iter().any(|step| step == "..");
    leaves.then_some(WithheldKind::File)
}

/// Returns true if a provider's entry cannot send a key of the user to an address of the project.
fn is_provider_free(id: &str, entry: &Value, guard: &TrustPolicy, own: &BTreeSet<String>) -> bool {
    is_description(entry) || (!is_users(id, entry, guard, own) && !borrows(entry))
}

/// Returns true if an entry changes neither the address nor the key of a provider.
fn is_description(entry: &Value) -> bool {
    let models = entry.get("models").and_then(Value::as_object);
    has_only(entry, &PROVIDER)
        && entry.get("options").is_none_or(|options| has_only(options, &PROVIDER_OPTIONS))
        && models.is_none_or(|models| models.values().all(|model| has_only(model, &MODEL)))
}

/// Returns true if a provider may get a key of the user: one that is configured, logged in to or in the
/// environment. A key in the entry itself comes before one in the environment.
fn is_users(id: &str, entry: &Value, guard: &TrustPolicy, own: &BTreeSet<String>) -> bool {
    let key = entry.pointer("/options/apiKey").and_then(Value::as_str);
    let has_key = key.is_some_and(|key| !key.trim().is_empty());
    own.contains(id) || guard.logins.contains(id) || (guard.known.contains(id) && !has_key)
}

/// Returns true if an entry refers to a variable or to another provider's key.
fn borrows(entry: &Value) -> bool {
    BORROWED_KEY.iter().any(|key| entry.get(key).is_some()) || mentions(entry, VARIABLE)
}

fn mentions(value: &Value, word: &str) -> bool {
    match value {
        Value::String(text) => text.contains(word),
        Value::Array(items) => items.iter().any(|item| mentions(item, word)),
        Value::Object(fields) => fields.values().any(|field| mentions(field, word)),
        _ => false,
    }
}

fn has_only(value: &Value, keys: &[&str]) -> bool {
    value.as_object().is_some_and(|fields| fields.keys().all(|key| keys.contains(&key.as_str())))
}

#[cfg(test)]
mod tests;
