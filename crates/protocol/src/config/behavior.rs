//! Smaller parts of a configuration: the HTTP server, compaction, tool output, attachments and experimental keys.

use std::num::{NonZeroU16, NonZeroU32, NonZeroU64};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// Lowest severity that is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum LogLevel {
    Debug,
    Info,
    Warn,
    Error,
}

/// Network settings of the HTTP server.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ServerConfig {
    pub port: Option<NonZeroU16>,
    /// Address to listen on.
    pub hostname: Option<String>,
    /// True to announce the server on the local network (mDNS).
    pub mdns: Option<bool>,
    /// Host name to announce with mDNS.
    #[serde(rename = "mdnsDomain")]
    pub mdns_domain: Option<String>,
    /// Additional origins that may call the server from a browser.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cors: Vec<String>,
}

/// Selects the sessions that are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Share {
    /// Sessions that the user shares explicitly.
    Manual,
    /// Shares all sessions.
    Auto,
    /// Shares no session.
    Disabled,
}

/// Handling of new versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
pub enum AutoUpdate {
    /// Install them (`true`) or ignore them (`false`).
    Switch(bool),
    /// Only notify the user.
    Tell(Notify),
}

/// The literal `notify`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum Notify {
    Notify,
}

/// Deprecated: width of the terminal UI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// A readable width.
    Auto,
    /// The full width of the terminal.
    Stretch,
}

/// File watcher settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Watcher {
    /// Glob patterns of paths that are not watched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
}

/// Summarising of long conversations.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Compaction {
    /// True to summarise automatically when the context is full. Default: true.
    pub auto: Option<bool>,
    /// True to drop old tool outputs.
    pub prune: Option<bool>,
    /// Number of recent turns to keep verbatim.
    pub tail_turns: Option<u32>,
    /// Number of recent tokens to keep verbatim.
    pub preserve_recent_tokens: Option<u64>,
    /// Number of tokens to keep free in the model's context.
    pub reserved: Option<u64>,
}

/// Limits on the tool output that a model receives.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ToolOutput {
    /// Maximum number of lines. Default: 2,000.
    pub max_lines: Option<NonZeroU32>,
    /// Maximum number of bytes. Default: 51,200.
    pub max_bytes: Option<NonZeroU64>,
}

/// Processing of attachments before a model receives them.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Attachment {
    pub image: Option<ImageAttachment>,
}

/// Limits for images before a model receives them.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ImageAttachment {
    /// True to scale large images down. Baton accepts the key and ignores it.
    pub auto_resize: Option<bool>,
    /// Maximum width in pixels.
    pub max_width: Option<NonZeroU32>,
    /// Maximum height in pixels.
    pub max_height: Option<NonZeroU32>,
    /// Maximum size in bytes, base64-encoded.
    pub max_base64_bytes: Option<NonZeroU64>,
}

/// A company's own installation of OpenCode.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Enterprise {
    pub url: Option<String>,
}

/// Experimental settings, which may change.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Experimental {
    /// True to continue a turn after the user refuses a request.
    pub continue_loop_on_deny: Option<bool>,
    /// Tools that only primary agents may use.
    pub primary_tools: Option<Vec<String>>,
    /// Timeout of an MCP server's answer, in milliseconds.
    pub mcp_timeout: Option<NonZeroU64>,
    /// True to send traces to an OTLP collector.
    #[serde(rename = "openTelemetry")]
    pub open_telemetry: Option<bool>,
    /// True to show pasted text in full in the terminal UI.
    pub disable_paste_summary: Option<bool>,
    /// No effect, in OpenCode either.
    pub batch_tool: Option<bool>,
    /// Rules that allow or deny providers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policies: Vec<Policy>,
}

/// A rule that allows or denies the use of a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Policy {
    pub action: PolicyAction,
    pub effect: PolicyEffect,
    /// Resource that the rule is about; wildcards allowed.
    pub resource: String,
}

/// An action that a policy decides about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PolicyAction {
    /// Use of a provider.
    #[serde(rename = "provider.use")]
    UseProvider,
}

/// Decision of a policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PolicyEffect {
    Allow,
    Deny,
}
