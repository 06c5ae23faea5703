//! Aborts in every phase of a turn: prompt, reported once, and with nothing left running.

use protocol::{EndReason, EventBody, PartBody, Session, SessionStatus, ToolState};

use super::harness::Harness;

/// Starts a turn, waits for a moment in it, and aborts it.
async fn stopped_at(harness: &mut Harness, model: &str, moment: impl Fn(&EventBody) -> bool) -> Session {
    let session = harness.session().await;
    harness.submit(&session, model, "please").await;
    harness.until(moment).await;
    harness.abort(&session).await;
    let id = session.id.clone();
    harness.until(|body| matches!(body, EventBody::SessionIdle(idle) if idle.session_id == id)).await;
    assert_eq!(harness.end(&session), EndReason::Aborted);
    session
}

fn runs(body: &EventBody, name: &str) -> bool {
    matches!(body, EventBody::PartUpdated(it)
        if matches!(&it.part.body, PartBody::Tool(tool) if tool.tool == name && matches!(tool.state, ToolState::Running(_))))
}

#[tokio::test(start_paused = true)]
async fn in_the_middle_of_a_text() {
    let mut harness = Harness::new().await;
    stopped_at(&mut harness, "slow", |body| matches!(body, EventBody::PartDelta(_))).await;
}

#[tokio::test(start_paused = true)]
async fn while_the_model_is_silent() {
    let mut harness = Harness::new().await;
    stopped_at(&mut harness, "stall", |body| matches!(body, EventBody::PartDelta(_))).await;
}

#[tokio::test(start_paused = true)]
async fn while_waiting_to_try_again() {
    let mut harness = Harness::new().await;
    let waits = |body: &EventBody| matches!(body, EventBody::SessionStatus(it) if matches!(it.status, SessionStatus::Retry { .. }));
    stopped_at(&mut harness, "error_500_forever", waits).await;
}

#[tokio::test(start_paused = true)]
async fn while_a_permission_is_pending() {
    let mut harness = Harness::new().await;
    let session =
        stopped_at(&mut harness, "permission", |body| matches!(body, EventBody::PermissionAsked(_))).await;
    assert!(harness.sessions.permissions(None).await.unwrap().is_empty());
    assert!(!harness.project.path().join("demo-permission.txt").exists());
    let tools = harness.tools(&session).await;
    assert!(
        matches!(&tools[..], [ToolState::Error(state)] if state.error == "Tool execution aborted"),
        "{tools:?}"
    );
}

#[tokio::test]
async fn while_a_command_runs() {
    let scenario = r#"{ "sleeper": { "about": "sleeps", "steps": [[
        { "do": "tool", "name": "bash", "input": { "command": "echo $$; (trap '' TERM; sleep 600); true" } },
        { "do": "finish", "reason": "tool-calls" }
    ]] } }"#;
    let mut harness =
        Harness::with_scenarios(llm::demo::Scenarios::parse(scenario).unwrap(), allowing()).await;
    let process = |body: &EventBody| match body {
        EventBody::PartUpdated(it) => match &it.part.body {
            PartBody::Tool(tool) => match &tool.state {
                ToolState::Running(state) => state
                    .metadata
                    .as_ref()?
                    .get("output")?
                    .as_str()
                    .filter(|id| !id.is_empty())
                    .map(str::to_owned),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    let session = stopped_at(&mut harness, "sleeper", |body| process(body).is_some()).await;
    let id = harness.seen.iter().find_map(|event| process(&event.body)).unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{}", id.trim())).exists());
    let tools = harness.tools(&session).await;
    assert!(
        matches!(&tools[..], [ToolState::Error(state)] if state.error == "Tool execution aborted"),
        "{tools:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn while_a_child_works() {
    let scenario = r#"{
        "parent": { "about": "delegates", "steps": [[
            { "do": "tool", "name": "task",
              "input": { "description": "Wait", "prompt": "[[scenario:quiet]]", "subagent_type": "general" } },
            { "do": "finish", "reason": "tool-calls" }
        ]] },
        "quiet": { "about": "says nothing", "steps": [[{ "do": "stall" }]] }
    }"#;
    let mut harness =
        Harness::with_scenarios(llm::demo::Scenarios::parse(scenario).unwrap(), allowing()).await;
    let delegated = |body: &EventBody| {
        runs(body, "task")
            && matches!(body, EventBody::PartUpdated(it) if matches!(&it.part.body, PartBody::Tool(tool)
                if matches!(&tool.state, ToolState::Running(state) if state.metadata.is_some())))
    };
    let session = stopped_at(&mut harness, "parent", delegated).await;
    let children = harness.sessions.children(&session.id).await.unwrap();
    assert_eq!(children.len(), 1);
    assert_eq!(harness.end(&children[0]), EndReason::Aborted);
    assert_eq!(children[0].title, "Wait (@general subagent)");
}

fn allowing() -> crate::Options {
    use protocol::request::{Action, Rule};
    let rules = [Rule::new("*", "*", Action::Allow)];
    crate::Options { agents: crate::built_in(&rules), ..crate::Options::default() }
}
