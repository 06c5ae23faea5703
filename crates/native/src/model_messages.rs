//! Converts a session's messages to the messages of a model request. Pure.

use std::borrow::Borrow;

use llm::{AssistantContent, ToolFile, ToolResult, UserContent};
use protocol::message::ModelRef;
use protocol::{AssistantMessage, Message, MessageError, MessageWithParts, Part, PartBody, ToolState};
use serde_json::Value;

use super::history::History;
use super::prepare;

/// Replaces the result of a tool that never finished.
const INTERRUPTED: &str = "[Tool execution was interrupted]";

/// Replaces an old tool result that was pruned.
const CLEARED: &str = "[Old tool result content cleared]";

/// Replaces the request for a summary; the summary follows as its answer.
const SUMMARISE: &str = "What did we do so far?";

/// Returns the conversation for a model: the summary of its beginning, then the rest.
pub(super) fn conversation(history: &History, model: &ModelRef) -> Vec<llm::Message> {
    let summary = history.summary.iter().flat_map(|it| [&it.request, &it.summary]);
    convert(summary.chain(&history.messages), model)
}

/// Converts messages to model messages.
///
/// Every prompt and step stays in the result, also an empty one: a model may derive its progress from the number of
/// steps since a prompt, and without the prompt it would start over in every step. Dialects leave out messages that
/// their provider does not accept.
pub(super) fn convert<'a, M: Borrow<MessageWithParts> + 'a>(
    messages: impl IntoIterator<Item = &'a M>,
    model: &ModelRef,
) -> Vec<llm::Message> {
    let mut converted = Vec::new();
    for MessageWithParts { info, parts, .. } in messages.into_iter().map(Borrow::borrow) {
        match info {
            Message::User(_) => converted.push(llm::Message::User(parts.iter().filter_map(user).collect())),
            Message::Assistant(message) if is_visible(message, parts) => {
                let same = message.provider_id == model.provider_id && message.model_id == model.model_id;
                converted.push(llm::Message::Assistant(
                    parts.iter().filter_map(|part| assistant(part, same)).collect(),
                ));
                let results: Vec<ToolResult> = parts.iter().filter_map(result).collect();
                if !results.is_empty() {
                    converted.push(llm::Message::Tool(results));
                }
            }
            Message::Assistant(_) => {}
        }
    }
    converted
}

/// Adds a reminder to the newest prompt, for this step only.
pub(super) fn remind(messages: &mut [llm::Message], reminder: &str) {
    let newest = messages.iter_mut().rev().find_map(|message| match message {
        llm::Message::User(content) => Some(content),
        _ => None,
    });
    if let Some(content) = newest {
        content.push(UserContent::Text(reminder.to_owned()));
    }
}

fn user(part: &Part) -> Option<UserContent> {
    match &part.body {
        PartBody::Text(text) if text.ignored != Some(true) && !text.text.is_empty() => {
            Some(UserContent::Text(text.text.clone()))
        }
        // A text part beside the file holds its contents.
        PartBody::File(file) if prepare::is_shown_as_text(&file.mime) => None,
        // A provider cannot read files of this machine.
        PartBody::File(file) if file.url.starts_with("file:") => Some(UserContent::Text(format!(
            "[{} is not attached]",
            file.filename.as_deref().unwrap_or(&file.url)
        ))),
        PartBody::File(file) => Some(UserContent::File {
            mime: file.mime.clone(),
            name: file.filename.clone(),
            url: file.url.clone(),
        }),
        PartBody::Compaction(_) => Some(UserContent::Text(SUMMARISE.to_owned())),
        PartBody::Subtask(task) => Some(UserContent::Text(format!(
            "The user asked the agent {} to: {}",
            task.agent, task.description
        ))),
        _ => None,
    }
}

