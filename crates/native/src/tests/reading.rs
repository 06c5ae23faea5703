//! Further results of reading: pictures, instructions beside a file, and skills.

use std::fs;

use protocol::{EndReason, PartBody, ToolState};
use serde_json::{Value, json};

use super::harness::{Harness, Responder};
use super::tools::{calling, output};
use crate::{Options, Skill, ToolOptions};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and so on";

/// Makes calls in a project with these files and returns their states.
async fn run_calls(files: &[(&str, &[u8])], calls: &[(&str, Value)]) -> (Harness, Vec<ToolState>) {
    let mut harness = Harness::with_scenarios(calling(calls), Options::default()).await;
    for (name, content) in files {
        let path = harness.project.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let session = harness.turn("calls", Responder::Reject).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let tools = harness.tools(&session).await;
    (harness, tools)
}

fn loaded(state: &ToolState) -> Vec<&str> {
    let ToolState::Completed(state) = state else { panic!("{state:?}") };
    state.metadata["loaded"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_picture_is_attached() {
    let files: [(&str, &[u8]); 2] = [("a.png", PNG), ("b.bin", b"\x7fELF\0\0\0")];
    let calls = [("read", json!({ "filePath": "a.png" })), ("read", json!({ "filePath": "b.bin" }))];
    let (_, tools) = run_calls(&files, &calls).await;
    let ToolState::Completed(state) = &tools[0] else { panic!("{tools:?}") };
    assert_eq!((state.output.as_str(), state.title.as_str()), ("Image read successfully", "a.png"));
    let [attachment] = state.attachments.as_deref().unwrap() else { panic!("{state:?}") };
    let PartBody::File(file) = &attachment.body else { panic!("{attachment:?}") };
    assert_eq!((file.mime.as_str(), file.filename.as_deref()), ("image/png", Some("a.png")));
    assert_eq!(file.url, "data:image/png;base64,iVBORw0KGgogYW5kIHNvIG9u");
    assert!(output(&tools[1]).starts_with("Cannot read binary file: "), "{}", output(&tools[1]));
}

#[tokio::test(start_paused = true)]
async fn instructions_beside_a_file_come_with_it_once() {
    let files: [(&str, &[u8]); 4] = [
        ("AGENTS.md", b"at the top\n"),
        ("src/AGENTS.md", b"Be kind.\n"),
        ("src/a.rs", b"a\n"),
        ("src/deep/b.rs", b"b\n"),
    ];
    let calls = [
        ("read", json!({ "filePath": "README.md" })),
        ("read", json!({ "filePath": "src/deep/b.rs" })),
        ("read", json!({ "filePath": "src/a.rs" })),
    ];
    let (harness, tools) = run_calls(&files, &calls).await;
    let path = harness.project.path().canonicalize().unwrap().join("src/AGENTS.md");
    assert_eq!(loaded(&tools[0]), Vec::<&str>::new());
    assert_eq!(loaded(&tools[1]), [path.to_str().unwrap()]);
    let reminder =
        format!("\n\n<system-reminder>\nInstructions from: {}\nBe kind.\n</system-reminder>", path.display());
    assert!(output(&tools[1]).ends_with(&reminder), "{}", output(&tools[1]));
    assert_eq!(loaded(&tools[2]), Vec::<&str>::new());
    assert!(!output(&tools[2]).contains("system-reminder"));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_nearly_right_is_corrected() {
    let (harness, tools) = run_calls(&[], &[("read", json!({ "filePath": "readme.txt" }))]).await;
    let meant = harness.project.path().canonicalize().unwrap().join("README.md");
    let expected = format!("Did you mean one of these?\n{}", meant.display());
    assert!(output(&tools[0]).ends_with(&expected), "{}", output(&tools[0]));
}

#[tokio::test(start_paused = true)]
async fn a_skill_is_loaded_and_its_files_can_be_read() {
    let elsewhere = tempfile::TempDir::new().unwrap();
    let path = elsewhere.path().canonicalize().unwrap().join("SKILL.md");
    fs::write(&path, "---\nname: forms\ndescription: d\n---\nFill them in.\n").unwrap();
    let script = path.with_file_name("fill.sh");
    fs::write(&script, "echo\n").unwrap();
    let skill = Skill { name: "forms".to_owned(), description: "Filling in forms.".to_owned(), path };
    let options = Options {
        tools: ToolOptions { skills: vec![skill], ..ToolOptions::default() },
        ..Options::default()
    };
    let calls = [
        ("skill", json!({ "name": "forms" })),
        ("read", json!({ "filePath": script.to_str().unwrap() })),
        ("skill", json!({ "name": "shapes" })),
        ("write", json!({ "filePath": script.to_str().unwrap(), "content": "" })),
    ];
    let mut harness = Harness::with_scenarios(calling(&calls), options).await;
    let session = harness.turn("calls", Responder::Reject).await;
    let tools = harness.tools(&session).await;
    assert!(output(&tools[0]).contains("Fill them in.") && output(&tools[0]).contains("fill.sh"));
    assert!(output(&tools[1]).contains("1: echo"), "{}", output(&tools[1]));
    assert!(
        output(&tools[2]).contains("there is no skill `shapes`; known skills: forms"),
        "{}",
        output(&tools[2])
    );
    // Reading there is allowed, writing is not.
    assert_eq!(harness.end(&session), EndReason::Blocked);
    assert_eq!(fs::read_to_string(&script).unwrap(), "echo\n");
}

#[tokio::test(start_paused = true)]
async fn without_skills_there_is_no_tool_for_them() {
    let (_, tools) = run_calls(&[], &[("skill", json!({ "name": "forms" }))]).await;
    assert!(output(&tools[0]).contains("unavailable tool 'skill'"), "{}", output(&tools[0]));
}
