//! Changes of protected files are asked about, even where edits are allowed in general.

use std::fs;
use std::os::unix::fs::symlink;

use protocol::request::{Action, PermissionRequest, Rule};
use protocol::{EndReason, EventBody, Session};
use serde_json::{Value, json};

use super::harness::{Harness, Responder};
use super::tools::named;
use crate::{Options, built_in};

const LOOSE: &str = r#"{"permission":"allow"}"#;

fn write(path: &str) -> (&'static str, Value) {
    ("write", json!({ "filePath": path, "content": LOOSE }))
}

fn patch(text: &str) -> (&'static str, Value) {
    ("apply_patch", json!({ "patchText": format!("*** Begin Patch\n{text}\n*** End Patch") }))
}

/// An environment in which the user allows all edits.
async fn harness(model: &str, calls: &[(&str, Value)]) -> Harness {
    let agents = built_in(&[Rule::new("edit", "*", Action::Allow)]);
    Harness::with_scenarios(named(model, calls), Options { agents, ..Options::default() }).await
}

fn asked(harness: &Harness, session: &Session) -> Vec<PermissionRequest> {
    let asked = harness.seen.iter().filter_map(|event| match &event.body {
        EventBody::PermissionAsked(asked) if asked.session_id == session.id => Some(asked.clone()),
        _ => None,
    });
    asked.collect()
}

#[tokio::test(start_paused = true)]
async fn an_agent_changes_its_own_rules_only_with_permission() {
    let edit = json!({ "filePath": "README.md", "oldString": "Fixture", "newString": "Mine" });
    let mut harness =
        harness("calls", &[("edit", edit), write(".opencode/opencode.json"), write("later.txt")]).await;
    let session = harness.turn("calls", Responder::Reject).await;
    assert_eq!(harness.end(&session), EndReason::Blocked);
    let asked = asked(&harness, &session);
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!(
        (asked[0].permission.as_str(), asked[0].patterns.as_slice()),
        ("edit", [".opencode/opencode.json".to_owned()].as_slice())
    );
    assert_eq!(asked[0].always, [".opencode/opencode.json"]);
    assert_eq!(asked[0].metadata["protected"], true);
    assert!(!harness.project.path().join(".opencode").exists());
    assert!(fs::read_to_string(harness.project.path().join("README.md")).unwrap().contains("Mine"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_always_allows_the_same_protected_file_only() {
    let calls = ["baton.json", "baton.json", "opencode.json"].map(write);
    let mut harness = harness("calls", &calls).await;
    let session = harness.turn("calls", Responder::AllowAlways).await;
    let asked = asked(&harness, &session);
    let patterns: Vec<&String> = asked.iter().flat_map(|it| &it.patterns).collect();
    assert_eq!(patterns, ["baton.json", "opencode.json"]);
    assert_eq!(fs::read_to_string(harness.project.path().join("baton.json")).unwrap(), LOOSE);
}

#[tokio::test(start_paused = true)]
async fn a_link_to_a_protected_directory_is_asked_about() {
    let mut harness = harness("calls", &[write("docs/hooks/pre-commit")]).await;
    fs::create_dir_all(harness.project.path().join(".git/hooks")).unwrap();
    symlink(".git", harness.project.path().join("docs")).unwrap();
    let session = harness.turn("calls", Responder::Reject).await;
    assert_eq!(asked(&harness, &session)[0].patterns, [".git/hooks/pre-commit"]);
    assert!(!harness.project.path().join(".git/hooks/pre-commit").exists());
}

#[tokio::test(start_paused = true)]
async fn a_patch_is_asked_about_for_the_place_it_moves_a_file_to() {
    let moves = "*** Update File: README.md\n*** Move to: sub/.git\n@@\n-# Fixture\n+# Mine";
    let mut harness = harness("gpt-5", &[patch(moves)]).await;
    let session = harness.turn("gpt-5", Responder::Reject).await;
    assert_eq!(asked(&harness, &session)[0].patterns, ["README.md", "sub/.git"]);
    assert!(
        harness.project.path().join("README.md").exists() && !harness.project.path().join("sub").exists()
    );
}
