//! Approvals, rejections, and the other requests that they settle.

use engine::{
    limits::Limits,
    ports::{ChildSpec, Listing},
    session::Turn,
};
use protocol::{
    EndReason, Event, EventBody, Extra, Session, TurnEnd,
    agent_event::{Answer, Ask},
    event::PermissionAnswered,
    request::{PermissionReply, PermissionRequest, Rule},
};

use crate::harness::{Harness, Node};

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
async fn asked(harness: &mut Harness, count: usize) -> Vec<PermissionRequest> {
    for _ in 0..count {
        harness.until(|body| matches!(body, EventBody::PermissionAsked(_))).await;
    }
    harness.sessions.permissions(None).await.unwrap()
}

async fn reply(harness: &Harness, request: &PermissionRequest, reply: PermissionReply) {
    harness.sessions.reply_permission(&request.id, reply, None).await.unwrap();
}

fn replies(harness: &Harness) -> Vec<PermissionAnswered> {
    let replied = |event: &Event| match &event.body {
        EventBody::PermissionReplied(it) => Some(it.clone()),
        _ => None,
    };
    harness.seen.iter().filter_map(replied).collect()
}

/// A turn that asks for three permissions at once, two of them the same.
async fn three_permissions(harness: &mut Harness, first: Answer, second: Answer, other: Answer) -> Session {
    let session = harness.session().await;
    harness.script(move |turn| async move {
        let answers = tokio::join!(want(&turn, "make"), want(&turn, "make"), want(&turn, "rm"));
        assert_eq!(answers, (first, second, other));
        TurnEnd::Completed
    });
    harness.submit(&session, "x").await;
    session
}

#[tokio::test(start_paused = true)]
async fn an_approval_settles_open_permissions_that_it_covers() {
    let mut harness = Harness::new().await;
    let session = three_permissions(&mut harness, Answer::Always, Answer::Always, Answer::Once).await;
    let waiting = asked(&mut harness, 3).await;
    reply(&harness, &waiting[0], PermissionReply::Always).await;
    let left = harness.sessions.permissions(None).await.unwrap();
    assert_eq!(left, [waiting[2].clone()], "answered together");
    reply(&harness, &left[0], PermissionReply::Once).await;
    harness.until_idle(&session).await;
    let replies = replies(&harness);
    assert_eq!(replies[1].reply, PermissionReply::Always);
    let saved: Vec<usize> = replies.iter().map(|it| it.saved.len()).collect();
    assert_eq!(saved, [1, 0, 0], "it is new once");
}

