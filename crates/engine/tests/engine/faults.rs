//! Short failures of the store: nothing that was acknowledged is lost. Longer outages are in `outages`.

use engine::{Error, memory::faults::Fault, ports::Failure};
use protocol::{Message, prompt::PromptInput};

use crate::harness::World;

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_the_prompt_and_the_next_one_works() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.memory.faults().next(1, Fault::Refuse(Failure::Full));
    let refused = world.sessions.submit(&session.id, PromptInput::text("x")).await;
    assert!(matches!(&refused, Err(Error::Store(error)) if error.failure == Failure::Full), "{refused:?}");
    world.drain();
    assert_eq!(world.story(&session.id), ["session.created"], "nothing was promised");
    let answer = world.sessions.prompt(&session.id, PromptInput::text("y")).await.unwrap();
    assert!(matches!(answer.info, Message::Assistant(_)));
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_in_a_turn_is_waited_out() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.memory.faults().pass(2); // the prompt and its start
    world.memory.faults().next(2, Fault::Refuse(Failure::Unavailable));
    world.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    world.drain();
    assert!(world.story(&session.id).contains(&"IDLE(completed)".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_lost_acknowledgement_does_not_lose_or_double_the_prompt() {
    let mut world = World::new().await;
    let session = world.session().await;
    let prompt = PromptInput { message_id: Some("msg_once".parse().unwrap()), ..PromptInput::text("x") };
    world.memory.faults().next(1, Fault::LoseAcknowledgement);
    assert!(world.sessions.submit(&session.id, prompt.clone()).await.is_err());
    let answer = world.sessions.prompt(&session.id, prompt).await.unwrap();
    assert!(matches!(answer.info, Message::Assistant(_)));
    world.drain();
    let story = world.story(&session.id);
    assert_eq!(story.iter().filter(|word| *word == "session.idle").count(), 1, "{story:?}");
}
