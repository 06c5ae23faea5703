//! The effects of tools on the project, and their results.

use llm::demo::Scenarios;
use protocol::message::ModelRef;
use protocol::prompt::PromptInput;
use protocol::request::{Action, Rule};
use protocol::{EndReason, EventBody, Message, Session, ToolState};
use serde_json::{Value, json};

use super::harness::{Harness, Responder};
use crate::{Options, ToolOptions, built_in};

/// A model that makes these calls, one per step, and then stops.
pub(super) fn calling(calls: &[(&str, Value)]) -> Scenarios {
    named("calls", calls)
}

/// The same with another model name, which decides the offered tools.
pub(super) fn named(model: &str, calls: &[(&str, Value)]) -> Scenarios {
    let mut steps: Vec<Value> = calls
        .iter()
        .map(|(name, input)| {
            json!([{ "do": "tool", "name": name, "input": input }, { "do": "finish", "reason": "tool-calls" }])
        })
        .collect();
    steps.push(json!([{ "do": "text", "text": "Done." }, { "do": "finish", "reason": "stop" }]));
    Scenarios::parse(&json!({ model: { "about": "test", "steps": steps } }).to_string()).unwrap()
}

pub(super) async fn run_calls(
    calls: &[(&str, Value)],
    rules: &[Rule],
    responder: Responder,
) -> (Harness, Session, Vec<ToolState>) {
    let options = Options { agents: built_in(rules), ..Options::default() };
    let mut harness = Harness::with_scenarios(calling(calls), options).await;
    let session = harness.turn("calls", responder).await;
    let tools = harness.tools(&session).await;
    (harness, session, tools)
}

