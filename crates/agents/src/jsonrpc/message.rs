//! The codec: what one line says, and the line that says it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The other side does not know what was asked of it.
pub const METHOD_NOT_FOUND: i64 = -32601;

/// The parameters of a request make no sense.
pub const INVALID_PARAMS: i64 = -32602;

/// Something went wrong with a request that was understood.
pub const INTERNAL_ERROR: i64 = -32603;

/// Whether messages name the version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// They do, as the standard wants it.
    #[default]
    Standard,
    /// They do not, as Codex wants it.
    Bare,
}

/// Names a request, within one direction of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Id {
    /// A number, as ours are.
    Number(i64),
    /// A text, as some agents prefer.
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

/// Why a request was not granted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct Fault {
    /// Which kind; the standard has reserved some.
    pub code: i64,
    /// For people.
    #[serde(default)]
    pub message: String,
    /// Whatever else there is to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl Fault {
    /// A fault without further data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The answer to a method that is not offered.
    pub fn unknown(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("the method {method} is not offered here"))
    }
}

/// What one line says.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// Something is asked and wants an answer.
    Request {
        /// Its name, for the answer.
        id: Id,
        /// What is asked.
        method: String,
        /// With what; null if with nothing.
        params: Value,
    },
    /// Something is said.
    Notification {
        /// What is said.
        method: String,
        /// With what; null if with nothing.
        params: Value,
    },
    /// An answer.
    Response {
        /// To which request; none if the other side could not read it.
        id: Option<Id>,
        /// What came of it.
        result: Result<Value, Fault>,
    },
}

/// Something that is no message. What it says is not repeated, because nobody knows what that is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a line is no JSON-RPC message: {0}")]
pub struct Malformed(pub String);

/// All fields that any message has.
#[derive(Default, Serialize, Deserialize)]
struct Wire {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    jsonrpc: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<Id>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    params: Option<Value>,
    /// An answer of null is an answer.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    result: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<Fault>,
}

fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl Message {
    /// Reads a line, with or without its end, in either dialect.
    pub fn parse(line: &[u8]) -> Result<Self, Malformed> {
        serde_json::from_slice(line).map_err(|error| Malformed(describe(&error))).and_then(Self::read)
    }

    /// Reads what was a line.
    pub fn read(value: Value) -> Result<Self, Malformed> {
        // A list could be taken for the fields of a message in their order.
        if !value.is_object() {
            return Err(Malformed("it is not an object".into()));
        }
        serde_json::from_value(value).map_err(|error| Malformed(describe(&error))).and_then(Self::of)
    }

    fn of(wire: Wire) -> Result<Self, Malformed> {
        let params = wire.params.unwrap_or_default();
        match (wire.method, wire.id, wire.result, wire.error) {
            (Some(method), Some(id), ..) => Ok(Self::Request { id, method, params }),
            (Some(method), None, ..) => Ok(Self::Notification { method, params }),
            (None, id, _, Some(fault)) => Ok(Self::Response { id, result: Err(fault) }),
            (None, Some(id), Some(result), None) => Ok(Self::Response { id: Some(id), result: Ok(result) }),
            (None, ..) => Err(Malformed("it has neither a method nor an answer".into())),
        }
    }

    /// What is to be a line.
    pub fn value(self, dialect: Dialect) -> Value {
        let jsonrpc = (dialect == Dialect::Standard).then(|| Value::from("2.0"));
        let empty = Wire { jsonrpc, ..Wire::default() };
        let wire = match self {
            Self::Request { id, method, params } => {
                Wire { id: Some(id), method: Some(method), params: said(params), ..empty }
            }
            Self::Notification { method, params } => {
                Wire { method: Some(method), params: said(params), ..empty }
            }
            Self::Response { id, result: Ok(result) } => Wire { id, result: Some(result), ..empty },
            Self::Response { id, result: Err(fault) } => Wire { id, error: Some(fault), ..empty },
        };
        // Only values and texts are in it: nothing that could fail to become JSON.
        serde_json::to_value(&wire).unwrap_or_default()
    }
}

/// What the parser did not like, without the text it did not like.
fn describe(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        serde_json::error::Category::Data => "a field is not what it should be",
        serde_json::error::Category::Eof => "it stops in the middle",
        serde_json::error::Category::Syntax | serde_json::error::Category::Io => "it is not JSON",
    };
    match error.column() {
        0 => what.into(),
        column => format!("{what} (column {column})"),
    }
}

fn said(params: Value) -> Option<Value> {
    (!params.is_null()).then_some(params)
}
