//! The part of the Agent Client Protocol, version 1, that is used here, as it is read.
//!
//! Agents differ in what they fill in, and in how well. So only what nothing can be done without is required; a field
//! that cannot be understood counts as absent, and what is not known at all is [`Update::Other`] and its like. The
//! official schema crate says the same things in 21 thousand lines and four more dependencies.

use serde::de::{Deserializer, IgnoredAny};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

/// The version of the protocol.
pub(super) const VERSION: u64 = 1;

/// What an agent answers to `initialize`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Greeting {
    pub(super) protocol_version: u64,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) agent_capabilities: Capabilities,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) auth_methods: Vec<AuthMethod>,
}

/// What an agent can do.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Capabilities {
    #[serde(deserialize_with = "lenient")]
    pub(super) load_session: bool,
    #[serde(deserialize_with = "lenient")]
    pub(super) prompt_capabilities: PromptCapabilities,
    #[serde(deserialize_with = "lenient")]
    pub(super) mcp_capabilities: McpCapabilities,
    #[serde(deserialize_with = "lenient")]
    pub(super) session_capabilities: SessionCapabilities,
}

/// What may be in a prompt besides text and links.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PromptCapabilities {
    #[serde(deserialize_with = "lenient")]
    pub(super) image: bool,
    #[serde(deserialize_with = "lenient")]
    pub(super) audio: bool,
    #[serde(deserialize_with = "lenient")]
    pub(super) embedded_context: bool,
}

/// How MCP servers may be reached, besides being started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct McpCapabilities {
    #[serde(deserialize_with = "lenient")]
    pub(super) http: bool,
}

/// What can be done with sessions. A capability is an object that is there.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct SessionCapabilities {
    pub(super) resume: Option<Value>,
}

/// A way to log in.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct AuthMethod {
    #[serde(deserialize_with = "lenient")]
    pub(super) name: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) description: String,
}

/// What an agent answers to `session/new`, and for the most part to `session/load` and `session/resume`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Opened {
    #[serde(deserialize_with = "lenient")]
    pub(super) session_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) config_options: Vec<ConfigOption>,
    #[serde(deserialize_with = "lenient")]
    pub(super) models: Models,
    #[serde(deserialize_with = "lenient")]
    pub(super) modes: Modes,
}

/// The models an agent offers, in the older way.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Models {
    #[serde(deserialize_with = "lenient")]
    pub(super) available_models: Vec<ModelInfo>,
    #[serde(deserialize_with = "lenient")]
    pub(super) current_model_id: Option<String>,
}

/// A model.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModelInfo {
    pub(super) model_id: String,
}

/// The modes an agent can work in.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Modes {
    #[serde(deserialize_with = "lenient")]
    pub(super) available_modes: Vec<Mode>,
    #[serde(deserialize_with = "lenient")]
    pub(super) current_mode_id: Option<String>,
}

/// A mode.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct Mode {
    pub(super) id: String,
}

/// Something about a session that can be chosen.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ConfigOption {
    pub(super) id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) category: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) current_value: Option<String>,
    /// Values, or groups of them.
    #[serde(default, deserialize_with = "lenient")]
    pub(super) options: Vec<ConfigValue>,
}

/// A value that can be chosen, or a group of them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(super) struct ConfigValue {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) value: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) options: Vec<ConfigValue>,
}

impl ConfigOption {
    /// Whether a value is among those that can be chosen.
    pub(super) fn offers(&self, wanted: &str) -> bool {
        let is = |value: &ConfigValue| value.value.as_deref() == Some(wanted);
        self.options.iter().any(|value| is(value) || value.options.iter().any(is))
    }
}

/// The parameters of `session/update`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Notice {
    pub(super) session_id: String,
    pub(super) update: Update,
}

/// Something that happened in a session.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "sessionUpdate", rename_all = "snake_case")]
pub(super) enum Update {
    AgentMessageChunk(Chunk),
    AgentThoughtChunk(Chunk),
    ToolCall(ToolCall),
    ToolCallUpdate(ToolCall),
    Plan(Plan),
    UsageUpdate(UsageUpdate),
    SessionInfoUpdate(SessionInfo),
    /// A draft of version 2, which tells when an agent works.
    StateUpdate(StateUpdate),
    /// Nothing that is shown.
    #[serde(other)]
    Other,
}

/// Words.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Chunk {
    pub(super) content: Block,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) message_id: Option<String>,
}

/// A piece of content.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Text {
        text: String,
    },
    Image {
        data: String,
        #[serde(rename = "mimeType")]
        mime: String,
    },
    ResourceLink {
        uri: String,
        #[serde(default)]
        name: String,
    },
    Resource {
        resource: Resource,
    },
    #[serde(other)]
    Other,
}

/// A piece of content that is a file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Resource {
    pub(super) uri: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) text: Option<String>,
}

/// A tool call, or what has become of it: a field that is absent has not changed.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ToolCall {
    pub(super) tool_call_id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) name: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) title: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) kind: Option<Kind>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) status: Option<Status>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) raw_input: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) raw_output: Option<Value>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) content: Option<Vec<Content>>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) locations: Option<Vec<Location>>,
    #[serde(default, rename = "_meta", deserialize_with = "lenient")]
    pub(super) meta: Value,
}

/// What sort of thing a tool does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Read,
    Edit,
    Delete,
    Move,
    Search,
    Execute,
    Think,
    Fetch,
    #[serde(other)]
    Other,
}

