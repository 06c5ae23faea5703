//! The translation alone, on recorded messages of real agents.

use std::collections::{BTreeMap, BTreeSet};

use protocol::message::Finish;
use protocol::{AgentEvent, TurnEnd};
use serde_json::{Value, json};

use super::recordings::{self, Line};
use crate::acp::translate::{Activity, Translation, is_work, says};
use crate::acp::wire::{Answered, Notice, Update};

/// A translated turn of a recording.
struct Turn {
    events: Vec<AgentEvent>,
    end: Option<TurnEnd>,
}

/// The turns of a recording. Prompts that were sent while another was open are part of its turn.
fn turns(name: &str) -> Vec<Turn> {
    let mut turns: Vec<Turn> = Vec::new();
    let mut translation = Translation::default();
    let mut open = BTreeSet::new();
    for line in recordings::read(name) {
        match line {
            Line::In(message) if message["method"] == "session/prompt" => {
                if open.is_empty() {
                    translation = Translation::new(translation.cost());
                    turns.push(Turn { events: translation.begin(), end: None });
                }
                open.insert(message["id"].as_i64().unwrap());
            }
            Line::Out(message) if message["method"] == "session/update" => {
                let notice = Notice::read(message["params"].clone()).unwrap();
                if let Some(turn) = turns.last_mut().filter(|_| !open.is_empty()) {
                    turn.events.extend(translation.update(notice.update, 5));
                }
            }
            Line::Out(message) if open.remove(&message["id"].as_i64().unwrap_or(-1)) => {
                let Some(turn) = turns.last_mut().filter(|_| open.is_empty()) else { continue };
                if message.get("error").is_some() {
                    continue;
                }
                let answered = Answered::read(message["result"].clone()).unwrap();
                let (events, end) = translation.answered(&answered);
                turn.events.extend(events);
                turn.end = Some(end);
            }
            Line::In(_) | Line::Out(_) => {}
        }
    }
    turns
}

/// The texts of the text and reasoning parts, in order.
fn texts(events: &[AgentEvent]) -> Vec<String> {
    let mut texts: BTreeMap<&str, String> = BTreeMap::new();
    for event in events {
        if let AgentEvent::TextDelta { key, delta } | AgentEvent::ReasoningDelta { key, delta } = event {
            texts.entry(key).or_default().push_str(delta);
        }
    }
    texts.into_values().collect()
}

fn update(value: &Value) -> Update {
    Notice::read(json!({ "sessionId": "s", "update": value })).unwrap().update
}

fn chunk(text: &str) -> Update {
    update(&json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } }))
}

#[test]
fn every_part_and_step_of_a_recording_ends() {
    for name in recordings::names() {
        for turn in turns(&name) {
            let (mut steps, mut open, mut tools) = (0, BTreeSet::new(), BTreeMap::new());
            for event in &turn.events {
                match event {
                    AgentEvent::StepStarted { .. } => steps += 1,
                    AgentEvent::StepFinished { .. } => {
                        steps -= 1;
                        assert!(open.is_empty(), "{name}: {open:?} is open at the end of its step");
                    }
                    AgentEvent::TextStarted { key } | AgentEvent::ReasoningStarted { key } => {
                        assert!(open.insert(key.clone()), "{name}: {key} begins twice");
                    }
                    AgentEvent::TextEnded { key } | AgentEvent::ReasoningEnded { key, .. } => {
                        assert!(open.remove(key), "{name}: {key} ends twice");
                    }
                    AgentEvent::ToolPending { call, .. } | AgentEvent::ToolRunning { call, .. } => {
                        assert!(
                            tools.insert(call.clone(), true) != Some(false),
                            "{name}: {call} is opened again"
                        );
                    }
                    AgentEvent::ToolCompleted { call, .. } | AgentEvent::ToolFailed { call, .. } => {
                        assert_eq!(tools.insert(call.clone(), false), Some(true), "{name}: {call}");
                    }
                    _ => {}
                }
                assert!((0..=1).contains(&steps), "{name}: steps overlap");
            }
            assert_eq!(steps, i32::from(turn.end.is_none()), "{name}");
        }
    }
}

