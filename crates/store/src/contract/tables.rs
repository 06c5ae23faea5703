//! The projection: the effect of each event on the tables.

use engine::{
    limits::MAX_APPROVALS,
    ports::{Listing, OpenPrompt, Page},
};
use protocol::{MessageId, SessionStatus, project::ProjectNote, prompt::Delivery, request::Request};
use serde_json::json;

use super::*;

pub(crate) async fn sessions_follow_created_updated_and_deleted(subject: &Subject) {
    subject.append("ses_a", 0, vec![created("ses_a")]).await.unwrap();
    let find = async || subject.reads.session(&id("ses_a")).await.unwrap();
    let (session, head) = find().await.unwrap();
    assert_eq!((session.title.as_str(), head), ("A title", 1));
    let changed = json!({ "title": "Another", "madeUp": { "by": "a client" } });
    subject.say("ses_a", vec![updated("ses_a", changed), busy("ses_a")]).await;
    let (session, head) = find().await.unwrap();
    assert_eq!((session.title.as_str(), head), ("Another", 3));
    assert_eq!(session.extra.get("madeUp"), Some(&json!({ "by": "a client" })), "unknown fields survive");
    subject.say("ses_a", vec![deleted("ses_a")]).await;
    assert!(find().await.is_none());
}

pub(crate) async fn rows_are_found_by_their_new_values(subject: &Subject) {
    subject
        .append("ses_a", 0, vec![created("ses_a"), user("ses_a", "msg_1", 1), user("ses_a", "msg_2", 2)])
        .await
        .unwrap();
    subject.append("ses_b", 0, vec![created_with("ses_b", json!({ "parentID": "ses_a" }))]).await.unwrap();
    let listed = async || {
        let messages = subject.reads.messages(&id("ses_a"), Page::default()).await.unwrap();
        let children = Listing { parent: Some(id("ses_a")), ..Listing::default() };
        let children = subject.reads.sessions(children).await.unwrap();
        let ids = messages.iter().map(|message| message.info.id().to_string());
        ids.chain(children.iter().map(|child| child.id.to_string())).collect::<Vec<_>>()
    };
    assert_eq!(listed().await, ["msg_1", "msg_2", "ses_b"]);
    subject.say("ses_a", vec![user("ses_a", "msg_1", 3)]).await;
    assert_eq!(listed().await, ["msg_2", "msg_1", "ses_b"]);
    subject.say("ses_b", vec![updated("ses_b", json!({ "parentID": null }))]).await;
    assert_eq!(listed().await, ["msg_2", "msg_1"]);
}

/// One of everything that belongs to a session.
fn everything_of(session: &str) -> Vec<Encoded> {
    vec![
        user(session, "msg_1", 1),
        saved(&text(session, "msg_1", "prt_1", "hello", Some(1))),
        answer(session, "msg_2", "msg_1", 2, None),
        saved(&text(session, "msg_2", "prt_2", "wor", None)),
        todos(session, &["one", "two"]),
        busy(session),
        permission(session, "per_1", "ls"),
        question(session, "que_1"),
        queued(session, "msg_1", "queue"),
        started(session, "msg_1"),
    ]
}

/// Everything that the reads return about a session, for comparison.
async fn about(subject: &Subject, session: &str) -> String {
    let session = id(session);
    let reads = &subject.reads;
    format!(
        "{:#?}",
        (
            reads.messages(&session, Page::default()).await.unwrap(),
            reads.open(&session).await.unwrap(),
            reads.todos(&session).await.unwrap(),
            reads.prompts(&session).await.unwrap(),
            reads.statuses(None).await.unwrap().into_iter().filter(|it| it.0 == session).collect::<Vec<_>>(),
            reads
                .requests(None)
                .await
                .unwrap()
                .into_iter()
                .filter(|it| *it.session_id() == session)
                .collect::<Vec<_>>(),
            reads.unfinished(None).await.unwrap().contains(&session),
        )
    )
}

