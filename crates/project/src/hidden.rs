//! Environment variables that child processes do not inherit: a command that a model writes needs none of Baton's keys.

use std::collections::BTreeSet;
use std::ffi::OsString;

use protocol::{
    config::{Config, Mcp, McpLogin},
    secret::is_secret,
};
use serde_json::Value;
use store::files::Environment;

use crate::{
    providers::{Providers, SHARED_KEYS},
    settings::Settings,
};

/// Variables that hold the server's password: Baton's own name and OpenCode's.
pub const PASSWORDS: [&str; 2] = ["BATON_PASSWORD", "OPENCODE_SERVER_PASSWORD"];

/// Variables that hold a whole configuration or key file, which may contain keys.
pub const SECRETS: [&str; 2] = ["OPENCODE_CONFIG_CONTENT", "OPENCODE_AUTH_CONTENT"];

/// The variable with the address of the database, which may contain its password.
pub const STORE: &str = "BATON_STORE";

/// The variable with the key that the nodes of a fleet share.
pub const FLEET_KEY: &str = "BATON_FLEET_KEY";

/// Shorter values are not taken for keys when the environment is searched for them.
const SHORTEST_KEY: usize = 8;

/// Variables hidden from commands, terminals, plugins and MCP servers: the server's password and every key that the server
/// uses itself.
pub(crate) fn from_commands(settings: &Settings, providers: &Providers) -> Vec<String> {
    let whole = SECRETS.into_iter().map(str::to_owned);
    from_agents(settings).into_iter().chain(whole).chain(providers.keys.iter().cloned()).collect()
}

/// Variables hidden from every external agent. An agent inherits the keys of its own providers besides, see
/// [`from_agent`].
fn from_agents(settings: &Settings) -> Vec<String> {
    let passwords = PASSWORDS.into_iter().chain([STORE, FLEET_KEY]).map(str::to_owned);
    let own = holding(written(&settings.loaded.config), &settings.environment);
    passwords.chain(own.filter(|name| !SHARED_KEYS.contains(&name.as_str()))).collect()
}

/// Variables hidden from one external agent. It calls models itself, so it inherits the keys for which `is_own` returns
/// true, and no other provider's.
pub(crate) fn from_agent(
    settings: &Settings,
    providers: &Providers,
    is_own: impl Fn(&str) -> bool,
) -> Vec<String> {
    let others = providers.keys.iter().filter(|name| !is_own(name)).cloned();
    from_agents(settings).into_iter().chain(others).collect()
}

/// Returns the variables that hold one of these secrets. They are found by value, because a configuration can take a key
/// from a variable of any name.
pub(crate) fn holding(
    secrets: impl IntoIterator<Item = String>,
    environment: &Environment,
) -> impl Iterator<Item = String> {
    let bare = |secret: String| secret.strip_prefix("Bearer ").unwrap_or(&secret).trim().to_owned();
    let secrets = secrets.into_iter().map(bare).filter(|secret| secret.len() >= SHORTEST_KEY);
    let secrets: BTreeSet<String> = secrets.collect();
    let holds = move |value: &OsString| value.to_str().is_some_and(|value| secrets.contains(value.trim()));
    environment.variables.iter().filter(move |(_, value)| holds(value)).map(|(name, _)| name.clone())
}

/// Returns the secrets of channels, webhooks and MCP servers in a configuration.
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

/// Collects the strings whose key names a secret.
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
