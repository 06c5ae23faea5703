//! Slash commands and shell commands of a user.

use serde_json::json;

use crate::world::World;

#[tokio::test]
async fn a_command_answers_with_the_assistants_message() {
    let world = World::new();
    let id = world.session().await;
    let body = json!({ "command": "hello", "arguments": "hi there", "messageID": "msg_mine" });
    let answer = world.post(&format!("/session/{id}/command"), body).await;
    assert_eq!(
        (&answer["info"]["role"], &answer["info"]["parentID"]),
        (&json!("assistant"), &json!("msg_mine"))
    );
    let prompt = world.get(&format!("/session/{id}/message/msg_mine")).await;
    assert_eq!(prompt["parts"][0]["text"], "hi there");
    assert_eq!(
        prompt["info"]["origin"],
        json!({ "type": "command", "name": "hello", "arguments": "hi there" })
    );
}

#[tokio::test]
async fn an_unknown_command_is_refused_with_those_there_are() {
    let world = World::new();
    let id = world.session().await;
    let path = format!("/session/{id}/command");
    let error = world.expect(400, "POST", &path, json!({ "command": "dance", "arguments": "" })).await;
    insta::assert_json_snapshot!(error);
    let missing = json!({ "command": "hello", "arguments": "" });
    world.expect(404, "POST", "/session/ses_none/command", missing).await;
    world.expect(400, "POST", &path, json!({ "command": "hello" })).await;
}

#[tokio::test]
async fn init_runs_the_command_of_that_name() {
    let world = World::new();
    let id = world.session().await;
    let body = json!({ "providerID": "demo", "modelID": "demo", "messageID": "msg_init" });
    assert_eq!(world.post(&format!("/session/{id}/init"), body).await, json!(true));
    let prompt = world.get(&format!("/session/{id}/message/msg_init")).await;
    assert_eq!(prompt["info"]["origin"]["name"], "init");
}

#[tokio::test]
async fn a_busy_session_runs_no_command_line() {
    let world = World::new();
    let id = world.session().await;
    let shell = format!("/session/{id}/shell");
    let body = json!({ "agent": "build", "command": "pwd" });
    let answer = world.post(&shell, body.clone()).await;
    assert_eq!(answer["info"]["role"], "assistant");
    let prompt = &world.get(&format!("/session/{id}/message")).await[0];
    assert_eq!(prompt["info"]["origin"], json!({ "type": "shell", "command": "pwd" }));
    assert_eq!(prompt["parts"][0]["synthetic"], true);
    world.submit(&id, "wait").await;
    let busy = world.expect(409, "POST", &shell, body.clone()).await;
    assert_eq!((&busy["_tag"], &busy["sessionID"]), (&json!("SessionBusyError"), &json!(id)));
    world.post(&format!("/session/{id}/abort"), json!({})).await;
    world.post(&shell, body).await;
    world.expect(400, "POST", &shell, json!({ "agent": "nobody", "command": "pwd" })).await;
}

#[tokio::test]
async fn sharing_is_refused_with_a_reason() {
    let world = World::new();
    let id = world.session().await;
    for method in ["POST", "DELETE"] {
        let error = world.expect(501, method, &format!("/session/{id}/share"), None).await;
        assert_eq!(error["name"], "NotImplemented");
        assert!(error["data"]["message"].as_str().unwrap().contains("not available"), "{error}");
    }
    assert_eq!(world.get(&format!("/session/{id}")).await.get("share"), None);
}
