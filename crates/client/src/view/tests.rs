//! The life of a session as a user sees it, event by event.

use proptest::prelude::*;
use protocol::Event;
use serde_json::{Value, json};

use super::*;

const PARENT: &str = "ses_parent";
const CHILD: &str = "ses_child";

fn event(kind: &str, properties: &Value) -> EventBody {
    let event: Event =
        serde_json::from_value(json!({ "id": "evt_1", "type": kind, "properties": properties })).unwrap();
    event.body
}

fn status(session: &str, status: &Value) -> EventBody {
    event("session.status", &json!({ "sessionID": session, "status": status }))
}

fn busy(session: &str) -> EventBody {
    status(session, &json!({ "type": "busy" }))
}

fn idle(session: &str) -> EventBody {
    status(session, &json!({ "type": "idle" }))
}

fn retry(attempt: u32) -> EventBody {
    status(PARENT, &json!({ "type": "retry", "attempt": attempt, "message": "overloaded", "next": 1_000 }))
}

fn session_idle(session: &str) -> EventBody {
    event("session.idle", &json!({ "sessionID": session }))
}

fn child_created() -> EventBody {
    session_created(CHILD, PARENT)
}

fn session_created(id: &str, parent: &str) -> EventBody {
    let info = json!({
        "id": id, "parentID": parent, "slug": "s", "projectID": "p", "directory": "/", "title": "t", "version": "1",
        "time": { "created": 1, "updated": 1 },
    });
    event("session.created", &json!({ "sessionID": id, "info": info }))
}

fn user(id: &str) -> EventBody {
    let info = json!({
        "id": id, "sessionID": PARENT, "role": "user", "time": { "created": 1 }, "agent": "build",
        "model": { "providerID": "demo", "modelID": "demo" },
    });
    event("message.updated", &json!({ "sessionID": PARENT, "info": info }))
}

fn step(session: &str, parent: &str, completed: bool, tokens: &Value) -> EventBody {
    let mut info = json!({
        "id": format!("{parent}_answer"), "sessionID": session, "role": "assistant", "parentID": parent,
        "time": { "created": 2 }, "modelID": "demo", "providerID": "demo", "mode": "build", "agent": "build",
        "path": { "cwd": "/", "root": "/" }, "cost": 0, "tokens": tokens,
    });
    if completed {
        info["time"]["completed"] = json!(3);
    }
    event("message.updated", &json!({ "sessionID": session, "info": info }))
}

fn counts() -> Value {
    json!({ "input": 100, "output": 50, "reasoning": 7, "cache": { "read": 3, "write": 4 } })
}

fn permission(id: &str, session: &str, root: Option<&str>) -> EventBody {
    let request = json!({
        "id": id, "sessionID": session, "rootID": root, "permission": "bash", "patterns": ["ls"], "metadata": {},
        "always": [],
    });
    event("permission.asked", &request)
}

fn question(id: &str, session: &str) -> EventBody {
    let question = json!({ "question": "Which?", "header": "Which", "options": [] });
    event("question.asked", &json!({ "id": id, "sessionID": session, "questions": [question] }))
}

fn view() -> SessionView {
    SessionView::new(PARENT.parse().unwrap())
}

fn streaming() -> SessionView {
    let mut view = view();
    assert_eq!(view.apply(&busy(PARENT)), Some(Change::Started));
    view
}

#[test]
fn busy_marks_the_session_as_working() {
    let mut view = view();
    assert!(!view.is_streaming());
    assert_eq!(view.apply(&busy(PARENT)), Some(Change::Started));
    assert!(view.is_streaming());
    assert_eq!(view.apply(&busy(PARENT)), None, "OpenCode says it several times a turn");
}

#[test]
fn idle_finishes_once() {
    let mut view = streaming();
    assert_eq!(view.apply(&idle(PARENT)), Some(Change::Finished { reason: None }));
    assert!(!view.is_streaming());
    assert_eq!(view.apply(&idle(PARENT)), None, "a second idle");
    assert_eq!(view.apply(&session_idle(PARENT)), None, "the old event after the new one");
}

#[test]
fn the_reason_is_kept_where_there_is_one() {
    let mut view = streaming();
    let aborted = status(PARENT, &json!({ "type": "idle", "reason": "aborted" }));
    assert_eq!(view.apply(&aborted), Some(Change::Finished { reason: Some(EndReason::Aborted) }));
    assert_eq!(*view.activity(), Activity::Idle { reason: Some(EndReason::Aborted) });
}

