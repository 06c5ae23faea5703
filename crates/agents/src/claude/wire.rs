//! The words of Claude Code: lines of JSON, both ways. Only what the translation uses has a name; the rest is let by.

use protocol::Extra;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

/// A line that it writes.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Line {
    /// Something about the session.
    System(System),
    /// A piece of a message while it is written.
    StreamEvent {
        event: Piece,
        #[serde(default)]
        parent_tool_use_id: Option<String>,
    },
    /// A whole block of a message.
    Assistant {
        message: Spoken,
        #[serde(default)]
        parent_tool_use_id: Option<String>,
        /// What went wrong, if it is no message of a model.
        #[serde(default)]
        error: Option<Value>,
    },
    /// Results of tools, or an echo of what it was told.
    User {
        message: Told,
        #[serde(default)]
        parent_tool_use_id: Option<String>,
        #[serde(default)]
        tool_use_result: Value,
    },
    /// A segment of the turn is over.
    Result(Segment),
    /// It asks something.
    ControlRequest { request_id: String, request: Wish },
    /// It answers something.
    ControlResponse { response: Answered },
    /// It does not want to know any more.
    ControlCancelRequest { request_id: String },
    /// Anything else.
    #[serde(other)]
    Unknown,
}

/// Something about the session.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(super) enum System {
    /// A turn begins.
    Init { session_id: String },
    /// What it does now.
    SessionStateChanged { state: State },
    /// It asks its model again.
    ApiRetry {
        attempt: u32,
        #[serde(default)]
        retry_delay_ms: f64,
        #[serde(default)]
        error_status: Option<u16>,
        #[serde(default)]
        error: Option<String>,
    },
    /// Work of its own began: a subagent, or a command in the background.
    TaskStarted {
        task_id: String,
        /// The call that it is done for.
        #[serde(default)]
        tool_use_id: Option<String>,
    },
    /// Such work has changed.
    TaskUpdated {
        task_id: String,
        #[serde(default)]
        patch: TaskPatch,
    },
    /// Such work is over.
    TaskNotification {
        task_id: String,
        #[serde(default = "completed")]
        status: String,
        #[serde(default)]
        summary: String,
    },
    /// Older messages were replaced by a summary.
    CompactBoundary,
    #[serde(other)]
    Unknown,
}

/// What is new about a task.
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

/// What it says it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum State {
    Running,
    Idle,
    RequiresAction,
    #[serde(other)]
    Unknown,
}

/// A piece of a message, as its model sends it.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Piece {
    MessageStart {
        message: Opening,
    },
    ContentBlockStart {
        index: u64,
        content_block: Block,
    },
    ContentBlockDelta {
        index: u64,
        delta: Growth,
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

/// Why a model stopped.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Stop {
    #[serde(default)]
    pub(super) stop_reason: Option<String>,
}

/// What is added to a block.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Growth {
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

/// Whole blocks of a message.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Spoken {
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

/// What the model was told. Bare words have no blocks.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Told {
    #[serde(default, deserialize_with = "blocks")]
    pub(super) content: Vec<Block>,
}

fn blocks<'de, D: Deserializer<'de>>(told: D) -> Result<Vec<Block>, D::Error> {
    let told = Value::deserialize(told)?;
    let blocks = told.as_array().into_iter().flatten();
    Ok(blocks.filter_map(|block| Block::deserialize(block).ok()).collect())
}

/// Tokens, of which the cached ones are not among the input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "these are the names on the wire")]
pub(super) struct Usage {
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
}

/// The end of a segment of a turn. Whether it went well is told by `is_error` alone.
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
}

impl Segment {
    /// Whether somebody has stopped it.
    pub(super) fn was_aborted(&self) -> bool {
        self.terminal_reason.as_deref().is_some_and(|reason| reason.starts_with("aborted"))
    }

    /// What it said about a segment that failed.
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

/// What it asks over the control protocol.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "subtype", rename_all = "snake_case")]
pub(super) enum Wish {
    CanUseTool(Permit),
    #[serde(other)]
    Unknown,
}

/// A tool call that it wants to be allowed.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Permit {
    pub(super) tool_name: String,
    #[serde(default)]
    pub(super) input: Extra,
    #[serde(default)]
    pub(super) tool_use_id: Option<String>,
    /// The subagent that wants it: its task.
    #[serde(default)]
    pub(super) agent_id: Option<String>,
}

/// An answer to a control request of ours.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Answered {
    pub(super) request_id: String,
    #[serde(default)]
    pub(super) subtype: String,
    #[serde(default)]
    pub(super) error: Option<String>,
}

/// A prompt.
pub(super) fn prompt(content: &[Value]) -> Value {
    json!({ "type": "user", "message": { "role": "user", "content": content } })
}

/// A request of ours.
pub(super) fn control(id: &str, request: &Value) -> Value {
    json!({ "type": "control_request", "request_id": id, "request": request })
}

/// An answer of ours.
pub(super) fn answer(id: &str, response: &Value) -> Value {
    json!({
        "type": "control_response",
        "response": { "subtype": "success", "request_id": id, "response": response },
    })
}

/// The answer to something that we know nothing about.
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
    fn what_is_new_or_strange_is_let_by() {
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
    fn what_lacks_what_it_needs_is_an_error() {
        for line in
            [json!({ "type": "assistant" }), json!({ "type": "system", "subtype": "init" }), json!([1])]
        {
            assert!(serde_json::from_value::<Line>(line).is_err());
        }
    }
}