pub(crate) async fn a_deleted_session_takes_everything_along(subject: &Subject) {
    let nothing = about(subject, "ses_a").await;
    subject.say("ses_a", everything_of("ses_a")).await;
    subject.say("ses_b", everything_of("ses_b")).await;
    let neighbour = about(subject, "ses_b").await;
    assert_ne!(about(subject, "ses_a").await, nothing);
    // Events after the deletion in the same commit change nothing.
    subject.say("ses_a", vec![deleted("ses_a"), busy("ses_a"), queued("ses_a", "msg_9", "steer")]).await;
    assert_eq!(about(subject, "ses_a").await, nothing);
    assert_eq!(about(subject, "ses_b").await, neighbour);
    assert!(subject.reads.part(&id("ses_a"), &id("msg_1"), &id("prt_1")).await.unwrap().is_none());
}

pub(crate) async fn a_deleted_session_can_be_created_again(subject: &Subject) {
    subject.say("ses_a", everything_of("ses_a")).await;
    subject.say("ses_a", vec![deleted("ses_a")]).await;
    for round in 1..4 {
        let appended = subject.say("ses_a", vec![busy("ses_a"), deleted("ses_a")]).await;
        assert_eq!(appended.head, 3, "in round {round}");
    }
    // An import brings a session back with its old id; its events count from 1 again and its old rows are gone.
    let again = subject.append("ses_a", 0, vec![created("ses_a")]).await.unwrap();
    assert_eq!(again.head, 1);
    let grown = subject.say("ses_a", everything_of("ses_a")).await;
    assert_eq!(grown.head, 11);
    let of_it = subject.everything().await;
    assert_eq!(of_it.len(), 4 + 11, "four deletions, and the new life");
}

pub(crate) async fn messages_are_replaced_and_removed_with_their_parts(subject: &Subject) {
    let session = id("ses_a");
    subject.say("ses_a", everything_of("ses_a")).await;
    subject.say("ses_a", vec![answer("ses_a", "msg_2", "msg_1", 2, Some(7))]).await;
    let message = subject.reads.message(&session, &id("msg_2")).await.unwrap().unwrap();
    assert!(matches!(&message.info, protocol::Message::Assistant(it) if it.time.completed == Some(7)));
    assert_eq!(message.parts.len(), 1, "replacing a message leaves its parts alone");
    subject.say("ses_a", vec![message_removed("ses_a", "msg_2")]).await;
    assert!(subject.reads.message(&session, &id("msg_2")).await.unwrap().is_none());
    assert!(subject.reads.part(&session, &id("msg_2"), &id("prt_2")).await.unwrap().is_none());
    assert_eq!(subject.reads.messages(&session, Page::default()).await.unwrap().len(), 1);
    // The message may come back, without its parts.
    subject.say("ses_a", vec![answer("ses_a", "msg_2", "msg_1", 2, None)]).await;
    assert!(subject.reads.message(&session, &id("msg_2")).await.unwrap().unwrap().parts.is_empty());
}

pub(crate) async fn parts_are_replaced_and_removed(subject: &Subject) {
    let part = |name: &str, words: &str| text("ses_a", "msg_1", name, words, Some(1));
    let list = async || {
        let message = subject.reads.message(&id("ses_a"), &id("msg_1")).await.unwrap().unwrap();
        message.parts
    };
    let (first, second) = (part("prt_1", "one"), part("prt_2", "two"));
    subject.say("ses_a", vec![user("ses_a", "msg_1", 1), saved(&second), saved(&first)]).await;
    assert_eq!(list().await, [first.clone(), second.clone()], "by id, not by arrival");
    let again = part("prt_1", "one and a half");
    subject.say("ses_a", vec![saved(&again)]).await;
    assert_eq!(list().await, [again.clone(), second]);
    let found = subject.reads.part(&id("ses_a"), &id("msg_1"), &id("prt_1")).await.unwrap();
    assert_eq!(found, Some(again.clone()));
    subject.say("ses_a", vec![part_removed("ses_a", "msg_1", "prt_2")]).await;
    assert_eq!(list().await, [again]);
}

