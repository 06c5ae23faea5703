//! Progress shown while the agent works.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    harness::{Harness, Setup, place},
    server::Prompt,
};
use crate::{Features, settings};

fn tool(call: &str, title: &str) -> Value {
    json!({
        "type": "tool", "tool": "read", "callID": call,
        "state": { "status": "running", "input": {}, "title": title, "time": { "start": 1 } },
    })
}

async fn working(harness: &mut Harness) -> Prompt {
    let prompt = harness.prompt("work").await;
    harness.server.busy(&prompt.session);
    prompt
}

#[tokio::test]
async fn tools_are_shown_in_one_message_that_the_answer_removes() {
    let mut harness = Harness::new().await;
    let prompt = working(&mut harness).await;
    harness.server.step(&prompt, &[tool("c1", "Read a.rs")]);
    harness.heard("🔧 Read a.rs").await;
    harness.server.step(&prompt, &[tool("c2", "Read b.rs"), tool("c3", "Read c.rs")]);
    harness.server.step(&prompt, &[tool("c3", "Read c.rs")]);
    harness.told(&prompt).await;
    harness.pass(Duration::from_secs(5)).await;
    harness.heard("🔧 Read a.rs\n🔧 Read b.rs\n🔧 Read c.rs").await;
    assert_eq!(harness.chat.count(&place(), "🔧"), 1, "one message, which is edited");
    harness.server.answer(&prompt, "done");
    harness.heard("done").await;
    harness.chat.until_count(&place(), "🔧", 0).await;
}

#[tokio::test]
async fn a_tool_line_is_made_from_the_input() {
    let mut harness = Harness::new().await;
    let prompt = working(&mut harness).await;
    let call = |tool: &str, input: Value| {
        json!({
            "type": "tool", "tool": tool, "callID": tool,
            "state": { "status": "running", "input": input, "time": { "start": 1 } },
        })
    };
    let reading = call("read", json!({ "filePath": "/home/ada/project/README.md" }));
    harness.server.step(&prompt, &[call("question", json!({})), reading]);
    harness.heard("🔧 Reading README.md").await;
    assert_eq!(harness.chat.count(&place(), "question"), 0, "the question itself is shown");
}

#[tokio::test]
async fn without_edits_there_are_single_lines_at_a_limited_rate() {
    fn stiff(features: &mut Features) {
        features.edit = None;
    }
    let mut harness = Harness::with(Setup { features: stiff, ..Setup::default() }).await;
    let prompt = working(&mut harness).await;
    harness.server.step(&prompt, &[tool("c1", "Read a.rs")]);
    harness.heard("🔧 Read a.rs").await;
    harness.server.step(&prompt, &[tool("c2", "Read b.rs"), tool("c3", "Read c.rs")]);
    harness.told(&prompt).await;
    harness.pass(Duration::from_secs(5)).await;
    harness.heard("🔧 Read c.rs").await;
    assert_eq!(harness.chat.count(&place(), "🔧"), 2, "{:?}", harness.texts());
}

#[tokio::test]
async fn silence_leads_to_a_heartbeat() {
    let progress = settings::Progress { heartbeat_ms: 20_000, ..settings::Progress::default() };
    let settings = settings::Router { progress, ..settings::Router::default() };
    let mut harness = Harness::with(Setup { settings, ..Setup::default() }).await;
    working(&mut harness).await;
    harness.settled().await;
    harness.pass(Duration::from_secs(20)).await;
    harness.heard("⏳ Still working… (20 s, 1 of 2 todos done)").await;
}

#[tokio::test]
async fn continuations_and_open_todos_are_shown() {
    let mut harness = Harness::new().await;
    let prompt = working(&mut harness).await;
    let going = json!({
        "sessionID": prompt.session, "messageID": "msg_next", "source": "todo", "episode": prompt.id, "n": 1, "limit": 10, "open": 2,
    });
    harness.server.publish("continuation.started", &going);
    harness.heard("🔁 2 todos are still open, continuing (round 1 of 10)").await;
    harness.server.step(&prompt, &[json!({ "type": "text", "text": "Half of it." })]);
    let stopped =
        json!({ "sessionID": prompt.session, "reason": "stagnant", "rounds": 1, "limit": 10, "open": 2 });
    harness.server.publish("continuation.stopped", &stopped);
    harness.server.idle(&prompt.session);
    harness
        .heard("Half of it.\n\n📋 2 todos are still open. The agent stopped after round 1 of 10 because it made no progress.")
        .await;
}

#[tokio::test]
async fn without_progress_only_the_answer_is_sent() {
    let progress = settings::Progress { enabled: false, ..settings::Progress::default() };
    let settings = settings::Router { progress, ..settings::Router::default() };
    let mut harness = Harness::with(Setup { settings, ..Setup::default() }).await;
    let prompt = working(&mut harness).await;
    harness.server.step(&prompt, &[tool("c1", "Read a.rs")]);
    harness.told(&prompt).await;
    harness.server.answer(&prompt, "done");
    harness.heard("done").await;
    harness.rest().await;
    assert_eq!(harness.texts(), ["done"]);
}

#[tokio::test]
async fn an_answer_can_be_watched_while_it_grows_and_stays_where_it_is() {
    fn streaming(features: &mut Features) {
        features.streaming = true;
    }
    let settings = settings::Router { stream: true, ..settings::Router::default() };
    let mut harness = Harness::with(Setup { settings, features: streaming, ..Setup::default() }).await;
    let prompt = working(&mut harness).await;
    harness.server.step(&prompt, &[json!({ "type": "text", "text": "It begins" })]);
    harness.pass(Duration::from_secs(1)).await;
    harness.heard("It begins").await;
    harness.server.step(&prompt, &[json!({ "type": "text", "text": "and ends." })]);
    harness.server.idle(&prompt.session);
    harness.heard("It begins\n\nand ends.").await;
    harness.rest().await;
    assert_eq!(harness.texts(), ["It begins\n\nand ends."]);
}

#[tokio::test]
async fn a_turn_that_ends_while_a_question_is_open_is_reported() {
    let mut harness = Harness::new().await;
    let prompt = working(&mut harness).await;
    let question = json!([{ "question": "Sure?", "header": "", "options": [] }]);
    harness.server.ask_question("que_1", &prompt.session, &question);
    harness.heard("Sure?").await;
    harness.said().await;
    harness.server.lose_request("que_1");
    harness.server.answer(&prompt, "never mind");
    harness.heard("never mind").await;
    harness.heard("No longer needs an answer.").await;
}