#[tokio::test(start_paused = true)]
async fn a_rejection_rejects_every_permission_of_the_session() {
    let mut harness = Harness::new().await;
    let rejected = |message: Option<&str>| Answer::Rejected { message: message.map(str::to_owned) };
    let session = three_permissions(&mut harness, rejected(None), rejected(Some("no")), rejected(None)).await;
    let stranger = harness.session().await;
    harness.script(|turn| async move {
        assert_eq!(want(&turn, "make").await, Answer::Once);
        TurnEnd::Completed
    });
    harness.submit(&stranger, "x").await;
    let waiting = asked(&mut harness, 4).await;
    let second = waiting.iter().filter(|it| it.session_id == session.id).nth(1).unwrap();
    harness.sessions.reply_permission(&second.id, PermissionReply::Reject, Some("no".into())).await.unwrap();
    let left = harness.sessions.permissions(None).await.unwrap();
    assert_eq!(left.len(), 1, "another session's still waits");
    harness.until_idle(&session).await;
    reply(&harness, &left[0], PermissionReply::Once).await;
    harness.until_idle(&stranger).await;
    assert!(harness.sessions.approvals(None).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn approvals_survive_a_crash_and_can_be_deleted() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    for _ in 0..2 {
        harness.script(|turn| async move {
            want(&turn, "make").await;
            std::future::pending().await
        });
    }
    harness.submit(&session, "x").await;
    let waiting = asked(&mut harness, 1).await;
    reply(&harness, &waiting[0], PermissionReply::Always).await;
    let harness = harness.crash().await;
    harness.sessions.recover().await.unwrap();
    let approvals = harness.sessions.approvals(Some("global")).await.unwrap();
    assert_eq!((approvals.len(), approvals[0].pattern.as_str()), (1, "make"));
    assert!(harness.sessions.approvals(Some("other")).await.unwrap().is_empty());
    let approved = |harness: &Harness, session: &Session| {
        let (tell, told) = tokio::sync::oneshot::channel();
        harness.script(move |turn| async move {
            tell.send(turn.approved().await.unwrap()).unwrap();
            TurnEnd::Completed
        });
        let (sessions, id) = (harness.sessions.clone(), session.id.clone());
        async move {
            sessions.prompt(&id, protocol::prompt::PromptInput::text("x")).await.unwrap();
            told.await.unwrap()
        }
    };
    assert_eq!(approved(&harness, &session).await, [approvals[0].rule()]);
    assert!(harness.sessions.forget(&approvals[0].id).await.unwrap());
    assert!(!harness.sessions.forget(&approvals[0].id).await.unwrap());
    assert!(approved(&harness, &session).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_approval_does_not_hold_for_the_same_path_on_another_node() {
    let mut harness = Harness::new().await;
    let session = harness.session().await;
    harness.script(|turn| async move {
        want(&turn, "make").await;
        std::future::pending().await
    });
    harness.submit(&session, "x").await;
    let waiting = asked(&mut harness, 1).await;
    reply(&harness, &waiting[0], PermissionReply::Always).await;
    let harness = harness.crash_to(std::sync::Arc::new(Node("other"))).await;
    harness.sessions.recover().await.unwrap();
    let other = harness.session().await;
    assert_eq!(other.directory, session.directory);
    let fork = harness.sessions.fork(&session.id, None).await.unwrap();
    for (session, approvals) in [(&session, 1), (&fork, 1), (&other, 0)] {
        harness.script(move |turn| async move {
            assert_eq!(turn.approved().await.unwrap().len(), approvals);
            TurnEnd::Completed
        });
        harness.sessions.prompt(&session.id, protocol::prompt::PromptInput::text("x")).await.unwrap();
    }
    // The node's streams and lists show its own directory, although the other one has the same name.
    let listing =
        Listing { workspace: Some(harness.sessions.workspace(&session.directory)), ..Listing::default() };
    let listed: Vec<_> = harness.sessions.list(listing).await.unwrap().into_iter().map(|it| it.id).collect();
    assert_eq!(listed, [other.id]);
    let told = harness.told(&session.directory, Some(0)).await;
    assert_eq!(told.matches("session.created").count(), 1, "{told}");
}

/// A root session, its child and grandchild, each of which asks for the same permission.
async fn family(harness: &Harness) -> Session {
    let child = || ChildSpec { title: "below".into(), prompt: "look".into(), ..ChildSpec::default() };
    let root = harness.session().await;
    for _ in 0..2 {
        harness.script(move |turn| async move {
            let below = turn.start_child(child()).await.unwrap();
            let answers = tokio::join!(want(&turn, "make"), below.wait());
            assert_eq!(answers.0, Answer::Always);
            TurnEnd::Completed
        });
    }
    harness.script(|turn| async move {
        assert_eq!(want(&turn, "make").await, Answer::Always);
        TurnEnd::Completed
    });
    harness.submit(&root, "x").await;
    root
}

#[tokio::test(start_paused = true)]
async fn requests_of_children_name_the_root_and_an_approval_settles_the_family() {
    let mut harness = Harness::new().await;
    let root = family(&harness).await;
    let waiting = asked(&mut harness, 3).await;
    for request in &waiting {
        let expected = (request.session_id != root.id).then(|| root.id.clone());
        assert_eq!(request.root_id, expected);
    }
    let mut deepest = &waiting[0];
    for request in &waiting {
        let parent = harness.sessions.get(&request.session_id).await.unwrap().parent_id;
        if parent.is_some_and(|parent| parent != root.id) {
            deepest = request;
        }
    }
    assert_eq!(deepest.root_id, Some(root.id.clone()));
    reply(&harness, deepest, PermissionReply::Always).await;
    harness.until_idle(&root).await;
    assert!(harness.sessions.permissions(None).await.unwrap().is_empty());
    assert_eq!(replies(&harness).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_permission_gets_the_configured_reply() {
    for set in [PermissionReply::Once, PermissionReply::Always, PermissionReply::Reject] {
        let mut harness = Harness::with(Limits { request_reply: Some(set), ..Limits::default() }).await;
        let session = harness.session().await;
        harness.script(move |turn| async move {
            assert_eq!(turn.ask(may_i("make")).await, Answer::Default(set));
            let question = Ask::Question { questions: Vec::new(), call: None };
            assert_eq!(turn.ask(question).await, Answer::Withdrawn);
            TurnEnd::Completed
        });
        let submitted = harness.submit(&session, "x").await;
        assert_eq!(submitted.end.unwrap().await, Ok(EndReason::Completed));
        harness.drain();
        let replies = replies(&harness);
        assert_eq!((replies[0].reply, replies[0].unanswered), (set, Some(true)));
        let saved = usize::from(set == PermissionReply::Always);
        assert_eq!(harness.sessions.approvals(None).await.unwrap().len(), saved);
        let dismissed = harness.seen.iter().any(
            |event| matches!(&event.body, EventBody::QuestionRejected(it) if it.unanswered == Some(true)),
        );
        assert!(dismissed);
    }
}
