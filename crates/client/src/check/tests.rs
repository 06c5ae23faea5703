//! Each rule on the smallest stream that breaks it.

use protocol::Event;
use serde_json::{Value, json};

use super::{Checker, End, Kind, Report, Severity};

/// A script of one-word events for a session; `a` unless another is named before a colon.
///
/// `create`, `create-under-a`, `busy`, `retry`, `idle` (the pair), `status-idle`, `session-idle`, `delete`, `user1`,
/// `prompt1` (a part of it), `open1` and `close1` (an assistant message), `text1`, `end1`, `delta1`, `tool1`,
/// `done1`, `task1`, `prune1`, `error`, `todo`, `ask`, `reply`, `updated`, `diff`, `queued`, `ended`. The number
/// names the message, and the part of it.
fn script(words: &str) -> Vec<Event> {
    words
        .split_whitespace()
        .flat_map(|word| {
            let (session, word) = word.split_once(':').unwrap_or(("a", word));
            event(&format!("ses_{session}"), word)
        })
        .collect()
}

fn event(session: &str, word: &str) -> Vec<Event> {
    let name = word.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let number = &word[name.len()..];
    let (message, part) = (format!("msg_{number}"), format!("prt_{number}"));
    let status = |status: Value| ("session.status", json!({ "status": status }));
    let said = |info: Value| ("message.updated", json!({ "info": info }));
    let info = |parent: Option<&str>| {
        let mut info = json!({
            "id": session, "slug": "s", "projectID": "p", "directory": "/", "title": "t", "version": "1",
            "time": { "created": 0, "updated": 0 },
        });
        if let Some(parent) = parent {
            info["parentID"] = format!("ses_{parent}").into();
        }
        json!({ "info": info })
    };
    let assistant = |time: Value| {
        said(json!({
            "id": message, "sessionID": session, "role": "assistant", "parentID": "msg_0", "time": time,
            "modelID": "m", "providerID": "p", "mode": "b", "agent": "b", "path": { "cwd": "/", "root": "/" },
            "cost": 0, "tokens": {},
        }))
    };
    let piece = |mut body: Value| {
        body["id"] = part.clone().into();
        body["sessionID"] = session.into();
        body["messageID"] = message.clone().into();
        ("message.part.updated", json!({ "part": body, "time": 0 }))
    };
    let text = |time: Value| piece(json!({ "type": "text", "text": "", "time": time }));
    let tool = |tool: &str, state: Value| {
        piece(json!({ "type": "tool", "callID": "c", "tool": tool, "state": state }))
    };
    let done = |time: Value| {
        tool(
            "read",
            json!({ "status": "completed", "input": {}, "output": "", "title": "", "metadata": {}, "time": time }),
        )
    };
    let (kind, mut properties) = match name {
        "create" => ("session.created", info(None)),
        "create-under-a" => ("session.created", info(Some("a"))),
        "delete" => ("session.deleted", info(None)),
        "updated" => ("session.updated", info(None)),
        "diff" => ("session.diff", json!({ "diff": [] })),
        "busy" => status(json!({ "type": "busy" })),
        "retry" => status(json!({ "type": "retry", "attempt": 1, "message": "m", "next": 0 })),
        "idle" => return [event(session, "status-idle"), event(session, "session-idle")].concat(),
        "status-idle" => status(json!({ "type": "idle", "reason": "completed" })),
        "interrupted" => return [event(session, "status-cut"), event(session, "session-idle")].concat(),
        "status-cut" => status(json!({ "type": "idle", "reason": "interrupted" })),
        "session-idle" => ("session.idle", json!({})),
        "user" => said(json!({
            "id": message, "sessionID": session, "role": "user", "time": { "created": 0 }, "agent": "b",
            "model": { "providerID": "p", "modelID": "m" },
        })),
        "prompt" => piece(json!({ "type": "text", "text": "hello" })),
        "open" => assistant(json!({ "created": 0 })),
        "close" => assistant(json!({ "created": 0, "completed": 1 })),
        "text" => text(json!({ "start": 0 })),
        "end" => text(json!({ "start": 0, "end": 1 })),
        "tool" => tool("read", json!({ "status": "running", "input": {}, "time": { "start": 0 } })),
        "task" => tool("task", json!({ "status": "running", "input": {}, "time": { "start": 0 } })),
        "done" => done(json!({ "start": 0, "end": 1 })),
        "prune" => done(json!({ "start": 0, "end": 1, "compacted": 2 })),
        "delta" => (
            "message.part.delta",
            json!({ "messageID": message, "partID": part, "field": "text", "delta": "x" }),
        ),
        "error" => {
            ("session.error", json!({ "error": { "name": "UnknownError", "data": { "message": "m" } } }))
        }
        "todo" => ("todo.updated", json!({ "todos": [] })),
        "ask" => {
            ("permission.asked", json!({ "id": "per_1", "permission": "bash", "patterns": [], "always": [] }))
        }
        "reply" => ("permission.replied", json!({ "requestID": "per_1", "reply": "reject" })),
        "queued" => ("prompt.queued", json!({ "messageID": message, "delivery": "queue" })),
        "ended" => ("prompt.ended", json!({ "messageID": message, "reason": "aborted" })),
        other => panic!("no such word: {other}"),
    };
    properties["sessionID"] = session.into();
    let event: Event =
        serde_json::from_value(json!({ "id": "evt_1", "type": kind, "properties": properties })).unwrap();
    assert!(event.body.session_id().is_some(), "{word} is not understood: {event:?}");
    vec![event]
}