/// Returns true if the model sees a step. A failed step is left out, unless it called a tool: the effects of a tool
/// remain whatever became of the step. An aborted step stays if it produced anything but reasoning.
fn is_visible(message: &AssistantMessage, parts: &[Part]) -> bool {
    let said =
        || parts.iter().any(|part| !matches!(part.body, PartBody::StepStart(_) | PartBody::Reasoning(_)));
    let did = || parts.iter().any(|part| matches!(&part.body, PartBody::Tool(_)));
    match &message.error {
        None => true,
        Some(MessageError::Aborted { .. }) => said(),
        Some(_) => did(),
    }
}

fn assistant(part: &Part, same_model: bool) -> Option<AssistantContent> {
    match &part.body {
        PartBody::Text(text) if !text.text.is_empty() => Some(AssistantContent::Text(text.text.clone())),
        PartBody::Reasoning(reasoning) if same_model => Some(AssistantContent::Reasoning {
            text: reasoning.text.clone(),
            metadata: reasoning.metadata.clone().map(Value::Object),
        }),
        // Another model cannot verify the signature of the reasoning, but can read its text.
        PartBody::Reasoning(reasoning) if !reasoning.text.is_empty() => {
            Some(AssistantContent::Text(reasoning.text.clone()))
        }
        PartBody::Tool(tool) => Some(AssistantContent::ToolCall {
            id: tool.call_id.clone(),
            name: tool.tool.clone(),
            input: Value::Object(tool.state.input().clone()),
        }),
        _ => None,
    }
}

fn result(part: &Part) -> Option<ToolResult> {
    let PartBody::Tool(tool) = &part.body else { return None };
    let (output, is_error) = match &tool.state {
        ToolState::Completed(state) if state.time.compacted.is_some() => (CLEARED, false),
        ToolState::Completed(state) => (state.output.as_str(), false),
        ToolState::Error(state) => (state.error.as_str(), true),
        ToolState::Pending(_) | ToolState::Running(_) => (INTERRUPTED, true),
    };
    let files = match &tool.state {
        ToolState::Completed(state) if state.time.compacted.is_none() => {
            state.attachments.iter().flatten().filter_map(attachment).collect()
        }
        _ => Vec::new(),
    };
    Some(ToolResult {
        id: tool.call_id.clone(),
        name: tool.tool.clone(),
        output: output.to_owned(),
        is_error,
        files,
    })
}

