//! The attack corpus: lines with which an agent would bypass the default rules.
//!
//! The heading of a section in `attacks.txt` defines the expected result of its lines:
//!
//! - `# asks: TITLE`: with the default rules each line asks.
//! - `# always: LINE`: each line asks, also after the user has answered `always` to LINE.
//! - `# confined: TITLE`: each line runs without a question, in the sealed sandbox and never outside of it.
//!
//! Control characters are written as their pictures (`␤` for a new line), other invisible ones as `<U+00A0>`.

use protocol::request::{Action, Rule};
use tempfile::TempDir;
use workspace::files::Root;

use super::super::{command_check, commands};
use super::verdict;
use crate::permission::{Permissions, Verdict, defaults};

const CORPUS: &str = include_str!("attacks.txt");

/// The fewest attacks that the corpus must have.
const FEWEST: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expected {
    Asks,
    AsksAfterAlways(String),
    Confined,
}

#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) line: String,
    pub(super) expected: Expected,
}

pub(super) fn corpus() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut section = None;
    for text in CORPUS.lines().filter(|text| !text.is_empty()) {
        if let Some(expected) = heading(text) {
            section = Some(expected);
        } else {
            let expected = section.clone().expect("the corpus begins with a heading");
            cases.push(Case { line: decoded(text), expected });
        }
    }
    cases
}

fn heading(text: &str) -> Option<Expected> {
    let (kind, rest) = text.strip_prefix("# ")?.split_once(": ")?;
    match kind {
        "asks" => Some(Expected::Asks),
        "always" => Some(Expected::AsksAfterAlways(decoded(rest))),
        "confined" => Some(Expected::Confined),
        _ => None,
    }
}

fn decoded(text: &str) -> String {
    let pictures = text.chars().map(|character| match character {
        '\u{2424}' => '\n',
        '\u{2421}' => '\u{7f}',
        '\u{2400}'..='\u{241f}' => char::from_u32(u32::from(character) - 0x2400).unwrap(),
        other => other,
    });
    let text: String = pictures.collect();
    let mut parts = text.split("<U+");
    let mut decoded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_once('>').expect("an invisible character is written as <U+00A0>");
        decoded.push(char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap());
        decoded.push_str(rest);
    }
    decoded
}

/// The default rules after the user has replied `always` to a line.
fn after_always(line: &str) -> Permissions {
    let approved = command_check(line, &commands(line)).always;
    let rules = approved.iter().map(|pattern| Rule::new("bash", pattern, Action::Allow));
    Permissions::new(defaults(), rules.collect())
}

#[test]
fn no_attack_runs_without_a_question() {
    let project = TempDir::new().unwrap();
    std::fs::create_dir_all(project.path().join("src")).unwrap();
    let root = Root::new(&project.path().canonicalize().unwrap()).unwrap();
    let cases = corpus();
    let mut wrong = Vec::new();
    for case in &cases {
        let found = match &case.expected {
            Expected::AsksAfterAlways(approved) => verdict(&after_always(approved), &root, &case.line),
            _ => verdict(&Permissions::new(defaults(), Vec::new()), &root, &case.line),
        };
        let expected = if case.expected == Expected::Confined { Verdict::Confined } else { Verdict::Ask };
        if found != expected {
            wrong.push(format!("{:?} must be {expected:?} and is {found:?}", case.line));
        }
    }
    assert!(wrong.is_empty(), "{} lines are judged wrongly:\n{}", wrong.len(), wrong.join("\n"));
    let attacks = cases.iter().filter(|case| case.expected != Expected::Confined).count();
    assert!(attacks >= FEWEST, "the corpus has only {attacks} attacks");
}
