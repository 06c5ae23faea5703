//! Subagents as child sessions: each has its own messages and is idle exactly once.

use protocol::EndReason::{self, Aborted, Blocked, Completed, Error};
use protocol::{EventBody, PartBody, Session, SessionStatus, ToolState};
use serde_json::Value;

use super::*;
use crate::external::harness::SimulatedUser;

/// Shell functions that write messages about subagents. Each subagent is named after the call that started it.
const SUBAGENTS: &str = r#"
agent() {
    say '{"type":"assistant","parent_tool_use_id":'"${4:-null}"',"message":{"id":"'"$1"'","content":[{"type":"tool_use","id":"'"$2"'","name":"Agent","input":{"description":"'"$3"'","prompt":"Do '"$3"'","subagent_type":"general"}}]}}'
}
started() { say '{"type":"system","subtype":"task_started","task_id":"task-'"$1"'","tool_use_id":"'"$1"'","task_type":"local_agent"}'; }
says() {
    say '{"type":"assistant","parent_tool_use_id":"'"$1"'","message":{"id":"'"$2"'","content":[{"type":"text","text":"'"$3"'"}],"usage":{"input_tokens":7,"output_tokens":1}}}'
}
calls() {
    say '{"type":"assistant","parent_tool_use_id":"'"$1"'","message":{"id":"'"$2"'","content":[{"type":"tool_use","id":"'"$3"'","name":"Bash","input":{"command":"make"}}]}}'
}
returns() {
    say '{"type":"user","parent_tool_use_id":'"${3:-null}"',"message":{"content":[{"type":"tool_result","tool_use_id":"'"$1"'","content":[{"type":"text","text":"'"$2"'"}]}]},"tool_use_result":{"status":"completed","content":[{"type":"text","text":"'"$2"'"}]}}'
}
fails() {
    say '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"'"$1"'","is_error":true,"content":"'"$2"'"}]}}'
}
launched() {
    say '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"'"$1"'","content":"launched"}]},"tool_use_result":{"isAsync":true,"status":"async_launched"}}'
}
ended() { say '{"type":"system","subtype":"task_updated","task_id":"task-'"$1"'","patch":{"status":"'"${2:-completed}"'"}}'; }
notified() { say '{"type":"system","subtype":"task_notification","task_id":"task-'"$1"'","status":"completed","summary":"done"}'; }
wants() {
    say '{"type":"control_request","request_id":"'"$1"'","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"make"},"tool_use_id":"'"$3"'","agent_id":"task-'"$2"'"}}'
}
"#;

fn scene(acts: &str) -> Fake {
    script(&format!("{SUBAGENTS}\n{acts}"))
}

/// A session and those below it, by their titles.
async fn family(harness: &Harness, session: &Session) -> Vec<Session> {
    let (mut found, mut next) = (Vec::new(), vec![session.clone()]);
    while let Some(session) = next.pop() {
        let mut children = harness.sessions.children(&session.id).await.unwrap();
        children.sort_by(|a, b| b.title.cmp(&a.title));
        next.extend(children);
        found.push(session);
    }
    found
}

/// The ends of a session's turns that clients saw.
fn ends(harness: &Harness, session: &Session) -> Vec<EndReason> {
    let told = harness.seen.iter().filter_map(|event| match &event.body {
        EventBody::SessionStatus(it) if it.session_id == session.id => match &it.status {
            SessionStatus::Idle { reason, .. } => *reason,
            _ => None,
        },
        _ => None,
    });
    told.collect()
}

/// Fails unless every session was idle once and every part is closed; tells how each of the turns ended.
async fn settled(harness: &Harness, session: &Session) -> Vec<EndReason> {
    let mut found = Vec::new();
    for session in family(harness, session).await {
        assert_eq!(harness.check(&session.id), 1, "{}", session.title);
        for part in harness.messages(&session).await.iter().flat_map(|message| &message.parts) {
            assert!(!part.is_open(), "{}: {part:?}", session.title);
        }
        found.extend(ends(harness, &session));
    }
    found
}

/// The events of a session and its children, as stories.
async fn stories(harness: &Harness, session: &Session) -> String {
    let mut told = String::new();
    for session in family(harness, session).await {
        let title = if session.parent_id.is_some() { session.title.as_str() } else { "the session" };
        told = format!("{told}## {title}\n{}\n", harness.story(&session.id));
    }
    told
}

/// The sessions that the calls of a session name.
async fn named(harness: &Harness, session: &Session) -> Vec<Value> {
    let parts = harness.messages(session).await.into_iter().flat_map(|message| message.parts);
    parts
        .filter_map(|part| match part.body {
            PartBody::Tool(tool) => match tool.state {
                ToolState::Completed(done) => done.metadata.get("sessionId").cloned(),
                ToolState::Error(failed) => failed.metadata?.get("sessionId").cloned(),
                _ => None,
            },
            _ => None,
        })
        .collect()
}

