//! The configuration, and the answer of the health route.
//!
//! The keys are OpenCode's; Baton's own are at the end. [`schema()`] derives the JSON schema that validates files.
//! Deserialisation is more lenient than the schema: it keeps keys that this version does not know.
//!
//! `Debug` and `Serialize` leave secrets out, so a [`Config`] can be logged and sent to clients.

mod agent;
mod behavior;
mod bounds;
mod extend;
mod external;
mod permission;
mod provider;
mod schema;
mod secret;
mod webhook;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

pub use self::{
    agent::{AgentConfig, Color, CommandConfig, Skill, SkillsConfig},
    behavior::{
        Attachment, AutoUpdate, Compaction, Enterprise, Experimental, ImageAttachment, Layout, LogLevel,
        Notify, Policy, PolicyAction, PolicyEffect, ServerConfig, Share, ToolOutput, Watcher,
    },
    bounds::{
        Allowance, Budget, ContinuationConfig, Limits, Positive, Sandbox, SandboxConfig, SandboxMode,
        SessionsConfig, Webfetch,
    },
    extend::{
        False, Formatter, GitReference, LanguageServer, Local, LocalReference, Mcp, McpClient, McpLocal,
        McpLogin, McpRemote, McpSwitch, Plugin, Reference, Remote, Toggle,
    },
    external::{AcpAgents, Agents, OpenCode, PermissionMode, Program},
    permission::{Ordered, Permission, PermissionRule},
    provider::{
        CostConfig, InterleavedConfig, LimitConfig, ModalitiesConfig, Modality, ModelConfig, ModelProvider,
        ProviderConfig, ProviderOptions, Timeout,
    },
    schema::schema,
    secret::{Headers, Secret, Settings, Variables},
    webhook::{Address, Webhook, WebhookEvent},
};
use crate::{Extra, Rest};

