//! Approvals, rejections, and the other requests that they settle.

use engine::{limits::Limits, ports::ChildSpec, session::Turn};
use protocol::{
    EndReason, Event, EventBody, Extra, Session, TurnEnd,
    agent_event::{Answer, Ask},
    event::PermissionAnswered,
    request::{PermissionReply, PermissionRequest, Rule},
};

use crate::harness::World;

fn may_i(pattern: &str) -> Ask {
    Ask::Permission {
        permission: "bash".into(),
        patterns: vec![pattern.into()],
        metadata: Extra::new(),
        always: vec![pattern.into()],
        call: None,
    }
}

/// Asks for a permission that an approval of the same pattern settles.
async fn want(turn: &Turn, pattern: &'static str) -> Answer {
    turn.ask_unless(may_i(pattern), move |approved: &[Rule]| {
        approved.iter().any(|rule| rule.pattern == pattern)
    })
    .await
}

/// The next `count` permissions that are asked.
async fn asked(world: &mut World, count: usize) -> Vec<PermissionRequest> {
    for _ in 0..count {
        world.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    }
    world.sessions.permissions(None).await.unwrap()
}

async fn reply(world: &World, request: &PermissionRequest, reply: PermissionReply) {
    world.sessions.reply_permission(&request.id, reply, None).await.unwrap();
}

fn replies(world: &World) -> Vec<PermissionAnswered> {
    let replied = |event: &Event| match &event.body {
        EventBody::PermissionReplied(it) => Some(it.clone()),
        _ => None,
    };
    world.seen.iter().filter_map(replied).collect()
}

/// A turn that asks for three permissions at once, two of them the same.
async fn three_permissions(world: &mut World, first: Answer, second: Answer, other: Answer) -> Session {
    let session = world.session().await;
    world.script(move |turn| async move {
        let answers = tokio::join!(want(&turn, "make"), want(&turn, "make"), want(&turn, "rm"));
        assert_eq!(answers, (first, second, other));
        TurnEnd::Completed
    });
    world.submit(&session, "x").await;
    session
}

#[tokio::test(start_paused = true)]
async fn an_approval_settles_open_permissions_that_it_covers() {
    let mut world = World::new().await;
    let session = three_permissions(&mut world, Answer::Always, Answer::Always, Answer::Once).await;
    let waiting = asked(&mut world, 3).await;
    reply(&world, &waiting[0], PermissionReply::Always).await;
    let left = world.sessions.permissions(None).await.unwrap();
    assert_eq!(left, [waiting[2].clone()], "answered together");
    reply(&world, &left[0], PermissionReply::Once).await;
    world.until_idle(&session).await;
    let replies = replies(&world);
    assert_eq!(replies[1].reply, PermissionReply::Always);
    let saved: Vec<usize> = replies.iter().map(|it| it.saved.len()).collect();
    assert_eq!(saved, [1, 0, 0], "it is new once");
}

