//! Slash commands and shell commands of a user.

use serde_json::json;

use crate::harness::Harness;

#[tokio::test]
async fn a_command_answers_with_the_assistants_message() {
    let harness = Harness::new();
    let id = harness.session().await;
    let body = json!({ "command": "hello", "arguments": "hi there", "messageID": "msg_mine" });
    let answer = harness.post(&format!("/session/{id}/command"), body).await;
    assert_eq!(
        (&answer["info"]["role"], &answer["info"]["parentID"]),
        (&json!("assistant"), &json!("msg_mine"))
    );
    let prompt = harness.get(&format!("/session/{id}/message/msg_mine")).await;
    assert_eq!(prompt["parts"][0]["text"], "hi there");
    assert_eq!(
        prompt["info"]["origin"],
        json!({ "type": "command", "name": "hello", "arguments": "hi there" })
    );
}

#[tokio::test]
async fn an_unknown_command_is_refused_with_those_there_are() {
    let harness = Harness::new();
    let id = harness.session().await;
    let path = format!("/session/{id}/command");
    let error = harness.expect(400, "POST", &path, json!({ "command": "dance", "arguments": "" })).await;
    insta::assert_json_snapshot!(error);
    let missing = json!({ "command": "hello", "arguments": "" });
    harness.expect(404, "POST", "/session/ses_none/command", missing).await;
    harness.expect(400, "POST", &path, json!({ "command": "hello" })).await;
}

#[tokio::test]
async fn init_runs_the_command_of_that_name() {
    let harness = Harness::new();
    let id = harness.session().await;
    let body = json!({ "providerID": "demo", "modelID": "demo", "messageID": "msg_init" });
    assert_eq!(harness.post(&format!("/session/{id}/init"), body).await, json!(true));
    let prompt = harness.get(&format!("/session/{id}/message/msg_init")).await;
    assert_eq!(prompt["info"]["origin"]["name"], "init");
}

#[tokio::test]
async fn a_busy_session_runs_no_command_line() {
    let harness = Harness::new();
    let id = harness.session().await;
    let shell = format!("/session/{id}/shell");
    let body = json!({ "agent": "build", "command": "pwd" });
    let answer = harness.post(&shell, body.clone()).await;
    assert_eq!(answer["info"]["role"], "assistant");
    let prompt = &harness.get(&format!("/session/{id}/message")).await[0];
    assert_eq!(prompt["info"]["origin"], json!({ "type": "shell", "command": "pwd" }));
    assert_eq!(prompt["parts"][0]["synthetic"], true);
    harness.submit(&id, "wait").await;
    let busy = harness.expect(409, "POST", &shell, body.clone()).await;
    assert_eq!((&busy["_tag"], &busy["sessionID"]), (&json!("SessionBusyError"), &json!(id)));
    harness.post(&format!("/session/{id}/abort"), json!({})).await;
    harness.post(&shell, body).await;
    harness.expect(400, "POST", &shell, json!({ "agent": "nobody", "command": "pwd" })).await;
}

#[tokio::test]
async fn sharing_is_refused_with_a_reason() {
    let harness = Harness::new();
    let id = harness.session().await;
    for method in ["POST", "DELETE"] {
        let error = harness.expect(501, method, &format!("/session/{id}/share"), None).await;
        assert_eq!(error["name"], "NotImplemented");
        assert!(error["data"]["message"].as_str().unwrap().contains("not available"), "{error}");
    }
    assert_eq!(harness.get(&format!("/session/{id}")).await.get("share"), None);
}
