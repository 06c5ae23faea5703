//! Configuration files and their effects.

use std::fs;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::Harness;

/// Returns the fields of the log's lines with this message.
fn logged(harness: &Harness, message: &str) -> Vec<Value> {
    let log = fs::read_to_string(harness.data().join("log/baton.log")).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["fields"].take());
    lines.filter(|fields| fields["message"] == message).collect()
}

#[tokio::test]
async fn the_log_has_one_line_for_each_turn_and_no_content() {
    let harness = Harness::new();
    let ended = harness.run_with_data(&["run", "a private sentence", "-m", "demo/simple"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let turns = logged(&harness, "turn ended");
    let [turn] = &turns[..] else { panic!("{turns:?}") };
    assert_eq!((&turn["model"], &turn["end"]), (&json!("demo/simple"), &json!("completed")));
    assert!(turn["session"].as_str().is_some_and(|id| id.starts_with("ses_")), "{turn}");
    assert!(turn["tokens"].as_u64() > Some(0) && turn["seconds"].is_f64() && turn["cost"].is_f64(), "{turn}");
    let log = fs::read_to_string(harness.data().join("log/baton.log")).unwrap();
    assert!(!log.contains("private sentence") && !log.contains("All is well"), "{log}");
}

#[tokio::test]
async fn the_log_has_one_line_for_each_refused_call() {
    let harness = Harness::new();
    let config = json!({ "permission": { "bash": { "touch *": "deny" } } });
    fs::write(harness.project().join("opencode.json"), config.to_string()).unwrap();
    harness.run_with_data(&["run", "hi", "-m", "demo/permission"]).await;
    let refused = logged(&harness, "a rule refused a tool call");
    let [refused] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!((&refused["tool"], &refused["rule"]), (&json!("bash"), &json!("bash touch *")));
}

#[tokio::test]
async fn unknown_keys_are_warnings_that_clients_can_list() {
    let harness = Harness::new();
    fs::write(harness.project().join("opencode.json"), "{ \"modle\": \"demo/simple\" }").unwrap();
    let server = harness.serve().await;
    let warnings = server.calls.get("/config/diagnostics").await.unwrap();
    let [warning] = warnings.as_array().unwrap().as_slice() else { panic!("{warnings}") };
    assert_eq!(
        (&warning["kind"], &warning["key"], &warning["line"]),
        (&json!("config"), &json!("modle"), &json!(1))
    );
    assert!(warning["message"].as_str().unwrap().ends_with("did you mean `model`?"), "{warning}");
    server.stop().await;
}

#[tokio::test]
async fn serve_prints_the_warnings_about_its_directory() {
    let harness = Harness::new();
    harness.trust();
    let config = r#"{ "modle": "demo/simple", "instructions": ["{env:BATON_TEST_UNSET}"] }"#;
    fs::write(harness.project().join("opencode.json"), config).unwrap();
    let server = harness.serve().await;
    server.signal(Signal::TERM);
    let (status, said, _) = server.ended().await;
    assert!(status.success(), "{status}: {said}");
    let warnings: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("warning: ")).collect();
    let [unknown, unset] = &warnings[..] else { panic!("{said}") };
    assert!(unknown.contains("opencode.json:1:") && unknown.contains("did you mean `model`?"), "{unknown}");
    assert!(unset.contains("BATON_TEST_UNSET is not set"), "{unset}");
}

#[tokio::test]
async fn every_mistake_in_a_configuration_is_reported_with_file_and_line() {
    let harness = Harness::new();
    let file = harness.project().join("opencode.json");
    fs::write(&file, "{\n  \"model\": 1,\n  \"share\": \"sometimes\"\n}\n").unwrap();
    for args in [&["run", "hi"][..], &["serve", "--port", "0"]] {
        let ended = harness.run_with_data(args).await;
        assert_eq!(ended.code, Some(2), "{ended:?}");
        for (place, key) in [("2:12", "`model`"), ("3:12", "`share` must be one of")] {
            let begin = format!("{}:{place}:", file.display());
            let told = ended.stderr.lines().any(|line| line.starts_with(&begin) && line.contains(key));
            assert!(told, "{begin}: {}", ended.stderr);
        }
    }
}

#[tokio::test]
async fn the_configuration_of_the_directory_chooses_the_model() {
    let harness = Harness::new();
    fs::write(harness.project().join("opencode.jsonc"), "{ /* small */ \"model\": \"demo/simple\" }")
        .unwrap();
    let ended = harness.run_with_data(&["run", "hi"]).await;
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 1), "{ended:?}");
    assert!(ended.stdout.starts_with("Hello from the demo model."), "{ended:?}");
}
