//! The messages of `codex app-server` that Baton uses.
//!
//! Decoding is lenient, because Codex extends its protocol with every release and a turn must not end because of that:
//! a missing field gets a default, an unknown kind is [`Notice::Other`] or [`Body::Other`], and only a field of the
//! wrong type is an error.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::jsonrpc::Id;

/// Codex's name for the tool that starts a subagent.
const SPAWN: &str = "spawnAgent";

/// A notification of Codex.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CodexNotification {
    /// The thread that it is about. None if it is about the whole process.
    pub(super) thread: Option<String>,
    pub(super) turn: Option<String>,
    pub(super) notice: Notice,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Notice {
    TurnStarted,
    TurnCompleted(Turn),
    ItemStarted(Item),
    ItemCompleted(Item),
    /// A delta of a message or a plan.
    TextDelta {
        item: String,
        delta: String,
    },
    ReasoningDelta {
        item: String,
        delta: String,
    },
    /// A new paragraph of reasoning begins.
    ReasoningPart {
        item: String,
        index: u64,
    },
    OutputDelta {
        item: String,
        delta: String,
    },
    PatchUpdated {
        item: String,
        changes: Vec<Change>,
    },
    PlanUpdated(Vec<PlanStep>),
    DiffUpdated(String),
    Usage(Usage),
    Status(Status),
    Error {
        error: ReportedError,
        will_retry: bool,
    },
    /// A request of Codex is settled, by an answer or by Codex itself.
    Resolved(Id),
    Compacted,
    /// The goal of the thread has changed. While it is active, Codex begins one turn after the other by itself.
    Goal {
        active: bool,
    },
    Named(Option<String>),
    Warning(String),
    Closed,
    Other,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
pub(super) struct Turn {
    pub(super) id: String,
    #[serde(default)]
    pub(super) status: TurnStatus,
    #[serde(default)]
    pub(super) error: Option<ReportedError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum TurnStatus {
    Completed,
    Interrupted,
    Failed,
    #[default]
    InProgress,
    #[serde(other)]
    Other,
}

/// An error that Codex reports.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ReportedError {
    pub(super) message: String,
    pub(super) additional_details: Option<String>,
    /// The kind as a string, or as an object whose only key is the kind.
    pub(super) codex_error_info: Option<Value>,
}

impl ReportedError {
    /// The kind of the error.
    pub(super) fn kind(&self) -> Option<&str> {
        match self.codex_error_info.as_ref()? {
            Value::String(kind) => Some(kind),
            Value::Object(kind) => kind.keys().next().map(String::as_str),
            _ => None,
        }
    }

    /// The HTTP status of the provider's answer.
    pub(super) fn status(&self) -> Option<u16> {
        let details = self.codex_error_info.as_ref()?.as_object()?.values().next()?;
        details.get("httpStatusCode")?.as_u64()?.try_into().ok()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Status {
    Active,
    Idle,
    SystemError,
    Other,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Usage {
    pub(super) total: Count,
    pub(super) last: Count,
}

/// Token counts. The input includes cached tokens, and the output includes reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Count {
    #[serde(rename = "totalTokens")]
    pub(super) total: u64,
    #[serde(rename = "inputTokens")]
    pub(super) input: u64,
    #[serde(rename = "cachedInputTokens")]
    pub(super) read: u64,
    #[serde(rename = "cacheWriteInputTokens")]
    pub(super) written: u64,
    #[serde(rename = "outputTokens")]
    pub(super) output: u64,
    #[serde(rename = "reasoningOutputTokens")]
    pub(super) reasoning: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct PlanStep {
    pub(super) step: String,
    pub(super) status: String,
}

/// One item of a turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Item {
    pub(super) id: String,
    pub(super) body: Body,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Body {
    User,
    /// A message, or a plan that is proposed as text.
    Text(Text),
    Reasoning(Reasoning),
    Command(Command),
    Change(FileChange),
    Tool(ToolCall),
    Search(Search),
    Image(Image),
    Agents(Agents),
    Compaction,
    Other(String),
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Text {
    pub(super) text: String,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Reasoning {
    pub(super) summary: Vec<String>,
    pub(super) content: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Command {
    #[serde(rename = "command")]
    pub(super) line: String,
    pub(super) cwd: Option<String>,
    #[serde(rename = "commandActions")]
    pub(super) actions: Vec<Action>,
    pub(super) aggregated_output: Option<String>,
    pub(super) exit_code: Option<i64>,
    pub(super) status: Progress,
}

/// Codex's classification of a part of a command line.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Action {
    pub(super) command: String,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct FileChange {
    pub(super) changes: Vec<Change>,
    pub(super) status: Progress,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Change {
    pub(super) path: String,
    pub(super) kind: ChangeKind,
    pub(super) diff: String,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct ChangeKind {
    #[serde(rename = "type")]
    pub(super) name: String,
    pub(super) move_path: Option<String>,
}

/// A call of a tool of an MCP server, or of a tool that a client has given to Codex.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ToolCall {
    pub(super) server: Option<String>,
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) status: Progress,
    pub(super) result: Option<ToolResult>,
    pub(super) content_items: Option<Vec<Value>>,
    pub(super) error: Option<ReportedError>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct ToolResult {
    pub(super) content: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Search {
    pub(super) query: String,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub(super) struct Image {
    pub(super) path: String,
}

/// A call that starts, prompts or awaits subagents, each of which has its own thread.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Agents {
    pub(super) tool: String,
    pub(super) prompt: Option<String>,
    pub(super) receiver_thread_ids: Vec<String>,
    #[serde(rename = "agentsStates")]
    pub(super) states: Map<String, Value>,
    pub(super) status: Progress,
    /// The name of the subagent, in notifications that contain the name and not the prompt.
    #[serde(skip)]
    pub(super) name: Option<String>,
}

impl Agents {
    /// Returns true if the call makes a thread work.
    pub(super) fn is_start(&self) -> bool {
        self.tool == SPAWN || self.prompt.is_some()
    }
}

/// The form of [`Agents`] that Codex uses with newer models.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Activity {
    kind: String,
    agent_thread_id: String,
    agent_path: String,
}

impl Activity {
    /// Converts to the older form. None for the end of a thread, which the thread itself reports.
    fn agents(self, status: Progress) -> Option<Agents> {
        let tool = match self.kind.as_str() {
            "started" => SPAWN,
            "interacted" => "sendInput",
            "interrupted" => "interruptAgent",
            _ => return None,
        };
        let name = self.agent_path.rsplit('/').find(|name| !name.is_empty()).map(str::to_owned);
        let receiver_thread_ids = vec![self.agent_thread_id];
        Some(Agents { tool: tool.into(), receiver_thread_ids, status, name, ..Agents::default() })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Progress {
    #[default]
    #[serde(rename = "inProgress")]
    Running,
    Completed,
    Failed,
    Declined,
    Interrupted,
    #[serde(other)]
    Other,
}

/// Fields that most notifications have.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Scope {
    thread_id: Option<String>,
    turn_id: Option<String>,
    item_id: String,
    delta: String,
    summary_index: u64,
    diff: String,
    will_retry: bool,
    thread_name: Option<String>,
    message: String,
}

/// Decodes a notification. The error names the invalid field.
pub(super) fn notification(method: &str, mut params: Value) -> Result<CodexNotification, String> {
    let scope: Scope = read(method, params.clone())?;
    let (item, delta) = (scope.item_id, scope.delta);
    let mut turn = scope.turn_id;
    let notice = match method {
        "turn/started" => {
            turn = Some(field::<Turn>(method, &mut params, "turn")?.id);
            Notice::TurnStarted
        }
        "turn/completed" => {
            let ended: Turn = field(method, &mut params, "turn")?;
            turn = Some(ended.id.clone());
            Notice::TurnCompleted(ended)
        }
        "item/started" => Notice::ItemStarted(self::item(method, params.get_mut("item"))?),
        "item/completed" => Notice::ItemCompleted(self::item(method, params.get_mut("item"))?),
        "item/agentMessage/delta" | "item/plan/delta" => Notice::TextDelta { item, delta },
        "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
            Notice::ReasoningDelta { item, delta }
        }
        "item/reasoning/summaryPartAdded" => Notice::ReasoningPart { item, index: scope.summary_index },
        "item/commandExecution/outputDelta" => Notice::OutputDelta { item, delta },
        "item/fileChange/patchUpdated" => {
            Notice::PatchUpdated { item, changes: field(method, &mut params, "changes")? }
        }
        "turn/plan/updated" => Notice::PlanUpdated(field(method, &mut params, "plan")?),
        "turn/diff/updated" => Notice::DiffUpdated(scope.diff),
        "thread/tokenUsage/updated" => Notice::Usage(field(method, &mut params, "tokenUsage")?),
        "thread/status/changed" => Notice::Status(status(&params)),
        "error" => {
            Notice::Error { error: field(method, &mut params, "error")?, will_retry: scope.will_retry }
        }
        "serverRequest/resolved" => Notice::Resolved(field(method, &mut params, "requestId")?),
        "thread/compacted" => Notice::Compacted,
        "thread/goal/updated" => {
            let status = params.pointer("/goal/status").and_then(Value::as_str);
            Notice::Goal { active: status == Some("active") }
        }
        "thread/goal/cleared" => Notice::Goal { active: false },
        "thread/name/updated" => Notice::Named(scope.thread_name),
        "warning" | "configWarning" | "guardianWarning" => Notice::Warning(scope.message),
        "thread/closed" | "thread/deleted" => Notice::Closed,
        _ => Notice::Other,
    };
    Ok(CodexNotification { thread: scope.thread_id, turn, notice })
}

fn status(params: &Value) -> Status {
    match params.pointer("/status/type").and_then(Value::as_str) {
        Some("active") => Status::Active,
        Some("idle") => Status::Idle,
        Some("systemError") => Status::SystemError,
        _ => Status::Other,
    }
}

fn item(method: &str, value: Option<&mut Value>) -> Result<Item, String> {
    let value = value.map(Value::take).unwrap_or_default();
    let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (id, kind) = (text("id"), text("type"));
    let body = match kind.as_str() {
        "userMessage" => Body::User,
        "agentMessage" | "plan" => Body::Text(read(method, value)?),
        "reasoning" => Body::Reasoning(read(method, value)?),
        "commandExecution" => Body::Command(read(method, value)?),
        "fileChange" => Body::Change(read(method, value)?),
        "mcpToolCall" | "dynamicToolCall" => Body::Tool(read(method, value)?),
        "webSearch" => Body::Search(read(method, value)?),
        "imageView" => Body::Image(read(method, value)?),
        "collabAgentToolCall" => Body::Agents(read(method, value)?),
        "subAgentActivity" => {
            let status = if method == "item/completed" { Progress::Completed } else { Progress::Running };
            let activity: Activity = read(method, value)?;
            activity.agents(status).map_or(Body::Other(kind), Body::Agents)
        }
        "contextCompaction" => Body::Compaction,
        _ => Body::Other(kind),
    };
    Ok(Item { id, body })
}

fn field<T: DeserializeOwned>(method: &str, params: &mut Value, name: &str) -> Result<T, String> {
    read(method, params.get_mut(name).map(Value::take).unwrap_or_default())
}

/// Decodes the parameters of a message.
pub(super) fn read<T: DeserializeOwned>(method: &str, params: Value) -> Result<T, String> {
    serde_json::from_value(params).map_err(|error| format!("{method} cannot be decoded: {error}"))
}
