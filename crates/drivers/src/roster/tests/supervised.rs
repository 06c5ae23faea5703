//! The services for every external agent: reverting files, and budgets.

use std::sync::Arc;
use std::time::Duration;

use engine::ports::Runner;
use engine::session::Turn;
use futures::future::{self, BoxFuture, FutureExt};
use protocol::agent::Abilities;
use protocol::config::Budget;
use protocol::message::Finish;
use protocol::number::Number;
use protocol::session::Tokens;
use protocol::{AgentEvent, EndReason, EventBody, Extra, Message, PartBody, Session, TurnEnd};
use serde_json::json;
use supervision::Snapshots;
use tempfile::TempDir;

use crate::external::harness::{Cast, Harness, README, SimulatedUser, patient_snapshots};
use crate::roster::{About, External, SupervisedAgent};

/// The id of the agent.
pub(super) const ID: &str = "stranger";

/// An agent with a fixed behaviour.
struct Fixed {
    about: About,
    deed: Behaviour,
}

#[derive(Clone, Copy)]
pub(super) enum Behaviour {
    /// Takes two steps: one that changes a file and one with text only.
    Edits,
    /// Changes a file and then waits for the abort.
    Hangs,
    /// Takes steps until it is aborted.
    Goes,
    /// Answers with the id of its conversation, the stored one or a new one.
    Remembers,
}

impl Runner for Fixed {
    fn run(&self, turn: Turn) -> BoxFuture<'static, TurnEnd> {
        let deed = self.deed;
        async move {
            match deed {
                Behaviour::Edits => {
                    edit(&turn).await;
                    finish(&turn).await;
                    turn.emit(AgentEvent::step_started()).await;
                    finish(&turn).await;
                    TurnEnd::Completed
                }
                Behaviour::Hangs => {
                    edit(&turn).await;
                    turn.cancelled().await;
                    TurnEnd::Cancelled
                }
                Behaviour::Goes => {
                    while !turn.cancellation().is_cancelled() {
                        turn.emit(AgentEvent::step_started()).await;
                        finish(&turn).await;
                        tokio::task::yield_now().await;
                    }
                    TurnEnd::Cancelled
                }
                Behaviour::Remembers => {
                    let name = turn.session.note(ID).map(str::to_owned);
                    let name = name.unwrap_or_else(|| format!("conversation of {}", turn.session.id));
                    turn.emit(AgentEvent::Noted { name: ID.into(), note: name.clone() }).await;
                    turn.emit(AgentEvent::TextStarted { key: "t".into() }).await;
                    turn.emit(AgentEvent::TextDelta { key: "t".into(), delta: name }).await;
                    turn.emit(AgentEvent::TextEnded { key: "t".into() }).await;
                    finish(&turn).await;
                    TurnEnd::Completed
                }
            }
        }
        .boxed()
    }
}

impl External for Fixed {
    fn about(&self) -> &About {
        &self.about
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        future::ready(()).boxed()
    }
}

async fn edit(turn: &Turn) {
    turn.emit(AgentEvent::step_started()).await;
    let call = || "call_1".to_owned();
    let running = AgentEvent::ToolRunning {
        call: call(),
        tool: "edit".into(),
        input: Extra::new(),
        title: None,
        metadata: None,
    };
    turn.emit(running).await;
    let file = std::path::Path::new(&turn.session.directory).join("README.md");
    std::fs::write(file, "changed\n").unwrap();
    let done = AgentEvent::ToolCompleted {
        call: call(),
        output: String::new(),
        title: String::new(),
        metadata: Extra::new(),
        attachments: Vec::new(),
    };
    turn.emit(done).await;
}

async fn finish(turn: &Turn) {
    let tokens = Tokens { input: 10, ..Tokens::default() };
    let (reason, cost) = (Finish::Stop, Number(0.5));
    turn.emit(AgentEvent::StepFinished { reason, tokens, cost, snapshot: None, patch: None, error: None })
        .await;
}

pub(super) fn watched(deed: Behaviour, snapshots: Option<Arc<Snapshots>>, budget: serde_json::Value) -> Cast {
    let about = About {
        id: ID.into(),
        name: "Stranger".into(),
        description: String::new(),
        models: vec!["default".into()],
        has_providers: false,
        abilities: Abilities::LEAST,
    };
    let budget: Budget = serde_json::from_value(budget).unwrap();
    let agent: Arc<dyn External> = Arc::new(Fixed { about, deed });
    Cast::new(Arc::clone(&agent), SupervisedAgent::new(agent, snapshots, budget))
}

