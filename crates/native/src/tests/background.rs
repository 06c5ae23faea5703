//! Subagents that work while their parent's turn goes on.

use std::sync::Arc;

use protocol::request::PermissionReply;
use protocol::{EndReason, EventBody, Message, PermissionId, Session, SessionId, ToolState};
use serde_json::{Value, json};

use super::harness::Harness;
use super::scripted_model::{Reply, ScriptedModel};
use crate::{Options, limits};

fn task(about: usize) -> Value {
    json!({ "description": "look", "prompt": format!("look at {about}"), "subagent_type": "general", "background": true })
}

/// A parent and a child in its background that both wait for a permission, so that the order of their model calls
/// is determined.
async fn both_waiting(replies: impl IntoIterator<Item = Reply>) -> (Harness, Session, [PermissionId; 2]) {
    let command = |text: &str| json!({ "command": text, "description": "test" });
    let begin = [
        Reply::call("t", "task", task(0)).and_call("b", "bash", command("make parent")),
        Reply::call("b", "bash", command("make child")),
    ];
    let model = ScriptedModel::new(begin.into_iter().chain(replies));
    let mut harness = Harness::with_model(Arc::new(model), Options::default()).await;
    let session = harness.session().await;
    harness.submit(&session, "small", "please").await;
    for _ in 0..2 {
        harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    }
    let waiting = harness.sessions.permissions(None).await.unwrap();
    let of = |parent: bool| {
        let one = waiting.iter().find(|request| (request.session_id == session.id) == parent).unwrap();
        assert_eq!(request_root(one), &session.id);
        one.id.clone()
    };
    let ids = [of(true), of(false)];
    (harness, session, ids)
}

fn request_root(request: &protocol::request::PermissionRequest) -> &SessionId {
    request.root_id.as_ref().unwrap_or(&request.session_id)
}

async fn refuse(harness: &Harness, id: &PermissionId) {
    let reply = harness.sessions.reply_permission(id, PermissionReply::Reject, Some("not now".into()));
    reply.await.unwrap();
}

/// Waits until a session's model has written this text.
async fn until_said(harness: &mut Harness, session: &Session, text: &str) {
    let id = session.id.clone();
    let said = |body: &EventBody| match body {
        EventBody::PartUpdated(it) => it.session_id == id && it.part.text() == Some(text),
        _ => false,
    };
    harness.until(said).await;
}

/// Returns all text for a session's model that the user did not write.
async fn reports(harness: &Harness, session: &Session) -> Vec<String> {
    let messages = harness.messages(session).await;
    let synthetic = messages
        .iter()
        .filter(|message| matches!(&message.info, Message::User(user) if user.continues().is_some()));
    synthetic.flat_map(|message| &message.parts).filter_map(|part| part.text().map(str::to_owned)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_turn_waits_for_its_background_tasks_and_takes_prompts_meanwhile() {
    let replies = ["first", "second", "the report", "heard it"].map(Reply::text);
    let (mut harness, session, [parents, childs]) = both_waiting(replies).await;
    let tools = harness.tools(&session).await;
    let ToolState::Completed(call) = &tools[0] else { panic!("{tools:?}") };
    assert!(call.output.contains("state=\"running\""), "{}", call.output);
    assert_eq!(call.metadata["background"], json!(true));
    refuse(&harness, &parents).await;
    until_said(&mut harness, &session, "first").await;
    harness.submit(&session, "small", "and?").await;
    until_said(&mut harness, &session, "second").await;
    assert!(reports(&harness, &session).await.is_empty());
    refuse(&harness, &childs).await;
    let id = session.id.clone();
    harness.until(|body| matches!(body, EventBody::SessionIdle(idle) if idle.session_id == id)).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let told = reports(&harness, &session).await;
    let child = &harness.sessions.children(&session.id).await.unwrap()[0];
    assert_eq!(told.len(), 1);
    let report = format!(
        "<task id=\"{}\" state=\"completed\">\n<task_result>\nthe report\n</task_result>\n</task>",
        child.id
    );
    assert!(told[0].ends_with(&report), "{}", told[0]);
    let last = harness.messages(&session).await.pop().unwrap();
    assert!(last.parts.iter().any(|part| part.text() == Some("heard it")));
    assert_eq!(harness.end(child), EndReason::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_abort_ends_background_tasks() {
    let (mut harness, session, [parents, _]) = both_waiting([Reply::text("first")]).await;
    refuse(&harness, &parents).await;
    until_said(&mut harness, &session, "first").await;
    harness.sessions.abort(&session.id).await.unwrap();
    let id = session.id.clone();
    harness.until(|body| matches!(body, EventBody::SessionIdle(idle) if idle.session_id == id)).await;
    let child = &harness.sessions.children(&session.id).await.unwrap()[0];
    assert_eq!((harness.end(&session), harness.end(child)), (EndReason::Aborted, EndReason::Aborted));
    assert!(harness.sessions.permissions(None).await.unwrap().is_empty());
    assert!(harness.sessions.statuses(None).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn background_tasks_are_limited() {
    let more = (1..=limits::BACKGROUND).fold(Reply::call("0", "task", task(0)), |reply, number| {
        reply.and_call(&number.to_string(), "task", task(number))
    });
    let mut harness = Harness::with_model(Arc::new(ScriptedModel::new([more])), Options::default()).await;
    let session = harness.session().await;
    harness.submit(&session, "small", "please").await;
    let id = session.id.clone();
    harness.until(|body| matches!(body, EventBody::SessionIdle(idle) if idle.session_id == id)).await;
    let tools = harness.tools(&session).await;
    let refused = tools.iter().filter(|state| matches!(state, ToolState::Error(_))).count();
    assert_eq!((tools.len(), refused), (limits::BACKGROUND + 1, 1));
    assert_eq!(reports(&harness, &session).await.len(), limits::BACKGROUND);
}
