//! Subagents of Codex as child sessions.

use protocol::EndReason::{self, Aborted, Blocked, Completed, Error};
use protocol::{EventBody, Session, ToolState};

use super::scripts::script;
use super::world::{Person, World, options};

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

async fn world(text: &str) -> World {
    World::new(options(&script(&format!("{WORDS}\n{text}")))).await
}

/// The ends of the turns of the session and its descendants.
async fn ends(world: &World, session: &Session) -> Vec<Vec<EndReason>> {
    let mut found = vec![world.ends(session)];
    let mut children = world.sessions.children(&session.id).await.unwrap();
    children.sort_by(|a, b| a.title.cmp(&b.title));
    for child in children {
        world.assert_all_is_closed(&child).await;
        found.push(world.ends(&child));
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
        let mut world = world(&format!("begin; {acts}; said m Well; ends; stay")).await;
        let session = world.turn(Person::Agrees).await;
        assert_eq!(ends(&world, &session).await, [vec![Completed], vec![Completed]], "{acts}");
        let child = world.sessions.children(&session.id).await.unwrap().remove(0);
        let texts: Vec<String> = world
            .messages(&child)
            .await
            .iter()
            .flat_map(|message| message.parts.iter().filter_map(|part| part.text().map(str::to_owned)))
            .collect();
        assert_eq!(texts, ["Look at k", "Seen"], "{acts}");
        let (_, state) = world.tools(&session).await.remove(0);
        let ToolState::Completed(done) = state else { panic!("{state:?}") };
        assert_eq!(done.metadata["sessionId"], child.id.as_str(), "{acts}");
        world.check();
    }
}

#[tokio::test]
async fn subagents_of_newer_models_have_sessions() {
    let acts = "begin; activity look t started c; works look; tells look Seen; said m Well; ends
        rests look; activity look t completed d; stay";
    let mut world = world(acts).await;
    let session = world.turn(Person::Agrees).await;
    assert_eq!(ends(&world, &session).await, [vec![Completed], vec![Completed]]);
    let child = world.sessions.children(&session.id).await.unwrap().remove(0);
    assert_eq!(child.title, "look (@codex subagent)");
    let (tool, state) = world.tools(&session).await.remove(0);
    let ToolState::Completed(done) = state else { panic!("{state:?}") };
    assert_eq!((tool.as_str(), done.title.as_str()), ("task", "look"));
    assert_eq!(done.metadata["sessionId"], child.id.as_str());
    assert_eq!(world.tools(&session).await.len(), 1, "the end of a subagent is not a tool call");
    world.check();
}

#[tokio::test]
async fn a_subagent_with_more_work_keeps_its_session() {
    for more in ["activity k t interacted d", "tell item/completed \"$(spawn k '\"k\"' completed)\""] {
        let acts = format!(
            "begin; activity k t started c; works k; tells k One; rests k; {more}; works k
            other k item/completed '\"item\":{{\"type\":\"agentMessage\",\"id\":\"n\",\"text\":\"Two\"}}'
            rests k; said m Well; ends; stay"
        );
        let mut world = world(&acts).await;
        let session = world.turn(Person::Agrees).await;
        let found = ends(&world, &session).await;
        assert_eq!(found.len(), 2, "{more}: one child");
        let child = world.sessions.children(&session.id).await.unwrap().remove(0);
        let messages = world.messages(&child).await;
        let texts: Vec<&str> =
            messages.iter().flat_map(|it| &it.parts).filter_map(protocol::Part::text).collect();
        assert_eq!([texts[1], texts[3]], ["One", "Two"], "{more}");
        world.check();
    }
}

#[tokio::test]
async fn a_message_to_an_idle_subagent_does_not_delay_the_end() {
    let mut world = world("begin; activity k t interacted c; said m Well; ends; stay").await;
    let session = world.turn(Person::Agrees).await;
    assert_eq!(ends(&world, &session).await, [vec![Completed]]);
    world.check();
}

