//! Reverting a part of a conversation, and undoing that.

use engine::{Error, ports::Page, session::Turn};
use protocol::{
    AgentEvent, EventBody, MessageId, PartBody, PartId, Session, TurnEnd, message::Finish, part::PatchPart,
    prompt::PromptInput,
};

use crate::harness::{Harness, finish};

/// A turn with one step that changed files.
async fn work(turn: Turn, patch: PatchPart) -> TurnEnd {
    turn.emit(AgentEvent::step_started()).await;
    turn.emit(AgentEvent::TextStarted { key: "0".into() }).await;
    turn.emit(AgentEvent::TextDelta { key: "0".into(), delta: "done".into() }).await;
    let AgentEvent::StepFinished { reason, tokens, cost, snapshot, error, .. } = finish(Finish::Stop) else {
        panic!("not a finish")
    };
    turn.emit(AgentEvent::StepFinished { reason, tokens, cost, snapshot, error, patch: Some(patch) }).await;
    TurnEnd::Completed
}

/// A session with two turns: the first sets `a` to 1, the second sets it to 2 and adds `b`.
async fn two_turns(harness: &mut Harness) -> (Session, Vec<MessageId>) {
    let session = harness.session().await;
    harness.file_history.files.lock().unwrap().insert("a".into(), "0".into());
    let mut prompts = Vec::new();
    for (file, content) in [("a", "1"), ("b", "x")] {
        let patch = harness.file_history.change(file, content);
        harness.script(move |turn| work(turn, patch));
        let submitted = harness.submit(&session, file).await;
        prompts.push(submitted.message.info.id().clone());
        harness.until_idle(&session).await;
    }
    (session, prompts)
}

async fn count(harness: &Harness, session: &Session) -> usize {
    harness.sessions.messages(&session.id, Page::default()).await.unwrap().len()
}

async fn revert(harness: &Harness, session: &Session, to: &MessageId) -> Session {
    harness.sessions.revert(&session.id, to.clone(), None).await.unwrap()
}

#[tokio::test]
async fn a_revert_restores_files_and_hides_messages_until_it_is_undone() {
    let mut harness = Harness::new().await;
    let (session, prompts) = two_turns(&mut harness).await;
    assert_eq!(harness.file_history.shown(), "a=1 b=x");
    let reverted = revert(&harness, &session, &prompts[1]).await;
    assert_eq!(harness.file_history.shown(), "a=1", "what the second turn did is undone, the first is not");
    let mark = reverted.revert.unwrap();
    assert_eq!((&mark.message_id, mark.diff.as_deref()), (&prompts[1], Some("b: x -> ")));
    assert!(mark.snapshot.is_some());
    assert_eq!(count(&harness, &session).await, 4, "nothing is removed yet");
    harness.drain();
    let diffs: Vec<&EventBody> = harness
        .seen
        .iter()
        .map(|event| &event.body)
        .filter(|body| matches!(body, EventBody::SessionDiff(_)))
        .collect();
    let [EventBody::SessionDiff(diff)] = diffs[..] else { panic!("{diffs:?}") };
    assert_eq!(diff.diff[0].patch.as_deref(), Some("a: 0 -> 1"), "what is left of the session's changes");

    let back = harness.sessions.unrevert(&session.id).await.unwrap();
    assert_eq!((back.revert, harness.file_history.shown().as_str()), (None, "a=1 b=x"));
    assert_eq!(back.summary.unwrap().files, 2);
    let again = harness.sessions.unrevert(&session.id).await.unwrap();
    assert_eq!(again.revert, None, "there is nothing to take back twice");
}

#[tokio::test]
async fn a_mark_can_be_moved_in_both_directions() {
    let mut harness = Harness::new().await;
    let (session, prompts) = two_turns(&mut harness).await;
    let first = revert(&harness, &session, &prompts[1]).await.revert.unwrap();
    let second = revert(&harness, &session, &prompts[0]).await.revert.unwrap();
    assert_eq!(harness.file_history.shown(), "a=0");
    assert_eq!(second.snapshot, first.snapshot, "what was saved first is what there is to go back to");
    let third = revert(&harness, &session, &prompts[1]).await.revert.unwrap();
    assert_eq!((third.message_id, harness.file_history.shown().as_str()), (prompts[1].clone(), "a=1"));
    harness.sessions.unrevert(&session.id).await.unwrap();
    assert_eq!(harness.file_history.shown(), "a=1 b=x");
}