#[test]
fn retry_stays_working_and_shows_its_reason() {
    let mut view = streaming();
    assert_eq!(view.apply(&retry(1)), Some(Change::Retry));
    assert!(view.is_streaming());
    let waiting = Activity::Retrying { attempt: 1, message: "overloaded".into(), next: 1_000, action: None };
    assert_eq!(*view.activity(), waiting);
    assert_eq!(view.badge(), Badge::Retrying);
    assert_eq!(view.apply(&retry(1)), None, "nothing new");
    assert_eq!(view.apply(&retry(2)), Some(Change::Retry));
    assert_eq!(view.apply(&busy(PARENT)), Some(Change::Retry));
    assert_eq!(*view.activity(), Activity::Working);
    assert_eq!(view.apply(&idle(PARENT)), Some(Change::Finished { reason: None }));
}

#[test]
fn a_retry_keeps_the_action_that_the_server_offers() {
    let mut view = streaming();
    let action = json!({ "label": "Log in", "url": "https://example.org" });
    let offer = json!({ "type": "retry", "attempt": 1, "message": "x", "next": 1, "action": action });
    assert_eq!(view.apply(&status(PARENT, &offer)), Some(Change::Retry));
    let Activity::Retrying { action: Some(kept), .. } = view.activity() else { panic!("{view:?}") };
    assert_eq!(json!(kept), action);
}

#[test]
fn a_child_does_not_change_its_parent() {
    let mut view = streaming();
    for event in [
        child_created(),
        busy(CHILD),
        step(CHILD, "msg_c", true, &counts()),
        idle(CHILD),
        session_idle(CHILD),
    ] {
        assert_eq!(view.apply(&event), None, "{event:?}");
    }
    assert!(view.is_streaming());
    assert_eq!(view.tokens(), None);
}

#[test]
fn messages_yield_tokens_and_nothing_else() {
    let mut view = streaming();
    assert_eq!(view.apply(&step(PARENT, "msg_1", false, &counts())), None);
    assert_eq!(view.tokens(), None, "the step is not complete");
    assert_eq!(view.apply(&step(PARENT, "msg_1", true, &counts())), Some(Change::Tokens));
    assert!(view.is_streaming(), "a message that is complete is no end of a turn");
    let tokens = view.tokens().unwrap();
    let cache = (tokens.cache.read, tokens.cache.write);
    assert_eq!((tokens.input, tokens.output, tokens.reasoning, cache), (100, 50, 7, (3, 4)));
}

#[test]
fn tokens_of_another_spelling_are_understood() {
    let mut view = streaming();
    let odd = json!({ "input": 1, "output": 2, "reasoning": 0, "cache": 9 });
    assert_eq!(
        view.apply(&step(PARENT, "msg_1", true, &odd)),
        Some(Change::Tokens),
        "a shape that is not OpenCode's"
    );
    assert_eq!(view.tokens().unwrap().cache.read, 9);
    let flat = json!({ "inputTokens": 5, "outputTokens": 6, "cacheRead": 7 });
    assert_eq!(view.apply(&step(PARENT, "msg_1", true, &flat)), Some(Change::Tokens));
    let tokens = view.tokens().unwrap();
    assert_eq!((tokens.input, tokens.output, tokens.cache.read), (5, 6, 7));
}

#[test]
fn user_messages_are_not_part_of_the_answer() {
    let mut view = streaming();
    assert_eq!(view.apply(&user("msg_1")), None);
    assert_eq!(view.tokens(), None);
}

#[test]
fn a_repeated_prompt_is_not_queued_again() {
    let mut view = streaming();
    view.apply(&user("msg_1"));
    view.apply(&step(PARENT, "msg_1", false, &counts()));
    assert_eq!(view.apply(&user("msg_1")), None, "OpenCode repeats it with a summary of the changes");
    assert_eq!(view.queue_length(), 0);
    view.apply(&idle(PARENT));
    assert_eq!(view.apply(&user("msg_1")), None, "also when it is over");
    view.apply(&busy(PARENT));
    assert_eq!(view.apply(&user("msg_2")), None);
    assert_eq!(view.queue_length(), 0, "the one that begins does not wait for the one before");
}

#[test]
fn the_old_idle_ends_a_turn_without_an_idle_status() {
    let mut view = streaming();
    assert_eq!(view.apply(&session_idle(PARENT)), Some(Change::Finished { reason: None }));
    assert!(!view.is_streaming());
    assert_eq!(view.apply(&idle(PARENT)), None);
}