#[tokio::test]
async fn file_changes_are_shown_and_can_be_reverted() {
    let data = TempDir::new().unwrap();
    let snapshots = Some(patient_snapshots(&data));
    let mut harness =
        Harness::undoing(watched(Behaviour::Edits, snapshots.clone(), json!({})), snapshots).await;
    harness.commit().await;
    let session = harness.session().await;
    assert_eq!(harness.turn(&session, "change it", SimulatedUser::Agrees).await, EndReason::Completed);
    let patches: Vec<_> = harness
        .parts(&session)
        .await
        .into_iter()
        .filter_map(|part| if let PartBody::Patch(patch) = part { Some(patch.files) } else { None })
        .collect();
    assert_eq!(patches, [[format!("{}/README.md", harness.directory())]], "one step has changed one file");
    let last = harness.seen.iter().rev().find_map(|event| match &event.body {
        EventBody::SessionDiff(it) => Some(it.diff.clone()),
        _ => None,
    });
    let last = last.expect("the session's diff is told");
    assert_eq!(last[0].file.as_deref(), Some("README.md"));
    assert_eq!(harness.read("README.md").unwrap(), "changed\n");
    let prompt = harness.messages(&session).await[0].info.id().clone();
    harness.sessions.revert(&session.id, prompt, None).await.unwrap();
    assert_eq!(harness.read("README.md").unwrap(), README);
}

#[tokio::test]
async fn an_aborted_step_reports_its_changes() {
    let data = TempDir::new().unwrap();
    let snapshots = Some(patient_snapshots(&data));
    let mut harness =
        Harness::undoing(watched(Behaviour::Hangs, snapshots.clone(), json!({})), snapshots).await;
    harness.commit().await;
    let session = harness.session().await;
    harness.submit(&session, "change it").await;
    harness.until(|body| matches!(body, EventBody::PartUpdated(it) if matches!(&it.part.body, PartBody::Tool(tool) if matches!(tool.state, protocol::ToolState::Completed(_))))).await;
    harness.sessions.abort(&session.id).await.unwrap();
    assert_eq!(harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Aborted);
    let parts = harness.parts(&session).await;
    assert!(parts.iter().any(|part| matches!(part, PartBody::Patch(_))), "{parts:?}");
}

#[tokio::test]
async fn a_budget_stops_the_agent() {
    for (budget, steps) in [
        (json!({ "steps": { "turn": 3 } }), 3),
        (json!({ "cost": { "turn": 1 } }), 2),
        (json!({ "tokens": { "session": 40 } }), 4),
    ] {
        let mut harness = Harness::undoing(watched(Behaviour::Goes, None, budget.clone()), None).await;
        let session = harness.session().await;
        assert_eq!(
            harness.turn(&session, "go on", SimulatedUser::Agrees).await,
            EndReason::Budget,
            "{budget}"
        );
        let finished = harness
            .parts(&session)
            .await
            .iter()
            .filter(|part| matches!(part, PartBody::StepFinish(_)))
            .count();
        assert!(finished >= steps, "{budget}: {finished} steps");
    }
}

#[tokio::test(start_paused = true)]
async fn time_is_a_budget_too() {
    let mut harness =
        Harness::undoing(watched(Behaviour::Hangs, None, json!({ "minutes": { "turn": 30 } })), None).await;
    let session = harness.session().await;
    let begun = tokio::time::Instant::now();
    harness.submit(&session, "take your time").await;
    tokio::time::advance(Duration::from_mins(29)).await;
    assert_eq!(harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Budget);
    assert!(begun.elapsed() >= Duration::from_mins(30));
}

/// The agent's texts in a session and Baton's warnings about it.
async fn said(harness: &Harness, session: &Session) -> (Vec<String>, Vec<String>) {
    let messages = harness.messages(session).await;
    let answers = messages.iter().filter(|message| matches!(message.info, Message::Assistant(_)));
    let words = answers.flat_map(|message| &message.parts).filter_map(|part| part.text().map(str::to_owned));
    let warnings = harness.seen.iter().filter_map(|event| match &event.body {
        EventBody::SessionError(it) if it.session_id.as_ref() == Some(&session.id) => {
            it.error.as_ref().map(|error| error.message().to_owned())
        }
        _ => None,
    });
    (words.collect(), warnings.collect())
}

#[tokio::test]
async fn a_fork_has_its_own_conversation_and_one_notice() {
    let mut harness = Harness::undoing(watched(Behaviour::Remembers, None, json!({})), None).await;
    let session = harness.session().await;
    harness.turn(&session, "one", SimulatedUser::Agrees).await;
    let fork = harness.sessions.fork(&session.id, None).await.unwrap();
    for session in [&fork, &session, &fork] {
        assert_eq!(harness.turn(session, "two", SimulatedUser::Agrees).await, EndReason::Completed);
    }
    let (own, copied) = (format!("conversation of {}", fork.id), format!("conversation of {}", session.id));
    let (words, warnings) = said(&harness, &fork).await;
    assert_eq!(words, [copied.clone(), own.clone(), own]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("Stranger starts a new conversation"), "{warnings:?}");
    let (words, warnings) = said(&harness, &session).await;
    assert_eq!(words, [copied.clone(), copied]);
    assert_eq!(warnings, Vec::<String>::new());
}
