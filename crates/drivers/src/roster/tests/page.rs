//! Generates the tables of docs/agents.md from the code.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::Value;

use crate::roster::known::{KNOWN, Kind};

use super::scenario;

/// The names of the kinds of agents on the page.
const NAMES: [(&str, Kind); 4] =
    [("Claude Code", Kind::Claude), ("Codex", Kind::Codex), ("OpenCode", Kind::OpenCode), ("ACP", Kind::Acp)];

/// The descriptions of the abilities.
const ABOUT: [(&str, &str); 15] = [
    ("queue", "prompts wait while the agent is busy"),
    ("steer", "a prompt can join the running turn"),
    ("abort", "a client can stop the agent"),
    ("resume", "conversations continue after a restart"),
    ("permissions", "asks for permissions"),
    ("questions", "asks questions"),
    ("todos", "keeps a todo list"),
    ("tokens", "reports token counts"),
    ("cost", "reports cost"),
    ("children", "subagents are child sessions"),
    ("retries", "reports retries of model calls"),
    ("attachments", "accepts files with a prompt"),
    ("snapshots", "its file changes appear as diffs and can be reverted"),
    ("budgets", "budgets end its turns"),
    ("continuation", "a turn continues while its todo list has open entries"),
];

#[test]
fn the_page_about_agents_matches_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/agents.md");
    let shown = std::fs::read_to_string(&path).unwrap();
    let page = replaced(&shown, "programs", &programs());
    let page = replaced(&page, "abilities", &abilities());
    let page = replaced(&page, "scenario", &scenario::table());
    #[expect(clippy::disallowed_methods, reason = "the variable with which a developer updates the page")]
    let update = std::env::var_os("UPDATE").is_some();
    if update {
        std::fs::write(&path, &page).unwrap();
    } else {
        assert_eq!(shown, page, "docs/agents.md is out of date: UPDATE=1");
    }
}

/// Replaces the table between two marks of a page.
fn replaced(page: &str, name: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (head, rest) = page.split_once(&begin).expect("the mark before the table");
    let (_, tail) = rest.split_once(&end).expect("the mark after the table");
    format!("{head}{begin}\n{table}\n{end}{tail}")
}

fn programs() -> String {
    let mut table = "| provider and agent | | program | models |\n|---|---|---|---|\n".to_owned();
    for known in KNOWN {
        let models: Vec<String> =
            ["default"].iter().chain(known.models).map(|model| format!("`{model}`")).collect();
        let more = if known.kind == Kind::OpenCode { ", any `provider/model`" } else { "" };
        let (id, name, command) = (known.id, known.name, known.command.join(" "));
        writeln!(table, "| `{id}` | {name} | `{command}` | {}{more} |", models.join(", ")).unwrap();
    }
    table
}

fn abilities() -> String {
    let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
    let mut table = format!("| | | {} |\n|---|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    let each: Vec<Value> =
        NAMES.iter().map(|(_, kind)| serde_json::to_value(kind.abilities()).unwrap()).collect();
    assert_eq!(each[0].as_object().unwrap().len(), ABOUT.len(), "an ability without a word about it");
    for (name, about) in ABOUT {
        let cells: Vec<&str> = each
            .iter()
            .map(|abilities| if abilities[name].as_bool().expect(name) { "yes" } else { "–" })
            .collect();
        writeln!(table, "| `{name}` | {about} | {} |", cells.join(" | ")).unwrap();
    }
    table
}
