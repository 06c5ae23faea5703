//! Automatic commits of a turn's changes, seen from outside.

use std::path::Path;

use crate::harness::{Harness, finish};

async fn git(harness: &Harness, args: &[&str]) -> String {
    let ended = finish(harness.command_of(Path::new("git"), args), "").await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.stdout
}

async fn repository(config: &str) -> Harness {
    let harness = Harness::new();
    harness.trust();
    std::fs::write(harness.project().join("baton.json"), config).unwrap();
    git(&harness, &["init", "-q", "-b", "main"]).await;
    git(&harness, &["config", "user.name", "Ada"]).await;
    git(&harness, &["config", "user.email", "ada@example.com"]).await;
    git(&harness, &["add", "."]).await;
    git(&harness, &["commit", "-q", "-m", "first"]).await;
    harness
}

async fn edit(harness: &Harness, prompt: &str) {
    let ended = harness.run_with_data(&["run", prompt, "--model", "demo/read_edit", "--yes"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[tokio::test]
async fn changes_of_a_turn_are_committed_when_the_program_ends() {
    let harness = repository(r#"{ "auto_commit": true }"#).await;
    std::fs::write(harness.project().join("mine.txt"), "mine\n").unwrap();
    git(&harness, &["add", "mine.txt"]).await;
    edit(&harness, "Add a line").await;
    let shown = git(&harness, &["show", "--name-only", "--format=%s", "HEAD"]).await;
    assert_eq!(shown, "Add a line\n\nREADME.md\n");
    let trailer =
        git(&harness, &["show", "--no-patch", "--format=%(trailers:key=Baton-Turn,valueonly)"]).await;
    assert!(trailer.starts_with("ses_") && trailer.contains("/msg_"), "{trailer}");
    assert_eq!(git(&harness, &["status", "--porcelain"]).await, "A  mine.txt\n");
    // A turn without changes makes no commit.
    let ended = harness.run_with_data(&["run", "hi", "--model", "demo/simple"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(git(&harness, &["rev-list", "--count", "HEAD"]).await, "2\n");
}

#[tokio::test]
async fn nothing_is_committed_by_default() {
    let harness = repository("{}").await;
    edit(&harness, "Add a line").await;
    assert_eq!(git(&harness, &["rev-list", "--count", "HEAD"]).await, "1\n");
    assert_eq!(git(&harness, &["status", "--porcelain"]).await, " M README.md\n");
}

#[tokio::test]
async fn a_turn_that_was_stopped_is_not_committed() {
    let harness = repository(r#"{ "auto_commit": true }"#).await;
    let server = harness.serve().await;
    let session = server.calls.post("/session", &serde_json::json!({})).await.unwrap();
    let path = format!("/session/{}", session["id"].as_str().unwrap());
    let line = "echo changed >> README.md; sleep 60";
    let body = serde_json::json!({ "agent": "build", "command": line });
    let shell = format!("{path}/shell");
    let waiting = server.calls.post(&shell, &body);
    let stopping = async {
        while !std::fs::read_to_string(harness.project().join("README.md")).unwrap().contains("changed") {
            tokio::task::yield_now().await;
        }
        server.calls.post(&format!("{path}/abort"), &serde_json::json!({})).await.unwrap();
    };
    let (_, ()) = tokio::join!(waiting, stopping);
    assert_eq!(git(&harness, &["rev-list", "--count", "HEAD"]).await, "1\n");
    assert_eq!(git(&harness, &["status", "--porcelain"]).await, " M README.md\n");
    server.stop().await;
}
