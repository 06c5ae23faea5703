//! Results in an unusual place: several in one turn, before those of calls, and with a text that no message has.

use protocol::{EndReason, PartBody, ToolState};

use super::*;
use crate::external::harness::SimulatedUser;

/// The texts and tool calls of the answer to a prompt, which ends with one idle.
async fn answer(acts: &str) -> Vec<String> {
    let fake = script(acts);
    // Much longer than a loaded machine needs between two lines.
    let timeouts = Timeouts { quiet: Duration::from_secs(4), ..patient() };
    let (mut harness, runner) = harness(claude(&fake, timeouts), unhurried()).await;
    let session = harness.session().await;
    assert_eq!(harness.turn(&session, "please", SimulatedUser::Agrees).await, EndReason::Completed, "{acts}");
    assert_eq!(harness.check(&session.id), 1, "{acts}");
    let parts = harness.messages(&session).await.into_iter().skip(1).flat_map(|message| message.parts);
    let shown = parts.filter_map(|part| match &part.body {
        PartBody::Text(text) => Some(text.text.clone()),
        PartBody::Tool(tool) => Some(match &tool.state {
            ToolState::Completed(done) => format!("{} completed: {}", tool.tool, done.output),
            state => format!("{} {state:?}", tool.tool),
        }),
        _ => None,
    });
    let shown = shown.collect();
    runner.close().await;
    fake.assert_gone();
    shown
}

#[tokio::test]
async fn several_results_belong_to_one_turn_without_state_events() {
    for acts in [
        "prompted; init; open m1; call m1 t1; result; called t1; speak m2 Done; result; linger",
        "prompted; init; open m1; call m1 t1; called t1; result; speak m2 Done; result; linger",
        "prompted; init; open m1; call m1 t1; result; result; called t1; result; speak m2 Done; result; result; linger",
    ] {
        assert_eq!(answer(acts).await, ["bash completed: made", "Done"], "{acts}");
    }
    let acts = "prompted; init; speak m1 First; result; speak m2 Second; result; linger";
    assert_eq!(answer(acts).await, ["First", "Second"]);
}

#[tokio::test]
async fn a_text_that_only_the_result_has_is_shown_once() {
    let told = "told() { say '{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":false,\"result\":\"'\"$1\"'\"}'; }";
    for (acts, expected) in [
        ("begin; told Only; state idle; linger", vec!["Only"]),
        ("begin; told Only; told Only; state idle; linger", vec!["Only"]),
        ("begin; speak m1 Said; told Said; state idle; linger", vec!["Said"]),
        ("prompted; init; told Only; linger", vec!["Only"]),
        (
            "begin; open m1; call m1 t1; called t1; told Only; state idle; linger",
            vec!["bash completed: made", "Only"],
        ),
        (
            "begin; speak m1 Said; open m2; call m2 t1; called t1; told Only; state idle; linger",
            vec!["Said", "bash completed: made", "Only"],
        ),
    ] {
        assert_eq!(answer(&format!("{told}\n{acts}")).await, expected, "{acts}");
    }
}

#[tokio::test]
async fn a_call_whose_result_comes_late_is_completed() {
    let acts = "begin; open m1; call m1 t1; result; called t1; state idle; linger";
    assert_eq!(answer(acts).await, ["bash completed: made"]);
    let acts = "begin; open m1; call m1 t1; result; state idle; linger";
    let shown = answer(acts).await;
    assert!(shown[0].contains("without a result of this call"), "{shown:?}");
}
