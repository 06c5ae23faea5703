//! Titles: generated while the first step runs, and waited for only briefly.

use std::sync::Arc;
use std::time::Duration;

use llm::{Error, Purpose};
use protocol::message::ModelRef;
use protocol::prompt::{PromptInput, SessionInput};
use protocol::{EndReason, EventBody, Session};
use tokio::time::Instant;

use super::harness::{Harness, Responder};
use super::scripted_model::{Reply, ScriptedModel, short};
use crate::{Options, limits};

async fn harness(model: &ScriptedModel) -> Harness {
    Harness::with_model(Arc::new(model.clone()), Options::default()).await
}

async fn title(harness: &Harness, session: &Session) -> String {
    harness.sessions.get(&session.id).await.unwrap().title
}

#[tokio::test(start_paused = true)]
async fn a_first_prompt_gives_the_session_its_title() {
    let model = ScriptedModel::new([Reply::text("Hello.").after(Duration::from_secs(5))]);
    let mut harness = harness(&model).await;
    let session = harness.turn("any", Responder::AllowOnce).await;
    assert_eq!(title(&harness, &session).await, "A title");
    let told = |event: &protocol::Event| matches!(&event.body, EventBody::SessionUpdated(it) if it.info.title == "A title");
    let titled = harness.seen.iter().position(told).unwrap();
    let spoken = harness.seen.iter().position(|event| matches!(event.body, EventBody::PartDelta(_))).unwrap();
    assert!(titled < spoken, "it does not wait for the step");
    let asked = &model.requests(Purpose::Title)[0];
    assert_eq!(short(&asked.messages), "user: please");
    assert_eq!(asked.sampling.temperature, Some(0.5));
    assert!(asked.system.starts_with("You name conversations."));
}

#[tokio::test(start_paused = true)]
async fn the_demo_finds_titles_too() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.submit(&session, "simple", "Fix the flaky test in the parser\n\nIt fails on Mondays.").await;
    harness.until_idle(&session, Responder::AllowOnce).await;
    assert_eq!(title(&harness, &session).await, "Fix the flaky test in the parser");
}

#[tokio::test(start_paused = true)]
async fn titles_use_the_small_model() {
    let model = ScriptedModel::default();
    let small = Options { small_model: Some(ModelRef::new("demo", "tiny")), ..Options::default() };
    let mut harness = Harness::with_model(Arc::new(model.clone()), small).await;
    harness.turn("large", Responder::AllowOnce).await;
    assert_eq!(model.requests(Purpose::Title)[0].model.model, "tiny");
    assert_eq!(model.requests(Purpose::Turn)[0].model.model, "large");
}

#[tokio::test(start_paused = true)]
async fn only_the_first_prompt_of_a_session_without_a_title_counts() {
    let model = ScriptedModel::default();
    let mut harness = harness(&model).await;
    let session = harness.turn("any", Responder::AllowOnce).await;
    harness.submit(&session, "any", "more").await;
    harness.until_idle(&session, Responder::AllowOnce).await;
    assert_eq!(model.requests(Purpose::Title).len(), 1);

    let named = SessionInput { title: Some("Mine".into()), ..SessionInput::default() };
    let child = SessionInput { parent_id: Some(session.id.clone()), ..SessionInput::default() };
    for input in [named, child] {
        let other = harness.sessions.create(harness.home(), input).await.unwrap();
        harness.submit(&other, "any", "hello").await;
        harness.until_idle(&other, Responder::AllowOnce).await;
    }
    let forked = harness.sessions.fork(&session.id, None).await.unwrap();
    harness.submit(&forked, "any", "hello").await;
    harness.until_idle(&forked, Responder::AllowOnce).await;
    assert_eq!(model.requests(Purpose::Title).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn synthetic_text_makes_no_title() {
    let model = ScriptedModel::default();
    let mut harness = harness(&model).await;
    let session = harness.session().await;
    let mut input = PromptInput::text("from the server");
    if let protocol::prompt::PartInputBody::Text(text) = &mut input.parts[0].body {
        text.synthetic = Some(true);
    }
    harness.sessions.submit(&session.id, input).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    assert!(model.requests(Purpose::Title).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_title_that_does_not_come_is_given_up() {
    let refused = Reply::refused(Error::Other("no titles today".into()));
    for (bad, wait) in [(Reply::silence(), limits::TITLE_WAIT), (refused, Duration::ZERO)] {
        let model = ScriptedModel::default().title(bad);
        let mut harness = harness(&model).await;
        let start = Instant::now();
        let session = harness.turn("any", Responder::AllowOnce).await;
        assert_eq!(harness.end(&session), EndReason::Completed);
        assert_eq!(start.elapsed().as_secs(), wait.as_secs());
        assert!(title(&harness, &session).await.starts_with("New session - "));
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_title_still_counts_before_the_turn_is_over() {
    let model = ScriptedModel::default().title(Reply::text("Late").after(Duration::from_secs(2)));
    let mut harness = harness(&model).await;
    let session = harness.turn("any", Responder::AllowOnce).await;
    assert_eq!(title(&harness, &session).await, "Late");
}

#[tokio::test(start_paused = true)]
async fn an_aborted_turn_does_not_wait_for_its_title() {
    let model = ScriptedModel::new([Reply::text("Hello.")]).title(Reply::silence());
    let mut harness = harness(&model).await;
    let session = harness.session().await;
    harness.submit(&session, "any", "hi").await;
    harness.until(|body| matches!(body, EventBody::PartDelta(_))).await;
    let start = Instant::now();
    harness.sessions.abort(&session.id).await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(100));
}
