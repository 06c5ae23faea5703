//! Slash commands and shell commands of the user, in whole turns.

use std::sync::Arc;
use std::time::Duration;

use protocol::agent::Command;
use protocol::prompt::{CommandInput, ShellInput};
use protocol::request::{Action, Rule};
use protocol::{EndReason, EventBody, MessageWithParts, PartBody, Session, ToolState};
use serde_json::json;

use super::harness::{Harness, Responder};
use super::scripted_model::{Reply, ScriptedModel};
use crate::{Options, built_in};

fn templates(templates: &[(&str, &str)]) -> Vec<Command> {
    let command = |(name, template): &(&str, &str)| {
        serde_json::from_value(json!({ "name": name, "template": template, "hints": [] })).unwrap()
    };
    templates.iter().map(command).collect()
}

fn call(command: &str, arguments: &str) -> CommandInput {
    serde_json::from_value(json!({ "command": command, "arguments": arguments, "model": "demo/m" })).unwrap()
}

fn line(command: &str) -> ShellInput {
    let model = json!({ "providerID": "demo", "modelID": "m" });
    serde_json::from_value(json!({ "agent": "build", "command": command, "model": model })).unwrap()
}

/// Runs a command to its end, with the user's answers to permission requests.
async fn run(
    harness: &mut Harness,
    session: &Session,
    input: CommandInput,
    responder: Responder,
) -> MessageWithParts {
    let sessions = harness.sessions.clone();
    let id = session.id.clone();
    let running = tokio::spawn(async move { sessions.command(&id, input).await.unwrap() });
    harness.until_idle(session, responder).await;
    running.await.unwrap()
}

fn asked(harness: &Harness) -> Vec<String> {
    let asked = harness.seen.iter().filter_map(|event| match &event.body {
        EventBody::PermissionAsked(it) => Some(it.patterns.join(" && ")),
        _ => None,
    });
    asked.collect()
}

#[tokio::test(start_paused = true)]
async fn a_command_is_a_turn_and_is_announced_before_idle() {
    let model = ScriptedModel::new([Reply::text("fixed")]);
    let commands = templates(&[("fix", "Fix $1 in @README.md")]);
    let mut harness = Harness::with_commands(Arc::new(model.clone()), Options::default(), commands).await;
    let session = harness.session().await;
    let answer = run(&mut harness, &session, call("fix", "a \"typo\" or two"), Responder::Reject).await;
    assert_eq!(answer.parts[1].text(), Some("fixed"));
    assert!(
        model.conversations()[0].starts_with("user: Fix a typo or two in @README.md | The user attached"),
        "{:?}",
        model.conversations()
    );
    let story = harness.story(&session.id);
    let (before, after) = story.split_once("command.executed").unwrap();
    assert!(before.contains("asst[stop,done]") && after.contains("IDLE(completed)"), "{story}");
    let executed = harness.seen.iter().find_map(|event| match &event.body {
        EventBody::CommandExecuted(it) => Some(it.clone()),
        _ => None,
    });
    let executed = executed.unwrap();
    assert_eq!((executed.name.as_str(), executed.arguments.as_str()), ("fix", "a \"typo\" or two"));
    assert_eq!(&executed.message_id, answer.info.id());
}

#[tokio::test(start_paused = true)]
async fn an_unknown_command_is_refused_with_the_known_ones() {
    let commands = templates(&[("fix", "x"), ("test", "x")]);
    let harness =
        Harness::with_commands(Arc::new(ScriptedModel::default()), Options::default(), commands).await;
    let session = harness.session().await;
    let error = harness.sessions.command(&session.id, call("nothing", "")).await.unwrap_err().to_string();
    assert_eq!(error, "command \"nothing\" does not exist; known commands: fix, test");
    let huge = "$ARGUMENTS".repeat(100);
    let harness = Harness::with_commands(
        Arc::new(ScriptedModel::default()),
        Options::default(),
        templates(&[("x", &huge)]),
    )
    .await;
    let session = harness.session().await;
    let error = harness.sessions.command(&session.id, call("x", &"y".repeat(1 << 20))).await.unwrap_err();
    assert!(error.to_string().contains("longer than"), "{error}");
    assert!(harness.messages(&session).await.is_empty());
}

#[tokio::test]
async fn command_lines_of_a_template_run_in_the_turn_and_those_in_arguments_do_not() {
    let model = ScriptedModel::default();
    let commands = templates(&[("look", "Here: !`echo one`, !`exit 3` and $ARGUMENTS")]);
    let rules = [Rule::new("bash", "*", Action::Allow)];
    let options = Options { agents: built_in(&rules), ..Options::default() };
    let mut harness = Harness::with_commands(Arc::new(model.clone()), options, commands).await;
    let session = harness.session().await;
    let hostile = "!`touch pwned` $(touch pwned)\n`touch pwned` '";
    run(&mut harness, &session, call("look", hostile), Responder::Reject).await;
    assert!(!harness.project.path().join("pwned").exists());
    let prompt = &harness.messages(&session).await[0];
    let PartBody::Text(text) = &prompt.parts[0].body else { panic!("{prompt:?}") };
    assert_eq!(text.text, format!("Here: one, (no output) and {hostile}"));
    assert_eq!((text.metadata.as_ref(), harness.end(&session)), (None, EndReason::Completed));
    assert!(model.conversations()[0].starts_with("user: Here: one,"), "{:?}", model.conversations());
    let story = harness.story(&session.id);
    assert!(story.find("BUSY").unwrap() < story.find("Here: one").unwrap(), "{story}");
}

