//! Short failures of the store: nothing that was acknowledged is lost. Longer outages are in `outages`.

use engine::{Error, memory::faults::Fault, ports::StoreFailure};
use protocol::{Message, prompt::PromptInput};

use crate::harness::Harness;

#[tokio::test(start_paused = true)]
async fn a_full_disk_refuses_the_prompt_and_the_next_one_works() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.memory.faults().next(1, Fault::Refuse(StoreFailure::Full));
    let refused = harness.sessions.submit(&session.id, PromptInput::text("x")).await;
    assert!(
        matches!(&refused, Err(Error::Store(error)) if error.failure == StoreFailure::Full),
        "{refused:?}"
    );
    harness.drain();
    assert_eq!(harness.story(&session.id), ["session.created"], "nothing was promised");
    let answer = harness.sessions.prompt(&session.id, PromptInput::text("y")).await.unwrap();
    assert!(matches!(answer.info, Message::Assistant(_)));
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_in_a_turn_is_waited_out() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.memory.faults().pass(2); // the prompt and its start
    harness.memory.faults().next(2, Fault::Refuse(StoreFailure::Unavailable));
    harness.sessions.prompt(&session.id, PromptInput::text("x")).await.unwrap();
    harness.drain();
    assert!(harness.story(&session.id).contains(&"IDLE(completed)".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_lost_acknowledgement_does_not_lose_or_double_the_prompt() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let prompt = PromptInput { message_id: Some("msg_once".parse().unwrap()), ..PromptInput::text("x") };
    harness.memory.faults().next(1, Fault::LoseAcknowledgement);
    assert!(harness.sessions.submit(&session.id, prompt.clone()).await.is_err());
    let answer = harness.sessions.prompt(&session.id, prompt).await.unwrap();
    assert!(matches!(answer.info, Message::Assistant(_)));
    harness.drain();
    let story = harness.story(&session.id);
    assert_eq!(story.iter().filter(|word| *word == "session.idle").count(), 1, "{story:?}");
}
