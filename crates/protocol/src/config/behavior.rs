//! Smaller parts of a configuration: how the server listens, what is kept short, what is tried out.

use std::num::{NonZeroU16, NonZeroU32, NonZeroU64};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// What happens.
    Info,
    /// What is odd.
    Warn,
    /// What went wrong.
    Error,
}

/// How the server listens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ServerConfig {
    /// The port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<NonZeroU16>,
    /// The address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Whether it announces itself in the local network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mdns: Option<bool>,
    /// Under which name.
    #[serde(rename = "mdnsDomain", skip_serializing_if = "Option::is_none")]
    pub mdns_domain: Option<String>,
    /// Other origins whose pages may call it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cors: Vec<String>,
}

/// Who may see sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Share {
    /// Those that are shared on purpose.
    Manual,
    /// All.
    Auto,
    /// None.
    Disabled,
}

/// What to do about new versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum AutoUpdate {
    /// Take them, or not.
    Switch(bool),
    /// Only tell.
    Tell(Notify),
}

/// The word `notify`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Notify {
    /// Only tell.
    Notify,
}

/// Deprecated: how wide a terminal is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// As wide as is readable.
    Auto,
    /// All of it.
    Stretch,
}

/// What is not watched for changes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Watcher {
    /// Patterns of paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
}

/// When and how a long conversation is summarised.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Compaction {
    /// Whether it happens by itself; it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto: Option<bool>,
    /// Whether old output of tools is dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prune: Option<bool>,
    /// Turns at the end that are kept as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tail_turns: Option<u32>,
    /// Tokens at the end that are kept as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_recent_tokens: Option<u64>,
    /// Tokens that are left free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<u64>,
}

/// How much of a tool's output a model is given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ToolOutput {
    /// Lines; 2,000 unless this says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lines: Option<NonZeroU32>,
    /// Bytes; 51,200 unless this says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<NonZeroU64>,
}

/// What is done to attachments before a model gets them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Attachment {
    /// To pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageAttachment>,
}

/// What is done to pictures before a model gets them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ImageAttachment {
    /// Whether they are made smaller; they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_resize: Option<bool>,
    /// Greatest width in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_width: Option<NonZeroU32>,
    /// Greatest height in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_height: Option<NonZeroU32>,
    /// Greatest size, encoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_base64_bytes: Option<NonZeroU64>,
}

/// An enterprise's own installation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Enterprise {
    /// Its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// What is tried out and may change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Experimental {
    /// A turn goes on after somebody said no to a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continue_loop_on_deny: Option<bool>,
    /// Tools that only primary agents have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_tools: Option<Vec<String>>,
    /// Milliseconds an MCP server may take to answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp_timeout: Option<NonZeroU64>,
    /// Spans are sent to a collector.
    #[serde(rename = "openTelemetry", skip_serializing_if = "Option::is_none")]
    pub open_telemetry: Option<bool>,
    /// Terminals show pasted text in full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_paste_summary: Option<bool>,
    /// Without effect, in OpenCode too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch_tool: Option<bool>,
    /// What may be used at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<Policy>,
}

/// Something that may or may not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Policy {
    /// What is done.
    pub action: PolicyAction,
    /// Whether that is fine.
    pub effect: PolicyEffect,
    /// What it is done with; wildcards allowed.
    pub resource: String,
}

/// What a policy is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PolicyAction {
    /// Using a provider.
    #[serde(rename = "provider.use")]
    UseProvider,
}

/// What a policy says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PolicyEffect {
    /// It may.
    Allow,
    /// It may not.
    Deny,
}
