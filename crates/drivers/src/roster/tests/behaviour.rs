//! Behaviour that every external agent has because the driver has it.

use protocol::prompt::ShellInput;
use protocol::{EndReason, EventBody, PartBody, Rest, SessionStatus, ToolState};

use super::scenario_harness::{PAUSE, ScenarioHarness, each};
use crate::external::harness::SimulatedUser;
use crate::roster::known::Kind;

/// A turn for each of three prompts, and again for each process.
const THREE_TURNS: &str =
    "prompted; says One; finish; prompted; says Two; finish; prompted; says Three; finish; linger";

fn shell(command: &str) -> ShellInput {
    let (agent, command) = ("build".to_owned(), command.to_owned());
    ShellInput { message_id: None, agent, model: None, command, extra: Rest::NONE }
}

#[tokio::test]
async fn baton_runs_the_users_command_and_the_next_prompt_contains_it() {
    each(async |kind| {
        let mut stage = ScenarioHarness::new(kind, THREE_TURNS).await;
        let session = stage.harness.session().await;
        assert_eq!(stage.harness.turn(&session, "first", SimulatedUser::Agrees).await, EndReason::Completed);
        let told = stage.told().len();
        let shown = stage.harness.sessions.shell(&session.id, shell("echo made | tee made.txt")).await.unwrap();
        let is_done = |body: &PartBody| matches!(body, PartBody::Tool(tool) if matches!(&tool.state, ToolState::Completed(done) if done.output == "made\n"));
        assert!(shown.parts.iter().any(|part| is_done(&part.body)), "{kind:?}: {:?}", shown.parts);
        assert_eq!(stage.harness.until_idle(&session, SimulatedUser::Agrees).await, EndReason::Completed, "{kind:?}");
        let made = stage.harness.project.path().join("made.txt");
        assert_eq!(std::fs::read_to_string(made).unwrap(), "made\n", "{kind:?}");
        assert_eq!(stage.told().len(), told, "{kind:?}: the agent is not asked");
        assert_eq!(stage.harness.turn(&session, "second", SimulatedUser::Agrees).await, EndReason::Completed);
        assert_eq!(stage.count_told("which printed: made"), 1, "{kind:?}: {:?}", stage.told());
        assert_eq!(stage.harness.turn(&session, "third", SimulatedUser::Agrees).await, EndReason::Completed);
        assert_eq!(stage.count_told("which printed: made"), 1, "{kind:?}: it is told once");
        assert_eq!(stage.end(&session).await, 4, "{kind:?}");
    })
    .await;
}

#[tokio::test]
async fn a_session_is_named_after_its_first_prompt() {
    each(async |kind| {
        let mut stage = ScenarioHarness::new(kind, THREE_TURNS).await;
        let session = stage.harness.session().await;
        for prompt in ["mend the gate", "paint it"] {
            assert_eq!(
                stage.harness.turn(&session, prompt, SimulatedUser::Agrees).await,
                EndReason::Completed
            );
        }
        let title = stage.harness.sessions.get(&session.id).await.unwrap().title;
        // OpenCode sends titles of its own.
        assert_eq!(title == "mend the gate", kind != Kind::OpenCode, "{kind:?}: {title}");
        assert_eq!(stage.end(&session).await, 2, "{kind:?}");
    })
    .await;
}

#[tokio::test]
async fn a_reverted_turn_is_out_of_the_agents_context() {
    each(async |kind| {
        let mut stage = ScenarioHarness::new(kind, THREE_TURNS).await;
        let session = stage.harness.session().await;
        for prompt in ["alpha", "bravo"] {
            assert_eq!(
                stage.harness.turn(&session, prompt, SimulatedUser::Agrees).await,
                EndReason::Completed
            );
        }
        let reverted = stage.harness.messages(&session).await[2].info.id().clone();
        stage.harness.sessions.revert(&session.id, reverted, None).await.unwrap();
        assert_eq!(
            stage.harness.turn(&session, "charlie", SimulatedUser::Agrees).await,
            EndReason::Completed
        );
        let told = stage.told();
        let last = told.iter().rfind(|told| told.contains("charlie")).unwrap();
        assert!(last.contains("Person: alpha") && last.contains("Agent: One"), "{kind:?}: {last}");
        assert!(!last.contains("bravo"), "{kind:?}: {last}");
        let begun = match kind {
            Kind::Claude => {
                told.iter().filter(|told| told.contains("stream-json") && !told.contains("--resume")).count()
            }
            Kind::Codex => stage.count_told("\"thread/start\""),
            Kind::OpenCode => stage.count_told("POST /session "),
            Kind::Acp => stage.count_told("\"session/new\""),
        };
        assert_eq!(begun, 2, "{kind:?}: a new conversation: {told:?}");
        assert_eq!(stage.end(&session).await, 3, "{kind:?}");
    })
    .await;
}

