//! Every kind of agent receives the earlier messages of a conversation that it takes over.

use std::sync::Arc;

use engine::ports::Runner;
use engine::session::Turn;
use futures::future::BoxFuture;
use protocol::config::Budget;
use protocol::message::ModelRef;
use protocol::prompt::PromptInput;
use protocol::{EndReason, EventBody, TurnEnd};
use serde_json::json;

use super::scenario_harness::{ScenarioHarness, each};
use super::supervised::{Behaviour, ID, watched};
use crate::external::harness::SimulatedUser;
use crate::roster::SupervisedAgent;

/// Two agents; the model of a prompt chooses between them.
struct Pair {
    agent: SupervisedAgent,
    other: Arc<dyn Runner>,
}

impl Runner for Pair {
    fn run(&self, turn: Turn) -> BoxFuture<'static, TurnEnd> {
        if turn.model.provider_id == ID { self.other.run(turn) } else { self.agent.run(turn) }
    }
}

#[tokio::test]
async fn a_fork_receives_the_earlier_conversation() {
    each(async |kind| {
        // Each session has its own program, which begins the scenario anew; a server continues it.
        let scene = "prompted; says One; finish; prompted; says Two; finish; prompted; says Three; finish; linger";
        let mut stage = ScenarioHarness::new(kind, scene).await;
        let session = stage.harness.session().await;
        assert_eq!(stage.harness.turn(&session, "remember it", SimulatedUser::Agrees).await, EndReason::Completed);
        let fork = stage.harness.sessions.fork(&session.id, None).await.unwrap();
        for prompt in ["what was it?", "and now?"] {
            assert_eq!(stage.harness.turn(&fork, prompt, SimulatedUser::Agrees).await, EndReason::Completed, "{kind:?}");
        }
        // The agent receives it once, with the first prompt of the fork, and clients do not see it.
        let told = stage.told();
        let handed: Vec<&String> = told.iter().filter(|told| told.contains("Person: remember it")).collect();
        assert_eq!(handed.len(), 1, "{kind:?}: {told:?}");
        assert!(handed[0].contains("Agent: One") && handed[0].contains("what was it?"), "{kind:?}: {handed:?}");
        assert!(!stage.harness.story(&fork.id).contains("Person:"), "{kind:?}");
        let warned = |body: &EventBody| matches!(body, EventBody::SessionError(it) if it.session_id.as_ref() == Some(&fork.id));
        assert_eq!(stage.harness.seen.iter().filter(|event| warned(&event.body)).count(), 1, "{kind:?}");
        stage.close().await;
    })
    .await;
}

#[tokio::test]
async fn a_prompt_contains_the_turns_of_another_agent() {
    each(async |kind| {
        let scene = "prompted; says One; finish; prompted; says Two; finish; linger";
        let pair = |agent| Pair { agent, other: watched(Behaviour::Remembers, None, json!({})).runner };
        let mut stage = ScenarioHarness::wrapped(kind, scene, &Budget::default(), pair).await;
        let session = stage.harness.session().await;
        assert_eq!(
            stage.harness.turn(&session, "alpha", SimulatedUser::Agrees).await,
            EndReason::Completed,
            "{kind:?}"
        );
        let bravo = PromptInput { model: Some(ModelRef::new(ID, "default")), ..PromptInput::text("bravo") };
        stage.harness.sessions.submit(&session.id, bravo).await.unwrap();
        assert_eq!(
            stage.harness.until_idle(&session, SimulatedUser::Agrees).await,
            EndReason::Completed,
            "{kind:?}"
        );
        assert_eq!(stage.count_told("bravo"), 0, "{kind:?}");
        assert_eq!(
            stage.harness.turn(&session, "charlie", SimulatedUser::Agrees).await,
            EndReason::Completed,
            "{kind:?}"
        );
        let told = stage.told();
        let last = told.iter().rfind(|told| told.contains("charlie")).unwrap();
        assert!(
            last.contains("Person: bravo") && last.contains("Agent: conversation of"),
            "{kind:?}: {last}"
        );
        assert!(!last.contains("alpha"), "{kind:?}: its own turn is not repeated: {last}");
        assert_eq!(stage.end(&session).await, 3, "{kind:?}");
    })
    .await;
}