/// Plays a scene to its end.
async fn play(acts: &str, user: SimulatedUser) -> (Harness, Session, EndReason) {
    let fake = scene(acts);
    let (mut harness, runner) = harness(claude(&fake, patient()), unhurried()).await;
    let session = harness.session().await;
    let end = harness.turn(&session, "please", user).await;
    runner.close().await;
    fake.assert_gone();
    (harness, session, end)
}

#[tokio::test]
async fn subagents_at_the_same_time_each_have_a_session() {
    let acts = "begin; open m1; agent m1 a one; agent m1 b two; started a; started b
        calls a s1 c1; says b s2 hello; says a s1 meanwhile; returns c1 made '\"a\"'; says a s3 bye
        returns b hello; returns a bye; speak m2 done; finish; linger";
    let (harness, session, end) = play(acts, SimulatedUser::Agrees).await;
    assert_eq!(end, Completed);
    assert_eq!(settled(&harness, &session).await, [Completed; 3]);
    let children = family(&harness, &session).await.split_off(1);
    let ids: Vec<Value> = children.iter().map(|child| child.id.as_str().into()).collect();
    assert_eq!(named(&harness, &session).await, ids, "calls name the sessions of their subagents");
    insta::assert_snapshot!("subagents_at_the_same_time", stories(&harness, &session).await);
}

#[tokio::test]
async fn subagents_of_subagents_are_children_of_children() {
    let acts = "begin; open m1; agent m1 a one; started a
        agent s1 b below '\"a\"'; started b; calls b t1 c1; returns c1 made '\"b\"'; returns b deep '\"a\"'
        says a s2 bye; returns a bye; speak m2 done; finish; linger";
    let (harness, session, end) = play(acts, SimulatedUser::Agrees).await;
    assert_eq!(end, Completed);
    assert_eq!(settled(&harness, &session).await, [Completed; 3]);
    let family = family(&harness, &session).await;
    let parents: Vec<_> = family.iter().map(|session| session.parent_id.as_ref()).collect();
    assert_eq!(parents, [None, Some(&family[0].id), Some(&family[1].id)]);
    insta::assert_snapshot!("subagents_of_subagents", stories(&harness, &session).await);
}

#[tokio::test]
async fn a_permission_request_of_a_subagent_appears_in_its_session() {
    // The request arrives before the call, after the call, and without the name of the subagent.
    for wish in ["wants r1 a c1; calls a s1 c1", "calls a s1 c1; wants r1 a c1", "calls a s1 c1; may r1 c1"] {
        let acts = format!(
            "begin; open m1; agent m1 a one; started a; {wish}; hear allow; returns c1 made '\"a\"'
            returns a bye; speak m2 done; finish; linger"
        );
        let (harness, session, end) = play(&acts, SimulatedUser::Agrees).await;
        assert_eq!(end, Completed);
        assert_eq!(settled(&harness, &session).await, [Completed; 2]);
        let asked = harness.seen.iter().find(|event| matches!(event.body, EventBody::PermissionAsked(_)));
        let child = &family(&harness, &session).await[1];
        assert_eq!(asked.unwrap().body.session_id(), Some(&child.id), "{wish}");
    }
}

#[tokio::test]
async fn a_refusal_ends_the_subagent_that_asked() {
    let begun = "begin; open m1; agent m1 a one; started a; calls a s1 c1; wants r1 a c1; hear deny; ";
    for (then, end) in [
        ("fails a stopped; speak m2 sorry; finish; linger", Completed),
        (
            "say '{\"type\":\"result\",\"is_error\":true,\"terminal_reason\":\"aborted_tools\"}'; state idle; linger",
            Blocked,
        ),
    ] {
        let (harness, session, ended) = play(&format!("{begun}{then}"), SimulatedUser::Refuses).await;
        assert_eq!(ended, end, "{then}");
        assert_eq!(settled(&harness, &session).await, [end, Blocked], "{then}");
    }
}

#[tokio::test]
async fn a_subagent_in_the_background_keeps_the_session_busy() {
    let acts = "begin; open m1; agent m1 a one; started a; launched a; speak m2 meanwhile; finish
        says a s1 working; calls a s2 c1; returns c1 made '\"a\"'; says a s3 bye; ended a
        state running; notified a; init; speak m3 done; finish; linger";
    let (harness, session, end) = play(acts, SimulatedUser::Agrees).await;
    assert_eq!(end, Completed);
    assert_eq!(settled(&harness, &session).await, [Completed; 2]);
    insta::assert_snapshot!("a_subagent_in_the_background", stories(&harness, &session).await);
}