#[tokio::test]
async fn a_delayed_restart_is_shown_as_a_retry() {
    // One kind after the other, because the test moves the clock that all of them would share.
    for kind in Kind::ALL {
        // A program dies in its turn; a server, which all sessions share, refuses to begin one.
        let scene = match kind {
            Kind::OpenCode => "prompted; says Two; finish; linger",
            _ => "[ ! -e .go ] || { prompted; says Two; finish; linger; }; prompted; opens One; exit 1",
        };
        let mut stage = ScenarioHarness::new(kind, scene).await;
        stage.refuses_sessions(true);
        let session = stage.harness.session().await;
        assert_eq!(
            stage.harness.turn(&session, "first", SimulatedUser::Agrees).await,
            EndReason::Error,
            "{kind:?}"
        );
        stage.refuses_sessions(false);
        stage.go();
        stage.harness.submit(&session, "second").await;
        let is_retry = |body: &EventBody| matches!(body, EventBody::SessionStatus(it) if matches!(it.status, SessionStatus::Retry { .. }));
        stage.harness.until(is_retry).await;
        tokio::time::pause();
        tokio::time::advance(PAUSE).await;
        tokio::time::resume();
        assert_eq!(
            stage.harness.until_idle(&session, SimulatedUser::Agrees).await,
            EndReason::Completed,
            "{kind:?}"
        );
        assert_eq!(stage.end(&session).await, 2, "{kind:?}");
    }
}

#[tokio::test]
async fn a_lost_conversation_is_reported_to_the_user() {
    each(async |kind| {
        let mut stage = ScenarioHarness::new(kind, "prompted; says One; finish; linger").await;
        let session = stage.harness.session().await;
        assert_eq!(stage.harness.turn(&session, "first", SimulatedUser::Agrees).await, EndReason::Completed);
        let mut stage = stage.restart_without_memory("prompted; says Two; finish; linger").await;
        assert_eq!(stage.harness.turn(&session, "second", SimulatedUser::Agrees).await, EndReason::Completed, "{kind:?}");
        let is_notice = |body: &EventBody| matches!(body, EventBody::SessionError(it) if it.error.as_ref().is_some_and(|error| error.message().contains("without memory of this session")));
        let notices = stage.harness.seen.iter().filter(|event| is_notice(&event.body)).count();
        assert_eq!(notices, 1, "{kind:?}: {:?}", stage.told());
        assert_eq!(stage.end(&session).await, 1, "{kind:?}");
    })
    .await;
}

#[tokio::test]
async fn an_abort_ends_the_subagent_before_its_parent() {
    each(async |kind| {
        if !kind.abilities().children {
            return;
        }
        let mut stage = ScenarioHarness::new(kind, "prompted; bears; stopped; linger").await;
        let session = stage.harness.session().await;
        stage.harness.submit(&session, "please").await;
        let is_below =
            |body: &EventBody| matches!(body, EventBody::PartUpdated(it) if it.part.text() == Some("below"));
        stage.harness.until(is_below).await;
        let child = stage.harness.sessions.children(&session.id).await.unwrap().remove(0);
        stage.harness.sessions.abort(&session.id).await.unwrap();
        assert_eq!(
            stage.harness.until_idle(&session, SimulatedUser::Agrees).await,
            EndReason::Aborted,
            "{kind:?}"
        );
        let ends: Vec<_> = stage
            .harness
            .seen
            .iter()
            .filter_map(|event| match &event.body {
                EventBody::SessionIdle(it) => Some(it.session_id.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(ends, [child.id.clone(), session.id.clone()], "{kind:?}");
        assert_eq!(stage.harness.check(&child.id), 1, "{kind:?}");
        assert_eq!(stage.end(&session).await, 1, "{kind:?}");
    })
    .await;
}

#[tokio::test]
async fn a_prompt_for_a_subagent_is_refused() {
    each(async |kind| {
        if !kind.abilities().children {
            return;
        }
        let mut stage =
            ScenarioHarness::new(kind, "prompted; bears; says Meanwhile; finish; buries; linger").await;
        let session = stage.harness.session().await;
        assert_eq!(
            stage.harness.turn(&session, "please", SimulatedUser::Agrees).await,
            EndReason::Completed,
            "{kind:?}"
        );
        let child = stage.harness.sessions.children(&session.id).await.unwrap().remove(0);
        let told = stage.told().len();
        assert_eq!(
            stage.harness.turn(&child, "go on", SimulatedUser::Agrees).await,
            EndReason::Error,
            "{kind:?}"
        );
        let error = stage.harness.errors().pop().unwrap();
        assert!(error.contains("takes no prompts; prompt the parent session"), "{kind:?}: {error}");
        assert_eq!(stage.told().len(), told, "{kind:?}: the agent is not asked");
        assert_eq!(stage.end(&session).await, 1, "{kind:?}");
    })
    .await;
}