fn run(words: &str, end: End) -> Report {
    let mut checker = Checker::new();
    for event in script(words) {
        checker.observe(None, &event);
    }
    checker.finish(end)
}

#[track_caller]
fn finds(words: &str, kinds: &[Kind]) {
    let report = run(words, End::Complete);
    let found: Vec<_> = report.violations().map(|finding| finding.kind).collect();
    assert_eq!(found, kinds, "{words}: {:#?}", report.findings);
}

#[track_caller]
fn warns(words: &str, kinds: &[Kind]) {
    finds(words, &[]);
    let report = run(words, End::Complete);
    let found: Vec<_> = report.findings.iter().map(|finding| finding.kind).collect();
    assert_eq!(found, kinds, "{words}: {:#?}", report.findings);
    assert!(report.findings.iter().all(|finding| finding.severity == Severity::Warning));
}

const TURN: &str = "create user1 prompt1 busy open2 text2 delta2 end2 close2 idle";

#[test]
fn a_clean_turn_passes() {
    warns(TURN, &[]);
    warns(
        &format!(
            "{TURN} updated diff user3 prompt3 updated busy retry busy open4 tool4 done4 close4 busy idle"
        ),
        &[],
    );
    warns("create user1 prompt1 queued1 busy open2 user3 prompt3 queued3 ended3 close2 idle", &[]);
}

#[test]
fn a_prompt_without_a_reply_opens_no_turn() {
    warns(&format!("{TURN} user3 prompt3 updated user4 prompt4 busy open5 close5 idle"), &[]);
}

#[test]
fn idle_twice_is_found_once_per_pair() {
    finds(&format!("{TURN} idle"), &[Kind::IdleTwice]);
    finds(&format!("{TURN} idle updated idle"), &[Kind::IdleTwice, Kind::IdleTwice]);
}

#[test]
fn idle_without_busy_is_found() {
    finds("create idle", &[Kind::IdleWithoutBusy]);
    warns("idle", &[Kind::IdleWithoutBusy]);
}

#[test]
fn half_an_idle_is_found() {
    finds("create busy status-idle updated", &[Kind::HalfIdle]);
    finds("create busy status-idle", &[Kind::HalfIdle]);
    finds("create busy idle session-idle", &[Kind::HalfIdle]);
}

#[test]
fn idle_before_the_message_is_closed_is_found() {
    finds("create busy open1 idle", &[Kind::IdleTooEarly]);
    finds("create busy open1 idle close1 idle", &[Kind::IdleTooEarly, Kind::OutsideTurn, Kind::IdleTwice]);
}

#[test]
fn open_parts_are_found_at_idle_and_at_the_end() {
    finds("create busy open1 tool1 close1 idle", &[Kind::IdleTooEarly, Kind::ToolNeverClosed]);
    finds("create busy open1 text1 close1 idle", &[Kind::IdleTooEarly, Kind::TextNeverClosed]);
    finds(
        "create busy open1 tool1 close1 idle busy done1 idle",
        &[Kind::IdleTooEarly, Kind::ClosedMessageChanged],
    );
}

#[test]
fn work_outside_a_turn_is_found() {
    for word in ["open9", "close2", "end9", "tool9 done9", "delta2", "error", "todo"] {
        let count = word.split(' ').count();
        finds(&format!("{TURN} {word}"), &vec![Kind::OutsideTurn; count]);
    }
    finds("create open1 busy close1 idle", &[Kind::OutsideTurn]);
    finds(&format!("{TURN} reply"), &[Kind::OutsideTurn]);
}

