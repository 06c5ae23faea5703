//! Failed attempts: delays, withdrawn output, and the limit of retries.

use std::sync::Arc;
use std::time::Duration;

use protocol::{EndReason, EventBody, PartBody, SessionStatus};
use tokio::time::Instant;

use super::harness::{Harness, Responder};
use super::scripted_model::{Reply, ScriptedModel};
use crate::Options;

async fn timed(scenario: &str) -> (Harness, protocol::Session, Duration) {
    let mut harness = Harness::new().await;
    let start = Instant::now();
    let session = harness.turn(scenario, Responder::AllowOnce).await;
    let took = start.elapsed();
    (harness, session, took)
}

#[tokio::test(start_paused = true)]
async fn the_providers_retry_delay_is_respected() {
    let (harness, session, took) = timed("retry_429").await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    assert!(took >= Duration::from_millis(3200) && took < Duration::from_millis(3400), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_stays_is_given_up_after_five_retries() {
    let (harness, session, took) = timed("error_500_forever").await;
    assert_eq!(harness.end(&session), EndReason::Error);
    assert_eq!(took.as_secs(), 2 + 4 + 8 + 16 + 30);
}

#[tokio::test(start_paused = true)]
async fn a_retry_delay_of_a_day_ends_the_turn() {
    let (harness, session, took) = timed("retry_after_a_day").await;
    assert_eq!(harness.end(&session), EndReason::Error);
    assert!(took < Duration::from_secs(1), "{took:?}");
    let last = harness.messages(&session).await.pop().unwrap();
    let protocol::Message::Assistant(last) = last.info else { panic!("{last:?}") };
    insta::assert_snapshot!(last.error.unwrap().message(), @"Daily limit reached. The provider accepts no calls until 2026-11-16 06:26 UTC, which is longer than a turn waits. Try again then, or choose another model.");
}

#[tokio::test(start_paused = true)]
async fn a_silent_provider_times_out() {
    let (harness, session, took) = timed("stall_once").await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let deadlines = llm::Deadlines::default();
    assert_eq!(took.as_secs(), deadlines.first_chunk.as_secs() + 2);
    let (harness, session, took) = timed("stall").await;
    assert_eq!(harness.end(&session), EndReason::Error);
    assert_eq!(took.as_secs(), 6 * deadlines.next_chunk.as_secs() + 2 + 4 + 8 + 16 + 30);
}

#[tokio::test(start_paused = true)]
async fn half_an_answer_is_withdrawn_before_the_next_attempt() {
    for scenario in ["midstream_drop", "midstream_error"] {
        let (harness, session, _) = timed(scenario).await;
        let messages = harness.messages(&session).await;
        assert_eq!(messages.len(), 2, "{scenario}");
        let texts: Vec<&str> = messages[1].parts.iter().filter_map(|part| part.text()).collect();
        assert_eq!(texts, ["This answer is about to arrive whole after all."], "{scenario}");
        let starts =
            messages[1].parts.iter().filter(|part| matches!(part.body, PartBody::StepStart(_))).count();
        assert_eq!(starts, 1, "{scenario}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_shows_its_end() {
    let (harness, _, _) = timed("overloaded_529").await;
    let retry = harness.seen.iter().find_map(|event| match &event.body {
        EventBody::SessionStatus(it) => match &it.status {
            SessionStatus::Retry { next, .. } => Some(*next),
            _ => None,
        },
        _ => None,
    });
    assert!(retry.is_some_and(|next| next > 1_794_724_002_000), "{retry:?}");
}

#[tokio::test(start_paused = true)]
async fn a_provider_in_trouble_is_called_six_times_at_most() {
    for (status, wait) in [(500, None), (503, Some("0"))] {
        let refused = refusal(status, wait);
        let model = ScriptedModel::new((0..20).map(|_| Reply::refused(refused.clone())));
        let mut harness = Harness::with_model(Arc::new(model.clone()), Options::default()).await;
        let start = Instant::now();
        let session = harness.turn("any", Responder::AllowOnce).await;
        assert_eq!((harness.end(&session), model.conversations().len()), (EndReason::Error, 6), "{status}");
        assert!(start.elapsed() >= Duration::from_mins(1), "the delays grow");
    }
}

fn refusal(status: u16, retry_after: Option<&str>) -> llm::Error {
    let headers = retry_after.map(|wait| ("retry-after".to_owned(), wait.to_owned())).into_iter().collect();
    llm::Error::Http { status, message: "no".into(), headers, body: String::new() }
}

/// Runs a turn whose model refuses this many calls because of its rate limit.
async fn rate_limited(refused: usize, options: Options) -> (EndReason, usize, Duration) {
    let refusals = (0..refused).map(|_| Reply::refused(refusal(429, Some("0"))));
    let model = ScriptedModel::new(refusals.chain([Reply::text("at last")]));
    let mut harness = Harness::with_model(Arc::new(model.clone()), options).await;
    let start = Instant::now();
    let session = harness.turn("any", Responder::AllowOnce).await;
    (harness.end(&session), model.conversations().len(), start.elapsed())
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_is_waited_for_up_to_the_patience() {
    let (end, calls, took) = rate_limited(12, Options::default()).await;
    assert_eq!((end, calls), (EndReason::Completed, 13), "twelve refusals are less than ten minutes");
    assert_eq!(took.as_secs(), 2 + 4 + 8 + 16 + 8 * 30);

    let (end, calls, took) = rate_limited(100, Options::default()).await;
    assert_eq!((end, took), (EndReason::Error, crate::limits::RATE_LIMIT));
    assert_eq!(calls, 24);

    let short = Options { rate_limit: Duration::from_secs(100), ..Options::default() };
    assert_eq!(rate_limited(100, short).await.2, Duration::from_secs(100));
    let none = Options { retries: 0, ..Options::default() };
    assert_eq!(rate_limited(100, none).await.1, 1, "no retries at all");
}

#[tokio::test(start_paused = true)]
async fn the_number_of_retries_is_configurable() {
    let model = ScriptedModel::new((0..20).map(|_| Reply::refused(llm::Error::Dropped)));
    let mut harness =
        Harness::with_model(Arc::new(model.clone()), Options { retries: 1, ..Options::default() }).await;
    let session = harness.turn("any", Responder::AllowOnce).await;
    assert_eq!((harness.end(&session), model.conversations().len()), (EndReason::Error, 2));
}