pub(crate) async fn parts_may_come_before_their_message(subject: &Subject) {
    let part = text("ses_a", "msg_1", "prt_1", "early", None);
    subject.say("ses_a", vec![saved(&part)]).await;
    assert!(subject.reads.messages(&id("ses_a"), Page::default()).await.unwrap().is_empty());
    assert!(subject.reads.open(&id("ses_a")).await.unwrap().is_empty());
    subject.say("ses_a", vec![user("ses_a", "msg_1", 1)]).await;
    let messages = subject.reads.messages(&id("ses_a"), Page::default()).await.unwrap();
    assert_eq!(messages[0].parts, [part]);
}

pub(crate) async fn messages_of_two_sessions_do_not_mix(subject: &Subject) {
    // Clients choose message ids, and may choose the same one in two sessions.
    for session in ["ses_a", "ses_b"] {
        let part = text(session, "msg_1", "prt_1", session, Some(1));
        subject.say(session, vec![user(session, "msg_1", 1), saved(&part)]).await;
    }
    subject.say("ses_a", vec![message_removed("ses_a", "msg_1")]).await;
    let kept = subject.reads.message(&id("ses_b"), &id("msg_1")).await.unwrap().unwrap();
    assert_eq!(kept.parts[0].text(), Some("ses_b"));
    assert_eq!(kept.parts.len(), 1);
}

pub(crate) async fn the_todo_list_is_replaced(subject: &Subject) {
    let list = async || {
        let todos = subject.reads.todos(&id("ses_a")).await.unwrap();
        todos.into_iter().map(|todo| todo.content).collect::<Vec<_>>()
    };
    subject.say("ses_a", vec![todos("ses_a", &["one", "two"])]).await;
    assert_eq!(list().await, ["one", "two"]);
    subject.say("ses_a", vec![todos("ses_a", &["two"])]).await;
    assert_eq!(list().await, ["two"]);
    subject.say("ses_a", vec![todos("ses_a", &[])]).await;
    assert_eq!(list().await, [""; 0]);
}

pub(crate) async fn notes_about_projects_are_amended(subject: &Subject) {
    let note = |value| serde_json::from_value::<ProjectNote>(value).unwrap();
    assert!(subject.reads.notes().await.unwrap().is_empty());
    subject.log.note("global", note(json!({ "name": "Home", "icon": { "color": "red" } }))).await.unwrap();
    subject.log.note("other", note(json!({ "name": "Other" }))).await.unwrap();
    let said = subject.log.note("global", note(json!({ "icon": { "url": "a" } }))).await.unwrap();
    assert_eq!(said, note(json!({ "name": "Home", "icon": { "color": "red", "url": "a" } })));
    let notes = subject.reads.notes().await.unwrap();
    assert_eq!(notes["global"], said);
    assert_eq!(notes["other"], note(json!({ "name": "Other" })));
    assert!(subject.everything().await.is_empty(), "a note is no event");
}

pub(crate) async fn idle_is_the_absence_of_a_status(subject: &Subject) {
    let retry = json!({ "type": "retry", "attempt": 2, "message": "overloaded", "next": 77 });
    let retrying = event("session.status", json!({ "sessionID": "ses_b", "status": retry }));
    subject.say("ses_a", vec![busy("ses_a")]).await;
    let fields = json!({ "directory": "/elsewhere" });
    subject.append("ses_b", 0, vec![created_with("ses_b", fields), busy("ses_b"), retrying]).await.unwrap();
    let statuses = subject.reads.statuses(None).await.unwrap();
    let expected =
        [(id("ses_a"), SessionStatus::BUSY), (id("ses_b"), SessionStatus::retry(2, "overloaded", 77))];
    assert_eq!(statuses, expected);
    subject.say("ses_a", vec![idle("ses_a")]).await;
    subject.say("ses_b", vec![idle("ses_b")]).await;
    assert!(subject.reads.statuses(None).await.unwrap().is_empty());
}

