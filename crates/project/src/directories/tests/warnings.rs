//! Warnings about a directory's configuration.

use protocol::diagnostic::DiagnosticKind;
use serde_json::json;
use server::Instances;

use super::harness::Harness;

async fn warnings(harness: &Harness, directory: &str) -> Vec<(DiagnosticKind, String)> {
    let found = harness.directories.diagnostics(directory).await.unwrap();
    found.into_iter().map(|found| (found.kind, found.to_string())).collect()
}

#[tokio::test]
async fn every_kind_of_warning_is_listed() {
    let harness = Harness::with_variables(&[("OPENCODE_CONFIG", "/no/such/file.json")]);
    harness.configure_user(&json!({
        "username": "{env:NOT_SET}", "modle": "x", "default_agent": "nobody", "provider": { "odd": { "npm": 1 } },
        "mcp": { "db": { "type": "local", "command": ["/no/such/program"] } },
    }));
    let invalid = harness.find(&harness.project("broken", &json!({}))).await.unwrap_err();
    assert!(invalid.message.contains("`provider.odd.npm` must be text"), "errors are no warnings: {invalid}");

    harness.configure_user(&json!({
        "username": "{env:NOT_SET}", "modle": "x", "default_agent": "nobody",
        "mcp": { "db": { "type": "local", "command": ["/no/such/program"] } },
    }));
    let directory = harness.project("p", &json!({ "plugin": ["some-plugin"] }));
    let before = warnings(&harness, &directory).await;
    assert!(before.iter().all(|(kind, _)| *kind != DiagnosticKind::Mcp), "not started yet: {before:?}");
    harness.directories.begin(&directory).await;
    let instance = harness.instance(&directory).await;
    instance.mcp.as_ref().unwrap().connect("db").await.unwrap();

    let found = warnings(&harness, &directory).await;
    let has = |kind: DiagnosticKind, words: &[&str]| {
        let matches = |text: &String| words.iter().all(|word| text.contains(word));
        assert!(found.iter().any(|(of, text)| *of == kind && matches(text)), "{words:?} in {found:?}");
    };
    has(DiagnosticKind::Config, &["opencode.json:1:", "NOT_SET", "not set"]);
    has(DiagnosticKind::Config, &["OPENCODE_CONFIG: ", "/no/such/file.json"]);
    has(DiagnosticKind::Config, &["`modle` is not a known key", "`model`"]);
    has(DiagnosticKind::Config, &["`default_agent` names \"nobody\""]);
    has(DiagnosticKind::Trust, &["not trusted", "some-plugin"]);
    has(DiagnosticKind::Mcp, &["the MCP server `db` is not available", "/no/such/program"]);
    assert!(!format!("{found:?}").contains("Failed {"), "no debug form: {found:?}");
    harness.directories.close().await;
}