/// How far a tool call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Pending,
    InProgress,
    Completed,
    Failed,
}

/// What a tool has to show.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Content {
    Content {
        content: Block,
    },
    #[serde(rename_all = "camelCase")]
    Diff {
        path: String,
        #[serde(default)]
        old_text: Option<String>,
        new_text: String,
    },
    #[serde(rename_all = "camelCase")]
    Terminal {
        terminal_id: String,
    },
    #[serde(other)]
    Other,
}

/// A file that a tool has to do with.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Location {
    pub(super) path: String,
}

/// What is left to do. Each plan replaces the one before.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Plan {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) entries: Vec<PlanEntry>,
}

/// An entry of a plan.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct PlanEntry {
    pub(super) content: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) priority: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) status: Option<String>,
}

/// What the session has cost so far.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct UsageUpdate {
    #[serde(deserialize_with = "lenient")]
    pub(super) cost: Option<Cost>,
}

/// An amount of money.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(super) struct Cost {
    pub(super) amount: f64,
    pub(super) currency: String,
}

/// Something about the session as a whole.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct SessionInfo {
    #[serde(deserialize_with = "lenient")]
    pub(super) title: Option<String>,
    #[serde(rename = "_meta", deserialize_with = "lenient")]
    pub(super) meta: Value,
}

/// Whether the agent works.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct StateUpdate {
    #[serde(deserialize_with = "lenient")]
    pub(super) state: String,
}

/// How a prompt was answered.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answered {
    pub(super) stop_reason: StopReason,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) usage: Option<Usage>,
}

/// Why an agent stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StopReason {
    EndTurn,
    MaxTokens,
    MaxTurnRequests,
    Refusal,
    Cancelled,
    #[serde(other)]
    Other,
}

/// What answering a prompt took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Usage {
    #[serde(deserialize_with = "lenient")]
    pub(super) total_tokens: Option<u64>,
    #[serde(deserialize_with = "lenient")]
    pub(super) input_tokens: u64,
    #[serde(deserialize_with = "lenient")]
    pub(super) output_tokens: u64,
    #[serde(deserialize_with = "lenient")]
    pub(super) thought_tokens: u64,
    #[serde(deserialize_with = "lenient")]
    pub(super) cached_read_tokens: u64,
    #[serde(deserialize_with = "lenient")]
    pub(super) cached_write_tokens: u64,
}

/// The parameters of `session/request_permission`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionRequest {
    pub(super) tool_call: ToolCall,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) options: Vec<PermissionOption>,
}

/// An answer that a permission request offers.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PermissionOption {
    pub(super) option_id: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) kind: OptionKind,
}

/// What an answer means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum OptionKind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
    #[default]
    #[serde(other)]
    Other,
}

/// The parameters of `elicitation/create`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Elicitation {
    #[serde(default, deserialize_with = "lenient")]
    pub(super) mode: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) message: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) tool_call_id: Option<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) requested_schema: Value,
}

/// The parameters of `fs/read_text_file`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct ReadTextFile {
    pub(super) path: String,
    #[serde(default)]
    pub(super) line: Option<usize>,
    #[serde(default)]
    pub(super) limit: Option<usize>,
}

/// The parameters of `fs/write_text_file`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct WriteTextFile {
    pub(super) path: String,
    pub(super) content: String,
}

/// The parameters of `terminal/create`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CreateTerminal {
    pub(super) command: String,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) args: Vec<String>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) env: Vec<Variable>,
    #[serde(default)]
    pub(super) cwd: Option<String>,
    #[serde(default)]
    pub(super) output_byte_limit: Option<usize>,
}

/// An environment variable.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) value: String,
}

/// The parameters of the calls about one terminal.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OfTerminal {
    pub(super) terminal_id: String,
}

/// A field that cannot be understood counts as absent.
fn lenient<'de, D: Deserializer<'de>, T: Default + DeserializeOwned>(input: D) -> Result<T, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Maybe<T> {
        Well(T),
        Ill(IgnoredAny),
    }
    Ok(match Maybe::deserialize(input)? {
        Maybe::Well(value) => value,
        Maybe::Ill(_) => T::default(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn what_is_not_understood_counts_as_absent() {
        let update = json!({
            "sessionUpdate": "tool_call_update", "toolCallId": "1", "status": "paused", "kind": "dance", "title": 7,
            "content": [{ "type": "hologram" }], "locations": "everywhere",
        });
        let Update::ToolCallUpdate(call) = from_value(update).unwrap() else { panic!("not an update") };
        assert_eq!((call.status, call.kind, call.title), (None, Some(Kind::Other), None));
        assert_eq!((call.content, call.locations), (Some(vec![Content::Other]), None));
        let update: Update = from_value(json!({ "sessionUpdate": "confetti", "amount": 3 })).unwrap();
        assert_eq!(update, Update::Other);
        let greeting: Greeting = from_value(json!({ "protocolVersion": 1, "agentCapabilities": 5 })).unwrap();
        assert_eq!(greeting.agent_capabilities, Capabilities::default());
    }

    #[test]
    fn what_nothing_can_be_done_without_is_required() {
        assert!(from_value::<Update>(json!({ "sessionUpdate": "tool_call", "title": "no id" })).is_err());
        assert!(from_value::<Answered>(json!({ "usage": null })).is_err());
        assert!(from_value::<Greeting>(json!({})).is_err());
    }
}