pub(crate) async fn requests_wait_until_they_are_answered(subject: &Subject) {
    let waiting = async || {
        let requests = subject.reads.requests(None).await.unwrap();
        requests.iter().map(|request| request.id().to_owned()).collect::<Vec<_>>()
    };
    subject.say("ses_b", vec![permission("ses_b", "per_9", "ls"), question("ses_b", "que_1")]).await;
    subject.say("ses_a", vec![permission("ses_a", "per_1", "rm"), question("ses_a", "que_2")]).await;
    assert_eq!(waiting().await, ["per_9", "que_1", "per_1", "que_2"], "oldest first, not by id");
    let request = subject.reads.requests(None).await.unwrap().remove(2);
    assert!(matches!(request, Request::Permission(it) if it.patterns == ["rm"]));
    // A request that is asked again keeps its place.
    subject.say("ses_b", vec![permission("ses_b", "per_9", "ls -l")]).await;
    let request = subject.reads.requests(None).await.unwrap().remove(0);
    assert!(matches!(request, Request::Permission(it) if it.patterns == ["ls -l"]));
    // A reply to another session's request answers nothing.
    subject.say("ses_a", vec![permitted("ses_a", "per_9")]).await;
    subject.say("ses_b", vec![permitted("ses_b", "per_9"), answered("ses_b", "que_1")]).await;
    assert_eq!(waiting().await, ["per_1", "que_2"]);
    subject.say("ses_a", vec![rejected("ses_a", "que_2"), permitted("ses_a", "per_1")]).await;
    assert_eq!(waiting().await, [""; 0]);
}

/// Appends to a session of another node, which has the same directory.
async fn say_there(subject: &Subject, session: &str, expected: u64, events: Vec<Encoded>) {
    let commit = Commit { fence: fence(there()), ..commit(session, expected, events) };
    subject.log.append(commit).await.unwrap();
}

pub(crate) async fn a_workspace_has_its_own_sessions(subject: &Subject) {
    let workspace = async |session: &str| subject.reads.workspace(&id(session)).await.unwrap();
    subject.say("ses_a", vec![busy("ses_a"), permission("ses_a", "per_1", "ls")]).await;
    let events = vec![created("ses_b"), queued("ses_b", "msg_1", "queue"), question("ses_b", "que_1")];
    say_there(subject, "ses_b", 0, events).await;
    assert_eq!(
        (workspace("ses_a").await, workspace("ses_b").await, workspace("ses_c").await),
        (Some(here()), Some(there()), None)
    );
    for (place, session, busy) in [(here(), "ses_a", 1), (there(), "ses_b", 0)] {
        let (reads, place) = (&subject.reads, Some(&place));
        assert_eq!(reads.statuses(place).await.unwrap().len(), busy);
        let requests = reads.requests(place).await.unwrap();
        assert_eq!(requests.iter().map(|it| it.session_id().as_str()).collect::<Vec<_>>(), [session]);
        assert_eq!(reads.unfinished(place).await.unwrap(), [id::<SessionId>(session)]);
        let listing = Listing { workspace: place.cloned(), ..Listing::default() };
        let listed = reads.sessions(listing).await.unwrap();
        assert_eq!(listed.iter().map(|it| it.id.as_str()).collect::<Vec<_>>(), [session]);
    }
    // A move is a commit from the other workspace.
    say_there(subject, "ses_a", 3, vec![updated("ses_a", json!({}))]).await;
    assert_eq!(workspace("ses_a").await, Some(there()));
    assert!(subject.reads.statuses(Some(&here())).await.unwrap().is_empty());
    assert_eq!(subject.reads.requests(Some(&there())).await.unwrap().len(), 2);
}