#[test]
fn three_model_calls_make_three_steps() {
    for name in ["opencode_read_edit", "claude_read_edit", "codex_read_edit"] {
        let turn = turns(name).remove(0);
        let reasons: Vec<Finish> = turn
            .events
            .iter()
            .filter_map(|event| match event {
                AgentEvent::StepFinished { reason, .. } => Some(*reason),
                _ => None,
            })
            .collect();
        assert_eq!(reasons, [Finish::ToolCalls, Finish::ToolCalls, Finish::Stop], "{name}");
        let said = [
            "I'll read the file first.",
            "Now I'll add the line.",
            "Done! I added a line at the end of README.md.",
        ];
        assert_eq!(texts(&turn.events), said, "{name}");
        assert_eq!(turn.end, Some(TurnEnd::Completed));
        let edited = turn.events.iter().find_map(|event| match event {
            AgentEvent::FileEdited { file } => Some(file.as_str()),
            _ => None,
        });
        assert_eq!(edited, Some("/project/README.md"), "{name}");
        let tools: Vec<(&str, Option<&str>)> = turn
            .events
            .iter()
            .filter_map(|event| match event {
                AgentEvent::ToolRunning { tool, input, .. } => {
                    Some((tool.as_str(), input.get("filePath").and_then(Value::as_str)))
                }
                _ => None,
            })
            .collect();
        assert!(tools.contains(&("read", Some("/project/README.md"))), "{name}: {tools:?}");
        assert!(tools.contains(&("edit", Some("/project/README.md"))), "{name}: {tools:?}");
    }
}

#[test]
fn an_error_before_a_successful_answer_fails_the_turn() {
    let turn = turns("codex_err400").remove(0);
    let Some(TurnEnd::Error(error)) = turn.end else { panic!("{:?}", turn.end) };
    assert_eq!(error.message(), "mock 400");
    // The error is not part of the answer.
    assert_eq!(texts(&turn.events), Vec::<String>::new());
}

#[test]
fn a_retry_ends_with_the_next_update() {
    let turn = turns("codex_retry").remove(0);
    let told: Vec<String> = turn
        .events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::Retrying { attempt, message, .. } => Some(format!("{attempt} {message}")),
            AgentEvent::Resumed => Some("resumed".to_owned()),
            AgentEvent::TextStarted { .. } => Some("text".to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(told, ["1 Reconnecting... 1/2", "2 Reconnecting... 2/2", "resumed", "text"]);
    assert_eq!(turn.end, Some(TurnEnd::Completed));
}

#[test]
fn token_usage_is_counted_once() {
    let turn = turns("claude_read_edit").remove(0);
    let used: Vec<(u64, u64, f64)> = turn
        .events
        .iter()
        .filter_map(|event| match event {
            AgentEvent::StepFinished { tokens, cost, .. } => Some((tokens.input, tokens.output, cost.0)),
            _ => None,
        })
        .collect();
    assert_eq!(used.iter().map(|(input, ..)| input).sum::<u64>(), 300);
    assert_eq!(used.iter().map(|(_, output, _)| output).sum::<u64>(), 60);
    assert!((used.iter().map(|(.., cost)| cost).sum::<f64>() - 0.003).abs() < 1e-9, "{used:?}");
}

#[test]
fn the_cost_of_a_turn_is_the_increase_of_the_total() {
    let usage = |amount: f64| {
        update(
            &json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2, "cost": { "amount": amount, "currency": "USD" } }),
        )
    };
    let cost = |before: f64, amounts: &[f64]| {
        let mut translation = Translation::new(before);
        translation.begin();
        for amount in amounts {
            translation.update(usage(*amount), 0);
        }
        let answered = Answered::read(json!({ "stopReason": "end_turn" })).unwrap();
        match translation.answered(&answered).0.pop() {
            Some(AgentEvent::StepFinished { cost, .. }) => cost.0,
            other => panic!("{other:?}"),
        }
    };
    assert!((cost(0.5, &[0.6, 0.75]) - 0.25).abs() < 1e-9);
    assert!((cost(0.5, &[]) - 0.0).abs() < 1e-9);
    // The agent was restarted and counts from zero again.
    assert!((cost(0.5, &[0.1, 0.3]) - 0.3).abs() < 1e-9);
}

