//! The translation alone: notifications in, agent events out.

use protocol::{AgentEvent, Todo};
use serde_json::{Value, json};

use crate::codex::translate::{TokenTotals, Translation};
use crate::codex::wire;

/// Translates notifications about the thread `t`.
fn translate(told: &[(&str, Value)]) -> Vec<AgentEvent> {
    translate_with(&mut Translation::new("t", "/project", TokenTotals::fresh("t")), told)
}

fn translate_with(translation: &mut Translation, told: &[(&str, Value)]) -> Vec<AgentEvent> {
    let mut events = Vec::new();
    for (method, params) in told {
        let mut params = params.clone();
        params.as_object_mut().unwrap().entry("threadId").or_insert(json!("t"));
        let told = wire::notification(method, params).unwrap();
        if let wire::Notice::TurnCompleted(turn) = &told.notice
            && translation.is_own(&told)
        {
            events.extend(translation.end(turn));
        } else {
            events.extend(translation.translate(told, 7));
        }
    }
    events
}

fn delta(item: &str, delta: &str) -> (&'static str, Value) {
    ("item/agentMessage/delta", json!({ "itemId": item, "delta": delta }))
}

fn completed(item: &Value) -> (&'static str, Value) {
    ("item/completed", json!({ "item": item }))
}

fn started(item: &Value) -> (&'static str, Value) {
    ("item/started", json!({ "item": item }))
}

fn usage(total: u64) -> (&'static str, Value) {
    let count = json!({ "totalTokens": total, "inputTokens": total });
    ("thread/tokenUsage/updated", json!({ "tokenUsage": { "total": count, "last": count } }))
}

fn end(status: &str) -> (&'static str, Value) {
    ("turn/completed", json!({ "turn": { "id": "u", "status": status } }))
}

/// The events, one short line each.
fn kinds(events: &[AgentEvent]) -> Vec<String> {
    events
        .iter()
        .map(|event| match event {
            AgentEvent::TextDelta { delta, .. } => format!("text {delta:?}"),
            AgentEvent::ReasoningDelta { delta, .. } => format!("reasoning {delta:?}"),
            AgentEvent::ToolRunning { tool, .. } => format!("running {tool}"),
            AgentEvent::ToolCompleted { output, .. } => format!("completed {output:?}"),
            AgentEvent::ToolFailed { error, .. } => format!("failed {error:?}"),
            AgentEvent::StepFinished { reason, tokens, .. } => {
                format!("finished {reason:?} {}", tokens.input)
            }
            AgentEvent::Spent { tokens, .. } => format!("spent {}", tokens.input),
            AgentEvent::Retrying { attempt, message, .. } => format!("retrying {attempt} {message:?}"),
            other => {
                let name = format!("{other:?}");
                name.split([' ', '{', '(']).next().unwrap_or_default().to_owned()
            }
        })
        .collect()
}

#[test]
fn a_step_ends_where_its_tokens_are_counted() {
    let make = json!({ "type": "commandExecution", "id": "c", "command": "make", "status": "completed", "exitCode": 0, "aggregatedOutput": "made" });
    let events = translate(&[
        delta("m", "Let me "),
        completed(&json!({ "type": "agentMessage", "id": "m", "text": "Let me see." })),
        started(&make),
        completed(&make),
        usage(100),
        delta("n", "Done."),
        usage(250),
        end("completed"),
    ]);
    let expected = [
        "StepStarted",
        "TextStarted",
        "text \"Let me \"",
        "text \"see.\"",
        "TextEnded",
        "running bash",
        "completed \"made\"",
        "finished ToolCalls 100",
        "StepStarted",
        "TextStarted",
        "text \"Done.\"",
        "TextEnded",
        "finished Stop 150",
    ];
    assert_eq!(kinds(&events), expected);
}

#[test]
fn a_repeated_total_is_not_counted_again() {
    let events = translate(&[usage(100), usage(100), usage(130), end("completed")]);
    assert_eq!(kinds(&events), ["spent 100", "spent 30"]);
    // The earlier total of a resumed thread is unknown, so only the last call counts.
    let mut older = Translation::new("t", "/project", TokenTotals::older());
    let count = json!({ "total": { "totalTokens": 900, "inputTokens": 900 }, "last": { "totalTokens": 9, "inputTokens": 9 } });
    let told = ("thread/tokenUsage/updated", json!({ "tokenUsage": count }));
    assert_eq!(kinds(&translate_with(&mut older, &[told.clone(), told])), ["spent 9"]);
}