pub(crate) async fn an_approval_outlives_its_session(subject: &Subject) {
    let list = async |workspace: Option<WorkspaceId>| {
        let approvals = subject.reads.approvals(workspace.as_ref()).await.unwrap();
        approvals.iter().map(|it| it.pattern.clone()).collect::<Vec<_>>()
    };
    let saved = [("psv_9", DIRECTORY, "make *"), ("psv_1", DIRECTORY, "ls *")];
    subject.say("ses_a", vec![permission("ses_a", "per_1", "make")]).await;
    subject.say("ses_a", vec![permitted_always("ses_a", "per_1", &saved)]).await;
    let saved = [("psv_2", DIRECTORY, "rm *")];
    say_there(subject, "ses_b", 0, vec![created("ses_b"), permitted_always("ses_b", "per_2", &saved)]).await;
    assert!(subject.reads.requests(None).await.unwrap().is_empty(), "it is an answer like any other");
    assert_eq!(list(Some(here())).await, ["make *", "ls *"], "oldest first, not by id");
    assert_eq!(list(Some(there())).await, ["rm *"], "the same path on another machine is another place");
    let first = subject.reads.approvals(None).await.unwrap().remove(0);
    assert_eq!((first.project_id.as_str(), first.permission.as_str()), ("p", "bash"));
    subject.say("ses_a", vec![deleted("ses_a")]).await;
    assert_eq!(list(None).await, ["make *", "ls *", "rm *"]);
    let log = subject.everything().await.len();
    assert!(subject.log.forget(&id("psv_9")).await.unwrap());
    assert!(!subject.log.forget(&id("psv_9")).await.unwrap());
    assert_eq!(list(None).await, ["ls *", "rm *"]);
    assert_eq!(subject.everything().await.len(), log, "forgetting is no event");
}

pub(crate) async fn approvals_are_stored_once_and_within_limits(subject: &Subject) {
    let list = async |workspace: WorkspaceId| {
        let approvals = subject.reads.approvals(Some(&workspace)).await.unwrap();
        approvals.iter().map(|it| it.id.to_string()).collect::<Vec<_>>()
    };
    let allow = async |saved: &[(&str, &str, &str)]| {
        subject.say("ses_a", vec![permitted_always("ses_a", "per_1", saved)]).await;
    };
    allow(&[("psv_a", DIRECTORY, "make *")]).await;
    // The same rule with another id, and another rule with the same id.
    allow(&[("psv_b", DIRECTORY, "make *"), ("psv_a", DIRECTORY, "rm *")]).await;
    assert_eq!(list(here()).await, ["psv_a"]);
    let elsewhere = permitted_always("ses_b", "per_1", &[("psv_e", DIRECTORY, "make *")]);
    say_there(subject, "ses_b", 0, vec![created("ses_b"), elsewhere]).await;
    for number in 1..=MAX_APPROVALS {
        let (id, pattern) = (format!("psv_{number}"), format!("{number}"));
        allow(&[(&id, DIRECTORY, &pattern)]).await;
    }
    let kept = list(here()).await;
    assert_eq!(kept.len(), MAX_APPROVALS);
    assert_eq!(kept[0], "psv_1", "the oldest was dropped");
    assert_eq!(list(there()).await, ["psv_e"]);
}

pub(crate) async fn prompts_are_queued_started_and_ended(subject: &Subject) {
    let open = |message: &str, delivery, started| OpenPrompt { message: id(message), delivery, started };
    let list = async || subject.reads.prompts(&id("ses_a")).await.unwrap();
    subject.say("ses_a", vec![queued("ses_a", "msg_9", "steer"), queued("ses_a", "msg_1", "queue")]).await;
    assert_eq!(
        list().await,
        [open("msg_9", Delivery::Steer, false), open("msg_1", Delivery::Queue, false)],
        "in order of acceptance"
    );
    subject.say("ses_a", vec![started("ses_a", "msg_9"), queued("ses_a", "msg_9", "queue")]).await;
    assert_eq!(
        list().await,
        [open("msg_9", Delivery::Queue, true), open("msg_1", Delivery::Queue, false)],
        "queued again it keeps its place, and has still been started"
    );
    subject.say("ses_a", vec![ended("ses_a", "msg_9"), started("ses_a", "msg_5")]).await;
    assert_eq!(
        list().await,
        [open("msg_1", Delivery::Queue, false), open("msg_5", Delivery::default(), true)],
        "one that never waited is open all the same"
    );
    subject
        .say("ses_a", vec![ended("ses_a", "msg_1"), ended("ses_a", "msg_5"), ended("ses_a", "msg_7")])
        .await;
    assert_eq!(list().await, []);
}

