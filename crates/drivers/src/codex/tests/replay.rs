//! Replays recordings of the real Codex against the real engine, and compares the published events with snapshots.

use std::fmt::Write as _;
use std::time::Duration;

use engine::limits::Limits;
use protocol::prompt::PromptInput;
use protocol::request::PermissionReply;
use protocol::{EndReason, Event, EventBody, Message, PartBody, Session, SessionStatus, ToolState};
use serde_json::Value;

use super::harness::{Harness, SimulatedUser, options};
use crate::roster::External;

/// Plays a recording: writes one piece after each line that it reads, and then waits until it is ended.
const PLAYER: &str = r#"
echo $$ >> .processes
for piece in .pieces/*; do
    IFS= read -r heard || exit 0
    printf '%s\n' "$heard" >> .heard
    cat "$piece"
done
while IFS= read -r heard; do printf '%s\n' "$heard" >> .heard; done
"#;

/// A recording, split at the messages to Codex.
struct Recording {
    pieces: Vec<String>,
    prompts: Vec<PromptInput>,
    /// The last message before the interruption. None if the recording contains no interruption.
    interrupted_after: Option<String>,
}

fn recording(name: &str) -> Recording {
    let path = format!("{}/src/codex/tests/recordings/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    let mut recording = Recording { pieces: Vec::new(), prompts: Vec::new(), interrupted_after: None };
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if let Some(told) = line.get("in") {
            recording.pieces.push(String::new());
            match told["method"].as_str() {
                Some("turn/start") => {
                    let prompt = told.pointer("/params/input/0/text").and_then(Value::as_str).unwrap();
                    recording.prompts.push(PromptInput::text(prompt));
                }
                Some("thread/compact/start") => recording.prompts.push(PromptInput::compaction(false)),
                Some("turn/interrupt") => {
                    let before = recording.pieces.iter().rev().nth(1).unwrap();
                    recording.interrupted_after = Some(before.lines().last().unwrap().to_owned());
                }
                _ => {}
            }
        } else {
            let piece = recording.pieces.last_mut().unwrap();
            writeln!(piece, "{}", line["out"]).unwrap();
        }
    }
    recording
}

/// Plays a recording and returns the events that a client sees.
async fn play(name: &str, user: SimulatedUser, limits: Limits) -> String {
    let recording = recording(name);
    let mut harness = Harness::bounded(options(PLAYER), limits).await;
    let pieces = harness.project.path().join(".pieces");
    std::fs::create_dir(&pieces).unwrap();
    for (number, piece) in recording.pieces.iter().enumerate() {
        std::fs::write(pieces.join(format!("{number:03}")), piece).unwrap();
    }
    let session = harness.session().await;
    let mut turns = 0;
    for (number, prompt) in recording.prompts.iter().enumerate() {
        harness.sessions.submit(&session.id, prompt.clone()).await.unwrap();
        if number == 0 && recording.interrupted_after.is_some() {
            harness.until(|body| is_last_word(body, &recording)).await;
            harness.sessions.abort(&session.id).await.unwrap();
        }
        harness.until_idle(&session, user).await;
        turns += 1;
        // An interrupted Codex leaves its command running, so Baton has ended its process.
        if recording.interrupted_after.as_deref().is_some_and(|last| last.contains("commandExecution")) {
            break;
        }
    }
    assert_eq!(harness.ends(&session).len(), turns, "one idle for each turn");
    harness.assert_all_is_closed(&session).await;
    harness.check_all();
    let project = session.directory.clone();
    let story = story(&harness.seen, &session).replace(&project, "/project");
    harness.driver.close().await;
    harness.assert_nothing_is_left();
    story
}

/// Returns true for the last event before the interruption: a text delta or a running tool.
fn is_last_word(body: &EventBody, recording: &Recording) -> bool {
    let last = recording.interrupted_after.as_deref().unwrap_or_default();
    match body {
        EventBody::PartDelta(delta) => last.contains("agentMessage/delta") && last.contains(&delta.delta),
        EventBody::PartUpdated(it) => match &it.part.body {
            PartBody::Tool(tool) => last.contains("commandExecution") && last.contains(&tool.call_id),
            _ => false,
        },
        _ => false,
    }
}

/// The events of a session, one line each, without values that differ in every run.
fn story(events: &[Event], session: &Session) -> String {
    let mut story = String::new();
    for event in events {
        let line = match &event.body {
            EventBody::SessionStatus(it) => match &it.status {
                SessionStatus::Idle { reason, .. } => format!("status idle {}", ended(*reason)),
                SessionStatus::Retry { attempt, message, .. } => {
                    format!("status retry {attempt} {message:?}")
                }
                SessionStatus::Busy { .. } => "status busy".to_owned(),
            },
            EventBody::SessionIdle(it) if it.session_id == session.id => "idle".to_owned(),
            EventBody::MessageUpdated(it) => message(&it.info),
            EventBody::PartUpdated(it) => part(&it.part.body),
            EventBody::PartDelta(it) => format!("  delta {:?}", it.delta),
            EventBody::PartRemoved(_) => "  part removed".to_owned(),
            EventBody::PermissionAsked(it) => {
                format!("permission {} {:?} always {:?}", it.permission, it.patterns, it.always)
            }
            EventBody::PermissionReplied(it) => format!("permission replied {:?}", it.reply),
            EventBody::QuestionAsked(it) => format!("question {:?}", it.questions[0].question),
            EventBody::QuestionReplied(it) => format!("question replied {:?}", it.answers),
            EventBody::SessionError(it) => {
                format!("error {:?}", it.error.as_ref().map(protocol::MessageError::message))
            }
            EventBody::TodoUpdated(it) => format!("todos {}", it.todos.len()),
            EventBody::SessionCompacted(_) => "compacted".to_owned(),
            EventBody::FileEdited(it) => format!("file edited {}", it.file),
            EventBody::SessionUpdated(it) => match &it.info.tokens {
                Some(tokens) => format!("session used {} in, {} out", tokens.input, tokens.output),
                None => continue,
            },
            _ => continue,
        };
        writeln!(story, "{line}").unwrap();
    }
    story
}

fn ended(reason: Option<EndReason>) -> String {
    reason.map_or_else(String::new, |reason| format!("{reason:?}").to_lowercase())
}

fn message(message: &Message) -> String {
    match message {
        Message::User(_) => "message user".to_owned(),
        Message::Assistant(it) => {
            let mut line = "message assistant".to_owned();
            if let Some(finish) = &it.finish {
                write!(line, " {finish:?}").unwrap();
            }
            if it.time.completed.is_some() {
                line.push_str(" completed");
            }
            if let Some(error) = &it.error {
                write!(line, " {:?}", error.message()).unwrap();
            }
            line
        }
    }
}

fn part(body: &PartBody) -> String {
    match body {
        PartBody::Text(it) => format!("  text {:?}", it.text),
        PartBody::Reasoning(it) => format!("  reasoning {:?}", it.text),
        PartBody::Tool(it) => {
            let state = match &it.state {
                ToolState::Pending(_) => "pending".to_owned(),
                ToolState::Running(state) => format!("running {}", Value::Object(state.input.clone())),
                ToolState::Completed(state) => format!("completed {:?}", state.output),
                ToolState::Error(state) => format!("error {:?}", state.error),
            };
            format!("  tool {} {state}", it.tool)
        }
        PartBody::StepStart(_) => "  step start".to_owned(),
        PartBody::StepFinish(it) => {
            format!("  step finish {:?} {} in, {} out", it.reason, it.tokens.input, it.tokens.output)
        }
        other => format!("  {other:?}"),
    }
}

macro_rules! replays {
    ($($name:ident: $user:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            insta::assert_snapshot!(play(stringify!($name), $user, Limits::default()).await);
        }
    )*};
}

replays! {
    simple: SimulatedUser::Agrees;
    think: SimulatedUser::Agrees;
    read_edit: SimulatedUser::Agrees;
    multi_turn: SimulatedUser::Agrees;
    approval: SimulatedUser::Agrees;
    approval_patch: SimulatedUser::Agrees;
    ask: SimulatedUser::Agrees;
    retry: SimulatedUser::Agrees;
    err400: SimulatedUser::Agrees;
    interrupt: SimulatedUser::Agrees;
    interrupt_tool: SimulatedUser::Agrees;
    compact: SimulatedUser::Agrees;
}

/// In the recording the user declines and the turn continues. Baton sends the same reply when a request times out and
/// the configured default is to reject.
#[tokio::test]
async fn approval_deny() {
    let limits = Limits {
        request: Duration::from_millis(50),
        request_reply: Some(PermissionReply::Reject),
        ..Limits::default()
    };
    insta::assert_snapshot!(play("approval_deny", SimulatedUser::Silent, limits).await);
}