#[test]
fn an_interruption_leaves_nothing_open() {
    let events = translate(&[
        delta("m", "I will"),
        started(
            &json!({ "type": "commandExecution", "id": "c", "command": "sleep 60", "status": "inProgress" }),
        ),
        end("interrupted"),
    ]);
    let expected = [
        "StepStarted",
        "TextStarted",
        "text \"I will\"",
        "running bash",
        "failed \"Tool execution aborted\"",
        "TextEnded",
        "finished Stop 0",
    ];
    assert_eq!(kinds(&events), expected);
}

#[test]
fn a_prompt_that_joins_begins_a_new_message() {
    let events = translate(&[
        started(&json!({ "type": "userMessage", "id": "a" })),
        delta("m", "Slowly"),
        started(&json!({ "type": "userMessage", "id": "b" })),
        delta("m", " more of what was cut off"),
        delta("n", "Right away"),
        end("completed"),
    ]);
    let said: Vec<String> = kinds(&events).into_iter().filter(|kind| kind.starts_with("text")).collect();
    assert_eq!(said, ["text \"Slowly\"", "text \"Right away\""]);
    assert_eq!(kinds(&events).iter().filter(|kind| *kind == "StepStarted").count(), 2);
}

#[test]
fn notifications_about_other_threads_are_ignored() {
    let spawn = |status: &str| json!({ "type": "collabAgentToolCall", "id": "c", "tool": "spawnAgent", "prompt": "Look around", "receiverThreadIds": ["child"], "status": status });
    let child = |method, mut params: Value| {
        params["threadId"] = json!("child");
        (method, params)
    };
    let mut translation = Translation::new("t", "/project", TokenTotals::fresh("t"));
    let events = translate_with(
        &mut translation,
        &[
            started(&spawn("inProgress")),
            child("turn/started", json!({ "turn": { "id": "v" } })),
            child(
                "item/completed",
                json!({ "item": { "type": "agentMessage", "id": "m", "text": "I see" } }),
            ),
            child("thread/tokenUsage/updated", usage(40).1),
            child("turn/completed", json!({ "turn": { "id": "v", "status": "completed" } })),
            completed(&spawn("completed")),
            end("completed"),
        ],
    );
    assert_eq!(kinds(&events), ["StepStarted", "running task", "completed \"\"", "finished Stop 0"]);
    let task = translation.task("child").unwrap();
    assert_eq!((task.call.as_str(), task.prompt.as_str()), ("c", "Look around"));
    assert_eq!(translation.task("stranger"), None);
}

#[test]
fn a_retry_withdraws_the_text_of_the_failed_attempt() {
    let error = |message: &str| {
        let error = json!({ "message": message, "additionalDetails": "429 Too Many Requests" });
        ("error", json!({ "error": error, "willRetry": true }))
    };
    let events = translate(&[
        delta("m", "Half a sen"),
        error("Reconnecting... 2/5"),
        error("Something else"),
        delta("n", "A whole one."),
        end("completed"),
    ]);
    let expected = [
        "StepStarted",
        "TextStarted",
        "text \"Half a sen\"",
        "AttemptWithdrawn",
        "retrying 2 \"429 Too Many Requests\"",
        "retrying 3 \"429 Too Many Requests\"",
        "Resumed",
        "TextStarted",
        "text \"A whole one.\"",
        "TextEnded",
        "finished Stop 0",
    ];
    assert_eq!(kinds(&events), expected);
}

#[test]
fn a_failed_turn_leaves_its_step_to_the_error() {
    let error = json!({ "message": "no", "codexErrorInfo": "other" });
    let ended = ("turn/completed", json!({ "turn": { "id": "u", "status": "failed", "error": error } }));
    let events = translate(&[delta("m", "Well"), ended]);
    assert_eq!(kinds(&events), ["StepStarted", "TextStarted", "text \"Well\"", "TextEnded"]);
}

