//! Permissions and questions.

use insta::assert_json_snapshot;
use protocol::agent_event::Answer;
use serde_json::{Value, json};

use crate::{
    script::echo,
    world::{World, prompt},
};

/// Starts a turn that makes a request, and returns the request.
async fn asked(world: &World, session: &str, what: &str) -> Value {
    world.submit(session, what).await;
    world.until(&format!("/{what}"), |list| *list != json!([])).await[0].clone()
}

async fn said(world: &World, session: &str) -> String {
    world.idle().await;
    let list = world.get(&format!("/session/{session}/message")).await;
    let last = list.as_array().unwrap().last().unwrap();
    last["parts"][1]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_permission_is_listed_and_answered_once() {
    let world = World::new();
    let id = world.session().await;
    let request = asked(&world, &id, "permission").await;
    assert_json_snapshot!(world.redact(&request));
    assert_eq!(world.get("/permission?directory=/").await, json!([]));
    let path = format!("/permission/{}/reply", request["id"].as_str().unwrap());
    let reply = json!({ "reply": "reject", "message": "rather not" });
    assert_eq!(world.post(&path, reply.clone()).await, json!(true));
    let message = Some("rather not".to_owned());
    assert_eq!(said(&world, &id).await, echo(&Answer::Rejected { message }));
    assert_eq!(world.expect(404, "POST", &path, reply).await["_tag"], "PermissionNotFoundError");
    assert_eq!(world.get("/permission").await, json!([]));
}

#[tokio::test]
async fn the_older_form_checks_the_session() {
    let world = World::new();
    let (id, other) = (world.session().await, world.session().await);
    let request = asked(&world, &id, "permission").await;
    let request = request["id"].as_str().unwrap();
    let reply = json!({ "response": "always" });
    let stranger = format!("/session/{other}/permissions/{request}");
    assert_eq!(world.expect(404, "POST", &stranger, reply.clone()).await["_tag"], "PermissionNotFoundError");
    let nobody = format!("/session/ses_nobody/permissions/{request}");
    assert_eq!(world.expect(404, "POST", &nobody, reply.clone()).await["name"], "NotFoundError");
    let path = format!("/session/{id}/permissions/{request}");
    world.expect(400, "POST", &path, json!({ "response": "maybe" })).await;
    assert_eq!(world.post(&path, reply).await, json!(true));
    assert_eq!(said(&world, &id).await, echo(&Answer::Always));
}

#[tokio::test]
async fn approvals_are_listed_until_they_are_removed() {
    let world = World::on_disk();
    let id = world.session().await;
    let request = asked(&world, &id, "permission").await;
    let path = format!("/permission/{}/reply", request["id"].as_str().unwrap());
    world.post(&path, json!({ "reply": "always" })).await;
    let saved = world.get("/api/permission/saved").await;
    let approval = &saved["data"][0];
    let directory = world.directory();
    let (action, resource) = ("bash", "touch *");
    let project = approval["projectID"].as_str().unwrap();
    let psv = approval["id"].as_str().unwrap();
    assert!(psv.starts_with("psv_"), "{psv}");
    let expected = json!({
        "id": psv, "projectID": project, "directory": directory, "action": action, "resource": resource,
    });
    assert_eq!(saved, json!({ "data": [expected] }));
    assert_eq!(world.get(&format!("/api/permission/saved?projectID={project}")).await, saved);
    assert_eq!(world.get("/api/permission/saved?projectID=other").await, json!({ "data": [] }));
    for _ in 0..2 {
        world.expect(204, "DELETE", &format!("/api/permission/saved/{psv}"), None).await;
        assert_eq!(world.get("/api/permission/saved").await, json!({ "data": [] }));
    }
    world.expect(400, "DELETE", "/api/permission/saved/per_1", None).await;
}

#[tokio::test]
async fn requests_of_children_are_listed_with_their_root() {
    let world = World::new();
    let root = world.session().await;
    let child = |parent: String| {
        let world = &world;
        async move {
            let session = world.post("/session", json!({ "parentID": parent })).await;
            session["id"].as_str().unwrap().to_owned()
        }
    };
    let grandchild = child(child(root.clone()).await).await;
    for kind in ["permission", "question"] {
        let request = asked(&world, &grandchild, kind).await;
        assert_eq!(request["sessionID"], json!(grandchild));
        assert_eq!(request["rootID"], json!(root));
        for session in [&root, &grandchild] {
            assert_eq!(world.get(&format!("/{kind}?session={session}")).await, json!([request]));
        }
        let stranger = world.session().await;
        assert_eq!(world.get(&format!("/{kind}?session={stranger}")).await, json!([]));
        world.expect(200, "POST", &format!("/session/{grandchild}/abort"), None).await;
    }
}

#[tokio::test]
async fn a_question_is_listed_and_answered() {
    let world = World::new();
    let id = world.session().await;
    let request = asked(&world, &id, "question").await;
    assert_json_snapshot!(world.redact(&request));
    let path = format!("/question/{}/reply", request["id"].as_str().unwrap());
    world.expect(400, "POST", &path, json!({ "answers": ["Tea"] })).await;
    assert_eq!(world.post(&path, json!({ "answers": [["Tea"]] })).await, json!(true));
    assert_eq!(said(&world, &id).await, echo(&Answer::Answers(vec![vec!["Tea".into()]])));
    let gone = world.expect(404, "POST", &path, json!({ "answers": [["Tea"]] })).await;
    assert_eq!(gone["_tag"], "QuestionNotFoundError");
}

#[tokio::test]
async fn a_question_can_be_dismissed() {
    let world = World::new();
    let id = world.session().await;
    let request = asked(&world, &id, "question").await;
    let path = format!("/question/{}/reject", request["id"].as_str().unwrap());
    assert_eq!(world.expect(200, "POST", &path, None).await, json!(true));
    assert_eq!(said(&world, &id).await, echo(&Answer::Rejected { message: None }));
    assert_eq!(world.expect(404, "POST", &path, None).await["_tag"], "QuestionNotFoundError");
    assert_eq!(world.get("/question").await, json!([]));
}

#[tokio::test]
async fn an_abort_withdraws_pending_requests() {
    let world = World::new();
    let id = world.session().await;
    asked(&world, &id, "permission").await;
    world.expect(200, "POST", &format!("/session/{id}/abort"), None).await;
    assert_eq!(world.get("/permission").await, json!([]));
    world.post(&format!("/session/{id}/message"), prompt("hello")).await;
}

#[tokio::test]
async fn other_clients_learn_the_deadline_and_the_origin_of_an_answer() {
    let world = World::new();
    let session = world.session().await;
    let mut stream = world.sessions.subscribe(engine::bus::Scope::default(), None).await.unwrap();
    world.submit(&session, "permission").await;
    let open = world.until("/permission", |list| *list != json!([])).await;
    assert!(open[0]["deadline"].as_i64().unwrap() > 1_700_000_000_000, "{open}");
    let call = axum::http::Request::post(format!("/permission/{}/reply", open[0]["id"].as_str().unwrap()))
        .header("content-type", "application/json")
        .header("x-baton-client", format!(" web {}", "x".repeat(100)))
        .body(axum::body::Body::from(json!({ "reply": "once" }).to_string()))
        .unwrap();
    assert_eq!(world.send(call).await.status, 200);
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
