//! Replays recordings of real agents against the real engine, and compares the published events with snapshots.

use std::fmt::Write as _;
use std::time::Duration;

use engine::limits::Limits;
use protocol::{EndReason, EventBody, Message, Part, PartBody, Session, SessionStatus, ToolState};
use serde_json::{Value, json};
use testkit::published;

use super::harness::{Harness, SimulatedUser, options};
use super::recordings::{self, Line};
use crate::roster::External as _;

/// A recording as input for the player: lines to write, and marks where the player waits for a line.
struct Script {
    lines: String,
    prompts: usize,
    /// The text that the agent writes before the first turn is aborted. None if the recording contains no abort.
    stopped_after: Option<String>,
}

/// Makes a script of a recording. It renumbers Baton's requests and leaves out the requests that choose a mode.
fn script(name: &str) -> Script {
    let mut script = Script { lines: String::new(), prompts: 0, stopped_after: None };
    let (mut next, mut skipped, mut said) = (1, Vec::new(), String::new());
    let (mut open, mut early) = (0, 0);
    let mut ids: Vec<(Value, i64)> = Vec::new();
    for line in recordings::read(name) {
        match line {
            Line::In(message) => {
                let method = message["method"].as_str().unwrap_or_default();
                if method == "session/set_mode" {
                    skipped.push(message["id"].clone());
                    continue;
                }
                if method == "session/cancel" {
                    script.stopped_after = Some(std::mem::take(&mut said));
                }
                if method == "session/prompt" {
                    script.prompts += 1;
                    said.clear();
                }
                if !method.is_empty() && message.get("id").is_some() {
                    ids.push((message["id"].clone(), next));
                    next += 1;
                }
                if method == "session/prompt" && open > 0 {
                    early += 1;
                    continue;
                }
                open += usize::from(method == "session/prompt");
                script.lines.push_str("<\n");
            }
            Line::Out(mut message) => {
                let ours = message.get("method").is_none();
                if ours && skipped.contains(&message["id"]) {
                    continue;
                }
                if ours && let Some((_, id)) = ids.iter().find(|(known, _)| *known == message["id"]) {
                    message["id"] = json!(id);
                }
                if message["params"]["update"]["sessionUpdate"] == "agent_message_chunk" {
                    said.push_str(
                        message["params"]["update"]["content"]["text"].as_str().unwrap_or_default(),
                    );
                }
                writeln!(script.lines, "{message}").unwrap();
                if ours && (message["result"].get("stopReason").is_some() || message.get("error").is_some()) {
                    open -= 1;
                    // A prompt that the recording sends early is sent after the answer to the open one.
                    if early > 0 {
                        (open, early) = (open + 1, early - 1);
                        script.lines.push_str("<\n");
                    }
                }
            }
        }
    }
    script
}

/// A program that writes the lines of a script, and reads one line for each `<`.
const PLAYER: &str = r#"
exec 3<&0
while IFS= read -r line; do
  if [ "$line" = "<" ]; then IFS= read -r _ <&3 || exit 0; else printf '%s\n' "$line"; fi
done < "$1"
cat <&3 > /dev/null
"#;

async fn play(name: &str) -> (Harness, Session) {
    let script = script(name);
    let lines = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(lines.path(), &script.lines).unwrap();
    let path = lines.path().to_str().unwrap();
    let mut options = options(&["/bin/bash", "-c", PLAYER, "player", path].map(str::to_owned));
    // Generous deadlines, so that a slow machine does not change the outcome.
    options.agent.timeouts.interrupt = Duration::from_secs(20);
    let limits = Limits { runner_grace: Duration::from_secs(30), ..Limits::default() };
    let mut harness = Harness::bounded(options, limits).await;
    let session = harness.session().await;
    let user = if name.ends_with("deny") { SimulatedUser::Refuses } else { SimulatedUser::Agrees };
    for prompt in 0..script.prompts {
        harness.submit(&session, &format!("prompt {prompt}")).await;
        match script.stopped_after.as_deref().filter(|_| prompt == 0) {
            Some(said) => stop(&mut harness, &session, said).await,
            None => _ = harness.until_idle(&session, user).await,
        }
    }
    (harness, session)
}