#[test]
fn a_plan_is_a_todo_list() {
    let plan = json!([{ "step": "look", "status": "completed" }, { "step": "act", "status": "inProgress" }, { "step": "rest", "status": "pending" }]);
    let events = translate(&[("turn/plan/updated", json!({ "plan": plan }))]);
    let [AgentEvent::Todos(todos)] = events.as_slice() else { panic!("{events:?}") };
    let shown: Vec<(&str, &str)> =
        todos.iter().map(|Todo { content, status, .. }| (content.as_str(), status.as_str())).collect();
    assert_eq!(shown, [("look", "completed"), ("act", "in_progress"), ("rest", "pending")]);
}

#[test]
fn every_kind_of_tool_has_a_name_that_clients_know() {
    let items = [
        (
            json!({ "type": "mcpToolCall", "id": "a", "server": "s", "tool": "look", "arguments": { "x": 1 }, "status": "completed", "result": { "content": [{ "type": "text", "text": "seen" }, { "type": "image" }] } }),
            "s_look",
            "completed \"seen\\n[image]\"",
        ),
        (
            json!({ "type": "mcpToolCall", "id": "a", "server": "s", "tool": "look", "status": "failed", "error": { "message": "blind" } }),
            "s_look",
            "failed \"blind\"",
        ),
        (json!({ "type": "webSearch", "id": "a", "query": "rust" }), "websearch", "completed \"\""),
        (json!({ "type": "imageView", "id": "a", "path": "/project/a.png" }), "read", "completed \"\""),
        (
            json!({ "type": "dynamicToolCall", "id": "a", "tool": "mine", "status": "completed", "contentItems": [{ "text": "x" }] }),
            "mine",
            "completed \"x\"",
        ),
        (
            json!({ "type": "commandExecution", "id": "a", "command": "false", "status": "failed", "exitCode": 1 }),
            "bash",
            "completed \"\"",
        ),
        (
            json!({ "type": "commandExecution", "id": "a", "command": "false", "status": "declined" }),
            "bash",
            "failed \"The user rejected permission to use this specific tool call.\"",
        ),
        (
            json!({ "type": "fileChange", "id": "a", "status": "completed", "changes": [{ "path": "/project/new", "kind": { "type": "add" }, "diff": "one\ntwo\n" }] }),
            "apply_patch",
            "completed \"Patch applied:\\nA new\"",
        ),
    ];
    for (item, name, outcome) in items {
        let kinds = kinds(&translate(&[completed(&item)]));
        assert!(kinds.contains(&format!("running {name}")), "{item}: {kinds:?}");
        assert_eq!(kinds.last().unwrap(), outcome, "{item}");
    }
}

#[test]
fn a_new_file_is_shown_as_a_diff() {
    let change = json!({ "path": "/project/new", "kind": { "type": "add" }, "diff": "one\ntwo\n" });
    let events = translate(&[started(
        &json!({ "type": "fileChange", "id": "a", "status": "inProgress", "changes": [change] }),
    )]);
    let Some(AgentEvent::ToolRunning { metadata: Some(metadata), .. }) = events.last() else {
        panic!("{events:?}")
    };
    assert_eq!(
        metadata["files"][0]["patch"],
        "--- /dev/null\n+++ /project/new\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    );
    assert_eq!(
        (&metadata["files"][0]["additions"], &metadata["files"][0]["deletions"]),
        (&json!(2), &json!(0))
    );
}

#[test]
fn unknown_kinds_are_ignored_and_wrong_types_are_errors() {
    assert_eq!(
        translate(&[("item/new/thing", json!({})), completed(&json!({ "type": "hologram", "id": "h" }))]),
        []
    );
    let error = wire::notification("turn/completed", json!({ "turn": 5 })).unwrap_err();
    assert!(error.starts_with("turn/completed cannot be decoded"), "{error}");
}

#[test]
fn command_output_is_emitted_each_time_it_doubles() {
    let output = |text: &str| ("item/commandExecution/outputDelta", json!({ "itemId": "c", "delta": text }));
    let mut told = vec![started(&json!({ "type": "commandExecution", "id": "c", "command": "yes" }))];
    told.extend((0..1_000).map(|_| output("y\n")));
    let shown = translate(&told).len();
    assert!((5..20).contains(&shown), "{shown}");
}
