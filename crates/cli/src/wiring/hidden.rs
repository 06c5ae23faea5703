//! The variables that programs do not inherit: a command that a model has thought of needs no key of Baton's.

use std::collections::BTreeSet;
use std::ffi::OsString;

use protocol::{
    config::{Config, Mcp, McpLogin},
    secret::is_secret,
};
use serde_json::Value;
use store::files::Environment;

use super::{
    providers::{FOR_OTHER_REASONS, Providers},
    settings::Settings,
};
use crate::environment;

/// Shorter values are not taken for keys when they are looked for in the environment.
const SHORTEST_KEY: usize = 8;

/// What commands, terminals, plugins and MCP servers do not inherit: the way into the server, and every key of its own.
pub(super) fn from_commands(settings: &Settings, providers: &Providers) -> Vec<String> {
    let whole = environment::SECRETS.into_iter().map(str::to_owned);
    from_agents(settings).into_iter().chain(whole).chain(providers.keys.iter().cloned()).collect()
}

/// What other people's agents do not inherit. They call models themselves, so they keep the keys of providers.
pub(super) fn from_agents(settings: &Settings) -> Vec<String> {
    let passwords = environment::PASSWORDS.into_iter().map(str::to_owned);
    let own = holding(written(&settings.loaded.config), &settings.environment);
    passwords.chain(own.filter(|name| !FOR_OTHER_REASONS.contains(&name.as_str()))).collect()
}

/// The variables that hold one of these secrets. They may have any name: configurations take keys from where they like.
pub(super) fn holding(
    secrets: impl IntoIterator<Item = String>,
    environment: &Environment,
) -> impl Iterator<Item = String> {
    let bare = |secret: String| secret.strip_prefix("Bearer ").unwrap_or(&secret).trim().to_owned();
    let secrets = secrets.into_iter().map(bare).filter(|secret| secret.len() >= SHORTEST_KEY);
    let secrets: BTreeSet<String> = secrets.collect();
    let holds = move |value: &OsString| value.to_str().is_some_and(|value| secrets.contains(value.trim()));
    environment.variables.iter().filter(move |(_, value)| holds(value)).map(|(name, _)| name.clone())
}

/// Secrets of chats, webhooks and MCP servers, as the configuration says them.
fn written(config: &Config) -> Vec<String> {
    let mut found = Vec::new();
    for (name, value) in config.channels.iter().flatten() {
        collect(name, value, &mut found);
    }
    for webhook in config.webhook.values() {
        found.push(webhook.url.reveal().to_owned());
        found.extend(webhook.secret.iter().map(|secret| secret.reveal().to_owned()));
    }
    for server in config.mcp.values() {
        let Mcp::Remote(remote) = server else { continue };
        found.extend(
            remote.headers.0.iter().filter(|(name, _)| is_secret(name)).map(|(_, value)| value.clone()),
        );
        if let Some(McpLogin::Client(client)) = &remote.oauth {
            found.extend(client.client_secret.iter().map(|secret| secret.reveal().to_owned()));
        }
    }
    found
}

/// The texts under names that tell of a secret.
fn collect(name: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(text) if is_secret(name) => found.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| collect(name, item, found)),
        Value::Object(fields) => fields.iter().for_each(|(name, value)| collect(name, value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn variables_with_secrets_of_the_configuration_are_known_by_their_values() {
        let config: Config = serde_json::from_value(json!({
            "channels": { "telegram": { "token": "123:chat-token", "people": ["chat-people"] } },
            "webhook": { "one": { "url": "https://example.com/hook-address", "secret": "hook-secret" } },
            "mcp": { "far": { "type": "remote", "url": "https://example.com", "headers": { "Authorization": "Bearer mcp-header-1" } } },
        }))
        .unwrap();
        let environment = Environment::of([
            ("CHAT", "123:chat-token"),
            ("PEOPLE", "chat-people"),
            ("HOOK", "hook-secret"),
            ("ADDRESS", "https://example.com/hook-address"),
            ("HEADER", "mcp-header-1"),
            ("PATH", "/bin"),
        ]);
        let names: Vec<String> = holding(written(&config), &environment).collect();
        assert_eq!(names, ["ADDRESS", "CHAT", "HEADER", "HOOK"]);
    }
}
