//! Several projects in one server, each with its own configuration.

use std::{fs, path::PathBuf};

use client::check::{Checker, End};
use protocol::{EndReason, EventBody, SessionStatus};
use serde_json::{Value, json};
use testkit::watch::Watch;

use crate::harness::{Harness, Server};

/// A scenario that asks permission for a command, which creates the file `LEFT`.
const ASKING: &str = "permission";
const LEFT: &str = "demo-permission.txt";

/// A second project beside the one the server is started in.
pub(crate) struct Other {
    pub(crate) path: PathBuf,
}

impl Other {
    pub(crate) fn new(harness: &Harness, config: &Value) -> Self {
        let path = harness.path("other");
        fs::create_dir(&path).unwrap();
        let other = Self { path: path.canonicalize().unwrap() };
        other.write("opencode.json", &config.to_string());
        other
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A path of the server with this directory as its query.
    pub(crate) fn about(&self, path: &str) -> String {
        format!("{path}?directory={}", self.path.display())
    }

    pub(crate) async fn session(&self, server: &Server) -> String {
        let session = server.calls.post(&self.about("/session"), &json!({})).await.unwrap();
        assert_eq!(session["directory"], self.path.to_str().unwrap());
        session["id"].as_str().unwrap().to_owned()
    }
}

/// Sends a prompt and waits for the answer. Returns the agent and the model that gave it.
pub(crate) async fn said(server: &Server, session: &str, more: Value) -> anyhow::Result<(String, String)> {
    let mut prompt = json!({ "parts": [{ "type": "text", "text": "hello" }] });
    prompt.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let answer = server.calls.post(&format!("/session/{session}/message"), &prompt).await?;
    let text = |name: &str| answer["info"][name].as_str().unwrap().to_owned();
    Ok((text("agent"), text("modelID")))
}

fn model(scenario: &str) -> Value {
    json!({ "model": { "providerID": "demo", "modelID": scenario } })
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_directory_has_its_own_agents_models_permissions_commands_and_skills() {
    let harness = Harness::new();
    harness.trust();
    let own = json!({ "permission": { "bash": "allow" } }).to_string();
    fs::write(harness.project().join("opencode.json"), own).unwrap();
    let other = Other::new(
        &harness,
        &json!({
            "model": "demo/simple", "default_agent": "poet", "permission": { "bash": "deny" },
            "agent": { "poet": { "prompt": "You answer in verse." } },
        }),
    );
    other.write(".opencode/command/greet.md", "---\ndescription: Greets\n---\nSay hello to $1.");
    other.write(".opencode/skills/knots/SKILL.md", "---\nname: knots\ndescription: Ties\n---\nOver, under.");
    let server = harness.serve().await;
    let (here, there) = (server.calls.session().await.unwrap(), other.session(&server).await);
    let got = async |path: &str| server.calls.get(path).await.unwrap();

    assert_eq!(got(&other.about("/config")).await["model"], "demo/simple");
    assert_eq!(got("/config").await["model"], Value::Null);
    assert_eq!(names(&got(&other.about("/agent")).await)[0], "poet");
    assert!(!names(&got("/agent").await).contains(&"poet"));
    let commands = got(&other.about("/command")).await;
    let greet = commands.as_array().unwrap().iter().find(|it| it["name"] == "greet").unwrap();
    assert_eq!((&greet["description"], &greet["hints"]), (&json!("Greets"), &json!(["$1"])));
    assert!(!names(&got("/command").await).contains(&"greet"));
    let skills = got(&other.about("/skill")).await;
    assert_eq!((names(&skills), &skills[0]["content"]), (vec!["knots"], &json!("Over, under.")));
    assert_eq!(got("/skill").await, json!([]));

    let both = [said(&server, &here, json!({})).await, said(&server, &there, json!({})).await];
    let both = both.map(|answer| answer.unwrap());
    assert_eq!(both, [("build".into(), "baton".into()), ("poet".into(), "simple".into())]);
    let refused = said(&server, &here, json!({ "agent": "poet" })).await.unwrap_err().to_string();
    assert!(refused.contains("400") && refused.contains("poet"), "{refused}");

    for session in [&here, &there] {
        said(&server, session, model(ASKING)).await.unwrap();
    }
    assert!(harness.project().join(LEFT).exists(), "allowed in this project");
    assert!(!other.path.join(LEFT).exists(), "denied in the other");
    server.stop().await;
}

#[tokio::test]
async fn a_change_of_the_configuration_is_for_the_next_prompt_and_leaves_a_turn_alone() {
    let harness = Harness::new();
    let other = Other::new(&harness, &json!({ "model": "demo/slow:30@5" }));
    let server = harness.serve().await;
    let session = other.session(&server).await;
    let mut watch = Watch::connect(&server.url, &other.about("/event"), Some(0)).await.unwrap();
    let prompt = json!({ "parts": [{ "type": "text", "text": "go" }] });
    server.calls.post(&format!("/session/{session}/prompt_async"), &prompt).await.unwrap();
    let mut checker = Checker::new();
    let (mut changed, mut deltas_after) = (false, 0);
    while let Some(seen) = watch.next().await.unwrap() {
        assert_eq!(checker.observe(None, &seen.event), []);
        match &seen.event.body {
            EventBody::PartDelta(_) if !changed => {
                changed = true;
                other.write(
                    "opencode.json",
                    &json!({ "model": "demo/simple", "agent": { "new": {} } }).to_string(),
                );
                let agents = server.calls.get(&other.about("/agent")).await.unwrap();
                assert!(names(&agents).contains(&"new"), "the configuration is reloaded during the turn");
            }
            EventBody::PartDelta(_) => deltas_after += 1,
            EventBody::SessionStatus(it) if it.status.is_idle() => {
                assert_eq!(it.status, SessionStatus::idle(EndReason::Completed));
            }
            EventBody::SessionIdle(_) => break,
            _ => {}
        }
    }
    assert!(changed && deltas_after > 0, "the turn continued: {deltas_after}");
    // A session keeps the model it used last, unless the agent has one.
    let fresh = other.session(&server).await;
    assert_eq!(said(&server, &fresh, json!({})).await.unwrap().1, "simple");
    assert_eq!(said(&server, &session, json!({ "agent": "new" })).await.unwrap().0, "new");
    let report = checker.finish(End::Cut);
    assert!(report.passed(), "{report:?}");
    drop(watch);
    server.stop().await;
}

#[tokio::test]
async fn permanent_approvals_survive_a_change_of_the_configuration() {
    let harness = Harness::new();
    let other = Other::new(&harness, &json!({ "permission": { "bash": "ask" } }));
    let server = harness.serve().await;
    let session = other.session(&server).await;
    let mut watch = Watch::connect(&server.url, &other.about("/event"), Some(0)).await.unwrap();
    server.calls.prompt(&session, ASKING, None).await.unwrap();
    loop {
        match watch.next().await.unwrap().unwrap().event.body {
            EventBody::PermissionAsked(asked) => {
                let path = other.about(&format!("/permission/{}/reply", asked.id));
                server.calls.post(&path, &json!({ "reply": "always" })).await.unwrap();
            }
            EventBody::SessionStatus(it) if it.status.is_idle() => break,
            _ => {}
        }
    }
    fs::remove_file(other.path.join(LEFT)).unwrap();
    other.write("opencode.json", r#"{ "permission": { "bash": "ask" }, "username": "ada" }"#);
    // Without the approval this would wait for an answer for ever.
    said(&server, &session, model(ASKING)).await.unwrap();
    assert!(other.path.join(LEFT).exists());
    assert_eq!(server.calls.get(&other.about("/config")).await.unwrap()["username"], "ada");
    server.stop().await;
}

#[tokio::test]
async fn an_invalid_configuration_is_reported_only_in_its_directory() {
    let harness = Harness::new();
    let other = Other::new(&harness, &json!({ "model": "demo/simple" }));
    let server = harness.serve().await;
    let (here, there) = (server.calls.session().await.unwrap(), other.session(&server).await);
    said(&server, &there, json!({})).await.unwrap();
    other.write("opencode.json", r#"{ "share": 1 }"#);
    let refused = [
        server.calls.get(&other.about("/agent")).await.map(drop),
        server.calls.get(&other.about("/config/providers")).await.map(drop),
        said(&server, &there, json!({})).await.map(drop),
    ];
    for refused in refused {
        let told = refused.unwrap_err().to_string();
        for expected in ["400", "ConfigInvalidError", "opencode.json:1:12", "`share` must be"] {
            assert!(told.contains(expected), "{expected}: {told}");
        }
    }
    assert_eq!(said(&server, &here, json!({})).await.unwrap().1, "baton");
    let messages = server.calls.get(&format!("/session/{there}/message")).await.unwrap();
    assert_eq!(messages.as_array().unwrap().len(), 2, "earlier messages can still be read");
    other.write("opencode.json", "{}");
    assert_eq!(said(&server, &there, json!({})).await.unwrap().1, "simple", "as it did before");
    server.stop().await;
}

#[tokio::test]
async fn run_uses_the_configuration_of_the_sessions_directory() {
    let harness = Harness::new();
    let other = Other::new(&harness, &json!({ "model": "demo/simple" }));
    let server = harness.serve().await;
    let session = other.session(&server).await;
    server.stop().await;
    let ended = harness.run_with_data(&["run", "--session", &session, "hi"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.starts_with("Hello from the demo model."), "{ended:?}");
}

#[tokio::test]
async fn disposing_of_a_directory_reloads_it_and_notifies_clients() {
    let harness = Harness::new();
    let other = Other::new(&harness, &json!({ "model": "demo/slow:30@5" }));
    let server = harness.serve().await;
    let session = other.session(&server).await;
    let mut watch = Watch::connect(&server.url, &other.about("/event"), None).await.unwrap();
    let prompt = json!({ "parts": [{ "type": "text", "text": "go" }] });
    server.calls.post(&format!("/session/{session}/prompt_async"), &prompt).await.unwrap();
    let (mut disposed, mut told) = (false, 0);
    while let Some(seen) = watch.next().await.unwrap() {
        match &seen.event.body {
            EventBody::PartDelta(_) if !disposed => {
                disposed = true;
                assert_eq!(
                    server.calls.post(&other.about("/instance/dispose"), &json!({})).await.unwrap(),
                    true
                );
                assert_eq!(server.calls.post("/global/dispose", &json!({})).await.unwrap(), true);
            }
            EventBody::ServerInstanceDisposed(about) => {
                assert_eq!(about["directory"], other.path.to_str().unwrap());
                told += 1;
            }
            EventBody::SessionStatus(it) if it.status.is_idle() => {
                assert_eq!(it.status, SessionStatus::idle(EndReason::Completed), "the turn continued");
            }
            EventBody::SessionIdle(_) => break,
            _ => {}
        }
    }
    assert_eq!((disposed, told), (true, 1));
    drop(watch);
    server.stop().await;
}