pub(crate) async fn only_a_mark_changes_the_mark_of_a_session(subject: &Subject) {
    let mark = async || subject.reads.session(&id("ses_a")).await.unwrap().unwrap().0.seen;
    subject.say("ses_a", vec![created_with("ses_a", json!({ "seen": 7 }))]).await;
    assert_eq!(mark().await, None);
    subject
        .say("ses_a", vec![seen("ses_a", 5), updated("ses_a", json!({ "title": "other", "seen": 9 }))])
        .await;
    assert_eq!(mark().await, Some(5));
    let listed = subject.reads.sessions(Listing::default()).await.unwrap();
    assert_eq!(listed.first().unwrap().seen, Some(5));
    subject.say("ses_a", vec![seen("ses_a", 2)]).await;
    assert_eq!(mark().await, Some(2), "a lower mark makes it unread again");
}

pub(crate) async fn waiting_prompts_are_rearranged_and_withdrawn(subject: &Subject) {
    let list = async || {
        let prompts = subject.reads.prompts(&id("ses_a")).await.unwrap();
        prompts.into_iter().map(|prompt| (prompt.message.to_string(), prompt.delivery)).collect::<Vec<_>>()
    };
    let all = ["msg_1", "msg_2", "msg_3", "msg_4"].map(|message| queued("ses_a", message, "queue"));
    subject.say("ses_a", all.into()).await;
    let order = [("msg_4", "steer"), ("msg_7", "queue"), ("msg_2", "queue")];
    subject.say("ses_a", vec![started("ses_a", "msg_1"), rearranged("ses_a", &order)]).await;
    let expected = [
        ("msg_1", Delivery::Queue),
        ("msg_4", Delivery::Steer),
        ("msg_3", Delivery::Queue),
        ("msg_2", Delivery::Queue),
    ];
    let expected = expected.map(|(message, delivery)| (message.to_owned(), delivery));
    assert_eq!(list().await, expected, "only known prompts move, and only among their own places");
    let is_withdrawn = async |message| subject.reads.is_withdrawn(&id("ses_a"), &id(message)).await.unwrap();
    subject.say("ses_a", vec![withdrawn("ses_a", "msg_3"), ended("ses_a", "msg_1")]).await;
    assert_eq!(list().await.len(), 2);
    assert_eq!([is_withdrawn("msg_3").await, is_withdrawn("msg_1").await], [true, false]);
    let elsewhere = subject.reads.is_withdrawn(&id("ses_b"), &id("msg_3")).await.unwrap();
    assert!(!elsewhere, "of another session");
    subject.say("ses_a", vec![deleted("ses_a")]).await;
    assert!(!is_withdrawn("msg_3").await, "it is forgotten with its session");
}

pub(crate) async fn unfinished_sessions_are_busy_or_have_prompts(subject: &Subject) {
    subject.say("ses_c", vec![busy("ses_c"), queued("ses_c", "msg_1", "steer")]).await;
    subject.say("ses_b", vec![queued("ses_b", "msg_1", "steer")]).await;
    subject.say("ses_a", vec![busy("ses_a")]).await;
    subject.say("ses_d", vec![permission("ses_d", "per_1", "ls")]).await;
    let unfinished = subject.reads.unfinished(None).await.unwrap();
    assert_eq!(unfinished, ["ses_a", "ses_b", "ses_c"].map(id::<SessionId>));
    subject.say("ses_a", vec![idle("ses_a")]).await;
    subject.say("ses_b", vec![ended("ses_b", "msg_1")]).await;
    subject.say("ses_c", vec![idle("ses_c")]).await;
    assert_eq!(subject.reads.unfinished(None).await.unwrap(), [id::<SessionId>("ses_c")]);
}