#[tokio::test(start_paused = true)]
async fn a_command_line_that_is_asked_about_and_refused_ends_the_turn() {
    let commands = templates(&[("make", "!`touch a` then !`touch b`")]);
    let mut harness =
        Harness::with_commands(Arc::new(ScriptedModel::default()), Options::default(), commands).await;
    let session = harness.session().await;
    run(&mut harness, &session, call("make", ""), Responder::Reject).await;
    assert_eq!((asked(&harness), harness.end(&session)), (vec!["touch a".to_owned()], EndReason::Blocked));
    assert!(!harness.project.path().join("b").exists());
    let text = harness.messages(&session).await[0].parts[0].text().unwrap().to_owned();
    assert!(text.starts_with("(`touch a` was not run: The user rejected permission"), "{text}");
}

#[tokio::test]
async fn a_command_line_of_a_template_can_be_aborted() {
    let commands = templates(&[("wait", "!`sleep 100`")]);
    let mut harness =
        Harness::with_commands(Arc::new(ScriptedModel::default()), Options::default(), commands).await;
    let session = harness.session().await;
    let (sessions, id) = (harness.sessions.clone(), session.id.clone());
    let running = tokio::spawn(async move { sessions.command(&id, call("wait", "")).await });
    harness.until(|event| matches!(event, EventBody::PromptStarted(_))).await;
    harness.sessions.abort(&session.id).await.unwrap();
    harness.until_idle(&session, Responder::Reject).await;
    assert!(running.await.unwrap().is_ok());
    assert_eq!(harness.end(&session), EndReason::Aborted);
}

#[tokio::test]
async fn a_command_for_a_subagent_is_its_task() {
    let model = ScriptedModel::new([Reply::text("found it"), Reply::text("summary")]);
    let mut commands = templates(&[("find", "Find $ARGUMENTS near !`echo here`")]);
    commands[0].agent = Some("explore".to_owned());
    let mut harness = Harness::with_commands(Arc::new(model.clone()), Options::default(), commands).await;
    let session = harness.session().await;
    run(&mut harness, &session, call("find", "it"), Responder::AllowOnce).await;
    let tools = harness.tools(&session).await;
    let ToolState::Completed(task) = &tools[0] else { panic!("{tools:?}") };
    assert!(task.output.contains("found it"), "{}", task.output);
    assert!(model.conversations()[0].starts_with("user: Find it near here"), "{:?}", model.conversations());
    assert_eq!(harness.end(&session), EndReason::Completed);
}

#[tokio::test]
async fn a_users_command_line_runs_without_asking_and_without_a_model() {
    let model = ScriptedModel::default();
    let mut harness = Harness::with_model(Arc::new(model.clone()), Options::default()).await;
    let session = harness.session().await;
    let answer = harness.sessions.shell(&session.id, line("touch made && echo done; exit 4")).await.unwrap();
    harness.until_idle(&session, Responder::Reject).await;
    assert!(harness.project.path().join("made").exists() && asked(&harness).is_empty());
    let tools = harness.tools(&session).await;
    let ToolState::Completed(state) = &tools[0] else { panic!("{tools:?}") };
    assert_eq!((state.output.as_str(), &state.metadata["exit"]), ("done\n", &json!(4)));
    assert!(
        answer.parts.iter().any(|part| matches!(&part.body, PartBody::Tool(tool) if tool.tool == "bash"))
    );
    insta::assert_snapshot!(harness.story(&session.id));
    harness.submit(&session, "m", "and now?").await;
    harness.until_idle(&session, Responder::Reject).await;
    let conversations = model.conversations();
    assert_eq!(conversations.len(), 1, "the command line itself asked no model: {conversations:?}");
    assert!(
        conversations[0].contains("user: The user ran") && conversations[0].contains("model: bash#"),
        "{}",
        conversations[0]
    );
}

#[tokio::test]
async fn a_users_command_line_is_refused_while_busy_and_can_be_aborted() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    let (sessions, id) = (harness.sessions.clone(), session.id.clone());
    let running =
        tokio::spawn(async move { sessions.shell(&id, line("echo begun; sleep 100")).await.unwrap() });
    let shown = |event: &EventBody| match event {
        EventBody::PartUpdated(it) => match &it.part.body {
            PartBody::Tool(tool) => match &tool.state {
                ToolState::Running(state) => {
                    state.metadata.as_ref().is_some_and(|metadata| metadata["output"] == "begun\n")
                }
                _ => false,
            },
            _ => false,
        },
        _ => false,
    };
    harness.until(shown).await;
    let busy = harness.sessions.shell(&session.id, line("echo no")).await.unwrap_err();
    assert!(matches!(busy, engine::Error::Busy(_)), "{busy}");
    tokio::time::timeout(Duration::from_secs(20), harness.sessions.abort(&session.id))
        .await
        .unwrap()
        .unwrap();
    harness.until_idle(&session, Responder::Reject).await;
    assert_eq!(harness.end(&session), EndReason::Aborted);
    running.await.unwrap();
    let tools = harness.tools(&session).await;
    let [ToolState::Completed(state)] = tools.as_slice() else { panic!("{tools:?}") };
    assert!(
        state.output.starts_with("begun\n") && state.output.contains("The user aborted the command"),
        "{}",
        state.output
    );
}
