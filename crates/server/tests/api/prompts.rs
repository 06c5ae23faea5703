//! Prompts in the blocking and the asynchronous form.

use std::time::Duration;

use axum::{body::Body, http::Request};
use engine::{memory::Fault, ports::StoreFailure};
use http::header;
use insta::assert_json_snapshot;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::harness::{Harness, prompt};

#[tokio::test]
async fn the_blocking_form_answers_with_the_assistants_message() {
    let harness = Harness::new();
    let id = harness.session().await;
    let answer = harness.post(&format!("/session/{id}/message"), prompt("hello")).await;
    assert_json_snapshot!(harness.redact(&answer));
    assert_eq!(harness.get("/session/status").await, json!({}), "idle comes before the answer");
}

#[tokio::test]
async fn no_reply_stores_the_message_and_runs_nothing() {
    let harness = Harness::new();
    let id = harness.session().await;
    let body = json!({ "noReply": true, "parts": [{ "type": "text", "text": "hello" }] });
    let answer = harness.post(&format!("/session/{id}/message"), body).await;
    assert_eq!(answer["info"]["role"], "user");
    assert_eq!(harness.get(&format!("/session/{id}/message")).await, json!([answer]));
}

#[tokio::test]
async fn the_same_message_id_twice_is_one_prompt() {
    let harness = Harness::new();
    let id = harness.session().await;
    let mut body = prompt("hello");
    body["messageID"] = json!("msg_mine");
    let first = harness.post(&format!("/session/{id}/message"), body.clone()).await;
    let second = harness.post(&format!("/session/{id}/message"), body.clone()).await;
    assert_eq!(first, second);
    harness.expect(204, "POST", &format!("/session/{id}/prompt_async"), body).await;
    assert_eq!(harness.get(&format!("/session/{id}/message")).await.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn the_asynchronous_form_answers_when_the_prompt_is_stored() {
    let harness = Harness::new();
    let id = harness.session().await;
    harness.faults().next(1, Fault::Delay(Duration::from_millis(50)));
    harness.submit(&id, "hello").await;
    let stored = harness.get(&format!("/session/{id}/message")).await;
    assert_eq!(stored[0]["parts"][0]["text"], "hello");
    harness.idle().await;
}

#[tokio::test]
async fn a_failed_turn_is_an_answer_with_an_error() {
    let harness = Harness::new();
    let id = harness.session().await;
    let answer = harness.post(&format!("/session/{id}/message"), prompt("fail")).await;
    assert_eq!(answer["info"]["error"]["name"], "UnknownError");
    assert_eq!(answer["info"]["error"]["data"]["message"], "as the script says");
}

#[tokio::test]
async fn an_abort_answers_waiting_clients() {
    let harness = Harness::new();
    let id = harness.session().await;
    let path = format!("/session/{id}/message");
    let waiting = harness.call("POST", &path, prompt("wait"));
    let abort = async {
        harness.until("/session/status", |status| *status != json!({})).await;
        harness.expect(200, "POST", &format!("/session/{id}/abort"), None).await
    };
    let (answer, _) = tokio::join!(waiting, abort);
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json()["info"]["error"]["name"], "MessageAbortedError");
}

#[tokio::test]
async fn a_client_that_goes_away_does_not_stop_the_turn() {
    let harness = Harness::new();
    let id = harness.session().await;
    let call = Request::post(format!("/session/{id}/message"))
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(prompt("permission").to_string()))
        .unwrap();
    let waiting = tokio::spawn(harness.router.clone().oneshot(call));
    let asked = harness.until("/permission", |list| *list != json!([])).await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    assert_eq!(harness.get("/session/status").await[&id]["type"], "busy");
    let request = asked[0]["id"].as_str().unwrap();
    harness.post(&format!("/permission/{request}/reply"), json!({ "reply": "once" })).await;
    harness.idle().await;
    let list = harness.get(&format!("/session/{id}/message")).await;
    assert_eq!(list[1]["info"]["finish"], "stop");
}

#[tokio::test]
async fn unknown_names_are_refused_before_anything_is_stored() {
    let harness = Harness::new();
    let id = harness.session().await;
    let path = format!("/session/{id}/prompt_async");
    let with = |field: &str, value| {
        let mut body = prompt("hello");
        body[field] = value;
        body
    };
    let refusals = [
        harness.expect(400, "POST", &path, with("agent", json!("nobody"))).await,
        harness.expect(400, "POST", &path, with("model", json!({ "providerID": "x", "modelID": "y" }))).await,
        harness.expect(400, "POST", &path, json!({ "nope": 1 })).await,
        harness.expect(404, "POST", "/session/ses_nobody/prompt_async", prompt("hello")).await,
        harness.expect(404, "POST", "/session/ses_nobody/message", prompt("hello")).await,
    ];
    assert_json_snapshot!(refusals);
    assert_eq!(harness.get(&format!("/session/{id}/message")).await, json!([]));
}

#[tokio::test]
async fn a_full_disk_refuses_prompts_and_still_reads() {
    let harness = Harness::new();
    let id = harness.session().await;
    harness.faults().next(1, Fault::Refuse(StoreFailure::Full));
    let path = format!("/session/{id}/prompt_async");
    let refused = harness.expect(507, "POST", &path, prompt("hello")).await;
    assert_eq!(refused["name"], "InsufficientStorage");
    assert_eq!(harness.get(&format!("/session/{id}/message")).await, json!([]));
}

#[tokio::test]
async fn a_full_queue_asks_clients_to_retry() {
    let harness = Harness::new();
    let id = harness.session().await;
    harness.submit(&id, "wait").await;
    let path = format!("/session/{id}/prompt_async");
    for _ in 0..engine::limits::MAX_WAITING {
        harness.expect(204, "POST", &path, prompt("hello")).await;
    }
    let answer = harness.call("POST", &path, prompt("hello")).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.headers[header::RETRY_AFTER], "1");
    harness.expect(200, "POST", &format!("/session/{id}/abort"), None).await;
}

#[tokio::test]
async fn a_server_that_shuts_down_accepts_no_prompts() {
    let harness = Harness::new();
    let id = harness.session().await;
    harness.sessions.shutdown().await;
    let refused = harness.expect(503, "POST", &format!("/session/{id}/prompt_async"), prompt("hello")).await;
    assert_eq!(refused["_tag"], "ServiceUnavailableError");
    harness.get(&format!("/session/{id}")).await;
}

#[tokio::test]
async fn duplicate_ids_of_a_client_do_no_harm() {
    for harness in [Harness::new(), Harness::on_disk()] {
        let (one, two) = (harness.session().await, harness.session().await);
        let part = |text: &str| json!({ "id": "prt_mine", "type": "text", "text": text });
        let body = |parts: Vec<Value>| json!({ "messageID": "msg_mine", "parts": parts });
        for session in [&one, &two] {
            let path = format!("/session/{session}/message");
            harness.post(&path, body(vec![part("hello"), part("hello again")])).await;
            let other = json!({ "parts": [part("in another message")] });
            harness.post(&path, other).await;
            let list = harness.get(&path).await;
            assert_eq!(list.as_array().unwrap().len(), 4);
            assert_eq!(list[0]["info"]["sessionID"], json!(session));
            assert_eq!(list[0]["parts"].as_array().unwrap().len(), 1, "the later one wins");
            assert_eq!(list[2]["parts"].as_array().unwrap().len(), 1);
        }
    }
}
