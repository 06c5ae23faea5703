//! The codec: parses a line into a message and encodes a message as a line.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::Payload;

/// The remote side does not offer the requested method.
pub const METHOD_NOT_FOUND: i64 = -32601;

/// The parameters of a request are invalid.
pub const INVALID_PARAMS: i64 = -32602;

/// A valid request failed.
pub const INTERNAL_ERROR: i64 = -32603;

/// The form in which messages are written; both forms are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// Messages name the protocol version, as the standard requires.
    #[default]
    Standard,
    /// Messages do not name the version, as Codex requires.
    Bare,
}

/// Identifies a request within one direction of a connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// A number; local requests use numbers.
    Number(i64),
    /// A string; some agents use strings.
    Text(String),
}

impl fmt::Display for Id {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(out),
            Self::Text(text) => text.fmt(out),
        }
    }
}

/// The error of a request that was refused or failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct ErrorObject {
    /// The kind of error; the standard reserves some codes.
    pub code: i64,
    #[serde(default)]
    pub message: String,
    /// Further details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl ErrorObject {
    /// A fault without further details.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The answer to a method that is not offered.
    pub fn unknown(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("the method {method} is not offered here"))
    }
}

/// A request, notification or response.
#[derive(Debug, Clone, PartialEq)]
pub enum Message<P = Value> {
    /// Requires a response.
    Request { id: Id, method: String, params: P },
    /// Requires no response.
    Notification { method: String, params: P },
    /// Answers a request.
    Response {
        /// The request; none if the remote side could not parse it.
        id: Option<Id>,
        result: Result<P, ErrorObject>,
    },
}

/// A line that is not a message. The text does not quote the line, because it may contain a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a line is not a JSON-RPC message: {0}")]
pub struct Malformed(pub String);

/// A message as it is encoded: the fields of all kinds.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(bound = "P: Payload")]
pub struct Line<P = Value> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    jsonrpc: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<Id>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    params: Option<P>,
    /// A result of null is a result.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    result: Option<P>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ErrorObject>,
}

fn present<'de, D: Deserializer<'de>, P: Payload>(from: D) -> Result<Option<P>, D::Error> {
    P::deserialize(from).map(Some)
}

impl Message {
    /// Reads a message from JSON that is already parsed.
    pub fn read(value: Value) -> Result<Self, Malformed> {
        // Serde would accept a list as the fields of a message in their order.
        if !value.is_object() {
            return Err(Malformed(NO_OBJECT.into()));
        }
        serde_json::from_value(value).map_err(|error| Malformed(describe(&error))).and_then(Self::of)
    }

    /// Encodes the message as a JSON value.
    pub fn value(self, dialect: Dialect) -> Value {
        self.line(dialect).value()
    }
}

impl<P: Payload> Message<P> {
    /// Parses a line, with or without its line ending.
    pub fn parse(line: &[u8]) -> Result<Self, Malformed> {
        if line.trim_ascii_start().starts_with(b"[") {
            return Err(Malformed(NO_OBJECT.into()));
        }
        serde_json::from_slice(line).map_err(|error| Malformed(describe(&error))).and_then(Self::of)
    }

    fn of(line: Line<P>) -> Result<Self, Malformed> {
        let params = line.params.unwrap_or_default();
        match (line.method, line.id, line.result, line.error) {
            (Some(method), Some(id), ..) => Ok(Self::Request { id, method, params }),
            (Some(method), None, ..) => Ok(Self::Notification { method, params }),
            (None, id, _, Some(fault)) => Ok(Self::Response { id, result: Err(fault) }),
            (None, Some(id), Some(result), None) => Ok(Self::Response { id: Some(id), result: Ok(result) }),
            (None, ..) => Err(Malformed("it has neither a method nor an answer".into())),
        }
    }

    /// Prepares the message for encoding.
    pub fn line(self, dialect: Dialect) -> Line<P> {
        let jsonrpc = (dialect == Dialect::Standard).then(|| Value::from("2.0"));
        let empty = Line { jsonrpc, ..Line::default() };
        match self {
            Self::Request { id, method, params } => {
                Line { id: Some(id), method: Some(method), params: unless_null(params), ..empty }
            }
            Self::Notification { method, params } => {
                Line { method: Some(method), params: unless_null(params), ..empty }
            }
            Self::Response { id, result: Ok(result) } => Line { id, result: Some(result), ..empty },
            Self::Response { id, result: Err(fault) } => Line { id, error: Some(fault), ..empty },
        }
    }
}

impl Line {
    /// Encodes the message as a JSON value.
    pub fn value(&self) -> Value {
        // Contains values and strings only, which always encode.
        serde_json::to_value(self).unwrap_or_default()
    }
}

const NO_OBJECT: &str = "it is not an object";

/// Describes a parse error without quoting the text.
fn describe(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Data => "a field has the wrong type",
        serde_json::error::Category::Eof => "it is incomplete",
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => "it is not JSON",
    };
    match error.column() {
        0 => what.into(),
        column => format!("{what} (column {column})"),
    }
}

fn unless_null<P: Payload>(params: P) -> Option<P> {
    (!params.is_null()).then_some(params)
}
