//! What goes wrong with MCP servers, in words that help.

use std::time::Duration;

use protocol::config::Mcp;
use protocol::mcp::McpStatus;
use reqwest::Url;

/// Values shorter than this are no secrets worth hiding, and hiding them makes errors unreadable.
const SHORTEST_SECRET: usize = 6;

/// Why an MCP server did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is none of this name.
    #[error("there is no MCP server \"{0}\"; the configuration names them under `mcp`")]
    Unknown(String),
    /// There is one, but it is not connected.
    #[error("the MCP server \"{server}\" is not connected: {why}")]
    Absent {
        /// The server.
        server: String,
        /// Why not.
        why: String,
    },
    /// It took too long.
    #[error(
        "the MCP server \"{server}\" did not answer within {}; `mcp.{server}.timeout` in the configuration sets how \
         many milliseconds it may take", span(*.limit)
    )]
    Slow {
        /// The server.
        server: String,
        /// How long was waited.
        limit: Duration,
    },
    /// It said no, or the connection broke.
    #[error("the MCP server \"{server}\" failed: {why}")]
    Failed {
        /// The server.
        server: String,
        /// Why.
        why: String,
    },
}

impl Error {
    pub(super) fn absent(server: &str, status: &McpStatus) -> Self {
        let why = match status {
            McpStatus::Connected => "it just went away".to_owned(),
            McpStatus::Disabled => "it is switched off".to_owned(),
            McpStatus::Failed { error } | McpStatus::NeedsClientRegistration { error } => error.clone(),
            McpStatus::NeedsAuth { .. } => "it wants somebody to log in".to_owned(),
        };
        Self::Absent { server: server.to_owned(), why }
    }
}

/// A time in words.
pub(super) fn span(time: Duration) -> String {
    if time.subsec_millis() == 0 {
        format!("{} s", time.as_secs())
    } else {
        format!("{} ms", time.as_millis())
    }
}

/// Takes what a server was given in confidence out of what is told about it: values of its environment and headers, and
/// whatever in its address is not the address itself.
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

/// The same for an address. Who writes about it may have left out its user or its fragment, so they are looked for one
/// by one.
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
    fn what_a_server_was_given_in_confidence_is_not_told() {
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
    fn a_slow_server_is_told_with_the_key_that_changes_it() {
        let slow = |millis| Error::Slow { server: "db".to_owned(), limit: Duration::from_millis(millis) };
        assert_eq!(
            slow(30_000).to_string(),
            "the MCP server \"db\" did not answer within 30 s; `mcp.db.timeout` in the configuration sets how many \
             milliseconds it may take"
        );
        assert!(slow(1_500).to_string().contains("1500 ms"));
    }
}