/// A configuration: one file, or the merged result of all files. Also the answer of `GET /config`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Config {
    /// URL of the JSON schema of this file, for editors.
    #[serde(rename = "$schema")]
    pub schema: Option<String>,
    /// Default model, as `provider/model`.
    pub model: Option<String>,
    /// Model for titles and other small tasks, as `provider/model`.
    pub small_model: Option<String>,
    /// Providers by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provider: BTreeMap<String, ProviderConfig>,
    /// Providers to use; all others are disabled.
    pub enabled_providers: Option<Vec<String>>,
    /// Providers to disable.
    pub disabled_providers: Option<Vec<String>>,
    /// Agent for prompts that name none.
    pub default_agent: Option<String>,
    /// Agents by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agent: BTreeMap<String, AgentConfig>,
    /// Deprecated: primary agents by name. Use `agent`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mode: BTreeMap<String, AgentConfig>,
    /// Maximum nesting depth of subagents. Default: 1.
    pub subagent_depth: Option<u32>,
    /// Permission rules for all agents.
    pub permission: Option<Permission>,
    /// Deprecated: enables or disables tools by name. Use `permission`.
    #[serde(default, skip_serializing_if = "Ordered::is_empty")]
    pub tools: Ordered<bool>,
    /// MCP servers by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp: BTreeMap<String, Mcp>,
    /// Plugins to load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plugin: Vec<Plugin>,
    /// Instruction files: paths, glob patterns or URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<String>,
    /// Slash commands by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub command: BTreeMap<String, CommandConfig>,
    /// Additional sources of skills.
    pub skills: Option<SkillsConfig>,
    /// Directories and repositories that agents may refer to, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub references: BTreeMap<String, Reference>,
    /// Alias of `references`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reference: BTreeMap<String, Reference>,
    /// Summarising of long conversations.
    pub compaction: Option<Compaction>,
    /// Limits on the tool output that a model receives.
    pub tool_output: Option<ToolOutput>,
    /// Processing of attachments before a model receives them.
    pub attachment: Option<Attachment>,
    /// True to take snapshots, so that file changes can be reverted. Default: true.
    pub snapshot: Option<bool>,
    /// Sharing of sessions.
    pub share: Option<Share>,
    /// Deprecated: use `share`.
    pub autoshare: Option<bool>,
    /// Network settings of the HTTP server.
    pub server: Option<ServerConfig>,
    /// Programs that format files after a change.
    pub formatter: Option<Toggle<Formatter>>,
    /// Language servers by name, or a switch for all.
    pub lsp: Option<Toggle<LanguageServer>>,
    /// File watcher settings.
    pub watcher: Option<Watcher>,
    /// Shell that runs commands.
    pub shell: Option<String>,
    /// Display name of the user.
    pub username: Option<String>,
    /// Lowest severity that is logged.
    #[serde(rename = "logLevel")]
    pub log_level: Option<LogLevel>,
    /// Handling of new versions.
    pub autoupdate: Option<AutoUpdate>,
    /// A company's own installation of OpenCode.
    pub enterprise: Option<Enterprise>,
    /// Deprecated: width of the terminal UI.
    pub layout: Option<Layout>,
    /// Experimental settings, which may change.
    pub experimental: Option<Experimental>,
    /// Baton: permission rules that nothing overrides. They count only in the user's and the administrator's files.
    pub permission_final: Option<Permission>,
    /// Baton: spending limits.
    pub budget: Option<Budget>,
    /// Baton: automatic continuation of turns.
    pub continuation: Option<ContinuationConfig>,
    /// Baton: sandbox for commands.
    pub sandbox: Option<Sandbox>,
    /// Baton: address restrictions of `webfetch`.
    pub webfetch: Option<Webfetch>,
    /// Baton: timeouts and retry limits.
    pub limits: Option<Limits>,
    /// Baton: deletion of old sessions. Counts only in the user's own files.
    pub sessions: Option<SessionsConfig>,
    /// Baton: external agents that Baton supports by name.
    pub agents: Option<Agents>,
    /// Baton: agents that speak the Agent Client Protocol, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub acp: AcpAgents,
    /// Baton: true to commit a turn's changes when it ends. Default: false.
    pub auto_commit: Option<bool>,
    /// Baton: webhooks by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub webhook: BTreeMap<String, Webhook>,
    /// Baton: chat services through which users talk to sessions. It holds tokens, so clients never receive it.
    #[serde(default, skip_serializing)]
    pub channels: Option<Extra>,
    /// Keys that this version does not know. Those with secret-like names are not sent to clients.
    #[serde(flatten, serialize_with = "crate::secret::serialize")]
    #[schemars(skip)]
    pub extra: Extra,
}

