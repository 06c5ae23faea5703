//! Requests are measured before they are sent.

use std::sync::Arc;

use llm::Purpose;
use protocol::message::ModelRef;
use protocol::prompt::PromptInput;
use protocol::{EndReason, EventBody, Message, Session};

use super::harness::{Harness, Responder};
use super::scripted_model::{Reply, ScriptedModel};
use crate::{CompactionOptions, Options, size};

/// The limit of the model `small`, 32,000 tokens, in bytes of an estimate that is off by two.
const MOST_BYTES: u64 = 32_000 * 4 * 2;

/// Adds messages that need no answer.
async fn submit_all(harness: &Harness, session: &Session, texts: impl IntoIterator<Item = String>) {
    for text in texts {
        let mut input = PromptInput { no_reply: Some(true), ..PromptInput::text(text) };
        input.model = Some(ModelRef::new("demo", "small"));
        harness.sessions.submit(&session.id, input).await.unwrap();
    }
}

async fn ask(harness: &mut Harness, session: &Session, text: &str) {
    harness.seen.clear();
    harness.submit(session, "small", text).await;
    harness.until_idle(session, Responder::AllowOnce).await;
}

fn idles(harness: &Harness, session: &Session) -> usize {
    let idle = |body: &EventBody| matches!(body, EventBody::SessionIdle(it) if it.session_id == session.id);
    harness.seen.iter().filter(|event| idle(&event.body)).count()
}

async fn error(harness: &Harness, session: &Session) -> String {
    let last = harness.messages(session).await.pop().unwrap();
    let Message::Assistant(last) = last.info else { panic!("{last:?}") };
    last.error.unwrap().message().to_owned()
}

fn lines(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|at| format!("{at} {}", "x".repeat(20_000)))
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_does_not_fit_is_summarised_before_it_is_sent() {
    let model = ScriptedModel::new([Reply::text("Done.")]);
    let mut harness = Harness::with_model(Arc::new(model.clone()), Options::default()).await;
    let session = harness.session().await;
    submit_all(&harness, &session, lines(100)).await;
    ask(&mut harness, &session, "what now?").await;
    assert_eq!((harness.end(&session), idles(&harness, &session)), (EndReason::Completed, 1));
    let (summaries, steps) = (model.requests(Purpose::Compaction), model.requests(Purpose::Turn));
    assert_eq!((summaries.len(), steps.len()), (1, 1));
    for request in summaries.iter().chain(&steps) {
        assert!(size::request(request).bytes < MOST_BYTES, "{:?}", size::request(request));
    }
    assert!(model.conversations()[0].contains("what now?"), "{}", model.conversations()[0]);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_is_larger_than_the_context_is_not_sent() {
    let model = ScriptedModel::new([Reply::text("Hello."), Reply::text("Done.")]);
    let mut harness = Harness::with_model(Arc::new(model.clone()), Options::default()).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    ask(&mut harness, &session, &"x".repeat(400_000)).await;
    assert_eq!((harness.end(&session), idles(&harness, &session)), (EndReason::Error, 1));
    assert_eq!(model.requests(Purpose::Turn).len(), 1, "only the first prompt was sent");
    assert!(model.requests(Purpose::Compaction).is_empty());
    insta::assert_snapshot!(error(&harness, &session).await, @"The prompt is too large for the model: about 100000 tokens in 400000 bytes; small takes at most 32000. Shorten it, attach less, or choose a model with a larger context.");
}

#[tokio::test(start_paused = true)]
async fn without_summaries_a_conversation_that_cannot_fit_is_not_sent() {
    let off = CompactionOptions { auto: false, ..CompactionOptions::default() };
    let model = ScriptedModel::default();
    let options = Options { compaction: off, ..Options::default() };
    let mut harness = Harness::with_model(Arc::new(model.clone()), options).await;
    let session = harness.session().await;
    submit_all(&harness, &session, lines(100)).await;
    ask(&mut harness, &session, "what now?").await;
    assert_eq!((harness.end(&session), idles(&harness, &session)), (EndReason::Error, 1));
    assert!(model.requests(Purpose::Turn).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_lies_further_back_than_is_read_is_still_known() {
    let model = ScriptedModel::default().summaries([Reply::text("The first summary.")]);
    let mut harness = Harness::with_model(Arc::new(model.clone()), Options::default()).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    let mut request = PromptInput::compaction(false);
    request.model = Some(ModelRef::new("demo", "small"));
    harness.sessions.prompt(&session.id, request).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    submit_all(&harness, &session, lines(100)).await;
    ask(&mut harness, &session, "what now?").await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let summaries = model.requests(Purpose::Compaction);
    let question = format!("{:?}", summaries[1].messages);
    assert!(question.contains("The first summary."), "{}", &question[..200]);
}

#[tokio::test(start_paused = true)]
async fn tool_results_count_before_the_next_step() {
    let call = Reply::call("c1", "read", serde_json::json!({ "filePath": "long.txt" })).using(15_000, 100);
    let model = ScriptedModel::new([call, Reply::text("Done.")]);
    let mut harness = Harness::with_model(Arc::new(model.clone()), Options::default()).await;
    let line = format!("{}\n", "x".repeat(99));
    std::fs::write(harness.project.path().join("long.txt"), line.repeat(400)).unwrap();
    let session = harness.turn("small", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    assert_eq!(model.requests(Purpose::Compaction).len(), 1, "15,000 and 10,000 are more than 24,000");
}
