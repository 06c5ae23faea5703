//! The demo's scenarios as clients see them.

use protocol::EndReason;

use super::harness::{Harness, Responder};

async fn story(scenario: &str, responder: Responder) -> String {
    let mut harness = Harness::new().await;
    let session = harness.turn(scenario, responder).await;
    harness.story(&session.id)
}

/// Scenarios that start no process, so that the clock can be paused.
#[tokio::test(start_paused = true)]
async fn every_scenario_has_its_events_in_order() {
    for scenario in [
        "simple",
        "reasoning",
        "read_edit",
        "mislabelled_stop",
        "retry_429",
        "overloaded_529",
        "error_400",
        "error_401",
        "error_500_forever",
        "length",
        "content_filter",
        "unknown",
        "unknown_forever",
        "empty",
        "nothing",
        "todo",
        "subagent",
        "question",
        "midstream_drop",
        "midstream_error",
        "stall",
        "stall_once",
        "bad_tool",
        "bad_args",
        "tool_error",
        "doom_loop",
        "doom_parallel",
        "context_overflow",
        "context_overflow_final",
        "context_overflow_400",
        "context_overflow_forever",
        "structured",
    ] {
        insta::assert_snapshot!(format!("story_{scenario}"), story(scenario, Responder::AllowOnce).await);
    }
}

#[tokio::test]
async fn scenarios_with_commands_have_their_events_in_order() {
    for scenario in ["permission", "subagent_permission"] {
        insta::assert_snapshot!(format!("story_{scenario}"), story(scenario, Responder::AllowOnce).await);
    }
}

#[tokio::test]
async fn tools_of_one_step_are_all_done_before_it_ends() {
    let story = story("parallel_tools", Responder::AllowOnce).await;
    let at = |word: &str| story.lines().position(|line| line.starts_with(word)).unwrap();
    assert!(
        at("read:completed") < at("bash:running") && at("list:completed") < at("bash:running"),
        "{story}"
    );
    assert!(at("bash:completed") < at("step-finish(tool-calls)"), "{story}");
}

#[tokio::test(start_paused = true)]
async fn a_long_stream_arrives_whole() {
    let mut harness = Harness::new().await;
    let session = harness.turn("long_stream", Responder::AllowOnce).await;
    let messages = harness.messages(&session).await;
    let text = messages[1].parts.iter().find_map(|part| part.text()).unwrap();
    assert_eq!(text, "word ".repeat(2000));
    assert_eq!(harness.end(&session), EndReason::Completed);
}

#[tokio::test]
async fn a_newcomers_first_prompts_all_end_well() {
    let mut harness = Harness::new().await;
    for prompt in
        ["hello", "help", "read README.md", "run echo hi > note", "ask me", "think", "plan", "subagent"]
    {
        harness.seen.clear();
        let session = harness.session().await;
        harness.submit(&session, "baton@0", prompt).await;
        harness.until_idle(&session, Responder::AllowOnce).await;
        let story = harness.story(&session.id);
        assert_eq!(harness.end(&session), EndReason::Completed, "{prompt}: {story}");
        assert!(!story.contains(":error"), "{prompt}: {story}");
        assert!(story.contains("text+end"), "{prompt}: {story}");
    }
    assert_eq!(std::fs::read_to_string(harness.project.path().join("note")).unwrap(), "hi\n");
}