pub(crate) async fn the_same_events_again_change_nothing(subject: &Subject) {
    subject.say("ses_a", everything_of("ses_a")).await;
    let before = about(subject, "ses_a").await;
    subject.say("ses_a", everything_of("ses_a")).await;
    assert_eq!(about(subject, "ses_a").await, before);
    subject.say("ses_a", vec![idle("ses_a"), ended("ses_a", "msg_1"), permitted("ses_a", "per_1")]).await;
    let after = about(subject, "ses_a").await;
    subject.say("ses_a", vec![idle("ses_a"), ended("ses_a", "msg_1"), permitted("ses_a", "per_1")]).await;
    assert_eq!(about(subject, "ses_a").await, after);
}

pub(crate) async fn checkpoints_touch_open_parts_only(subject: &Subject) {
    let message = "msg_1";
    let part = |name: &str, words: &str, end| text("ses_a", message, name, words, end);
    subject
        .say(
            "ses_a",
            vec![
                answer("ses_a", message, "msg_0", 1, None),
                saved(&part("prt_1", "", None)),
                saved(&part("prt_2", "done", Some(1))),
            ],
        )
        .await;
    let log = subject.everything().await.len();
    let texts = async || {
        let found = subject.reads.message(&id("ses_a"), &id::<MessageId>(message)).await.unwrap().unwrap();
        found.parts.iter().map(|part| part.text().unwrap().to_owned()).collect::<Vec<_>>()
    };
    subject
        .log
        .checkpoint(
            fence(here()),
            vec![
                part("prt_1", "so far", None),
                part("prt_2", "reopened?", None),
                part("prt_3", "never there", None),
                text("ses_gone", message, "prt_1", "no session", None),
            ],
        )
        .await
        .unwrap();
    assert_eq!(texts().await, ["so far", "done"]);
    // Only an event closes a part, never a checkpoint.
    subject.log.checkpoint(fence(here()), vec![part("prt_1", "closed?", Some(2))]).await.unwrap();
    subject.log.checkpoint(fence(here()), vec![]).await.unwrap();
    assert_eq!(texts().await, ["so far", "done"]);
    assert_eq!(subject.everything().await.len(), log, "a checkpoint is no event");
    assert_eq!(subject.reads.open(&id("ses_a")).await.unwrap().len(), 1);
    subject.say("ses_a", vec![saved(&part("prt_1", "so far, so good", Some(2)))]).await;
    subject.log.checkpoint(fence(here()), vec![part("prt_1", "too late", None)]).await.unwrap();
    assert_eq!(texts().await, ["so far, so good", "done"]);
}

pub(crate) async fn unknown_ids_return_nothing(subject: &Subject) {
    subject.say("ses_a", vec![user("ses_a", "msg_1", 1)]).await;
    subject
        .say(
            "ses_a",
            vec![
                message_removed("ses_a", "msg_9"),
                part_removed("ses_a", "msg_1", "prt_9"),
                permitted("ses_a", "per_9"),
                answered("ses_a", "que_9"),
                ended("ses_a", "msg_9"),
                idle("ses_a"),
                // These are in the log only.
                event("session.idle", json!({ "sessionID": "ses_a" })),
                event("session.error", json!({ "sessionID": "ses_a" })),
                event("file.edited", json!({ "file": "/x" })),
            ],
        )
        .await;
    assert_eq!(subject.reads.messages(&id("ses_a"), Page::default()).await.unwrap().len(), 1);
    let (none, message) = (id("ses_none"), id("msg_1"));
    assert!(subject.reads.session(&none).await.unwrap().is_none());
    assert!(subject.reads.messages(&none, Page::default()).await.unwrap().is_empty());
    assert!(subject.reads.message(&none, &message).await.unwrap().is_none());
    assert!(subject.reads.part(&none, &message, &id("prt_1")).await.unwrap().is_none());
    assert!(subject.reads.open(&none).await.unwrap().is_empty());
    assert!(subject.reads.last_answer(&none, None).await.unwrap().is_none());
    assert!(subject.reads.todos(&none).await.unwrap().is_empty());
    assert!(subject.reads.prompts(&none).await.unwrap().is_empty());
    assert_eq!(subject.everything().await.len(), 11);
}
