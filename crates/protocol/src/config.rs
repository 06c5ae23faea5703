//! What people configure, and what a server says about itself.
//!
//! The keys are OpenCode's; those at the end are Baton's own. The types say what is allowed where, and
//! [`schema()`] turns them into the JSON schema that files are held against. Reading a value into them is more
//! forgiving than that: a key that a newer version knows is no reason not to understand the rest.
//!
//! `Debug` and `Serialize` leave secrets out, so a [`Config`] can be logged and sent.

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

pub use self::{
    agent::{AgentConfig, Color, CommandConfig, Skill, SkillsConfig},
    behavior::{
        Attachment, AutoUpdate, Compaction, Enterprise, Experimental, ImageAttachment, Layout, LogLevel,
        Notify, Policy, PolicyAction, PolicyEffect, ServerConfig, Share, ToolOutput, Watcher,
    },
    bounds::{
        Allowance, Budget, ContinuationConfig, Limits, Positive, Sandbox, SandboxConfig, SandboxMode,
        Webfetch,
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

/// A configuration: one file's, or what many amount to. Also the answer of `GET /config`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Config {
    /// Where the schema of this file is, for editors.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// The model to use when nothing else says so, as `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model for titles and other small jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub small_model: Option<String>,
    /// Providers, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub provider: BTreeMap<String, ProviderConfig>,
    /// Only these providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled_providers: Option<Vec<String>>,
    /// Not these providers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled_providers: Option<Vec<String>>,
    /// The agent to use when nothing else says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_agent: Option<String>,
    /// Agents, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub agent: BTreeMap<String, AgentConfig>,
    /// Deprecated: primary agents, by name. Say `agent`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mode: BTreeMap<String, AgentConfig>,
    /// How deep subagents may nest; 1 unless this says otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent_depth: Option<u32>,
    /// What agents may do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<Permission>,
    /// Deprecated: tools to switch on or off. Say `permission`.
    #[serde(default, skip_serializing_if = "Ordered::is_empty")]
    pub tools: Ordered<bool>,
    /// MCP servers, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp: BTreeMap<String, Mcp>,
    /// Plugins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plugin: Vec<Plugin>,
    /// Files with instructions: paths, patterns or addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<String>,
    /// Slash commands, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub command: BTreeMap<String, CommandConfig>,
    /// More places with skills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<SkillsConfig>,
    /// Directories that agents may refer to, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub references: BTreeMap<String, Reference>,
    /// Another word for `references`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reference: BTreeMap<String, Reference>,
    /// When and how a long conversation is summarised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction>,
    /// How much of a tool's output a model is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_output: Option<ToolOutput>,
    /// What is done to attachments before a model gets them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attachment: Option<Attachment>,
    /// Whether changes to files can be taken back; they can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<bool>,
    /// Who may see sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// Deprecated: say `share`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoshare: Option<bool>,
    /// How the server listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerConfig>,
    /// Programs that format files after they were changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub formatter: Option<Toggle<Formatter>>,
    /// Language servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lsp: Option<Toggle<LanguageServer>>,
    /// What is not watched for changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watcher: Option<Watcher>,
    /// The shell that runs commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shell: Option<String>,
    /// What the user is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// How much is logged.
    #[serde(rename = "logLevel", skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
    /// What to do about new versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoupdate: Option<AutoUpdate>,
    /// An enterprise's own installation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enterprise: Option<Enterprise>,
    /// Deprecated: how wide a terminal is used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// What is tried out and may change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experimental: Option<Experimental>,
    /// Baton: permission rules that nothing overrides; they count in the user's and the administrator's files only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission_final: Option<Permission>,
    /// Baton: what may be spent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Baton: when turns go on by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuation: Option<ContinuationConfig>,
    /// Baton: what commands may touch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
    /// Baton: where `webfetch` may go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webfetch: Option<Webfetch>,
    /// Baton: bounds of waits and repetitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Baton: other people's agents that are known by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agents: Option<Agents>,
    /// Baton: agents that speak the Agent Client Protocol, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub acp: AcpAgents,
    /// Baton: whether what a turn has changed is committed when it ends; it is not unless this says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_commit: Option<bool>,
    /// Baton: who is told outside of what happens, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub webhook: BTreeMap<String, Webhook>,
    /// Baton: chats through which people talk to sessions. It holds tokens, so nobody is shown it.
    #[serde(default, skip_serializing)]
    pub channels: Option<Extra>,
    /// Keys this version does not know; secrets are left out when they are sent.
    #[serde(flatten, serialize_with = "crate::secret::serialize")]
    #[schemars(skip)]
    pub extra: Extra,
}

/// The answer of `GET /global/health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Health {
    /// It answers, so it is.
    pub healthy: bool,
    /// Version of the server.
    pub version: String,
    /// Why nothing can be stored at present, for people; absent while all is well. Reading works all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Fields this version does not know.
    #[serde(flatten)]
    pub extra: Rest,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn a_configuration_passes_through_without_its_secrets() {
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

    /// One of everything, as it comes back.
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
    fn every_key_comes_back_the_same() {
        let config: Config = serde_json::from_value(everything()).unwrap();
        assert!(config.extra.is_empty(), "{:?}", config.extra);
        assert_eq!(serde_json::to_value(config).unwrap(), everything());
    }
}
