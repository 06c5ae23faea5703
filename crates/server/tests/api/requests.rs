//! Permissions and questions.

use insta::assert_json_snapshot;
use protocol::agent_event::Answer;
use serde_json::{Value, json};

use crate::{
    script::echo,
    world::{World, prompt},
};

/// Starts a turn that asks, and returns what it asks.
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
async fn an_abort_withdraws_what_waits() {
    let world = World::new();
    let id = world.session().await;
    asked(&world, &id, "permission").await;
    world.expect(200, "POST", &format!("/session/{id}/abort"), None).await;
    assert_eq!(world.get("/permission").await, json!([]));
    world.post(&format!("/session/{id}/message"), prompt("hello")).await;
}
