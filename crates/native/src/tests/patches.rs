//! Patches, for the models that write them.

use protocol::message::ModelRef;
use protocol::prompt::PromptInput;
use protocol::request::{Action, Rule};
use protocol::{EndReason, EventBody, ToolState};
use serde_json::{Value, json};

use super::harness::{Harness, Responder};
use super::tools::{named, output};
use crate::{Options, built_in};

const PATCH: &str = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** Update File: README.md\n@@\n # Fixture\n \n\
    -A small project.\n+A patched project.\n*** Update File: old.txt\n*** Move to: moved.txt\n*** End Patch";

async fn patched(
    model: &str,
    patch: &str,
    rules: &[Rule],
    responder: Responder,
) -> (Harness, EndReason, Vec<ToolState>) {
    let calls: [(&str, Value); 1] = [("apply_patch", json!({ "patchText": patch }))];
    let options = Options { agents: built_in(rules), ..Options::default() };
    let mut harness = Harness::with_scenarios(named(model, &calls), options).await;
    std::fs::write(harness.project.path().join("old.txt"), "old\n").unwrap();
    let session = harness.session().await;
    let mut input = PromptInput::text("please");
    input.model = Some(ModelRef::new("demo", model));
    harness.sessions.submit(&session.id, input).await.unwrap();
    harness.until_idle(&session, responder).await;
    let (end, tools) = (harness.end(&session), harness.tools(&session).await);
    (harness, end, tools)
}

#[tokio::test]
async fn a_patch_changes_several_files_and_shows_its_changes() {
    let (harness, end, tools) = patched("gpt-5", PATCH, &[], Responder::Reject).await;
    assert_eq!(end, EndReason::Completed);
    let read = |name: &str| std::fs::read_to_string(harness.project.path().join(name)).ok();
    assert_eq!(read("new.txt").as_deref(), Some("hello\n"));
    assert_eq!(read("README.md").as_deref(), Some("# Fixture\n\nA patched project.\n\nEnd of file.\n"));
    assert_eq!((read("moved.txt").as_deref(), read("old.txt")), (Some("old\n"), None));
    assert_eq!(output(&tools[0]), "Patch applied:\nA new.txt\nM README.md\nR moved.txt");
    let ToolState::Completed(state) = &tools[0] else { panic!("{tools:?}") };
    let kinds: Vec<&Value> =
        state.metadata["files"].as_array().unwrap().iter().map(|file| &file["type"]).collect();
    assert_eq!(kinds, ["add", "update", "move"]);
    let edited = harness.seen.iter().filter(|event| matches!(event.body, EventBody::FileEdited(_))).count();
    assert_eq!(edited, 4);
}

#[tokio::test]
async fn the_user_is_asked_once_about_all_files() {
    let rules = [Rule::new("edit", "*", Action::Ask)];
    let (harness, end, _) = patched("gpt-5", PATCH, &rules, Responder::Reject).await;
    assert_eq!(end, EndReason::Blocked);
    assert!(!harness.project.path().join("new.txt").exists());
    let asked: Vec<&EventBody> = harness
        .seen
        .iter()
        .map(|event| &event.body)
        .filter(|body| matches!(body, EventBody::PermissionAsked(_)))
        .collect();
    let [EventBody::PermissionAsked(asked)] = asked[..] else { panic!("{asked:?}") };
    assert_eq!(asked.patterns, ["new.txt", "README.md", "old.txt", "moved.txt"]);
    assert!(asked.metadata["diff"].as_str().unwrap().contains("+A patched project."));
}

#[tokio::test]
async fn nothing_changes_if_one_file_is_not_permitted() {
    let rules = [Rule::new("edit", "*.md", Action::Deny)];
    let (harness, _, tools) = patched("gpt-5", PATCH, &rules, Responder::AllowOnce).await;
    assert!(output(&tools[0]).starts_with("The user has specified a rule"), "{}", output(&tools[0]));
    assert!(!harness.project.path().join("new.txt").exists());
}

#[tokio::test]
async fn places_outside_are_asked_about() {
    let patch = "*** Begin Patch\n*** Add File: /no/such/place\n+x\n*** End Patch";
    let (_, end, _) = patched("gpt-5", patch, &[], Responder::Reject).await;
    assert_eq!(end, EndReason::Blocked);
}

#[tokio::test]
async fn other_models_are_not_offered_patches() {
    let (_, _, tools) = patched("calls", PATCH, &[], Responder::AllowOnce).await;
    let told = output(&tools[0]);
    assert!(told.contains("unavailable tool 'apply_patch'") && told.contains("edit,"), "{told}");
    let calls: [(&str, Value); 1] = [("edit", json!({ "filePath": "a", "oldString": "", "newString": "x" }))];
    let mut harness = Harness::with_scenarios(named("gpt-5", &calls), Options::default()).await;
    let session = harness.turn("gpt-5", Responder::AllowOnce).await;
    let tools = harness.tools(&session).await;
    let told = output(&tools[0]);
    assert!(told.contains("unavailable tool 'edit'") && told.contains("apply_patch,"), "{told}");
}