#[test]
fn a_field_that_is_absent_has_not_changed() {
    let mut translation = Translation::default();
    translation.begin();
    let call = json!({
        "sessionUpdate": "tool_call", "toolCallId": "1", "title": "List", "kind": "execute", "status": "in_progress",
        "rawInput": { "command": ["ls", "-l"] },
    });
    translation.update(update(&call), 0);
    // A missing status is not `completed`.
    let events = translation.update(update(&json!({ "sessionUpdate": "tool_call_update", "toolCallId": "1", "rawInput": { "command": "ls -l ." } })), 0);
    let [AgentEvent::ToolRunning { tool, input, title, .. }] = events.as_slice() else {
        panic!("{events:?}")
    };
    assert_eq!((tool.as_str(), title.as_deref()), ("bash", Some("List")));
    assert_eq!(input["command"], "ls -l .");
    // An update without changes emits nothing.
    let same = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "in_progress" });
    assert_eq!(translation.update(update(&same), 0), []);
    let done = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "completed", "rawOutput": "a\nb" });
    let events = translation.update(update(&done), 0);
    let Some(AgentEvent::ToolCompleted { output, title, .. }) = events.last() else { panic!("{events:?}") };
    assert_eq!((output.as_str(), title.as_str()), ("a\nb", "List"));
    // Updates after the end of a call are ignored.
    let late = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "in_progress", "title": "x" });
    assert_eq!(translation.update(update(&late), 0), []);
    // An update about an unknown call belongs to an earlier turn.
    let stray = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "2", "status": "completed" });
    assert_eq!(translation.update(update(&stray), 0), []);
}

#[test]
fn plans_and_todo_tools_update_the_todos() {
    let plan = json!({ "sessionUpdate": "plan", "entries": [
        { "content": "look", "priority": "high", "status": "completed" }, { "content": "leap" },
    ] });
    let events = Translation::default().update(update(&plan), 0);
    let [AgentEvent::Todos(todos)] = events.as_slice() else { panic!("{events:?}") };
    let told: Vec<[&str; 3]> =
        todos.iter().map(|todo| [todo.content.as_str(), &todo.priority, &todo.status]).collect();
    assert_eq!(told, [["look", "high", "completed"], ["leap", "medium", "pending"]]);
    let turn = turns("opencode_plan").remove(0);
    let todos = turn.events.iter().find_map(|event| match event {
        AgentEvent::Todos(todos) => Some(todos.len()),
        _ => None,
    });
    assert_eq!(todos, Some(2));
}

#[test]
fn a_refusal_blocks_unless_the_agent_continues() {
    let refused = json!({ "sessionUpdate": "tool_call_update", "toolCallId": "1", "kind": "execute", "status": "failed" });
    let answered = Answered::read(json!({ "stopReason": "end_turn" })).unwrap();
    let mut translation = Translation::default();
    translation.begin();
    translation.refuse();
    translation.update(update(&refused), 0);
    assert_eq!(translation.answered(&answered).1, TurnEnd::Blocked);
    translation.begin();
    translation.refuse();
    translation.update(chunk("Then I will do something else."), 0);
    assert_eq!(translation.answered(&answered).1, TurnEnd::Completed);
}

#[test]
fn every_stop_reason_maps_to_an_end() {
    let end = |reason: &str| {
        let answered = Answered::read(json!({ "stopReason": reason })).unwrap();
        Translation::default().answered(&answered).1
    };
    assert_eq!(end("end_turn"), TurnEnd::Completed);
    assert_eq!(end("max_tokens"), TurnEnd::Completed);
    assert!(matches!(end("max_turn_requests"), TurnEnd::Budget { .. }));
    for unhappy in ["refusal", "cancelled", "bored"] {
        assert!(matches!(end(unhappy), TurnEnd::Error(_)), "{unhappy}");
    }
}

#[test]
fn work_is_distinguished_from_descriptions_of_the_agent() {
    let info = |kind: &str| {
        update(
            &json!({ "sessionUpdate": "session_info_update", "_meta": { "codex": { "threadStatus": { "type": kind } } } }),
        )
    };
    assert!(is_work(&chunk("x")) && !is_work(&chunk("")) && is_work(&info("active")));
    assert!(!is_work(&update(&json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2 }))));
    assert!(!is_work(&update(
        &json!({ "sessionUpdate": "available_commands_update", "availableCommands": [] })
    )));
    assert_eq!(
        (says(&info("idle")), says(&info("systemError"))),
        (Some(Activity::Idle), Some(Activity::Idle))
    );
    assert_eq!(says(&chunk("idle")), None);
    assert_eq!(
        says(&update(&json!({ "sessionUpdate": "state_update", "state": "idle" }))),
        Some(Activity::Idle)
    );
}
