//! Tool output that is too long for a model.

use std::fs;
use std::path::{Path, PathBuf};

use protocol::request::{Action, Rule};
use protocol::{EndReason, ToolState};
use serde_json::{Value, json};
use tempfile::TempDir;
use workspace::output::{Limits, OutputDirectory};

use super::harness::{Harness, Responder};
use super::tools::{calling, output};
use crate::{Options, Skill, ToolOptions, built_in};

/// Makes calls with small output limits and returns their states. `output_directory` stores the whole outputs.
async fn run_calls(output_directory: Option<&Path>, calls: &[(&str, Value)]) -> (Harness, Vec<ToolState>) {
    let tools = ToolOptions {
        output: Limits { lines: 20, bytes: 1000 },
        output_directory: output_directory.map(OutputDirectory::new),
        ..ToolOptions::default()
    };
    let agents = built_in(&[Rule::new("bash", "*", Action::Allow)]);
    let mut harness =
        Harness::with_scenarios(calling(calls), Options { agents, tools, ..Options::default() }).await;
    let session = harness.turn("calls", Responder::Reject).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let tools = harness.tools(&session).await;
    (harness, tools)
}

/// Returns the file with the whole output of a call.
fn kept(state: &ToolState) -> Option<PathBuf> {
    let ToolState::Completed(state) = state else { panic!("{state:?}") };
    state.metadata.get("outputPath").map(|path| PathBuf::from(path.as_str().unwrap()))
}

fn numbers(count: usize) -> String {
    (1..=count).map(|number| number.to_string() + "\n").collect()
}

#[tokio::test]
async fn a_command_shows_its_end_and_keeps_everything() {
    let directory = TempDir::new().unwrap();
    let output_directory = directory.path().canonicalize().unwrap();
    // The first fits in memory but not into the limits, the second exceeds both.
    for count in [100, 100_000] {
        let (_, tools) =
            run_calls(Some(&output_directory), &[("bash", json!({ "command": format!("seq {count}") }))])
                .await;
        let ToolState::Completed(state) = &tools[0] else { panic!("{tools:?}") };
        let path = kept(&tools[0]).unwrap();
        assert!(path.starts_with(&output_directory), "{path:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), numbers(count));
        assert_eq!(state.metadata["truncated"], true);
        let shown = &state.output;
        let opening =
            format!("...{} lines truncated...\n\nThe whole output is in {}", count - 19, path.display());
        assert!(shown.starts_with(&opening), "{shown}");
        let end: String = (count - 18..=count).map(|number| number.to_string() + "\n").collect();
        assert!(shown.ends_with(&format!("\n\n{end}")), "{shown}");
    }
}

#[tokio::test]
async fn stored_output_can_be_read_without_asking() {
    let directory = TempDir::new().unwrap();
    let output_directory = directory.path().canonicalize().unwrap();
    let path = OutputDirectory::new(&output_directory).keep("before", &numbers(5)).unwrap();
    let path = path.to_str().unwrap();
    let calls = [
        ("read", json!({ "filePath": path, "offset": 4 })),
        ("grep", json!({ "pattern": "^3$", "path": path })),
        ("bash", json!({ "command": format!("wc -l {path}") })),
    ];
    let (_, tools) = run_calls(Some(&output_directory), &calls).await;
    assert!(output(&tools[0]).contains("4: 4\n5: 5"), "{}", output(&tools[0]));
    assert!(output(&tools[1]).contains("Line 3: 3"), "{}", output(&tools[1]));
    assert!(output(&tools[2]).starts_with("5 "), "{}", output(&tools[2]));
}

#[tokio::test]
async fn without_an_output_store_the_rest_is_lost_and_the_model_is_informed() {
    let (_, tools) = run_calls(None, &[("bash", json!({ "command": "seq 1000" }))]).await;
    assert_eq!(kept(&tools[0]), None);
    assert!(output(&tools[0]).contains("The rest was not stored"), "{}", output(&tools[0]));
}

#[tokio::test]
async fn other_tools_show_their_beginning() {
    let directory = TempDir::new().unwrap();
    let output_directory = directory.path().canonicalize().unwrap();
    let path = output_directory.join("SKILL.md");
    fs::write(&path, numbers(100)).unwrap();
    let skill = Skill { name: "counting".to_owned(), description: String::new(), path };
    let tools = ToolOptions {
        output: Limits { lines: 20, bytes: 1000 },
        output_directory: Some(OutputDirectory::new(&output_directory)),
        skills: vec![skill],
        ..ToolOptions::default()
    };
    let options = Options { tools, ..Options::default() };
    let mut harness =
        Harness::with_scenarios(calling(&[("skill", json!({ "name": "counting" }))]), options).await;
    let session = harness.turn("calls", Responder::Reject).await;
    let tools = harness.tools(&session).await;
    let shown = output(&tools[0]);
    let expected = "<skill name=\"counting\">\n".to_owned() + numbers(19).trim_end();
    assert!(
        shown.starts_with(&(expected + "\n\n...82 lines truncated...\n\nThe whole output is in ")),
        "{shown}"
    );
    assert!(shown.contains("let a subagent read it"), "{shown}");
    assert!(fs::read_to_string(kept(&tools[0]).unwrap()).unwrap().ends_with("\n100\n</skill>"));
}
