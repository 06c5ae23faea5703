//! Turns: their agents and models, their number of steps, and the work without a model call.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use llm::Purpose;
use protocol::message::ModelRef;
use protocol::number::Number;
use protocol::part::SubtaskPart;
use protocol::prompt::{Delivery, PartInput, PartInputBody, PromptInput};
use protocol::request::{Action, Rule};
use protocol::{EndReason, EventBody, Extra, Message, Session, ToolState};
use serde_json::json;

use super::harness::{Harness, Responder};
use super::scripted_model::{Reply, ScriptedModel};
use crate::{Instruction, Instructions, Options, built_in};

fn allowing() -> Options {
    Options { agents: built_in(&[Rule::new("*", "*", Action::Allow)]), ..Options::default() }
}

fn input(text: &str) -> PromptInput {
    PromptInput { model: Some(ModelRef::new("demo", "any")), ..PromptInput::text(text) }
}

#[tokio::test(start_paused = true)]
async fn the_last_step_an_agent_may_take_has_no_tools() {
    let mut options = allowing();
    options.agents[0].steps = Some(2);
    let model =
        ScriptedModel::new([Reply::call("c1", "list", json!({})), Reply::text("That is how far I got.")]);
    let mut harness = Harness::with_model(Arc::new(model.clone()), options).await;
    let session = harness.turn("any", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let asked = model.requests(Purpose::Turn);
    assert!(!asked[0].tools.is_empty() && !asked[0].system.contains("the last step"));
    assert!(asked[1].tools.is_empty() && asked[1].system.contains("the last step"));
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_wants_more_steps_than_it_may_take_is_stopped() {
    let mut options = allowing();
    options.agents[0].steps = Some(3);
    let model =
        ScriptedModel::new((0..9).map(|at| Reply::call(&format!("c{at}"), "list", json!({ "at": at }))));
    let mut harness = Harness::with_model(Arc::new(model.clone()), options).await;
    let session = harness.turn("any", Responder::AllowOnce).await;
    assert_eq!((harness.end(&session), model.conversations().len()), (EndReason::Budget, 3));
    let tools = harness.tools(&session).await;
    assert!(
        matches!(&tools[2], ToolState::Error(it) if it.error.contains("no tools in the last step")),
        "{tools:?}"
    );
    let last = harness.messages(&session).await.pop().unwrap();
    let Message::Assistant(last) = last.info else { panic!("{last:?}") };
    insta::assert_snapshot!(last.error.unwrap().message(), @"The turn has taken 3 steps, the limit of its agent.");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_need_not_end_the_turn() {
    let options = Options { continue_on_deny: true, ..Options::default() };
    let model = ScriptedModel::new([
        Reply::call("c1", "bash", json!({ "command": "rm x" })),
        Reply::text("As you wish."),
    ]);
    let mut harness = Harness::with_model(Arc::new(model.clone()), options).await;
    let session = harness.turn("any", Responder::Reject).await;
    assert_eq!((harness.end(&session), model.conversations().len()), (EndReason::Completed, 2));
}

#[tokio::test(start_paused = true)]
async fn a_prompt_that_joins_is_answered_next_by_its_agent() {
    let model = ScriptedModel::new([
        Reply::call("c1", "list", json!({})).after(Duration::from_secs(9)),
        Reply::text("Both."),
    ]);
    let mut harness = Harness::with_model(Arc::new(model.clone()), allowing()).await;
    let session = harness.session().await;
    harness.sessions.submit(&session.id, input("one")).await.unwrap();
    let two = PromptInput {
        agent: Some("plan".into()),
        model: Some(ModelRef::new("demo", "other")),
        system: Some("Rhyme.".into()),
        ..input("two")
    };
    let two = harness.sessions.submit(&session.id, two).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    let last = harness.messages(&session).await.pop().unwrap();
    let Message::Assistant(last) = last.info else { panic!("{last:?}") };
    assert_eq!(last.parent_id, *two.message.info.id());
    assert_eq!((last.agent.as_str(), last.model_id.as_str()), ("plan", "other"));
    let asked = &model.requests(Purpose::Turn)[1];
    assert_eq!(asked.model.model, "other");
    assert!(asked.system.contains("Rhyme."));
    insta::assert_snapshot!(model.conversations()[1], @r"
    user: one
    model: list#c1
    tools: #c1
    user: two | <system-reminder>
    You are planning. Look, think and ask as m
    ");
}

#[tokio::test(start_paused = true)]
async fn a_turn_fails_for_an_agent_whose_rules_are_unknown() {
    let model = ScriptedModel::new([
        Reply::call("c1", "list", json!({})).after(Duration::from_secs(9)),
        Reply::call("c2", "write", json!({ "filePath": "never", "content": "" })),
    ]);
    let mut harness = Harness::with_model(Arc::new(model.clone()), allowing()).await;
    let session = harness.session().await;
    harness.sessions.submit(&session.id, input("one")).await.unwrap();
    // An agent that was configured while the turn was running.
    let careful = |text: &str| PromptInput { agent: Some("careful".into()), ..input(text) };
    let mut attached = careful("three");
    let file = json!({ "type": "file", "mime": "text/plain", "url": "file:README.md" });
    attached.parts.push(serde_json::from_value(file).unwrap());
    let refused = harness.sessions.submit(&session.id, attached).await.unwrap_err().to_string();
    assert!(refused.contains("there is no agent \"careful\" here"), "{refused}");
    harness.sessions.submit(&session.id, careful("two")).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    assert_eq!((harness.end(&session), model.conversations().len()), (EndReason::Error, 1));
    assert!(!harness.project.path().join("never").exists());
    let said = harness.seen.iter().find_map(|event| match &event.body {
        EventBody::SessionError(it) => it.error.as_ref().map(|error| error.message().to_owned()),
        _ => None,
    });
    insta::assert_snapshot!(said.unwrap(), @r#"there is no agent "careful" here (known agents: build, plan, general, explore); if it was configured just now, send the prompt again when the session is idle"#);
}

#[tokio::test(start_paused = true)]
async fn a_queued_prompt_follows_the_answer_that_it_waited_for() {
    let model = ScriptedModel::new([
        Reply::call("c1", "list", json!({})).after(Duration::from_secs(9)),
        Reply::text("First."),
        Reply::text("Second."),
        Reply::text("Third."),
    ]);
    let mut harness = Harness::with_model(Arc::new(model.clone()), allowing()).await;
    let session = harness.session().await;
    harness.sessions.submit(&session.id, input("one")).await.unwrap();
    let later = PromptInput { delivery: Some(Delivery::Queue), ..input("two") };
    harness.sessions.submit(&session.id, later).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    harness.sessions.submit(&session.id, input("three")).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    insta::assert_snapshot!(model.conversations()[3], @r"
    user: one
    model: list#c1
    tools: #c1
    model: First.
    user: two
    model: Second.
    user: three
    ");
}

#[tokio::test(start_paused = true)]
async fn prompts_that_join_together_keep_their_position() {
    let model = ScriptedModel::new([
        Reply::call("c1", "list", json!({})).after(Duration::from_secs(9)),
        Reply::call("c2", "list", json!({ "path": "." })),
        Reply::text("All three."),
    ]);
    let mut harness = Harness::with_model(Arc::new(model.clone()), allowing()).await;
    let session = harness.session().await;
    for prompt in ["one", "two", "three"] {
        harness.sessions.submit(&session.id, input(prompt)).await.unwrap();
    }
    harness.until_idle(&session, Responder::AllowOnce).await;
    insta::assert_snapshot!(model.conversations()[2], @r"
    user: one
    model: list#c1
    tools: #c1
    user: two
    user: three
    model: list#c2
    tools: #c2
    ");
}

fn subtask(command: Option<&str>) -> PromptInput {
    let task = SubtaskPart {
        prompt: "count the files".into(),
        description: "Count files".into(),
        agent: "general".into(),
        model: None,
        command: command.map(str::to_owned),
        extra: Extra::new(),
    };
    PromptInput { parts: vec![PartInput { id: None, body: PartInputBody::Subtask(task) }], ..input("") }
}

#[tokio::test(start_paused = true)]
async fn a_task_for_a_subagent_is_run_without_asking_the_model() {
    let model = ScriptedModel::new([Reply::text("There are three."), Reply::text("Three files, I hear.")]);
    let mut harness = Harness::with_model(Arc::new(model.clone()), Options::default()).await;
    let session = harness.session().await;
    harness.sessions.submit(&session.id, subtask(Some("count"))).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    insta::assert_snapshot!(harness.story(&session.id));
    let conversations = model.conversations();
    assert_eq!(conversations[0], "user: count the files");
    assert!(
        conversations[1].ends_with("Summarize the task tool output above and continue with your "),
        "{}",
        conversations[1]
    );
    let children = harness.sessions.children(&session.id).await.unwrap();
    assert_eq!(children[0].title, "Count files (@general subagent)");
    let messages = harness.messages(&session).await;
    let Message::Assistant(step) = &messages[1].info else { panic!("{messages:?}") };
    assert_eq!(step.agent, "general");
}

#[tokio::test(start_paused = true)]
async fn after_a_task_without_a_command_the_model_continues() {
    let model = ScriptedModel::new([Reply::text("There are three."), Reply::text("Three files, I hear.")]);
    let mut harness = Harness::with_model(Arc::new(model.clone()), Options::default()).await;
    let session = harness.session().await;
    harness.sessions.submit(&session.id, subtask(None)).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    assert_eq!(harness.messages(&session).await.len(), 3);
    assert!(model.conversations()[1].contains("tools: #prt_"), "{}", model.conversations()[1]);
}

/// Starts a child whose agent may use `task` and tries to start a grandchild. Returns the number of grandchildren.
async fn grandchildren(depth: u32) -> usize {
    let agents = built_in(&[Rule::new("task", "*", Action::Allow)]);
    let options = Options { subagent_depth: depth, agents, ..Options::default() };
    let task = |id: &str| {
        Reply::call(id, "task", json!({ "description": "d", "prompt": "p", "subagent_type": "general" }))
    };
    let model = ScriptedModel::new([task("c1"), task("c2"), Reply::text("deep"), Reply::text("back")]);
    let mut harness = Harness::with_model(Arc::new(model), options).await;
    let session = harness.turn("any", Responder::AllowOnce).await;
    let children = harness.sessions.children(&session.id).await.unwrap();
    match children.first() {
        Some(child) => harness.sessions.children(&child.id).await.unwrap().len(),
        None => 0,
    }
}

#[tokio::test(start_paused = true)]
async fn subagents_nest_as_deep_as_they_may() {
    assert_eq!(grandchildren(1).await, 0);
    assert_eq!(grandchildren(2).await, 1);
}

#[tokio::test(start_paused = true)]
async fn without_subagents_a_task_fails_visibly() {
    let options = Options { subagent_depth: 0, ..Options::default() };
    let model = ScriptedModel::default();
    let mut harness = Harness::with_model(Arc::new(model.clone()), options).await;
    let session = harness.session().await;
    harness.sessions.submit(&session.id, subtask(None)).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    let tools = harness.tools(&session).await;
    assert!(matches!(&tools[..], [ToolState::Error(it)] if it.error.contains("nest")), "{tools:?}");
    assert!(model.requests(Purpose::Turn)[0].tools.iter().all(|tool| tool.name != "task"));
}

struct Slow;

impl Instructions for Slow {
    fn find<'a>(&'a self, _: &'a Session) -> BoxFuture<'a, Vec<Instruction>> {
        std::future::pending().boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn instructions_are_included_unless_they_time_out() {
    let text = Instruction { source: "AGENTS.md".into(), text: "Use tabs.".into() };
    let known: Arc<dyn Instructions> = Arc::new(vec![text]);
    for (instructions, told) in [(known, true), (Arc::new(Slow) as Arc<dyn Instructions>, false)] {
        let model = ScriptedModel::default();
        let options = Options { instructions, ..Options::default() };
        let mut harness = Harness::with_model(Arc::new(model.clone()), options).await;
        let session = harness.turn("any", Responder::AllowOnce).await;
        assert_eq!(harness.end(&session), EndReason::Completed);
        let system = &model.requests(Purpose::Turn)[0].system;
        assert_eq!(system.contains("Instructions from AGENTS.md:\nUse tabs."), told, "{system}");
    }
}

#[tokio::test(start_paused = true)]
async fn planning_is_reminded_of_in_every_step_and_its_end_once() {
    let model = ScriptedModel::new([
        Reply::call("c", "list", json!({})),
        Reply::text("The plan."),
        Reply::text("Built."),
    ]);
    let mut harness = Harness::with_model(Arc::new(model.clone()), Options::default()).await;
    let session = harness.session().await;
    for agent in ["plan", "build", "build"] {
        let prompt = PromptInput { agent: Some(agent.into()), ..input("go") };
        harness.sessions.submit(&session.id, prompt).await.unwrap();
        harness.until_idle(&session, Responder::AllowOnce).await;
    }
    let counts: Vec<(usize, usize)> = model
        .requests(Purpose::Turn)
        .iter()
        .map(|request| {
            let told = format!("{:?}", request.messages);
            (told.matches("You are planning.").count(), told.matches("no longer planning").count())
        })
        .collect();
    assert_eq!(counts, [(1, 0), (1, 0), (0, 1), (0, 0)]);
}

#[tokio::test(start_paused = true)]
async fn an_agents_settings_reach_the_model() {
    let mut options = Options::default();
    options.agents[0].temperature = Some(Number(0.25));
    options.agents[0].options = Extra::from_iter([("reasoningEffort".to_owned(), json!("high"))]);
    let model = ScriptedModel::default();
    let mut harness = Harness::with_model(Arc::new(model.clone()), options).await;
    let session = harness.session().await;
    let fast = ModelRef { variant: Some("fast".into()), ..ModelRef::new("demo", "any") };
    harness.sessions.submit(&session.id, PromptInput { model: Some(fast), ..input("go") }).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    let asked = &model.requests(Purpose::Turn)[0];
    assert_eq!((asked.sampling.temperature, asked.variant.as_deref()), (Some(0.25), Some("fast")));
    assert_eq!(asked.options["reasoningEffort"], "high");
    assert_eq!(asked.headers.get("x-session-id"), Some(session.id.as_str()));
    assert_eq!(asked.cache_key.as_deref(), Some(session.id.as_str()));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_provider_is_named_in_the_error() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let prompt = PromptInput { model: Some(ModelRef::new("nowhere", "x")), ..input("go") };
    harness.sessions.submit(&session.id, prompt).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Error);
    let said = harness.seen.iter().find_map(|event| match &event.body {
        EventBody::SessionError(it) => it.error.as_ref().map(|error| error.message().to_owned()),
        _ => None,
    });
    assert_eq!(said.unwrap(), "there is no provider \"nowhere\"; known providers: demo");
}
