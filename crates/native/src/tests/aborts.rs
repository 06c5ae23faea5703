//! Aborts three hundred turns at random moments: each becomes idle, leaves nothing running, and leaves a
//! conversation that any provider accepts.

use std::sync::Arc;
use std::time::Duration;

use engine::ports::Page;
use futures::future::join_all;
use llm::demo::Scenarios;
use llm::{AssistantContent, Message};
use protocol::message::ModelRef;
use protocol::{EndReason, EventBody, Part, PartBody, Session, SessionStatus, ToolState};
use tokio::time::{sleep, timeout};

use super::harness::Harness;
use super::processes::marked;
use crate::history::History;
use crate::{Options, built_in, model_messages};

/// The number of aborted turns.
const TURNS: u64 = 300;

/// The number of turns that run at the same time.
const TOGETHER: usize = 6;

/// The timeout of an abort. The engine's grace period keeps it below a second, which a test with its own clock
/// covers; this limit only catches hangs, because the machine's load adds to the real duration.
const HANGS: Duration = Duration::from_mins(1);

/// The phase of the turn when it is aborted.
#[derive(Debug, Clone, Copy)]
enum Phase {
    Text,
    Command,
    Permission,
    Retry,
    Subagent,
}

const PHASES: [Phase; 5] = [Phase::Text, Phase::Command, Phase::Permission, Phase::Retry, Phase::Subagent];

/// A small generator with a seed, so that a failure can be repeated.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Starts a tree of processes that resist being ended: they ignore signals, and one leaves its group and session.
fn stubborn(mark: &str) -> String {
    let deaf = "trap '' TERM INT HUP;";
    format!(
        "export BATON_TEST_MARK={mark}; {deaf} (setsid sh -c \"{deaf} sleep 600\" &); \
         sh -c \"{deaf} sleep 600\" & (sleep 600; true) & echo up; wait; sleep 600"
    )
}

fn scenarios(mark: &str) -> Scenarios {
    let command = serde_json::json!({ "do": "tool", "name": "bash", "input": { "command": stubborn(mark) } });
    let finish = serde_json::json!({ "do": "finish", "reason": "tool-calls" });
    let talk = serde_json::json!({ "do": "text", "text": "word ", "repeat": 100_000, "delay_ms": 3 });
    let asks = serde_json::json!({ "do": "tool", "name": "bash", "input": { "command": "touch never" } });
    let task = serde_json::json!({ "do": "tool", "name": "task", "input": {
        "description": "d", "prompt": "[[scenario:command]]", "subagent_type": "general" } });
    let fails = serde_json::json!({ "do": "http", "status": 500, "body": "Internal server error" });
    let file = serde_json::json!({
        "text": { "about": "", "steps": [[talk]] },
        "command": { "about": "", "steps": [[command.clone(), command, finish]] },
        "permission": { "about": "", "steps": [[asks.clone(), asks, finish]] },
        "retry": { "about": "", "steps": [[fails]] },
        "subagent": { "about": "", "steps": [[task.clone(), task, finish]] },
    });
    Scenarios::parse(&file.to_string()).unwrap()
}

fn options(phase: Phase) -> Options {
    use protocol::request::{Action, Rule};
    let rules = [Rule::new("*", "*", Action::Allow)];
    let rules = if matches!(phase, Phase::Permission) { &[][..] } else { &rules[..] };
    Options { agents: built_in(rules), ..Options::default() }
}

/// Returns true if the turn has reached the phase in which it is aborted.
fn arrived(phase: Phase, body: &EventBody) -> bool {
    match (phase, body) {
        (Phase::Text, EventBody::PartDelta(_)) | (Phase::Permission, EventBody::PermissionAsked(_)) => true,
        (Phase::Retry, EventBody::SessionStatus(it)) => matches!(it.status, SessionStatus::Retry { .. }),
        (Phase::Command | Phase::Subagent, EventBody::PartUpdated(it)) => match &it.part.body {
            PartBody::Tool(tool) if tool.tool == "bash" => matches!(&tool.state, ToolState::Running(state)
                if state.metadata.as_ref().is_some_and(|facts| facts.get("output").is_some_and(|it| it == "up\n"))),
            _ => false,
        },
        _ => false,
    }
}

