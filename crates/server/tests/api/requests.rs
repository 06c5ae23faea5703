//! Permissions and questions.

use insta::assert_json_snapshot;
use protocol::agent_event::Answer;
use serde_json::{Value, json};

use crate::{
    harness::{Harness, prompt},
    script::echo,
};

/// Starts a turn that makes a request, and returns the request.
async fn asked(harness: &Harness, session: &str, what: &str) -> Value {
    harness.submit(session, what).await;
    harness.until(&format!("/{what}"), |list| *list != json!([])).await[0].clone()
}

async fn said(harness: &Harness, session: &str) -> String {
    harness.idle().await;
    let list = harness.get(&format!("/session/{session}/message")).await;
    let last = list.as_array().unwrap().last().unwrap();
    last["parts"][1]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_permission_is_listed_and_answered_once() {
    let harness = Harness::new();
    let id = harness.session().await;
    let request = asked(&harness, &id, "permission").await;
    assert_json_snapshot!(harness.redact(&request));
    assert_eq!(harness.get("/permission?directory=/").await, json!([]));
    let path = format!("/permission/{}/reply", request["id"].as_str().unwrap());
    let reply = json!({ "reply": "reject", "message": "rather not" });
    assert_eq!(harness.post(&path, reply.clone()).await, json!(true));
    let message = Some("rather not".to_owned());
    assert_eq!(said(&harness, &id).await, echo(&Answer::Rejected { message }));
    assert_eq!(harness.expect(404, "POST", &path, reply).await["_tag"], "PermissionNotFoundError");
    assert_eq!(harness.get("/permission").await, json!([]));
}

#[tokio::test]
async fn the_older_form_checks_the_session() {
    let harness = Harness::new();
    let (id, other) = (harness.session().await, harness.session().await);
    let request = asked(&harness, &id, "permission").await;
    let request = request["id"].as_str().unwrap();
    let reply = json!({ "response": "always" });
    let stranger = format!("/session/{other}/permissions/{request}");
    assert_eq!(
        harness.expect(404, "POST", &stranger, reply.clone()).await["_tag"],
        "PermissionNotFoundError"
    );
    let nobody = format!("/session/ses_nobody/permissions/{request}");
    assert_eq!(harness.expect(404, "POST", &nobody, reply.clone()).await["name"], "NotFoundError");
    let path = format!("/session/{id}/permissions/{request}");
    harness.expect(400, "POST", &path, json!({ "response": "maybe" })).await;
    assert_eq!(harness.post(&path, reply).await, json!(true));
    assert_eq!(said(&harness, &id).await, echo(&Answer::Always));
}

#[tokio::test]
async fn approvals_are_listed_until_they_are_removed() {
    let harness = Harness::on_disk();
    let id = harness.session().await;
    let request = asked(&harness, &id, "permission").await;
    let path = format!("/permission/{}/reply", request["id"].as_str().unwrap());
    harness.post(&path, json!({ "reply": "always" })).await;
    let saved = harness.get("/api/permission/saved").await;
    let approval = &saved["data"][0];
    let directory = harness.directory();
    let (action, resource) = ("bash", "touch *");
    let project = approval["projectID"].as_str().unwrap();
    let psv = approval["id"].as_str().unwrap();
    assert!(psv.starts_with("psv_"), "{psv}");
    let expected = json!({
        "id": psv, "projectID": project, "directory": directory, "action": action, "resource": resource,
    });
    assert_eq!(saved, json!({ "data": [expected] }));
    assert_eq!(harness.get(&format!("/api/permission/saved?projectID={project}")).await, saved);
    assert_eq!(harness.get("/api/permission/saved?projectID=other").await, json!({ "data": [] }));
    for _ in 0..2 {
        harness.expect(204, "DELETE", &format!("/api/permission/saved/{psv}"), None).await;
        assert_eq!(harness.get("/api/permission/saved").await, json!({ "data": [] }));
    }
    harness.expect(400, "DELETE", "/api/permission/saved/per_1", None).await;
}

#[tokio::test]
async fn requests_of_children_are_listed_with_their_root() {
    let harness = Harness::new();
    let root = harness.session().await;
    let child = |parent: String| {
        let harness = &harness;
        async move {
            let session = harness.post("/session", json!({ "parentID": parent })).await;
            session["id"].as_str().unwrap().to_owned()
        }
    };
    let grandchild = child(child(root.clone()).await).await;
    for kind in ["permission", "question"] {
        let request = asked(&harness, &grandchild, kind).await;
        assert_eq!(request["sessionID"], json!(grandchild));
        assert_eq!(request["rootID"], json!(root));
        for session in [&root, &grandchild] {
            assert_eq!(harness.get(&format!("/{kind}?session={session}")).await, json!([request]));
        }
        let stranger = harness.session().await;
        assert_eq!(harness.get(&format!("/{kind}?session={stranger}")).await, json!([]));
        harness.expect(200, "POST", &format!("/session/{grandchild}/abort"), None).await;
    }
}

#[tokio::test]
async fn a_question_is_listed_and_answered() {
    let harness = Harness::new();
    let id = harness.session().await;
    let request = asked(&harness, &id, "question").await;
    assert_json_snapshot!(harness.redact(&request));
    let path = format!("/question/{}/reply", request["id"].as_str().unwrap());
    harness.expect(400, "POST", &path, json!({ "answers": ["Tea"] })).await;
    assert_eq!(harness.post(&path, json!({ "answers": [["Tea"]] })).await, json!(true));
    assert_eq!(said(&harness, &id).await, echo(&Answer::Answers(vec![vec!["Tea".into()]])));
    let gone = harness.expect(404, "POST", &path, json!({ "answers": [["Tea"]] })).await;
    assert_eq!(gone["_tag"], "QuestionNotFoundError");
}

#[tokio::test]
async fn a_question_can_be_dismissed() {
    let harness = Harness::new();
    let id = harness.session().await;
    let request = asked(&harness, &id, "question").await;
    let path = format!("/question/{}/reject", request["id"].as_str().unwrap());
    assert_eq!(harness.expect(200, "POST", &path, None).await, json!(true));
    assert_eq!(said(&harness, &id).await, echo(&Answer::Rejected { message: None }));
    assert_eq!(harness.expect(404, "POST", &path, None).await["_tag"], "QuestionNotFoundError");
    assert_eq!(harness.get("/question").await, json!([]));
}

#[tokio::test]
async fn an_abort_withdraws_pending_requests() {
    let harness = Harness::new();
    let id = harness.session().await;
    asked(&harness, &id, "permission").await;
    harness.expect(200, "POST", &format!("/session/{id}/abort"), None).await;
    assert_eq!(harness.get("/permission").await, json!([]));
    harness.post(&format!("/session/{id}/message"), prompt("hello")).await;
}

#[tokio::test]
async fn other_clients_learn_the_deadline_and_the_origin_of_an_answer() {
    let harness = Harness::new();
    let session = harness.session().await;
    let mut stream = harness.sessions.subscribe(engine::bus::Scope::default(), None).await.unwrap();
    harness.submit(&session, "permission").await;
    let open = harness.until("/permission", |list| *list != json!([])).await;
    assert!(open[0]["deadline"].as_i64().unwrap() > 1_700_000_000_000, "{open}");
    let call = axum::http::Request::post(format!("/permission/{}/reply", open[0]["id"].as_str().unwrap()))
        .header("content-type", "application/json")
        .header("x-baton-client", format!(" web {}", "x".repeat(100)))
        .body(axum::body::Body::from(json!({ "reply": "once" }).to_string()))
        .unwrap();
    assert_eq!(harness.send(call).await.status, 200);
    let by = loop {
        let engine::StreamItem::Frames(frames) = stream.next().await.unwrap() else {
            panic!("the stream ended")
        };
        let events = frames.iter().map(|frame| serde_json::from_slice::<Value>(frame.json()).unwrap());
        let mut replies = events.filter(|event| event["type"] == "permission.replied");
        if let Some(reply) = replies.next() {
            break reply["properties"]["by"].clone();
        }
    };
    assert_eq!(by, json!({ "kind": "client", "name": format!("web {}", "x".repeat(60)) }));
}
