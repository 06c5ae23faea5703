//! Recognises the configuration format of OpenCode 2, which Baton does not read.
//!
//! Such a file is refused as a whole. Without its `permissions`, an agent could do what the user has forbidden.

use super::{
    document::{Kind, Node},
    problem::{Position, Problem, Source},
};

/// Top-level keys of OpenCode 2 and the keys that OpenCode 1 and Baton read instead.
const KEYS: [(&str, &str); 7] = [
    ("providers", "provider"),
    ("permissions", "permission"),
    ("commands", "command"),
    ("plugins", "plugin"),
    ("snapshots", "snapshot"),
    ("media", "attachment"),
    ("update", "autoupdate"),
];

/// Keys of an agent in OpenCode 2. Baton has a key `agents` of its own, for external agents.
const AGENT: [&str; 4] = ["system", "permissions", "request", "disabled"];

/// Keys of an MCP server in OpenCode 1, which may have the name `servers`.
const SERVER: [&str; 4] = ["type", "command", "url", "enabled"];

/// Returns the problem if a document has the format of OpenCode 2.
pub(super) fn refusal(node: &Node, source: &Source) -> Option<Problem> {
    let found = found(node);
    let (at, key, _) = found.first()?;
    let list = |names: Vec<&str>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let written = list(found.iter().map(|(_, written, _)| *written).collect());
    let read = list(found.iter().map(|(_, _, read)| *read).collect());
    let message = format!(
        "the file has the format of OpenCode 2 ({written}), which Baton does not read yet; write the keys of OpenCode 1 \
         instead ({read}), which both versions of OpenCode read"
    );
    Some(Problem { key: (*key).to_owned(), ..Problem::about(source, Some(*at), message) })
}

/// Returns each key of OpenCode 2 with its position and the key to write instead.
fn found(node: &Node) -> Vec<(Position, &'static str, &'static str)> {
    let Kind::Map(entries) = &node.kind else { return Vec::new() };
    let known = |entry: &super::document::Entry| {
        let (written, read) = match entry.name.as_str() {
            "mcp" => ("mcp.servers", "mcp"),
            "agents" => ("agents", "agent"),
            "skills" => ("skills", "skills.paths"),
            name => *KEYS.iter().find(|(newer, _)| *newer == name)?,
        };
        let is_newer = match written {
            "mcp.servers" => {
                let servers = entry.value.entry("servers");
                servers.is_some_and(|servers| is_map(&servers.value) && has_none(&servers.value, &SERVER))
            }
            "agents" => children(&entry.value).any(|agent| !has_none(agent, &AGENT)),
            "skills" => matches!(entry.value.kind, Kind::List(_)),
            _ => true,
        };
        is_newer.then_some((entry.at, written, read))
    };
    entries.iter().filter_map(known).collect()
}

fn is_map(node: &Node) -> bool {
    matches!(node.kind, Kind::Map(_))
}

fn children(node: &Node) -> impl Iterator<Item = &Node> {
    let entries = match &node.kind {
        Kind::Map(entries) => entries.as_slice(),
        _ => &[],
    };
    entries.iter().map(|entry| &entry.value)
}

fn has_none(node: &Node, keys: &[&str]) -> bool {
    keys.iter().all(|key| node.entry(key).is_none())
}

#[cfg(test)]
mod tests {
    use super::{super::document, *};

    fn told(text: &str) -> Option<String> {
        let lines = document::Lines::of(text);
        let node = document::parse(text, &|offset| lines.position(offset)).unwrap().unwrap();
        refusal(&node, &Source::Variable("X")).map(|problem| problem.to_string())
    }

    #[test]
    fn one_sentence_names_the_keys_and_their_replacements() {
        assert_eq!(
            told(r#"{ "providers": {}, "permissions": [], "mcp": { "servers": { "db": {} } }, "model": "a/b" }"#)
                .unwrap(),
            "X:1:3: the file has the format of OpenCode 2 (`providers`, `permissions`, `mcp.servers`), which Baton does \
             not read yet; write the keys of OpenCode 1 instead (`provider`, `permission`, `mcp`), which both versions \
             of OpenCode read"
        );
        for text in [r#"{ "agents": { "build": { "system": "x" } } }"#, r#"{ "skills": ["a"] }"#] {
            assert!(told(text).is_some(), "{text}");
        }
    }

    #[test]
    fn the_first_format_is_not_mistaken_for_the_second() {
        for text in [
            r"{}",
            r#"{ "mcp": { "servers": { "type": "local", "command": ["x"] } } }"#,
            r#"{ "mcp": { "servers": { "enabled": false } } }"#,
            r#"{ "agents": { "codex": { "enabled": false } }, "skills": { "paths": [] } }"#,
        ] {
            assert_eq!(told(text), None, "{text}");
        }
    }
}
