//! Calls generated from the document, valid and invalid: the server never fails or hangs, and every response
//! matches the document.

mod calls;
mod values;

use serde_json::{Value, json};
use testkit::dice::Dice;

use crate::{
    document::operations,
    harness::{Answer, Harness, prompt},
    schema::Schemas,
};
use calls::{Call, Known};

/// Another seed generates other calls; a failure names the call.
const SEED: u64 = 20_261_115;

/// Creates items for calls to refer to.
async fn furnish(harness: &Harness, path: &str) -> Known {
    workspace::git::Repository::init(harness.tree.path()).await.unwrap();
    std::fs::write(harness.tree.path().join("hello"), "hello\n").unwrap();
    let session = harness.session().await;
    let answer = harness.post(&format!("/session/{session}/message"), prompt("hello")).await;
    let (asking, other) = (harness.session().await, harness.session().await);
    harness.submit(&asking, "permission").await;
    let permission = harness.until("/permission", |list| *list != json!([])).await;
    harness.submit(&other, "question").await;
    let question = harness.until("/question", |list| *list != json!([])).await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (session, message) = if path.contains("/queue/") {
        waiting(harness).await
    } else {
        (session, text(&answer["info"]["id"]))
    };
    Known {
        session,
        asking,
        posing: other,
        message,
        part: answer["parts"][1].clone(),
        permission: text(&permission[0]["id"]),
        question: text(&question[0]["id"]),
        terminal: if path.contains("{ptyID}") { terminal(harness).await } else { String::new() },
        worktree: if path.contains("/worktree") { worktree(harness).await } else { String::new() },
        directory: harness.directory(),
    }
}

/// A prompt that waits, and its session.
async fn waiting(harness: &Harness) -> (String, String) {
    let session = harness.session().await;
    harness.submit(&session, "wait").await;
    harness.submit(&session, "hello").await;
    let queue = harness.get(&format!("/session/{session}/queue")).await;
    (session, queue[0]["messageID"].as_str().unwrap().to_owned())
}

async fn worktree(harness: &Harness) -> String {
    harness.commit().await;
    let made = harness.post("/experimental/worktree", json!({})).await;
    made["directory"].as_str().unwrap().to_owned()
}

/// A terminal costs a process, so one is created only where it is needed.
async fn terminal(harness: &Harness) -> String {
    let made = harness.post("/pty", json!({ "command": "/bin/cat" })).await;
    made["id"].as_str().unwrap().to_owned()
}

fn judge(schemas: &Schemas<'_>, operation: &Value, call: &Call, answer: &Answer) {
    let status = answer.status.as_u16();
    let shown = format!("{call:?}\nanswered {status} {}", String::from_utf8_lossy(&answer.bytes));
    assert!(status < 500 || status == 501, "a failure of the server: {shown}");
    let Some(described) = operation["responses"].get(status.to_string()) else {
        // A mangled path matches no route.
        assert!(status == 404 && answer.json()["name"] == "NotFoundError", "not in the document: {shown}");
        return;
    };
    if status >= 400 {
        let error = answer.json();
        let message = error.get("message").or_else(|| error["data"].get("message"));
        let message = message.and_then(Value::as_str).unwrap_or_default();
        assert!(!message.is_empty(), "says nothing: {shown}");
    }
    if let Some(schema) = described["content"].get("application/json").map(|content| &content["schema"])
        && let Err(why) = schemas.check(schema, &answer.json())
    {
        panic!("{why}: {shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_breaks_a_server_with_its_store_in_memory() {
    play(Harness::new, 150).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_breaks_a_server_with_its_store_on_disk() {
    play(Harness::on_disk, 50).await;
}

/// Sends `calls` calls of every operation, each operation on its own server.
async fn play(build: fn() -> Harness, calls: usize) {
    let document = server::openapi::document();
    let schemas = Schemas::of(&document);
    let mut dice = Dice::new(SEED);
    let mut successes = Vec::new();
    for (method, path, operation) in operations(&document) {
        let harness = build();
        let known = furnish(&harness, &path).await;
        let _busybody = path.ends_with("/next").then(|| harness.busybody());
        let mut good = 0;
        for _ in 0..calls {
            let call = Call::invent(&mut dice, &schemas, &known, &method, &path, operation);
            let answer = harness.send(call.build()).await;
            judge(&schemas, operation, &call, &answer);
            good += usize::from(answer.status.is_success());
        }
        // These need a WebSocket, a login plugin, a list of trusted directories, a password or a fleet, which this
        // server does not have.
        let trusts = path == "/trust" && method != "GET";
        let wants_more = trusts
            || path == "/web/session/{browserID}"
            || path.starts_with("/baton/nodes/{name}/")
            || path.ends_with("/connect")
            || path.contains("/oauth/");
        let closed = operation["responses"].get("501").is_some() || wants_more;
        successes.push((format!("{method} {path}"), good, closed));
        let fresh = harness.session().await;
        harness.post(&format!("/session/{fresh}/message"), prompt("hello")).await;
        assert_eq!(harness.get("/global/health").await["healthy"], true);
    }
    // Operations whose generated calls never succeed would remain untested.
    let never: Vec<_> = successes.iter().filter(|(_, good, closed)| *good == 0 && !closed).collect();
    assert!(never.is_empty(), "no call got through: {never:?}");
}

#[tokio::test]
async fn a_thousand_and_one_parts_are_too_many_and_a_thousand_are_not() {
    let harness = Harness::new();
    let session = harness.session().await;
    let path = format!("/session/{session}/message");
    let parts = |count: usize| json!({ "noReply": true, "parts": vec![json!({ "type": "text", "text": "x" }); count] });
    harness.expect(200, "POST", &path, parts(1_000)).await;
    let refused = harness.expect(400, "POST", &path, parts(1_001)).await;
    insta::assert_json_snapshot!(refused);
    // About as many parts as fit into a body.
    harness.expect(400, "POST", &path, parts(300_000)).await;
    assert_eq!(harness.get(&path).await.as_array().unwrap().len(), 1);
}
