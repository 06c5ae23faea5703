//! Permissions and questions, and what becomes of a turn whose person says no.

use protocol::{EndReason, EventBody, ToolState};

use super::harness::{Person, World};

#[tokio::test(start_paused = true)]
async fn a_refused_permission_blocks_the_turn_and_runs_nothing() {
    let mut world = World::new().await;
    let session = world.turn("permission_two", Person::Refuses).await;
    assert_eq!(world.end(&session), EndReason::Blocked);
    assert!(!world.project.path().join("demo-one.txt").exists());
    assert!(!world.project.path().join("demo-two.txt").exists());
    insta::assert_snapshot!(world.story(&session.id));
}

#[tokio::test(start_paused = true)]
async fn a_correction_is_told_to_the_model_and_the_turn_goes_on() {
    let mut world = World::new().await;
    let session = world.turn("permission", Person::Corrects).await;
    assert_eq!(world.end(&session), EndReason::Completed);
    let tools = world.tools(&session).await;
    let ToolState::Error(state) = &tools[0] else { panic!("{tools:?}") };
    assert!(state.error.ends_with("with the following feedback: do something else"), "{}", state.error);
}

#[tokio::test(start_paused = true)]
async fn a_dismissed_question_blocks_the_turn() {
    let mut world = World::new().await;
    let session = world.turn("question", Person::Refuses).await;
    assert_eq!(world.end(&session), EndReason::Blocked);
    insta::assert_snapshot!(world.story(&session.id));
}

#[tokio::test(start_paused = true)]
async fn a_refused_repetition_blocks_the_turn() {
    for scenario in ["doom_loop", "doom_parallel"] {
        let mut world = World::new().await;
        let session = world.turn(scenario, Person::Refuses).await;
        assert_eq!(world.end(&session), EndReason::Blocked, "{scenario}");
        let done = world
            .tools(&session)
            .await
            .iter()
            .filter(|state| matches!(state, ToolState::Completed(_)))
            .count();
        assert_eq!(done, 2, "{scenario}");
    }
}

#[tokio::test]
async fn what_is_always_allowed_is_not_asked_again() {
    let mut world = World::new().await;
    let asked = |world: &World| {
        world.seen.iter().filter(|event| matches!(event.body, EventBody::PermissionAsked(_))).count()
    };
    world.turn("permission", Person::AlwaysAgrees).await;
    assert_eq!(asked(&world), 1);
    world.turn("permission", Person::AlwaysAgrees).await;
    assert_eq!(asked(&world), 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_answering_blocks_the_turn_in_the_end() {
    let mut world = World::new().await;
    let session = world.session().await;
    world.submit(&session, "permission", "please").await;
    let id = session.id.clone();
    world.until(|body| matches!(body, EventBody::SessionIdle(idle) if idle.session_id == id)).await;
    assert_eq!(world.end(&session), EndReason::Blocked);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_alternates_between_two_calls_is_stopped() {
    let call = |path: &str| ("read", serde_json::json!({ "filePath": path }));
    let calls: Vec<_> = (0..10).map(|number| call(if number % 2 == 0 { "README.md" } else { "." })).collect();
    let (world, session, tools) = super::tools::made(&calls, &[], Person::Refuses).await;
    assert_eq!(world.end(&session), EndReason::Blocked);
    assert!(world.story(&session.id).contains("permission.asked(doom_loop [\"read\"])"));
    // Three times round: the sixth call is the one that is asked about.
    assert_eq!(tools.len(), 6);
    assert!(tools.iter().take(5).all(|state| matches!(state, ToolState::Completed(_))));
}