pub(super) fn output(state: &ToolState) -> &str {
    match state {
        ToolState::Completed(state) => &state.output,
        ToolState::Error(state) => &state.error,
        other => panic!("still open: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_changes_the_file_and_shows_the_change() {
    let mut harness = Harness::new().await;
    let session = harness.turn("read_edit", Responder::AllowOnce).await;
    let text = std::fs::read_to_string(harness.project.path().join("README.md")).unwrap();
    assert!(text.ends_with("End of file.\nAdded by the demo.\n"), "{text}");
    let shown = serde_json::to_string_pretty(&harness.tools(&session).await).unwrap();
    let directory = harness.project.path().canonicalize().unwrap();
    let shown = shown.replace(directory.to_str().unwrap(), "/project");
    let times = shown.lines().filter(|line| !line.contains("\"start\"") && !line.contains("\"end\""));
    insta::assert_snapshot!(times.collect::<Vec<_>>().join("\n"));
    let edited =
        |body: &EventBody| matches!(body, EventBody::FileEdited(it) if it.file.ends_with("/README.md"));
    assert!(harness.seen.iter().any(|event| edited(&event.body)));
}

#[tokio::test(start_paused = true)]
async fn arguments_that_do_not_fit_fail_the_call_under_the_name_of_the_tool() {
    let calls = [("read", json!({ "name": "README.md" }))];
    let (harness, _, tools) = run_calls(&calls, &[], Responder::Reject).await;
    let [ToolState::Error(state)] = tools.as_slice() else { panic!("{tools:?}") };
    assert_eq!(
        state.error,
        "The arguments do not fit the tool read: missing field `filePath`. Call it again with arguments that \
         fit its schema."
    );
    assert_eq!(serde_json::to_value(&state.input).unwrap(), json!({ "name": "README.md" }));
    let running = |body: &EventBody| match body {
        EventBody::PartUpdated(it) => serde_json::to_value(&it.part).unwrap()["tool"] == "read",
        _ => false,
    };
    assert!(harness.seen.iter().any(|event| running(&event.body)), "the call is shown as the tool's");
}

#[tokio::test(start_paused = true)]
async fn files_are_written_read_and_listed() {
    let calls = [
        ("write", json!({ "filePath": "src/new.txt", "content": "one\ntwo\n" })),
        ("read", json!({ "filePath": "src/new.txt", "offset": "2" })),
        ("list", json!({})),
        ("read", json!({ "filePath": "src" })),
        ("edit", json!({ "filePath": "src/new.txt", "oldString": "three", "newString": "3" })),
    ];
    let (harness, _, tools) = run_calls(&calls, &[], Responder::Reject).await;
    let shown: Vec<&str> = tools.iter().map(output).collect();
    let directory = harness.project.path().canonicalize().unwrap();
    insta::assert_snapshot!(shown.join("\n----\n").replace(directory.to_str().unwrap(), "/project"));
}

#[tokio::test(start_paused = true)]
async fn places_outside_are_asked_about() {
    for (name, input) in [
        ("read", json!({ "filePath": "/etc/hostname" })),
        ("read", json!({ "filePath": "../../etc/hostname" })),
        ("write", json!({ "filePath": "/no/such/place", "content": "x" })),
        ("list", json!({ "path": "/" })),
        ("bash", json!({ "command": "ls /etc" })),
        ("bash", json!({ "command": "ls ~" })),
        ("bash", json!({ "command": "pwd", "workdir": "/" })),
    ] {
        let (harness, session, tools) = run_calls(&[(name, input.clone())], &[], Responder::Reject).await;
        assert_eq!(harness.end(&session), EndReason::Blocked, "{name} {input}");
        assert!(matches!(&tools[..], [ToolState::Error(_)]), "{name} {input}");
        let story = harness.story(&session.id);
        assert!(story.contains("permission.asked(external_directory"), "{name} {input}: {story}");
    }
}

#[tokio::test]
async fn looking_commands_run_without_asking_and_keys_are_hidden() {
    let options = Options { hidden: vec!["PATH".to_owned()], ..Options::default() };
    let calls = [("bash", json!({ "command": "echo one; echo two >/dev/null; pwd" }))];
    let mut harness = Harness::with_scenarios(calling(&calls), options).await;
    let session = harness.turn("calls", Responder::Reject).await;
    let tools = harness.tools(&session).await;
    let directory = harness.project.path().canonicalize().unwrap();
    assert_eq!(output(&tools[0]), format!("one\n{}\n", directory.display()));
}

#[tokio::test]
async fn a_command_that_times_out_is_ended_and_reported_to_the_model() {
    let calls = [("bash", json!({ "command": "echo up; sleep 60", "timeout": 300 }))];
    let (harness, session, tools) = run_calls(&calls, &[], Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    assert!(
        output(&tools[0]).starts_with("up\n\n\n<shell_metadata>\nbash tool terminated"),
        "{}",
        output(&tools[0])
    );
}

#[tokio::test]
async fn the_configured_timeout_applies_to_a_command_without_one() {
    let agents = built_in(&[Rule::new("bash", "*", Action::Allow)]);
    let tools = ToolOptions { command: std::time::Duration::from_millis(300), ..ToolOptions::default() };
    let calls = [("bash", json!({ "command": "echo up; sleep 60" }))];
    let mut harness =
        Harness::with_scenarios(calling(&calls), Options { agents, tools, ..Options::default() }).await;
    let session = harness.turn("calls", Responder::Reject).await;
    let tools = harness.tools(&session).await;
    assert!(output(&tools[0]).contains("bash tool terminated"), "{}", output(&tools[0]));
}

#[tokio::test]
async fn a_forgotten_background_process_does_not_hold_the_turn() {
    let calls = [("bash", json!({ "command": "sleep 600 & echo $!" }))];
    let (_, _, tools) = run_calls(&calls, &[], Responder::AllowOnce).await;
    let id: u32 = output(&tools[0]).trim().parse().unwrap();
    let spec = workspace::process::Spec::shell(&format!("kill {id}"), "/", std::time::Duration::from_mins(1));
    let killed = workspace::process::run(spec, &tokio_util::sync::CancellationToken::new(), |_| {}).await;
    assert!(matches!(killed.unwrap().exit, workspace::process::Exit::Code(0)), "the process still ran");
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_is_reported_to_the_model() {
    let rules = [Rule::new("edit", "*.md", Action::Deny)];
    let calls = [("write", json!({ "filePath": "README.md", "content": "" }))];
    let (harness, session, tools) = run_calls(&calls, &rules, Responder::AllowOnce).await;
    assert_eq!(harness.end(&session), EndReason::Completed);
    assert!(
        output(&tools[0]).starts_with("The user has specified a rule which prevents"),
        "{}",
        output(&tools[0])
    );
}

#[tokio::test(start_paused = true)]
async fn the_plan_agent_cannot_call_forbidden_tools() {
    let calls = [("write", json!({ "filePath": "a", "content": "" }))];
    let mut harness = Harness::with_scenarios(calling(&calls), Options::default()).await;
    let session = harness.session().await;
    let mut input = PromptInput::text("please");
    input.model = Some(ModelRef::new("demo", "calls"));
    input.agent = Some("plan".to_owned());
    harness.sessions.submit(&session.id, input).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    let tools = harness.tools(&session).await;
    assert!(
        output(&tools[0]).contains(
            "unavailable tool 'write'. Available tools: bash, glob, grep, list, question, read, task, todowrite, webfetch."
        ),
        "{}",
        output(&tools[0])
    );
}

#[tokio::test(start_paused = true)]
async fn a_prompt_sent_during_a_tool_joins_the_next_step() {
    let scenario = r#"{ "patient": { "about": "asks first", "steps": [
        [ { "do": "tool", "name": "question", "input": { "questions": [
            { "question": "Go?", "header": "Go", "options": [{ "label": "Yes", "description": "" }] } ] } },
          { "do": "finish", "reason": "tool-calls" } ],
        [ { "do": "text", "text": "Done." }, { "do": "finish", "reason": "stop" } ]
    ] } }"#;
    let mut harness = Harness::with_scenarios(Scenarios::parse(scenario).unwrap(), Options::default()).await;
    let session = harness.session().await;
    harness.submit(&session, "patient", "first").await;
    let EventBody::QuestionAsked(asked) =
        harness.until(|body| matches!(body, EventBody::QuestionAsked(_))).await
    else {
        panic!("nothing was asked")
    };
    harness.submit(&session, "patient", "[[scenario:patient]] second").await;
    harness.sessions.reply_question(&asked.id, vec![vec!["Yes".to_owned()]]).await.unwrap();
    harness.until_idle(&session, Responder::AllowOnce).await;
    let messages = harness.messages(&session).await;
    let parents: Vec<&str> = messages
        .iter()
        .filter_map(|message| match &message.info {
            Message::Assistant(info) => Some(info.parent_id.as_str()),
            Message::User(_) => None,
        })
        .collect();
    // The second prompt starts the script over, so the model is called again: three steps, one turn.
    let (first, second) = (
        messages[0].info.id().as_str(),
        messages
            .iter()
            .rev()
            .find_map(|message| match &message.info {
                Message::User(info) => Some(info.id.as_str()),
                Message::Assistant(_) => None,
            })
            .unwrap(),
    );
    assert_eq!(parents, [first, second, second]);
    assert_eq!(harness.end(&session), EndReason::Completed);
}

fn work_of_child(body: &EventBody, parent: &Session) -> Option<&'static str> {
    match body {
        EventBody::SessionStatus(it) if it.session_id == parent.id => None,
        EventBody::SessionStatus(it) => Some(if it.status.is_idle() { "idle" } else { "busy" }),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn children_can_be_several_at_once() {
    let task = |name: &str| {
        json!({ "do": "tool", "name": "task", "input": {
        "description": name, "prompt": "[[scenario:nap]]", "subagent_type": "general" } })
    };
    let scenarios = json!({
        "parent": { "about": "delegates", "steps": [
            [task("one"), task("two"), task("three"), { "do": "finish", "reason": "tool-calls" }],
            [{ "do": "finish", "reason": "stop" }],
        ] },
        "nap": { "about": "naps", "steps": [[
            { "do": "wait", "ms": 60_000 }, { "do": "text", "text": "rested" }, { "do": "finish", "reason": "stop" }
        ]] },
    });
    let mut harness =
        Harness::with_scenarios(Scenarios::parse(&scenarios.to_string()).unwrap(), Options::default()).await;
    let session = harness.turn("parent", Responder::AllowOnce).await;
    let work: Vec<&str> =
        harness.seen.iter().filter_map(|event| work_of_child(&event.body, &session)).collect();
    assert_eq!(work, ["busy", "busy", "busy", "idle", "idle", "idle"]);
    let tools = harness.tools(&session).await;
    assert_eq!(tools.len(), 3);
    assert!(
        tools.iter().all(|state| output(state).contains("<task_result>\nrested\n</task_result>")),
        "{tools:?}"
    );
}
