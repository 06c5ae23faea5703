//! Subagents of Codex as child sessions.

use protocol::EndReason::{self, Aborted, Blocked, Completed, Error};
use protocol::{EventBody, Session, ToolState};

use super::harness::{Harness, SimulatedUser, options};
use super::scripts::script;

/// Shell functions that write notifications about the thread of a subagent and the call that starts it.
const WORDS: &str = r#"
other() { printf '{"method":"%s","params":{"threadId":"%s","turnId":"v-%s"%s}}\n' "$2" "$1" "$1" "${3:+,$3}"; }
spawn() { printf '"item":{"type":"collabAgentToolCall","id":"s-%s","tool":"spawnAgent","prompt":"Look at %s","receiverThreadIds":[%s],"status":"%s"}' "$1" "$1" "$2" "$3"; }
spawns() { tell item/started "$(spawn "$1" '' inProgress)"; }
spawned() { tell item/completed "$(spawn "$1" "\"$1\"" completed)"; }
works() { other "$1" turn/started "\"turn\":{\"id\":\"v-$1\",\"status\":\"inProgress\"}"; }
tells() { other "$1" item/completed "\"item\":{\"type\":\"agentMessage\",\"id\":\"m-$1\",\"text\":\"$2\"}"; }
wants() { printf '{"id":%s,"method":"item/commandExecution/requestApproval","params":{"threadId":"%s","turnId":"v-%s","itemId":"c","command":"make"}}\n' "$2" "$1" "$1"; }
# The same as newer models do it: $1 is told, $2 has done something ($3) with it, in the call $4.
activity() { for when in started completed; do
    other "$2" "item/$when" "\"item\":{\"type\":\"subAgentActivity\",\"id\":\"$4\",\"kind\":\"$3\",\"agentThreadId\":\"$1\",\"agentPath\":\"/team/$1\"}"
done; }
rests() { other "$1" turn/completed "\"turn\":{\"id\":\"v-$1\",\"status\":\"${2:-completed}\"}"; }
"#;

async fn harness(text: &str) -> Harness {
    Harness::new(options(&script(&format!("{WORDS}\n{text}")))).await
}

/// The session, then those below it, each with how its turns ended.
async fn ends(harness: &Harness, session: &Session) -> Vec<Vec<EndReason>> {
    let mut found = vec![harness.ends(session)];
    let mut children = harness.sessions.children(&session.id).await.unwrap();
    children.sort_by(|a, b| a.title.cmp(&b.title));
    for child in children {
        harness.assert_all_is_closed(&child).await;
        found.push(harness.ends(&child));
    }
    found
}

#[tokio::test]
async fn each_subagent_has_a_session_with_one_idle() {
    // The first message of the thread comes after the end of the call, before it, and the whole turn comes before it.
    for acts in [
        "spawns k; spawned k; works k; tells k Seen; rests k",
        "spawns k; works k; tells k Seen; spawned k; rests k",
        "spawns k; works k; tells k Seen; rests k; spawned k",
    ] {
        let mut harness = harness(&format!("begin; {acts}; said m Well; ends; stay")).await;
        let session = harness.first_turn(SimulatedUser::Agrees).await;
        assert_eq!(ends(&harness, &session).await, [vec![Completed], vec![Completed]], "{acts}");
        let child = harness.sessions.children(&session.id).await.unwrap().remove(0);
        let texts: Vec<String> = harness
            .messages(&child)
            .await
            .iter()
            .flat_map(|message| message.parts.iter().filter_map(|part| part.text().map(str::to_owned)))
            .collect();
        assert_eq!(texts, ["Look at k", "Seen"], "{acts}");
        let (_, state) = harness.tools(&session).await.remove(0);
        let ToolState::Completed(done) = state else { panic!("{state:?}") };
        assert_eq!(done.metadata["sessionId"], child.id.as_str(), "{acts}");
        harness.check_all();
    }
}

#[tokio::test]
async fn subagents_of_newer_models_have_sessions() {
    let acts = "begin; activity look t started c; works look; tells look Seen; said m Well; ends
        rests look; activity look t completed d; stay";
    let mut harness = harness(acts).await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    assert_eq!(ends(&harness, &session).await, [vec![Completed], vec![Completed]]);
    let child = harness.sessions.children(&session.id).await.unwrap().remove(0);
    assert_eq!(child.title, "look (@codex subagent)");
    let (tool, state) = harness.tools(&session).await.remove(0);
    let ToolState::Completed(done) = state else { panic!("{state:?}") };
    assert_eq!((tool.as_str(), done.title.as_str()), ("task", "look"));
    assert_eq!(done.metadata["sessionId"], child.id.as_str());
    assert_eq!(harness.tools(&session).await.len(), 1, "that it has ended is no call");
    harness.check_all();
}

#[tokio::test]
async fn a_subagent_with_more_work_keeps_its_session() {
    for more in ["activity k t interacted d", "tell item/completed \"$(spawn k '\"k\"' completed)\""] {
        let acts = format!(
            "begin; activity k t started c; works k; tells k One; rests k; {more}; works k
            other k item/completed '\"item\":{{\"type\":\"agentMessage\",\"id\":\"n\",\"text\":\"Two\"}}'
            rests k; said m Well; ends; stay"
        );
        let mut harness = harness(&acts).await;
        let session = harness.first_turn(SimulatedUser::Agrees).await;
        let found = ends(&harness, &session).await;
        assert_eq!(found.len(), 2, "{more}: one child");
        let child = harness.sessions.children(&session.id).await.unwrap().remove(0);
        let messages = harness.messages(&child).await;
        let texts: Vec<&str> =
            messages.iter().flat_map(|it| &it.parts).filter_map(protocol::Part::text).collect();
        assert_eq!([texts[1], texts[3]], ["One", "Two"], "{more}");
        harness.check_all();
    }
}

