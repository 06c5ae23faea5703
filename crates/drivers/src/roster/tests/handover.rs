//! Every kind of agent receives the earlier messages of a conversation that it takes over.

use protocol::{EndReason, EventBody};

use super::stage::{Stage, each};
use crate::external::harness::Person;

#[tokio::test]
async fn a_fork_receives_the_earlier_conversation() {
    each(async |kind| {
        // Each session has its own program, which begins the scenario anew; a server continues it.
        let scene = "prompted; says One; finish; prompted; says Two; finish; prompted; says Three; finish; linger";
        let mut stage = Stage::new(kind, scene).await;
        let session = stage.harness.session().await;
        assert_eq!(stage.harness.turn(&session, "remember it", Person::Agrees).await, EndReason::Completed);
        let fork = stage.harness.sessions.fork(&session.id, None).await.unwrap();
        for prompt in ["what was it?", "and now?"] {
            assert_eq!(stage.harness.turn(&fork, prompt, Person::Agrees).await, EndReason::Completed, "{kind:?}");
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
