//! Warnings about a directory's configuration.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

use crate::Rest;

/// A warning about a directory's configuration: turns run there, but a part of the configuration has no effect or not
/// the intended one. An element of the answer of `GET /config/diagnostics`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnostic {
    pub kind: DiagnosticKind,
    /// Cause and remedy. Never contains a configured value that may be a secret.
    pub message: String,
    /// File or environment variable that contains the cause.
    pub source: Option<String>,
    /// Line in the file, counted from 1.
    pub line: Option<u32>,
    /// Character in the line, counted from 1.
    pub column: Option<u32>,
    /// Key as a path such as `mcp.db`.
    pub key: Option<String>,
    #[serde(flatten)]
    pub extra: Rest,
}

/// Part of the configuration that a warning concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiagnosticKind {
    /// A configuration file or a variable: an unknown key, an unset variable, a missing file, an unknown model or agent.
    Config,
    /// An MCP server that is not available.
    Mcp,
    /// A plugin that was skipped or has failed.
    Plugin,
    /// A part that has no effect because the directory is not trusted.
    Trust,
}

impl Diagnostic {
    /// A warning without a position.
    pub fn new(kind: DiagnosticKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            source: None,
            line: None,
            column: None,
            key: None,
            extra: Rest::NONE,
        }
    }

    /// The same warning about a key.
    #[must_use]
    pub fn at_key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }
}

/// One line for a terminal or a log: `FILE:LINE:COLUMN: message`.
impl fmt::Display for Diagnostic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = &self.source {
            write!(out, "{source}:")?;
            for number in [self.line, self.column].into_iter().flatten() {
                write!(out, "{number}:")?;
            }
            write!(out, " ")?;
        }
        write!(out, "{}", self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_one_line_with_its_position() {
        let plain = Diagnostic::new(DiagnosticKind::Config, "`modle` is not a known key");
        assert_eq!(plain.to_string(), "`modle` is not a known key");
        let variable = Diagnostic { source: Some("OPENCODE_CONFIG".into()), ..plain.clone() };
        assert_eq!(variable.to_string(), "OPENCODE_CONFIG: `modle` is not a known key");
        let file =
            Diagnostic { source: Some("/p/opencode.json".into()), line: Some(2), column: Some(5), ..plain };
        assert_eq!(file.to_string(), "/p/opencode.json:2:5: `modle` is not a known key");
    }
}