#[tokio::test]
async fn a_message_to_an_idle_subagent_does_not_delay_the_turn() {
    let mut harness = harness("begin; activity k t interacted c; said m Well; ends; stay").await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    assert_eq!(ends(&harness, &session).await, [vec![Completed]]);
    harness.check_all();
}

#[tokio::test]
async fn a_subagent_waits_for_its_own_subagents() {
    // The subagent in the middle ends first, and later notifications about it do not begin it again.
    let acts = "begin; activity a t started c; works a; activity b a started d; works b; tells a One; said m Well; ends
        rests a; tells b Two; rests b; activity b a completed e; activity a t completed f; stay";
    let mut harness = harness(acts).await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    assert_eq!(ends(&harness, &session).await, [vec![Completed], vec![Completed]]);
    let child = harness.sessions.children(&session.id).await.unwrap().remove(0);
    assert_eq!(ends(&harness, &child).await, [vec![Completed], vec![Completed]]);
    let below = harness.sessions.children(&child.id).await.unwrap().remove(0);
    let idle: Vec<_> = harness
        .seen
        .iter()
        .filter(|event| matches!(event.body, EventBody::SessionIdle(_)))
        .filter_map(|event| event.body.session_id().cloned())
        .collect();
    assert_eq!(idle, [below.id, child.id, session.id], "each is idle after those that it has started");
    harness.check_all();
}

#[tokio::test]
async fn the_session_waits_for_all_subagents() {
    let acts =
        "begin; spawns a; spawned a; spawns b; spawned b; works a; works b; tells b Two; said m Well; ends
        status idle; tells a One; rests b; rests a; stay";
    let mut harness = harness(acts).await;
    let session = harness.first_turn(SimulatedUser::Agrees).await;
    assert_eq!(ends(&harness, &session).await, [vec![Completed], vec![Completed], vec![Completed]]);
    harness.check_all();
}

#[tokio::test]
async fn a_permission_request_of_a_subagent_appears_in_its_session() {
    for (user, end) in [(SimulatedUser::Agrees, Completed), (SimulatedUser::Refuses, Blocked)] {
        let acts = "begin; spawns k; spawned k; works k; wants k 9; hear; rests k; said m Well; ends; stay";
        let mut harness = harness(acts).await;
        let session = harness.first_turn(user).await;
        assert_eq!(ends(&harness, &session).await, [vec![Completed], vec![end]]);
        let child = harness.sessions.children(&session.id).await.unwrap().remove(0);
        let asked = harness.seen.iter().find(|event| matches!(event.body, EventBody::PermissionAsked(_)));
        assert_eq!(asked.unwrap().body.session_id(), Some(&child.id));
        harness.check_all();
    }
}

#[tokio::test]
async fn subagents_without_an_end_end_with_the_turn() {
    let begun = "begin; spawns k; spawned k; works k; tells k Seen; ";
    for (then, expected) in [
        ("exit 3", [vec![Error], vec![Error]]),
        ("ends; hang", [vec![Error], vec![Error]]),
        ("other k thread/closed; said m Well; ends; stay", [vec![Completed], vec![Aborted]]),
        ("rests k failed; said m Well; ends; stay", [vec![Completed], vec![Error]]),
    ] {
        let mut harness = harness(&format!("{begun}{then}")).await;
        let session = harness.first_turn(SimulatedUser::Agrees).await;
        assert_eq!(ends(&harness, &session).await, expected, "{then}");
        harness.check_all();
    }
}

#[tokio::test]
async fn abort_stops_the_session_and_other_agents() {
    let mut harness = harness("begin; spawns k; spawned k; works k; tells k Seen; hang").await;
    let session = harness.session().await;
    harness.submit(&session, "please").await;
    harness.until(|body| matches!(body, EventBody::PartUpdated(it) if it.part.text() == Some("Seen"))).await;
    harness.sessions.abort(&session.id).await.unwrap();
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    assert_eq!(ends(&harness, &session).await, [vec![Aborted], vec![Aborted]]);
    harness.check_all();
    harness.assert_nothing_is_left();
}

#[tokio::test]
async fn one_subagent_can_be_aborted_alone() {
    let mut harness =
        harness("begin; spawns k; spawned k; works k; tells k Seen; hear; rests k interrupted; said m Well; ends; stay")
            .await;
    let session = harness.session().await;
    harness.submit(&session, "please").await;
    harness.until(|body| matches!(body, EventBody::PartUpdated(it) if it.part.text() == Some("Seen"))).await;
    let child = harness.sessions.children(&session.id).await.unwrap().remove(0);
    harness.sessions.abort(&child.id).await.unwrap();
    harness.until_idle(&session, SimulatedUser::Agrees).await;
    assert_eq!(ends(&harness, &session).await, [vec![Completed], vec![Aborted]]);
    assert_eq!(harness.asked("turn/interrupt")[0]["threadId"], "k");
}
