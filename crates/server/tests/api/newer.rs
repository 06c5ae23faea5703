//! The newer interface under `/api`: the same sessions in its own shapes.

use axum::{body::Body, http::Request};
use futures::StreamExt;
use insta::assert_json_snapshot;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::harness::Harness;

async fn create(harness: &Harness) -> String {
    let body = json!({ "location": { "directory": harness.directory() } });
    harness.post("/api/session", body).await["data"]["id"].as_str().unwrap().to_owned()
}

async fn say(harness: &Harness, id: &str, text: &str) -> Value {
    let body = json!({ "prompt": { "text": text } });
    let admitted = harness.post(&format!("/api/session/{id}/prompt"), body).await;
    harness.expect(204, "POST", &format!("/api/session/{id}/wait"), None).await;
    admitted
}

#[tokio::test]
async fn a_session_is_created_once_for_the_id_its_client_chose() {
    let harness = Harness::new();
    let body = json!({ "id": "ses_mine", "agent": "plan", "model": { "providerID": "demo", "id": "demo" } });
    let first = harness.post("/api/session", body.clone()).await;
    assert_eq!(harness.post("/api/session", body).await, first);
    assert_json_snapshot!(harness.redact(&first));
    assert_eq!(harness.get("/session/ses_mine").await["agent"], "plan", "the older interface shows it, too");
    let unknown = json!({ "agent": "nobody" });
    let refused = harness.expect(400, "POST", "/api/session", unknown).await;
    assert_eq!(refused["_tag"], "InvalidRequestError", "{refused}");
}

#[tokio::test]
async fn sessions_are_listed_page_by_page() {
    let harness = Harness::new();
    for _ in 0..5 {
        create(&harness).await;
    }
    let mut found = Vec::new();
    let mut path = "/api/session?limit=2".to_owned();
    let last = loop {
        let page = harness.get(&path).await;
        found.extend(page["data"].as_array().unwrap().clone());
        match page["cursor"]["next"].as_str() {
            Some(cursor) => path = format!("/api/session?limit=2&cursor={cursor}"),
            None => break page,
        }
    };
    assert_eq!(found.len(), 5);
    assert!(last["cursor"]["previous"].is_string());
    let mut backwards = harness.get("/api/session?order=asc").await["data"].as_array().unwrap().clone();
    backwards.reverse();
    assert_eq!(backwards, found);
    for bad in ["limit=0", "limit=1.5", "cursor=nonsense", "order=sideways"] {
        let refused = harness.expect(400, "GET", &format!("/api/session?{bad}"), None).await;
        assert!(refused["_tag"].as_str().unwrap().starts_with("Invalid"), "{bad}: {refused}");
    }
}

#[tokio::test]
async fn a_prompt_is_admitted_and_its_history_can_be_read_from_there() {
    let harness = Harness::new();
    let id = create(&harness).await;
    let admitted = say(&harness, &id, "hello").await;
    assert_json_snapshot!("an_admitted_prompt", harness.redact(&admitted));
    let messages = harness.get(&format!("/api/session/{id}/message?order=asc")).await;
    assert_json_snapshot!("its_messages", harness.redact(&messages));
    assert_eq!(harness.get(&format!("/api/session/{id}/context")).await["data"], messages["data"]);
    let answer = messages["data"][1]["id"].as_str().unwrap();
    let one = harness.get(&format!("/api/session/{id}/message/{answer}")).await;
    assert_eq!(one["data"], messages["data"][1]);

    let history = harness.get(&format!("/api/session/{id}/history")).await;
    let shown = |event: &Value| json!([event["type"], event["durable"]["version"]]);
    let shown: Vec<Value> = history["data"].as_array().unwrap().iter().map(shown).collect();
    assert_json_snapshot!("its_history", shown);
    let after = admitted["data"]["admittedSeq"].as_u64().unwrap();
    let rest = harness.get(&format!("/api/session/{id}/history?after={after}")).await;
    assert_eq!(rest["data"][0]["type"], "session.next.prompted", "{rest}");
}

#[tokio::test]
async fn a_history_has_no_gaps_after_any_cursor() {
    let harness = Harness::new();
    let id = create(&harness).await;
    say(&harness, &id, "hello").await;
    let whole = harness.get(&format!("/api/session/{id}/history")).await;
    assert_eq!(whole["hasMore"], false);
    let whole = whole["data"].as_array().unwrap();
    for cut in 0..whole.len() {
        let seq = &whole[cut]["durable"]["seq"];
        let rest = harness.get(&format!("/api/session/{id}/history?after={seq}")).await;
        assert_eq!(rest["data"].as_array().unwrap(), &whole[cut + 1..], "after {seq}");
    }
    let first = harness.get(&format!("/api/session/{id}/history?limit=1")).await;
    assert_eq!((&first["data"][0], &first["hasMore"]), (&whole[0], &json!(true)));
}

#[tokio::test]
async fn a_session_can_be_followed_from_any_cursor() {
    let harness = Harness::new();
    let id = create(&harness).await;
    say(&harness, &id, "hello").await;
    let past = harness.get(&format!("/api/session/{id}/history")).await;
    let past = past["data"].as_array().unwrap().clone();
    let after = &past[2]["durable"]["seq"];
    let call = Request::get(format!("/api/session/{id}/event?after={after}")).body(Body::empty()).unwrap();
    let mut stream = harness.router.clone().oneshot(call).await.unwrap().into_body().into_data_stream();
    let mut next = async || {
        let frame = String::from_utf8(stream.next().await.unwrap().unwrap().to_vec()).unwrap();
        let (place, data) = frame.trim_end().split_once("\ndata: ").unwrap();
        let event: Value = serde_json::from_str(data).unwrap();
        assert_eq!(place, format!("id: {}", event["durable"]["seq"]));
        event
    };
    for event in &past[3..] {
        assert_eq!(next().await, *event);
    }
    say(&harness, &id, "hello").await;
    assert_eq!(next().await["type"], "session.next.prompt.admitted");
}

