//! Errors of MCP servers.

use std::time::Duration;

use protocol::config::Mcp;
use protocol::mcp::McpStatus;
use reqwest::Url;

/// Shorter values are not hidden: they are hardly secrets, and hiding them makes errors unreadable.
const SHORTEST_SECRET: usize = 6;

/// A failed call to an MCP server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration has no server of this name.
    #[error("there is no MCP server \"{0}\"; the configuration names them under `mcp`")]
    Unknown(String),
    /// The server is configured but not connected.
    #[error("the MCP server \"{server}\" is not connected: {why}")]
    Absent { server: String, why: String },
    /// The server did not answer in time.
    #[error(
        "the MCP server \"{server}\" did not answer within {}; `mcp.{server}.timeout` in the configuration sets \
         the timeout in milliseconds", span(*.limit)
    )]
    Slow {
        server: String,
        /// The timeout that passed.
        limit: Duration,
    },
    /// The server returned an error, or the connection broke.
    #[error("the MCP server \"{server}\" failed: {why}")]
    Failed { server: String, why: String },
}

impl Error {
    pub(super) fn absent(server: &str, status: &McpStatus) -> Self {
        let why = match status {
            McpStatus::Connected => "it has just disconnected".to_owned(),
            McpStatus::Disabled => "it is disabled".to_owned(),
            McpStatus::Failed { error } | McpStatus::NeedsClientRegistration { error } => error.clone(),
            McpStatus::NeedsAuth { .. } => "it requires a login".to_owned(),
        };
        Self::Absent { server: server.to_owned(), why }
    }
}

/// Formats a duration.
pub(super) fn span(time: Duration) -> String {
    if time.subsec_millis() == 0 {
        format!("{} s", time.as_secs())
    } else {
        format!("{} ms", time.as_millis())
    }
}

/// Removes secrets of a server's configuration from a text: values of its environment and headers, and the login
/// and query of its URL.
pub(super) fn without_secrets(config: &Mcp, mut text: String) -> String {
    let values: Vec<&String> = match config {
        Mcp::Local(local) => local.environment.0.values().collect(),
        Mcp::Remote(remote) => remote.headers.0.values().collect(),
        Mcp::Switch(_) => Vec::new(),
    };
    if let Mcp::Remote(remote) = config {
        text = without_secrets_of(&remote.url, text);
    }
    for value in values.into_iter().filter(|value| value.len() >= SHORTEST_SECRET) {
        text = text.replace(value.as_str(), "…");
    }
    text
}

/// Removes the login and the query of a URL from a text. The text may contain the URL without its login or
/// fragment, so each secret is searched for separately.
fn without_secrets_of(address: &str, mut text: String) -> String {
    let Ok(url) = Url::parse(address) else { return text.replace(address, "its address") };
    let login = url.password().map(|password| format!("{}:{password}@", url.username()));
    let query = url.query().map(|query| format!("?{query}"));
    for (secret, shown) in [(login, ""), (query, "?…")] {
        if let Some(secret) = secret {
            text = text.replace(&secret, shown);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_of_the_configuration_are_hidden() {
        let local = serde_json::from_value(json!({
            "type": "local", "command": ["db"], "environment": { "TOKEN": "sk-secret", "LEVEL": "info" },
        }));
        let told = without_secrets(&local.unwrap(), "info: cannot log in with sk-secret".to_owned());
        assert_eq!(told, "info: cannot log in with …");
        let url = "https://ada:sk-first@mcp.test/v1?token=sk-second";
        let remote = serde_json::from_value(json!({
            "type": "remote", "url": url, "headers": { "Authorization": "Bearer sk-third" },
        }));
        let told = without_secrets(&remote.unwrap(), format!("no answer from {url} to Bearer sk-third"));
        assert_eq!(told, "no answer from https://mcp.test/v1?… to …");
    }

    #[test]
    fn a_timeout_names_the_key_that_changes_it() {
        let slow = |millis| Error::Slow { server: "db".to_owned(), limit: Duration::from_millis(millis) };
        assert_eq!(
            slow(30_000).to_string(),
            "the MCP server \"db\" did not answer within 30 s; `mcp.db.timeout` in the configuration sets the timeout \
             in milliseconds"
        );
        assert!(slow(1_500).to_string().contains("1500 ms"));
    }
}
