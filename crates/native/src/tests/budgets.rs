//! Budgets of cost, tokens, steps and minutes that are used up.

use std::sync::Arc;
use std::time::Duration;

use llm::Purpose;
use protocol::config::Budget;
use protocol::message::ModelRef;
use protocol::number::Number;
use protocol::prompt::{Delivery, PromptInput};
use protocol::{EndReason, EventBody, Message, Session, ToolState};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::harness::{Harness, Responder};
use super::scripted_model::{Reply, ScriptedModel};
use crate::{Options, built_in};

fn options(budget: Value) -> Options {
    use protocol::request::{Action, Rule};
    let budget: Budget = serde_json::from_value(budget).unwrap();
    let agents = built_in(&[Rule::new("*", "*", Action::Allow)]);
    Options { agents, budget, ..Options::default() }
}

/// A model that lists the directory for ever, at 1,000 tokens in and 100 out: 0.003 a step.
fn busy() -> ScriptedModel {
    ScriptedModel::new(
        (0..50).map(|at| Reply::call(&format!("c{at}"), "list", json!({ "path": "." })).using(1_000, 100)),
    )
}

/// Runs a turn and returns its end and the message for the user.
async fn turn(budget: Value, model: &ScriptedModel) -> (Harness, Session, EndReason, String) {
    let mut harness = Harness::with_model(Arc::new(model.clone()), options(budget)).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    let end = harness.end(&session);
    let sentence = sentence(&harness, &session).await;
    (harness, session, end, sentence)
}