#[test]
fn the_whole_life_of_a_subagent() {
    let mut view = view();
    let mut finished = 0;
    let mut apply = |event: EventBody, is_streaming: bool| {
        finished += usize::from(matches!(view.apply(&event), Some(Change::Finished { .. })));
        assert_eq!(view.is_streaming(), is_streaming, "after {event:?}");
    };
    apply(busy(PARENT), true);
    apply(step(PARENT, "msg_1", true, &counts()), true);
    apply(child_created(), true);
    apply(busy(CHILD), true);
    apply(step(CHILD, "msg_c", true, &counts()), true);
    apply(idle(CHILD), true);
    apply(session_idle(CHILD), true);
    apply(busy(PARENT), true);
    apply(step(PARENT, "msg_1", true, &counts()), true);
    apply(idle(PARENT), false);
    apply(session_idle(PARENT), false);
    assert_eq!(finished, 1);
}

#[test]
fn several_children_come_and_go() {
    let mut view = streaming();
    for child in ["ses_a", "ses_b", "ses_c"] {
        view.apply(&session_created(child, PARENT));
        view.apply(&busy(child));
    }
    for child in ["ses_b", "ses_a", "ses_c"] {
        assert_eq!(view.apply(&idle(child)), None);
        assert!(view.is_streaming());
    }
    assert_eq!(view.apply(&idle(PARENT)), Some(Change::Finished { reason: None }));
}

#[test]
fn a_repeated_countdown_changes_nothing() {
    let mut view = streaming();
    let mut count_down = |until: i64| {
        let properties =
            json!({ "sessionID": PARENT, "episode": "msg_1", "n": 1, "open": 1, "until": until });
        view.apply(&event("continuation.countdown", &properties)).is_some()
    };
    assert_eq!([count_down(9), count_down(9), count_down(20)], [true, false, true]);
}

#[test]
fn a_continued_turn_reports_its_rounds_and_why_it_stopped() {
    let mut view = streaming();
    let said = [
        ("continuation.countdown", json!({ "episode": "msg_1", "n": 1, "limit": 10, "open": 1, "until": 9 })),
        (
            "continuation.started",
            json!({ "messageID": "msg_2", "source": "todo", "episode": "msg_1", "n": 1, "open": 2 }),
        ),
        ("continuation.stopped", json!({ "reason": "stagnant", "rounds": 3, "limit": 10, "open": 2 })),
    ];
    let changes = said.map(|(kind, mut properties)| {
        properties["sessionID"] = PARENT.into();
        view.apply(&event(kind, &properties)).unwrap()
    });
    let [Change::GoesOnSoon(soon), Change::GoesOn(on), Change::Leaves(stop)] = changes else {
        panic!("{changes:?}")
    };
    assert_eq!(soon.describe(), "1 todo is still open, continuing in a moment (round 1 of 10)");
    assert_eq!(
        on.describe(),
        "2 todos are still open, continuing (round 1)",
        "an older server sends no limit"
    );
    assert_eq!(
        stop.describe(),
        "stopped after round 3 of 10 with 2 todos open: no progress in the last rounds"
    );
    view.apply(&idle(PARENT));
    assert_eq!(view.left(), Some(&stop), "which is known after the end, too");
    view.apply(&busy(PARENT));
    assert_eq!(view.left(), None, "until the next turn");
}

#[test]
fn a_retry_in_the_middle_does_not_end_the_turn() {
    let mut view = streaming();
    for event in [step(PARENT, "msg_1", true, &counts()), retry(1), busy(PARENT), retry(1), busy(PARENT)] {
        assert!(!matches!(view.apply(&event), Some(Change::Finished { .. })));
        assert!(view.is_streaming());
    }
    assert_eq!(view.apply(&idle(PARENT)), Some(Change::Finished { reason: None }));
}

#[test]
fn an_open_request_takes_precedence_over_busy_and_idle() {
    let mut view = streaming();
    assert_eq!(view.badge(), Badge::Working);
    assert!(matches!(view.apply(&permission("per_1", PARENT, None)), Some(Change::Asked(_))));
    assert_eq!(view.apply(&permission("per_1", PARENT, None)), None, "repeated on a new connection");
    assert_eq!(view.badge(), Badge::Permission);
    view.apply(&question("que_1", PARENT));
    assert_eq!(view.badge(), Badge::Question);
    view.apply(&busy(PARENT));
    assert_eq!(view.badge(), Badge::Question);
    let replied = json!({ "sessionID": PARENT, "requestID": "que_1", "answers": [["x"]] });
    assert_eq!(
        view.apply(&event("question.replied", &replied)),
        Some(Change::Settled { id: "que_1".into() })
    );
    view.apply(&idle(PARENT));
    assert_eq!(view.badge(), Badge::Permission, "a request may outlive a turn");
}

