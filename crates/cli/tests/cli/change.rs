//! Clients that change configuration files, of a project and of the user.

use std::fs;

use client::check::{Checker, End};
use protocol::{EndReason, EventBody, SessionStatus};
use serde_json::{Value, json};
use testkit::watch::Watch;

use crate::{
    directories::{Other, said},
    harness::Harness,
};

const TEXT: &str = "{\n  // takes its time\n  \"model\": \"demo/slow:30@5\",\n}\n";

#[tokio::test]
async fn a_change_during_a_turn_is_for_the_next_prompt_and_for_its_directory_only() {
    let harness = Harness::new();
    let other = Other::new(&harness, &json!({}));
    other.write("opencode.json", TEXT);
    let server = harness.serve().await;
    let session = other.session(&server).await;
    let mut watch = Watch::connect(&server.url, &other.about("/event"), Some(0)).await.unwrap();
    let prompt = json!({ "parts": [{ "type": "text", "text": "go" }] });
    server.calls.post(&format!("/session/{session}/prompt_async"), &prompt).await.unwrap();
    let mut checker = Checker::new();
    let (mut changed, mut told, mut deltas_after) = (false, false, 0);
    while let Some(seen) = watch.next().await.unwrap() {
        assert_eq!(checker.observe(None, &seen.event), []);
        match &seen.event.body {
            EventBody::PartDelta(_) if !changed => {
                changed = true;
                let change = json!({
                    "model": "demo/simple", "agent": { "poet": {} },
                    "provider": { "acme": { "options": { "apiKey": "sk-1" } } },
                });
                let shown = server.calls.patch(&other.about("/config"), &change).await.unwrap();
                assert_eq!(shown["model"], "demo/simple");
                assert!(!shown.to_string().contains("sk-1"), "{shown}");
                assert_eq!(server.calls.get(&other.about("/config")).await.unwrap(), shown);
            }
            EventBody::PartDelta(_) => deltas_after += 1,
            EventBody::ServerInstanceDisposed(_) => told = true,
            EventBody::SessionStatus(it) if it.status.is_idle() => {
                assert_eq!(it.status, SessionStatus::idle(EndReason::Completed), "the turn continued");
            }
            EventBody::SessionIdle(_) => break,
            _ => {}
        }
    }
    assert!(changed && told && deltas_after > 0, "{changed} {told} {deltas_after}");
    let report = checker.finish(End::Cut);
    assert!(report.passed(), "{report:?}");
    let text = fs::read_to_string(other.path.join("opencode.json")).unwrap();
    assert!(text.starts_with("{\n  // takes its time\n  \"model\": \"demo/simple\",\n"), "{text}");
    assert!(text.contains("sk-1"), "{text}");

    let fresh = other.session(&server).await;
    assert_eq!(said(&server, &fresh, json!({})).await.unwrap().1, "simple");
    assert_eq!(said(&server, &session, json!({ "agent": "poet" })).await.unwrap().0, "poet");
    let here = server.calls.session().await.unwrap();
    assert_eq!(said(&server, &here, json!({})).await.unwrap().1, "baton", "nothing has changed here");
    assert!(!harness.project().join("opencode.json").exists());
    drop(watch);
    server.stop().await;
}

#[tokio::test]
async fn a_change_of_the_users_configuration_counts_in_every_directory() {
    let harness = Harness::new();
    let other = Other::new(&harness, &json!({ "model": "demo/simple" }));
    let server = harness.serve().await;
    let got = async |path: &str| server.calls.get(path).await.unwrap();
    assert_eq!(got("/global/config").await["username"], Value::Null);
    assert_eq!(got("/config").await["username"], Value::Null);
    let shown = server.calls.patch("/global/config", &json!({ "username": "ada" })).await.unwrap();
    assert_eq!(shown, got("/global/config").await);
    assert_eq!((&shown["username"], &shown["model"]), (&json!("ada"), &Value::Null));
    for path in ["/config", &other.about("/config")] {
        assert_eq!(got(path).await["username"], "ada", "{path}");
    }
    let removed = server.calls.patch("/global/config", &json!({ "username": null })).await.unwrap();
    assert_eq!((&removed["username"], &got("/config").await["username"]), (&Value::Null, &Value::Null));
    server.stop().await;
}

#[tokio::test]
async fn a_change_that_would_break_a_configuration_leaves_the_file_alone() {
    let harness = Harness::new();
    let other = Other::new(&harness, &json!({}));
    other.write("opencode.json", TEXT);
    let server = harness.serve().await;
    let session = other.session(&server).await;
    for (change, expected) in [
        (
            json!({ "modle": "demo/simple" }),
            vec!["ConfigInvalidError", "opencode.json: ", "did you mean `model`?"],
        ),
        (json!({ "agent": { "poet": { "mode": "no" } } }), vec!["ConfigInvalidError", "agent.poet.mode"]),
        (json!({ "sandbox": "off" }), vec!["BadRequest", "sandbox", "baton.json"]),
    ] {
        let told = server.calls.patch(&other.about("/config"), &change).await.unwrap_err().to_string();
        for expected in ["400", "nothing was written"].into_iter().chain(expected) {
            assert!(told.contains(expected), "{expected}: {told}");
        }
    }
    assert_eq!(fs::read_to_string(other.path.join("opencode.json")).unwrap(), TEXT);
    assert_eq!(fs::read_dir(&other.path).unwrap().count(), 1, "nothing is left beside it");
    said(&server, &session, json!({ "model": { "providerID": "demo", "modelID": "simple" } })).await.unwrap();
    server.stop().await;
}
