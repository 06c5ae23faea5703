//! Forks of long sessions.

use std::time::Duration;

use engine::{
    Error,
    memory::Fault,
    ports::{Listing, Page, StoreFailure},
};
use protocol::{Message, MessageWithParts, Part, Session, prompt::PromptInput};

use crate::harness::Harness;

/// More bytes than one commit of a copy takes.
const LONG: usize = 900_000;

async fn long_session(harness: &Harness) -> Session {
    let session = harness.session().await;
    for name in ["a", "b", "c", "d", "e"] {
        let input = PromptInput { no_reply: Some(true), ..PromptInput::text(name.repeat(LONG)) };
        harness.sessions.submit(&session.id, input).await.unwrap();
    }
    session
}

async fn messages(harness: &Harness, session: &Session) -> Vec<MessageWithParts> {
    harness.sessions.messages(&session.id, Page::default()).await.unwrap()
}

fn texts(messages: &[MessageWithParts]) -> Vec<&str> {
    messages.iter().flat_map(|message| &message.parts).filter_map(Part::text).collect()
}

#[tokio::test]
async fn a_long_session_is_copied_whole() {
    let mut harness = Harness::new().await;
    let session = long_session(&harness).await;
    harness.submit(&session, "and now?").await;
    harness.until_idle(&session).await;
    let original = messages(&harness, &session).await;
    let fork = harness.sessions.fork(&session.id, None).await.unwrap();
    let copy = messages(&harness, &fork).await;
    assert_eq!(texts(&copy), texts(&original));
    assert!(copy.iter().zip(&original).all(|(copy, original)| copy.info.id() != original.info.id()));
    let Message::Assistant(answer) = &copy[6].info else { panic!("{copy:?}") };
    assert_eq!(answer.parent_id, *copy[5].info.id(), "an answer belongs to the copy of its prompt");
    let cut = harness.sessions.fork(&session.id, Some(original[4].info.id())).await.unwrap();
    assert_eq!(texts(&messages(&harness, &cut).await), texts(&original[..4]));
    // The fork is a session like any other.
    harness.submit(&fork, "go on").await;
    harness.until_idle(&fork).await;
}

#[tokio::test]
async fn half_a_copy_is_deleted_again() {
    let harness = Harness::new().await;
    let session = long_session(&harness).await;
    harness.memory.faults().pass(1);
    harness.memory.faults().next(1, Fault::Refuse(StoreFailure::Full));
    let refused = harness.sessions.fork(&session.id, None).await;
    assert!(
        matches!(&refused, Err(Error::Store(error)) if error.failure == StoreFailure::Full),
        "{refused:?}"
    );
    let left = harness.sessions.list(Listing::default()).await.unwrap();
    assert_eq!(left.iter().map(|left| &left.id).collect::<Vec<_>>(), [&session.id]);
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_is_being_made_is_busy() {
    let harness = Harness::new().await;
    let session = long_session(&harness).await;
    harness.memory.faults().pass(1);
    harness.memory.faults().next(1, Fault::Delay(Duration::from_mins(1)));
    let sessions = harness.sessions.clone();
    let forking = tokio::spawn(async move { sessions.fork(&session.id, None).await });
    let copy = loop {
        let known = harness.sessions.list(Listing::default()).await.unwrap();
        if let Some(copy) = known.into_iter().find(|session| session.title.ends_with("(fork #1)")) {
            break copy;
        }
        tokio::task::yield_now().await;
    };
    let refused = harness.sessions.submit(&copy.id, PromptInput::text("too early")).await;
    assert!(matches!(&refused, Err(Error::Busy(id)) if *id == copy.id), "{refused:?}");
    let fork = forking.await.unwrap().unwrap();
    assert_eq!(messages(&harness, &fork).await.len(), 5);
    harness.sessions.submit(&fork.id, PromptInput::text("now")).await.unwrap();
}
