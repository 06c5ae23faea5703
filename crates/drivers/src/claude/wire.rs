//! The lines of JSON that Claude Code reads and writes. Only the fields that the translation uses are declared; all
//! others are ignored.

use protocol::Extra;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// A line that Claude Code writes.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    System(System),
    /// A streamed piece of a message.
    StreamEvent {
        event: StreamedPiece,
        #[serde(default)]
        parent_tool_use_id: Option<String>,
    },
    /// Complete blocks of a message.
    Assistant {
        message: CompleteMessage,
        #[serde(default)]
        parent_tool_use_id: Option<String>,
        /// Set if the message is an error and not an answer of the model.
        #[serde(default)]
        error: Option<Value>,
    },
    /// Results of tools, or an echo of a prompt.
    User {
        message: ResultContent,
        #[serde(default)]
        parent_tool_use_id: Option<String>,
        #[serde(default)]
        tool_use_result: Value,
        #[serde(default)]
        uuid: Option<String>,
        /// Set for the echo of a prompt.
        #[serde(default, rename = "isReplay")]
        is_replay: bool,
    },
    /// A segment of the turn has ended.
    Result(Segment),
    /// A request to Baton.
    ControlRequest {
        request_id: String,
        request: ControlBody,
    },
    /// An answer to a request of Baton.
    ControlResponse {
        response: Answered,
    },
    /// Claude Code withdraws a request.
    ControlCancelRequest {
        request_id: String,
    },
    #[serde(other)]
    Unknown,
}

/// A message about the session.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(super) enum System {
    /// Claude Code begins a turn.
    Init {
        session_id: String,
    },
    SessionStateChanged {
        state: State,
    },
    /// Claude Code retries a call of its model.
    ApiRetry {
        attempt: u32,
        #[serde(default)]
        retry_delay_ms: f64,
        #[serde(default)]
        error_status: Option<u16>,
        #[serde(default)]
        error: Option<String>,
    },
    /// A task has started: a subagent, or a command in the background.
    TaskStarted {
        task_id: String,
        /// The tool call that started the task.
        #[serde(default)]
        tool_use_id: Option<String>,
    },
    /// The state of a task has changed.
    TaskUpdated {
        task_id: String,
        #[serde(default)]
        patch: TaskPatch,
    },
    /// A task has ended, and Claude Code has told its model.
    TaskNotification {
        task_id: String,
        #[serde(default = "completed")]
        status: String,
    },
    /// Claude Code has replaced older messages with a summary.
    CompactBoundary,
    #[serde(other)]
    Unknown,
}

/// The changed fields of a task.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct TaskPatch {
    #[serde(default)]
    pub(super) status: Option<String>,
    #[serde(default)]
    pub(super) error: Option<String>,
}

fn completed() -> String {
    "completed".to_owned()
}

/// The state that Claude Code reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Running,
    Idle,
    RequiresAction,
    #[serde(other)]
    Unknown,
}

/// A streamed piece of a message, as the model sends it.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum StreamedPiece {
    MessageStart {
        message: Opening,
    },
    ContentBlockStart {
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u64,
        delta: BlockDelta,
    },
    ContentBlockStop {
        index: u64,
    },
    MessageDelta {
        #[serde(default)]
        delta: Stop,
        #[serde(default)]
        usage: Usage,
    },
    MessageStop,
    #[serde(other)]
    Unknown,
}

/// The beginning of a message.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Opening {
    pub(super) id: String,
    #[serde(default)]
    pub(super) usage: Usage,
}

/// The model's reason to stop.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Stop {
    #[serde(default)]
    pub(super) stop_reason: Option<String>,
}

/// A delta of a block.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum BlockDelta {
    TextDelta {
        text: String,
    },
    ThinkingDelta {
        thinking: String,
    },
    SignatureDelta {
        signature: String,
    },
    #[serde(other)]
    Unknown,
}

/// Complete blocks of a message.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct CompleteMessage {
    pub(super) id: String,
    #[serde(default)]
    pub(super) content: Vec<Block>,
    #[serde(default)]
    pub(super) usage: Usage,
    #[serde(default)]
    pub(super) stop_reason: Option<String>,
}

/// A block of a message.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Text {
        #[serde(default)]
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
        #[serde(default)]
        signature: Option<String>,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Extra,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(default)]
        content: Value,
        #[serde(default)]
        is_error: Option<bool>,
    },
    #[serde(other)]
    Unknown,
}

/// Content that the model receives. Plain text decodes as no blocks.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ResultContent {
    #[serde(default, deserialize_with = "blocks")]
    pub(super) content: Vec<Block>,
}

