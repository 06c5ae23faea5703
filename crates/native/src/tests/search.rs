//! Searches, and files that they must not reveal.

use protocol::request::{Action, Rule};
use protocol::{EndReason, ToolState};
use serde_json::json;

use super::harness::{Harness, Responder};
use super::tools::{calling, output};
use crate::{Options, built_in};

/// Makes calls in a project with a few files and returns their states.
async fn searched(
    calls: &[(&str, serde_json::Value)],
    rules: &[Rule],
) -> (Harness, EndReason, Vec<ToolState>) {
    let options = Options { agents: built_in(rules), ..Options::default() };
    let mut harness = Harness::with_scenarios(calling(calls), options).await;
    let top = harness.project.path();
    std::fs::create_dir(top.join("src")).unwrap();
    std::fs::write(top.join("src/main.rs"), "fn main() {\n    needle();\n}\n").unwrap();
    std::fs::write(top.join(".env"), "KEY=needle\n").unwrap();
    std::fs::write(top.join(".gitignore"), "target\n").unwrap();
    std::fs::create_dir(top.join("target")).unwrap();
    std::fs::write(top.join("target/built.rs"), "needle\n").unwrap();
    let session = harness.turn("calls", Responder::Reject).await;
    let (end, tools) = (harness.end(&session), harness.tools(&session).await);
    (harness, end, tools)
}

#[tokio::test]
async fn files_and_lines_are_found_and_shown_in_opencodes_format() {
    let calls = [
        ("glob", json!({ "pattern": "*.rs" })),
        ("glob", json!({ "pattern": "*.py", "path": "src" })),
        ("grep", json!({ "pattern": "need[l]e", "include": "*.rs" })),
        ("grep", json!({ "pattern": "nothing like this", "include": "*.rs" })),
        ("grep", json!({ "pattern": "(" })),
    ];
    let (harness, end, tools) = searched(&calls, &[]).await;
    assert_eq!(end, EndReason::Completed);
    let top = harness.project.path().canonicalize().unwrap();
    let main = top.join("src/main.rs");
    let main = main.display();
    assert_eq!(output(&tools[0]), main.to_string());
    assert_eq!(output(&tools[1]), "No files found");
    assert_eq!(output(&tools[2]), format!("Found 1 matches\n\n{main}:\n  Line 2:     needle();"));
    assert_eq!(output(&tools[3]), "No matches found");
    assert!(output(&tools[4]).starts_with("the pattern cannot be understood: "), "{}", output(&tools[4]));
    let ToolState::Completed(glob) = &tools[1] else { panic!("{:?}", tools[1]) };
    assert_eq!(
        (glob.title.as_str(), &glob.metadata["count"], &glob.metadata["truncated"]),
        ("src", &json!(0), &json!(false))
    );
    let ToolState::Completed(grep) = &tools[2] else { panic!("{:?}", tools[2]) };
    assert_eq!((grep.title.as_str(), &grep.metadata["matches"]), ("need[l]e", &json!(1)));
}

#[tokio::test]
async fn files_that_may_not_be_read_are_not_searched() {
    let calls =
        [("grep", json!({ "pattern": "needle" })), ("grep", json!({ "pattern": "needle", "path": ".env" }))];
    let (_, _, tools) = searched(&calls, &[]).await;
    assert!(!output(&tools[0]).contains("KEY"), "{}", output(&tools[0]));
    assert!(output(&tools[0]).ends_with("(1 files need permission to be read and were not searched.)"));
    assert!(output(&tools[1]).starts_with("No matches found"), "{}", output(&tools[1]));
    let (_, _, tools) = searched(&calls, &[Rule::new("read", "*.env", Action::Allow)]).await;
    assert!(output(&tools[0]).contains("KEY=needle"), "{}", output(&tools[0]));
}

#[tokio::test]
async fn searches_ask_like_every_other_tool() {
    for name in ["glob", "grep"] {
        let call = [(name, json!({ "pattern": "x" }))];
        let (harness, end, _) = searched(&call, &[Rule::new(name, "*", Action::Ask)]).await;
        assert_eq!(end, EndReason::Blocked, "{name}");
        let asked = format!("permission.asked({name} [\"x\"])");
        assert!(harness.story(&session_of(&harness)).contains(&asked), "{name}");
        let outside = [(name, json!({ "pattern": "x", "path": "/etc" }))];
        let (harness, end, _) = searched(&outside, &[]).await;
        assert_eq!(end, EndReason::Blocked, "{name}");
        assert!(
            harness
                .story(&session_of(&harness))
                .contains("permission.asked(external_directory [\"/etc/*\"])")
        );
    }
}

fn session_of(harness: &Harness) -> protocol::SessionId {
    harness.seen.iter().find_map(|event| event.body.session_id()).unwrap().clone()
}
