//! Turns with continuations, how they are stopped, and the summary of a turn.

use serde_json::{Value, json};

use crate::harness::{Harness, prompt};

/// A session whose turns continue while there are open todos.
async fn persistent(harness: &Harness) -> String {
    let id = harness.session().await;
    harness.expect(200, "PATCH", &format!("/session/{id}"), json!({ "continuation": true })).await;
    id
}

async fn continuation(harness: &Harness, id: &str) -> Value {
    harness.get(&format!("/session/{id}")).await["continuation"].clone()
}

#[tokio::test]
async fn a_continued_turn_is_one_turn_and_reports_why_it_stopped() {
    let harness = Harness::new();
    let id = persistent(&harness).await;
    let answer = harness.post(&format!("/session/{id}/message"), prompt("plan")).await;
    let turn = harness.get(&format!("/session/{id}/turn")).await;
    assert_eq!((&turn["prompt"], &turn["end"]), (&json!("plan"), &json!("completed")));
    // The first round, and the maximum number of rounds without progress.
    assert_eq!((&turn["continued"], &turn["steps"]), (&json!(3), &json!(4)));
    assert_eq!(turn["answer"], "Planned\nHello to you\nHello to you\nHello to you");
    assert_eq!((&turn["tokens"]["input"], &turn["cost"]), (&json!(40), &json!(2)));
    assert_eq!(turn["messages"].as_array().unwrap().last().unwrap()["info"]["id"], answer["info"]["id"]);
    let state = continuation(&harness, &id).await;
    assert_eq!((&state["stopped"], &state["episode"]["rounds"]), (&json!("stagnant"), &json!(3)));
}

#[tokio::test]
async fn a_stop_lasts_until_a_client_resumes() {
    let harness = Harness::new();
    let id = persistent(&harness).await;
    let path = format!("/session/{id}/continuation");
    let session = harness.post(&path, json!({ "action": "stop" })).await;
    assert_eq!((&session["id"], &session["continuation"]["stopped"]), (&json!(id), &json!("stop")));
    let session = harness.post(&path, json!({ "action": "resume" })).await;
    assert_eq!(session["continuation"], json!({ "enabled": true }));
    assert_eq!(continuation(&harness, &id).await, session["continuation"]);
}

#[tokio::test]
async fn a_stop_during_a_round_lets_that_round_finish() {
    let harness = Harness::new();
    let id = persistent(&harness).await;
    harness.submit(&id, "permission").await;
    let pending = harness.until("/permission", |all| !all.as_array().unwrap().is_empty()).await;
    harness.post(&format!("/session/{id}/continuation"), json!({ "action": "stop" })).await;
    assert_eq!(harness.get("/session/status").await[&id]["type"], "busy");
    let reply = format!("/permission/{}/reply", pending[0]["id"].as_str().unwrap());
    harness.post(&reply, json!({ "reply": "once" })).await;
    harness.idle().await;
    assert_eq!(continuation(&harness, &id).await["stopped"], "stop");
}

#[tokio::test]
async fn an_invalid_stop_is_refused() {
    let harness = Harness::new();
    let id = harness.session().await;
    let path = format!("/session/{id}/continuation");
    for body in [json!({}), json!({ "action": "dance" }), json!({ "action": 1 }), json!([])] {
        let error = harness.expect(400, "POST", &path, body.clone()).await;
        assert_eq!(error["name"], "BadRequest", "{body}");
        assert!(error["data"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{error}");
    }
    let stop = json!({ "action": "stop" });
    let missing = harness.expect(404, "POST", "/session/ses_none/continuation", stop.clone()).await;
    assert_eq!(missing["name"], "NotFoundError");
    harness.expect(405, "GET", &path, None).await;
    harness.expect(400, "PATCH", &format!("/session/{id}"), json!({ "continuation": "maybe" })).await;
    assert_eq!(continuation(&harness, &id).await, Value::Null);
}

#[tokio::test]
async fn stop_and_continue_are_commands_too() {
    let harness = Harness::new();
    let id = persistent(&harness).await;
    let path = format!("/session/{id}/command");
    let stop = json!({ "command": "stop", "arguments": "" });
    let error = harness.expect(400, "POST", &path, stop.clone()).await;
    let said = error["data"]["message"].as_str().unwrap();
    assert!(said.contains("nothing to stop: this session has no answer yet"), "{said}");

    let answer = harness.post(&format!("/session/{id}/message"), prompt("hello")).await;
    let count = harness.get(&format!("/session/{id}/message")).await.as_array().unwrap().len();
    let stopped = harness.post(&path, stop).await;
    assert_eq!(stopped["info"]["id"], answer["info"]["id"], "the response is the newest answer");
    assert_eq!(harness.get(&format!("/session/{id}/message")).await.as_array().unwrap().len(), count);
    assert_eq!(continuation(&harness, &id).await["stopped"], "stop");

    // It is an ordinary prompt of the user, so the stop is lifted.
    let going = harness.post(&path, json!({ "command": "continue", "arguments": "plan" })).await;
    assert_eq!(going["info"]["role"], "assistant");
    let state = continuation(&harness, &id).await;
    assert_eq!((&state["stopped"], &state["episode"]["rounds"]), (&json!("stagnant"), &json!(3)));
    harness
        .expect(404, "POST", "/session/ses_none/command", json!({ "command": "stop", "arguments": "" }))
        .await;
}

#[tokio::test]
async fn a_turn_reports_how_it_ended() {
    let harness = Harness::new();
    let id = harness.session().await;
    let path = format!("/session/{id}/turn");
    harness.expect(404, "GET", &path, None).await;

    harness.submit(&id, "wait").await;
    let running = harness.until(&path, |turn| turn["steps"] == 1).await;
    assert_eq!((&running["sessionID"], running.get("end")), (&json!(id), None));
    harness.post(&format!("/session/{id}/abort"), json!({})).await;
    let ended = harness.get(&path).await;
    assert_eq!((&ended["end"], &ended["messageID"]), (&json!("aborted"), &running["messageID"]));

    for (text, end) in [("fail", "error"), ("hello", "completed")] {
        harness.post(&format!("/session/{id}/message"), prompt(text)).await;
        let turn = harness.get(&path).await;
        assert_eq!((&turn["prompt"], &turn["end"]), (&json!(text), &json!(end)));
        assert_eq!((&turn["continued"], &turn["tools"]), (&json!(0), &json!([])));
    }
}

#[tokio::test]
async fn a_turn_of_an_unknown_session_is_not_found() {
    let harness = Harness::new();
    let missing = harness.expect(404, "GET", "/session/ses_none/turn", None).await;
    assert_eq!(missing["name"], "NotFoundError");
    harness.expect(400, "GET", "/session/none/turn", None).await;
    harness.expect(405, "POST", "/session/ses_none/turn", json!({})).await;
}
