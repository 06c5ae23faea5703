//! Answers that must fit a schema.

use std::sync::Arc;

use llm::{Choice, Purpose};
use protocol::message::{ModelRef, OutputFormat};
use protocol::prompt::PromptInput;
use protocol::{AssistantMessage, EndReason, Message, Rest, ToolState};
use serde_json::{Value, json};

use super::harness::{Harness, Responder};
use super::scripted_model::{Reply, ScriptedModel};
use crate::Options;

fn prompt(retries: Option<u32>) -> PromptInput {
    let schema = json!({
        "$schema": "x", "type": "object", "properties": { "answer": { "type": "integer" } }, "required": ["answer"],
    });
    let Value::Object(schema) = schema else { panic!("an object") };
    PromptInput {
        model: Some(ModelRef::new("demo", "any")),
        format: Some(OutputFormat::JsonSchema { schema, retry_count: retries, extra: Rest::NONE }),
        ..PromptInput::text("what is the answer?")
    }
}

fn give(id: &str, value: Value) -> Reply {
    Reply::call(id, "StructuredOutput", value)
}

async fn turn(model: &ScriptedModel, input: PromptInput) -> (Harness, EndReason, AssistantMessage, String) {
    let mut harness = Harness::with_model(Arc::new(model.clone()), Options::default()).await;
    let session = harness.session().await;
    harness.sessions.submit(&session.id, input).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    let last = harness.messages(&session).await.pop().unwrap();
    let Message::Assistant(last) = last.info else { panic!("{last:?}") };
    let (end, story) = (harness.end(&session), harness.story(&session.id));
    (harness, end, *last, story)
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_that_fits_ends_the_turn() {
    let model = ScriptedModel::new([
        Reply::call("c1", "list", json!({})),
        give("c2", json!({ "answer": "many" })),
        give("c3", json!({ "answer": 42 })).and_call("c4", "StructuredOutput", json!({ "answer": 43 })),
        Reply::text("never said"),
    ]);
    let (_, end, last, story) = turn(&model, prompt(None)).await;
    assert_eq!(end, EndReason::Completed);
    assert_eq!(last.structured, Some(json!({ "answer": 42 })));
    insta::assert_snapshot!(story);
    let asked = &model.requests(Purpose::Turn)[0];
    assert_eq!(asked.choice, Choice::Required);
    let tool = asked.tools.iter().find(|tool| tool.name == "StructuredOutput").unwrap();
    assert!(tool.schema.get("$schema").is_none());
    assert!(asked.tools.len() > 3, "the other tools are there as well");
    assert!(asked.system.contains("StructuredOutput"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_words_is_an_error() {
    let (_, end, last, _) = turn(&ScriptedModel::new([Reply::text("42")]), prompt(None)).await;
    assert_eq!(end, EndReason::Error);
    let error = serde_json::to_value(last.error.unwrap()).unwrap();
    assert_eq!((&error["name"], &error["data"]["retries"]), (&json!("StructuredOutputError"), &json!(0)));
}

#[tokio::test(start_paused = true)]
async fn answers_that_never_fit_are_ended() {
    for (retries, answers) in [(None, 3), (Some(0), 1)] {
        let model = ScriptedModel::new((0..9).map(|at| give(&format!("c{at}"), json!({}))));
        let (harness, end, last, _) = turn(&model, prompt(retries)).await;
        assert_eq!((end, model.conversations().len()), (EndReason::Error, answers));
        assert!(last.error.unwrap().message().contains("did not fit"));
        drop(harness);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_schema_there_is_no_such_tool() {
    let model = ScriptedModel::new([give("c", json!({ "answer": 1 })), Reply::text("ok")]);
    let mut harness = Harness::with_model(Arc::new(model.clone()), Options::default()).await;
    let session = harness.turn("any", Responder::AllowOnce).await;
    assert_eq!(model.requests(Purpose::Turn)[0].choice, Choice::Free);
    let tools = harness.tools(&session).await;
    assert!(
        matches!(&tools[0], ToolState::Completed(it) if it.output.contains("unavailable tool")),
        "{tools:?}"
    );
}
