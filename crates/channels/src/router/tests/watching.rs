//! Progress shown while the agent works.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    server::Prompt,
    world::{Setup, World, place},
};
use crate::{Abilities, settings};

fn tool(call: &str, title: &str) -> Value {
    json!({
        "type": "tool", "tool": "read", "callID": call,
        "state": { "status": "running", "input": {}, "title": title, "time": { "start": 1 } },
    })
}

async fn working(world: &mut World) -> Prompt {
    let prompt = world.prompt("work").await;
    world.server.busy(&prompt.session);
    prompt
}

#[tokio::test]
async fn tools_are_shown_in_one_message_that_the_answer_removes() {
    let mut world = World::new().await;
    let prompt = working(&mut world).await;
    world.server.step(&prompt, &[tool("c1", "Read a.rs")]);
    world.heard("🔧 Read a.rs").await;
    world.server.step(&prompt, &[tool("c2", "Read b.rs"), tool("c3", "Read c.rs")]);
    world.server.step(&prompt, &[tool("c3", "Read c.rs")]);
    world.told(&prompt).await;
    world.pass(Duration::from_secs(5)).await;
    world.heard("🔧 Read a.rs\n🔧 Read b.rs\n🔧 Read c.rs").await;
    assert_eq!(world.chat.count(&place(), "🔧"), 1, "one message, which is edited");
    world.server.answer(&prompt, "done");
    world.heard("done").await;
    world.chat.until_count(&place(), "🔧", 0).await;
}

#[tokio::test]
async fn a_tool_line_is_made_from_the_input() {
    let mut world = World::new().await;
    let prompt = working(&mut world).await;
    let call = |tool: &str, input: Value| {
        json!({
            "type": "tool", "tool": tool, "callID": tool,
            "state": { "status": "running", "input": input, "time": { "start": 1 } },
        })
    };
    let reading = call("read", json!({ "filePath": "/home/ada/project/README.md" }));
    world.server.step(&prompt, &[call("question", json!({})), reading]);
    world.heard("🔧 Reading README.md").await;
    assert_eq!(world.chat.count(&place(), "question"), 0, "the question itself is shown");
}

#[tokio::test]
async fn without_edits_there_are_single_lines_at_a_limited_rate() {
    fn stiff(abilities: &mut Abilities) {
        abilities.edit = None;
    }
    let mut world = World::with(Setup { abilities: stiff, ..Setup::default() }).await;
    let prompt = working(&mut world).await;
    world.server.step(&prompt, &[tool("c1", "Read a.rs")]);
    world.heard("🔧 Read a.rs").await;
    world.server.step(&prompt, &[tool("c2", "Read b.rs"), tool("c3", "Read c.rs")]);
    world.told(&prompt).await;
    world.pass(Duration::from_secs(5)).await;
    world.heard("🔧 Read c.rs").await;
    assert_eq!(world.chat.count(&place(), "🔧"), 2, "{:?}", world.texts());
}

#[tokio::test]
async fn silence_leads_to_a_heartbeat() {
    let progress = settings::Progress { heartbeat_ms: 20_000, ..settings::Progress::default() };
    let settings = settings::Router { progress, ..settings::Router::default() };
    let mut world = World::with(Setup { settings, ..Setup::default() }).await;
    working(&mut world).await;
    world.settled().await;
    world.pass(Duration::from_secs(20)).await;
    world.heard("⏳ Still working… (20 s, 1 of 2 todos done)").await;
}

#[tokio::test]
async fn continuations_and_open_todos_are_shown() {
    let mut world = World::new().await;
    let prompt = working(&mut world).await;
    let going = json!({
        "sessionID": prompt.session, "messageID": "msg_next", "source": "todo", "episode": prompt.id, "n": 1, "limit": 10, "open": 2,
    });
    world.server.publish("continuation.started", &going);
    world.heard("🔁 2 todos are still open, continuing (round 1 of 10)").await;
    world.server.step(&prompt, &[json!({ "type": "text", "text": "Half of it." })]);
    let stopped =
        json!({ "sessionID": prompt.session, "reason": "stagnant", "rounds": 1, "limit": 10, "open": 2 });
    world.server.publish("continuation.stopped", &stopped);
    world.server.idle(&prompt.session);
    world
        .heard("Half of it.\n\n📋 2 todos are still open. The agent stopped after round 1 of 10 because nothing moved on.")
        .await;
}

#[tokio::test]
async fn without_progress_only_the_answer_is_sent() {
    let progress = settings::Progress { enabled: false, ..settings::Progress::default() };
    let settings = settings::Router { progress, ..settings::Router::default() };
    let mut world = World::with(Setup { settings, ..Setup::default() }).await;
    let prompt = working(&mut world).await;
    world.server.step(&prompt, &[tool("c1", "Read a.rs")]);
    world.told(&prompt).await;
    world.server.answer(&prompt, "done");
    world.heard("done").await;
    world.rest().await;
    assert_eq!(world.texts(), ["done"]);
}

#[tokio::test]
async fn an_answer_can_be_watched_while_it_grows_and_stays_where_it_is() {
    fn streaming(abilities: &mut Abilities) {
        abilities.streaming = true;
    }
    let settings = settings::Router { stream: true, ..settings::Router::default() };
    let mut world = World::with(Setup { settings, abilities: streaming, ..Setup::default() }).await;
    let prompt = working(&mut world).await;
    world.server.step(&prompt, &[json!({ "type": "text", "text": "It begins" })]);
    world.pass(Duration::from_secs(1)).await;
    world.heard("It begins").await;
    world.server.step(&prompt, &[json!({ "type": "text", "text": "and ends." })]);
    world.server.idle(&prompt.session);
    world.heard("It begins\n\nand ends.").await;
    world.rest().await;
    assert_eq!(world.texts(), ["It begins\n\nand ends."]);
}

#[tokio::test]
async fn a_turn_that_ends_while_a_question_is_open_is_reported() {
    let mut world = World::new().await;
    let prompt = working(&mut world).await;
    let question = json!([{ "question": "Sure?", "header": "", "options": [] }]);
    world.server.ask_question("que_1", &prompt.session, &question);
    world.heard("Sure?").await;
    world.said().await;
    world.server.lose_request("que_1");
    world.server.answer(&prompt, "never mind");
    world.heard("never mind").await;
    world.heard("No longer needs an answer.").await;
}