#[test]
fn a_request_of_a_child_at_any_depth_is_shown() {
    let mut view = streaming();
    view.apply(&child_created());
    view.apply(&session_created("ses_grandchild", CHILD));
    assert!(matches!(view.apply(&permission("per_1", "ses_grandchild", None)), Some(Change::Asked(_))));
    let far = permission("per_2", "ses_unheard_of", Some(PARENT));
    assert!(matches!(view.apply(&far), Some(Change::Asked(_))), "the server says whose it is");
    assert_eq!(view.apply(&permission("per_3", "ses_stranger", None)), None);
    assert_eq!(view.requests().len(), 2);
}

#[test]
fn a_turn_that_ends_in_the_background_is_unread() {
    let mut view = streaming();
    view.apply(&idle(PARENT));
    assert!(view.is_unread());
    assert_eq!(view.badge(), Badge::Unread);
    view.set_open(true);
    assert_eq!(view.badge(), Badge::Idle);
    view.apply(&busy(PARENT));
    view.apply(&idle(PARENT));
    assert!(!view.is_unread(), "it was watched");
}

#[test]
fn prompts_that_wait_are_counted() {
    let mut view = view();
    view.apply(&user("msg_1"));
    view.apply(&busy(PARENT));
    assert_eq!(view.queue_length(), 0, "it is about to be answered");
    view.apply(&step(PARENT, "msg_1", false, &json!({})));
    assert_eq!(view.apply(&user("msg_2")), Some(Change::Queue));
    view.apply(&user("msg_3"));
    assert_eq!(view.apply(&user("msg_3")), None, "repeated");
    assert_eq!(view.queue_length(), 2);
    assert_eq!(
        view.apply(&step(PARENT, "msg_3", false, &json!({}))),
        Some(Change::Queue),
        "one answer for both"
    );
    assert_eq!(view.queue_length(), 0);
    view.apply(&user("msg_4"));
    view.apply(&idle(PARENT));
    assert_eq!(view.queue_length(), 0);
}

#[test]
fn after_a_gap_the_state_is_the_servers() {
    let mut view = streaming();
    view.apply(&permission("per_old", PARENT, None));
    let EventBody::QuestionAsked(asked) = question("que_new", PARENT) else { unreachable!() };
    let changes = view.resync(None, vec![Request::Question(asked.clone())]);
    let expected = [
        Change::Finished { reason: None },
        Change::Settled { id: "per_old".into() },
        Change::Asked(Request::Question(asked)),
    ];
    assert_eq!(changes, expected);
    assert_eq!(view.resync(None, view.requests().to_vec()), [], "nothing is said twice");
    assert_eq!(view.resync(Some(&SessionStatus::BUSY), Vec::new()).first(), Some(&Change::Started));
}

#[test]
fn an_aborted_turn_is_not_an_error() {
    let mut view = streaming();
    let error = |name: &str| {
        event(
            "session.error",
            &json!({ "sessionID": PARENT, "error": { "name": name, "data": { "message": "m" } } }),
        )
    };
    assert_eq!(view.apply(&error("MessageAbortedError")), None);
    assert!(matches!(view.apply(&error("UnknownError")), Some(Change::Failed(_))));
    assert!(view.is_streaming(), "an error is not an end");
}

proptest! {
    /// For any events, a turn finishes exactly as often as it begins, and never because of a child.
    #[test]
    fn every_start_has_one_end(picks in proptest::collection::vec(0..10_usize, 0..60)) {
        let events = [
            busy(PARENT), idle(PARENT), session_idle(PARENT), retry(1), busy(CHILD), idle(CHILD), session_idle(CHILD),
            step(PARENT, "msg_1", true, &counts()), user("msg_1"), permission("per_1", CHILD, Some(PARENT)),
        ];
        let mut view = view();
        let (mut begun, mut ended) = (0, 0);
        for pick in picks {
            let was_streaming = view.is_streaming();
            let change = view.apply(&events[pick]);
            begun += usize::from(!was_streaming && view.is_streaming());
            ended += usize::from(matches!(change, Some(Change::Finished { .. })));
            prop_assert_eq!(begun, ended + usize::from(view.is_streaming()));
        }
    }
}