#[tokio::test(start_paused = true)]
async fn a_rejection_rejects_every_permission_of_the_session() {
    let mut world = World::new().await;
    let rejected = |message: Option<&str>| Answer::Rejected { message: message.map(str::to_owned) };
    let session = three_permissions(&mut world, rejected(None), rejected(Some("no")), rejected(None)).await;
    let stranger = world.session().await;
    world.script(|turn| async move {
        assert_eq!(want(&turn, "make").await, Answer::Once);
        TurnEnd::Completed
    });
    world.submit(&stranger, "x").await;
    let waiting = asked(&mut world, 4).await;
    let second = waiting.iter().filter(|it| it.session_id == session.id).nth(1).unwrap();
    world.sessions.reply_permission(&second.id, PermissionReply::Reject, Some("no".into())).await.unwrap();
    let left = world.sessions.permissions(None).await.unwrap();
    assert_eq!(left.len(), 1, "another session's still waits");
    world.until_idle(&session).await;
    reply(&world, &left[0], PermissionReply::Once).await;
    world.until_idle(&stranger).await;
    assert!(world.sessions.approvals(None).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn approvals_survive_a_crash_and_can_be_deleted() {
    let mut world = World::new().await;
    let session = world.session().await;
    for _ in 0..2 {
        world.script(|turn| async move {
            want(&turn, "make").await;
            std::future::pending().await
        });
    }
    world.submit(&session, "x").await;
    let waiting = asked(&mut world, 1).await;
    reply(&world, &waiting[0], PermissionReply::Always).await;
    let world = world.crash().await;
    world.sessions.recover().await.unwrap();
    let approvals = world.sessions.approvals(Some("global")).await.unwrap();
    assert_eq!((approvals.len(), approvals[0].pattern.as_str()), (1, "make"));
    assert!(world.sessions.approvals(Some("other")).await.unwrap().is_empty());
    let approved = |world: &World, session: &Session| {
        let (tell, told) = tokio::sync::oneshot::channel();
        world.script(move |turn| async move {
            tell.send(turn.approved().await.unwrap()).unwrap();
            TurnEnd::Completed
        });
        let (sessions, id) = (world.sessions.clone(), session.id.clone());
        async move {
            sessions.prompt(&id, protocol::prompt::PromptInput::text("x")).await.unwrap();
            told.await.unwrap()
        }
    };
    assert_eq!(approved(&world, &session).await, [approvals[0].rule()]);
    assert!(world.sessions.forget(&approvals[0].id).await.unwrap());
    assert!(!world.sessions.forget(&approvals[0].id).await.unwrap());
    assert!(approved(&world, &session).await.is_empty());
}

/// A root session, its child and grandchild, each of which asks for the same permission.
async fn family(world: &World) -> Session {
    let child = || ChildSpec { title: "below".into(), prompt: "look".into(), ..ChildSpec::default() };
    let root = world.session().await;
    for _ in 0..2 {
        world.script(move |turn| async move {
            let below = turn.start_child(child()).await.unwrap();
            let answers = tokio::join!(want(&turn, "make"), below.wait());
            assert_eq!(answers.0, Answer::Always);
            TurnEnd::Completed
        });
    }
    world.script(|turn| async move {
        assert_eq!(want(&turn, "make").await, Answer::Always);
        TurnEnd::Completed
    });
    world.submit(&root, "x").await;
    root
}

#[tokio::test(start_paused = true)]
async fn requests_of_children_name_the_root_and_an_approval_settles_the_family() {
    let mut world = World::new().await;
    let root = family(&world).await;
    let waiting = asked(&mut world, 3).await;
    for request in &waiting {
        let expected = (request.session_id != root.id).then(|| root.id.clone());
        assert_eq!(request.root_id, expected);
    }
    let mut deepest = &waiting[0];
    for request in &waiting {
        let parent = world.sessions.get(&request.session_id).await.unwrap().parent_id;
        if parent.is_some_and(|parent| parent != root.id) {
            deepest = request;
        }
    }
    assert_eq!(deepest.root_id, Some(root.id.clone()));
    reply(&world, deepest, PermissionReply::Always).await;
    world.until_idle(&root).await;
    assert!(world.sessions.permissions(None).await.unwrap().is_empty());
    assert_eq!(replies(&world).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_permission_gets_the_configured_reply() {
    for set in [PermissionReply::Once, PermissionReply::Always, PermissionReply::Reject] {
        let mut world = World::with(Limits { request_reply: Some(set), ..Limits::default() }).await;
        let session = world.session().await;
        world.script(move |turn| async move {
            assert_eq!(turn.ask(may_i("make")).await, Answer::Default(set));
            let question = Ask::Question { questions: Vec::new(), call: None };
            assert_eq!(turn.ask(question).await, Answer::Withdrawn);
            TurnEnd::Completed
        });
        let submitted = world.submit(&session, "x").await;
        assert_eq!(submitted.end.unwrap().await, Ok(EndReason::Completed));
        world.drain();
        let replies = replies(&world);
        assert_eq!((replies[0].reply, replies[0].unanswered), (set, Some(true)));
        let saved = usize::from(set == PermissionReply::Always);
        assert_eq!(world.sessions.approvals(None).await.unwrap().len(), saved);
        let dismissed = world.seen.iter().any(
            |event| matches!(&event.body, EventBody::QuestionRejected(it) if it.unanswered == Some(true)),
        );
        assert!(dismissed);
    }
}
