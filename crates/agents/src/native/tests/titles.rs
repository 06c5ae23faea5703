//! Titles: generated while the first step runs, and waited for only briefly.

use std::sync::Arc;
use std::time::Duration;

use llm::{Error, Purpose};
use protocol::message::ModelRef;
use protocol::prompt::{PromptInput, SessionInput};
use protocol::{EndReason, EventBody, Session};
use tokio::time::Instant;

use super::harness::{Person, World};
use super::puppet::{Puppet, Reply, short};
use crate::native::{Options, limits};

async fn world(puppet: &Puppet) -> World {
    World::around(Arc::new(puppet.clone()), Options::default()).await
}

async fn title(world: &World, session: &Session) -> String {
    world.sessions.get(&session.id).await.unwrap().title
}

#[tokio::test(start_paused = true)]
async fn a_first_prompt_gives_the_session_its_title() {
    let puppet = Puppet::new([Reply::text("Hello.").after(Duration::from_secs(5))]);
    let mut world = world(&puppet).await;
    let session = world.turn("any", Person::Agrees).await;
    assert_eq!(title(&world, &session).await, "A title");
    let told = |event: &protocol::Event| matches!(&event.body, EventBody::SessionUpdated(it) if it.info.title == "A title");
    let titled = world.seen.iter().position(told).unwrap();
    let spoken = world.seen.iter().position(|event| matches!(event.body, EventBody::PartDelta(_))).unwrap();
    assert!(titled < spoken, "it does not wait for the step");
    let asked = &puppet.asked(Purpose::Title)[0];
    assert_eq!(short(&asked.messages), "person: please");
    assert_eq!(asked.sampling.temperature, Some(0.5));
    assert!(asked.system.starts_with("You name conversations."));
}

#[tokio::test(start_paused = true)]
async fn the_demo_finds_titles_too() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.submit(&session, "simple", "Fix the flaky test in the parser\n\nIt fails on Mondays.").await;
    world.until_idle(&session, Person::Agrees).await;
    assert_eq!(title(&world, &session).await, "Fix the flaky test in the parser");
}

#[tokio::test(start_paused = true)]
async fn small_things_are_for_the_small_model() {
    let puppet = Puppet::default();
    let small = Options { small_model: Some(ModelRef::new("demo", "tiny")), ..Options::default() };
    let mut world = World::around(Arc::new(puppet.clone()), small).await;
    world.turn("large", Person::Agrees).await;
    assert_eq!(puppet.asked(Purpose::Title)[0].model.model, "tiny");
    assert_eq!(puppet.asked(Purpose::Turn)[0].model.model, "large");
}

#[tokio::test(start_paused = true)]
async fn only_the_first_prompt_of_a_session_without_a_title_counts() {
    let puppet = Puppet::default();
    let mut world = world(&puppet).await;
    let session = world.turn("any", Person::Agrees).await;
    world.submit(&session, "any", "more").await;
    world.until_idle(&session, Person::Agrees).await;
    assert_eq!(puppet.asked(Purpose::Title).len(), 1);

    let named = SessionInput { title: Some("Mine".into()), ..SessionInput::default() };
    let child = SessionInput { parent_id: Some(session.id.clone()), ..SessionInput::default() };
    for input in [named, child] {
        let other = world.sessions.create(world.home(), input).await.unwrap();
        world.submit(&other, "any", "hello").await;
        world.until_idle(&other, Person::Agrees).await;
    }
    let forked = world.sessions.fork(&session.id, None).await.unwrap();
    world.submit(&forked, "any", "hello").await;
    world.until_idle(&forked, Person::Agrees).await;
    assert_eq!(puppet.asked(Purpose::Title).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn synthetic_text_makes_no_title() {
    let puppet = Puppet::default();
    let mut world = world(&puppet).await;
    let session = world.session().await;
    let mut input = PromptInput::text("from the server");
    if let protocol::prompt::PartInputBody::Text(text) = &mut input.parts[0].body {
        text.synthetic = Some(true);
    }
    world.sessions.submit(&session.id, input).await.unwrap();
    world.until_idle(&session, Person::Agrees).await;
    assert!(puppet.asked(Purpose::Title).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_title_that_does_not_come_is_given_up() {
    let refused = Reply::refused(Error::Other("no titles today".into()));
    for (bad, wait) in [(Reply::silence(), limits::TITLE_LINGER), (refused, Duration::ZERO)] {
        let puppet = Puppet::default().title(bad);
        let mut world = world(&puppet).await;
        let start = Instant::now();
        let session = world.turn("any", Person::Agrees).await;
        assert_eq!(world.end(&session), EndReason::Completed);
        assert_eq!(start.elapsed().as_secs(), wait.as_secs());
        assert!(title(&world, &session).await.starts_with("New session - "));
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_title_still_counts_before_the_turn_is_over() {
    let puppet = Puppet::default().title(Reply::text("Late").after(Duration::from_secs(2)));
    let mut world = world(&puppet).await;
    let session = world.turn("any", Person::Agrees).await;
    assert_eq!(title(&world, &session).await, "Late");
}

#[tokio::test(start_paused = true)]
async fn an_aborted_turn_does_not_wait_for_its_title() {
    let puppet = Puppet::new([Reply::text("Hello.")]).title(Reply::silence());
    let mut world = world(&puppet).await;
    let session = world.session().await;
    world.submit(&session, "any", "hi").await;
    world.until(|body| matches!(body, EventBody::PartDelta(_))).await;
    let start = Instant::now();
    world.sessions.abort(&session.id).await.unwrap();
    assert!(start.elapsed() < Duration::from_millis(100));
}