fn attachment(part: &Part) -> Option<ToolFile> {
    let PartBody::File(file) = &part.body else { return None };
    Some(ToolFile { mime: file.mime.clone(), name: file.filename.clone(), url: file.url.clone() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn message(info: Value, parts: Value) -> MessageWithParts {
        let Value::Array(parts) = parts else { panic!("parts are a list") };
        let with = |mut value: Value, more: Value| {
            value.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            value
        };
        let ids = json!({ "id": "prt_1", "sessionID": "ses_1", "messageID": "msg_1" });
        let parts: Vec<Value> = parts.into_iter().map(|part| with(part, ids.clone())).collect();
        let common =
            json!({ "id": "msg_1", "sessionID": "ses_1", "time": { "created": 1 }, "agent": "build" });
        serde_json::from_value(json!({ "info": with(info, common), "parts": parts })).unwrap()
    }

    fn prompt(parts: Value) -> MessageWithParts {
        message(json!({ "role": "user", "model": { "providerID": "demo", "modelID": "simple" } }), parts)
    }

    fn step(model: &str, error: Option<Value>, parts: Value) -> MessageWithParts {
        let info = json!({
            "role": "assistant", "parentID": "msg_0", "mode": "build", "providerID": "demo", "modelID": model,
            "path": { "cwd": "/", "root": "/" }, "cost": 0,
            "tokens": { "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } },
        });
        let mut message = message(info, parts);
        if let Message::Assistant(info) = &mut message.info {
            info.error = error.map(|error| serde_json::from_value(error).unwrap());
        }
        message
    }

    fn converted(history: &[MessageWithParts]) -> String {
        format!("{:#?}", super::convert(history, &ModelRef::new("demo", "simple")))
    }

    #[test]
    fn a_turn_with_tools_is_converted_whole() {
        let time = json!({ "start": 1, "end": 2 });
        let history = [
            prompt(json!([
                { "type": "text", "text": "look at this" },
                { "type": "text", "text": "not for the model", "ignored": true },
                { "type": "file", "mime": "text/plain", "url": "file:///a" },
                { "type": "file", "mime": "image/png", "url": "data:image/png;base64,AA", "filename": "a.png" },
            ])),
            step(
                "simple",
                None,
                json!([
                    { "type": "step-start" },
                    { "type": "reasoning", "text": "hm", "time": time, "metadata": { "signature": "s" } },
                    { "type": "text", "text": "I'll look.", "time": time },
                    { "type": "tool", "callID": "c1", "tool": "read", "state": {
                        "status": "completed", "input": { "filePath": "a" }, "output": "text", "title": "a",
                        "metadata": {}, "time": time, "attachments": [{ "type": "file", "id": "prt_2",
                        "sessionID": "ses_1", "messageID": "msg_1", "mime": "image/png", "url": "data:," }] } },
                    { "type": "tool", "callID": "c2", "tool": "read", "state": {
                        "status": "error", "input": { "filePath": "b" }, "error": "no such file", "time": time } },
                    { "type": "tool", "callID": "c3", "tool": "bash", "state": {
                        "status": "running", "input": { "command": "x" }, "time": { "start": 1 } } },
                    { "type": "tool", "callID": "c4", "tool": "read", "state": {
                        "status": "completed", "input": {}, "output": "long ago", "title": "", "metadata": {},
                        "time": { "start": 1, "end": 2, "compacted": 3 } } },
                ]),
            ),
            step("simple", None, json!([{ "type": "step-start" }])),
        ];
        insta::assert_snapshot!(converted(&history));
    }

    #[test]
    fn failed_steps_are_left_out_and_aborted_ones_only_if_they_are_empty() {
        let aborted = json!({ "name": "MessageAbortedError", "data": { "message": "Aborted" } });
        let failed = json!({ "name": "UnknownError", "data": { "message": "x" } });
        let words = json!([{ "type": "text", "text": "half a sen", "time": { "start": 1 } }]);
        let thoughts =
            json!([{ "type": "step-start" }, { "type": "reasoning", "text": "hm", "time": { "start": 1 } }]);
        let tool = json!([{ "type": "tool", "callID": "c", "tool": "bash", "state": {
            "status": "error", "input": {}, "error": "Tool execution aborted", "time": { "start": 1, "end": 2 } } }]);
        assert!(converted(&[step("simple", Some(failed.clone()), tool)]).contains("Tool execution aborted"));
        assert_eq!(converted(&[step("simple", Some(failed), words.clone())]), "[]");
        assert_eq!(converted(&[step("simple", Some(aborted.clone()), thoughts)]), "[]");
        assert!(converted(&[step("simple", Some(aborted), words)]).contains("half a sen"));
    }

    #[test]
    fn another_models_reasoning_becomes_text() {
        let thoughts =
            json!([{ "type": "reasoning", "text": "hm", "time": { "start": 1 }, "metadata": { "s": 1 } }]);
        let converted = converted(&[step("other", None, thoughts)]);
        assert!(converted.contains("Text(") && !converted.contains("Reasoning"), "{converted}");
    }

    #[test]
    fn a_reminder_goes_with_the_newest_prompt() {
        let say = |text: &str| llm::Message::User(vec![UserContent::Text(text.to_owned())]);
        let mut messages = [say("one"), say("two"), llm::Message::Assistant(Vec::new())];
        remind(&mut messages, "mind");
        let both = vec![UserContent::Text("two".into()), UserContent::Text("mind".into())];
        assert_eq!(messages[1], llm::Message::User(both));
        remind(&mut [], "unused");
    }
}