#[tokio::test]
async fn a_missing_task_notification_does_not_hold_the_turn_open() {
    let acts =
        "begin; open m1; agent m1 a one; started a; launched a; finish; says a s1 bye; ended a; linger";
    let fake = scene(acts);
    let timeouts = Timeouts { settle: HASTY, ..patient() };
    let (mut harness, runner) = harness(claude(&fake, timeouts), unhurried()).await;
    let session = harness.session().await;
    assert_eq!(harness.turn(&session, "please", SimulatedUser::Agrees).await, Completed);
    assert_eq!(settled(&harness, &session).await, [Completed; 2]);
    runner.close().await;
    fake.assert_gone();
}

#[tokio::test]
async fn subagents_without_a_result_end_with_the_turn() {
    let begun = "begin; open m1; agent m1 a one; started a; says a s1 hello; ";
    for (then, ended) in [
        // The agent continues without a result, fails, or exits.
        ("speak m2 anyway; finish; linger", [Completed, Error]),
        (
            "say '{\"type\":\"result\",\"is_error\":true,\"result\":\"no credit\"}'; state idle; linger",
            [Error, Error],
        ),
        ("echo out of memory >&2; exit 9", [Error, Error]),
        ("fails a broken; speak m2 sorry; finish; linger", [Completed, Error]),
        ("launched a; ended a failed; notified a; speak m2 sorry; finish; linger", [Completed, Error]),
        ("launched a; ended a killed; notified a; speak m2 sorry; finish; linger", [Completed, Aborted]),
        ("launched a; finish; exit 9", [Error, Error]),
    ] {
        let (harness, session, _) = play(&format!("{begun}{then}"), SimulatedUser::Agrees).await;
        assert_eq!(settled(&harness, &session).await, ended, "{then}");
    }
}

#[tokio::test]
async fn a_silent_subagent_times_out() {
    for acts in [
        "begin; open m1; agent m1 a one; started a; hang",
        "begin; open m1; agent m1 a one; started a; launched a; finish; hang",
    ] {
        let fake = scene(acts);
        let timeouts = Timeouts { silence: HASTY, ..patient() };
        let (mut harness, _runner) = harness(claude(&fake, timeouts), unhurried()).await;
        let session = harness.session().await;
        assert_eq!(harness.turn(&session, "please", SimulatedUser::Agrees).await, Error);
        assert!(harness.error(&session).await.contains("sent nothing for 300ms"));
        assert_eq!(settled(&harness, &session).await, [Error; 2], "{acts}");
        fake.assert_gone();
    }
}

/// Waits until a subagent has said something.
async fn until_said(harness: &mut Harness, session: &Session) -> Session {
    harness
        .until(|body| matches!(body, EventBody::PartUpdated(it) if it.part.session_id != session.id && it.part.text() == Some("hello")))
        .await;
    family(harness, session).await.remove(1)
}

#[tokio::test]
async fn abort_stops_the_session_and_its_subagents() {
    for then in ["hear interrupt; fails a interrupted; result; state idle; linger", "hang"] {
        let fake = scene(&format!("begin; open m1; agent m1 a one; started a; says a s1 hello; {then}"));
        let timeouts = Timeouts { interrupt: HASTY, ..patient() };
        let (mut harness, runner) = harness(claude(&fake, timeouts), unhurried()).await;
        let session = harness.session().await;
        harness.submit(&session, "please").await;
        until_said(&mut harness, &session).await;
        harness.sessions.abort(&session.id).await.unwrap();
        assert_eq!(harness.until_idle(&session, SimulatedUser::Agrees).await, Aborted);
        assert_eq!(settled(&harness, &session).await, [Aborted; 2], "{then}");
        runner.close().await;
        fake.assert_gone();
    }
}

#[tokio::test]
async fn a_subagent_can_be_stopped_alone() {
    let acts =
        "begin; open m1; agent m1 a one; started a; says a s1 hello; hear '\"stop_task\"'; ended a killed
        fails a stopped; speak m2 fine; finish; linger";
    let fake = scene(acts);
    let (mut harness, runner) = harness(claude(&fake, patient()), unhurried()).await;
    let session = harness.session().await;
    harness.submit(&session, "please").await;
    let child = until_said(&mut harness, &session).await;
    harness.sessions.abort(&child.id).await.unwrap();
    assert_eq!(harness.until_idle(&session, SimulatedUser::Agrees).await, Completed);
    assert_eq!(settled(&harness, &session).await, [Completed, Aborted]);
    runner.close().await;
}

#[tokio::test]
async fn a_prompt_for_a_subagent_is_refused() {
    let acts = "begin; open m1; agent m1 a one; started a; returns a bye; speak m2 done; finish; linger";
    let fake = scene(acts);
    let (mut harness, runner) = harness(claude(&fake, patient()), unhurried()).await;
    let session = harness.session().await;
    harness.turn(&session, "please", SimulatedUser::Agrees).await;
    let child = family(&harness, &session).await.remove(1);
    assert_eq!(harness.turn(&child, "go on", SimulatedUser::Agrees).await, Error);
    assert!(harness.error(&child).await.contains("prompt the parent session"));
    assert_eq!(fake.processes().len(), 1, "no process was started for it");
    runner.close().await;
}