#[tokio::test]
async fn a_repeated_prompt_is_one_prompt_and_a_different_one_a_conflict() {
    let harness = Harness::new();
    let id = create(&harness).await;
    let path = format!("/api/session/{id}/prompt");
    let body = |text: &str| json!({ "id": "msg_mine", "prompt": { "text": text } });
    let first = harness.post(&path, body("hello")).await;
    let again = harness.post(&path, body("hello")).await;
    assert_eq!(first["data"]["id"], again["data"]["id"]);
    let refused = harness.expect(409, "POST", &path, body("good-bye")).await;
    assert_eq!((&refused["_tag"], &refused["resource"]), (&json!("ConflictError"), &json!("msg_mine")));
    harness.idle().await;
    assert_eq!(harness.get(&format!("/session/{id}/message")).await.as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn agent_and_model_can_be_switched() {
    let harness = Harness::new();
    let id = create(&harness).await;
    harness.expect(204, "POST", &format!("/api/session/{id}/agent"), json!({ "agent": "plan" })).await;
    let model = json!({ "model": { "providerID": "demo", "id": "demo" } });
    harness.expect(204, "POST", &format!("/api/session/{id}/model"), model).await;
    let session = harness.get(&format!("/api/session/{id}")).await;
    assert_eq!(
        (&session["data"]["agent"], &session["data"]["model"]["id"]),
        (&json!("plan"), &json!("demo"))
    );
    let nobody = json!({ "agent": "nobody" });
    harness.expect(400, "POST", &format!("/api/session/{id}/agent"), nobody).await;
}

#[tokio::test]
async fn active_sessions_are_listed_and_can_be_interrupted() {
    let harness = Harness::new();
    let id = create(&harness).await;
    harness.post(&format!("/api/session/{id}/prompt"), json!({ "prompt": { "text": "wait" } })).await;
    let active = harness.until("/api/session/active", |active| active["data"] != json!({})).await;
    assert_eq!(active["data"][&id]["type"], "running");
    harness.expect(204, "POST", &format!("/api/session/{id}/interrupt"), None).await;
    assert_eq!(harness.get("/api/session/active").await["data"], json!({}));
    harness.expect(204, "POST", &format!("/api/session/{id}/wait"), None).await;
}

#[tokio::test]
async fn permissions_and_questions_are_answered_by_session() {
    let harness = Harness::new();
    let id = create(&harness).await;
    for (text, kind, body) in [
        ("permission", "permission", json!({ "reply": "once" })),
        ("question", "question", json!({ "answers": [["Tea"]] })),
    ] {
        harness.post(&format!("/api/session/{id}/prompt"), json!({ "prompt": { "text": text } })).await;
        let path = format!("/api/session/{id}/{kind}");
        let waiting = harness.until(&path, |waiting| waiting["data"] != json!([])).await;
        assert_json_snapshot!(format!("a_{kind}_that_waits"), harness.redact(&waiting));
        let request = waiting["data"][0]["id"].as_str().unwrap();
        let other = create(&harness).await;
        let elsewhere = format!("/api/session/{other}/{kind}/{request}/reply");
        let refused = harness.expect(404, "POST", &elsewhere, body.clone()).await;
        assert_eq!(refused["requestID"], request);
        harness.expect(204, "POST", &format!("{path}/{request}/reply"), body).await;
        harness.expect(204, "POST", &format!("/api/session/{id}/wait"), None).await;
    }
}

#[tokio::test]
async fn missing_items_have_the_error_shapes_of_this_interface() {
    let harness = Harness::new();
    let gone = harness.expect(404, "GET", "/api/session/ses_gone", None).await;
    assert_eq!((&gone["_tag"], &gone["sessionID"]), (&json!("SessionNotFoundError"), &json!("ses_gone")));
    let id = create(&harness).await;
    let gone = harness.expect(404, "GET", &format!("/api/session/{id}/message/msg_gone"), None).await;
    assert_eq!((&gone["_tag"], &gone["messageID"]), (&json!("MessageNotFoundError"), &json!("msg_gone")));
    assert_eq!(gone["sessionID"], id.as_str());
}

#[tokio::test]
async fn an_undo_is_staged_cleared_and_made_final() {
    let harness = Harness::new();
    let id = create(&harness).await;
    let first = say(&harness, &id, "hello").await["data"]["id"].as_str().unwrap().to_owned();
    let path = |what: &str| format!("/api/session/{id}/revert/{what}");
    let staged = harness.post(&path("stage"), json!({ "messageID": first })).await;
    assert_eq!(staged["data"]["messageID"], first.as_str());
    harness.expect(204, "POST", &path("clear"), None).await;
    assert_eq!(harness.get(&format!("/api/session/{id}")).await["data"].get("revert"), None);
    harness.post(&path("stage"), json!({ "messageID": first })).await;
    harness.expect(204, "POST", &path("commit"), None).await;
    assert_eq!(harness.get(&format!("/session/{id}/message")).await, json!([]));
    harness.expect(204, "POST", &path("commit"), None).await;
    let gone = harness.expect(404, "POST", &path("stage"), json!({ "messageID": first })).await;
    assert_eq!(gone["_tag"], "MessageNotFoundError");
}