async fn sentence(harness: &Harness, session: &Session) -> String {
    let last = harness.messages(session).await.pop().unwrap();
    let Message::Assistant(last) = last.info else { panic!("{last:?}") };
    last.error.map(|error| error.message().to_owned()).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn the_cost_of_a_session_is_the_sum_of_its_steps() {
    let model = ScriptedModel::new([
        Reply::call("c", "list", json!({})).using(1_000, 100),
        Reply::text("x").using(500, 7),
    ]);
    let (harness, session, end, _) = turn(json!({}), &model).await;
    assert_eq!(end, EndReason::Completed);
    let session = harness.sessions.get(&session.id).await.unwrap();
    assert_eq!(session.cost, Some(Number(0.003 + 0.001_07)));
    let tokens = session.tokens.unwrap();
    assert_eq!((tokens.input, tokens.output), (1_500, 107));
}

#[tokio::test(start_paused = true)]
async fn money_runs_out() {
    let model = busy();
    let (harness, session, end, sentence) = turn(json!({ "cost": { "turn": 0.007 } }), &model).await;
    assert_eq!(end, EndReason::Budget);
    insta::assert_snapshot!(sentence, @"Turn stopped: cost limit $0.007 reached (`budget.cost.turn` in baton.json)");
    assert_eq!(model.conversations().len(), 3, "the third step passes the mark");
    let tools = harness.tools(&session).await;
    let done = tools.iter().filter(|tool| matches!(tool, ToolState::Completed(_))).count();
    assert_eq!((tools.len(), done), (3, 2), "what it called is not run any more");
}

#[tokio::test(start_paused = true)]
async fn tokens_run_out() {
    let model = busy();
    let (_, _, end, sentence) = turn(json!({ "tokens": { "turn": 2_000 } }), &model).await;
    assert_eq!((end, model.conversations().len()), (EndReason::Budget, 2));
    insta::assert_snapshot!(sentence, @"Turn stopped: token limit 2000 reached (`budget.tokens.turn` in baton.json)");
}

#[tokio::test(start_paused = true)]
async fn steps_run_out() {
    let model = busy();
    let (_, _, end, sentence) = turn(json!({ "steps": { "turn": 4 } }), &model).await;
    assert_eq!((end, model.conversations().len()), (EndReason::Budget, 4));
    insta::assert_snapshot!(sentence, @"Turn stopped: step limit 4 reached (`budget.steps.turn` in baton.json)");
}

#[tokio::test(start_paused = true)]
async fn minutes_run_out_in_the_middle_of_a_step() {
    let model = ScriptedModel::new([Reply::text("Slow.").after(Duration::from_hours(1))]);
    let start = Instant::now();
    let (_, _, end, sentence) = turn(json!({ "minutes": { "turn": 1.5 } }), &model).await;
    assert_eq!(end, EndReason::Budget);
    assert_eq!(start.elapsed().as_secs(), 90);
    insta::assert_snapshot!(sentence, @"Turn stopped: time limit 1.5 minutes reached (`budget.minutes.turn` in baton.json)");
}

#[tokio::test]
async fn a_command_does_not_outlive_the_time_of_its_turn() {
    // Other tests of this process mark their commands with its id.
    let mark = format!("budget-{}", std::process::id());
    let command = format!("BATON_TEST_MARK={mark} sleep 600");
    let model = ScriptedModel::new([Reply::call("c", "bash", json!({ "command": command }))]);
    let (harness, session, end, _) = turn(json!({ "minutes": { "turn": 0.01 } }), &model).await;
    assert_eq!(end, EndReason::Budget);
    let tools = harness.tools(&session).await;
    assert!(matches!(&tools[..], [ToolState::Error(_)]), "{tools:?}");
    assert_eq!(super::processes::marked(&format!("BATON_TEST_MARK={mark}")), Vec::<u32>::new());
}

#[tokio::test(start_paused = true)]
async fn a_session_has_its_own_budget() {
    for (budget, steps) in
        [(json!({ "cost": { "session": 0.005 } }), 2), (json!({ "steps": { "session": 2 } }), 2)]
    {
        let model = ScriptedModel::new((0..9).map(|_| Reply::text("Hello.").using(1_000, 100)));
        let mut harness = Harness::with_model(Arc::new(model.clone()), options(budget)).await;
        let session = harness.session().await;
        let mut ends = Vec::new();
        for _ in 0..3 {
            harness.seen.clear();
            harness.submit(&session, "small", "hi").await;
            harness.until_idle(&session, Responder::AllowOnce).await;
            ends.push(harness.end(&session));
        }
        assert_eq!(ends, [EndReason::Completed, EndReason::Completed, EndReason::Budget]);
        assert_eq!(model.conversations().len(), steps);
        assert!(sentence(&harness, &session).await.starts_with("Turn stopped: session "));
    }
}

#[tokio::test(start_paused = true)]
async fn children_use_their_parents_budget() {
    let task = json!({ "description": "look", "prompt": "look around", "subagent_type": "general" });
    let model = ScriptedModel::new([
        Reply::call("c", "task", task).using(10, 1),
        Reply::text("I looked.").using(5_000, 100),
        Reply::text("never said"),
    ]);
    let (_, _, end, sentence) = turn(json!({ "tokens": { "turn": 5_050 } }), &model).await;
    assert_eq!((end, model.conversations().len()), (EndReason::Budget, 2), "{sentence}");
}

#[tokio::test(start_paused = true)]
async fn a_last_word_may_pass_the_mark() {
    let model = ScriptedModel::new([Reply::text("Done.").using(30_000, 5_000)]);
    let (harness, session, end, _) = turn(json!({ "tokens": { "turn": 100 } }), &model).await;
    assert_eq!(end, EndReason::Completed, "its answer is there");
    assert!(model.requests(Purpose::Compaction).is_empty(), "and nothing more is spent");
    assert!(!harness.seen.iter().any(|event| matches!(event.body, EventBody::SessionError(_))));
    drop(session);
}

/// Submits prompts that are queued in one turn. Returns the end of each.
async fn queued(budget: Value, model: &ScriptedModel, prompts: usize) -> Vec<EndReason> {
    let mut harness = Harness::with_model(Arc::new(model.clone()), options(budget)).await;
    let session = harness.session().await;
    for _ in 0..prompts {
        let model = Some(ModelRef::new("demo", "small"));
        let delivery = Some(Delivery::Queue);
        let input = PromptInput { model, delivery, ..PromptInput::text("hi") };
        harness.sessions.submit(&session.id, input).await.unwrap();
    }
    harness.until_idle(&session, Responder::AllowOnce).await;
    let ended = harness.seen.iter().filter_map(|event| match &event.body {
        EventBody::PromptEnded(ended) => Some(ended.reason),
        _ => None,
    });
    ended.collect()
}

#[tokio::test(start_paused = true)]
async fn queued_prompts_share_the_budget_of_their_turn() {
    let slow = || Reply::text("Hello.").using(1_000, 100).after(Duration::from_secs(50));
    for budget in [
        json!({ "tokens": { "turn": 2_000 } }),
        json!({ "cost": { "turn": 0.005 } }),
        json!({ "steps": { "turn": 2 } }),
        json!({ "minutes": { "turn": 2 } }),
    ] {
        let model = ScriptedModel::new((0..4).map(|_| slow()));
        let ends = queued(budget.clone(), &model, 3).await;
        assert_eq!(ends, [EndReason::Completed, EndReason::Completed, EndReason::Budget], "{budget}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_title_is_paid_for() {
    let slow = || Reply::text("Hello.").using(1_000, 100).after(Duration::from_secs(5));
    let titled = || ScriptedModel::new([slow()]).title(Reply::text("A title").using(200, 10));
    let (harness, session, end, _) = turn(json!({}), &titled()).await;
    assert_eq!(end, EndReason::Completed);
    let session = harness.sessions.get(&session.id).await.unwrap();
    assert_eq!(session.cost, Some(Number(0.003 + 0.0005)));
    let tokens = session.tokens.unwrap();
    assert_eq!((tokens.input, tokens.output), (1_200, 110));

    let call = Reply::call("c", "list", json!({})).using(1_000, 100).after(Duration::from_secs(5));
    let model = ScriptedModel::new([call]).title(Reply::text("A title").using(200, 10));
    let (_, _, end, _) = turn(json!({ "tokens": { "turn": 1_300 } }), &model).await;
    assert_eq!(
        (end, model.conversations().len()),
        (EndReason::Budget, 1),
        "the step and the title have used it up"
    );
}

#[tokio::test(start_paused = true)]
async fn a_summary_is_paid_for() {
    let call = Reply::call("c", "list", json!({})).using(25_000, 100);
    let model = ScriptedModel::new([call]).summaries([Reply::text("So far.").using(10_000, 1_000)]);
    let (harness, session, end, _) = turn(json!({ "tokens": { "turn": 36_000 } }), &model).await;
    assert_eq!((end, model.conversations().len()), (EndReason::Budget, 1), "the summary has used it up");
    let tokens = harness.sessions.get(&session.id).await.unwrap().tokens.unwrap();
    assert_eq!((tokens.input, tokens.output), (35_000, 1_100));
}
