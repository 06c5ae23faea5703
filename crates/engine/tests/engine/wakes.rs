//! Agents that start turns by themselves, and notes that they keep about a session.

use protocol::{AgentEvent, Message, message::Origin};

use crate::harness::{Harness, say};

#[tokio::test(start_paused = true)]
async fn an_agent_that_wakes_up_gets_a_turn() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        let asked = turn.message(&turn.prompt).await.unwrap().unwrap();
        let Message::User(user) = &asked.info else { panic!("{asked:?}") };
        assert_eq!(user.origin(), Some(Origin::Wake));
        say(turn, "the task is done").await
    });
    let woken = harness.sessions.wake(&session.id, "a task ended").await.unwrap();
    woken.end.unwrap().await.unwrap();
    harness.drain();
    let story = harness.story(&session.id);
    for word in ["BUSY", "IDLE(completed)", "session.idle"] {
        assert_eq!(story.iter().filter(|it| *it == word).count(), 1, "{story:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn notes_of_a_runner_survive_turns_and_crashes() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        assert_eq!(turn.session.note("agent"), None);
        for note in ["one", "two", "two"] {
            turn.emit(AgentEvent::Noted { name: "agent".into(), note: note.into() }).await;
        }
        say(turn, "noted").await
    });
    harness.submit(&session, "first").await.end.unwrap().await.unwrap();
    let harness = harness.crash().await;
    harness.script(|turn| async move {
        assert_eq!(turn.session.note("agent"), Some("two"));
        assert_eq!(turn.session.note("another"), None);
        say(turn, "remembered").await
    });
    harness.submit(&session, "second").await.end.unwrap().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn runners_are_notified_of_deleted_sessions() {
    let harness = Harness::new().await;
    let session = harness.session().await;
    harness.sessions.abort(&session.id).await.unwrap();
    assert!(harness.runner.forgotten.lock().unwrap().is_empty());
    harness.sessions.delete(&session.id).await.unwrap();
    assert_eq!(*harness.runner.forgotten.lock().unwrap(), [session.id]);
}