#[tokio::test]
async fn the_commit_that_accepts_the_next_prompt_deletes_reverted_messages() {
    let mut harness = Harness::new().await;
    let (session, prompts) = two_turns(&mut harness).await;
    revert(&harness, &session, &prompts[1]).await;
    harness.drain();
    harness.seen.clear();
    harness.script(|turn| async move {
        let heard = turn.history().await.unwrap();
        assert_eq!(heard.len(), 3, "the model hears the first turn and the new prompt");
        TurnEnd::Completed
    });
    harness.submit(&session, "something else").await;
    harness.until_idle(&session).await;
    let story = harness.story(&session.id);
    assert_eq!(
        story[..5],
        ["message.removed", "message.removed", "user", "text", "prompt.queued"],
        "{story:?}"
    );
    assert_eq!(harness.sessions.get(&session.id).await.unwrap().revert, None);
    assert_eq!(harness.file_history.shown(), "a=1");
    assert!(matches!(harness.sessions.message(&session.id, &prompts[1]).await, Err(Error::NotFound { .. })));
}

#[tokio::test]
async fn an_answer_can_be_reverted_from_a_part_on() {
    let mut harness = Harness::new().await;
    let (session, _) = two_turns(&mut harness).await;
    let messages = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    let part: PartId = messages[3]
        .parts
        .iter()
        .find(|part| matches!(part.body, PartBody::StepFinish(_)))
        .map(|part| part.id.clone())
        .unwrap();
    let answer = messages[3].info.id().clone();
    let reverted = harness.sessions.revert(&session.id, answer.clone(), Some(part.clone())).await.unwrap();
    assert_eq!(reverted.revert.unwrap().part_id, Some(part));
    assert_eq!(harness.file_history.shown(), "a=1");
    let fork = harness.sessions.fork(&session.id, None).await.unwrap();
    let copied = harness.sessions.messages(&fork.id, Page::default()).await.unwrap();
    assert_eq!(copied[3].parts.len(), 2, "a fork has what is not hidden");
    let input = PromptInput { no_reply: Some(true), ..PromptInput::text("next") };
    harness.sessions.submit(&session.id, input).await.unwrap();
    let left = harness.sessions.message(&session.id, &answer).await.unwrap();
    assert_eq!(left.parts.len(), 2, "its first parts stay: {:?}", left.parts);
    assert_eq!(count(&harness, &session).await, 5);
}

#[tokio::test]
async fn a_busy_session_cannot_be_reverted() {
    let mut harness = Harness::new().await;
    let (session, prompts) = two_turns(&mut harness).await;
    harness.script(|turn| async move {
        turn.cancelled().await;
        TurnEnd::Cancelled
    });
    harness.submit(&session, "wait").await;
    let refused = harness.sessions.revert(&session.id, prompts[0].clone(), None).await;
    assert!(matches!(refused, Err(Error::Busy(_))), "{refused:?}");
    assert!(matches!(harness.sessions.unrevert(&session.id).await, Err(Error::Busy(_))));
    harness.sessions.abort(&session.id).await.unwrap();
    let unknown = harness.sessions.revert(&session.id, "msg_unknown".parse().unwrap(), None).await;
    assert!(matches!(unknown, Err(Error::NotFound { kind: "Message", .. })), "{unknown:?}");
}

#[tokio::test]
async fn files_that_cannot_be_restored_are_left_as_they_were() {
    let mut harness = Harness::new().await;
    let (session, prompts) = two_turns(&mut harness).await;
    harness.file_history.fail(1);
    let refused = harness.sessions.revert(&session.id, prompts[0].clone(), None).await;
    assert!(refused.unwrap_err().to_string().contains("the disk is gone"));
    assert_eq!(harness.file_history.shown(), "a=1 b=x");
    assert_eq!(harness.sessions.get(&session.id).await.unwrap().revert, None);
}

#[tokio::test]
async fn a_crash_during_a_revert_leaves_the_way_back() {
    let mut harness = Harness::new().await;
    let (session, prompts) = two_turns(&mut harness).await;
    // All restores fail, even the one that puts files back: like a crash after the mark is stored and while files
    // change.
    harness.file_history.fail(2);
    harness.sessions.revert(&session.id, prompts[0].clone(), None).await.unwrap_err();
    assert_ne!(harness.file_history.shown(), "a=1 b=x");
    let harness = harness.crash().await;
    let mark = harness.sessions.get(&session.id).await.unwrap().revert.unwrap();
    assert!(mark.snapshot.is_some());
    harness.sessions.unrevert(&session.id).await.unwrap();
    assert_eq!(harness.file_history.shown(), "a=1 b=x");
}
