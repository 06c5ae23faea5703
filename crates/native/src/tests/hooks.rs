//! Turns with hooks, at every hook point.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::ports::hooks::{
    AutocontinueChoice, ChatContext, CompactionPrompt, Definition, Environment, Headers, HookCall, HookPoint,
    Hooked, Hooks, Messages, Params, Refusal, SmallModelChoice, System, ToolArgs, ToolBefore, ToolOutcome,
};
use futures::future::{self, FutureExt};
use llm::Purpose;
use protocol::number::Number;
use protocol::prompt::{PartInput, PartInputBody, PromptInput};
use protocol::provider::{Model, Provider, ProviderSource};
use protocol::request::{Action, Rule};
use protocol::{EndReason, Extra, PartBody, Session, ToolState};
use serde_json::json;

use super::harness::{Harness, Responder};
use super::mcp::peer::Peer;
use super::scripted_model::{Reply, ScriptedModel};
use crate::{Options, built_in};

/// Uses the wanted hooks, and records each call.
struct RecordingHooks {
    wanted: Vec<HookPoint>,
    calls: Mutex<Vec<String>>,
}

impl RecordingHooks {
    fn new(wanted: &[HookPoint]) -> Arc<Self> {
        Arc::new(Self { wanted: wanted.to_vec(), calls: Mutex::default() })
    }

    fn note(&self, what: String) {
        self.calls.lock().unwrap().push(what);
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    fn chat(&self, place: &str, chat: &ChatContext) {
        let ChatContext { agent, model, provider, message, .. } = chat;
        self.note(format!("{place} {agent} {}/{} {}", provider.info.id, model.id, message.agent));
    }
}

impl Hooks for RecordingHooks {
    fn wants(&self, point: HookPoint) -> bool {
        self.wanted.contains(&point)
    }

    fn call<'a>(&'a self, call: HookCall<'a>) -> Hooked<'a> {
        future::ready(self.change(call)).boxed()
    }
}

impl RecordingHooks {
    fn change(&self, call: HookCall<'_>) -> Result<(), Refusal> {
        match call.point {
            HookPoint::ChatParams => {
                let (chat, output) = call.typed::<Params>().unwrap();
                self.chat("params", chat);
                output.temperature = Some(Number(0.25));
                output.top_k = Some(Number(40.0));
                output.max_output_tokens = Some(Number(123.0));
                output.options.insert("effort".into(), "high".into());
            }
            HookPoint::ChatHeaders => {
                let (chat, output) = call.typed::<Headers>().unwrap();
                self.chat("headers", chat);
                output.headers.insert("X-Shaped".into(), "yes".into());
            }
            HookPoint::SystemTransform => {
                call.typed::<System>().unwrap().1.system.push("Be brief.".into());
            }
            HookPoint::MessagesTransform => {
                for message in &mut call.typed::<Messages>().unwrap().1.messages {
                    for part in &mut message.parts {
                        if let PartBody::Text(text) = &mut part.body {
                            text.text =
                                text.text.replace("please", "kindly").replace("A summary", "A digest");
                        }
                    }
                }
            }
            HookPoint::ToolDefinition => {
                let (input, output) = call.typed::<Definition>().unwrap();
                output.description = format!("{}, shaped", input.tool_id);
                output.json_schema = json!({ "type": "object" });
            }
            HookPoint::ToolBefore => {
                let (input, output) = call.typed::<ToolArgs>().unwrap();
                return self.before_tool(input, output);
            }
            HookPoint::ToolAfter => {
                let (input, output) = call.typed::<ToolOutcome>().unwrap();
                self.note(format!("after {} {} {}", input.tool, input.call_id, input.args));
                output.output.push_str(" and seen");
                output.title = "seen".into();
                output.metadata.insert("seen".into(), true.into());
            }
            HookPoint::ShellEnv => {
                let (input, output) = call.typed::<Environment>().unwrap();
                self.note(format!("env {}", input.call_id.as_deref().unwrap_or("-")));
                output.env.insert("SHAPED".into(), "by a plugin".into());
                output.env.insert("NOT=ONE".into(), "x".into());
            }
            HookPoint::SmallModel => {
                let (input, output) = call.typed::<SmallModelChoice>().unwrap();
                output.model = input.provider.models.get("other").cloned();
            }
            HookPoint::SessionCompacting => {
                call.typed::<CompactionPrompt>().unwrap().1.context.push("Mind the harbour.".into());
            }
            HookPoint::CompactionAutocontinue => {
                let (input, output) = call.typed::<AutocontinueChoice>().unwrap();
                self.chat(if input.overflow { "refused" } else { "full" }, &input.chat);
                output.enabled = false;
            }
            _ => {}
        }
        Ok(())
    }