/// The answer of `GET /global/health`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    pub healthy: bool,
    /// Version of OpenCode whose interface the server has. Plugins and clients of OpenCode compare it.
    pub version: String,
    /// Baton's own version; absent if the server is OpenCode.
    pub baton: Option<String>,
    /// Reason why the server cannot store anything at present; absent if all is well. Reads work in either case.
    pub problem: Option<String>,
    #[serde(flatten)]
    pub extra: Rest,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn secrets_do_not_survive_a_round_trip_of_a_configuration() {
        let config: Config = serde_json::from_value(json!({
            "model": "acme/large", "username": "ada", "apiKey": "sk-0",
            "provider": { "acme": { "options": { "apiKey": "sk-1", "baseURL": "https://acme.test" } } },
            "mcp": { "db": { "type": "local", "command": ["db"], "environment": { "URL": "postgres://u:sk-2@db" } } },
        }))
        .unwrap();
        assert_eq!(
            serde_json::to_value(config).unwrap(),
            json!({
                "model": "acme/large", "username": "ada",
                "provider": { "acme": { "options": { "baseURL": "https://acme.test" } } },
                "mcp": { "db": { "type": "local", "command": ["db"] } },
            })
        );
    }

    /// A configuration with every key.
    fn everything() -> Value {
        let mut all = json!({
            "$schema": "https://opencode.ai/config.json",
            "model": "acme/large",
            "small_model": "acme/small",
            "provider": { "acme": {
                "npm": "@ai-sdk/openai-compatible", "name": "Acme", "api": "https://acme.test", "env": ["ACME_KEY"],
                "whitelist": ["large"],
                "options": {
                    "baseURL": "https://acme.test", "setCacheKey": true, "timeout": false, "chunkTimeout": 1000,
                    "region": "eu",
                },
                "models": { "large": {
                    "name": "Large", "reasoning": true, "interleaved": { "field": "thoughts" },
                    "cost": { "input": 1, "output": 2.5, "context_over_200k": { "input": 2, "output": 5 } },
                    "limit": { "context": 1000, "output": 100 }, "modalities": { "input": ["text", "pdf"] },
                    "status": "beta", "provider": { "npm": "x" }, "options": { "effort": "high" },
                    "headers": { "x-feature": "on" }, "variants": { "fast": { "disabled": true } },
                } },
            } },
            "enabled_providers": ["acme"],
            "default_agent": "build",
            "agent": { "build": {
                "model": "acme/large", "temperature": 0.5, "top_p": 1, "mode": "primary", "color": "#ff5733",
                "steps": 5, "permission": { "bash": { "*": "ask" } }, "options": { "effort": "low" },
            } },
            "subagent_depth": 2,
            "permission": "allow",
            "mcp": {
                "there": { "type": "remote", "url": "https://mcp.test", "oauth": false, "timeout": 5 },
                "here": { "enabled": false },
            },
            "plugin": ["one", ["two", { "level": 2 }]],
            "instructions": ["docs/*.md"],
            "command": { "review": { "template": "Review $1", "subtask": true } },
            "skills": { "paths": ["~/skills"] },
            "references": { "std": "~/std", "lib": { "repository": "https://git.test/lib" } },
            "compaction": { "auto": true, "reserved": 10 },
            "tool_output": { "max_lines": 10 },
            "attachment": { "image": { "max_width": 100 } },
            "snapshot": false,
            "share": "disabled",
            "server": { "port": 4096, "cors": ["https://app.test"] },
            "formatter": { "prettier": { "disabled": true } },
            "lsp": false,
            "watcher": { "ignore": ["target"] },
            "shell": "/bin/sh",
            "username": "ada",
            "logLevel": "WARN",
            "autoupdate": "notify",
            "enterprise": { "url": "https://e.test" },
            "experimental": {
                "openTelemetry": true,
                "policies": [{ "action": "provider.use", "effect": "deny", "resource": "*" }],
            },
            "budget": { "cost": { "turn": 0.5, "session": 20 }, "minutes": { "turn": 30 } },
            "permission_final": { "bash": { "git push *": "ask" } },
            "sandbox": "workspace-write",
            "webfetch": { "private_addresses": true },
            "sessions": { "retention_days": 90 },
            "limits": { "request_seconds": 60, "request_reply": "reject" },
            "agents": { "codex": { "enabled": false }, "opencode-agent": { "url": "http://127.0.0.1:4096" } },
            "acp": { "mine": { "command": ["mine", "--acp"], "models": ["large"], "permission_mode": "plan" } },
        });
        all["continuation"] = json!({
            "enabled": true, "rounds": 5, "stagnant_rounds": 2, "tokens": 1000, "minutes": 1.5, "countdown_ms": 2000,
        });
        all["auto_commit"] = true.into();
        all["webhook"] = json!({ "chat": {
            "url": "https://hooks.test", "events": ["turn.end", "session.error"], "private_addresses": true,
            "enabled": false,
        } });
        all
    }

    #[test]
    fn every_key_survives_a_round_trip() {
        let config: Config = serde_json::from_value(everything()).unwrap();
        assert!(config.extra.is_empty(), "{:?}", config.extra);
        assert_eq!(serde_json::to_value(config).unwrap(), everything());
    }
}