/// Aborts one turn.
async fn stop(number: u64) {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15 ^ (number + 1).wrapping_mul(0xD129_0CD2_25B1_91E5));
    dice.below(1);
    let phase = PHASES[usize::try_from(number).unwrap() % PHASES.len()];
    let mark = format!("{}-{number}", std::process::id());
    let mut harness = Harness::with_scenarios(scenarios(&mark), options(phase)).await;
    let session = harness.session().await;
    let name = format!("{phase:?}").to_lowercase();
    harness.submit(&session, &name, "please").await;
    // Most turns are aborted in their phase, some on the way there.
    if dice.below(4) > 0 {
        harness.until(|body| arrived(phase, body)).await;
        let runs = matches!(phase, Phase::Command | Phase::Subagent);
        assert_eq!(
            !marked(&format!("BATON_TEST_MARK={mark}")).is_empty(),
            runs,
            "turn {number} in {phase:?}"
        );
    }
    sleep(Duration::from_millis(dice.below(60))).await;
    let stopped = timeout(HANGS, harness.sessions.abort(&session.id)).await;
    stopped.unwrap_or_else(|_| panic!("turn {number} in {phase:?} does not stop")).unwrap();
    // When the abort call returns, the turn has ended.
    assert!(harness.sessions.statuses(None).await.unwrap().is_empty(), "turn {number} in {phase:?} is busy");
    let left = marked(&format!("BATON_TEST_MARK={mark}"));
    assert!(left.is_empty(), "turn {number} in {phase:?} left {left:?} running");
    let idle = |body: &EventBody| matches!(body, EventBody::SessionIdle(it) if it.session_id == session.id);
    harness.until(idle).await;
    check(&harness, &session, number).await;
    for child in harness.sessions.children(&session.id).await.unwrap() {
        check(&harness, &child, number).await;
    }
    assert!(harness.sessions.permissions(None).await.unwrap().is_empty(), "turn {number} left a request");
    assert!(!harness.project.path().join("never").exists());
}

/// Asserts that the turn ended as aborted, with nothing open and a result for every call.
async fn check(harness: &Harness, session: &Session, number: u64) {
    assert_eq!(harness.end(session), EndReason::Aborted, "turn {number}");
    let messages = harness.sessions.messages(&session.id, Page::default()).await.unwrap();
    assert!(
        !messages.iter().flat_map(|message| &message.parts).any(Part::is_open),
        "turn {number}: {messages:?}"
    );
    let messages = messages.into_iter().map(Arc::new).collect();
    let told =
        model_messages::conversation(&History::new(messages, &[], &[]), &ModelRef::new("demo", "other"));
    for (at, message) in told.iter().enumerate() {
        let Message::Assistant(said) = message else { continue };
        let calls: Vec<&str> = said
            .iter()
            .filter_map(|block| match block {
                AssistantContent::ToolCall { id, .. } => Some(id.as_str()),
                _ => None,
            })
            .collect();
        let answers: Vec<&str> = match told.get(at + 1) {
            Some(Message::Tool(results)) => results.iter().map(|result| result.id.as_str()).collect(),
            _ => Vec::new(),
        };
        assert_eq!(calls, answers, "turn {number}: {told:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_can_be_stopped_at_any_moment() {
    let numbers: Vec<u64> = (0..TURNS).collect();
    for together in numbers.chunks(TOGETHER) {
        let stopped = join_all(together.iter().map(|number| tokio::spawn(stop(*number)))).await;
        stopped.into_iter().for_each(Result::unwrap);
    }
}
