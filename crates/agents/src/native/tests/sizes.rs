//! Requests are measured before they are sent.

use std::sync::Arc;

use llm::Purpose;
use protocol::message::ModelRef;
use protocol::prompt::PromptInput;
use protocol::{EndReason, EventBody, Message, Session};

use super::harness::{Person, World};
use super::puppet::{Puppet, Reply};
use crate::native::{CompactionOptions, Options, size};

/// The limit of the model `small`, 32,000 tokens, in bytes of an estimate that is off by two.
const MOST_BYTES: u64 = 32_000 * 4 * 2;

/// Adds messages that need no answer.
async fn say(world: &World, session: &Session, texts: impl IntoIterator<Item = String>) {
    for text in texts {
        let mut input = PromptInput { no_reply: Some(true), ..PromptInput::text(text) };
        input.model = Some(ModelRef::new("demo", "small"));
        world.sessions.submit(&session.id, input).await.unwrap();
    }
}

async fn ask(world: &mut World, session: &Session, text: &str) {
    world.seen.clear();
    world.submit(session, "small", text).await;
    world.until_idle(session, Person::Agrees).await;
}

fn idles(world: &World, session: &Session) -> usize {
    let idle = |body: &EventBody| matches!(body, EventBody::SessionIdle(it) if it.session_id == session.id);
    world.seen.iter().filter(|event| idle(&event.body)).count()
}

async fn error(world: &World, session: &Session) -> String {
    let last = world.messages(session).await.pop().unwrap();
    let Message::Assistant(last) = last.info else { panic!("{last:?}") };
    last.error.unwrap().message().to_owned()
}

fn lines(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|at| format!("{at} {}", "x".repeat(20_000)))
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_does_not_fit_is_summarised_before_it_is_sent() {
    let puppet = Puppet::new([Reply::text("Done.")]);
    let mut world = World::around(Arc::new(puppet.clone()), Options::default()).await;
    let session = world.session().await;
    say(&world, &session, lines(100)).await;
    ask(&mut world, &session, "what now?").await;
    assert_eq!((world.end(&session), idles(&world, &session)), (EndReason::Completed, 1));
    let (summaries, steps) = (puppet.asked(Purpose::Compaction), puppet.asked(Purpose::Turn));
    assert_eq!((summaries.len(), steps.len()), (1, 1));
    for request in summaries.iter().chain(&steps) {
        assert!(size::request(request).bytes < MOST_BYTES, "{:?}", size::request(request));
    }
    assert!(puppet.heard()[0].contains("what now?"), "{}", puppet.heard()[0]);
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_is_larger_than_the_context_is_not_sent() {
    let puppet = Puppet::new([Reply::text("Hello."), Reply::text("Done.")]);
    let mut world = World::around(Arc::new(puppet.clone()), Options::default()).await;
    let session = world.turn("small", Person::Agrees).await;
    ask(&mut world, &session, &"x".repeat(400_000)).await;
    assert_eq!((world.end(&session), idles(&world, &session)), (EndReason::Error, 1));
    assert_eq!(puppet.asked(Purpose::Turn).len(), 1, "only the first prompt was sent");
    assert!(puppet.asked(Purpose::Compaction).is_empty());
    insta::assert_snapshot!(error(&world, &session).await, @"The prompt is too large for the model: about 100000 tokens in 400000 bytes; small takes at most 32000. Shorten it, attach less, or choose a model with a larger context.");
}

#[tokio::test(start_paused = true)]
async fn without_summaries_a_conversation_that_cannot_fit_is_not_sent() {
    let off = CompactionOptions { auto: false, ..CompactionOptions::default() };
    let puppet = Puppet::default();
    let options = Options { compaction: off, ..Options::default() };
    let mut world = World::around(Arc::new(puppet.clone()), options).await;
    let session = world.session().await;
    say(&world, &session, lines(100)).await;
    ask(&mut world, &session, "what now?").await;
    assert_eq!((world.end(&session), idles(&world, &session)), (EndReason::Error, 1));
    assert!(puppet.asked(Purpose::Turn).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_summary_that_lies_further_back_than_is_read_is_still_known() {
    let puppet = Puppet::default().summaries([Reply::text("The first summary.")]);
    let mut world = World::around(Arc::new(puppet.clone()), Options::default()).await;
    let session = world.turn("small", Person::Agrees).await;
    let mut wish = PromptInput::compaction(false);
    wish.model = Some(ModelRef::new("demo", "small"));
    world.sessions.prompt(&session.id, wish).await.unwrap();
    world.until_idle(&session, Person::Agrees).await;
    say(&world, &session, lines(100)).await;
    ask(&mut world, &session, "what now?").await;
    assert_eq!(world.end(&session), EndReason::Completed);
    let summaries = puppet.asked(Purpose::Compaction);
    let question = format!("{:?}", summaries[1].messages);
    assert!(question.contains("The first summary."), "{}", &question[..200]);
}

#[tokio::test(start_paused = true)]
async fn tool_results_count_before_the_next_step() {
    let call = Reply::call("c1", "read", serde_json::json!({ "filePath": "long.txt" })).using(15_000, 100);
    let puppet = Puppet::new([call, Reply::text("Done.")]);
    let mut world = World::around(Arc::new(puppet.clone()), Options::default()).await;
    let line = format!("{}\n", "x".repeat(99));
    std::fs::write(world.project.path().join("long.txt"), line.repeat(400)).unwrap();
    let session = world.turn("small", Person::Agrees).await;
    assert_eq!(world.end(&session), EndReason::Completed);
    assert_eq!(puppet.asked(Purpose::Compaction).len(), 1, "15,000 and 10,000 are more than 24,000");
}