/// Stops the turn when so much has been said, and the tools that follow run.
async fn stop(harness: &mut Harness, session: &Session, said: &str) {
    let (mut heard, mut running) = (String::new(), false);
    loop {
        match harness.next().await {
            EventBody::PartDelta(delta) => heard.push_str(&delta.delta),
            EventBody::PartUpdated(it) => running |= is_running(&it.part),
            _ => {}
        }
        // If the turn has a tool, the start of the tool is the last event before the abort.
        if heard == said && (running || !said.contains("command")) {
            break;
        }
    }
    harness.sessions.abort(&session.id).await.unwrap();
    harness.until_idle(session, SimulatedUser::Silent).await;
}

fn is_running(part: &Part) -> bool {
    matches!(&part.body, PartBody::Tool(tool) if matches!(&tool.state, ToolState::Running(it) if !it.input.is_empty()))
}

/// The published events in short form.
fn story(harness: &Harness, session: &Session) -> String {
    published::story(&harness.seen, &session.id, word)
}

fn word(body: &EventBody) -> Option<String> {
    Some(match body {
        EventBody::SessionCreated(_) | EventBody::SessionUpdated(_) => return None,
        EventBody::SessionStatus(it) => match &it.status {
            SessionStatus::Idle { reason, .. } => format!("IDLE({})", reason.map_or("-", EndReason::as_str)),
            SessionStatus::Busy { .. } => "BUSY".to_owned(),
            SessionStatus::Retry { attempt, message, .. } => format!("RETRY {attempt} ({message})"),
        },
        EventBody::MessageUpdated(it) => match &it.info {
            Message::User(_) => "user".to_owned(),
            Message::Assistant(message) => {
                let finish =
                    message.finish.map(|finish| json!(finish).as_str().unwrap_or_default().to_owned());
                let done = if message.time.completed.is_some() { " done" } else { "" };
                let error = message.error.as_ref().map(|error| format!(" {}", error.message()));
                format!("assistant {}{done}{}", finish.unwrap_or_default(), error.unwrap_or_default())
            }
        },
        EventBody::PartUpdated(it) => part(&it.part),
        EventBody::SessionError(it) => {
            format!("ERROR {}", it.error.as_ref().map(|error| error.message().to_owned()).unwrap_or_default())
        }
        EventBody::PermissionAsked(it) => format!("permission.asked {} {:?}", it.permission, it.patterns),
        EventBody::QuestionAsked(it) => format!("question.asked {}", it.questions[0].question),
        EventBody::TodoUpdated(it) => format!("todo.updated x{}", it.todos.len()),
        EventBody::FileEdited(it) => format!("file.edited {}", it.file),
        other => other.kind().to_owned(),
    })
}

fn part(part: &Part) -> String {
    match &part.body {
        PartBody::Tool(tool) => match &tool.state {
            ToolState::Completed(done) => {
                format!("{} completed {:?} {} -> {:?}", tool.tool, done.title, json!(done.input), done.output)
            }
            ToolState::Error(failed) => format!("{} error {:?}", tool.tool, failed.error),
            ToolState::Running(running) => format!("{} running {}", tool.tool, json!(running.input)),
            ToolState::Pending(_) => format!("{} pending", tool.tool),
        },
        PartBody::StepFinish(it) => {
            let tokens = &it.tokens;
            format!(
                "step-finish {} in {} out {} cost {}",
                json!(it.reason),
                tokens.input,
                tokens.output,
                it.cost.0
            )
        }
        body => {
            let kind = json!(body)["type"].as_str().unwrap_or_default().to_owned();
            match part.text() {
                Some(_) if part.is_open() => format!("{kind} start"),
                Some(text) => format!("{kind} {text:?}"),
                None => kind,
            }
        }
    }
}

/// Each recording publishes one idle for each turn, closes every part, and always publishes the same events.
#[tokio::test]
async fn recordings_publish_the_events_of_opencode() {
    let names = recordings::names();
    // Several at once, because they mostly wait for their programs.
    for names in names.chunks(6) {
        let plays = names.iter().map(|name| async move { (name, play(name).await) });
        for (name, (harness, session)) in futures::future::join_all(plays).await {
            harness.check_all();
            let turns = script(name).prompts;
            assert_eq!(harness.ends(&session).len(), turns, "{name}: one idle for each turn");
            for (tool, state) in harness.tools(&session).await {
                assert!(
                    matches!(state, ToolState::Completed(_) | ToolState::Error(_)),
                    "{name}: {tool} is open"
                );
            }
            insta::assert_snapshot!(name.as_str(), story(&harness, &session));
            harness.driver.close().await;
        }
    }
}