#[test]
fn a_prompt_that_changes_after_its_turn_is_only_a_warning() {
    warns(&format!("{TURN} user1"), &[Kind::LateEvent]);
    warns(&format!("{TURN} prompt1"), &[Kind::LateEvent]);
    warns(&format!("{TURN} user3 busy user1 idle"), &[Kind::LateEvent]);
}

#[test]
fn busy_at_the_end_is_found_only_if_it_is_the_end() {
    finds("create user1 busy", &[Kind::BusyNeverReleased]);
    finds("create busy retry", &[Kind::BusyNeverReleased]);
    assert!(run("create user1 busy open1 tool1", End::Cut).passed());
}

#[test]
fn deleting_a_busy_session_does_not_release_it() {
    finds("create busy delete", &[Kind::BusyNeverReleased]);
    finds("create busy idle delete", &[]);
    finds("create busy idle delete error", &[Kind::OutsideTurn]);
}

#[test]
fn a_child_s_idle_is_not_the_parent_s() {
    let started = "create busy open1 task1 b:create-under-a b:busy";
    finds(&format!("{started} b:idle done1 close1 idle"), &[]);
    finds(
        &format!("{started} idle b:idle"),
        &[Kind::IdleTooEarly, Kind::IdleBeforeChild, Kind::ToolNeverClosed],
    );
    finds(&format!("{started} done1 close1 idle b:idle"), &[Kind::IdleBeforeChild]);
}

#[test]
fn a_child_of_an_earlier_turn_may_work_on() {
    finds("create busy b:create-under-a b:busy b:idle idle b:busy busy idle b:idle", &[]);
}

#[test]
fn only_root_sessions_count_for_idle_pairs() {
    let report = run("create busy b:create-under-a b:busy b:idle idle", End::Complete);
    let pairs: Vec<_> = report.idle_pairs().into_iter().map(|(id, count)| (id.as_str(), count)).collect();
    assert_eq!(pairs, [("ses_a", 1)]);
    assert_eq!(report.sessions.len(), 2);
}

#[test]
fn deltas_need_an_open_part() {
    finds("create busy open1 delta1 close1 idle", &[Kind::StrayDelta]);
    finds("create busy open1 text1 end1 delta1 close1 idle", &[Kind::StrayDelta]);
}

#[test]
fn messages_of_earlier_turns_do_not_change() {
    finds(&format!("{TURN} busy close2 idle"), &[Kind::ClosedMessageChanged]);
    finds(&format!("{TURN} busy end2 idle"), &[Kind::ClosedMessageChanged]);
    finds("create busy open1 tool1 done1 close1 idle busy prune1 idle", &[]);
}

#[test]
fn a_request_must_be_settled_before_idle() {
    finds("create busy ask reply idle", &[]);
    finds("create busy ask idle", &[Kind::RequestLeftOpen]);
}

#[test]
fn a_request_may_outlive_a_turn_that_the_server_could_not_finish() {
    finds("create busy ask interrupted ask reply busy idle", &[]);
    finds("create busy interrupted ask", &[Kind::OutsideTurn]);
    finds("create busy ask interrupted reply reply", &[Kind::OutsideTurn]);
}

#[test]
fn a_stream_joined_in_the_middle_gets_the_benefit_of_the_doubt() {
    warns("delta1 end1 close1 busy idle", &[]);
    warns("reply close1 idle", &[]);
    finds("delta1 close1 idle busy delta9 idle", &[Kind::StrayDelta]);
    finds("updated busy open1 idle", &[Kind::IdleTooEarly]);
}

#[test]
fn a_known_event_in_an_odd_shape_is_mentioned() {
    let mut checker = Checker::new();
    let odd = json!({ "id": "evt_1", "type": "session.status", "properties": { "sessionID": "ses_a", "status": 7 } });
    checker.observe(None, &serde_json::from_value(odd).unwrap());
    let report = checker.finish(End::Complete);
    assert_eq!(
        report.findings[0].to_string(),
        "warning not-understood at event 1: ses_a sent session.status in a shape that clients do not understand"
    );
}

#[test]
fn findings_are_reported_as_they_happen() {
    let mut checker = Checker::new();
    let told: Vec<_> =
        script("create busy idle idle").iter().map(|event| checker.observe(Some(7), event).len()).collect();
    assert_eq!(told, [0, 0, 0, 0, 1, 0]);
    let report = checker.finish(End::Complete);
    let finding = &report.findings[0];
    assert_eq!((finding.position, finding.time), (5, Some(7)));
    assert_eq!(
        finding.to_string(),
        "violation idle-twice at event 5: ses_a went idle again without being busy in between"
    );
}