#[tokio::test]
async fn a_subagent_waits_for_its_own_subagents() {
    // The subagent in the middle ends first, and later notifications about it do not begin it again.
    let acts = "begin; activity a t started c; works a; activity b a started d; works b; tells a One; said m Well; ends
        rests a; tells b Two; rests b; activity b a completed e; activity a t completed f; stay";
    let mut world = world(acts).await;
    let session = world.turn(Person::Agrees).await;
    assert_eq!(ends(&world, &session).await, [vec![Completed], vec![Completed]]);
    let child = world.sessions.children(&session.id).await.unwrap().remove(0);
    assert_eq!(ends(&world, &child).await, [vec![Completed], vec![Completed]]);
    let below = world.sessions.children(&child.id).await.unwrap().remove(0);
    let idle: Vec<_> = world
        .seen
        .iter()
        .filter(|event| matches!(event.body, EventBody::SessionIdle(_)))
        .filter_map(|event| event.body.session_id().cloned())
        .collect();
    assert_eq!(idle, [below.id, child.id, session.id], "each is idle after those that it has started");
    world.check();
}

#[tokio::test]
async fn the_session_waits_for_all_subagents() {
    let acts =
        "begin; spawns a; spawned a; spawns b; spawned b; works a; works b; tells b Two; said m Well; ends
        status idle; tells a One; rests b; rests a; stay";
    let mut world = world(acts).await;
    let session = world.turn(Person::Agrees).await;
    assert_eq!(ends(&world, &session).await, [vec![Completed], vec![Completed], vec![Completed]]);
    world.check();
}

#[tokio::test]
async fn a_permission_request_of_a_subagent_appears_in_its_session() {
    for (person, end) in [(Person::Agrees, Completed), (Person::Refuses, Blocked)] {
        let acts = "begin; spawns k; spawned k; works k; wants k 9; hear; rests k; said m Well; ends; stay";
        let mut world = world(acts).await;
        let session = world.turn(person).await;
        assert_eq!(ends(&world, &session).await, [vec![Completed], vec![end]]);
        let child = world.sessions.children(&session.id).await.unwrap().remove(0);
        let asked = world.seen.iter().find(|event| matches!(event.body, EventBody::PermissionAsked(_)));
        assert_eq!(asked.unwrap().body.session_id(), Some(&child.id));
        world.check();
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
        let mut world = world(&format!("{begun}{then}")).await;
        let session = world.turn(Person::Agrees).await;
        assert_eq!(ends(&world, &session).await, expected, "{then}");
        world.check();
    }
}

#[tokio::test]
async fn abort_stops_the_session_and_its_subagents() {
    let mut world = world("begin; spawns k; spawned k; works k; tells k Seen; hang").await;
    let session = world.session().await;
    world.submit(&session, "please").await;
    world.until(|body| matches!(body, EventBody::PartUpdated(it) if it.part.text() == Some("Seen"))).await;
    world.sessions.abort(&session.id).await.unwrap();
    world.until_idle(&session, Person::Agrees).await;
    assert_eq!(ends(&world, &session).await, [vec![Aborted], vec![Aborted]]);
    world.check();
    world.assert_nothing_is_left();
}

#[tokio::test]
async fn a_subagent_can_be_stopped_alone() {
    let mut world =
        world("begin; spawns k; spawned k; works k; tells k Seen; hear; rests k interrupted; said m Well; ends; stay")
            .await;
    let session = world.session().await;
    world.submit(&session, "please").await;
    world.until(|body| matches!(body, EventBody::PartUpdated(it) if it.part.text() == Some("Seen"))).await;
    let child = world.sessions.children(&session.id).await.unwrap().remove(0);
    world.sessions.abort(&child.id).await.unwrap();
    world.until_idle(&session, Person::Agrees).await;
    assert_eq!(ends(&world, &session).await, [vec![Completed], vec![Aborted]]);
    assert_eq!(world.asked("turn/interrupt")[0]["threadId"], "k");
}