    fn before_tool(&self, input: &ToolBefore, output: &mut ToolArgs) -> Result<(), Refusal> {
        self.note(format!("before {} {} {}", input.tool, input.call_id, output.args));
        match input.tool.as_str() {
            "bash" => output.args = json!({ "command": "printf shaped" }),
            "peer_echo" => output.args = json!({ "text": "shaped" }),
            "task" if output.args["prompt"] == "forbidden" => {
                return Err(Refusal("Nobody else may do this".into()));
            }
            "task" => output.args["prompt"] = "shaped".into(),
            "read" if output.args["filePath"] == ".env" => {
                return Err(Refusal("Do not read .env files".into()));
            }
            "read" => output.args = json!({ "wrong": true }),
            _ => {}
        }
        Ok(())
    }
}

fn model(id: &str) -> (String, Model) {
    let kinds = json!({ "text": true, "audio": false, "image": false, "video": false, "pdf": false });
    let model = json!({
        "id": id, "providerID": "demo", "name": id, "api": { "id": id, "url": "", "npm": "" },
        "capabilities": {
            "temperature": true, "reasoning": false, "attachment": false, "toolcall": true,
            "input": kinds, "output": kinds, "interleaved": false,
        },
        "cost": { "input": 0, "output": 0, "cache": { "read": 0, "write": 0 } },
        "limit": { "context": 0, "output": 0 },
        "status": "active", "options": {}, "headers": {}, "release_date": "",
    });
    (id.to_owned(), serde_json::from_value(model).unwrap())
}

fn options() -> Options {
    let provider = Provider {
        id: "demo".to_owned(),
        name: "Demo".to_owned(),
        source: ProviderSource::Custom,
        env: Vec::new(),
        options: Extra::new(),
        models: BTreeMap::from(["simple", "small", "other"].map(model)),
        extra: Extra::new(),
    };
    Options { providers: vec![provider], ..Options::default() }
}

async fn harness(model: &ScriptedModel, hooks: &Arc<RecordingHooks>) -> Harness {
    Harness::with_hooks(Arc::new(model.clone()), options(), hooks.clone()).await
}

fn calls(tool: &str, input: serde_json::Value) -> ScriptedModel {
    ScriptedModel::new([Reply::call("c1", tool, input), Reply::text("done")])
}

/// Runs a turn whose prompt gives a task to a subagent.
async fn hand_out(harness: &mut Harness, prompt: &str) -> Session {
    let session = harness.session().await;
    let task = json!({ "type": "subtask", "prompt": prompt, "description": "Look", "agent": "general" });
    let body: PartInputBody = serde_json::from_value(task).unwrap();
    let part = PartInput { id: None, body };
    let input = PromptInput { parts: vec![part], ..PromptInput::text("") };
    harness.sessions.submit(&session.id, input).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    session
}

#[tokio::test(start_paused = true)]
async fn calls_of_models_are_shaped_each_time_for_titles_too() {
    let hooks =
        RecordingHooks::new(&[HookPoint::ChatParams, HookPoint::ChatHeaders, HookPoint::SystemTransform]);
    let silent = llm::Error::Stalled { deadline: llm::Deadline::FirstChunk, after: Duration::from_secs(1) };
    let model = ScriptedModel::new([Reply::refused(silent), Reply::text("done")]);
    let mut harness = harness(&model, &hooks).await;
    let session = harness.turn("simple", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let requests = [model.requests(Purpose::Turn), model.requests(Purpose::Title)].concat();
    assert_eq!(requests.len(), 3, "two attempts and a title");
    for request in &requests {
        assert_eq!((request.sampling.temperature, request.sampling.top_k), (Some(0.25), Some(40)));
        assert_eq!(request.limits.output_tokens, Some(123));
        assert_eq!(request.options["effort"], "high");
        assert_eq!(request.headers.get("x-shaped"), Some("yes"));
        assert_eq!(request.headers.get("x-session-id"), Some(session.id.as_str()), "the others stay");
        assert!(request.system.ends_with("\n\nBe brief."), "{}", request.system);
    }
    let mut recorded = hooks.calls();
    recorded.sort();
    recorded.dedup();
    let expected = ["headers build", "headers title", "params build", "params title"];
    assert_eq!(recorded, expected.map(|who| format!("{who} demo/simple build")));
}

#[tokio::test(start_paused = true)]
async fn hooks_change_the_conversation_and_the_tools_but_not_the_stored_messages() {
    let hooks = RecordingHooks::new(&[HookPoint::MessagesTransform, HookPoint::ToolDefinition]);
    let model = ScriptedModel::new([]);
    let mut harness = harness(&model, &hooks).await;
    let session = harness.turn("simple", Responder::AllowOnce).await;
    let request = &model.requests(Purpose::Turn)[0];
    assert_eq!(model.conversations()[0], "user: kindly");
    assert!(request.tools.iter().all(|tool| tool.description == format!("{}, shaped", tool.name)));
    assert!(request.tools.iter().all(|tool| tool.schema == json!({ "type": "object" })));
    let messages = harness.messages(&session).await;
    assert_eq!(messages[0].parts[0].text(), Some("please"));
}

#[tokio::test]
async fn a_tool_is_shaped_before_and_after() {
    let hooks = RecordingHooks::new(&[HookPoint::ToolBefore, HookPoint::ToolAfter, HookPoint::ShellEnv]);
    let mut harness = harness(&calls("bash", json!({ "command": "printf plain" })), &hooks).await;
    let session = harness.turn("simple", Responder::AllowOnce).await;
    let tools = harness.tools(&session).await;
    let [ToolState::Completed(state)] = &tools[..] else { panic!("{tools:?}") };
    assert_eq!((state.title.as_str(), state.output.as_str()), ("seen", "shaped and seen"));
    assert_eq!((&state.input["command"], &state.metadata["seen"]), (&json!("printf shaped"), &json!(true)));
    assert_eq!(
        hooks.calls(),
        [
            r#"before bash c1 {"command":"printf plain"}"#,
            "env c1",
            r#"after bash c1 {"command":"printf shaped"}"#
        ]
    );
}

#[tokio::test]
async fn arguments_that_no_longer_fit_are_reported_to_the_model() {
    let hooks = RecordingHooks::new(&[HookPoint::ToolBefore, HookPoint::ToolAfter]);
    let mut harness = harness(&calls("read", json!({ "filePath": "README.md" })), &hooks).await;
    let session = harness.turn("simple", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let tools = harness.tools(&session).await;
    let [ToolState::Error(state)] = &tools[..] else { panic!("{tools:?}") };
    assert!(state.error.starts_with("The arguments do not fit the tool read"), "{}", state.error);
    assert_eq!(hooks.calls().len(), 1, "a failed call does not reach the hook");
}

#[tokio::test]
async fn a_call_that_is_forbidden_is_not_made_and_the_model_reads_why() {
    let hooks = RecordingHooks::new(&[HookPoint::ToolBefore, HookPoint::ToolAfter]);
    let both = Reply::call("c1", "read", json!({ "filePath": ".env" })).and_call("c2", "list", json!({}));
    let model = ScriptedModel::new([both, Reply::text("done")]);
    let mut harness = harness(&model, &hooks).await;
    std::fs::write(harness.project.path().join(".env"), "KEY=secret").unwrap();
    let session = harness.turn("simple", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let tools = harness.tools(&session).await;
    let [ToolState::Error(forbidden), ToolState::Completed(_)] = &tools[..] else { panic!("{tools:?}") };
    assert_eq!(forbidden.error, "Do not read .env files");
    assert_eq!(forbidden.input["filePath"], ".env");
    let messages = format!("{:?}", model.requests(Purpose::Turn)[1].messages);
    assert!(messages.contains("Do not read .env files") && !messages.contains("secret"), "{messages}");
    let recorded = hooks.calls();
    assert!(recorded.iter().all(|call| !call.starts_with("after read")), "{recorded:?}");
}

#[tokio::test]
async fn a_tool_of_a_server_is_shaped_like_any_other_but_described_by_itself() {
    let peer = Peer::new();
    let hooks =
        RecordingHooks::new(&[HookPoint::ToolBefore, HookPoint::ToolAfter, HookPoint::ToolDefinition]);
    let model = calls("peer_echo", json!({ "text": "plain" }));
    let rules = [Rule::new("peer_*", "*", Action::Allow)];
    let options = Options { agents: built_in(&rules), mcp: peer.servers("plain"), ..options() };
    let mut harness = Harness::with_hooks(Arc::new(model.clone()), options.clone(), hooks.clone()).await;
    let session = harness.turn("simple", Responder::AllowOnce).await;
    let tools = harness.tools(&session).await;
    let [ToolState::Completed(state)] = &tools[..] else { panic!("{tools:?}") };
    assert_eq!(state.output, "You said: shaped and seen");
    let offered = model.requests(Purpose::Turn)[0].tools.clone();
    let of = |name: &str| offered.iter().find(|tool| tool.name == name).unwrap().description.clone();
    assert!(!of("peer_echo").ends_with("shaped") && of("read").ends_with("shaped"));
    options.mcp.close().await;
}

#[tokio::test]
async fn a_process_gets_variables_and_an_invalid_one_is_left_out() {
    let hooks = RecordingHooks::new(&[HookPoint::ShellEnv]);
    let mut harness = harness(&calls("bash", json!({ "command": "printf \"$SHAPED\"" })), &hooks).await;
    let session = harness.turn("simple", Responder::AllowOnce).await;
    let tools = harness.tools(&session).await;
    let [ToolState::Completed(state)] = &tools[..] else { panic!("{tools:?}") };
    assert_eq!(state.output, "by a plugin");
}

#[tokio::test]
async fn a_task_of_a_prompt_is_shaped_like_a_call() {
    let hooks = RecordingHooks::new(&[HookPoint::ToolBefore, HookPoint::ToolAfter]);
    let model = ScriptedModel::new([]);
    let mut harness = harness(&model, &hooks).await;
    let session = hand_out(&mut harness, "plain").await;
    let tools = harness.tools(&session).await;
    let [ToolState::Completed(state)] = &tools[..] else { panic!("{tools:?}") };
    assert_eq!((&state.input["prompt"], state.title.as_str()), (&json!("shaped"), "seen"));
    assert!(
        model.conversations().iter().any(|conversation| conversation == "user: shaped"),
        "{:?}",
        model.conversations()
    );
    let recorded = hooks.calls();
    assert!(
        recorded[0].starts_with("before task prt_") && recorded[1].starts_with("after task prt_"),
        "{recorded:?}"
    );
}

#[tokio::test]
async fn a_task_of_a_prompt_is_forbidden_like_a_call() {
    let hooks = RecordingHooks::new(&[HookPoint::ToolBefore]);
    let model = ScriptedModel::new([]);
    let mut harness = harness(&model, &hooks).await;
    let session = hand_out(&mut harness, "forbidden").await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let tools = harness.tools(&session).await;
    let [ToolState::Error(state)] = &tools[..] else { panic!("{tools:?}") };
    assert_eq!(state.error, "Nobody else may do this");
    assert!(
        model.conversations().iter().all(|conversation| conversation != "user: forbidden"),
        "{:?}",
        model.conversations()
    );
}

#[tokio::test(start_paused = true)]
async fn a_small_model_may_be_chosen() {
    let hooks = RecordingHooks::new(&[HookPoint::SmallModel]);
    let model = ScriptedModel::new([]);
    let mut harness = harness(&model, &hooks).await;
    harness.turn("simple", Responder::AllowOnce).await;
    assert_eq!(model.requests(Purpose::Title)[0].model.model, "other");
    assert_eq!(model.requests(Purpose::Turn)[0].model.model, "simple");
}

#[tokio::test(start_paused = true)]
async fn a_summary_is_asked_for_in_other_words_and_may_end_the_turn() {
    let hooks = RecordingHooks::new(&[HookPoint::SessionCompacting, HookPoint::CompactionAutocontinue]);
    let full = Reply::call("c1", "list", json!({})).using(24_000, 100);
    let model = ScriptedModel::new([full, Reply::text("not asked for")]);
    let mut harness = harness(&model, &hooks).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let question = format!("{:?}", model.requests(Purpose::Compaction)[0].messages);
    assert!(question.contains("Mind the harbour."), "{question}");
    assert_eq!(model.requests(Purpose::Turn).len(), 1);
    assert_eq!(hooks.calls(), ["full build demo/small build"]);
}

#[tokio::test(start_paused = true)]
async fn no_model_sees_text_that_a_plugin_hides() {
    let hooks = RecordingHooks::new(&[HookPoint::MessagesTransform]);
    let full = |id: &str| Reply::call(id, "list", json!({})).using(24_000, 100);
    let model = ScriptedModel::new([full("c1"), full("c2"), Reply::text("done")]);
    let mut harness = harness(&model, &hooks).await;
    let session = harness.turn("small", Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    let sent = |purpose| model.requests(purpose).iter().map(|it| format!("{:?}", it.messages)).collect();
    let (titles, summaries): (Vec<String>, Vec<String>) = (sent(Purpose::Title), sent(Purpose::Compaction));
    assert_eq!((titles.len(), summaries.len()), (1, 2));
    for request in [&titles, &summaries, &sent(Purpose::Turn)].into_iter().flatten() {
        assert!(!request.contains("please") && !request.contains("A summary"), "{request}");
    }
    assert!(titles[0].contains("kindly") && summaries[0].contains("kindly"), "{titles:?} {summaries:?}");
    assert!(summaries[1].contains("<previous_summary>\\nA digest"), "{}", summaries[1]);
    assert_eq!(harness.messages(&session).await[0].parts[0].text(), Some("please"));
}

#[tokio::test(start_paused = true)]
async fn an_abort_does_not_wait_for_a_plugin() {
    struct Hangs(HookPoint);
    impl Hooks for Hangs {
        fn wants(&self, point: HookPoint) -> bool {
            point == self.0
        }
        fn call<'a>(&'a self, _: HookCall<'a>) -> Hooked<'a> {
            future::pending().boxed()
        }
    }
    for point in
        [HookPoint::ChatParams, HookPoint::MessagesTransform, HookPoint::ToolBefore, HookPoint::ToolAfter]
    {
        let model = calls("list", json!({}));
        let mut harness = Harness::with_hooks(Arc::new(model), options(), Arc::new(Hangs(point))).await;
        let session = harness.session().await;
        harness.submit(&session, "simple", "please").await;
        harness.until(|body| body.kind() == "session.status").await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        harness.abort(&session).await;
        harness.until_idle(&session, Responder::AllowOnce).await;
        assert_eq!(harness.end(&session), EndReason::Aborted, "{point}");
    }
}