fn blocks<'de, D: Deserializer<'de>>(told: D) -> Result<Vec<Block>, D::Error> {
    let told = Value::deserialize(told)?;
    let blocks = told.as_array().into_iter().flatten();
    Ok(blocks.filter_map(|block| Block::deserialize(block).ok()).collect())
}

/// Token counts. `input_tokens` does not include cached tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "these are the names on the wire")]
pub(super) struct Usage {
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
}

/// The end of a segment of a turn. Only `is_error` distinguishes success from failure.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Segment {
    pub(super) is_error: bool,
    pub(super) subtype: Option<String>,
    pub(super) api_error_status: Option<u16>,
    pub(super) result: Option<String>,
    pub(super) errors: Vec<String>,
    pub(super) terminal_reason: Option<String>,
    pub(super) total_cost_usd: f64,
    pub(super) origin: SegmentOrigin,
}

/// The cause of a segment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct SegmentOrigin {
    pub(super) kind: Option<String>,
}

impl Segment {
    /// Returns true if the segment ended because of an interruption.
    pub(super) fn was_aborted(&self) -> bool {
        self.terminal_reason.as_deref().is_some_and(|reason| reason.starts_with("aborted"))
    }

    /// Returns true if the end of a background task caused the segment, and not a prompt.
    pub(super) fn was_unprompted(&self) -> bool {
        self.origin.kind.as_deref() == Some("task-notification")
    }

    /// The error text of a failed segment.
    pub(super) fn complaint(&self) -> String {
        let told = self.result.clone().filter(|text| !text.is_empty());
        let errors = (!self.errors.is_empty()).then(|| self.errors.join("; "));
        let named = self.subtype.clone().map(|subtype| format!("Claude Code failed ({subtype})."));
        let text = told.or(errors).or(named).unwrap_or_else(|| "Claude Code failed.".into());
        match self.api_error_status {
            Some(status) if !text.contains(&status.to_string()) => format!("{text} (status {status})"),
            _ => text,
        }
    }
}

/// A control request of Claude Code.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(super) enum ControlBody {
    CanUseTool(Permit),
    #[serde(other)]
    Unknown,
}

/// A tool call that needs permission.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Permit {
    pub(super) tool_name: String,
    #[serde(default)]
    pub(super) input: Extra,
    #[serde(default)]
    pub(super) tool_use_id: Option<String>,
    /// The task id of the subagent that asks.
    #[serde(default)]
    pub(super) agent_id: Option<String>,
}

/// An answer to a control request of Baton.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Answered {
    pub(super) request_id: String,
    #[serde(default)]
    pub(super) subtype: String,
    #[serde(default)]
    pub(super) error: Option<String>,
}

/// A prompt. Claude Code echoes its id when it takes up the prompt.
pub(super) fn prompt(id: &str, content: &[Value]) -> Value {
    json!({ "type": "user", "uuid": id, "message": { "role": "user", "content": content } })
}

/// A control request to Claude Code.
pub(super) fn control(id: &str, request: &Value) -> Value {
    json!({ "type": "control_request", "request_id": id, "request": request })
}

/// The successful answer to a control request.
pub(super) fn answer(id: &str, response: &Value) -> Value {
    json!({
        "type": "control_response",
        "response": { "subtype": "success", "request_id": id, "response": response },
    })
}

/// The answer to an unsupported control request.
pub(super) fn refusal(id: &str) -> Value {
    json!({
        "type": "control_response",
        "response": { "subtype": "error", "request_id": id, "error": "this client cannot do that" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_kinds_of_lines_are_ignored() {
        for line in [
            json!({ "type": "from_the_future", "x": 1 }),
            json!({ "type": "system", "subtype": "from_the_future" }),
            json!({ "type": "stream_event", "event": { "type": "from_the_future" } }),
            json!({ "type": "user", "message": { "content": "bare words" } }),
            json!({ "type": "user", "message": { "content": [{ "type": "from_the_future" }] } }),
            json!({ "type": "control_request", "request_id": "1", "request": { "subtype": "from_the_future" } }),
            json!({ "type": "result" }),
        ] {
            serde_json::from_value::<Line>(line.clone()).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    #[test]
    fn a_line_without_required_fields_is_an_error() {
        for line in
            [json!({ "type": "assistant" }), json!({ "type": "system", "subtype": "init" }), json!([1])]
        {
            assert!(serde_json::from_value::<Line>(line).is_err());
        }
    }
}
